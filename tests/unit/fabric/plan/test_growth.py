"""A cluster that grows: cables that are laid stay where they are, and new ones come beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Link, Plan, by_switch
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checks import check
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import TemplateError
from tests.unit.fabric.messages import check_messages

# Two racks of three nodes with two rails, and servers that say nothing of their place.
TEXT = """\
plugin: bedplate.cluster.racks
site: t
cluster: t
networks:
  management: {cidr: 10.0.0.0/24}
profiles:
  gpu: {sockets: 1, cores_per_socket: 8, memory_mib: 1000, nics: [{name: mlx5_0, rail: 0}, {name: mlx5_1, rail: 1}]}
racks:
  a: {leaf: u1, pod: p1, nodes: "n[1-3]", profile: gpu}
  b: {leaf: u2, pod: p2, nodes: "n[4-6]", profile: gpu}
hosts:
  ctl1: {address: 10.0.0.201, nics: [{name: mlx5_0}, {name: mlx5_1}]}
  ctl2: {address: 10.0.0.202, rack: b, nics: {name: mlx5_0}}
  oss1: {address: 10.0.0.203, nics: {name: mlx5_0, purpose: storage}}
services: {controllers: ctl1, subnet_managers: [ctl1, ctl2]}
partitions:
  one: {nodes: all}
