"""A run is killed before and after it writes each state, and run again: it ends right, and no machine installs twice."""

from __future__ import annotations

import time

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision.progress import STATES
from tests.unit.provision.world import World

pytestmark = pytest.mark.tools("xorriso")
PLACES = [
    *((state, before) for state in STATES if state not in ("planned", "claimed") for before in (True, False)),
    ("order", False),
]


@pytest.mark.parametrize(("state", "before"), PLACES)
def test_killed_and_run_again(state: str, before: bool, world: World) -> None:
    node = world.machine(data=True)
    world.killed(node, state=state, before=before, wipe=[node])
    # No half-armed machine: what is inserted is an open order of the record, and else nothing is.
    if not world.desk().look([node]).nodes[node].open:
        assert world.media_of(node) == []
    run = world.run(node, wipe=[node])
    assert (run.progress[node].state, run.stopped) == ("known", {})
    assert len(world.events(node, "write")) == 1
    assert world.is_clean(node)
    assert world.bmcs[node].state()["power"] == "On"
    assert world.states(node)[node].holder == ""  # type: ignore[union-attr]


def test_killed_while_the_machine_writes(world: World) -> None:
    node = world.machine(seconds=0.8)
    world.killed(node, state="claimed", before=False)
    assert world.run(node).progress[node].state == "known"
    assert len(world.events(node, "write")) == 1


def test_killed_after_the_start_and_the_word_is_withdrawn(world: World) -> None:
    node = world.machine("no-claim", data=True)
    world.killed(node, state="started", before=False, wipe=[node])
    world.change(node, behaviour="install")
    run = world.run(node)
    assert run.progress[node].state == "refused"
    assert "wipe was not confirmed" in run.progress[node].reason
    assert world.events(node, "write") == []


def test_the_window_closes_between_two_runs(world: World) -> None:
    node = world.machine("no-claim")
    wanted = {node: world.wanted(node)}
    world.killed(node, state="started", before=False)
    order = world.states(node)[node].order  # type: ignore[union-attr]
    path = world.host.folder / "orders/orders" / order / "order.json"
    text = path.read_text().replace('"closes": ', '"closes": 1, "was": ')
    path.write_text(text)
    assert world.desk().look(wanted).nodes[node].order["state"] == "expired"  # type: ignore[index]
    world.change(node, behaviour="install")
    time.sleep(0.1)
    assert world.run(node).progress[node].state == "known"
    assert world.states(node)[node].order != order  # type: ignore[union-attr]


def test_an_order_that_would_be_made_anew_is_closed_if_its_node_is_refused(world: World) -> None:
    node = world.machine()
    world.killed(node, state="armed", before=False)
    assert not world.is_clean(node)
    world.change(node, disk="D-OTHER")
    run = world.run(node, refused={node: "a person has resumed it"})
    assert run.progress[node].state == "refused"
    assert run.progress[node].reason == "a person has resumed it"
    assert world.is_clean(node)
