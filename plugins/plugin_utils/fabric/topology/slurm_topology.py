# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's topology files from a fabric: topology.conf as tree or block and topology.yaml, for a stated version of Slurm.

What each version takes and refuses was tried with its slurmctld (22.05, 24.11, 25.05, 25.11, 26.05). Slurm's start takes time with the
cube of its switches, and it makes no tree of spines that all stand above the same leaves, so only what `host_tree` makes is written.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import NOTICE, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold, natural_key

from ..core.fabric_model import COMPUTE, Plan
from ..core.host_tree import Branch, roots
from .slurm_names import NO_TEXT, SlurmNames, safe

# First versions that take it.
BLOCK, YAML = (24, 5), (25, 5)
# Options of slurm.conf that go with blocks.
OF_BLOCKS = {"TopologyPlugin": "topology/block"}
_SUFFIXES, _SMALL_BLOCKS = (23, 11), (25, 5)
_PLAIN_YAML = (26, 5)
# Kind of fabric -> TopologyParam of slurm.conf.
PARAMS = {"dragonfly": "dragonfly"}
_PLAN_THEM = "add every node to the plan, or cable it"


class TopologyError(ValueError):
    """A topology that this version of Slurm does not support, with an alternative."""


@dataclass(frozen=True)
class SlurmSwitch:
    """A switch in Slurm's topology; `nodes` are a leaf's, `all_nodes` all below; `stands_for` are the fabric's own."""

    name: str
    level: int
    nodes: tuple[str, ...]
    switches: tuple[str, ...]
    all_nodes: tuple[str, ...]
    stands_for: tuple[str, ...]


@dataclass
class Topology:
    """A tree (leaves first) or blocks in physical order, with the undecided parts."""

    switches: list[SlurmSwitch] = field(default_factory=list)
    blocks: dict[str, list[str]] = field(default_factory=dict)
    # NVLink domains that are too small for a block of the release, and their nodes, which are in no block.
    left_out: dict[str, list[str]] = field(default_factory=dict)
    sizes: Sequence[int] = ()
    # TopologyParam of slurm.conf.
    param: str = ""
    findings: list[Finding] = field(default_factory=list)
    # The roots of the fabric, where all its hosts of compute are in the tree.
    branches: list[Branch] | None = None

    @property
    def options(self) -> dict[str, str]:
        """Return its options of slurm.conf."""
        found = dict(OF_BLOCKS) if self.blocks else {"TopologyPlugin": "topology/tree"}
        return {**found, "TopologyParam": self.param} if self.param else found


def release(version: str) -> tuple[int, int]:
    """Return year and month of a version of Slurm.

    >>> release("24.11.5")
    (24, 11)
    """
    match = re.match(r"(\d\d)\.(\d\d)(\.\S+)?\Z", version.strip())
    if not match:
        raise TopologyError(f"{version!r} is not a version of Slurm; allowed: such as 22.05 or 24.11.5")
    return int(match[1]), int(match[2])


def tree(
    plans: Plan | Sequence[Plan], *, nodes: Sequence[str] | None = None, top: str = "top", advice: str = _PLAN_THEM
) -> Topology:
    """Return the tree of one or several fabrics, of `nodes` (of slurm.conf) alone, if they are given.

    Connected fabrics get a root each: jobs cannot span what no cable joins. `top` is the name of the root, or the start of their names.
    `advice` is what to do with nodes that are in none.
    """
    plans = [plans] if isinstance(plans, Plan) else list(plans)
    found: list[tuple[Plan, Branch]] = []
    topology = Topology(param=next((PARAMS[plan.kind] for plan in plans if plan.kind in PARAMS), ""))
    taken: dict[str, str] = {}
    wanted = None if nodes is None else set(nodes)
    for plan in plans:
        # A node in two leaves is a warning to Slurm, and a mess to its scheduler: the first fabric has it.
        left = [host for host in _hosts(plan) if host not in taken and (wanted is None or host in wanted)]
        taken |= dict.fromkeys(left, plan.name)
        branches, findings = roots(plan, left)
        if len(plans) == 1 and _computing(plan) <= set(left):
            topology.branches = branches
        topology.findings += findings
        found += [(plan, branch) for branch in branches]
    _name_all(found, top, topology)
    if nodes is not None:
        _uncovered(nodes, topology, advice)
    return topology


def _hosts(plan: Plan) -> list[str]:
    return list(dict.fromkeys(hca.host for hca in plan.hcas.values()))


def _computing(plan: Plan) -> set[str]:
    return {hca.host for hca in plan.hcas.values() if hca.purpose == COMPUTE}


def _uncovered(nodes: Sequence[str], topology: Topology, advice: str) -> None:
    known = {name for switch in topology.switches for name in switch.nodes}
    known |= {finding.where for finding in topology.findings}
    if missing := [name for name in nodes if name not in known]:
        them = "it" if len(missing) == 1 else "them"
        text = f"no HCA of {them} is in the fabric, so Slurm starts no job on {them} and others"
        topology.findings.append(Finding("topology", fold(missing), "", text, advice))


