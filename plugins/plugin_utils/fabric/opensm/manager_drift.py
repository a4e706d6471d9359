# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the running subnet managers with the planned ones, in words for the person who corrects it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.sm_log import MASTER
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.sm_tools import SILENT

from ..core.places import ordered

# `Finding.kind`.
HOST, UNIT, PORT, SUBNET, SM, ENGINE, LOG, PKEYS = "host", "unit", "port", "subnet", "sm", "engine", "log", "pkeys"
# Facts of a host and plane, as the module opensm_facts returns them.
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class PlannedManager:
    """A planned SM."""

    host: str
    hca: str
    guid: str
    priority: int
    unit: str
    log: str


@dataclass(frozen=True)
class PlannedManagers:
    """The plan of a plane: the master first among its SMs; `names` and `pkeys` are by port GUID, in 16 digits."""

    plane: str
    name: str
    managers: Sequence[PlannedManager]
    engine: str
    pkeys: Mapping[str, Sequence[int]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    # The key of the cluster file that names them.
    fabric_managers: str = "services.subnet_managers"


def manager_findings(
    planned: PlannedManagers, facts: Mapping[str, Facts | None], failures: Mapping[str, str] | None = None
) -> list[Finding]:
    """Return all that is not as planned, the gravest first.

    `facts` is host -> facts of this plane; None: it did not answer, and `failures` may say why. Hosts that are not in it were not queried.
    """
    return ordered(dict.fromkeys(_Plane(planned, facts, failures or {}).find()))


class _Plane:
    def __init__(
        self, planned: PlannedManagers, facts: Mapping[str, Facts | None], failures: Mapping[str, str]
    ) -> None:
        self.planned = planned
        self.facts = {one.host: facts[one.host] for one in planned.managers if one.host in facts}
        self.failures = failures
        self.by_guid = {one.guid: one for one in planned.managers}

    def find(self) -> Iterator[Finding]:
        """Yield all findings."""
        for manager in self.planned.managers:
            if manager.host in self.facts:
                yield from self._host(manager)
        views = {host: facts["managers"] for host, facts in self.facts.items() if facts and facts["managers"]}
        if not views:
            if any(self.facts.values()):
                text = "no subnet manager answers: routes stay as they are, and new nodes cannot join"
                yield Finding(SUBNET, self.planned.name, "", text, f"start {self.planned.managers[0].unit}")
            return
        yield from self._views(views)
        yield from self._master(self._seen(views))
        yield from self._standbys(self._seen(views))
        yield from self._pkeys()

    def _host(self, manager: PlannedManager) -> Iterator[Finding]:
        """Report a host, its unit, its port and its log."""
        facts = self.facts[manager.host]
        where = f"{manager.host}, {self.planned.name}"
        if facts is None and (said := self.failures.get(manager.host)):
            yield Finding(HOST, where, "", f"its subnet manager could not be read: {said}")
            return
        if facts is None:
            text = "the host was not reached, so its subnet manager was not read"
            yield Finding(HOST, where, "", text, "is it up?")
            return
        if facts["unit"] != "active":
            remedy = f"`systemctl status {manager.unit}` and {manager.log} on {manager.host} say why; then start it"
            yield Finding(UNIT, where, f"{manager.unit} active", facts["unit"] or "no such unit", remedy)
        if not facts["port"]:
            remedy = (
                "was the adapter replaced? Then record its GUID: playbooks/fabric_compare.yml -e fabric_record=true"
            )
            expected = f"the port 0x{manager.guid} ({manager.hca})"
            yield Finding(PORT, where, expected, few(f"0x{guid}" for guid in facts["ports"]) or "no port", remedy)
        if facts["unit"] == "active":
            yield from self._log(manager, facts["log"], where)

    def _log(self, manager: PlannedManager, log: Mapping[str, Any], where: str) -> Iterator[Finding]:
        look = f"look into {manager.log} on {manager.host}"
        if log["errors"]:
            errors = few((f"{name} {count} times" for name, count in log["errors"].items()), 4)
            yield Finding(LOG, where, "", f"OpenSM reports errors: {errors}; the last: {log['last']}", look)
        if not log["state"]:
            text = "neither OpenSM nor its log reports its state"
            remedy = f"is the port up (`ibstat`)? Then {look}, and `systemctl restart {manager.unit}`"
            yield Finding(LOG, where, "", text, remedy)
        if log["state"] != MASTER:
            return
        if log["partitions"]:
            text = f"OpenSM drops partitions.conf, so every port reaches every other: {log['partitions']}"
            yield Finding(LOG, where, "", text, "run playbooks/interconnect.yml, which writes the planned file again")
        if not log["up"]:
            yield Finding(SUBNET, where, "", "OpenSM does not say SUBNET UP after its last sweep", look)
        if log["engine"] != self.planned.engine:
            remedy = "run playbooks/interconnect.yml; if the files are as planned, playbooks/fabric_compare.yml finds the wrong cable"
            yield Finding(ENGINE, where, f"the routing engine {self.planned.engine}", log["engine"] or "none", remedy)

    def _views(self, views: Mapping[str, Sequence[Facts]]) -> Iterator[Finding]:
        """Report hosts that see different masters: a plane in parts."""
        masters = {
            host: frozenset(one["guid"] for one in seen if one["state"] == "master") for host, seen in views.items()
        }
        if len(set(masters.values())) > 1:
            seen = "; ".join(
                f"{host} sees {few(map(self._name, sorted(guids))) or 'none'}" for host, guids in masters.items()
            )
            text = f"the hosts see different masters: {seen}"
            remedy = "the plane is in parts: playbooks/fabric_compare.yml says where"
            yield Finding(SUBNET, self.planned.name, "", text, remedy)

    def _seen(self, views: Mapping[str, Sequence[Facts]]) -> dict[str, Facts]:
        """Return GUID -> SM; what a host sees that is silent for another one counts as seen."""
        found: dict[str, Facts] = {}
        for seen in views.values():
            for one in seen:
                if one["guid"] not in found or found[one["guid"]]["state"] == SILENT:
                    found[one["guid"]] = one
        return found

    def _name(self, guid: str) -> str:
        name = self.planned.names.get(guid)
        return f"{name} (0x{guid})" if name else f"0x{guid} (not in the plan)"

    def _master(self, seen: Mapping[str, Facts]) -> Iterator[Finding]:
        masters = [one for one in seen.values() if one["state"] == "master"]
        first = self.planned.managers[0]
        expected = f"{first.hca} with priority {first.priority} as master"
        if len(masters) > 1:
            names = few(self._name(one["guid"]) for one in masters)
            found = f"{len(masters)} masters: {names}"
            yield Finding(SM, self.planned.name, expected, found, "stop the others")
            return
        if not masters:
            remedy = "look again in some seconds: one may just be taking over"
            yield Finding(SUBNET, self.planned.name, expected, "no master", remedy)
            return
        (master,) = masters
        if master["guid"] != first.guid:
            other = seen.get(first.guid)
            gone = f"{first.hca} is {other['state']}" if other else f"{first.hca} runs no subnet manager now"
            found = f"{self._name(master['guid'])} with priority {master['priority']}; {gone}"
            remedy = f"start {first.unit} on {first.host}, and it takes over again"
            if master["guid"] not in self.by_guid:
                remedy = "stop that one: OpenSM on another host, or a switch that manages"
            yield Finding(SM, self.planned.name, expected, found, remedy)
        planned_one = self.by_guid.get(master["guid"])
        if planned_one and master["priority"] != planned_one.priority:
            yield self._priority(planned_one, master)

    def _priority(self, manager: PlannedManager, seen: Facts) -> Finding:
        expected, remedy = f"priority {manager.priority} of {manager.hca}", "run playbooks/interconnect.yml --limit "
        return Finding(SM, self.planned.name, expected, str(seen["priority"]), f"{remedy}{manager.host}")

    def _standbys(self, seen: Mapping[str, Facts]) -> Iterator[Finding]:
        for manager in self.planned.managers[1:]:
            one = seen.get(manager.guid)
            if one is None or one["state"] not in ("standby", "master"):
                state = one["state"] if one else "no subnet manager there"
                found = f"{state}: when the master goes, it does not take over"
                remedy = f"bring {manager.unit} on {manager.host} up"
                yield Finding(SM, self.planned.name, f"{manager.hca} as standby", found, remedy)
            elif one["state"] == "standby" and one["priority"] != manager.priority:
                yield self._priority(manager, one)
        for guid, one in seen.items():
            if guid not in self.by_guid and one["state"] != "master":
                text = f"{self._name(guid)} is a subnet manager ({one['state']}, priority {one['priority']}) that is not planned"
                left = "on a host that has left: `systemctl disable --now 'opensm-plane@*'`"
                remedy = f"stop it ({left}), or name its host in {self.planned.fabric_managers}"
                yield Finding(SM, self.planned.name, "", text, remedy, WARNING)

    def _pkeys(self) -> Iterator[Finding]:
        held: dict[str, Sequence[int]] = {}
        for facts in self.facts.values():
            held.update(facts["pkeys"] if facts else {})
        wrong = [
            f"{self._name(guid)} holds {_keys(held[guid])} and not {_keys(keys)}"
            for guid, keys in self.planned.pkeys.items()
            if guid in held and sorted(held[guid]) != sorted(keys)
        ]
        if wrong:
            text = f"P_Keys are not as planned on {len(wrong)} of {len(held)} ports that were read: {few(wrong, 3)}"
            remedy = "run playbooks/interconnect.yml, which writes the planned partitions again"
            yield Finding(PKEYS, self.planned.name, "", text, remedy)
        if silent := [self._name(guid) for guid in self.planned.pkeys if guid not in held]:
            text = f"of {len(silent)} ports no P_Keys could be read: {few(silent, 3)}"
            remedy = "are these hosts up and cabled? playbooks/fabric_compare.yml"
            yield Finding(PKEYS, self.planned.name, "", text, remedy, WARNING)


def _keys(keys: Sequence[int]) -> str:
    return " ".join(f"0x{key:04x}" for key in sorted(keys)) or "none"
