# SPDX-License-Identifier: GPL-3.0-or-later
"""A run towards its provision host: files that another run has, that are damaged, and a host that does not answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.desk import DeskError
from tests.unit.provision.world import World

pytestmark = pytest.mark.tools("xorriso")


def test_an_order_that_cannot_be_closed_leaves_the_machine_off(world: World) -> None:
    node = world.machine()

    def call(name: str, arguments: Mapping[str, Any]) -> Any:
        if name == "provision_orders" and arguments.get("release") and world.state(node) == "off":
            return {"failed_nodes": dict.fromkeys(arguments["release"], "disk full")}
        return world.host.call(name, arguments)

    assert world.run(node, call=call).stopped[node] == "disk full"
    assert (world.state(node), world.bmcs[node].state()["power"]) == ("off", "Off")


def test_a_node_that_another_run_took_is_not_reset(world: World) -> None:
    node = world.machine()

    def call(name: str, arguments: Mapping[str, Any]) -> Any:
        if name == "provision_states" and any(row["state"] == "started" for row in arguments.get("write", ())):
            return {"held": {node: "another run works on it: x"}}
        return world.host.call(name, arguments)

    assert world.run(node, call=call).stopped[node] == "another run works on it: x"
    assert [one for one in world.bmcs[node].writes() if "Reset" in one] == []


@pytest.mark.parametrize("written", ["digest", "order"])
def test_a_node_that_another_run_took_is_not_armed(written: str, world: World) -> None:
    """`written`: what the last file of this run would have had."""
    node, good = world.machine(), world.machine()

    def call(name: str, arguments: Mapping[str, Any]) -> Any:
        rows = arguments.get("write", ()) if name == "provision_states" else ()
        if any(row["node"] == node and row[written] for row in rows):
            others = [row for row in rows if row["node"] != node]
            found = world.host.call(name, {**arguments, "write": others}) if others else {"held": {}}
            return {**found, "held": {node: "another run works on it: x"}}
        return world.host.call(name, arguments)

    run = world.run(node, good, call=call)
    assert run.stopped == {node: "another run works on it: x"}
    assert world.bmcs[node].writes() == []
    assert bool(world.desk().look([node]).nodes[node].open) == (written == "order")
    assert world.state(good) == "known"


@pytest.mark.parametrize(("fault", "says"), [("order", "disk full"), ("medium", "has no medium")])
def test_a_node_without_an_order_or_without_its_medium_is_refused_alone(fault: str, says: str, world: World) -> None:
    node, good = world.machine(), world.machine()

    def call(name: str, arguments: Mapping[str, Any]) -> Any:
        if fault == "order" and name == "provision_orders" and "arm" in arguments:
            rows = [row for row in arguments["arm"] if row["machine"]["node"] != node]
            found = world.host.call(name, {**arguments, "arm": rows})
            return {**found, "failed_nodes": {node: "disk full"}}
        found = world.host.call(name, arguments)
        if fault == "medium" and node in found.get("nodes", ()):
            found["nodes"][node]["medium"] = ""
        return found

    run = world.run(node, good, call=call)
    assert run.progress[node].state == "refused"
    assert says in run.progress[node].reason
    assert (world.bmcs[node].writes(), world.is_clean(node)) == ([], True)
    assert world.state(good) == "known"


def test_a_provision_host_that_stays_silent_ends_the_run(world: World) -> None:
    node, looks = world.machine(), [0]

    def call(name: str, arguments: Mapping[str, Any]) -> Any:
        looks[0] += name == "provision_states" and "write" not in arguments
        if looks[0] > 40:
            raise AssertionError("the run does not end")
        return {"unreachable": True, "msg": "no route"} if looks[0] > 2 else world.host.call(name, arguments)

    with pytest.raises(DeskError, match="no route"):
        world.run(node, call=call)
    assert world.bmcs[node].writes() == []


def test_another_run_works_on_the_node(world: World) -> None:
    node = world.machine()
    desk = world.desk()
    plan = world.plan({node: world.wanted(node)}, desk)
    desk.write(plan.work.values(), desk.look([]).now)
    other = world.desk()
    other.settings.__dict__["holder"] = "elsewhere:1:2:3:4"
    refused = other.write(plan.work.values(), desk.look([]).now)
    assert "another run works on it" in refused[node]
    assert world.plan({node: world.wanted(node)}, other).refused[node].startswith("another run works on it")


def test_a_damaged_file_of_a_node_is_never_no_progress(world: World) -> None:
    node = world.machine()
    path = world.host.folder / "states" / f"{node}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"node": "')
    run = world.run(node)
    assert str(path) in run.stopped[node]
    assert world.bmcs[node].writes() == []