def _name_all(found: Sequence[tuple[Plan, Branch]], top: str, topology: Topology) -> None:
    names = SlurmNames()
    many = sum(branch.top for _plan, branch in found) > 1
    several = len({id(plan) for plan, _branch in found}) > 1
    branches = [(plan, branch) for plan, root in found for branch in _below_first(root)]
    # How many branches would like the name: one that several want is nobody's.
    wanted = Counter(_common(plan, branch) for plan, branch in branches if len(branch.switches) > 1)
    given: dict[Branch, SlurmSwitch] = {}
    for plan, branch in branches:
        own, common = sorted(branch.switches, key=natural_key), _common(plan, branch)
        if branch.top:
            planes = {plan.switches[name].plane for name in own}
            part = plan.name if several else "".join(planes) if len(planes) == 1 else ""
            name = names.take(f"{top}-{part or own[0]}" if many else top)
        else:
            short = common if wanted[common] == 1 and len(own) > 1 else ""
            name = names.take(short, own[0], f"{own[0]}-{'group' if branch.below else 'hosts'}")
        below = [given[one] for one in branch.below]
        nodes = tuple(branch.hosts) or tuple(node for one in below for node in one.all_nodes)
        level = 1 + max(one.level for one in below) if below else 0
        children = tuple(one.name for one in below)
        given[branch] = SlurmSwitch(name, level, tuple(branch.hosts), children, nodes, tuple(own))
    topology.switches = sorted(given.values(), key=lambda switch: switch.level)
    for before, after in names.changed.items():
        text = f"Slurm knows it as {after}: its name would be cut, or read as no text"
        topology.findings.append(Finding("topology", before, "", text, severity=NOTICE))


def _below_first(branch: Branch) -> Iterable[Branch]:
    for below in branch.below:
        yield from _below_first(below)
    yield branch


def _common(plan: Plan, branch: Branch) -> str:
    """Return the words that the groups of a branch's switches have in common: pod1 of rail0-pod1 and rail1-pod1."""
    groups = [plan.switches[name].group.split("-") for name in branch.switches]
    return "-".join(word for word in groups[0] if all(word in words for words in groups))


def blocks(
    plan: Plan | Sequence[Plan],
    version: str,
    *,
    domains: Mapping[str, Sequence[str]] | None = None,
    sizes: Sequence[int] = (),
    nodes: Sequence[str] | None = None,
    short: Collection[str] = (),
) -> Topology:
    """Return blocks, in physical order: Slurm makes larger ones of blocks that follow each other.

    `domains` are blocks and their nodes (NVLink domains); without them each leaf of the tree is one. `short` are the domains that are not
    whole; before 25.05 those with too few nodes for a block are in `left_out`. `sizes` are BlockSizes in nodes; without them the smallest
    whole block (from 25.05 on, the most common size) and its doubles. Raises `TopologyError` with all mistakes.
    """
    topology = Topology()
    if domains is None:
        leaves = tree(plan, nodes=nodes)
        topology.findings = leaves.findings
        place = {
            host: number
            for one in ([plan] if isinstance(plan, Plan) else plan)
            for number, host in enumerate(_hosts(one))
        }
        in_order = sorted((one for one in leaves.switches if one.nodes), key=lambda one: place.get(one.nodes[0], 0))
        domains = {switch.name: switch.nodes for switch in in_order}
    names = SlurmNames()
    wanted = None if nodes is None else set(nodes)
    given: dict[str, list[str]] = {}
    for name, members in domains.items():
        kept = [node for node in members if wanted is None or node in wanted]
        if kept:  # a block without nodes is fatal before 25.05, and tells nothing after
            topology.blocks[names.take(name)] = kept
            given[name] = kept
    if not topology.blocks:
        raise TopologyError("no block has a node: name NVLink domains, or nodes of the fabric")
    # Where all are short, they are alike.
    whole = [len(kept) for name, kept in given.items() if name not in short] or [len(kept) for kept in given.values()]
    base = sizes[0] if sizes else _base(whole, release(version))
    if release(version) < _SMALL_BLOCKS:
        topology.left_out = {name: kept for name, kept in given.items() if name in short and len(kept) < base}
        gone = {node for kept in topology.left_out.values() for node in kept}
        topology.blocks = {name: kept for name, kept in topology.blocks.items() if not gone.issuperset(kept)}
    topology.sizes = list(sizes) or _sizes(topology.blocks, base)
    if mistakes := _block_mistakes(topology, release(version)):
        raise TopologyError("; ".join(mistakes))
    return topology


def _base(whole: Sequence[int], version: tuple[int, int]) -> int:
    """Return the size of a base block; `whole` has the nodes of each domain that is whole. Slurm keeps a job of that many in a block."""
    counts = Counter(whole)
    return min(counts) if version < _SMALL_BLOCKS else min(counts, key=lambda size: (-counts[size], size))


