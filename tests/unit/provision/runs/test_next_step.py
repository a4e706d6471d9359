# SPDX-License-Identifier: GPL-3.0-or-later
"""The next step of a node: what its order on the server allows, and what refuses it."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision.progress import STATES, Progress
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.next_step import Bounds, Step, next_step

NOW, BOUNDS = 1000.0, Bounds(install=60.0)


def after(state: str, order: dict[str, Any] | None, host_key: str = "") -> Step:
    return next_step(Progress("gpu001", state, order="1", host_key=host_key), order, NOW, BOUNDS)


def claimed(state: str = "claimed", seconds: float = 60) -> dict[str, Any]:
    """Return an order that was claimed some seconds ago."""
    return {"state": state, "at": {"claim": NOW - seconds}}


@pytest.mark.parametrize(
    ("state", "order", "kind", "moved"),
    [
        ("armed", {"state": "armed"}, "start", ""),
        ("started", {"state": "armed"}, "wait", ""),
        ("started", claimed(), "move", "claimed"),
        ("started", claimed("seeded"), "move", "claimed"),
        ("claimed", claimed(), "wait", ""),
        ("claimed", claimed("seeded"), "wait", ""),
    ],
)
def test_an_open_order_is_started_once_and_then_waited_for(
    state: str, order: dict[str, Any], kind: str, moved: str
) -> None:
    assert after(state, order) == Step(kind, moved)


@pytest.mark.parametrize(
    ("order", "says"),
    [
        (None, "does not exist"),
        ({"state": "expired"}, "window of its order closed"),
        ({"state": "released"}, "closed before the machine had reported"),
        ({"state": "refused", "reason": "disk has data"}, "the installer refused: disk has data"),
        ({"state": "refused"}, "the installer refused: without a reason"),
        # Another run has released it since: the installer's own reason is of more use.
        ({"state": "released", "result": "refused", "reason": "disk has data"}, "the installer refused: disk has data"),
        (claimed(seconds=61), "half written"),
        (claimed("seeded", seconds=61), "half written"),
        ({"state": "written"}, "no host key"),
        ({"state": "of a later release"}, "window of its order closed"),
    ],
)
@pytest.mark.parametrize("state", ["armed", "started", "claimed"])
def test_an_order_that_cannot_install_any_more_is_refused(state: str, order: dict[str, Any] | None, says: str) -> None:
    step = after(state, order)
    assert step.kind == "refuse"
    assert says in step.reason


@pytest.mark.parametrize(
    ("own", "reported", "kind", "key"),
    [
        ("ours", "", "move", ""),
        ("", "theirs", "move", "theirs"),
        ("theirs", "theirs", "move", "theirs"),
        ("ours", "theirs", "refuse", ""),
        ("", "", "refuse", ""),
    ],
)
def test_a_written_machine_has_one_known_host_key(own: str, reported: str, kind: str, key: str) -> None:
    step = after("claimed", {"state": "written", "host_key": reported}, own)
    assert (step.kind, step.host_key) == (kind, key)


def test_every_other_state_has_its_step() -> None:
    found = {state: after(state, None).kind for state in (*STATES, "refused") if state not in ("armed", "started")}
    assert found == {
        "planned": "done",
        "verified": "arm",
        "claimed": "refuse",
        "written": "power-off",
        "off": "release",
        "released": "turn-on",
        "on": "ssh",
        "known": "done",
        "refused": "done",
    }
