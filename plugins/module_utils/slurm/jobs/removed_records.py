# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep nodes and partitions in slurm.conf that the cluster file no longer has, while jobs still use them.

Slurm kills the running jobs of a partition that disappears, and fails its pending ones; it kills the jobs of a node that disappears, and
fails those that wait for it by name. So a removed partition with jobs is kept, draining and hidden, and a removed node with jobs is kept
outside all partitions, so that no new job starts there. The first run after their last job removes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...common.hostlist import expand, fold, natural_key
from ..conf.conf_reader import Conf, Pairs, line_of, nodes_of, partitions_of
from ..live.slurmctld_report import NOTHING, Live, SlurmJob, listed, names_in

# Keys that scontrol reports, with their names in slurm.conf, for a node or partition without a line of its own there.
_NODE_KEYS = (
    *("NodeName", "NodeAddr", "NodeHostName", "Port"),
    *(
        "Sockets",
        "CoresPerSocket",
        "ThreadsPerCore",
        "RealMemory",
        "CPUSpecList",
        "CoreSpecCount",
        "MemSpecLimit",
        "Gres",
    ),
)
_PARTITION_KEYS = ("PartitionName", "MaxTime", "OverSubscribe", "PriorityTier", "PriorityJobFactor")


@dataclass
class Retained:
    """Lines to add to the new files, and the reason: name -> ids of the jobs."""

    slurm: list[str] = field(default_factory=list)
    gres: list[str] = field(default_factory=list)
    nodes: dict[str, list[str]] = field(default_factory=dict)
    partitions: dict[str, list[str]] = field(default_factory=dict)