fabric: {FABRIC}
"""
KINDS = {
    "leaf-spine": 'kind: leaf-spine, switch_ports: 32, spines: "s[1-2]", uplinks: 12',
    "rail-optimised": 'kind: rail-optimised, switch_ports: 32, spines: "s[1-2]", uplinks: 8',
    "three-tier": 'kind: three-tier, switch_ports: 32, spines: "s[1-4]", cores: "c[1-2]", uplinks: 12',
    "rails below cores": 'kind: rail-optimised, switch_ports: 32, spines: "s[1-4]", cores: "c[1-2]", uplinks: 12',
    "rail-only": 'kind: rail-only, switch_ports: 32, spines: "s[1-2]", uplinks: 8',
    "dragonfly": "kind: dragonfly, switch_ports: 32, global_links: 2",
    "dragonfly+": 'kind: dragonfly, switch_ports: 32, spines: "s[1-4]", uplinks: 12, global_links: 2',
    "leaf of servers": 'kind: leaf-spine, switch_ports: 32, spines: "s[1-2]", uplinks: 12, leaves: svc',
    "leaf of servers below cores": 'kind: three-tier, switch_ports: 32, spines: "s[1-4]", cores: "c[1-2]", uplinks: 12, leaves: svc',
    "ports that are kept free": 'kind: leaf-spine, switch_ports: 32, spines: "s[1-2]", uplinks: 12, spare: ["u1:[30-32]", "u2:2"]',
}  # fmt: skip
NODE_IN_A, NODE_IN_B = ('"n[1-3]"', '"n[1-3],n91"'), ('"n[4-6]"', '"n[4-6],n92"')
RACK = ("hosts:", '  c: {leaf: u3, pod: p2, nodes: "n[7-9]", profile: gpu}\nhosts:')
GROUP = ("hosts:", '  c: {leaf: u3, pod: p3, nodes: "n[7-9]", profile: gpu}\nhosts:')
NO_SERVERS = (
    (", nics: [{name: mlx5_0}, {name: mlx5_1}]}\n", "}\n"),
    (", nics: {name: mlx5_0}}", "}"),
    (", nics: {name: mlx5_0, purpose: storage}}", "}"),
)


def plan(tmp_path: Path, fabric: str, *edits: tuple[str, str]) -> Plan:
    text = TEXT.replace("FABRIC", fabric)
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "t.bedplate.yml"
    path.write_text(text)
    return plan_of(load(path))


def grown(before: Plan, after: Plan) -> list[Link]:
    """Return the cables that are new, of a plan that has all those of before and no port twice."""
    assert [str(link) for link in before.links if link not in after.links] == []
    assert sum(map(len, by_switch(after.links).values())) == 2 * len(after.links)
    return [link for link in after.links if link not in before.links]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("edit", [NODE_IN_A, NODE_IN_B], ids=["first rack", "last rack"])
def test_one_more_node_moves_no_cable(tmp_path: Path, kind: str, edit: tuple[str, str]):
    new = grown(plan(tmp_path, KINDS[kind]), plan(tmp_path, KINDS[kind], edit))
    assert [link.a.split()[0] for link in new] == [edit[1].strip('"').split(",")[1]] * 2


@pytest.mark.parametrize("kind", ["leaf-spine", "rail-optimised", "rail-only", "leaf of servers", "dragonfly+"])
def test_one_more_rack_moves_no_cable_where_spines_have_room(tmp_path: Path, kind: str):
    # As many servers as leaves have a place of their own; a new leaf takes none of them over.
    edits = (NO_SERVERS[2],)
    new = grown(plan(tmp_path, KINDS[kind], *edits), plan(tmp_path, KINDS[kind], *edits, RACK))
    assert {end.partition("-")[0] for link in new for end in (link.a, link.b) if end[0] == "u"} == {"u3"}
    assert {link.kind for link in new} == {"host", "local" if kind == "dragonfly+" else "leaf-spine"}


def test_one_more_group_of_a_dragonfly_moves_no_cable(tmp_path: Path):
    kind = KINDS["dragonfly"]
    new = grown(plan(tmp_path, kind, *NO_SERVERS), plan(tmp_path, kind, *NO_SERVERS, GROUP))
    assert [(link.a, link.b) for link in new if link.kind == "global"] == [("u1", "u3")] * 2 + [("u2", "u3")] * 2


def test_one_more_pod_moves_no_cable_where_cores_have_room(tmp_path: Path):
    kind = KINDS["three-tier"]
    new = grown(plan(tmp_path, kind, *NO_SERVERS), plan(tmp_path, kind.replace("s[1-4]", "s[1-6]"), *NO_SERVERS, GROUP))
    assert {link.a.split()[0] for link in new} == {"n7", "n8", "n9", "u3", "s5", "s6"}


@pytest.mark.parametrize("kind", KINDS)
def test_one_more_server_moves_no_cable(tmp_path: Path, kind: str):
    more = ("services:", "  oss2: {address: 10.0.0.204, nics: {name: mlx5_0, purpose: storage}}\nservices:")
    new = grown(plan(tmp_path, KINDS[kind]), plan(tmp_path, KINDS[kind], more))
    assert "oss2 mlx5_0" in {link.a for link in new} <= {"oss2 mlx5_0", "svc"}


def test_nodes_come_from_below_and_uplinks_have_the_last_ports_and_servers_those_before(tmp_path: Path):
    found = by_switch(plan(tmp_path, KINDS["leaf-spine"]).links)
    assert {port: far for port, (far, _port) in found["u1"].items()} == {
        1: "n1 mlx5_0", 2: "n1 mlx5_1", 3: "n2 mlx5_0", 4: "n2 mlx5_1", 5: "n3 mlx5_0", 6: "n3 mlx5_1",
        19: "oss1 mlx5_0", 20: "ctl1 mlx5_0", **dict.fromkeys(range(21, 27), "s1"), **dict.fromkeys(range(27, 33), "s2"),
    }  # fmt: skip
    assert max(found["s1"]) == 12
    found = by_switch(plan(tmp_path, KINDS["three-tier"]).links)
    assert {port for port, (far, _port) in found["s1"].items() if far[0] == "c"} == set(range(27, 33))


def test_kept_ports_at_the_end_of_a_leaf_put_its_uplinks_before_them(tmp_path: Path):
    found = by_switch(plan(tmp_path, KINDS["ports that are kept free"]).links)
    assert sorted(found["u1"])[-12:] == list(range(18, 30))
    assert sorted(found["u2"])[:3] == [1, 3, 4]


def test_a_server_stays_until_the_last_port_of_its_leaf_is_a_nodes(tmp_path: Path):
    fabric = 'kind: rail-optimised, switch_ports: 8, spines: "s[1-2]", uplinks: 4'
    edits = (*NO_SERVERS[1:], (", {name: mlx5_1}]}\n", "]}\n"))
    before = plan(tmp_path, fabric, *edits)
    assert before.leaf_of()["ctl1 mlx5_0"] == ("u1-r0", 4)
    assert plan(tmp_path, fabric, *edits, NODE_IN_A).leaf_of()["ctl1 mlx5_0"] == ("u2-r0", 4)


def test_storage_prefers_a_leaf_whose_uplinks_have_room_for_it(tmp_path: Path):
    fabric = 'kind: rail-optimised, switch_ports: 32, spines: "s[1-2]", uplinks: 4'
    found = plan(tmp_path, fabric, *NO_SERVERS[:2], NODE_IN_A)
    assert found.leaf_of()["oss1 mlx5_0"] == ("u2-r0", 28)
    assert check(found) == []


def test_a_spine_with_all_ports_below_and_above_has_none_for_a_leaf_of_servers(tmp_path: Path):
    fabric = 'kind: three-tier, switch_ports: 8, spines: "s[1-2]", cores: "c[1-4]", uplinks: 4, leaves: svc'
    with pytest.raises(TemplateError, match=r": fabric\.leaves: ") as error:
        plan(tmp_path, fabric, ('"n[1-3]"', "n1"), ('"n[4-6]"', "n2"), ("pod: p2", "pod: p1"))
    check_messages("growth: no port of a spine for a leaf of servers", error.value, tmp_path)


def test_ports_kept_free_on_one_leaf_take_none_from_the_uplinks_of_a_fuller_one(tmp_path: Path):
    fabric = 'kind: rail-optimised, switch_ports: 10, spines: "s[1-3]", uplinks: 6, spare: "u2-r0:[1-1]"'
    found = plan(tmp_path, fabric, *NO_SERVERS, NODE_IN_A)
    assert {len(ports) for leaf, ports in by_switch(found.links).items() if leaf in ("u1-r0", "u1-r1")} == {10}
    with pytest.raises(TemplateError, match=r": fabric\.uplinks: ") as error:
        plan(tmp_path, fabric.replace("u2-r0", "u1-r0"), *NO_SERVERS, NODE_IN_A)
    check_messages("growth: ports kept free on the fullest leaf", error.value, tmp_path)


def test_a_leaf_of_servers_keeps_out_of_ports_that_are_kept_free(tmp_path: Path):
    fabric = KINDS["leaf of servers"] + ', spare: ["svc:1", "svc:[17-18]", "s1:32"]'
    found = plan(tmp_path, fabric)
    assert sorted(by_switch(found.links)["svc"]) == [2, 3, 4, 5, 19, 20, 21, 22]
    assert [link.b_port for link in found.links if (link.a, link.b) == ("svc", "s1")] == [31, 30]
