# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what sinfo, squeue and sdiag print, as far as the exporter of Slurm shows it: no input or output.

sinfo, not `scontrol show nodes --json`: for each node it prints a line of 60 bytes instead of 2.3 kB, the columns exist in 22.05 and in
24.11, and no plugin for JSON is needed. One call has nodes and partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...slurm.live import drain_reasons

# A suffix instead of a width: columns are neither padded nor cut. The reason is last, because it may contain the separator.
SINFO = ("sinfo", "--noheader", "--all", "--Node", "--Format=PartitionName:|,NodeList:|,StateComplete:|,Reason:|")
SQUEUE = ("squeue", "--noheader", "--all", "--format=%P|%T")
SDIAG = ("sdiag",)

IDLE, MIXED, ALLOCATED, COMPLETING, RESERVED, PLANNED, MAINTENANCE = (
    "idle",
    "mixed",
    "allocated",
    "completing",
    "reserved",
    "planned",
    "maintenance",
)
REBOOTING, POWER, SILENT, DRAINING, DRAINED, FAILING, DOWN, UNKNOWN = (
    "rebooting",
    "power",
    "silent",
    "draining",
    "drained",
    "failing",
    "down",
    "unknown",
)
STATES = (
    IDLE, MIXED, ALLOCATED, COMPLETING, RESERVED, PLANNED, MAINTENANCE, REBOOTING, POWER, SILENT, DRAINING, DRAINED, FAILING, DOWN, UNKNOWN
)  # fmt: skip
"""States of a node, one for each node. power: Slurm has switched it off or on. silent: slurmd does not answer."""
UNAVAILABLE = (SILENT, DRAINING, DRAINED, FAILING, DOWN, UNKNOWN)
"""States in which a node takes no job although it should."""

NO_REASON, SLURM, PERSON = "none", "slurm", "person"
REASON_KINDS = (*drain_reasons.KINDS, NO_REASON, SLURM, PERSON)
"""Kinds of a reason: bedplate's own kinds, Slurm itself, a person."""
_NO_REASONS = ("", "none", "(null)", "unknown")

PENDING, RUNNING, SUSPENDED, ENDING, OTHER = JOB_STATES = ("pending", "running", "suspended", "ending", "other")
_JOB_STATES = {
    "PENDING": PENDING,
    "REQUEUED": PENDING,
    "REQUEUE_HOLD": PENDING,
    "REQUEUE_FED": PENDING,
    "SPECIAL_EXIT": PENDING,
    "RUNNING": RUNNING,
    "CONFIGURING": RUNNING,
    "RESIZING": RUNNING,
    "SIGNALING": RUNNING,
    "SUSPENDED": SUSPENDED,
    "STOPPED": SUSPENDED,
    "COMPLETING": ENDING,
    "STAGE_OUT": ENDING,
}


class AnswerError(ValueError):
    """An output that is not an answer of the command."""


@dataclass(frozen=True)
class NodeState:
    """Hold a node's state of STATES and its reason's kind of REASON_KINDS."""

    state: str
    kind: str = NO_REASON


@dataclass(frozen=True)
class Nodes:
    """Hold all nodes, and per partition the number of nodes in each state. `unread`: lines of sinfo that could not be read."""

    nodes: Mapping[str, NodeState]
    partitions: Mapping[str, Mapping[str, int]]
    unread: int = 0


@dataclass(frozen=True)
class Rpc:
    """Hold the calls of one type that slurmctld has answered since its statistics began: their number and their seconds."""

    calls: int
    seconds: float


@dataclass(frozen=True)
class Diagnosis:
    """Hold figures of sdiag by its own words, such as `Agent queue size` or `Backfilling stats/Last cycle`, and RPCs by type."""

    figures: Mapping[str, float]
    rpcs: Mapping[str, Rpc] = field(default_factory=dict)


def state_of(complete: str) -> str:
    """Return the state of a node from sinfo's StateComplete, in any case of letters.

    >>> [state_of(text) for text in ("IDLE+DRAIN", "mixed+drain", "idle+cloud+powered_down", "idle+not_responding", "later")]
    ['drained', 'draining', 'power', 'silent', 'unknown']
    """
    base, *others = complete.strip().lower().split("+")
    flags = set(others)
    busy = base in (ALLOCATED, MIXED) or COMPLETING in flags
    # The first that holds; a state that no rule names is unknown, never idle.
    rules = (
        (base in (DOWN, "error"), DOWN),
        ("fail" in flags, FAILING),
        ("drain" in flags, DRAINING if busy else DRAINED),
        (base not in (IDLE, MIXED, ALLOCATED) or bool(flags & {"invalid", "invalid_reg"}), UNKNOWN),
        (bool(flags & {"reboot_issued", "reboot_requested", "reboot"}), REBOOTING),
        (bool(flags & {"powered_down", "powering_down", "power_down", "powering_up", "power_up"}), POWER),
        ("not_responding" in flags, SILENT),
        ("maint" in flags, MAINTENANCE),
        (COMPLETING in flags, COMPLETING),
        (base == IDLE and RESERVED in flags, RESERVED),
        (base == IDLE and PLANNED in flags, PLANNED),
    )
    return next((state for holds, state in rules if holds), base)


