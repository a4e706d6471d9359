# SPDX-License-Identifier: GPL-3.0-or-later
"""Orders from step to step, over simulated BMCs and the real order server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision import bmc_steps
from tests.unit.provision.world import World

pytestmark = pytest.mark.tools("xorriso")


def secrets_in(folder: Path, world: World) -> list[Path]:
    """Return files with a password of a BMC, a token of a session, a private key, or the path of a medium."""
    texts = (b"canary", b"PRIVATE KEY", b"/media/")
    own = (world.host.folder / "orders", world.host.folder / "certificates")
    # A machine knows its own.
    own += tuple(world.folder.glob("*.secrets"))
    return [
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(one in (path, *path.parents) for one in own)
        and any(text in path.read_bytes() for text in texts)
    ]


@pytest.mark.parametrize("method", ["media", "http", "pxe"])
def test_a_machine_that_is_off_becomes_known_and_a_second_run_sends_nothing(method: str, world: World) -> None:
    node = world.machine(method=method)
    run = world.run(node)
    assert (world.state(node), run.stopped) == ("known", {})
    assert world.events(node)[0] == {"media": "boot Cd", "http": "boot UefiHttp", "pxe": "boot Pxe"}[method]
    assert len(world.events(node, "write")) == 1
    assert world.is_clean(node)
    assert world.bmcs[node].state()["power"] == "On"
    assert world.bmcs[node].state()["sessions"] == 0
    world.bmcs[node].forget_log()
    again = world.run(node)
    assert again.progress[node].state == "known"
    assert world.bmcs[node].state()["log"] == []
    assert secrets_in(world.folder.parent, world) == []
    assert not any("canary" in line or "/media/" in line for line in world.said)


def test_a_settings_object_and_no_reset_time(world: World) -> None:
    node = world.machine(settings_elsewhere=True, reset_time=False, media_at="system")
    assert world.run(node).progress[node].state == "known"
    assert world.is_clean(node)


def test_the_medium_is_read_back_before_the_reset_and_removed_before_power_on(world: World) -> None:
    node = world.machine()
    world.run(node)
    writes = [one.split()[1].rpartition("/")[2] for one in world.bmcs[node].writes()]
    assert writes == [
        "VirtualMedia.InsertMedia",
        "1",
        "ComputerSystem.Reset",
        "VirtualMedia.EjectMedia",
        "ComputerSystem.Reset",
    ]


def test_data_without_the_word_is_refused_and_with_it_installed(world: World) -> None:
    node = world.machine(data=True)
    world.run(node)
    assert world.state(node) == "refused"
    assert "wipe was not confirmed" in str(world.states(node)[node])
    assert world.events(node, "write") == []
    assert world.is_clean(node)
    assert world.bmcs[node].state()["power"] == "Off"
    world.run(node, wipe=[node])
    assert world.state(node) == "known"
    assert len(world.events(node, "write")) == 1
    # A known node is installed again only by a new word.
    world.run(node)
    assert len(world.events(node, "write")) == 1
    world.run(node, wipe=[node])
    assert len(world.events(node, "write")) == 2


def test_a_machine_that_is_on_needs_the_word(world: World) -> None:
    node = world.machine(power="On")
    run = world.run(node)
    assert "the machine is on" in run.stopped[node]
    assert world.bmcs[node].writes() == []
    world.run(node, wipe=[node])
    assert world.state(node) == "known"


def test_a_busy_bmc_delays_only(world: World) -> None:
    node = world.machine(faults={"busy": 3})
    assert world.run(node).progress[node].state == "known"


@pytest.mark.parametrize(("power_at_once", "most"), [(2, 2), (0, 5)])
def test_machines_get_power_in_waves(
    power_at_once: int, most: int, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [world.machine() for _number in range(5)]
    seen: dict[str, list[int]] = {"start": [], "turn_on": []}
    for name, counts in seen.items():
        monkeypatch.setattr(bmc_steps, name, counted(getattr(bmc_steps, name), counts))
    run = world.run(*nodes, power_at_once=power_at_once)
    assert {run.progress[node].state for node in nodes} == {"known"}
    assert max(seen["start"]) == most
    assert max(seen["turn_on"]) <= most


def counted(step: Callable[..., Any], counts: list[int]) -> Callable[..., Any]:
    """Return a step that notes how many of it run at the same time, for half a second at least."""
    guard, running = threading.Lock(), 0

    def run(*arguments: Any) -> Any:
        nonlocal running
        with guard:
            running += 1
            counts.append(running)
        try:
            time.sleep(0.5)
            return step(*arguments)
        finally:
            with guard:
                running -= 1

    return run
