# SPDX-License-Identifier: GPL-3.0-or-later
"""P1 to P4: ports and cables, names and GUIDs, numbers of cables, oversubscription."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import guid_of

from ..core.fabric_model import COMPUTE, MANAGEMENT, Hca, Link, PlanProblem, Switch
from ..core.guid_files import is_guid
from ..core.places import End
from ..topology.slurm_names import safe
from .plan_index import View, most_common, plan_problem

# Names of Slurm and NodeDescriptions.
LONGEST = 64
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
_PORTS_OF_HCA = 1


def ends(view: View) -> Iterator[PlanProblem]:
    """P1: both ends of a cable exist, and no port has two cables."""
    taken: dict[End, Link] = {}
    for link in view.plan.links:
        both = link.ends
        if link.a == link.b:
            yield plan_problem("P1", view.port((link.a, link.a_port)), f"a cable from {link.a} to itself")
            continue
        if link.a in view.plan.hcas and link.b in view.plan.hcas:
            yield plan_problem(
                "P1", view.port((link.a, link.a_port)), f"a cable to {view.port((link.b, link.b_port))}: both are HCAs"
            )
        for end, other in (both, both[::-1]):
            name, port = end
            thing = view.plan.switches.get(name) or view.plan.hcas.get(name)
            if thing is None:
                yield plan_problem(
                    "P1", view.port(other), f"its cable goes to {name} port {port}, which is not in the plan"
                )
                continue
            ports = thing.ports if isinstance(thing, Switch) else _PORTS_OF_HCA
            if isinstance(thing, Hca) and port == 2:
                text = "a plan has one port of an HCA: name the second one as a separate HCA, as Linux does"
                yield plan_problem("P1", view.port(end), text)
            elif not 1 <= port <= ports:
                yield plan_problem(
                    "P1",
                    view.port(end),
                    f"port {port} does not exist, but has the cable to {view.port(other)}; allowed: 1 to {ports}",
                )
            if end in taken:
                (first,) = (far for far in taken[end].ends if far != end)
                yield plan_problem(
                    "P1",
                    view.port(end),
                    f"two cables are planned in it: to {view.port(first)} and to {view.port(other)}",
                )
            else:
                taken[end] = link


def cages(view: View) -> Iterator[PlanProblem]:
    """P1: ports of a switch fill its cages."""
    for switch in view.plan.switches.values():
        if switch.lanes < 1 or switch.ports < 1 or switch.ports % switch.lanes:
            text = f"{switch.ports} ports do not fill cages of {switch.lanes}; allowed: a multiple"
            yield plan_problem("P1", view.plan.where(switch.name), text)


def names(view: View) -> Iterator[PlanProblem]:
    """P2: names are unique in any case, short enough, and text to Slurm and YAML."""
    plan = view.plan
    seen: dict[str, str] = {}
    hosts = dict.fromkeys(hca.host for hca in plan.hcas.values())
    racks = {hca.host: hca.rack for hca in plan.hcas.values()}
    for what, found in (("switch", list(plan.switches)), ("host", list(hosts)), ("HCA", list(plan.hcas))):
        for name in found:
            wrong = list(_name(name, what))
            if (other := seen.setdefault(name.lower(), f"{what} {name}")) != f"{what} {name}":
                wrong.insert(0, f"{what} {name} has the name of {other}; upper and lower case are the same here")
            for text in wrong:
                where = plan.where(name) if what != "host" else f"rack {racks[name]}, {name}" if racks[name] else name
                yield plan_problem("P2", where, text)
    named: list[tuple[str, Switch | Hca]] = [*plan.switches.items(), *plan.hcas.items()]
    for key, thing in named:
        if key != thing.name:
            yield plan_problem("P2", plan.where(key), f"is in the plan as {key} and calls itself {thing.name}")


def _name(name: str, what: str) -> Iterator[str]:
    if len(name.encode(errors="surrogateescape")) > LONGEST:
        yield f"the name {name} has more than {LONGEST} bytes"
    words = name.split(" ") if what == "HCA" else [name]
    if not all(_PLAIN.match(word) for word in words) or len(words) > 2:
        yield f"the name {name!r} does not fit in a hostlist; allowed: letters, digits and _.-"
    elif what != "HCA" and len(name) <= LONGEST and safe(name) != name:
        yield f"the name {name!r} is read as a number or as yes or no, and not as text; call it such as {safe(name)}"


def guids(view: View) -> Iterator[PlanProblem]:
    """P2: GUIDs are GUIDs, and no two nodes and no two ports have the same."""
    nodes: dict[str, str] = {}
    ports: dict[str, str] = {}
    for thing in view.things():
        values = [("node", thing.guid, nodes)]
        if isinstance(thing, Hca):
            values.append(("port", thing.port_guid, ports))
        for sort, text, seen in values:
            if not text:
                continue
            guid = guid_of(text)
            if not is_guid(text):
                yield plan_problem(
                    "P2",
                    view.plan.where(thing.name),
                    f"its {sort} GUID {text!r} is not valid; allowed: at most 16 hexadecimal digits, not all 0 or f",
                )
            elif guid in seen:
                where = view.plan.where(thing.name)
                yield plan_problem("P2", where, f"has the {sort} GUID {guid} of {view.plan.where(seen[guid])}")
            else:
                seen[guid] = thing.name


def counts(view: View) -> Iterator[PlanProblem]:
    """P3: every HCA has a cable, and switches of a tier and plane with as many cables from below have as many up."""
    for hca in view.plan.hcas.values():
        if hca.name not in view.cable:
            yield plan_problem("P3", view.plan.where(hca.name), "no cable goes to it")
    if not view.is_tree:
        return
    tops = view.tops()
    down = _from_below(view)
    alike: dict[tuple[str, int, int], list[Switch]] = {}
    for switch in view.plan.switches.values():
        if switch.tier < tops[switch.plane]:
            alike.setdefault((switch.plane, switch.tier, down[switch.name]), []).append(switch)
    for (plane, tier, _down), switches in alike.items():
        ups = [sum(view.planned.get(switch.name, {}).values()) for switch in switches]
        usual = most_common(ups)
        for switch, up in zip(switches, ups, strict=True):
            if up != usual:
                total = usual * len(switches)
                text = f"{up} cables go up from it, and {usual} from others of its tier{f' in plane {plane}' if plane else ''}"
                yield plan_problem(
                    "P3",
                    view.plan.where(switch.name),
                    f"{text}: {sum(ups)} cables above tier {tier}, expected {total}",
                )


def _from_below(view: View) -> Counter[str]:
    """Return switch -> planned cables from HCAs and lower switches."""
    found: Counter[str] = Counter()
    for name, link in view.cable.items():
        found[link.b if link.a == name else link.a] += 1
    for above in view.planned.values():
        found.update(above)
    return found


def oversubscription(view: View) -> Iterator[PlanProblem]:
    """P4: a switch has enough cables up for those from below; subnet managers and the like load none."""
    if not view.is_tree:
        return
    tops, allowed = view.tops(), view.plan.oversubscription
    down, without_storage = _load(view)
    for switch in view.plan.switches.values():
        load = down[switch.name]
        up = sum(view.present.get(switch.name, {}).values())
        meant = sum(view.planned.get(switch.name, {}).values())
        # A switch without any is P5's.
        if switch.tier >= tops[switch.plane] or not up or load <= allowed * up:
            continue
        text = f"{load} cables from below and {up} up are {load / up:.2f} to 1, and {allowed:g} to 1 is allowed"
        # Storage takes fewer uplinks as a rule; it is told all the same.
        purposely = load <= allowed * meant or without_storage[switch.name] <= allowed * up
        yield plan_problem(
            "P4", view.plan.where(switch.name), text + _missing(meant - up), "warning" if purposely else "error"
        )


def _load(view: View) -> tuple[Counter[str], Counter[str]]:
    """Return switch -> cables from below that carry load, and those without leaves that hold storage alone."""
    purposes: dict[str, Counter[str]] = {}
    for name, link in view.cable.items():
        leaf = link.b if link.a == name else link.a
        purposes.setdefault(leaf, Counter())[view.plan.hcas[name].purpose] += not link.missing
    down = Counter({leaf: sum(found.values()) - found[MANAGEMENT] for leaf, found in purposes.items()})
    light = {leaf for leaf, found in purposes.items() if not found[COMPUTE]}
    part = Counter({leaf: 0 if leaf in light else count for leaf, count in down.items()})
    idle = {leaf for leaf in light if not down[leaf]}
    for low, above in view.present.items():
        for high, cables in above.items():
            down[high] += 0 if low in idle else cables
            part[high] += 0 if low in light else cables
    return down, part


def pairs(view: View) -> Iterator[PlanProblem]:
    """P4: a switch has as many cables to each switch above it as to the others: routing cannot balance uneven numbers."""
    if not view.is_tree:
        return
    for low, above in view.planned.items():
        usual = most_common(list(above.values()))
        there = view.present.get(low, Counter())
        for high in above:
            if above[high] != usual:
                text = f"{above[high]} cables go to {high}, and {usual} to others of its tier"
                yield plan_problem("P4", view.plan.where(low), text)
            elif there[high] != usual:
                text = f"{there[high]} cables go to {high}, and {usual} to others of its tier{_missing(usual - there[high])}"
                yield plan_problem("P4", view.plan.where(low), text, "warning")


def _missing(count: int) -> str:
    return f"; {count} more {'is' if count == 1 else 'are'} left out on purpose" if count else ""
