# SPDX-License-Identifier: GPL-3.0-or-later
"""The subnet managers that run against those that are planned, in words for who has to mend it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.findings import (
    ERROR,
    WARNING,
    Finding,
    few,
    ordered,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.sm_log import MASTER
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.sm_tools import SILENT

# `Finding.kind`.
HOST, UNIT, PORT, SUBNET, SM, ENGINE, LOG, PKEYS = "host", "unit", "port", "subnet", "sm", "engine", "log", "pkeys"
# Facts of a host and plane, as the module opensm_facts returns them.
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Manager:
    """A planned SM."""

    host: str
    hca: str
    guid: str
    priority: int
    unit: str
    log: str


@dataclass(frozen=True)
class Wanted:
    """What is planned of a plane: the master first among its SMs; `names` and `pkeys` are by port GUID, in 16 digits."""

    plane: str
    name: str
    managers: Sequence[Manager]
    engine: str
    pkeys: Mapping[str, Sequence[int]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


def judge(wanted: Wanted, told: Mapping[str, Facts | None], why: Mapping[str, str] | None = None) -> list[Finding]:
    """Return all that is not as planned, the gravest first.

    `told` is host -> facts of this plane; None: it was asked and did not answer, and `why` may say why. Others were not asked.
    """
    return ordered(dict.fromkeys(_Plane(wanted, told, why or {}).find()))


class _Plane:
    def __init__(self, wanted: Wanted, told: Mapping[str, Facts | None], why: Mapping[str, str]) -> None:
        self.wanted = wanted
        self.told = {one.host: told[one.host] for one in wanted.managers if one.host in told}
        self.why = why
        self.planned = {one.guid: one for one in wanted.managers}

    def find(self) -> Iterator[Finding]:
        """Yield all findings."""
        for manager in self.wanted.managers:
            if manager.host in self.told:
                yield from self._host(manager)
        views = {host: facts["managers"] for host, facts in self.told.items() if facts and facts["managers"]}
        if not views:
            if any(self.told.values()):
                text = "no subnet manager answers: routes stay as they are, and nothing that comes up is let in"
                yield self._error(SUBNET, self.wanted.name, text, f"start {self.wanted.managers[0].unit}")
            return
        yield from self._views(views)
        yield from self._master(self._seen(views))
        yield from self._standbys(self._seen(views))
        yield from self._pkeys()

    def _error(self, kind: str, where: str, text: str, action: str = "", severity: str = ERROR) -> Finding:
        return Finding(kind, severity, where, text, action)

    def _host(self, manager: Manager) -> Iterator[Finding]:
        """Tell of a host, its unit, its port and its log."""
        facts = self.told[manager.host]
        where = f"{manager.host}, {self.wanted.name}"
        if facts is None and (said := self.why.get(manager.host)):
            yield self._error(HOST, where, f"its subnet manager could not be asked: {said}")
            return
        if facts is None:
            yield self._error(
                HOST, where, "the host was not reached, so its subnet manager could not be asked", "is it up?"
            )
            return
        if facts["unit"] != "active":
            action = f"`systemctl status {manager.unit}` and {manager.log} on {manager.host} say why; then start it"
            yield self._error(UNIT, where, f"{manager.unit} is {facts['unit'] or 'not there'}", action)
        if not facts["port"]:
            text = f"the host has no port 0x{manager.guid} ({manager.hca}); it has {few(facts['ports']) or 'none'}"
            action = (
                "was the adapter replaced? Then record its GUID: playbooks/fabric_compare.yml -e fabric_record=true"
            )
            yield self._error(PORT, where, text, action)
        if facts["unit"] == "active":
            yield from self._log(manager, facts["log"], where)

    def _log(self, manager: Manager, log: Mapping[str, Any], where: str) -> Iterator[Finding]:
        look = f"look into {manager.log} on {manager.host}"
        if log["errors"]:
            errors = few((f"{name} {count} times" for name, count in log["errors"].items()), 4)
            yield self._error(LOG, where, f"OpenSM reports errors: {errors}; the last: {log['last']}", look)
        if not log["state"]:
            text = "neither OpenSM nor its log tells its state"
            yield self._error(
                LOG, where, text, f"is the port up (`ibstat`)? Then {look}, and `systemctl restart {manager.unit}`"
            )
        if log["state"] != MASTER:
            return
        if log["partitions"]:
            text = f"OpenSM drops partitions.conf, so every port reaches every other: {log['partitions']}"
            yield self._error(LOG, where, text, "run playbooks/interconnect.yml, which writes the planned file again")
        if not log["up"]:
            yield self._error(SUBNET, where, "OpenSM does not say SUBNET UP after its last sweep", look)
        if log["engine"] != self.wanted.engine:
            found = log["engine"] or "none"
            text = f"routing engine {self.wanted.engine} is asked for, and {found} is in effect"
            action = "run playbooks/interconnect.yml; when the files are as planned, playbooks/fabric_compare.yml says which cable is not"
            yield self._error(ENGINE, where, text, action)

    def _views(self, views: Mapping[str, Sequence[Facts]]) -> Iterator[Finding]:
        """Tell when hosts see different masters: a plane that is in parts."""
        masters = {
            host: frozenset(one["guid"] for one in seen if one["state"] == "master") for host, seen in views.items()
        }
        if len(set(masters.values())) > 1:
            seen = "; ".join(
                f"{host} sees {few(map(self._name, sorted(guids))) or 'none'}" for host, guids in masters.items()
            )
            text = f"the hosts see different masters: {seen}"
            yield self._error(
                SUBNET, self.wanted.name, text, "the plane is in parts: playbooks/fabric_compare.yml says where"
            )

    def _seen(self, views: Mapping[str, Sequence[Facts]]) -> dict[str, Facts]:
        """Return GUID -> SM; what a host sees that is silent for another one counts as seen."""
        found: dict[str, Facts] = {}
        for seen in views.values():
            for one in seen:
                if one["guid"] not in found or found[one["guid"]]["state"] == SILENT:
                    found[one["guid"]] = one
        return found

    def _name(self, guid: str) -> str:
        name = self.wanted.names.get(guid)
        return f"{name} (0x{guid})" if name else f"0x{guid}, which is not in the plan"

    def _master(self, seen: Mapping[str, Facts]) -> Iterator[Finding]:
        masters = [one for one in seen.values() if one["state"] == "master"]
        first = self.wanted.managers[0]
        planned = f"planned is {first.hca} with priority {first.priority}"
        if len(masters) > 1:
            names = few(self._name(one["guid"]) for one in masters)
            yield self._error(
                SM, self.wanted.name, f"there are {len(masters)} masters: {names}; {planned}", "stop all but one"
            )
            return
        if not masters:
            text = f"no subnet manager is master; {planned}"
            yield self._error(SUBNET, self.wanted.name, text, "look again in some seconds: one may just be taking over")
            return
        (master,) = masters
        if master["guid"] != first.guid:
            other = seen.get(first.guid)
            gone = f"{first.hca} is {other['state']}" if other else f"{first.hca} is no subnet manager now"
            text = (
                f"the master is {self._name(master['guid'])} with priority {master['priority']}; {planned}, and {gone}"
            )
            stranger = master["guid"] not in self.planned
            action = "stop that one: OpenSM on another host, or a switch that manages" if stranger else ""
            yield self._error(
                SM, self.wanted.name, text, action or f"bring {first.unit} on {first.host} up, and it takes over again"
            )
        planned_one = self.planned.get(master["guid"])
        if planned_one and master["priority"] != planned_one.priority:
            yield self._priority(planned_one, master)

    def _priority(self, manager: Manager, seen: Facts) -> Finding:
        text = f"{manager.hca} has priority {seen['priority']}, and {manager.priority} is planned"
        return self._error(SM, self.wanted.name, text, f"run playbooks/interconnect.yml --limit {manager.host}")

    def _standbys(self, seen: Mapping[str, Facts]) -> Iterator[Finding]:
        for manager in self.wanted.managers[1:]:
            one = seen.get(manager.guid)
            if one is None or one["state"] not in ("standby", "master"):
                state = f"is {one['state']}" if one else "is no subnet manager now"
                text = f"{manager.hca} is to be standby, and {state}: when the master goes, it does not take over"
                yield self._error(SM, self.wanted.name, text, f"bring {manager.unit} on {manager.host} up")
            elif one["state"] == "standby" and one["priority"] != manager.priority:
                yield self._priority(manager, one)
        for guid, one in seen.items():
            if guid not in self.planned and one["state"] != "master":
                text = f"{self._name(guid)} is a subnet manager ({one['state']}, priority {one['priority']}) that is not planned"
                left = "on a host that has left: `systemctl disable --now 'opensm-plane@*'`"
                action = f"stop it ({left}), or name its host in services.subnet_managers"
                yield self._error(SM, self.wanted.name, text, action, WARNING)

    def _pkeys(self) -> Iterator[Finding]:
        held: dict[str, Sequence[int]] = {}
        for facts in self.told.values():
            held.update(facts["pkeys"] if facts else {})
        wrong = [
            f"{self._name(guid)} holds {_keys(held[guid])} and not {_keys(keys)}"
            for guid, keys in self.wanted.pkeys.items()
            if guid in held and sorted(held[guid]) != sorted(keys)
        ]
        if wrong:
            text = f"P_Keys are not as planned on {len(wrong)} of {len(held)} ports that were asked: {few(wrong, 3)}"
            yield self._error(
                PKEYS,
                self.wanted.name,
                text,
                "run playbooks/interconnect.yml, which writes the planned partitions again",
            )
        if silent := [self._name(guid) for guid in self.wanted.pkeys if guid not in held]:
            text = f"of {len(silent)} ports no P_Keys could be read: {few(silent, 3)}"
            yield self._error(
                PKEYS, self.wanted.name, text, "are these hosts up and cabled? playbooks/fabric_compare.yml", WARNING
            )


def _keys(keys: Sequence[int]) -> str:
    return " ".join(f"0x{key:04x}" for key in sorted(keys)) or "none"