def leaving(
    conf: Conf, live: Live | None, nodes: Iterable[str], partitions: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Return the nodes and the partitions that are in force, in the file or in slurmctld, and no longer desired."""
    live = live or Live()
    wanted_nodes, wanted_partitions = set(nodes), set(partitions)
    return (
        [name for name in {**nodes_of(conf), **live.nodes} if name not in wanted_nodes],
        [name for name in {**partitions_of(conf), **live.partitions} if name not in wanted_partitions],
    )


def retain(
    conf: Conf, gres_conf: Conf, gone_nodes: Iterable[str], gone_partitions: Iterable[str], live: Live
) -> Retained:
    """Return the lines that keep the jobs of removed nodes and partitions alive."""
    kept = Retained()
    by_node, by_partition = _users(live.jobs)
    nodes = {**{name: reported(pairs) for name, pairs in live.nodes.items()}, **nodes_of(conf)}
    devices = GresConf(gres_conf)
    gone = set(gone_nodes)
    for name in gone_nodes:
        if name in by_node:
            kept.nodes[name] = by_node[name]
            kept.slurm.append(_node_line(nodes[name]))
            gres = nodes[name].get("Gres", "")
            lines = devices.lines_of(name, gres)
            kept.gres += [line_of({"NodeName": name, **pairs}) for pairs in lines]
            kept.gres += gres_count_lines(name, gres, lines)
    partitions = partitions_of(conf)
    for name in gone_partitions:
        if name in by_partition:
            in_force = live.partitions.get(name, {})
            members = names_in(in_force.get("Nodes", ""))
            stay = [node for node in members if node not in gone] or [node for node in members if node in kept.nodes]
            kept.partitions[name] = by_partition[name]
            kept.slurm.append(_partition_line(partitions.get(name) or reported(in_force, _PARTITION_KEYS), stay))
    return kept


def _users(jobs: Iterable[SlurmJob]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return node -> ids and partition -> ids of the jobs that need it."""
    nodes: dict[str, dict[str, None]] = {}
    partitions: dict[str, dict[str, None]] = {}
    for job in jobs:
        for name in dict.fromkeys((*job.nodes, *job.asked)):
            nodes.setdefault(name, {})[job.id] = None
        for name in job.partitions:
            partitions.setdefault(name, {})[job.id] = None
    return listed(nodes), listed(partitions)


def reported(pairs: Mapping[str, str], keys: Iterable[str] = _NODE_KEYS) -> Pairs:
    """Return scontrol's report as pairs of slurm.conf, by default of a node."""
    found = {key: pairs[key] for key in keys if pairs.get(key, "") not in NOTHING}
    if found.get("NodeHostName") == found.get("NodeName"):
        found.pop("NodeHostName", None)
    if "Gres" in found:  # scontrol adds the sockets of the GPUs: gpu:h100:8(S:0-1)
        found["Gres"] = re.sub(r"\(S:[^)]*\)", "", found["Gres"])
    return found


def _node_line(pairs: Mapping[str, str]) -> str:
    # Without its features the node is in no node set, so in no partition: no new job starts there.
    return line_of({name: value for name, value in pairs.items() if name not in ("Feature", "State", "Reason")})


def _partition_line(pairs: Mapping[str, str], members: list[str]) -> str:
    # Jobs may wait in a partition whose nodes are all removed. Slurm refuses an empty Nodes=; every release accepts a plain hostlist.
    nodes = {"Nodes": fold(members, suffixes=False)} if members else {}
    kept = {name: value for name, value in pairs.items() if name != "Nodes"}
    order = {"PartitionName": kept.pop("PartitionName"), **nodes}
    return line_of({**order, **kept, "Default": "NO", "State": "DRAIN", "Hidden": "YES"})


def gres_types(gres: str) -> list[str]:
    """Return the names in a Gres value.

    >>> gres_types("gpu:h100:8(S:0-1),shard:4,gpu:a100:1")
    ['gpu', 'shard']
    """
    items = re.sub(r"\([^)]*\)", "", gres).split(",")
    return list(dict.fromkeys(name for name in (item.partition(":")[0] for item in items) if name))


class GresConf:
    """Lines of a gres.conf by node; a line without nodes applies to all nodes that have such a device."""

    def __init__(self, conf: Conf) -> None:
        self._lines = [{key: value for key, value in pairs.items() if key != "NodeName"} for pairs in conf.lines]
        self._for_all: list[int] = []
        self._of_node: dict[str, list[int]] = {}
        for number, pairs in enumerate(conf.lines):
            if "NodeName" not in pairs:
                self._for_all.append(number)
            for name in expand(pairs.get("NodeName", "")):
                self._of_node.setdefault(name, []).append(number)

    def lines_of(self, node: str, gres: str) -> list[Pairs]:
        """Return the lines of a node with this Gres, in file order, without its name."""
        types = gres_types(gres)
        own = self._of_node.get(node, [])
        shared = [
            number for number in self._for_all if types and self._lines[number].get("Name", types[0]) in ["", *types]
        ]
        return [self._lines[number] for number in sorted({*own, *shared})]


def gres_count_lines(node: str, gres: str, lines: Iterable[Pairs]) -> list[str]:
    """Return lines of gres.conf for the devices of a Gres that no other line has.

    Such a node has its own gres.conf; slurmctld still expects as many devices as the node line has.
    """
    names = [pairs.get("Name", "") for pairs in lines]
    found = set(gres_types(gres)) if "" in names else set(names)
    counts = []
    for item in gres.split(","):
        parts = [part for part in re.sub(r"\([^)]*\)", "", item).split(":") if part != "no_consume"]
        if parts[0] and parts[0] not in found:
            count = {"Count": parts[-1]} if len(parts) > 1 else {}
            kind = {"Type": parts[1]} if len(parts) > 2 else {}
            counts.append(line_of({"NodeName": node, "Name": parts[0], **kind, **count}))
    return counts


def merged(results: Iterable[Mapping[str, Any]]) -> Retained:
    """Merge the answers of several controllers, so that all write the same: the union, in one order.

    An answer is what the module slurm_in_use returned; one of a controller that was not reached has no lines.
    If two controllers have different lines for one object, the first line counts.
    """
    kept = Retained()
    lines: dict[tuple[str, str], str] = {}
    gres: dict[str, list[str]] = {}
    for result in results:
        own: dict[str, list[str]] = {}
        for line in result.get("slurm") or ():
            lines.setdefault(_subject(line), line)
        for line in result.get("gres") or ():
            own.setdefault(_subject(line)[1], []).append(line)
        gres = {**own, **gres}
        kept.nodes = {**(result.get("nodes") or {}), **kept.nodes}
        kept.partitions = {**(result.get("partitions") or {}), **kept.partitions}
    kept.slurm = [lines[key] for key in sorted(lines, key=lambda key: (key[0], natural_key(key[1])))]
    kept.gres = [line for name in sorted(gres, key=natural_key) for line in gres[name]]
    return kept


def _subject(line: str) -> tuple[str, str]:
    """Return kind and name of what a line is about: NodeName, gpu01."""
    kind, _unused, name = line.split(" ", 1)[0].partition("=")
    return kind, name
