# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's topologies of a plan: the tree of its switches, and the blocks of its NVLink domains where they are stated.

topology/block has no place for a node that is in no block; before 25.05 Slurm has one topology for all nodes, after it several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import NOTICE, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold

from ...cluster import Cluster
from ...cluster.fabric_checks import in_fabric
from ..core.fabric_model import Plan
from . import slurm_topology
from .slurm_names import SlurmNames
from .slurm_topology import SlurmSwitch, Topology

# From here on topology.yaml has several topologies.
SEVERAL = slurm_topology.YAML
# The switch of nodes that have no adapter in the fabric.
_OUTSIDE = "no-fabric"


@dataclass
class Topologies:
    """`tree`; `blocks` where the release takes them; `named` as they are written, the one of all partitions first."""

    tree: Topology
    blocks: Topology | None = None
    named: dict[str, Topology] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def first(self) -> Topology:
        """Return the topology of partitions that name none."""
        return next(iter(self.named.values()))


def topologies(cluster: Cluster, plan: Plan, version: str, several: bool = True) -> Topologies:
    """Return the topologies for a release of Slurm; TopologyError for text that is not a release.

    Without `several` they are those of a topology.conf, which has one.
    """
    nodes = [node.name for node in cluster.nodes]
    tree = tree_of(cluster, plan)
    found = Topologies(tree, named={"default": tree}, findings=list(tree.findings))
    if not plan.domains:
        return found
    number = slurm_topology.release(version)
    members = {host for domain in plan.domains for host in domain.hosts}
    outside = [name for name in nodes if name not in members]
    if not several and outside:
        return found
    if why := _no_blocks(number, version, outside):
        text = f"{why}, so Slurm gets the tree alone, and may spread a job over NVLink domains"
        found.findings.append(Finding("topology", "NVLink domains", "", text, _advice(number, outside), WARNING))
        return found
    domains = {domain.name: domain.hosts for domain in plan.domains}
    found.blocks = slurm_topology.blocks(plan, version, domains=domains, nodes=nodes)
    # Names of blocks that had to be changed, and the like; the tree has told its own.
    found.findings += [one for one in found.blocks.findings if one not in found.findings]
    if number < SEVERAL:
        found.named = {"default": found.blocks}
    else:
        found.named = {"tree": tree, "block": found.blocks} if outside else {"block": found.blocks, "tree": tree}
    return found


def tree_of(cluster: Cluster, plan: Plan, **options: str) -> Topology:
    """Return the tree, with a switch by itself for nodes that are meant to have no adapter in the fabric.

    Slurm starts no job on several nodes that are below no switch. Nothing joins it with the tree, as no cable of the fabric does.
    `options` are further ones of `slurm_topology.tree`.
    """
    top, kind = (cluster.fabric.top, cluster.fabric.kind) if cluster.fabric else ("top", "")
    seen = {hca.host for hca in plan.hcas.values()}
    # Without a section `fabric` nothing says which nodes are to have none.
    inside = {
        node.name: not cluster.fabric or node.name in seen or (in_fabric(node.profile, kind) and not plan.listed)
        for node in cluster.nodes
    }
    tree = slurm_topology.tree(plan, nodes=[name for name, there in inside.items() if there], top=top, **options)
    if without := tuple(name for name, there in inside.items() if not there):
        names = SlurmNames()
        for switch in tree.switches:
            names.take(switch.name)
        name = names.take(_OUTSIDE)
        tree.switches.insert(0, SlurmSwitch(name, 0, without, (), without, (name,)))
        text = f"{fold(without)} have no NIC in the fabric: Slurm has them below {name}, which nothing joins with the others"
        tree.findings.append(Finding("topology", name, "", text, severity=NOTICE))
    return tree


def _no_blocks(number: tuple[int, int], version: str, outside: Sequence[str]) -> str:
    if number < slurm_topology.BLOCK:
        return f"Slurm {version} does not support blocks"
    if outside and number < SEVERAL:
        return f"{fold(outside)} are in none, and Slurm {version} has one topology for all nodes"
    return ""


def _advice(number: tuple[int, int], outside: Sequence[str]) -> str:
    least = SEVERAL if outside else slurm_topology.BLOCK
    return f"take Slurm {least[0]}.{least[1]:02} or newer" if number < least else ""


def slurm_files(named: Mapping[str, Topology], version: str) -> dict[str, str]:
    """Return Slurm's files of topologies by name, the first for all partitions that name none; TopologyError for what a version lacks.

    topology.conf holds the first alone.
    """
    first = next(iter(named.values()))
    found = {"slurm/topology.conf": _head(first) + slurm_topology.conf(first, version)}
    if slurm_topology.release(version) >= SEVERAL:
        found["slurm/topology.yaml"] = slurm_topology.yaml(named, version)
    return found


def _head(topology: Topology) -> str:
    """Return the comment about the options of slurm.conf for the file."""
    return "".join(f"# slurm.conf: {name}={value}\n" for name, value in topology.options.items())
