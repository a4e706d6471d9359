"""An audit without a plan: what is odd is reported with place and remedy, and nothing else is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, NOTICE, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import SavedError, ToolOutput
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.adopt.adoption import audited
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.adopt.audit import KINDS, audit
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Link
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.places import describe
from tests.unit.fabric.adopt.shapes import SHAPES, Existing, existing
from tests.unit.fabric.compare.faulty import End, World
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.pod import ROOT

TREES = ("rail-optimised", "leaf-spine", "three-tier", "mixed models")


def named(name: str, tmp_path: Path, seed: int = 3) -> Existing:
    """Return a fabric whose cards all have names."""
    there = existing(name, seed, tmp_path)
    for hca in there.unnamed:
        del there.world.rename[hca]
    return there


def found(world: World) -> list[Finding]:
    """Return the findings, each with a known kind, a place and a remedy."""
    told = audit(world.discoveries())
    for one in told:
        assert one.kind in KINDS
        assert one.where
        assert one.remedy
    return told


def free(world: World, tier: int, count: int) -> list[End]:
    """Return free ports of so many switches of a tier."""
    names = [name for name, switch in world.plan.switches.items() if switch.tier == tier][:count]
    return [
        (
            name,
            next(
                port for port in range(1, world.plan.switches[name].ports + 1) if port not in world.nodes[name].cables
            ),
        )
        for name in names
    ]


def some(world: World, which: Callable[[Link], bool], count: int = 1) -> list[Link]:
    links = [link for link in world.links if which(link)]
    world.rng.shuffle(links)
    return links[:count]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_a_fabric_in_order_has_no_finding(tmp_path: Path, name: str, seed: int):
    told = found(named(name, tmp_path, seed).world)
    # Leaves that were built with half of the cables are no fault, and are said.
    expected = [("uneven-uplinks", NOTICE)] if name == "uneven uplinks" else []
    assert [(one.kind, one.severity) for one in told] == expected


@pytest.mark.parametrize("seed", range(5))
def test_cards_on_the_leaves_of_other_rails(tmp_path: Path, seed: int):
    world = named("rail-optimised", tmp_path, seed).world
    (first,) = some(world, lambda link: link.kind == "host")
    host = world.plan.hcas[first.a].host
    (second,) = some(
        world, lambda link: link.a != first.a and link.a in world.plan.hcas and world.plan.hcas[link.a].host == host
    )
    world.cut(first.ends[0], second.ends[0])
    world.join(first.ends[0], second.ends[1])
    world.join(second.ends[0], first.ends[1])
    told = found(world)
    assert {one.kind for one in told} == {"rail-mix"}
    assert {one.where for one in told} == {describe(end, world.plan) for end in (first.ends[1], second.ends[1])}
    devices = [world.plan.hcas[link.a].device for link in (first, second)]
    for one in told:
        assert one.severity == ERROR
        assert one.remedy in (f"at {host} swap the cables of {a} and {b}" for a, b in (devices, devices[::-1]))


@pytest.mark.parametrize("name", TREES)
def test_a_cable_between_two_leaves(tmp_path: Path, name: str):
    world = named(name, tmp_path).world
    one, other = free(world, 1, 2)
    world.join(one, other)
    (told,) = found(world)
    assert (told.kind, told.severity, set(told.ports)) == ("leaf-to-leaf", ERROR, {one, other})


def test_a_cable_with_both_ends_in_one_switch(tmp_path: Path):
    world = named("leaf-spine", tmp_path).world
    (one,) = free(world, 1, 1)
    other = next(port for port in range(one[1] + 1, 21) if port not in world.nodes[one[0]].cables)
    world.join(one, (one[0], other))
    (told,) = found(world)
    assert (told.kind, told.severity, set(told.ports)) == ("loop", ERROR, {one, (one[0], other)})


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("seed", range(3))
def test_a_leaf_with_a_cable_up_less_than_the_others(tmp_path: Path, name: str, seed: int):
    world = named(name, tmp_path, seed).world
    (link,) = some(world, lambda link: link.kind == "leaf-spine")
    world.cut(link.ends[0])
    (told,) = found(world)
    assert (told.kind, told.severity, told.where) == ("uneven-uplinks", WARNING, link.a)
    assert f"to {link.b}" in told.found


@pytest.mark.parametrize("name", SHAPES)
def test_a_cable_that_one_end_reports(tmp_path: Path, name: str):
    world = named(name, tmp_path).world
    (link,) = some(world, lambda link: link.kind == "host")
    world.deaf.append(link.ends[1])
    told = [one for one in found(world) if one.severity != NOTICE]
    assert [(one.kind, one.where) for one in told] == [("half-seen", describe(link.ends[1], world.plan))]


@pytest.mark.parametrize("name", ["rail-optimised", "leaf-spine", "mixed models"])
@pytest.mark.parametrize("seed", range(3))
def test_a_card_that_is_not_seen(tmp_path: Path, name: str, seed: int):
    world = named(name, tmp_path, seed).world
    (link,) = some(world, lambda link: link.kind == "host")
    world.cut(link.ends[0])
    (told,) = found(world)
    assert (told.kind, told.where, told.ports) == ("dead-port", link.b, ((link.a, 1),))


def test_the_ports_without_a_link_are_named(tmp_path: Path):
    world = named("rail-optimised", tmp_path).world
    links = [link for link in world.links if link.kind == "host"]
    link = next(one for one in links if any(other.b == one.b and other.b_port > one.b_port for other in links))
    world.cut(link.ends[0])
    (told,) = found(world)
    ports = told.found.rpartition(": ")[2].partition(" and ")[0].split(", ")
    assert str(link.b_port) in ports


@pytest.mark.parametrize("name", SHAPES)
def test_a_cable_that_is_slower_than_its_like(tmp_path: Path, name: str):
    world = named(name, tmp_path).world
    for link in (*some(world, lambda link: link.kind == "host"), *some(world, lambda link: link.kind != "host")):
        world.join(*link.ends, speed="EDR")
        told = [one for one in found(world) if one.kind == "mixed-speed"]
        world.join(*link.ends)
        assert [(one.severity, set(one.ports)) for one in told] == [(WARNING, set(link.ends))]
        assert told[0].expected.startswith("4xHDR, as ")


def test_a_storage_nic_may_be_slower_and_many_rates_are_one_finding(tmp_path: Path):
    there = named("rail-optimised", tmp_path)
    for link in [link for link in there.world.links if link.a.endswith("mlx5_3")]:
        there.world.join(*link.ends, speed="EDR")
    told = found(there.world)
    assert [(one.kind, one.severity) for one in told if one.kind == "mixed-speed"] != []
    # The cluster file says that this device has no rail, so its cables are a sort of their own.
    there.path.write_text(there.path.read_text().replace("{name: mlx5_3, rail: 3}", "{name: mlx5_3}"))
    assert "mixed-speed" not in audited(there.cluster(), there.outputs()).table


def test_cards_without_a_name_are_listed_by_their_ports_and_account_for_the_cards_that_are_not_seen(tmp_path: Path):
    there = existing("rail-optimised", 3, tmp_path)
    told = found(there.world)
    assert {one.kind for one in told} == {"unnamed"}
    ends = {link.ends[1] for link in there.world.links if link.a in there.unnamed}
    assert {port for one in told for port in one.ports} == ends
    check_messages("audit: cards without a name", [audited(there.cluster(), there.outputs()).table])


def test_the_audit_of_an_operator_names_each_fault(tmp_path: Path):
    there = named("rail-optimised", tmp_path)
    world = there.world
    one, other = free(world, 1, 2)
    world.join(one, other)
    up, more = some(world, lambda link: link.kind == "leaf-spine" and link.a not in (one[0], other[0]), 2)
    world.cut(up.ends[0])
    world.join(*more.ends, width="1x")
    report = audited(there.cluster(), there.outputs())
    assert report.worst == ERROR
    check_messages("audit: several faults", [report.table])


def test_two_nodes_of_one_name_and_a_switch_that_does_not_answer(tmp_path: Path):
    world = named("leaf-spine", tmp_path).world
    one, other = some(world, lambda link: link.kind == "host", 2)
    world.rename[one.a] = other.a
    (told,) = [finding for finding in found(world) if finding.kind == "duplicate-name"]
    assert told.where == other.a
    del world.rename[one.a]
    spine = next(name for name, switch in world.plan.switches.items() if switch.tier == 2)
    world.mute.add(spine)
    assert [(one.kind, one.severity, one.where) for one in found(world)] == [("partial", ERROR, spine)]


def test_hosts_without_a_neighbour_are_no_fabric_in_order(tmp_path: Path):
    there = existing("leaf-spine", 3, tmp_path)
    for answer in ('{"lldp": {}}', '{"lldp": {"interface": []}}', '{"lldp": [{}]}'):
        with pytest.raises(SavedError) as error:
            audited(there.cluster(), [ToolOutput("gpu001", answer)])
    check_messages("audit: nothing was discovered", error.value)


def test_the_page_has_every_kind_of_finding():
    text = (ROOT / "docs/fabric.md").read_text()
    table = text[text.index("<!-- audit: begin -->") : text.index("<!-- audit: end -->")]
    assert re.findall(r"^\| `(.+?)` \| (.+) \|$", table, re.MULTILINE) == list(KINDS.items())
