# SPDX-License-Identifier: GPL-3.0-or-later
"""Record what a run did on each host: tasks by their result, the first failure, and what a roll reports of its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

OK, CHANGED, FAILED, UNREACHABLE, SKIPPED, WAITING, LEFT, STOPPED, DONE = (
    "ok",
    "changed",
    "failed",
    "unreachable",
    "skipped",
    "waiting",
    "left",
    "stopped",
    "done",
)
ERROR = "error"
FINDING = ("severity", "where", "expected", "found", "remedy")
"""What the report has of a difference."""
_OPEN = "the run ended without a report of its nodes: run it again"
_LONGEST = 2000  # characters of a reason
_HIDDEN = "the output has secrets and is not shown"


@dataclass
class HostRecord:
    """Counts of task results on a host, its first failure, what a roll reports of it, and differences; `seconds` of its tasks."""

    ok: int = 0
    changed: int = 0
    skipped: int = 0
    failed: int = 0
    unreachable: int = 0
    seconds: float = 0.0
    task: str = ""
    reason: str = ""
    rolled: Mapping[str, Any] = field(default_factory=dict)
    findings: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """Return how the run ended on the host."""
        if self.rolled.get("outcome") in (FAILED, UNREACHABLE, WAITING, LEFT):
            return str(self.rolled["outcome"])
        if self.unreachable:
            return UNREACHABLE
        if self.failed or any(one["severity"] == ERROR for one in self.findings):
            return FAILED
        return CHANGED if self.changed else OK


@dataclass
class RunRecord:
    """A run: its playbook, whether it predicts only, its times in seconds since 1970, and its hosts in the order of their first task.

    `is_open`: a roll has begun, and its closing play has not reported.
    """

    playbook: str = ""
    check: bool = False
    started: float = 0.0
    ended: float = 0.0
    run: str = ""
    stopped: str = ""
    is_open: bool = False
    hosts: dict[str, HostRecord] = field(default_factory=dict)

    def host(self, name: str) -> HostRecord:
        """Return the record of a host."""
        return self.hosts.setdefault(name, HostRecord())

    def add(self, name: str, kind: str, task: str, result: Mapping[str, Any], seconds: float = 0.0) -> None:
        """Count a result; `kind` is ok, failed, unreachable or skipped. A failure that the playbook ignores is ok."""
        host = self.host(name)
        host.seconds += seconds
        if kind == OK:
            host.ok += 1
            host.changed += bool(result.get("changed"))
        elif kind == SKIPPED:
            host.skipped += 1
        else:
            setattr(host, kind, getattr(host, kind) + 1)
            if not host.task:
                host.task, host.reason = task, reason_of(result)

    def rescue(self, name: str) -> None:
        """Remove a failure that the playbook has rescued: the outcome of the node is reported later."""
        host = self.host(name)
        host.failed = max(0, host.failed - 1)
        if not host.failed and not host.unreachable:
            host.task = host.reason = ""

    def begin_roll(self) -> None:
        """Note that a roll or a recovery has begun; a preview has no closing play. What differed before its first change does not count."""
        self.is_open = not self.check
        for host in self.hosts.values():
            host.findings.clear()

    def end(self, rescued: Mapping[str, int], now: float) -> None:
        """End the run; `rescued` is host -> its failures that the playbook has rescued.

        A roll rescues failures for its closing play. Without that they are failures, and the run was stopped.
        """
        self.ended = now
        if self.is_open:
            self.stopped = _OPEN
            return
        for name, number in rescued.items():
            for unused in range(number):
                del unused
                self.rescue(name)

    def add_roll(self, nodes: Mapping[str, Mapping[str, Any]], run: str, stopped: str = "") -> None:
        """Take what the closing play of a roll reports of its nodes, and why it stopped before the last batch."""
        self.run, self.stopped, self.is_open = run, stopped, False
        for name, one in nodes.items():
            self.host(name).rolled = dict(one)

    def add_findings(self, rows: Iterable[Mapping[str, Any]], name: str) -> None:
        """Take differences, each once; a difference without a machine is of the host `name`."""
        for row in rows:
            found = {key: str(row.get(key, "")) for key in FINDING}
            there = self.host(str(row.get("machine") or name)).findings
            if found not in there:
                there.append(found)

    @property
    def outcome(self) -> str:
        """Return how the run ended: done, failed, unreachable, stopped or waiting."""
        found = {host.outcome for host in self.hosts.values()}
        for outcome in (FAILED, UNREACHABLE):
            if outcome in found:
                return outcome
        if self.stopped:
            return STOPPED
        return WAITING if WAITING in found else DONE


def reason_of(result: Mapping[str, Any]) -> str:
    """Return why a task failed, without what the task hides."""
    if result.get("_ansible_no_log") or result.get("censored"):
        return _HIDDEN
    text = str(result.get("msg") or result.get("stderr") or result.get("module_stderr") or "no message")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