def reason_kind(reason: str) -> str:
    """Return the kind of a node's reason. A reason of bedplate's that was edited is a person's.

    >>> [reason_kind(text) for text in ("none", "Not responding", "fan is loud")]
    ['none', 'slurm', 'person']
    """
    text = reason.strip()
    if text.lower() in _NO_REASONS:
        return NO_REASON
    own = drain_reasons.read(text)
    if own is not None:
        return own.kind
    return SLURM if drain_reasons.is_slurms(text) else PERSON


def nodes_of(text: str) -> Nodes:
    """Return the nodes of SINFO. AnswerError: no line could be read; Slurm has no cluster without nodes."""
    nodes: dict[str, NodeState] = {}
    partitions: dict[str, Counter[str]] = {}
    # Almost all nodes share a handful of states and have no reason.
    states: dict[tuple[str, str], NodeState] = {}
    unread = lines = 0
    for line in text.splitlines():
        words = line.split("|", 3)
        lines += 1
        if len(words) != 4 or not words[0] or not words[1]:
            unread += 1
            continue
        partition, node, complete, reason = words
        found = states.get((complete, reason))
        if found is None:
            state = state_of(complete)
            # Without accounting storage Slurm keeps the reason of a node that it resumes.
            kind = reason_kind(reason.rstrip("|")) if state in UNAVAILABLE else NO_REASON
            found = states[complete, reason] = NodeState(state, kind)
        nodes[node] = found
        partitions.setdefault(partition, Counter())[found.state] += 1
    if unread == lines:
        raise AnswerError(f"sinfo: no line of {lines} has four columns")
    return Nodes(nodes, partitions, unread)


def jobs_of(text: str) -> dict[str, Counter[str]]:
    """Return partition -> state of JOB_STATES -> jobs, from SQUEUE. A waiting array counts once, and in each of its partitions."""
    found: dict[str, Counter[str]] = {}
    for line, count in Counter(text.splitlines()).items():
        names, bar, state = line.partition("|")
        if not bar:
            raise AnswerError(f"squeue: line {line[:60]!r} has no column of states")
        for partition in names.split(","):
            found.setdefault(partition, Counter())[_JOB_STATES.get(state.strip(), OTHER)] += count
    return found


def diagnosis_of(text: str) -> Diagnosis:
    """Return the figures of sdiag. AnswerError: the text has no figures."""
    figures: dict[str, float] = {}
    rpcs: dict[str, Rpc] = {}
    section = ""
    for line in text.splitlines():
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not line.startswith(("\t", " ")) and not value:
            section = name
        elif section.endswith("by message type") and "total_time" in value:
            kind, rpc = _rpc(line)
            rpcs[kind] = rpc
        elif colon and value.split() and _is_number(value.split()[0]):
            key = name if not line.startswith(("\t", " ")) else f"{_short(section)}/{name}"
            figures[key] = float(value.split()[0])
    if "Server thread count" not in figures:
        raise AnswerError("sdiag: no line `Server thread count`")
    return Diagnosis(figures, rpcs)


def _short(section: str) -> str:
    return section.split(" (")[0]


def _is_number(word: str) -> bool:
    return word.isascii() and word.replace(".", "", 1).isdecimal()


def _rpc(line: str) -> tuple[str, Rpc]:
    r"""Return type and figures of a line such as `\tREQUEST_NODE_INFO  ( 2007) count:5  ave_time:526  total_time:2632`."""
    kind, _parenthesis, rest = line.strip().partition("(")
    values = dict(_pairs(rest.split()))
    return kind.strip(), Rpc(values.get("count", 0), values.get("total_time", 0) / 1e6)


def _pairs(words: Iterable[str]) -> Iterable[tuple[str, int]]:
    for word in words:
        name, colon, value = word.partition(":")
        if colon and value.isdecimal():
            yield name, int(value)
