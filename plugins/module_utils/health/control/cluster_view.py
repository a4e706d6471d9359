# SPDX-License-Identifier: GPL-3.0-or-later
"""Read all nodes of Slurm from one `sinfo`: states, reasons, and the nodes' own reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...slurm.live.drain_reasons import HEALTH, DrainReason, is_slurms, read, without_additions
from ..report.node_extra import NodeReport, report_of

# A size of 0 prints a field whole; what follows it is printed after the field. A reason may have blanks, bars and line breaks
# (seen with sinfo 22.05.8), and Extra is JSON, so the separators are control characters.
_FIELD, _RECORD = "\x1f", "\x1e"
COMMAND = (
    *("sinfo", "--Node", "--noheader", "--all"),
    "--Format="
    + ",".join(f"{name}:0{_FIELD}" for name in ("NodeList", "StateComplete", "Extra"))
    + f",Reason:0{_RECORD}",
)
"""Lists each node once for each of its partitions."""
OUT = frozenset(
    {
        *(
            "DRAIN",
            "DRAINED",
            "DRAINING",
            "DOWN",
            "FAIL",
            "FAILING",
            "NOT_RESPONDING",
            "INVAL",
            "INVALID_REG",
            "UNKNOWN",
        ),
        *("FUTURE", "MAINT", "MAINTENANCE", "REBOOT_ISSUED", "REBOOT_REQUESTED", "REBOOT", "ERROR", "BLOCKED"),
        *("POWER_DOWN", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_UP", "POWER_DRAIN"),
    }
)
"""States with which a node is unavailable."""
_MARKS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "%": "POWERING_DOWN",
    "!": "POWER_DOWN",
    "$": "MAINT",
}
"""Marks that sinfo appends to a state, and their words; `@` and `^` are pending reboots and have words in every release."""
_ASLEEP = frozenset({"POWER_DOWN", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_UP"})
"""States of power saving: Slurm starts such a node for the next job."""
_DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING"})
_TAKEN_OUT = frozenset({*_DRAINED, "DOWN", "FAIL", "FAILING"})
_NO_REASON = ("", "none", "(null)", "n/a")
SLURMS = ("Prolog error", "Epilog error", "Kill task failed")
"""Reasons of Slurm that the limiter may replace."""
_RETURNED = ("Not responding", "Node unexpectedly rebooted")
"""Reasons of Slurm for a node that is back by itself."""
FREE, OURS, OF_SLURM, FOREIGN = "free", "ours", "of-slurm", "foreign"
"""Owners of a node: nobody has it out of service; the limiter; Slurm with one of SLURMS; anybody else."""
_MOST, _LONGEST = 8, 120


class ViewError(ValueError):
    """An answer of sinfo that cannot be a list of nodes."""


@dataclass(frozen=True)
class NodeState:
    """Hold a node as Slurm has it. `reason` is "" without one; `report` None without a well-formed report."""

    name: str
    states: frozenset[str]
    reason: str = ""
    report: NodeReport | None = None

    @property
    def own(self) -> DrainReason | None:
        """Return the limiter's reason; None for any other."""
        found = read(self.reason)
        return found if found and found.kind == HEALTH and self.is_taken_out else None

    @property
    def is_taken_out(self) -> bool:
        """Return whether the node is drained, down or failing."""
        return bool(self.states & _TAKEN_OUT)

    @property
    def owner(self) -> str:
        """Return the owner: FREE, OURS, OF_SLURM or FOREIGN.

        A reason of a person counts on a node in service, too: a drain would replace it. A drained node without a reason is a person's.
        """
        if self.own:
            return OURS
        reason, _added = without_additions(self.reason)
        if self.is_taken_out:
            return OF_SLURM if reason in SLURMS else FOREIGN
        if self.states & OUT:
            return FOREIGN
        # Without accounting storage Slurm keeps the reason of a node that it resumes, such as after a roll.
        return FREE if not reason or reason in (*SLURMS, *_RETURNED) or read(self.reason) else FOREIGN

    @property
    def is_of_person(self) -> bool:
        """Return whether the node is out of service with a reason that a person wrote."""
        reason, _added = without_additions(self.reason)
        is_other = not reason or reason in SLURMS or is_slurms(reason) or read(self.reason) is not None
        return self.is_taken_out and not is_other

    @property
    def out_states(self) -> frozenset[str]:
        """Return the states with which the node is unavailable; the words for a drain count as one."""
        out = self.states & OUT
        return (out - _DRAINED) | {"DRAIN"} if out & _DRAINED else out

    @property
    def is_only_drained(self) -> bool:
        """Return whether a resume returns it to service: it is drained, and neither down, silent, switched off nor in maintenance."""
        return self.out_states == {"DRAIN"}

    @property
    def is_unavailable(self) -> bool:
        """Return whether the node counts as unavailable: it takes no job, or it has a reason of others."""
        return self.owner != FREE and not self._is_asleep

    @property
    def _is_asleep(self) -> bool:
        """Return whether the node is unavailable by power saving alone. While it starts, it does not respond yet."""
        starts = self.states & {"POWERING_UP"}
        return not self.reason and self.out_states - ({"NOT_RESPONDING"} if starts else set()) <= _ASLEEP

    def is_as(self, other: NodeState) -> bool:
        """Return whether another look at the node has the same owner, reason and states of service."""
        return (self.owner, self.reason, self.out_states) == (other.owner, other.reason, other.out_states)


