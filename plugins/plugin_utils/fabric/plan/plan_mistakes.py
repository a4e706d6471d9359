# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes of the plan of a fabric, in the form of the cluster file's own: file, line, key, value, allowed values.

Nothing is read again, and no line is looked up, where nothing is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from ...cluster import Cluster
from ...cluster.schema.fields import Path, dotted
from ...cluster.schema.late_mistakes import MistakeCollector
from ..core.fabric_model import Plan, PlanProblem

# Invariant -> keys of the cluster file that mend it, the usual one first; the table in docs/fabric.md has them, too.
MENDED_BY: dict[str, tuple[Path, ...]] = {
    "P1": (("fabric", "cage_ports"), ("fabric", "switch_ports")),
    "P2": (("racks",), ("hosts",), ("fabric", "spines"), ("fabric", "cores"), ("fabric", "leaves")),
    "P3": (("fabric", "uplinks"), ("fabric", "spines"), ("fabric", "cores"), ("racks",)),
    "P4": (("fabric", "uplinks"), ("fabric", "oversubscription"), ("fabric", "missing"), ("racks",)),
    "P5": (("fabric", "missing"), ("fabric", "spines"), ("fabric", "cores"), ("fabric", "leaves")),
    "P6": (("profiles",), ("racks",)),
    "P9": (("fabric", "global_links"), ("fabric", "spines"), ("fabric", "missing"), ("racks",)),
    "P10": (("fabric", "partitions"),),
    "P11": (("profiles",), ("fabric", "top"), ("racks",)),
    "P12": (("racks",), ("profiles",)),
}
# What is in a profile: the rails of its NICs, and how many nodes are in an NVLink domain.
_OF_PROFILE = {"P6": "nics", "P11": "nics", "P12": "nvlink_domain"}
# `rack b01, su1-r0`, `gpu001 mlx5_0`, `rack b01, su1-r0 port 3`: rack, name, and what of it is the same for others.
_PLACE = re.compile(r"(?:rack ([^\s,]+), )?([^\s,]+)((?: [^,]*)?)\Z")


def check_ports(plan: Plan, listed: Iterable[tuple[int, str, int]], key: str, wrong: MistakeCollector) -> None:
    """Note the names in fabric.spare or fabric.missing (entry, switch, port) that the plan lacks, and duplicates."""
    seen: set[tuple[str, int]] = set()
    bad: dict[int, _Entry] = {}
    for number, name, port in listed:
        if name not in plan.switches:
            bad.setdefault(number, _Entry()).unknown[name] = None
        elif not 1 <= port <= plan.switches[name].ports:
            bad.setdefault(number, _Entry()).beyond.setdefault(name, []).append(port)
        if (name, port) in seen:
            bad.setdefault(number, _Entry()).twice[f"{name}:{port}"] = None
        seen.add((name, port))
    for number, entry in bad.items():
        for text in entry.texts(plan):
            wrong.add(("fabric", key, number), text)


@dataclass
class _Entry:
    """Mistakes of an entry: unknown switches, switch -> unknown ports, and duplicates."""

    unknown: dict[str, None] = field(default_factory=dict)
    beyond: dict[str, list[int]] = field(default_factory=dict)
    twice: dict[str, None] = field(default_factory=dict)

    def texts(self, plan: Plan) -> Iterator[str]:
        """Yield the messages, one for all alike."""
        if self.unknown:
            first = next(iter(self.unknown), "")
            which = f" {first!r}" if len(self.unknown) == 1 else f"es {fold(self.unknown)}"
            yield f"the plan has no switch{which}.{did_you_mean(first, list(plan.switches))}"
        alike: dict[tuple[str, int], list[str]] = {}
        for name, ports in self.beyond.items():
            alike.setdefault((_range(ports), plan.switches[name].ports), []).append(name)
        for (which, most), names in alike.items():
            has, plural = "has" if len(names) == 1 else "have", "" if which.isdigit() else "s"
            yield f"{fold(names)} {has} no port{plural} {which}. Allowed: 1 to {most}."
        if self.twice:
            yield f"{fold(self.twice)} {'is' if len(self.twice) == 1 else 'are'} named twice."


def _range(ports: Iterable[int]) -> str:
    return fold(map(str, dict.fromkeys(ports))).strip("[]")


def keys_of(rule: str) -> str:
    """Return the keys that correct an invariant, in words.

    >>> keys_of("P10"), keys_of("P6")
    ('fabric.partitions', 'profiles.<name>.nics, racks')
    """
    names = [dotted((*key, "<name>", _OF_PROFILE[rule]) if key == ("profiles",) else key) for key in MENDED_BY[rule]]
    return ", ".join(names)


def mistake_lines(cluster: Cluster, problems: Iterable[PlanProblem]) -> list[str]:
    """Return a line for each problem of a plan; one for all switches or hosts with the same problem."""
    alike: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for one in problems:
        match = _PLACE.match(one.where)
        rack, name, rest = match.groups() if match else ("", one.where, "")
        alike.setdefault((one.rule, rest, one.text), []).append((rack or "", name))
    wrong = MistakeCollector(cluster.path, cluster.stated)
    for (rule, rest, text), places in alike.items():
        said = f"{_folded(places)}{rest}: {text}. Mended by {keys_of(rule)} [docs/fabric.md, {rule}]"
        first, *others = _keys(cluster, rule, {name for _rack, name in places})
        wrong.add(first, said, *others)
    return wrong.lines()


def _folded(places: Sequence[tuple[str, str]]) -> str:
    racks = list(dict.fromkeys(rack for rack, _name in places if rack))
    names = list(dict.fromkeys(name for _rack, name in places))
    try:
        where = fold(names) if len(names) > 1 else names[0]
        return f"rack{'s' * (len(racks) > 1)} {fold(racks)}, {where}" if racks else where
    except ValueError:
        return ", ".join(names)  # a name that no hostlist can hold, which is the mistake


def _keys(cluster: Cluster, rule: str, names: set[str]) -> list[Path]:
    """Return the keys that correct an invariant, with the keys of the affected profiles and hosts first."""
    own: list[Path] = []
    if option := _OF_PROFILE.get(rule):
        chosen = {node.profile.name for node in cluster.nodes if names & {node.name, node.rack.name, node.rack.domain}}
        own = [("profiles", profile, option) for profile in sorted(chosen)]
        own += [("hosts", name, option) for name in sorted(names & set(cluster.hosts))]
    return [*own, *MENDED_BY[rule]]
