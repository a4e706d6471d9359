# SPDX-License-Identifier: GPL-3.0-or-later
"""An oracle for OpenSM's files: they are read as strictly as nobody else does, and must say what the plan says.

OpenSM says nothing of a list that is wrong: roots that are not all of the top tier double loads, or cut leaves off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import guid_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import (
    COMPUTE,
    Hca,
    Plan,
    PlanProblem,
    Switch,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm import partitions
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.opensm_files import (
    COMPUTE_LIST,
    ORDER,
    PARTITIONS,
    ROOTS,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.plane_files import directory
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import planned
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report.fabric_files import written
from tests.kit.partitions_reader import parse, pkeys_of

# `PlanProblem.rule`: the list of roots, lists of HCAs, partitions.
OF_ROOTS, OF_LISTS, OF_PARTITIONS = "roots", "lists", "partitions"
_STRICT = re.compile(r"0x[0-9A-Fa-f]{1,16}\Z")


def artefacts(cluster: Cluster, slurm_version: str | None = None) -> dict[str, str]:
    """Return name -> text of all files of a fabric, as playbooks/fabric.yml writes them; those of OpenSM were judged."""
    work = planned(cluster)
    found = written(work, slurm_version)[0]
    for plane in work.plan.planes:
        start = f"opensm/{directory(plane)}/"
        files = {name[len(start) :]: text for name, text in found.items() if name.startswith(start)}
        assert problems(work.plan, files, plane) == []
    return found


def judged(plan: Plan, files: dict[str, str], plane: str = "") -> dict[str, str]:
    """Return the files of a plane, of which nothing is wrong."""
    assert problems(plan, files, plane) == []
    return files


def problems(plan: Plan, files: Mapping[str, str], plane: str = "") -> list[PlanProblem]:
    """Return what in the files of a plane (name -> text) is not as planned; files that are not there are not judged."""
    readers = {ROOTS: _roots, COMPUTE_LIST: _compute, ORDER: _order, PARTITIONS: _partitions}
    return [one for name, read in readers.items() if name in files for one in read(plan, files[name], plane)]


def read_guids(text: str, file: str, rule: str) -> tuple[dict[str, int], list[PlanProblem]]:
    """Return GUIDs of a list in 16 digits, with their lines, and what OpenSM would refuse or misread in it."""
    found: dict[str, int] = {}
    wrong = []
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        said = ""
        if not _STRICT.match(words[0]):
            said = f"{words[0]!r} is no GUID; allowed: 0x and at most 16 hexadecimal digits"
        elif (first := found.setdefault(guid_of(words[0]), number)) != number:
            said = f"{words[0]} is in line {first} already"
        if said:
            wrong.append(PlanProblem(rule, f"{file} line {number}", said))
    return found, wrong


def leaf_by_leaf(plan: Plan, plane: str) -> list[Hca]:
    """Return the HCAs of a plane that have a cable, in the order of leaves and of their ports."""
    place = {name: number for number, name in enumerate(plan.switches)}
    leaf_of = {name: end for name, end in plan.leaf_of().items() if plan.hcas[name].plane == plane}
    return [plan.hcas[name] for name in sorted(leaf_of, key=lambda name: (place[leaf_of[name][0]], leaf_of[name]))]


def _things(plan: Plan) -> list[Switch | Hca]:
    return [*plan.switches.values(), *plan.hcas.values()]


def _roots(plan: Plan, text: str, plane: str) -> Iterator[PlanProblem]:
    """The roots are all switches of the top tier, and nothing else."""
    found, wrong = read_guids(text, ROOTS, OF_ROOTS)
    yield from wrong
    top = {guid_of(one.guid): one for one in plan.roots(plane)}
    nodes = {guid_of(thing.guid): thing.name for thing in _things(plan) if thing.guid}
    for guid in (guid for guid in found if guid not in top):
        name = nodes.get(guid, "")
        what = f"{plan.where(name)}, which is not of the top tier" if name else "nothing in the plan"
        said = f"0x{guid} is {what}: ways through the real top are lost"
        yield PlanProblem(OF_ROOTS, f"{ROOTS} line {found[guid]}", said)
    if lost := [plan.where(one.name) for guid, one in top.items() if guid not in found]:
        said = (
            f"{len(lost)} of {len(top)} switches of the top tier are not in it: {few(lost)}; no way goes through them"
        )
        yield PlanProblem(OF_ROOTS, ROOTS, said)


def _compute(plan: Plan, text: str, plane: str) -> Iterator[PlanProblem]:
    """cn_guid.conf is the port GUIDs of compute."""
    found, wrong = read_guids(text, COMPUTE_LIST, OF_LISTS)
    yield from wrong
    wanted = [hca for hca in leaf_by_leaf(plan, plane) if hca.purpose == COMPUTE]
    yield from _listed(plan, COMPUTE_LIST, found, wanted, "compute HCAs")


def _order(plan: Plan, text: str, plane: str) -> Iterator[PlanProblem]:
    """guid_routing_order.conf is the port GUIDs of all HCAs, leaf by leaf."""
    wanted = leaf_by_leaf(plan, plane)
    found, wrong = read_guids(text, ORDER, OF_LISTS)
    yield from wrong
    yield from _listed(plan, ORDER, found, wanted, "HCAs")
    leaf_of = plan.leaf_of()
    leaves = {guid_of(hca.port_guid): leaf_of[hca.name][0] for hca in wanted}
    left: set[str] = set()
    before = ""
    for guid, line in found.items():
        leaf = leaves.get(guid, before)
        if leaf != before and leaf in left:
            said = (
                f"comes back to {leaf}, so the order is not leaf by leaf: the busiest link has up to 6 times its share"
            )
            yield PlanProblem(OF_LISTS, f"{ORDER} line {line}", said)
            break
        left.add(before)
        before = leaf


def _listed(plan: Plan, file: str, found: Mapping[str, int], wanted: Sequence[Hca], what: str) -> Iterator[PlanProblem]:
    ports = {guid_of(hca.port_guid): hca for hca in wanted}
    every = {guid_of(hca.port_guid): hca for hca in plan.hcas.values() if hca.port_guid}
    nodes = {guid_of(thing.guid): thing for thing in _things(plan) if thing.guid}
    for guid in (guid for guid in found if guid not in ports):
        if guid in every:
            said = f"is {plan.where(every[guid].name)}, which does not belong to {what} of this plane"
        elif guid in nodes:
            thing = nodes[guid]
            kind = "a switch" if isinstance(thing, Switch) else "its node GUID; the port GUID is to be here"
            said = f"is {plan.where(thing.name)}, {kind}"
        else:
            said = "is nothing in the plan"
        yield PlanProblem(OF_LISTS, f"{file} line {found[guid]}", f"0x{guid} {said}")
    if lost := [plan.where(hca.name) for guid, hca in ports.items() if guid not in found]:
        yield PlanProblem(OF_LISTS, file, f"{len(lost)} of {len(ports)} {what} are not in it: {few(lost)}")


def _partitions(plan: Plan, text: str, plane: str) -> Iterator[PlanProblem]:
    """partitions.conf gives every port exactly its P_Keys."""
    entries, wrong = parse(text, plan, both=partitions.needs_both_pkeys(plan))
    yield from wrong
    hcas = [hca for hca in plan.hcas.values() if hca.plane == plane and hca.port_guid]
    names = {hca.name for hca in hcas}
    masters = [one.hca for one in plan.managers if one.hca in names]
    if not masters or wrong:
        return
    master = plan.hcas[masters[0]].port_guid
    held = pkeys_of(entries, (hca.port_guid for hca in hcas), master)
    wanted = partitions.planned_pkeys(plan, plane, master)
    for hca in hcas:
        mine, planned_ones = held[guid_of(hca.port_guid)], wanted[guid_of(hca.port_guid)]
        if mine != planned_ones:
            said = f"{PARTITIONS} gives it the P_Keys {_keys(mine)}, and the plan has {_keys(planned_ones)}"
            yield PlanProblem(OF_PARTITIONS, plan.where(hca.name), said)


def _keys(keys: Iterable[int]) -> str:
    return " ".join(f"0x{key:04x}" for key in keys)
