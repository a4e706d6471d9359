# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that a working fabric can be built from the cluster file, before any machine is touched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath

from ...cluster import Cluster
from ...cluster.fabric_checks import in_fabric
from ...cluster.schema.fabric_keys import ONE
from ...cluster.schema.late_mistakes import MistakeCollector
from ..core import guid_record
from ..core.fabric_model import INFINIBAND, Plan
from .checked_plan import planned

_MANAGERS = ("services", "subnet_managers")
# Keys of switches by name.
_NAMES = ("spines", "cores", "leaves")


def fabric_mistakes(cluster: Cluster, needed: bool = False) -> list[str]:
    """Return the mistakes of the plans of all fabrics and of their subnet managers.

    Where none is stated that is no mistake, unless a plan is `needed`.
    """
    views = cluster.views
    if len(views) == 1:
        return _view_mistakes(cluster, needed)[0]
    planless = not any(view.fabric for view in views.values())
    found: list[str] = []
    plans: dict[str, Plan] = {}
    for name, view in views.items():
        lines, plan = _view_mistakes(view, needed and (planless or view.fabric is not None))
        found += lines
        if plan:
            plans[name] = plan
    return [*found, *_shared(views, plans), *_records(views)]


def _shared(views: Mapping[str, Cluster], plans: Mapping[str, Plan]) -> list[str]:
    """Return the mistakes about switches that two fabrics have."""
    owner: dict[str, str] = {}
    found = []
    for name, plan in plans.items():
        view = views[name]
        wrong = MistakeCollector(view.path, view.stated)
        for switch in plan.switches:
            if (first := owner.setdefault(switch, name)) != name:
                key = next((one for one in _NAMES if view.fabric and switch in getattr(view.fabric, one)), "")
                text = f"{switch} is a switch of fabric {first} already. A switch has one name and one fabric."
                remedy = "" if key else " The leaf of a rack in this fabric is stated in racks.NAME.leaves."
                wrong.add((ONE, key) if key else (ONE,), text + remedy)
        found += wrong.lines()
    return found


def _records(views: Mapping[str, Cluster]) -> list[str]:
    """Return the mistakes about fabrics whose record of GUIDs is that of another cluster file."""
    found = []
    for view in views.values():
        own = guid_record.path_of(view.path, view.stated.part)
        for suffix in (".bedplate.yml", ".bedplate.yaml") if view.stated.part else ():
            other = own.with_name(own.name.removesuffix(".guids.json") + suffix)
            if FilePath(other).exists():
                wrong = MistakeCollector(view.path, view.stated)
                wrong.add(
                    (ONE,), f"{own.name} would be the record of GUIDs of {other.name}, too. Rename one of the two."
                )
                found += wrong.lines()
    return found


def _view_mistakes(cluster: Cluster, needed: bool) -> tuple[list[str], Plan | None]:
    """Return the mistakes of a fabric, and its plan if it can be made."""
    stated = cluster.fabric is not None and any(node.profile.nics for node in cluster.nodes)
    wrong = MistakeCollector(cluster.path, cluster.stated)
    if not stated:
        _without_plan(cluster, wrong)
    else:
        _managers(cluster, wrong)
    found: list[str] = []
    plan = None
    if stated or needed:
        try:
            plan = planned(cluster).plan
        except ValueError as error:
            found = str(error).split("\n")
    return [*found, *wrong.lines()], plan


def _without_plan(cluster: Cluster, wrong: MistakeCollector) -> None:
    if not cluster.services.subnet_managers:
        return
    lacks = "there is no section `fabric`" if cluster.fabric is None else "no profile of a node has `nics`"
    wrong.add(
        _MANAGERS,
        f"{', '.join(cluster.services.subnet_managers)} cannot run OpenSM, as its files cannot be made: {lacks}. State the fabric, the "
        "`nics` of the nodes' profiles, and of these hosts (hosts.NAME.nics; fabric.leaves names switches for such hosts alone), "
        "or take services.subnet_managers out, as where a switch manages the fabric",
    )


def _managers(cluster: Cluster, wrong: MistakeCollector) -> None:
    """Judge the subnet managers by the file alone, so that a plan with other mistakes hides no mistake of theirs."""
    wanted, fabric = cluster.services.subnet_managers, cluster.fabric
    if not wanted or fabric is None:
        return
    if fabric.technology != INFINIBAND:
        wrong.add(
            _MANAGERS,
            f"{', '.join(wanted)}: fabric.technology is {fabric.technology}, which has no subnet managers. Take them out",
        )
        return
    there = {node.name for node in cluster.nodes if in_fabric(node.profile, fabric.kind)}
    there |= {host.name for host in cluster.hosts.values() if host.nics}
    for number, host in enumerate(wanted):
        if host not in there:
            wrong.add(
                (*_MANAGERS, number),
                f"{host} has no HCA in the plan, so OpenSM has no port there: state hosts.{host}.nics (fabric.leaves names switches for "
                "such hosts alone) or, for a node of a rack, `nics` in its profile; or take it out",
            )
