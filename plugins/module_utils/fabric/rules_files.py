# SPDX-License-Identifier: GPL-3.0-or-later
"""P7, P8, P10, P11 and P12: what is written of a plan says what the plan says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import partitions
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.findings import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.guids import read_guids
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import guid_of
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import COMPUTE, Domain, Hca, Problem, Switch
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.names import natural
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.opensm import (
    COMPUTE_LIST,
    ORDER,
    OTHERS_LIST,
    PARTITIONS,
    ROOTS,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.partitions_reader import parse
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.slurm_topology import Topology
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.tiers import Union
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.view import View, problem


def root_file(view: View) -> Iterator[Problem]:
    """P7: the roots are all switches of the top tier, and nothing else."""
    for plane, file, text in _files(view, ROOTS):
        found, wrong = read_guids(text, file, "P7")
        yield from wrong
        top = {guid_of(one.guid): one for one in view.plan.roots(plane)}
        strange = [guid for guid in found if guid not in top]
        nodes = {guid_of(thing.guid): thing.name for thing in view.things() if strange and thing.guid}
        for guid in strange:
            name = nodes.get(guid, "")
            what = f"{view.plan.where(name)}, which is not of the top tier" if name else "nothing in the plan"
            text = f"0x{guid} is {what}: ways through the real top are lost"
            yield problem("P7", f"{file} line {found[guid]}", text)
        if lost := [view.plan.where(one.name) for guid, one in top.items() if guid not in found]:
            yield problem(
                "P7",
                file,
                f"{len(lost)} of {len(top)} switches of the top tier are not in it: {few(lost)}; no way goes through them",
            )


def lists(view: View) -> Iterator[Problem]:
    """P8: cn_guid.conf is the port GUIDs of compute, io_guid.conf those of all else."""
    for name, compute in ((COMPUTE_LIST, True), (OTHERS_LIST, False)):
        for plane, file, text in _files(view, name):
            wanted = [hca for hca in view.leaf_major.get(plane, ()) if (hca.purpose == COMPUTE) == compute]
            what = "compute HCAs" if compute else "HCAs that are not of compute"
            found, wrong = read_guids(text, file, "P8")
            yield from wrong
            yield from _listed(view, file, found, wanted, what)


def order_file(view: View) -> Iterator[Problem]:
    """P8: guid_routing_order.conf is the port GUIDs of all HCAs, leaf by leaf."""
    for plane, file, text in _files(view, ORDER):
        wanted = view.leaf_major.get(plane, ())
        found, wrong = read_guids(text, file, "P8")
        yield from wrong
        yield from _listed(view, file, found, wanted, "HCAs")
        leaf_of = view.plan.leaf_of()
        leaves = {guid_of(hca.port_guid): leaf_of[hca.name][0] for hca in wanted}
        left: set[str] = set()
        before = ""
        for guid, line in found.items():
            leaf = leaves.get(guid, before)
            if leaf != before and leaf in left:
                text = f"comes back to {leaf}, so the order is not leaf by leaf: the busiest link has up to 6 times its share"
                yield problem("P8", f"{file} line {line}", text)
                break
            left.add(before)
            before = leaf


def _listed(view: View, file: str, found: Mapping[str, int], wanted: Iterable[Hca], what: str) -> Iterator[Problem]:
    ports = {guid_of(hca.port_guid): hca for hca in wanted}
    strange = [guid for guid in found if guid not in ports]
    every = {guid_of(hca.port_guid): hca for hca in view.plan.hcas.values() if strange and hca.port_guid}
    nodes = {guid_of(thing.guid): thing for thing in view.things() if strange and thing.guid}
    for guid in strange:
        if guid in every:
            said = f"is {view.plan.where(every[guid].name)}, which does not belong to {what} of this plane"
        elif guid in nodes:
            thing = nodes[guid]
            kind = "a switch" if isinstance(thing, Switch) else "its node GUID; the port GUID is to be here"
            said = f"is {view.plan.where(thing.name)}, {kind}"
        else:
            said = "is nothing in the plan"
        yield problem("P8", f"{file} line {found[guid]}", f"0x{guid} {said}")
    if lost := [view.plan.where(hca.name) for guid, hca in ports.items() if guid not in found]:
        yield problem("P8", file, f"{len(lost)} of {len(ports)} {what} are not in it: {few(lost)}")


def partition_file(view: View) -> Iterator[Problem]:
    """P10: partitions can be written, and what is written gives every port exactly its P_Keys."""
    yield from (problem("P10", "partitions", text) for text in partitions.mistakes(view.plan))
    for plane, file, text in _files(view, PARTITIONS):
        entries, wrong = parse(text, view.plan, both=partitions.both(view.plan))
        yield from wrong
        hcas = [hca for hca in view.plan.hcas.values() if hca.plane == plane and hca.port_guid]
        names = {hca.name for hca in hcas}
        masters = [one.hca for one in view.plan.managers if one.hca in names]
        if not masters or wrong:
            continue
        master = view.plan.hcas[masters[0]].port_guid
        held = partitions.pkeys_of(entries, (hca.port_guid for hca in hcas), master)
        planned = partitions.planned_pkeys(view.plan, plane, master)
        for hca in hcas if held != planned else ():
            mine, wanted = held[guid_of(hca.port_guid)], planned[guid_of(hca.port_guid)]
            if mine != wanted:
                text = f"{file} gives it the P_Keys {_keys(mine)}, and the plan has {_keys(wanted)}"
                yield problem("P10", view.plan.where(hca.name), text)


def _keys(keys: Iterable[int]) -> str:
    return " ".join(f"0x{key:04x}" for key in keys)


def _files(view: View, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield plane, file and text."""
    for plane, files in view.beside.files.items():
        if name in files:
            yield plane, f"{plane}/{name}" if plane else name, files[name]


