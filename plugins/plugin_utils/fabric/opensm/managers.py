# SPDX-License-Identifier: GPL-3.0-or-later
"""The subnet managers of a cluster as they are deployed: files and units of a host, what is proved before, what is read back."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import guid_of

from ...cluster import Cluster
from ...parts.decision import Decision
from ..core.fabric_model import INFINIBAND, STORAGE, Plan, SubnetManager
from ..plan.checked_plan import planned
from . import opensm_files
from .manager_drift import HOST, PlannedManager, PlannedManagers
from .opensm_options import QOS, Choices, engines_of
from .partitions import planned_pkeys, ports_to_read
from .plane_files import directory

CONFIGURATION, LOGS, CACHE = "/etc/opensm", "/var/log/opensm", "/var/cache/opensm"
PROGRAM, TEMPLATE = "/usr/sbin/opensm", "/etc/systemd/system/opensm-plane@.service"
# Debian's unit, which starts an OpenSM on every port.
OF_DEBIAN = "opensm.service"
# What OpenSM reads again when it is sent HUP. The rest it has read at its start, or it keeps the routes it has made of it.
RELOADED = (opensm_files.PARTITIONS, opensm_files.POLICY)
_CHOICES = ("routing_engines", "no_fallback", "options")


class ManagersError(ValueError):
    """Subnet managers that cannot be deployed, with one reason a line."""


@dataclass(frozen=True)
class Instance:
    """An OpenSM: its plane, and its files, name to text. `files` are below `at`; `part` is that of the plan."""

    plane: str
    manager: SubnetManager
    files: dict[str, str]
    part: str = ""

    @property
    def at(self) -> str:
        """Return the directory of its files."""
        return f"{CONFIGURATION}/{directory(self.plane, self.part)}"

    @property
    def unit(self) -> str:
        """Return its unit."""
        return f"opensm-plane@{directory(self.plane, self.part)}.service"


def managed_fabrics(cluster: Cluster) -> list[Cluster]:
    """Return the views of the fabrics with subnet managers; without any the first fabric, whose plan says what is missing."""
    return [view for view in cluster.views.values() if view.services.subnet_managers] or [cluster.view()]


def fabrics_of_host(cluster: Cluster, host: str) -> list[Cluster]:
    """Return the views of the fabrics that a host manages; for another host the first, whose plan says what is missing."""
    views = [view for view in cluster.views.values() if host in view.services.subnet_managers]
    return views or managed_fabrics(cluster)[:1]


def infiniband_plan(cluster: Cluster) -> Plan:
    """Return the plan with its subnet managers; raises what `planned` raises, and ManagersError where no OpenSM could manage it."""
    work = planned(cluster)
    if work.plan.technology != INFINIBAND:
        raise ManagersError(
            cluster.stated.text(
                f"{cluster.path}: fabric.technology is {work.plan.technology}, which has no subnet managers; take "
                "services.subnet_managers out"
            )
        )
    return work.plan


def instances(cluster: Cluster, plan: Plan, host: str, choices: Mapping[str, Any]) -> list[Instance]:
    """Return the OpenSMs of a host, one for each plane; ManagersError names all mistakes."""
    found, wrong = [], []
    mine = [one for one in plan.managers if plan.hcas[one.hca].host == host]
    if not mine:
        raise ManagersError(
            f"{cluster.path}: {host} is a subnet manager without an HCA in the plan; state its `nics` under `hosts`, "
            "or, for a node of a rack, in its profile"
        )
    for manager in mine:
        plane = plan.hcas[manager.hca].plane
        try:
            found.append(
                Instance(
                    plane,
                    manager,
                    opensm_files.files(plan, manager, _choices_of_plane(plan, plane, choices)),
                    plan.part,
                )
            )
        except ValueError as error:
            wrong += cluster.stated.text(str(error)).split("\n")
    if wrong:
        raise ManagersError("\n".join(dict.fromkeys(wrong)))
    return found


def _choices_of_plane(plan: Plan, plane: str, choices: Mapping[str, Any]) -> Choices:
    if unknown := sorted(set(choices) - set(_CHOICES)):
        raise ManagersError(f"{', '.join(unknown)} is nothing that can be chosen; allowed: {', '.join(_CHOICES)}")
    name = directory(plane, plan.part)
    stores = any(hca.purpose == STORAGE and hca.plane == plane for hca in plan.hcas.values())
    return Choices(
        engines=tuple(map(str, choices.get("routing_engines") or ())),
        no_fallback=bool(choices.get("no_fallback", False)),
        qos=QOS if stores else (),
        directory=f"{CONFIGURATION}/{name}",
        log=f"{LOGS}/{name}/opensm.log",
        dumps=f"{LOGS}/{name}",
        extra=tuple((str(key), _option_value(value)) for key, value in (choices.get("options") or {}).items()),
    )


def _option_value(value: object) -> str:
    """Return a value as OpenSM reads it; YAML has made booleans of TRUE and FALSE. "" for none, which is refused."""
    if isinstance(value, bool):
        return str(value).upper()
    return str(value) if isinstance(value, (str, int, float)) else ""


def _secret(name: object) -> bool:
    """Return whether an option is a key: sm_key, m_key, sa_key, cc_key."""
    return str(name).endswith("_key")


def all_instances(cluster: Cluster, host: str, choices: Mapping[str, Any]) -> list[Instance]:
    """Return the OpenSMs of a host in all fabrics; raises what `infiniband_plan` and `instances` raise."""
    views = fabrics_of_host(cluster, host)
    return [one for view in views for one in instances(view, infiniband_plan(view), host, choices)]


def files(cluster: Cluster, host: str, choices: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of bedplate.cluster.files: OpenSM's files of every plane of a host. One with a key is for root alone."""
    found: list[dict[str, Any]] = []
    for one in all_instances(cluster, host, choices):
        found += [{"path": f"{one.at}/{name}", "content": text} for name, text in sorted(one.files.items())]
        if any(_secret(name) for name in choices.get("options") or ()):
            (conf,) = (entry for entry in found if entry["path"] == f"{one.at}/{opensm_files.OPTIONS}")
            conf |= {"sensitive": True, "mode": "0600"}
    return found


