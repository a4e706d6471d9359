# SPDX-License-Identifier: GPL-3.0-or-later
"""What must stay in slurm.conf although the cluster file no longer has it, because jobs still use it.

Slurm kills the running jobs of a partition that disappears, and fails its pending ones; it kills the jobs of a node that
disappears. A running job outranks any change: such a partition stays, draining and hidden, and such a node stays, in no
partition, so that nothing new lands there. The first run after the last job has ended drops them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import expand, fold


@dataclass(frozen=True)
class Job:
    """One job: its id, the partitions it is in (several while it waits) and the nodes it has (none while it waits)."""

    id: str
    partitions: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass
class Retained:
    """Lines to add to the new files, and what they are for: name -> ids of the jobs."""

    slurm: list[str] = field(default_factory=list)
    gres: list[str] = field(default_factory=list)
    nodes: dict[str, list[str]] = field(default_factory=dict)
    partitions: dict[str, list[str]] = field(default_factory=dict)


def parse_jobs(text: str) -> list[Job]:
    """Parse `squeue --noheader --all --format=%i|%P|%N`.

    >>> parse_jobs("12|gpu,debug|")
    [Job(id='12', partitions=('gpu', 'debug'), nodes=())]
    """
    jobs = []
    for line in text.splitlines():
        if line.count("|") == 2:
            job, partitions, nodes = line.split("|")
            jobs.append(Job(job, tuple(partitions.split(",")), tuple(expand(nodes)) if nodes else ()))
    return jobs


def pairs_of(line: str) -> dict[str, str]:
    """Split one line of a Slurm file into its pairs; a comment or blank line has none."""
    words = shlex.split(line, comments=True)
    return dict(word.split("=", 1) for word in words if "=" in word)


def _lines(text: str, first: str) -> Iterator[dict[str, str]]:
    for line in text.splitlines():
        if line.startswith(first + "="):
            yield pairs_of(line)


def nodes_of(slurm_conf: str) -> dict[str, dict[str, str]]:
    """Return every node of a slurm.conf with the pairs of its line, its own address in NodeAddr."""
    nodes = {}
    for pairs in _lines(slurm_conf, "NodeName"):
        names = expand(pairs["NodeName"])
        addresses = expand(pairs["NodeAddr"]) if "NodeAddr" in pairs else names
        for name, address in zip(names, addresses):
            nodes[name] = {**pairs, "NodeName": name, "NodeAddr": address}
    return nodes


def partitions_of(slurm_conf: str) -> dict[str, dict[str, str]]:
    """Return every partition of a slurm.conf with the pairs of its line."""
    return {pairs["PartitionName"]: pairs for pairs in _lines(slurm_conf, "PartitionName")}


def leaving(slurm_conf: str, nodes: Iterable[str], partitions: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the nodes and the partitions that the file in force has and the wanted ones lack."""
    wanted_nodes, wanted_partitions = set(nodes), set(partitions)
    return (
        [name for name in nodes_of(slurm_conf) if name not in wanted_nodes],
        [name for name in partitions_of(slurm_conf) if name not in wanted_partitions],
    )


def retain(
    slurm_conf: str,
    gres_conf: str,
    gone_nodes: Iterable[str],
    gone_partitions: Iterable[str],
    jobs: Iterable[Job],
    partition_nodes: Mapping[str, Iterable[str]],
) -> Retained:
    """Return the lines that keep the jobs of leaving nodes and partitions alive.

    `partition_nodes` is what Slurm says each leaving partition holds; `jobs` are all jobs that wait or run.
    """
    kept = Retained()
    jobs = list(jobs)
    old_nodes = nodes_of(slurm_conf)
    for name in gone_nodes:
        users = [job.id for job in jobs if name in job.nodes]
        if users:
            kept.nodes[name] = users
            kept.slurm.append(_node_line(old_nodes[name]))
            kept.gres += _gres_lines(gres_conf, name)
    old_partitions = partitions_of(slurm_conf)
    gone = set(gone_nodes)
    for name in gone_partitions:
        users = [job.id for job in jobs if name in job.partitions]
        if users:
            kept.partitions[name] = users
            members = [node for node in partition_nodes.get(name, ()) if node not in gone] or list(kept.nodes)
            kept.slurm.append(_partition_line(old_partitions[name], members))
    return kept


def _node_line(pairs: Mapping[str, str]) -> str:
    # Without its features the node is in no node set, so in no partition: nothing new starts there.
    return _join({name: value for name, value in pairs.items() if name not in ("Feature", "State", "Reason")})


def _partition_line(pairs: Mapping[str, str], members: list[str]) -> str:
    # Jobs may wait in a partition whose nodes have all left: Slurm takes no empty Nodes=.
    nodes = {"Nodes": fold(members)} if members else {}
    kept = {name: value for name, value in pairs.items() if name != "Nodes"}
    order = {"PartitionName": kept.pop("PartitionName"), **nodes}
    return _join({**order, **kept, "Default": "NO", "State": "DRAIN", "Hidden": "YES"})


def _gres_lines(gres_conf: str, node: str) -> list[str]:
    return [
        _join({**pairs, "NodeName": node})
        for pairs in _lines(gres_conf, "NodeName")
        if node in expand(pairs["NodeName"])
    ]


def _join(pairs: Mapping[str, str]) -> str:
    return " ".join(f'{name}="{value}"' if " " in value else f"{name}={value}" for name, value in pairs.items())