def slurm_leaves(view: View) -> Iterator[Problem]:
    """P11: each node is in one leaf and at most one block, and all of slurm.conf are in one."""
    topology, nodes = view.beside.topology, view.beside.nodes
    if topology is None:
        known = {hca.host for hca in view.plan.hcas.values()}
        yield from (
            problem("P11", node, "is a node of slurm.conf, and has no HCA in the plan")
            for node in nodes or ()
            if node not in known
        )
        return
    leaves = {switch.name: switch.nodes for switch in topology.switches if not switch.switches}
    for what, groups in (("leaf", leaves), ("block", topology.blocks)):
        counts = Counter(node for members in groups.values() for node in members)
        for node, count in counts.items():
            if count > 1:
                places = [name for name, members in groups.items() if node in members]
                text = f"is in {count} of Slurm's {'leaves' if what == 'leaf' else 'blocks'}: {few(places)}"
                yield problem("P11", node, text)
        for node in nodes or () if groups else ():
            if node not in counts:
                yield problem("P11", node, f"is a node of slurm.conf, and in no {what} of the topology")


def slurm_roots(view: View) -> Iterator[Problem]:
    """P11: Slurm's roots are the parts of the fabric that cables join, one each."""
    topology = view.beside.topology
    if topology is None or not topology.switches:
        return
    below = {child for switch in topology.switches for child in switch.switches}
    roots = {switch.name: switch.all_nodes for switch in topology.switches if switch.name not in below}
    part_of = _parts(view)
    parts: dict[str, list[str]] = {}
    for name, nodes in roots.items():
        mine = list(dict.fromkeys(part_of[node] for node in nodes if node in part_of))
        if len(mine) > 1:
            some = [next(node for node in nodes if part_of.get(node) == part) for part in mine]
            yield problem("P11", name, f"Slurm would place jobs across {few(some)}, which no cable joins")
        for part in mine:
            parts.setdefault(part, []).append(name)
    for names in parts.values():
        if len(names) > 1:
            yield problem(
                "P11",
                few(names),
                "cables join what is below them, and Slurm has no common switch: jobs cannot span them",
            )


def _parts(view: View) -> dict[str, str]:
    """Return host -> a switch or host that stands for all it is joined with by cables of any of its planes."""
    union = Union()
    host_of = {name: f"host {hca.host}" for name, hca in view.plan.hcas.items()}
    for link in view.plan.present:
        union.join(host_of.get(link.a, link.a), host_of.get(link.b, link.b))
    hosts = {hca.host for hca in view.plan.hcas.values()}
    return {host: str(union.find(f"host {host}")) for host in hosts}


def domains(view: View) -> Iterator[Problem]:
    """P12: an NVLink domain is one rack, whole, and no other's."""
    racks = {hca.host: hca.rack for hca in view.plan.hcas.values()}
    of: dict[str, str] = {}
    ids: dict[str, str] = {}
    for domain in view.plan.domains:
        where = f"rack {domain.rack}, {domain.name}" if domain.rack else domain.name
        for host in domain.hosts:
            if host in of:
                yield problem("P12", where, f"{host} is in the NVLink domain {of[host]} as well")
            of.setdefault(host, domain.name)
            if host not in racks:
                yield problem("P12", where, f"{host} is no host of the plan")
        yield from (problem("P12", where, text) for text in _domain(domain, racks))
        if domain.uuid:
            mark = f"{domain.uuid}.{domain.clique}"
            if mark in ids:
                yield problem("P12", where, f"has cluster UUID and clique {mark} of {ids[mark]}: they are one domain")
            ids.setdefault(mark, domain.name)


def _domain(domain: Domain, racks: Mapping[str, str]) -> Iterator[str]:
    if len(set(domain.hosts)) != domain.expected:
        yield f"{len(set(domain.hosts))} hosts, and {domain.expected} are to be in it"
    elsewhere: dict[str, list[str]] = {}
    own = domain.rack or next((racks[host] for host in domain.hosts if host in racks), "")
    for host in domain.hosts:
        if racks.get(host, own) != own:
            elsewhere.setdefault(racks[host], []).append(host)
    for rack, hosts in elsewhere.items():
        yield f"{few(hosts)} in rack {rack}: NVLink does not leave a rack"


def block_order(view: View) -> Iterator[Problem]:
    """P12: blocks are in the order of racks, for Slurm makes larger ones of neighbours, and their sizes double."""
    topology = view.beside.topology
    domains = [one for one in view.plan.domains if one.hosts]
    domains = [one for one in domains if one.rack]
    for one, following in zip(domains, domains[1:]):  # noqa: RUF007 - python 3.9 has no pairwise
        if natural(following.rack) < natural(one.rack):
            yield problem(
                "P12",
                f"rack {following.rack}, {following.name}",
                f"comes after {one.name} of rack {one.rack}: Slurm makes larger blocks of those that follow each other",
            )
    if topology is not None:
        yield from _sizes(topology)


def _sizes(topology: Topology) -> Iterator[Problem]:
    sizes = list(topology.sizes)
    for size in sizes[1:]:
        times, rest = divmod(size, sizes[0])
        if rest or times & (times - 1) or times < 2:
            yield problem("P12", "BlockSizes", f"{size} is not 2, 4, 8, ... times {sizes[0]}")
    if sizes != sorted(sizes):
        yield problem("P12", "BlockSizes", f"{', '.join(map(str, sizes))} do not rise")