def decide(cluster: Cluster, host: str, choices: Mapping[str, Any], reported: Mapping[str, Any]) -> Decision:
    """Return the decision for a host; `reported` may have `proved`, the digest of what was proved before the files land."""
    chosen = {key: choices[key] for key in _CHOICES}
    entries = [
        {"name": one["path"].removeprefix(f"{CONFIGURATION}/"), "text": one["content"], "secret": "mode" in one}
        for one in files(cluster, host, chosen)
    ]
    values = {
        "files": [one for one in entries if not one["secret"]],
        "secret_files": [one for one in entries if one["secret"]],
        "log_size": choices["log_size"],
        "log_keep": choices["log_keep"],
        "proved": [reported["proved"]] if reported.get("proved") else [],
    }
    return Decision({"opensm": values})


def units(
    cluster: Cluster, host: str, choices: Mapping[str, Any], drop_ins: Mapping[str, str], enabled: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the units of bedplate.cluster.units: an OpenSM for every plane of a host, and none beside it.

    `enabled` are instances that the host has; those of planes that are gone are stopped, as is Debian's own unit.
    """
    mine = all_instances(cluster, host, choices)
    found: list[dict[str, Any]] = [{"name": OF_DEBIAN, "masked": True, "state": "stopped"}]
    gone = sorted(set(enabled) - {one.unit for one in mine})
    found += [{"name": name, "enabled": False, "state": "stopped", "drop_ins": {}} for name in gone]
    for one in mine:
        again = [name for name in RELOADED if name in one.files]
        restarts = [f"{one.at}/{name}" for name in sorted(one.files) if name not in again]
        more = [f"/etc/systemd/system/{one.unit}.d/{name}" for name in drop_ins]
        found.append(
            {
                "name": one.unit,
                "enabled": True,
                "state": "started",
                "drop_ins": dict(drop_ins),
                "restart_after": [PROGRAM, TEMPLATE, *restarts, *more],
                "reload_after": [f"{one.at}/{name}" for name in again],
                "reload_command": ["systemctl", "reload", one.unit],
            }
        )
    return found


def master_files(cluster: Cluster, choices: Mapping[str, Any]) -> tuple[Plan, dict[str, dict[str, str]]]:
    """Return the plan, and plane -> its master's files as they are deployed, without keys.

    Raises what `infiniband_plan` and `instances` raise.
    """
    plan = infiniband_plan(cluster)
    return plan, files_of_masters(cluster, plan, choices)


def files_of_masters(cluster: Cluster, plan: Plan, choices: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return plane -> its master's files, without keys; raises what `instances` raises."""
    # Keys change no route, and others may read the digest of what is proved.
    proved = {name: value for name, value in (choices.get("options") or {}).items() if not _secret(name)}
    choices = {**choices, "options": proved}
    masters = {plan.hcas[one.hca].plane: plan.hcas[one.hca].host for one in reversed(plan.managers)}
    files: dict[str, dict[str, str]] = {}
    for host in dict.fromkeys(masters.values()):
        files |= {one.plane: one.files for one in instances(cluster, plan, host, choices) if masters[one.plane] == host}
    return {plane: files[plane] for plane in plan.planes if plane in files}


def proof_digest(cluster: Cluster, choices: Mapping[str, Any]) -> str:
    """Return the digest of plans and files before they are deployed: a proof with the same digest is not repeated."""
    parts = [repr(master_files(view, choices)) for view in managed_fabrics(cluster)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def missing_managers(cluster: Cluster, plan: Plan) -> list[Finding]:
    """Return a finding for each plane and host of services.subnet_managers that has no HCA in it: there OpenSM never runs."""
    found = []
    for plane in plan.planes:
        there = {plan.hcas[one.hca].host for one in plan.managers if plan.hcas[one.hca].plane == plane}
        severity, effect = (
            (WARNING, "so it does not take over there")
            if there
            else (ERROR, "and no other has: nothing routes this plane")
        )
        for host in cluster.services.subnet_managers:
            if host not in there:
                text = cluster.stated.text(
                    f"{host} of services.subnet_managers has no HCA in this plane of the plan, {effect}"
                )
                remedy = f"state hosts.{host}.nics with one of this plane, or, for a node of a rack, in its profile"
                found.append(Finding(HOST, f"{host}, {_name(plan, plane)}", "", text, remedy, severity))
    return found


def _name(plan: Plan, plane: str) -> str:
    if plan.part and plane:
        return f"{plan.name}, plane {plane}"
    return f"plane {plane}" if plane else plan.name


def planned_managers(cluster: Cluster, choices: Mapping[str, Any], plan: Plan | None = None) -> list[PlannedManagers]:
    """Return the planned state of every plane of a fabric with a subnet manager, to read back.

    ManagersError: their GUIDs are not on record.
    """
    plan = plan or infiniband_plan(cluster)
    if without := [one.hca for one in plan.managers if not plan.hcas[one.hca].port_guid]:
        raise ManagersError(
            f"{cluster.path}: GUIDs are not on record, such as {few(without)}, so the ports to read are unknown; run"
            " playbooks/fabric_compare.yml -e fabric_record=true"
        )
    found = []
    for plane in plan.planes:
        managers = [one for one in plan.managers if plan.hcas[one.hca].plane == plane]
        if not managers:
            continue
        chosen = _choices_of_plane(plan, plane, choices)
        master = plan.hcas[managers[0].hca].port_guid
        keys = planned_pkeys(plan, plane, master)
        found.append(
            PlannedManagers(
                plane=directory(plane, plan.part) if plan.part else plane,
                name=_name(plan, plane),
                managers=[_manager(plan, one) for one in managers],
                fabric_managers=cluster.stated.text("services.subnet_managers"),
                engine=(chosen.engines or engines_of(plan, plane))[0],
                pkeys={guid: keys[guid] for guid in ports_to_read(keys, keys)},
                names={
                    guid_of(one.port_guid): one.name
                    for one in plan.hcas.values()
                    if one.plane == plane and one.port_guid
                },
            )
        )
    return found


def _manager(plan: Plan, one: SubnetManager) -> PlannedManager:
    hca = plan.hcas[one.hca]
    name = directory(hca.plane, plan.part)
    unit, log = f"opensm-plane@{name}.service", f"{LOGS}/{name}/opensm.log"
    return PlannedManager(hca.host, hca.name, guid_of(hca.port_guid), one.priority, unit, log)


def facts_request(cluster: Cluster, host: str, choices: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the planes of a host as bedplate.cluster.opensm_facts takes them."""
    found = []
    views = fabrics_of_host(cluster, host)
    for one in [one for view in views for one in planned_managers(view, choices)]:
        for number, manager in enumerate(one.managers):
            if manager.host == host:
                known = {key: value for key, value in asdict(manager).items() if key in ("guid", "unit", "log")}
                expected = "standby" if number else "master"
                found.append({"plane": one.plane, **known, "expected": expected, "ports": list(one.pkeys)})
    return found
