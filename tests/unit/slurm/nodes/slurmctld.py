# SPDX-License-Identifier: GPL-3.0-or-later
"""A slurmctld of a few nodes for tests of the verbs: it answers as 24.11 does, in the text of scontrol and squeue.

What it does at `scontrol update` and `scontrol reboot` was read in Slurm's sources (node_mgr.c, proc_req.c, power_save.c) and seen with
24.11.5; the real one runs in the scenarios.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import written
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_states import (
    SlurmSilentError,
    Snapshot,
    parse,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_work import (
    NodeResult,
    NodeVerb,
    Order,
)

LONG_AGO = "2026-01-01T00:00:00"
OWN = written("roll", "r1", "driver 580")
"""The reason of the run r1."""


@dataclass
class Slurmctld:
    """Nodes with their states, reasons and jobs. `at` runs a function at a second of its clock, as a person or a job would."""

    states: dict[str, set[str]]
    reasons: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Job -> its state and its nodes."""
    reservations: dict[str, str] = field(default_factory=dict)
    inactive: set[str] = field(default_factory=set)
    """Reservations that begin later."""
    boots: dict[str, str] = field(default_factory=dict)
    at: dict[int, Callable[[Slurmctld], None]] = field(default_factory=dict)
    refuses: set[str] = field(default_factory=set)
    silent: range = range(0)
    now: float = 0.0
    commands: list[list[str]] = field(default_factory=list)
    _booted: int = 0

    @classmethod
    def of(cls, nodes: str, **more: object) -> Slurmctld:
        """Return one whose nodes are all idle."""
        return cls({name: {"IDLE"} for name in expand(nodes)}, **more)  # type: ignore[arg-type]

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        for second in range(int(self.now) + 1, int(self.now + seconds) + 1):
            if second in self.at:
                self.at.pop(second)(self)
        self.now += seconds

    def read(self) -> Snapshot:
        """Answer the queries."""
        if int(self.now) in self.silent:
            raise SlurmSilentError("scontrol: no answer")
        return parse(*self.texts())

    def texts(self) -> tuple[str, str, str]:
        """Return nodes, jobs and reservations as scontrol and squeue print them."""
        lines = []
        for name, states in self.states.items():
            reason = f"  Reason={self.reasons[name]} [root@{LONG_AGO}]" if name in self.reasons else ""
            base = [one for one in ("DOWN", "IDLE", "ALLOCATED", "MIXED") if one in states]
            state = "+".join([*base, *sorted(states - {*base})])
            lines.append(
                f"NodeName={name} State={state} Weight=1 Partitions=gpu BootTime={self.boots.get(name, LONG_AGO)}{reason}"
            )
        jobs = "\n".join(f"{job}|{state}|{nodes}|1:00:00" for job, (state, nodes) in self.jobs.items())
        held = "\n".join(
            f"ReservationName={name} Nodes={nodes} State={'INACTIVE' if name in self.inactive else 'ACTIVE'}"
            for name, nodes in self.reservations.items()
        )
        return "\n".join(lines), jobs, held

    def change(self, argv: Sequence[str]) -> str:
        """Run a command of scontrol. A node that refuses it does not keep the others from it, and takes the reason all the same."""
        self.commands.append(list(argv))
        names = expand(argv[2].partition("=")[2] or argv[2])
        pairs = dict(word.split("=", 1) for word in argv[3:])
        for name in names:
            if name in self.refuses:
                self.reasons.update({name: pairs["Reason"]} if {"State", "Reason"} <= set(pairs) else {})
            elif argv[1] == "reboot":
                self.issue(name)
            else:
                self._update(name, pairs)
        return "slurm_update error: Invalid node state specified" if self.refuses & set(names) else ""

    def end(self, job: str) -> None:
        """End a job."""
        for name in expand(self.jobs.pop(job)[1]):
            self.states[name] -= {"ALLOCATED", "MIXED"}
            self.states[name].add("IDLE")

    def issue(self, name: str) -> None:
        """Slurm starts the RebootProgram of a node."""
        self.states[name] -= {"IDLE", "REBOOT_REQUESTED"}
        self.states[name] |= {"DOWN", "REBOOT_ISSUED"}
        self._append(name, "reboot issued")

    def back(self, name: str) -> None:
        """A node registers after its boot."""
        self._booted += 1
        self.boots[name] = f"2099-01-01T00:{self._booted // 60:02d}:{self._booted % 60:02d}"
        if "REBOOT_ISSUED" in self.states[name]:
            self.states[name] -= {"REBOOT_ISSUED", "DOWN"}
            self.states[name].add("IDLE")
        self.states[name].discard("NOT_RESPONDING")

    def time_out(self, name: str) -> None:
        """ResumeTimeout is over."""
        self.states[name] -= {"REBOOT_ISSUED"}
        self._append(name, "reboot timed out")

    def person(self, name: str, reason: str, *states: str) -> None:
        """A person sets a reason and states; "" resumes."""
        if not reason:
            self._update(name, {"State": "RESUME"})
            return
        self.reasons[name] = reason
        self.states[name] |= set(states)

    def _append(self, name: str, text: str) -> None:
        # It appends the words once; a reason that has them already is replaced by them.
        there = self.reasons.get(name, text)
        self.reasons[name] = text if text in there else f"{there} : {text}"

    def _update(self, name: str, pairs: dict[str, str]) -> None:
        if "Reason" in pairs:
            self.reasons[name] = pairs["Reason"]
        if "State" not in pairs:
            return
        if pairs["State"] == "DRAIN":
            self.states[name].add("DRAIN")
        else:
            self.states[name] -= {"DRAIN", "DOWN", "FAIL", "REBOOT_ISSUED"}
            self.reasons.pop(name, None)
            if not self.states[name] & {"ALLOCATED", "MIXED"}:
                self.states[name].add("IDLE")


def run(verb: type[NodeVerb], slurm: Slurmctld, nodes: str, check: bool = False, **order: Any) -> dict[str, NodeResult]:
    """Run a verb for the run r1."""
    wanted = Order(tuple(expand(nodes)), "roll", "r1", "driver 580", **order)
    return verb(wanted, slurm.read, slurm.change, check, slurm.sleep, lambda: slurm.now).run()


def outcomes(results: dict[str, NodeResult]) -> dict[str, str]:
    """Return the outcome of each node."""
    return {name: one.outcome for name, one in results.items()}


def ours(slurm: Slurmctld, nodes: str) -> None:
    """Have the run r1 drain nodes."""
    for name in expand(nodes):
        slurm.states[name].add("DRAIN")
        slurm.reasons[name] = OWN
