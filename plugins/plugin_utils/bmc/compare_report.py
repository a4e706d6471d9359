# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of a comparison of firmware or BIOS: the summary with one line for each finding, the plan of waves, and the data of the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...module_utils.common.finding import ERROR, Finding
from ...module_utils.common.hostlist import fold
from ..cluster import Cluster
from ..redfish.errors import BmcError
from ..redfish.profiles import bios, firmware
from ..redfish.profiles.firmware_waves import Bounds, NodePlace, Wave, WavePlan, plan_waves
from .bmc_contact import Contact
from .bmc_findings import DIFFERENT, MISSING, UNKNOWN, UNREAD, lines, of_error
from .bmc_findings import KINDS as BMC_KINDS
from .bmc_targets import Target
from .compare_run import BIOS, Compared
from .power_run import NOT_ALLOWED

_OWN_KINDS = {
    "bios": {bios.KIND: "BIOS attributes that differ", bios.VERSION_KIND: "BIOS versions without a profile"},
    "firmware": {firmware.KIND: "firmware that differs"},
}
_MOST_WAVES = 20


def kinds_of(subject: str) -> dict[str, str]:
    """Return the kinds of findings of a comparison, with their titles."""
    return {**_OWN_KINDS[subject], **{kind: BMC_KINDS[kind] for kind in (MISSING, UNKNOWN, DIFFERENT, UNREAD)}}


def findings_of(targets: Mapping[str, Target], contacts: Mapping[str, Contact[Compared]]) -> list[Finding]:
    """Return the findings of all machines, in the order of the targets."""
    found: list[Finding] = []
    for node, one in contacts.items():
        if one.value is not None:
            found += [row.on(node) for row in one.value.findings]
        else:
            found.append(_not_compared(targets[node], one))
    return found


def _not_compared(target: Target, seen: Contact[Compared]) -> Finding:
    where = f"BMC {target.address}"
    if seen.error is None:
        found = f"first contact without a login; certificate SHA-256 {seen.fingerprint}"
        remedy = "Run bmc_discover.yml -e bmc_record=true first"
        return Finding(UNKNOWN, where, "", found, remedy, machine=target.node)
    if seen.error.kind == NOT_ALLOWED:
        kind = DIFFERENT if target.recorded.serial else UNKNOWN
        return Finding(kind, where, "", _what(seen.error, target), seen.error.remedy, machine=target.node)
    return of_error(target, seen.error)


def _what(error: BmcError, target: Target) -> str:
    return error.what.replace(f" at {target.address}", "")


def waves_of(cluster: Cluster, contacts: Mapping[str, Contact[Compared]], choices: Mapping[str, Any]) -> WavePlan:
    """Return the plan of waves for the nodes that were compared."""
    rows = {node: one.value.rows for node, one in contacts.items() if one.value is not None}
    partitions: dict[str, list[str]] = {}
    for partition in cluster.partitions.values():
        for node in partition.nodes:
            partitions.setdefault(node, []).append(partition.name)
    places = [NodePlace(one.name, one.rack.name, tuple(partitions.get(one.name, ()))) for one in cluster.nodes]
    bounds = Bounds(choices["firmware_wave"], choices["firmware_per_rack"], choices["firmware_per_partition"])
    return plan_waves(rows, places, bounds)


def wave_lines(plan: WavePlan) -> list[str]:
    """Return the plan as lines; nothing is applied. Equal reasons of several nodes are one line."""
    rows = [f"wave {one.number} {one.kind:<5} {fold(one.nodes)}: {_items(one)}" for one in plan.waves]
    if len(rows) > _MOST_WAVES:
        rows[_MOST_WAVES:] = [f"... and {len(rows) - _MOST_WAVES} more waves, all in the report"]
    left: dict[str, list[str]] = {}
    for node, reasons in plan.left.items():
        for reason in reasons:
            left.setdefault(reason, []).append(node)
    rows += [f"in no wave: {fold(nodes)}: {reason}" for reason, nodes in left.items()]
    return ["plan, nothing is applied:", *rows] if rows else []


def _items(wave: Wave) -> str:
    """Return the ids of the items that a wave updates, each once."""
    return ", ".join(dict.fromkeys(item for items in wave.nodes.values() for item in items))


def summary(
    subject: str,
    contacts: Mapping[str, Contact[Compared]],
    findings: Iterable[Finding],
    targets: Mapping[str, Target],
    without: Iterable[str],
) -> str:
    """Return the summary: counts, and a line for each finding. `without`: nodes whose profile names no file to compare with."""
    found = list(findings)
    compared = [node for node, one in contacts.items() if one.value is not None]
    differing = {one.machine for one in found if one.severity == ERROR}
    equal = len([node for node in compared if node not in differing])
    what = "BIOS" if subject == BIOS else subject
    rest = len(contacts) - len(compared)
    text = f"{what}: {equal} of {len(contacts)} machines have no difference"
    text += f", {rest} could not be compared" if rest else ""
    if nodes := list(without):
        text += f"; {len(nodes)} have no `{subject}` in their profile"
    return "\n".join([text, *lines([_short(one) for one in found], targets)])


def _short(one: Finding) -> Finding:
    """Return a finding whose place does not repeat the machine."""
    return replace(one, reboot=False)


def data_of(
    cluster: str, contacts: Mapping[str, Contact[Compared]], targets: Mapping[str, Target], plan: WavePlan | None
) -> dict[str, Any]:
    """Return the data of the JSON report: each machine with its address and what was found, and the waves."""
    machines = {
        node: {"address": targets[node].address, **(one.value.facts if one.value is not None else {})}
        for node, one in contacts.items()
    }
    found: dict[str, Any] = {"cluster": cluster, "machines": machines}
    if plan is not None:
        found["waves"] = [
            {"number": one.number, "kind": one.kind, "nodes": {name: list(items) for name, items in one.nodes.items()}}
            for one in plan.waves
        ]
        found["left"] = {name: list(reasons) for name, reasons in plan.left.items()}
    return found
