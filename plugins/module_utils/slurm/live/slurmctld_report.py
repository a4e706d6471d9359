# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse slurmctld's options, nodes, partitions and jobs from scontrol and squeue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...common.hostlist import expand
from ..conf.conf_reader import Pairs

JOB_FORMAT = "%i|%P|%N|%n"
# The reason may contain blanks, brackets and words like pairs. User and time follow its first line, `Reason=fan is loud
# [ann@2026-11-25T22:18:50]`; then its other lines, each after eight blanks; then pairs, the first after one blank (node_info.c).
_REASON = re.compile(
    r" Reason=(?P<first>.*) \[(?P<user>[^\[\]@ ]+)@(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\](?P<others>.*?)"
    r"(?P<rest>(?: (?:Comment|Extra|InstanceId|InstanceType|ReservationName|TLSCert\w+|Topology|Parameters)=.*)?)$"
)
NOTHING = ("", "(null)", "N/A", "NONE")
"""Values that mean "nothing"."""


@dataclass(frozen=True)
class SlurmJob:
    """One job: its id, its partitions (several while it waits), its nodes (none while it waits), and the nodes that it requests."""

    id: str
    partitions: tuple[str, ...]
    nodes: tuple[str, ...]
    asked: tuple[str, ...] = ()


@dataclass
class Live:
    """Report of slurmctld: its options, nodes and partitions with their pairs, and all jobs that wait or run."""

    config: Pairs = field(default_factory=dict)
    nodes: dict[str, Pairs] = field(default_factory=dict)
    partitions: dict[str, Pairs] = field(default_factory=dict)
    jobs: list[SlurmJob] = field(default_factory=list)
    # Controllers whose slurmctld answers.
    up: list[str] = field(default_factory=list)

    @property
    def has_loaded_file(self) -> bool:
        """Return whether slurmctld runs slurm.conf as it is on disk."""
        return self.config.get("HASH_VAL", "").startswith("Match")

    def jobs_by_node(self) -> dict[str, list[str]]:
        """Return the ids of the jobs that hold each node: running, suspended or completing jobs."""
        found: dict[str, dict[str, None]] = {}
        for job in self.jobs:
            for name in job.nodes:
                found.setdefault(name, {})[job.id] = None
        return listed(found)


def parse_jobs(text: str) -> list[SlurmJob]:
    """Parse `squeue --noheader --all --format=%i|%P|%N|%n`.

    >>> parse_jobs("12|gpu,debug||n[1-2]")
    [SlurmJob(id='12', partitions=('gpu', 'debug'), nodes=(), asked=('n1', 'n2'))]
    """
    fields = [line.split("|") for line in text.splitlines() if line.count("|") == 3]
    return [
        SlurmJob(job, tuple(parts.split(",")), names_in(nodes), names_in(asked)) for job, parts, nodes, asked in fields
    ]


def names_in(hostlist: str) -> tuple[str, ...]:
    """Return the names of a hostlist; () for a value that means none."""
    return () if hostlist in NOTHING else tuple(expand(hostlist))


def pairs_of(line: str) -> Pairs:
    """Split one line of `scontrol --oneliner`: words without blanks, nothing quoted, no comments; the first of a key counts.

    >>> pairs_of("NodeName=n1 OS=Linux 6.1 #1 SMP RealMemory=960 AllocTRES= Reason=it's hot")["RealMemory"]
    '960'
    """
    pairs: Pairs = {}
    for word in line.split():
        key, equals, value = word.partition("=")
        if equals:
            pairs.setdefault(key, value)
    return pairs


def node_pairs(line: str) -> Pairs:
    """Split a line of `scontrol --oneliner show nodes`, with the whole reason as Reason, its user as ReasonUser and its time as ReasonTime.

    >>> node_pairs("NodeName=n1 State=IDLE+DRAIN Reason=fan State=x [ann@2026-11-25T22:18:50] Comment=c")["Reason"]
    'fan State=x'
    >>> node_pairs("NodeName=n1 Reason=fan [ann@2026-11-25T22:18:50]        keep it Comment=c")["Reason"]
    'fan        keep it'
    """
    found = _REASON.search(line)
    if not found:
        return pairs_of(line)
    rest = pairs_of(line[: found.start()] + found["rest"])
    reason = found["first"] + found["others"]
    return {**rest, "Reason": reason, "ReasonUser": found["user"], "ReasonTime": found["time"]}


def parse_live(config: str, nodes: str, partitions: str, jobs: str) -> Live:
    """Parse `scontrol show config`, `scontrol --oneliner show nodes`, `... --all show partitions` and the jobs."""
    options = re.findall(r"^(\w+) *= (.*\S)", config, re.MULTILINE)
    by_node = {pairs["NodeName"]: pairs for pairs in map(node_pairs, nodes.splitlines()) if "NodeName" in pairs}
    lines = map(pairs_of, partitions.splitlines())
    return Live(
        dict(options),
        # A dynamic node is in no file, so no file can remove it.
        {name: pairs for name, pairs in by_node.items() if "DYNAMIC" not in pairs.get("State", "")},
        {pairs["PartitionName"]: pairs for pairs in lines if "PartitionName" in pairs},
        parse_jobs(jobs),
        re.findall(r"^Slurmctld\(\w+\) at (\S+) is UP", config, re.MULTILINE),
    )


def listed(found: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return the same with lists."""
    return {name: list(ids) for name, ids in found.items()}
