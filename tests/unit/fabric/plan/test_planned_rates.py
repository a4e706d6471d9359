"""Planned rates of links: of rows, NICs, switches and the fabric; what a comparison says of each, and every mistake with its line."""

from __future__ import annotations

import csv
import random
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Link, Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.link_rates import rate_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cable_rows import parse
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import PlanError, planned
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import plan_of as planned_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report import cable_list
from tests.unit.fabric.compare.faulty import World
from tests.unit.fabric.messages import check_messages

SITE = """plugin: bedplate.cluster.racks
site: a
cluster: there
networks: {management: {cidr: 10.0.0.0/16}}
profiles:
  gpu:
    sockets: 1
    cores_per_socket: 1
    memory_mib: 1000
    nics:
      - {name: mlx5_0, rail: 0}
      - {name: mlx5_1}
racks:
  a[1-4]: {profile: gpu, nodes: "gpu[01-16]"}
hosts:
  ctl1: {address: 10.0.9.1}
  oss1:
    address: 10.0.9.2
    nics:
      - {name: mlx5_0, purpose: storage}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all, default: true}}
fabric: {spines: "s[1-2]", speed: NDR, oversubscription: 2, uplinks: 8}
"""
# Edits: the compute NICs have splitter cables; the storage NICs and the storage server are older.
SPLIT = ("mlx5_0, rail: 0", "mlx5_0, rail: 0, speed: NDR200")
OLD = ("name: mlx5_1", "name: mlx5_1, speed: EDR")
OLD_SERVER = ("mlx5_0, purpose: storage", "mlx5_0, purpose: storage, speed: HDR, width: 2x")
CORES = (
    'fabric: {spines: "s[1-2]", speed: NDR',
    'fabric: {spines: "s[1-2]", speed: NDR, switches: {"leaf-a[1-2]": {speed: HDR}, "leaf-a4,s[1-2]": {speed: XDR}}',
)


def site(tmp_path: Path, *edits: tuple[str, str]) -> Cluster:
    text = SITE
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = tmp_path / "there.bedplate.yml"
    path.write_text(text)
    return load(path)


def plan_of(tmp_path: Path, *edits: tuple[str, str]) -> Plan:
    return planned(site(tmp_path, *edits)).plan


def link_of(plan: Plan, name: str) -> Link:
    return next(link for link in plan.links if link.a == name)


def world(plan: Plan) -> World:
    return World(plan, random.Random(0))


def findings(one: World) -> list[Finding]:
    return comparison(one.plan, one.discoveries()).findings


def rates(plan: Plan) -> dict[str, str]:
    """Return host and device, or the leaf of a cable up, -> planned rate."""
    return {link.a: "".join(rate_of(plan, link)) for link in plan.links}


def test_a_plan_without_stated_rates_has_one(tmp_path: Path):
    plan = plan_of(tmp_path)
    assert {(link.speed, link.width, link.rate_from) for link in plan.links} == {("", "", "")}
    assert set(rates(plan).values()) == {"4xNDR"}


def test_the_nic_states_the_rate_of_its_link(tmp_path: Path):
    plan = plan_of(tmp_path, SPLIT, OLD, OLD_SERVER)
    found = rates(plan)
    assert (found["gpu01 mlx5_0"], found["gpu16 mlx5_1"], found["oss1 mlx5_0"]) == ("2xNDR", "4xEDR", "2xHDR")
    assert {found[name] for name in plan.switches if name in found} == {"4xNDR"}


def test_links_at_their_planned_rates_are_no_findings(tmp_path: Path):
    plan = plan_of(tmp_path, SPLIT, OLD, OLD_SERVER)
    found = comparison(plan, world(plan).discoveries())
    assert found.findings == []
    assert len(found.ok) == len(plan.links)


@pytest.mark.parametrize(
    ("name", "rate", "expected"),
    [
        ("gpu03 mlx5_0", ("2x", "HDR"), "2xNDR"),
        ("gpu03 mlx5_0", ("1x", "NDR"), "2xNDR"),
        ("gpu03 mlx5_1", ("4x", "QDR"), "4xEDR"),
        ("oss1 mlx5_0", ("1x", "HDR"), "2xHDR"),
        ("leaf-a2", ("4x", "HDR"), "4xNDR"),
    ],
)
def test_a_link_below_its_planned_rate_is_slow(tmp_path: Path, name: str, rate: tuple[str, str], expected: str):
    one = world(plan_of(tmp_path, SPLIT, OLD, OLD_SERVER))
    link = link_of(one.plan, name)
    one.join(*link.ends, *rate)
    (finding,) = findings(one)
    assert (finding.kind, finding.severity, finding.expected, finding.ports) == ("slow", "error", expected, link.ends)
    assert finding.found.startswith("".join(rate))
    check_messages(f"rate: {name} at {''.join(rate)}", [finding])


