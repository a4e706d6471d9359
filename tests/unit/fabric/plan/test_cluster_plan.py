"""The plan of a cluster file's fabric."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import TemplateError
from tests.unit.fabric.messages import check_messages

ROOT = Path(__file__).parents[4]
POD = (ROOT / "inventories/examples/pod-32/pod-32.bedplate.yml").read_text()


def plan(tmp_path: Path, fabric: str, *edits: tuple[str, str]):
    text = POD
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "pod.bedplate.yml"
    path.write_text(text[: text.index("fabric: {")] + f"fabric: {fabric}\n")
    return plan_of(load(str(path)))


def test_rail_optimised_pod_has_a_leaf_for_each_rail_of_its_unit(tmp_path: Path):
    found = plan(tmp_path, '{kind: rail-optimised, spines: "spine[01-04]", rails: 8, uplinks: 32}')
    assert [switch.name for switch in found.switches.values() if switch.tier == 1] == [
        f"su1-r{rail}" for rail in range(8)
    ]
    assert Counter(link.kind for link in found.links) == {"host": 256, "leaf-spine": 256}
    assert {found.hcas[link.a].rail == found.switches[link.b].rail for link in found.links if link.kind == "host"} == {
        True
    }
    assert found.leaf_of()["gpu005 mlx5_3"] == ("su1-r3", 5)


def test_leaf_per_rack(tmp_path: Path):
    found = plan(tmp_path, '{spines: "spine[01-04]"}', ("leaf: su1, ", ""))
    assert [switch.name for switch in found.switches.values() if switch.tier == 1] == [
        f"leaf-b0{n}" for n in range(1, 9)
    ]
    assert Counter(link.kind for link in found.links) == {"host": 256, "leaf-spine": 256}


def test_pods_below_cores(tmp_path: Path):
    edits = (
        ("  b[01-08]: {row: B, column: 1, leaf: su1, nodes: \"gpu[001-032]\", profile: h100x8}\n",
         "  b[01-04]: {row: B, pod: p1, nodes: \"gpu[001-016]\", profile: h100x8}\n"
         "  b[05-08]: {row: B, pod: p2, nodes: \"gpu[017-032]\", profile: h100x8}\n"),
    )  # fmt: skip
    found = plan(tmp_path, '{kind: three-tier, spines: "s[1-8]", cores: "c[1-4]", uplinks: 32}', *edits)
    assert found.tiers == 3
    assert {switch.group for switch in found.switches.values() if switch.tier == 2} == {"p1", "p2"}
    assert Counter(link.kind for link in found.links) == {"host": 256, "leaf-spine": 256, "spine-core": 256}


def test_a_cable_left_out_is_known_by_either_end(tmp_path: Path):
    for end in ("su1-r0:1", "spine01:1"):
        found = plan(tmp_path, f'{{kind: rail-optimised, spines: "spine[01-04]", uplinks: 32, missing: ["{end}"]}}')
        assert [link for link in found.links if link.missing] == [
            link for link in found.links if f"{link.b}:{link.b_port}" == end
        ]


@pytest.mark.parametrize(
    ("fabric", "key"),
    [
        ('{kind: rail-optimised, spines: "spine[01-05]", uplinks: 32}', "fabric.uplinks"),
        ("{kind: rail-optimised, uplinks: 32}", "fabric"),
        ('{kind: rail-optimised, spines: "spine[01-04]", missing: ["spine01:65"]}', "fabric.missing[0]"),
        ('{spines: "spine[01-04]", switch_ports: 8}', "fabric.switch_ports"),
    ],
)
def test_what_cannot_be_built_is_said(tmp_path: Path, fabric: str, key: str):
    with pytest.raises(TemplateError) as error:
        plan(tmp_path, fabric)
    assert {one.split(": ")[1] for one in str(error.value).splitlines()} == {key}
    check_messages(f"cluster file: {fabric}", error.value, tmp_path)


@pytest.mark.parametrize(
    ("fabric", "key"),
    [
        ("{kind: rail-optimized}", "fabric.kind"),
        ('{spines: "s[1-2]", cores: "s[2-3]"}', "fabric.cores"),
        ('{spines: "s[1-2]", missing: ["leaf 17"]}', "fabric.missing"),
    ],
)
def test_a_mistake_has_its_line(tmp_path: Path, fabric: str, key: str):
    with pytest.raises(ClusterFileError, match=rf":\d+: {key}[^:]*: ") as error:
        plan(tmp_path, fabric)
    check_messages(f"cluster file: {fabric}", error.value, tmp_path)


# Where switches stand.
RACKS = '{kind: rail-optimised, spines: "spine[01-04]", uplinks: 32, switch_racks: %s}'


def standing(found) -> dict[str, str]:
    return {switch.name: switch.rack for switch in found.switches.values()}


def test_a_switch_stands_where_the_file_says(tmp_path: Path):
    found = plan(tmp_path, RACKS % '{"su1-r[0-7]": "b[01-04]", "spine[01-03]": net1, spine04: b02}')
    leaves = {f"su1-r{rail}": f"b0{rail // 2 + 1}" for rail in range(8)}
    assert standing(found) == {**leaves, "spine01": "net1", "spine02": "net1", "spine03": "net1", "spine04": "b02"}


def test_unless_stated_a_leaf_stands_with_the_nodes_of_one_rack_and_nowhere_with_those_of_several(tmp_path: Path):
    assert set(standing(plan(tmp_path, RACKS % "{}")).values()) == {""}
    found = plan(tmp_path, '{spines: "spine[01-04]"}', ("leaf: su1, ", ""))
    assert standing(found) == {
        **{f"leaf-b0{n}": f"b0{n}" for n in range(1, 9)},
        **{f"spine0{n}": "" for n in range(1, 5)},
    }


@pytest.mark.parametrize(("second", "rack"), [("b01", "b01"), ("b02", "")])
def test_a_leaf_of_servers_stands_with_those_of_one_rack(tmp_path: Path, second: str, rack: str):
    edits = [
        (
            f"{name}: {{address: 10.20.0.1{n}}}",
            f"{name}: {{address: 10.20.0.1{n}, rack: {where}, nics: {{name: mlx5_0}}}}",
        )
        for name, n, where in (("ctl1", 1, "b01"), ("ctl2", 2, second))
    ]
    found = plan(tmp_path, '{kind: rail-optimised, spines: "spine[01-32]", leaves: oss, uplinks: 32}', *edits)
    assert standing(found)["oss"] == rack


def test_switches_that_are_not_in_the_plan_come_out_together_with_their_lines(tmp_path: Path):
    racks = """{
    "spine[03-06]": net1,
    su1-r0: b01,
    su1r1: b01}, spare: ["su1-r9:1"]"""
    with pytest.raises(TemplateError) as error:
        plan(tmp_path, RACKS % racks)
    text, lines = str(error.value), (tmp_path / "pod.bedplate.yml").read_text().split("\n")
    found = {line: lines.index(line) + 1 for line in lines if "net1," in line or "su1r1" in line}
    spines, leaf = found.values()
    assert re.findall(r":(\d+): fabric.switch_racks", text) == [str(spines), str(leaf)]
    check_messages("cluster file: switches in racks that are none", error.value, tmp_path)