@dataclass(frozen=True)
class ClusterView:
    """Hold all nodes by name. `malformed`: names of nodes with unreadable rows; they count as unavailable and stay as they are."""

    nodes: Mapping[str, NodeState]
    malformed: frozenset[str] = field(default_factory=frozenset)

    @property
    def unavailable(self) -> frozenset[str]:
        """Return the names of all unavailable nodes."""
        return self.malformed | {name for name, node in self.nodes.items() if node.is_unavailable}


def parse(text: str) -> ClusterView:
    """Return the view of an answer to COMMAND. ViewError: no node, or a text without records."""
    nodes: dict[str, NodeState] = {}
    malformed: set[str] = set()
    records = text.split(_RECORD)
    if len(records) < 2 or records[-1].strip():
        raise ViewError(f"sinfo: not a list of nodes: {text[:80]!r}")
    for record in records[:-1]:
        name, *fields = record.lstrip("\n").split(_FIELD)
        if len(fields) != 3 or not name.strip():
            malformed.add(name.strip()[:80] or "(no name)")
            continue
        node = node_state(name.strip(), *fields)
        if nodes.setdefault(node.name, node) != node:
            malformed.add(node.name)
    return ClusterView({name: node for name, node in nodes.items() if name not in malformed}, frozenset(malformed))


def node_state(name: str, states: str, extra: str, reason: str) -> NodeState:
    """Return a node from its words; states such as `idle+drain`, with the marks of sinfo removed."""
    words = {word.strip("*~#!%$@^-").upper() for word in states.strip().split("+")}
    words |= {word for mark, word in _MARKS.items() if mark in states}
    kept = "" if reason.strip().lower() in _NO_REASON else reason.strip()
    return NodeState(name, frozenset(words), kept, _bounded(report_of(extra)))


def _bounded(report: NodeReport | None) -> NodeReport | None:
    """Return a report with texts that fit into reasons, labels and files, for any text of a node; None for an impossible time."""
    if report is None or not 0 <= report.time < 2**40:
        return None
    return NodeReport(
        report.status,
        report.health_class,
        tuple(_plain(one) for one in report.checks[:_MOST]),
        report.time,
        _plain(report.boot)[:8],
        tuple(job for job in report.jobs[:_MOST] if 0 < job < 2**32),
        _plain(report.evidence)[:16],
    )


def _plain(text: str) -> str:
    """Return printable ASCII without blanks and commas, which separate the words of a reason."""
    return "".join(char if "!" <= char <= "~" and char != "," else "_" for char in text[:_LONGEST])