def test_a_link_above_its_planned_rate_is_no_finding(tmp_path: Path):
    one = world(plan_of(tmp_path, SPLIT, OLD, OLD_SERVER))
    for name in ("gpu03 mlx5_0", "gpu03 mlx5_1", "oss1 mlx5_0"):
        one.join(*link_of(one.plan, name).ends, "4x", "NDR")
    # As fast by other lanes: an HDR100 card in an EDR switch.
    one.join(*link_of(one.plan, "gpu04 mlx5_1").ends, "2x", "HDR")
    assert findings(one) == []


def test_a_lower_rate_of_all_links_of_a_nic_is_one_finding_that_names_it(tmp_path: Path):
    one = world(plan_of(tmp_path, SPLIT, OLD, OLD_SERVER))
    for link in one.plan.links:
        if link.a.startswith("gpu") and link.a.endswith("mlx5_0"):
            one.join(*link.ends, "2x", "HDR")
    one.join(*link_of(one.plan, "leaf-a1").ends, "1x", "NDR")
    found = findings(one)
    assert [(finding.where, finding.expected) for finding in found] == [
        ("s1 port 1", "4xNDR"),
        ("there", "2xNDR"),
    ]
    assert "profiles.gpu.nics (mlx5_0)" in found[1].remedy
    check_messages("rate: all links of a NIC", found)


def test_a_lower_rate_of_all_cards_that_the_plan_does_not_know_is_one_finding(tmp_path: Path):
    one = world(plan_of(tmp_path, SPLIT))
    for link in one.plan.links:
        if link.a.endswith("mlx5_1"):
            one.join(*link.ends, "4x", "EDR")
    (finding,) = findings(one)
    assert (finding.where, finding.expected, finding.ports) == ("there", "4xNDR", ())
    check_messages("rate: all links of an older NIC", [finding])
    # It ends when the rate is stated.
    one.plan = plan_of(tmp_path, SPLIT, OLD)
    assert findings(one) == []


def test_the_slower_switch_of_a_link_counts(tmp_path: Path):
    plan = plan_of(tmp_path, CORES)
    found = rates(plan)
    assert [found[f"leaf-a{number}"] for number in (1, 2, 3, 4)] == ["4xHDR", "4xHDR", "4xNDR", "4xXDR"]
    assert [found[f"gpu{number} mlx5_0"] for number in ("01", "08", "09", "16")] == ["4xHDR", "4xHDR", "4xNDR", "4xXDR"]
    one = world(plan)
    assert findings(one) == []
    link = link_of(plan, "leaf-a4")
    one.join(*link.ends, "4x", "NDR")
    (finding,) = findings(one)
    assert (finding.expected, finding.ports) == ("4xXDR", link.ends)
    check_messages("rate: below that of both switches", [finding])


def test_the_nic_of_a_slower_leaf_states_its_width_alone(tmp_path: Path):
    plan = plan_of(tmp_path, CORES, ("mlx5_0, rail: 0", "mlx5_0, rail: 0, width: 2x"))
    assert [rates(plan)[f"gpu{number} mlx5_0"] for number in ("01", "09", "16")] == ["2xHDR", "2xNDR", "2xXDR"]


def test_the_lists_for_people_have_the_rate_of_each_cable(tmp_path: Path):
    found = site(tmp_path, SPLIT, OLD, OLD_SERVER)
    plan = planned(found).plan
    rows = cable_list.rows(plan)
    bill = {(one.kind, one.purpose, one.speed): one.count for one in cable_list.bill(plan, rows)}
    assert bill == {
        ("host", "compute", "2x NDR"): 16,
        ("host", "storage", "2x HDR"): 1,
        ("host", "storage", "4x EDR"): 16,
        ("leaf-spine", "inter-switch", "4x NDR"): 32,
    }
    text = cable_list.as_csv(rows)
    first, *others = csv.reader(text.splitlines())
    assert first[-2:] == ["speed", "width"]
    assert {tuple(row[-2:]) for row in others} == {("NDR", "2x"), ("HDR", "2x"), ("EDR", "4x"), ("NDR", "4x")}
    # The list that was written states the same plan.
    assert found.fabric
    bare = {"uplinks": None, "spines": ()}
    listed = replace(found, fabric=replace(found.fabric, cables="cabling.csv", **bare))
    again = planned_of(listed, parse(text, "cabling.csv"))
    assert again.links == plan.links
    assert cable_list.as_csv(cable_list.rows(again)) == text