def _sizes(members: Mapping[str, Sequence[str]], base: int) -> list[int]:
    most = sum(len(nodes) // base for nodes in members.values())
    found = [base]
    while found[-1] * 2 <= base * min(most, len(members)):
        found.append(found[-1] * 2)
    return found


def _block_mistakes(topology: Topology, version: tuple[int, int]) -> list[str]:
    found = []
    sizes, counts = topology.sizes, Counter(node for nodes in topology.blocks.values() for node in nodes)
    if twice := [node for node, count in counts.items() if count > 1]:
        found.append(f"{fold(twice)} would be in two blocks; allowed: one block for each node")
    doubles = [sizes[0] * 2**power for power in range(40)] if sizes[0] > 0 else []
    if list(sizes) != sorted(set(sizes)) or any(size not in doubles for size in sizes):
        text = ",".join(map(str, sizes))
        found.append(f"BlockSizes {text}: allowed are a size and 2, 4, 8... times it, ascending, such as 18,36,72")
    small = [name for name, nodes in topology.blocks.items() if len(nodes) < sizes[0]]
    if small and version < _SMALL_BLOCKS:
        smallest = min(len(nodes) for nodes in topology.blocks.values())
        found.append(
            f"{fold(small)} has fewer nodes than the {sizes[0]} of the first of BlockSizes, which is fatal before Slurm 25.05; "
            f"allowed: at most {smallest}"
        )
    return found


def conf(topology: Topology, version: str) -> str:
    """Return topology.conf; raises `TopologyError` if the version does not support the topology."""
    number = release(version)
    suffixes = number >= _SUFFIXES
    lines = []
    if topology.blocks:
        if number < BLOCK:
            raise TopologyError(
                f"Slurm {version} does not read blocks as they are written here; allowed: 24.05 and later"
            )
        for name, nodes in topology.blocks.items():
            lines.append(f"BlockName={name} Nodes={fold(nodes, suffixes)}")
        lines.append(f"BlockSizes={','.join(map(str, topology.sizes))}")
    for switch in topology.switches:
        if switch.stands_for != (switch.name,):
            lines.append(_comment(switch))
        below = (
            f"Nodes={fold(switch.nodes, suffixes)}" if switch.nodes else f"Switches={fold(switch.switches, suffixes)}"
        )
        lines.append(f"SwitchName={switch.name} {below}")
    return "".join(f"{line}\n" for line in lines)


def _comment(switch: SlurmSwitch) -> str:
    text = f"# {switch.name} is {fold(re.sub('[][, ]', '-', name) for name in switch.stands_for)}"
    return text if len(text) <= 120 else f"{text[:100]}... ({len(switch.stands_for)} switches)"


def yaml(topologies: Mapping[str, Topology], version: str) -> str:
    """Return topology.yaml of topologies by name, the first for partitions that name none; from Slurm 25.05 on."""
    number = release(version)
    if number < YAML:
        raise TopologyError(f"Slurm {version} reads no topology.yaml; allowed: 25.05 and later, or topology.conf")
    lines = ["---"]
    for place, (name, topology) in enumerate(topologies.items()):
        lines += [f"- topology: {json.dumps(safe(name))}", f"  cluster_default: {'false' if place else 'true'}"]
        if topology.blocks:
            lines += ["  block:", "    block_sizes:", *(f"      - {size}" for size in topology.sizes), "    blocks:"]
            for block, nodes in topology.blocks.items():
                lines += [f"      - block: {json.dumps(block)}", f"        nodes: {_hostlist(nodes, number)}"]
            continue
        lines += ["  tree:", "    switches:"]
        for switch in topology.switches:
            key, below = ("nodes", switch.nodes) if switch.nodes else ("children", switch.switches)
            lines += [f"      - switch: {json.dumps(switch.name)}", f"        {key}: {_hostlist(below, number)}"]
    return "".join(f"{line}\n" for line in lines)


def _hostlist(names: Sequence[str], version: tuple[int, int]) -> str:
    """Return a hostlist that is text: the one node 1e3 is written 1e[3]. Slurm before 26.05 has no way to write the one node `on`."""
    text = fold(names)
    if version < _PLAIN_YAML and "[" not in text and "," not in text:
        if NO_TEXT.match(text):
            raise TopologyError(
                f"node {text} is alone on its leaf, and topology.yaml of Slurm before 26.05 reads {text} as no name; "
                "use topology.conf"
            )
        digits = re.search(r"[0-9]+\Z", text)
        if not text[0].isalpha() and digits:
            text = f"{text[: digits.start()]}[{digits[0]}]"
    return json.dumps(text)


def shown(topology: Topology) -> dict[str, tuple[int, str, str]]:
    """Return the expected `scontrol show topology`: switch -> level, all nodes below, switches directly below, as hostlists."""
    return {one.name: (one.level, fold(one.all_nodes), fold(one.switches)) for one in topology.switches}
