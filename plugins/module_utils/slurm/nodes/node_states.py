# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what decides whether a node may be drained, rebooted or resumed: its states, reason, jobs and reservations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...common.command import run
from ..live import slurm_commands
from ..live.drain_reasons import TAKEN_OUT, DrainReason, is_slurms, read, without_additions
from ..live.slurmctld_report import names_in, node_pairs, pairs_of

_DEADLINE = 30.0  # seconds
_DEADLINE_WITHOUT_FILE = 5.0
_COMMANDS = (
    ("scontrol", "--oneliner", "--all", "show", "nodes"),
    ("squeue", "--local", "--noheader", "--all", "--format=%i|%T|%N|%L"),
    ("scontrol", "--oneliner", "--all", "show", "reservations"),
)
_JOB_FIELDS = 4
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\Z")
_OFF = ("POWER_DOWN", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP")
_OUT = ("DRAIN", "DOWN", "FAIL", "REBOOT_ISSUED", *_OFF, "FUTURE", "UNKNOWN")
_SWITCHED_OFF = frozenset({"POWER_DOWN", "POWERED_DOWN", "POWERING_DOWN"})


class SlurmSilentError(Exception):
    """slurmctld did not answer a query, so nothing is known about jobs."""


class SlurmAbsentError(SlurmSilentError):
    """A machine has no slurm.conf, so no later query has an answer either."""


@dataclass(frozen=True)
class NodeView:
    """A node as slurmctld reports it; `states` as in IDLE+DRAIN, `boot` the start of its kernel in UTC as text, or "None".

    `jobs`: ids of the jobs that hold it, also suspended and completing ones; `suspended`: those of them that are suspended.
    `free_in`: seconds until the time limits of its jobs end, None if one has no limit. `since`: when its reason was set, in UTC as text.
    `reservations`: names of the active ones that have it.
    """

    name: str
    states: frozenset[str]
    answers: bool = True
    reason: str = ""
    who: str = ""
    since: str = ""
    boot: str = ""
    jobs: tuple[str, ...] = ()
    suspended: tuple[str, ...] = ()
    free_in: int | None = 0
    reservations: tuple[str, ...] = ()

    @property
    def own(self) -> DrainReason | None:
        """Return the reason, if it is one of bedplate's own and the node is out of service."""
        return read(self.reason) if self.states & TAKEN_OUT else None

    @property
    def is_out(self) -> bool:
        """Return whether the node takes no new job: drained, down, off, or it does not answer."""
        return not self.answers or bool(self.states & set(_OUT))

    @property
    def is_out_by_slurm(self) -> bool:
        """Return whether Slurm itself has it out of service: it does not answer, or the reason is one of Slurm's own.

        A drain without a reason, a node that is switched off and a node under reboot count as decisions of others. Without accounting
        storage Slurm keeps the reason of a node that is resumed, and appends its own to it when the node is down later.
        """
        own = self.own
        if not self.is_out or self.reboots or self.states & {*_OFF, "FUTURE"}:
            return False
        if own is not None and ("DRAIN" in self.states or set(own.added) - {"Not responding"}):
            return False
        if not self.states & TAKEN_OUT:
            return True
        if "DOWN" in self.states and not self.states & {"DRAIN", "FAIL"}:
            return not self.reason or is_slurms(self.reason.rpartition(" : ")[2])
        return is_slurms(without_additions(self.reason)[0])

    @property
    def has_other_hardware(self) -> bool:
        """Return whether its slurmd has registered with less than slurm.conf has; since 23.02 Slurm replaces its reason then."""
        return "INVALID_REG" in self.states

    @property
    def is_drained(self) -> bool:
        """Return whether it takes no new job and no job is left on it, not even a suspended or completing one."""
        return "DRAIN" in self.states and not self.jobs and not self.states & {"ALLOCATED", "MIXED", "COMPLETING"}

    @property
    def reboots(self) -> bool:
        """Return whether Slurm has a reboot of it in hand.

        If an answer of the node is on its way while Slurm issues the reboot, REBOOT_ISSUED stays after the boot, until a RESUME (seen with
        22.05.8 and 26.05.5). Slurm sets the time of the reason when it issues a reboot, so the boot after that is the end of it.
        """
        if "REBOOT_ISSUED" in self.states and self.answers and _TIME.match(self.boot) and _TIME.match(self.since):
            return "REBOOT_REQUESTED" in self.states or self.boot <= self.since
        return bool(self.states & {"REBOOT_REQUESTED", "REBOOT_ISSUED"})

    @property
    def is_unheard(self) -> bool:
        """Return whether slurmctld has not heard of it since its start."""
        return "UNKNOWN" in self.states

    @property
    def shows_old_reboot(self) -> bool:
        """Return whether REBOOT_ISSUED has stayed after the boot; Slurm takes no other reboot of the node then."""
        return "REBOOT_ISSUED" in self.states and not self.reboots

    @property
    def is_off(self) -> bool:
        """Return whether Slurm has switched the node off, or is about to."""
        return bool(self.states & _SWITCHED_OFF)

    @property
    def shown_states(self) -> str:
        """Return the states for an operator."""
        return "+".join(sorted(self.states)) + ("" if self.answers else "*")

    @property
    def shown(self) -> str:
        """Return states and reason for an operator."""
        return f"{self.shown_states} ({self.reason}; set by {self.who})" if self.reason else self.shown_states


@dataclass(frozen=True)
class Snapshot:
    """All nodes at one moment."""

    nodes: Mapping[str, NodeView] = field(default_factory=dict)


def snapshot(slurm_conf: Path) -> Snapshot:
    """Query slurmctld. Raises SlurmSilentError if a query has no answer, or one not understood: a part of the answer would hide jobs.

    An answer without any node is no answer: all nodes would look unknown to Slurm, so unused.
    """
    is_absent = not slurm_conf.exists()
    # Slurm's programs wait a minute for the file.
    deadline = _DEADLINE_WITHOUT_FILE if is_absent else _DEADLINE
    slurm_commands.drop_login_variables()
    texts = []
    for command in _COMMANDS:
        # Times are compared with the time at which a reboot was requested.
        outcome = run(command, deadline, environment={"SLURM_CONF": str(slurm_conf), "TZ": "UTC0"})
        if outcome.code != 0 and is_absent:
            raise SlurmAbsentError(f"{slurm_conf} not found")
        if outcome.code != 0:
            raise SlurmSilentError(f"`{' '.join(command)}`: {outcome.error_line}")
        texts.append(outcome.stdout)
    if not any(line.startswith("NodeName=") for line in texts[0].splitlines()):
        raise SlurmSilentError(f"`{' '.join(_COMMANDS[0])}`: no node in its answer: {texts[0].strip()[:100]!r}")
    if lines := [line for line in texts[1].splitlines() if line.strip() and line.count("|") != _JOB_FIELDS - 1]:
        # A job that is not read would make its node look unused.
        raise SlurmSilentError(f"`{' '.join(_COMMANDS[1])}`: not understood: {lines[0][:100]!r}")
    return parse(*texts)


def parse(nodes: str, jobs: str, reservations: str) -> Snapshot:
    """Parse the output of the three queries.

    >>> line = "NodeName=n1 State=IDLE+DRAIN+NOT_RESPONDING BootTime=T Reason=fan is = loud [root@2026-01-01T00:00:00] Comment=x"
    >>> node = parse(line, "7|SUSPENDED|n[1-2]|2:00:00", "").nodes["n1"]
    >>> node.reason, sorted(node.states), node.answers, node.suspended, node.free_in
    ('fan is = loud', ['DRAIN', 'IDLE', 'NOT_RESPONDING'], False, ('7',), 7200)
    """
    holding: dict[str, dict[str, tuple[str, int | None]]] = {}
    for job, state, place, left in (
        line.split("|") for line in jobs.splitlines() if line.count("|") == _JOB_FIELDS - 1
    ):
        for name in names_in(place):
            holding.setdefault(name, {})[job.strip()] = state, _seconds(left.strip())
    reserved: dict[str, list[str]] = {}
    for pairs in map(pairs_of, reservations.splitlines()):
        if pairs.get("State") == "ACTIVE":
            for name in names_in(pairs.get("Nodes", "")):
                reserved.setdefault(name, []).append(pairs.get("ReservationName", ""))
    found = (_node(line, holding, reserved) for line in nodes.splitlines() if line.startswith("NodeName="))
    return Snapshot({node.name: node for node in found})


def _node(
    line: str, holding: Mapping[str, Mapping[str, tuple[str, int | None]]], reserved: Mapping[str, list[str]]
) -> NodeView:
    pairs = node_pairs(line)
    name, states = pairs["NodeName"], frozenset(pairs.get("State", "").split("+"))
    held = holding.get(name, {})
    ends = [found[1] for found in held.values()]
    return NodeView(
        name=name,
        states=states,
        answers="NOT_RESPONDING" not in states,
        reason=pairs.get("Reason", ""),
        who=pairs.get("ReasonUser", ""),
        since=pairs.get("ReasonTime", ""),
        boot=pairs.get("BootTime", ""),
        jobs=tuple(held),
        suspended=tuple(job for job, found in held.items() if found[0] == "SUSPENDED"),
        free_in=None if None in ends else max((end for end in ends if end is not None), default=0),
        reservations=tuple(reserved.get(name, ())),
    )


def _seconds(left: str) -> int | None:
    """Return the seconds of squeue's time left, [[days-]hours:]minutes:seconds; None for UNLIMITED and other words.

    >>> _seconds("1-02:00:05"), _seconds("30:00"), _seconds("UNLIMITED")
    (93605, 1800, None)
    """
    days, dash, clock = left.rpartition("-")
    try:
        total = int(days) * 24 if dash else 0
        numbers = [int(one) for one in clock.split(":")]
    except ValueError:
        return None
    hours, minutes, seconds = [0, 0, *numbers][-3:]
    return ((total + hours) * 60 + minutes) * 60 + seconds