LISTED = """a,a_port,b,b_port,speed,width
gpu01 mlx5_0,,leaf-1,1,ndr200,
gpu01 mlx5_1,,leaf-1,2,,
gpu02 mlx5_0,,leaf-1,3,HDR,
gpu02 mlx5_1,,leaf-1,4,,1x
gpu03 mlx5_0,,leaf-1,5,,
leaf-1,6,s1,1,XDR,
leaf-1,7,s1,2,,
"""


def listed_site(tmp_path: Path, text: str, *edits: tuple[str, str]) -> Cluster:
    (tmp_path / "cables.csv").write_text(text)
    section = (
        'fabric: {spines: "s[1-2]", speed: NDR, oversubscription: 2, uplinks: 8}',
        "fabric: {cables: cables.csv, speed: NDR}",
    )
    return site(tmp_path, section, *edits)


def test_a_row_comes_before_the_nic_and_the_switches(tmp_path: Path):
    plan = planned(listed_site(tmp_path, LISTED, OLD)).plan
    found = {link.ends[1]: "".join(rate_of(plan, link)) for link in plan.links}
    assert [found["leaf-1", port] for port in range(1, 6)] == ["2xNDR", "4xEDR", "4xHDR", "1xEDR", "4xNDR"]
    assert [found["s1", port] for port in (1, 2)] == ["4xXDR", "4xNDR"]
    one = world(plan)
    assert findings(one) == []
    link = link_of(plan, "gpu01 mlx5_0")
    one.join(*link.ends, "2x", "HDR")
    (finding,) = findings(one)
    assert (finding.expected, finding.ports) == ("2xNDR", link.ends)
    check_messages("rate: below that of a row", [finding])


def test_a_row_with_a_trade_name_has_no_other_width(tmp_path: Path):
    with pytest.raises(PlanError) as error:
        planned(listed_site(tmp_path, LISTED.replace("ndr200,", "ndr200,4x").replace("HDR,", "HDR10,")))
    check_messages("rate: mistakes of rows", str(error.value).replace(f"{tmp_path}/", "").split("\n"))


def mistakes(tmp_path: Path, *edits: tuple[str, str]) -> list[str]:
    with pytest.raises((ClusterFileError, PlanError)) as error:
        plan_of(tmp_path, *edits)
    return str(error.value).replace(f"{tmp_path}/", "").split("\n")


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (("mlx5_0, rail: 0", "mlx5_0, rail: 0, speed: NDR20"), 11),
        (("mlx5_0, rail: 0", "mlx5_0, rail: 0, width: 3x"), 11),
        (("mlx5_0, rail: 0", "mlx5_0, rail: 0, speed: NDR200, width: 4x"), 11),
        (("mlx5_0, rail: 0", "mlx5_0, rail: 0, speed: XDR"), 11),
        (("purpose: storage", "purpose: storage, speed: XDR, width: 1x"), 20),
        (("speed: NDR", "speed: NDR, switches: {leaf-a1: {speed: HDRR}}"), 23),
        (("speed: NDR", 'speed: NDR, switches: {"leaf-b[1-2]": {speed: HDR}}'), 23),
        (("speed: NDR", "speed: NDR, switches: {leaf-a1: {group: g1, speed: HDR}}"), 23),
    ],
)
def test_every_mistake_has_its_line(tmp_path: Path, edit: tuple[str, str], line: int):
    (text,) = mistakes(tmp_path, edit)
    assert text.startswith(f"there.bedplate.yml:{line}: ")
    check_messages(f"rate: {edit[1]}", [text])


def test_a_nic_that_is_faster_than_a_slow_leaf_is_one_mistake(tmp_path: Path):
    (text,) = mistakes(tmp_path, CORES, ("name: mlx5_1", "name: mlx5_1, speed: NDR"))
    assert text.startswith("there.bedplate.yml:12: ")
    check_messages("rate: a NIC faster than some leaves", [text])
