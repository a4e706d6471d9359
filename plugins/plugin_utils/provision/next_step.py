# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the next step of a node from its progress, and from the state of its order on the server. Without any I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...module_utils.provision.progress import (
    ARMED,
    CLAIMED,
    KNOWN,
    OFF,
    ON,
    RELEASED,
    STARTED,
    VERIFIED,
    WRITTEN,
    Progress,
)

ARM, START, WAIT, MOVE, POWER_OFF, RELEASE, TURN_ON, SSH, DONE, REFUSE = STEPS = (
    "arm",
    "start",
    "wait",
    "move",
    "power-off",
    "release",
    "turn-on",
    "ssh",
    "done",
    "refuse",
)
"""`power-off`: read whether the machine is off. `move`: the order has reached another state."""
_CONSOLE = "Look at its console."


@dataclass(frozen=True)
class Bounds:
    """Bounds of a run in seconds: from claim to report, until the machine is off after it, until SSH answers, between two looks."""

    install: float = 3600.0
    off: float = 300.0
    ssh: float = 1800.0
    poll: float = 5.0


@dataclass(frozen=True)
class Step:
    """A step, with the state to which `move` goes, and the reason of `refuse`. `host_key`: the key that the machine has made."""

    kind: str
    state: str = ""
    reason: str = ""
    host_key: str = ""


def next_step(progress: Progress, order: Mapping[str, Any] | None, now: float, bounds: Bounds) -> Step:
    """Return the next step. `order` is the state of the node's order as the server has it, `now` the server's time."""
    state = progress.state
    if state == VERIFIED:
        return Step(ARM)
    if state in (ARMED, STARTED, CLAIMED):
        return _of_order(progress, order, now, bounds)
    simple = {WRITTEN: POWER_OFF, OFF: RELEASE, RELEASED: TURN_ON, ON: SSH, KNOWN: DONE}
    # A node that is planned or refused has no step of its own.
    return Step(simple[state]) if state in simple else Step(DONE)


def _of_order(progress: Progress, order: Mapping[str, Any] | None, now: float, bounds: Bounds) -> Step:
    """Return the next step of a node whose order is open: only its files on the server decide."""
    if order is None:
        return Step(REFUSE, reason="its order does not exist on the provision host any more")
    found, reason = str(order["state"]), str(order.get("reason") or "")
    if found in ("written", "refused") or order.get("result") == "refused":
        if found == "written":
            return _of_written(progress, str(order.get("host_key") or ""))
        return Step(REFUSE, reason=f"the installer refused: {reason or 'without a reason'}")
    if found == "released":
        return Step(REFUSE, reason="its order was closed before the machine had reported")
    if found in ("claimed", "seeded"):
        claimed = float(order["at"]["claim"])
        if now - claimed > bounds.install:
            text = f"no report {now - claimed:.0f} s after the claim, so its disk may be half written, and then does not boot"
            return Step(REFUSE, reason=f"{text}. {_CONSOLE}")
        return Step(WAIT) if progress.state == CLAIMED else Step(MOVE, CLAIMED)
    if found == "armed":
        return Step(START) if progress.state == ARMED else Step(WAIT)
    return Step(REFUSE, reason=f"the window of its order closed before the installer claimed it. {_CONSOLE}")


def _of_written(progress: Progress, host_key: str) -> Step:
    """Return the next step of a node that is installed. Its host key is from this run, or from the machine; never from both."""
    if host_key and progress.host_key not in ("", host_key):
        return Step(REFUSE, reason="its machine reported another host key than the order has")
    if not progress.host_key and not host_key:
        return Step(REFUSE, reason="its machine reported no host key, so SSH cannot know it")
    return Step(MOVE, WRITTEN, host_key=host_key)
