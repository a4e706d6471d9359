# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that OpenSM needs for a plane of a plan.

OpenSM says nothing of a list that is wrong: roots that are not all of the top tier double the load, or cut leaves off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import guid_of

from ..core.fabric_model import COMPUTE, Hca, Plan, SubnetManager, Switch
from ..core.guid_files import GuidError, NeededGuids, guid_list, missing_guids
from .opensm_options import DEFAULTS, Choices, engines_of, options
from .opensm_options import opensm_conf as options_text
from .partitions import partitions_conf as partitions_text

ROOTS, ORDER, NAMES = "root_guid.conf", "guid_routing_order.conf", "node-name-map"
COMPUTE_LIST = "cn_guid.conf"
PARTITIONS, POLICY, OPTIONS = "partitions.conf", "qos-policy.conf", "opensm.conf"


def switches(plan: Plan, plane: str | None) -> list[Switch]:
    """Return the switches of a plane, or of all."""
    return [one for one in plan.switches.values() if plane is None or one.plane == plane]


def leaf_major(plan: Plan, plane: str | None = None) -> list[Hca]:
    """Return the HCAs that have a cable, leaf by leaf and in the order of the leaf's ports.

    UpDn and MinHop route HCAs in this order; host by host, as rails have them, the busiest link has 5 to 6 times its share.
    """
    number = {name: index for index, name in enumerate(plan.switches)}
    found = []
    for name, (leaf, port) in plan.leaf_of().items():
        hca = plan.hcas[name]
        if plane is None or hca.plane == plane:
            found.append((number.get(leaf, -1), port, name, hca))
    # No two have a name, so that no HCA is compared.
    return [hca for _number, _port, _name, hca in sorted(found)]


def _in_order(plan: Plan, plane: str | None, hcas: Sequence[Hca] | None) -> Sequence[Hca]:
    return leaf_major(plan, plane) if hcas is None else hcas


def roots(plan: Plan, plane: str | None = None) -> str:
    """Return root_guid.conf: the node GUIDs of all switches of the top tier."""
    return guid_list(
        NeededGuids(ROOTS, "node"),
        plan,
        plan.roots(plane),
        "Node GUIDs of the whole top tier. One too few doubles loads.",
    )


def compute(plan: Plan, plane: str | None = None, hcas: Sequence[Hca] | None = None) -> str:
    """Return cn_guid.conf: the port GUIDs of compute HCAs, which ftree balances among themselves.

    `hcas` is `leaf_major` of the plane, if it is there already.
    """
    chosen = [hca for hca in _in_order(plan, plane, hcas) if hca.purpose == COMPUTE]
    return guid_list(
        NeededGuids(COMPUTE_LIST, "port"), plan, chosen, "Port GUIDs of compute HCAs, and of nothing else."
    )


def order(plan: Plan, plane: str | None = None, hcas: Sequence[Hca] | None = None) -> str:
    """Return guid_routing_order.conf: the port GUIDs of all HCAs, leaf by leaf. ftree does not read it; updn after it does.

    `hcas` is `leaf_major` of the plane, if it is there already.
    """
    return guid_list(
        NeededGuids(ORDER, "port"),
        plan,
        _in_order(plan, plane, hcas),
        "Port GUIDs, leaf by leaf. Host by host loads links 5 times.",
    )


def node_names(plan: Plan, plane: str | None = None) -> str:
    """Return node-name-map: names of switches, which mostly do not know their own. One bad line would undo the whole map."""
    chosen = switches(plan, plane)
    if missing := missing_guids(NeededGuids(NAMES, "node"), plan, chosen):
        raise GuidError(missing)
    return "".join(f'0x{guid_of(one.guid)} "{one.name}"\n' for one in chosen)


def policy(plan: Plan, choices: Choices, plane: str | None = None) -> str:
    """Return qos-policy.conf: the service level that a path record has, from and to HCAs of each purpose.

    Only who asks for path records is told: IPoIB and the RDMA connection manager. NCCL and UCX are told by their own options.
    """
    hcas = leaf_major(plan, plane)
    members = {lane: [hca for hca in hcas if hca.purpose == lane.purpose] for lane in choices.qos}
    special = [lane for lane, chosen in members.items() if lane.sl and chosen]
    if missing := missing_guids(NeededGuids(POLICY, "port"), plan, [hca for lane in special for hca in members[lane]]):
        raise GuidError(missing)
    lines = ["port-groups"]
    for lane in special:
        lines += ["    port-group", f"        name: {lane.purpose}", f"        use: HCAs of {lane.purpose}"]
        lines += [f"        port-guid: 0x{guid_of(hca.port_guid)}" for hca in members[lane]]
        lines.append("    end-port-group")
    lines += ["end-port-groups", "qos-levels", *_level("DEFAULT", 0)]
    for lane in special:
        lines += _level(lane.purpose, lane.sl)
    lines += ["end-qos-levels", "qos-match-rules"]
    for lane in special:
        for side in ("destination", "source"):
            lines += ["    qos-match-rule", f"        {side}: {lane.purpose}"]
            lines += [f"        qos-level-name: {lane.purpose}", "    end-qos-match-rule"]
    lines.append("end-qos-match-rules")
    return "\n".join(lines) + "\n"


def _level(name: str, sl: int) -> Iterator[str]:
    yield from ("    qos-level", f"        name: {name}", f"        sl: {sl}", "    end-qos-level")


def writers(plan: Plan, plane: str, choices: Choices) -> dict[str, Callable[[], str]]:
    """Return name -> writer of the files that all SMs of a plane have; a writer raises GuidError where GUIDs are missing."""
    engines, hcas = set(choices.engines or engines_of(plan, plane)), leaf_major(plan, plane)
    found: dict[str, Callable[[], str]] = {}
    if engines & {"ftree", "updn"}:
        found[ROOTS] = lambda: roots(plan, plane)
    if "ftree" in engines:
        found[COMPUTE_LIST] = lambda: compute(plan, plane, hcas)
    found[ORDER] = lambda: order(plan, plane, hcas)
    found[NAMES] = lambda: node_names(plan, plane)
    found[PARTITIONS] = lambda: partitions_text(plan, plane)
    if choices.qos:
        found[POLICY] = lambda: policy(plan, choices, plane)
    return found


class FilesError(ValueError):
    """Files that cannot be written, with one reason a line."""


def files(plan: Plan, manager: SubnetManager, choices: Choices = DEFAULTS) -> dict[str, str]:
    """Return name -> text of all files of an SM; FilesError names all mistakes of all of them."""
    if manager.hca not in plan.hcas:
        raise FilesError(f"subnet manager {manager.hca} is not an HCA of the plan")
    plane = plan.hcas[manager.hca].plane
    every = {OPTIONS: lambda: options_text(options(plan, manager, choices)), **writers(plan, plane, choices)}
    found, wrong = {}, []
    for name, write in every.items():
        try:
            found[name] = write()
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise FilesError("\n".join(wrong))
    return found
