# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the machines that answer at the declared BMC addresses with the record. An answer never overwrites it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...module_utils.common.finding import WARNING, Finding
from ..machines.machine_values import SERIAL
from ..machines.record_changes import FoundValue, Update
from ..redfish.machine import Machine
from .bmc_contact import Contact
from .bmc_findings import DIFFERENT, MISSING, SWAPPED, UNKNOWN, UNREAD, of_error
from .bmc_targets import Target
from .found_machine import facts_of, serial_of, serials_of, values_of

FOUND, NOT_READ = "found", "not read"
_STATES = {MISSING: "missing", SWAPPED: "swapped", UNKNOWN: "unknown", DIFFERENT: "different", UNREAD: "unread"}
STATES = (FOUND, *_STATES.values(), NOT_READ)
"""States of a declared BMC. `not read`: it is commanded by IPMI, which does not identify a machine."""
_RECORD = "run bmc_discover.yml -e bmc_record=true"


@dataclass
class Discovery:
    """Node -> state, the findings, node -> values of machines that are who they should be, and node -> facts for the report."""

    states: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    values: dict[str, dict[str, str]] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """Return state -> number of BMCs, without the states that no BMC has."""
        counted = Counter(self.states.values())
        return {state: counted[state] for state in STATES if counted[state]}


def judge(
    targets: Mapping[str, Target],
    contacts: Mapping[str, Contact[Machine]],
    record: Mapping[str, str],
    *,
    records: bool,
) -> Discovery:
    """Return the discovery. `record` is serial number in small letters -> machine; `records`: the run writes new values into the record.

    Values of a machine that is swapped, or that has another serial number than the record, are left out as a whole.
    """
    result = Discovery()
    doubles = _doubles(targets, contacts)
    for node, target in targets.items():
        if node not in contacts:
            result.states[node] = NOT_READ
            continue
        finding = _identity(target, contacts[node], targets, record, doubles, records)
        machine = contacts[node].value
        if machine is not None:
            result.facts[node] = {"serial": serial_of(machine), **facts_of(machine)}
            if finding is None or finding.kind == UNKNOWN:
                result.values[node] = values_of(target, machine, contacts[node].fingerprint)
        if contacts[node].fingerprint:
            result.facts.setdefault(node, {})["bmc_fingerprint"] = contacts[node].fingerprint
        result.states[node] = _STATES[finding.kind] if finding else FOUND
        if finding:
            result.findings.append(finding)
        if machine is not None:
            result.findings += _unread(target, machine)
    return result


def _unread(target: Target, machine: Machine) -> Iterator[Finding]:
    """Yield a warning for each resource that the BMC failed to show: its values are not compared."""
    for path, why in machine.unread:
        remedy = "Restart the BMC or update its firmware; the values of this resource were not compared"
        yield Finding(UNREAD, f"BMC {target.address} {path}", "", why, remedy, WARNING, target.node)


def _identity(
    target: Target,
    seen: Contact[Machine],
    targets: Mapping[str, Target],
    record: Mapping[str, str],
    doubles: Mapping[str, str],
    records: bool,
) -> Finding | None:
    """Return the finding about the machine that answers, None if it is the machine on record, or a new machine to record."""
    where = f"BMC {target.address}"
    if seen.error:
        return of_error(target, seen.error)
    if seen.value is None:
        found = f"first contact without a login; certificate SHA-256 {seen.fingerprint}"
        return Finding(UNKNOWN, where, "", found, f"Compare the fingerprint, then {_RECORD}", machine=target.node)
    recorded, machine = target.recorded.serial, seen.value
    serials = serials_of(machine)
    owner = next((record[one] for one in serials if record.get(one, target.node) != target.node), "")
    shown = serial_of(machine)
    place = f"{where} {SERIAL}"
    if owner and not machine.is_serial(recorded):
        found = f"{shown}, which is on record for {owner}"
        return Finding(SWAPPED, place, recorded, found, _swap_remedy(target, owner, targets), machine=target.node)
    if not shown:
        remedy = "Write the serial number of the machine at its BMC; without it the machine cannot be identified"
        return Finding(UNREAD, place, recorded, "no serial number", remedy, machine=target.node)
    if recorded and not machine.is_serial(recorded):
        remedy = f"If the machine was exchanged, remove {target.node} from the record, and {_RECORD}"
        return Finding(DIFFERENT, place, recorded, shown, remedy, machine=target.node)
    if other := doubles.get(target.node):
        remedy = "Give each BMC its declared address, and look for two machines with one serial number"
        found = f"{shown}, which also answers at the address of {other}"
        return Finding(SWAPPED, place, recorded, found, remedy, machine=target.node)
    if recorded or records:
        return None
    found = f"{shown}, which is not on record"
    return Finding(UNKNOWN, place, "", found, f"Compare it with the machine, then {_RECORD}", machine=target.node)


def _swap_remedy(target: Target, owner: str, targets: Mapping[str, Target]) -> str:
    other = targets.get(owner)
    at = f" ({other.address})" if other else ""
    return f"Exchange the cables or addresses of the BMCs of {target.node} ({target.address}) and {owner}{at}, or correct the record"


def _doubles(targets: Mapping[str, Target], contacts: Mapping[str, Contact[Machine]]) -> dict[str, str]:
    """Return node -> another node whose address has a machine with the same serial number, for nodes without a record of theirs."""
    by_serial: dict[str, list[str]] = {}
    for node, seen in contacts.items():
        if seen.value is not None and (serial := serial_of(seen.value)):
            by_serial.setdefault(serial.casefold(), []).append(node)
    return {
        node: next(one for one in nodes if one != node)
        for nodes in by_serial.values()
        for node in nodes
        if len(nodes) > 1 and not targets[node].recorded.serial
    }


def found_values(result: Discovery, targets: Mapping[str, Target]) -> list[FoundValue]:
    """Return the values to compare with the record."""
    return [
        FoundValue(node, key, value, f"BMC {targets[node].address}")
        for node, values in result.values.items()
        for key, value in values.items()
    ]


def with_differences(result: Discovery, update: Update, targets: Mapping[str, Target]) -> Discovery:
    """Add the values that differ from the record, or that another machine has on record."""
    remedy = "If the part was exchanged, correct the line of {node} in the record"
    for one in update.comparison.findings(remedy):
        where = f"BMC {targets[one.machine].address} {one.where}"
        found = one.found.replace(f" (BMC {targets[one.machine].address})", "")
        result.findings.append(Finding(DIFFERENT, where, one.expected, found, one.remedy, machine=one.machine))
        result.states[one.machine] = _STATES[DIFFERENT]
    return result


def owners(record: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Return serial number in small letters -> machine, of all machines on record."""
    return {record[name].serial.casefold(): name for name in names if name in record and record[name].serial}
