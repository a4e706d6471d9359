# SPDX-License-Identifier: GPL-3.0-or-later
"""Drive the orders of nodes from step to step until each is known, refused or stopped. One node's failure stops no other.

A state is written before the next step begins, so a run that is killed continues where it was. `started` is written before the reset is
sent: then the order on the server, which a machine claims once, decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from ...module_utils.provision.network_boot import PXE
from ...module_utils.provision.progress import (
    ARMED,
    KNOWN,
    OFF,
    ON,
    PLANNED,
    REFUSED,
    RELEASED,
    STARTED,
    VERIFIED,
    Progress,
)
from ..redfish.fan_out import for_each
from . import bmc_steps, next_step
from .bmc_fleet import Fleet
from .bmc_steps import BmcJob
from .desk import Desk, DeskError, Look
from .next_step import Bounds, Step
from .ssh_keys import ERRORS, Ssh, make_host_key
from .wanted import Wanted

Say = Callable[[str, str], None]
"""Show an operator what happened to a node."""
_SSH_AT_ONCE = 64
_SILENT_LOOKS = 12
"""Looks in a row that the provision host may fail to answer."""


class MachineRun:
    """The nodes of a run. `progress` is node -> its last state; `stopped` is node -> why this run does not continue it."""

    def __init__(
        self,
        wanted: Mapping[str, Wanted],
        desk: Desk,
        fleet: Fleet,
        ssh: Ssh,
        bounds: Bounds,
        say: Say,
        sleep: Callable[[float], None] = time.sleep,
        *,
        power_at_once: int = 0,
    ) -> None:
        """Take the orders that nodes need, and the ways to provision host, BMCs and nodes.

        `power_at_once` machines are reset or turned on at a time, for the inrush current of many; 0 is all.
        """
        self.wanted, self.desk, self.fleet, self.ssh, self.bounds = wanted, desk, fleet, ssh, bounds
        self._say, self._sleep, self._power_at_once = say, sleep, power_at_once
        self.progress: dict[str, Progress] = {}
        self.stopped: dict[str, str] = {}
        self._media: dict[str, str] = {}
        self._restart: set[str] = set()
        self._since: dict[str, float] = {}
        self._now = 0.0

    def run(
        self, work: Mapping[str, Progress], refused: Mapping[str, str] | None = None, *, only_arms: bool = False
    ) -> None:
        """Drive nodes from their progress. `refused` are nodes that must not install any more: their orders are closed.

        `only_arms`: end once no node is left to arm; no machine is reset.
        Raises DeskError if the provision host is silent for too long; a further run continues.
        """
        look = self.desk.look(work)
        self._note(look)
        self.progress = dict(work)
        self._restart = {node for node, one in work.items() if one.state == STARTED}
        begun = {node: one for node, one in work.items() if one.state != PLANNED}
        # Only now, since a node whose order did not begin stays as it is.
        fresh = [node for node in work if node not in begun and node not in (refused or {})]
        # An order that would have been made anew stays open, with its medium inserted, unless it is closed here.
        left = {node: work[node] for node in refused or {} if node not in begun and work[node].order}
        seen = {node: look.nodes[node].progress or one for node, one in left.items()}
        mine = self._write({**begun, **seen})
        self._move(fresh, VERIFIED)
        self._refuse({node: why for node, why in (refused or {}).items() if node in mine})
        ended = {node: why for node, why in (refused or {}).items() if node not in begun and node not in left}
        self.stopped.update(ended)
        silent = 0
        while active := [node for node in self.progress if self._is_active(node, only_arms)]:
            try:
                look = self.desk.look(active)
            except DeskError:
                silent += 1
                if silent >= _SILENT_LOOKS:
                    raise
                self._sleep(self.bounds.poll)
                continue
            silent = 0
            self._note(look)
            if not self._advance(active, look):
                self._sleep(self.bounds.poll)

    def _is_active(self, node: str, only_arms: bool) -> bool:
        if only_arms and self.progress[node].state != VERIFIED:
            return False
        return node not in self.stopped and self.progress[node].state not in (KNOWN, REFUSED, PLANNED)

    def _note(self, look: Look) -> None:
        self._now = look.now
        self._media.update((node, one.medium) for node, one in look.nodes.items() if one.medium)

    def _advance(self, active: list[str], look: Look) -> bool:
        """Do one step of each node. Return False if all of them only wait."""
        steps: dict[str, Step] = {}
        for node in active:
            if node in look.errors:
                self._stop({node: look.errors[node]})
                continue
            step = next_step.next_step(self.progress[node], look.nodes[node].order, self._now, self.bounds)
            if step.kind == next_step.WAIT and node in self._restart:
                step = Step(next_step.START)
            steps[node] = step
        before = dict(self.progress)
        self._refuse({node: step.reason for node, step in steps.items() if step.kind == next_step.REFUSE})
        for node, step in steps.items():
            if step.host_key:
                self.progress[node] = replace(self.progress[node], host_key=step.host_key)
        for state in dict.fromkeys(step.state for step in steps.values() if step.kind == next_step.MOVE):
            self._move([node for node, step in steps.items() if step.state == state], state)
        for kind, do in (
            (next_step.RELEASE, self._release),
            (next_step.TURN_ON, self._turn_on),
            (next_step.ARM, self._arm),
            (next_step.START, self._start),
            (next_step.POWER_OFF, self._wait_for_off),
            (next_step.SSH, self._wait_for_ssh),
        ):
            if nodes := [node for node, step in steps.items() if step.kind == kind]:
                do(nodes)
        return before != self.progress

    def _arm(self, nodes: list[str]) -> None:
        """Open orders, make media, and set the machines to boot them once."""
        # Of an earlier run that was killed before a machine had started.
        self.desk.release(self.progress[node].order for node in nodes)
        keys: dict[str, tuple[str, str] | None] = {}
        for node in nodes:
            try:
                keys[node] = None if self.wanted[node].makes_own_key else make_host_key(node)
            except ERRORS as error:
                self._refuse({node: str(error)})
        for node, pair in keys.items():
            one = self.wanted[node]
            self.progress[node] = replace(
                self.progress[node],
                order="",
                digest=one.digest,
                image=one.image_name,
                sha256=str(one.image["sha256"]),
                host_key=pair[1].strip() if pair else "",
            )
        mine = self._write({node: self.progress[node] for node in keys})
        armed, failed = self.desk.arm({node: self.wanted[node] for node in mine}, keys)
        del keys
        for node, order_id in armed.items():
            self.progress[node] = replace(self.progress[node], order=order_id)
        self._refuse(failed)
        ready = self._write({node: self.progress[node] for node in armed})
        self._note(self.desk.look(ready))
        lost = [node for node in ready if not self._url(node) and self.wanted[node].method != PXE]
        self._refuse(dict.fromkeys(lost, "its order has no medium on the provision host"))
        self._move(self._each([node for node in ready if node not in lost], bmc_steps.arm, self._refuse), ARMED)

    def _start(self, nodes: list[str]) -> None:
        """Reset the machines. The state is written first: whether a reset was sent is not known after a kill."""
        self._restart -= set(nodes)
        self._each(self._move(nodes, STARTED), bmc_steps.start, self._refuse, self._power_at_once)

    def _wait_for_off(self, nodes: list[str]) -> None:
        done = self.fleet.each(self._jobs(nodes), bmc_steps.is_off)
        self._move([node for node, one in done.items() if one.value], OFF)
        late = {node: one for node, one in done.items() if not one.value and self._is_late(node, self.bounds.off)}
        self._stop(
            {
                node: one.error or "installed, but the machine does not power off. Look at its console."
                for node, one in late.items()
            }
        )

    def _release(self, nodes: list[str]) -> None:
        """Remove medium and override; then close the orders, also where a BMC failed."""
        done = self._each(nodes, bmc_steps.release, self._stop)
        open_orders = self.desk.release(self.progress[node].order for node in nodes)
        self._stop({node: text for node in done if (text := open_orders.get(self.progress[node].order))})
        self._move([node for node in done if node not in self.stopped], RELEASED)

    def _turn_on(self, nodes: list[str]) -> None:
        """Turn the machines on, after their new host keys are known."""
        ready = []
        for node in nodes:
            try:
                self.ssh.remember(node, self.progress[node].host_key)
                ready.append(node)
            except ERRORS as error:
                self._stop({node: str(error)})
        self._move(self._each(ready, bmc_steps.turn_on, self._stop, self._power_at_once), ON)

    def _wait_for_ssh(self, nodes: list[str]) -> None:
        tries = {node: self.progress[node].host_key for node in nodes}
        found = for_each({node: (node, key) for node, key in tries.items()}, self._refusal, at_once=_SSH_AT_ONCE)
        self._move([node for node, one in found.items() if one.value == ""], KNOWN)
        for node, one in found.items():
            if one.value != "" and self._is_late(node, self.bounds.ssh):
                why = one.value or str(one.error)
                self._stop(
                    {node: f"it is on and does not answer by SSH with its new host key: {why}. Look at its console."}
                )

    def _refusal(self, pair: tuple[str, str]) -> str:
        try:
            return self.ssh.refusal(*pair)
        except ERRORS as error:
            return str(error) or "no answer"

    def _refuse(self, reasons: Mapping[str, str]) -> None:
        """Close orders for good, then remove media and overrides. No machine is turned on."""
        if not reasons:
            return
        left = self.desk.release(self.progress[node].order for node in reasons)
        begun = [node for node in reasons if self.progress[node].order]
        cleared = self.fleet.each(self._jobs(begun), bmc_steps.clear)
        rows = {}
        for node, why in reasons.items():
            texts = [why, left.get(self.progress[node].order, ""), cleared[node].error if node in cleared else ""]
            rows[node] = replace(
                self.progress[node],
                state=REFUSED,
                reason=". ".join(one.rstrip(". ") for one in texts if one),
                at=self._now,
            )
        for node in self._write(rows):
            self.progress[node] = rows[node]
            self._say(node, f"REFUSED: {rows[node].reason}")

    def _stop(self, reasons: Mapping[str, str]) -> None:
        """Leave nodes in their state, with the reason; a further run continues them."""
        for node, why in reasons.items():
            self.stopped[node] = why
            self.progress[node] = replace(self.progress[node], reason=why)
            self._say(node, f"stopped: {why}")
        self._write({node: self.progress[node] for node in reasons})

    def _move(self, nodes: Iterable[str], state: str) -> list[str]:
        """Write a state of nodes, and return the nodes that this run still has."""
        rows = {node: replace(self.progress[node], state=state, at=self._now, reason="") for node in nodes}
        moved = self._write(rows)
        for node in moved:
            self._since[node] = time.monotonic()
            self.progress[node] = rows[node]
            self._say(node, state)
        return moved

    def _write(self, rows: Mapping[str, Progress]) -> list[str]:
        """Write progress, and return the nodes that no other run has."""
        lost = self.desk.write(rows.values(), self._now)
        self.stopped.update(lost)
        return [node for node in rows if node not in lost]

    def _is_late(self, node: str, seconds: float) -> bool:
        """Return whether a node is in its state for longer than a bound, as far as this run has seen."""
        return time.monotonic() - self._since.setdefault(node, time.monotonic()) > seconds

    def _each(
        self,
        nodes: Collection[str],
        step: Callable[..., object],
        fail: Callable[[Mapping[str, str]], None],
        at_once: int = 0,
    ) -> list[str]:
        """Run a step on BMCs, pass the failures on, and return the other nodes."""
        done = self.fleet.each(self._jobs(nodes), step, at_once=at_once)
        fail({node: one.error for node, one in done.items() if one.error})
        return [node for node, one in done.items() if not one.error]

    def _jobs(self, nodes: Iterable[str]) -> dict[str, BmcJob]:
        return {node: job_of(self.wanted[node], self._url(node)) for node in nodes}

    def _url(self, node: str) -> str:
        medium = self._media.get(node, "")
        return f"{self.desk.settings.url}{medium}" if medium and self.wanted[node].method != PXE else ""


def job_of(wanted: Wanted, url: str = "") -> BmcJob:
    """Return the job of a node's BMC."""
    return BmcJob(wanted.target, wanted.method, wanted.mode, wanted.machine["mac"], url)
