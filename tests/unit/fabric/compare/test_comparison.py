"""The comparison as an operator gets it: table, files, verdict, record, sources, topology."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import ToolOutput
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.comparison import (
    comparison_report,
    discovered_topology,
    discovery_sources,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core import guid_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import PlanError, planned
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import (
    ibnetdiscover_text,
)
from tests.kit.fabric_files import artefacts
from tests.unit.fabric.lldp_answers import answers
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.pod import POD, cluster, cut, keep, node, seen, swap, told


def test_a_swap_is_told_with_where_to_go(tmp_path: Path):
    found = cluster(tmp_path)
    discovery = seen(found)
    swap(discovery, "su1-r3", 5, 6)
    report = comparison_report(found, told(discovery))
    assert report.counts == {"ok": 510, "swapped": 1}
    first, *_lines = report.table.splitlines()
    assert first == report.summary
    check_messages("comparison: a swap", [report.table])
    assert (report.worst, report.failed) == ("error", True)
    suite = ElementTree.fromstring(report.files["findings.xml"])
    assert suite.attrib["failures"] == "1"
    assert json.loads(report.files["findings.json"])["counts"] == {"swapped": 1}


@pytest.mark.parametrize(
    ("fail_on", "failed"), [("error", False), ("warning", True), ("notice", True), ("never", False)]
)
def test_warnings_fail_where_that_is_asked_for(tmp_path: Path, fail_on: str, failed: bool):
    found = cluster(tmp_path)
    discovery = seen(found)
    node(discovery, "gpu005 mlx5_3").description = "MT4129 ConnectX7   Mellanox Technologies"
    report = comparison_report(found, told(discovery), fail_on)
    assert (report.worst, report.failed) == ("warning", failed)


def test_a_name_from_the_network_does_nothing_to_a_terminal(tmp_path: Path):
    found = cluster(tmp_path)
    discovery = seen(found)
    node(discovery, "gpu005 mlx5_3").description = "evil\x1b[2J mlx5_3"
    assert "\x1b" not in comparison_report(found, told(discovery)).table


def test_neighbours_of_every_box_are_compared_for_roce(tmp_path: Path):
    found = cluster(tmp_path, ("kind: rail-optimised, ", "kind: rail-optimised, technology: ethernet, "))
    plan = plan_of(found)
    hosts = {hca.host for hca in plan.hcas.values()}
    texts = {name: json.dumps(answer) for name, answer in answers(plan).items()}
    report = comparison_report(found, [ToolOutput(name, text) for name, text in texts.items()])
    assert report.counts == {"ok": 512}
    check_messages("comparison: all as planned", [report.table])
    texts = {name: json.dumps(answer) for name, answer in answers(plan, *hosts).items()}
    report = comparison_report(found, [ToolOutput(name, text) for name, text in texts.items()])
    assert report.counts == {"ok": 256, "partial": 1}
    assert (report.worst, report.failed) == ("notice", False)
    del texts["gpu007"]
    texts["gpu005"] = texts["gpu005"].replace('"swp5"', '"swp6"')
    texts["gpu006"] = texts["gpu006"].replace('"swp6"', '"swp5"')
    report = comparison_report(found, [ToolOutput(name, text) for name, text in texts.items()])
    assert report.counts == {"ok": 232, "exchanged": 1, "partial": 1}
    check_messages("comparison: of a host and of switches that were not queried", [report.table])
    assert report.guids == "{}\n"


def test_what_was_seen_is_recorded_and_a_replaced_adapter_told_and_then_recorded(tmp_path: Path):
    found = cluster(tmp_path)
    first = comparison_report(found, told(seen(found)))
    keep(found, first.guids)
    assert comparison_report(found, told(seen(found))) == first
    assert len(guid_record.read(guid_record.path_of(found.path))) == 268
    discovery = seen(found)
    other = ibnetdiscover_text(discovery).replace(node(discovery, "gpu005 mlx5_3").guid, "00000000000abc00")
    report = comparison_report(found, [ToolOutput("fabric", other)])
    assert report.counts["replaced"] == 1
    assert '"gpu005 mlx5_3": {"node": "0x00000000000abc00"' in report.guids
    keep(found, report.guids)
    assert not comparison_report(found, [ToolOutput("fabric", other)]).failed


def test_the_port_of_a_replaced_adapter_does_not_stay_where_a_discovery_has_no_ports(tmp_path: Path):
    found = cluster(tmp_path)
    keep(found, comparison_report(found, told(seen(found))).guids)
    before = guid_record.read(guid_record.path_of(found.path))
    discovery = seen(found)
    text = ibnetdiscover_text(discovery).replace(node(discovery, "gpu005 mlx5_3").guid, "00000000000abc00")
    keep(found, comparison_report(found, [ToolOutput("fabric", re.sub(r"\]\([0-9a-f]+\)", "]", text))]).guids)
    after = guid_record.read(guid_record.path_of(found.path))
    assert after == {**before, "gpu005 mlx5_3": {"node": "00000000000abc00"}}


def test_what_was_not_seen_keeps_its_guids_unless_another_has_them_now(tmp_path: Path):
    found = cluster(tmp_path)
    keep(found, comparison_report(found, told(seen(found))).guids)
    before = guid_record.read(guid_record.path_of(found.path))
    discovery = seen(found)
    cut(discovery, "gpu005 mlx5_3")
    hca = node(discovery, "gpu005 mlx5_3")
    del discovery.nodes[hca.guid]
    report = comparison_report(found, told(discovery))
    keep(found, report.guids)
    assert guid_record.read(guid_record.path_of(found.path)) == before
    # Its card is now in the host beside it.
    text = ibnetdiscover_text(discovery).replace(node(discovery, "gpu006 mlx5_3").guid, hca.guid)
    keep(found, comparison_report(found, [ToolOutput("fabric", text)]).guids)
    after = guid_record.read(guid_record.path_of(found.path))
    assert after["gpu006 mlx5_3"]["node"] == hca.guid
    assert "gpu005 mlx5_3" not in after


def test_a_card_that_moved_is_recorded_where_it_names_itself_and_not_for_a_guess_in_its_old_place(tmp_path: Path):
    found = cluster(tmp_path)
    keep(found, comparison_report(found, told(seen(found))).guids)
    discovery = seen(found)
    node(discovery, "gpu005 mlx5_3").description = "MT4129 ConnectX7   Mellanox Technologies"
    moved, other = (
        node(discovery, name).guid for name in ("MT4129 ConnectX7   Mellanox Technologies", "gpu006 mlx5_3")
    )
    text = ibnetdiscover_text(discovery).replace(moved, "00000000000abc00").replace(other, moved)
    keep(found, comparison_report(found, [ToolOutput("fabric", text)]).guids)
    after = guid_record.read(guid_record.path_of(found.path))
    assert after["gpu006 mlx5_3"]["node"] == moved
    assert "gpu005 mlx5_3" not in after


def test_a_card_that_names_another_host_leaves_the_record_of_its_old_one(tmp_path: Path):
    found = cluster(tmp_path)
    keep(found, comparison_report(found, told(seen(found))).guids)
    before = guid_record.read(guid_record.path_of(found.path))
    discovery = seen(found)
    # Which device of that host it is, nothing says.
    node(discovery, "gpu005 mlx5_3").description = "gpu006 HCA-9"
    report = comparison_report(found, told(discovery))
    assert report.counts["replaced"] == 1
    keep(found, report.guids)
    del before["gpu005 mlx5_3"]
    assert guid_record.read(guid_record.path_of(found.path)) == before


def test_two_nodes_of_one_guid_are_not_recorded(tmp_path: Path):
    found = cluster(tmp_path)
    discovery = seen(found)
    text = ibnetdiscover_text(discovery)
    text = text.replace(node(discovery, "gpu005 mlx5_3").guid, node(discovery, "gpu006 mlx5_3").guid)
    report = comparison_report(found, [ToolOutput("fabric", text)])
    assert report.counts["duplicate-guid"] == 1
    keep(found, report.guids)
    assert not {"gpu005 mlx5_3", "gpu006 mlx5_3"} & set(guid_record.read(guid_record.path_of(found.path)))


def test_a_record_that_cannot_be_read_stops_everything(tmp_path: Path):
    found = cluster(tmp_path)
    keep(found, '{"gpu001 mlx5_0": {"node": "x"}}')
    for call in (lambda: artefacts(found), lambda: comparison_report(found, told(seen(found))), lambda: planned(found)):
        with pytest.raises(PlanError, match=r'pod\.guids\.json:1: "gpu001 mlx5_0": '):
            call()


def test_from_where_a_fabric_is_discovered(tmp_path: Path):
    assert discovery_sources(cluster(tmp_path)) == [{"name": "gpu001", "lldp": False, "ports": [{}]}]
    edits = (("kind: rail-optimised, ", "kind: rail-only, "), ('"spine[01-04]"', '"spine[01-08]"'))
    ports = [{"plane": f"rail{n}", "ca": f"mlx5_{n}"} for n in range(8)]
    assert discovery_sources(cluster(tmp_path, *edits)) == [{"name": "gpu001", "lldp": False, "ports": ports}]
    found = discovery_sources(
        cluster(tmp_path, ("kind: rail-optimised, ", "kind: rail-optimised, technology: ethernet, "))
    )
    assert [one["name"] for one in found] == [f"gpu{n:03}" for n in range(1, 33)]
    assert all(one["lldp"] for one in found)


def test_the_topology_of_what_is_there_needs_no_plan(tmp_path: Path):
    found = cluster(tmp_path)
    discovery = seen(found)
    bare = load(
        (tmp_path / "bare.bedplate.yml").write_text(POD[: POD.index("fabric: {")]) and tmp_path / "bare.bedplate.yml"
    )
    assert bare.fabric is None
    topology = discovered_topology(bare, told(discovery))
    assert "Nodes=gpu[001-032]" in topology.files["slurm/topology.conf"]
    for hca in [one for one in discovery.nodes.values() if one.description.startswith("gpu012 ")]:
        del discovery.nodes[hca.guid]
        for box in discovery.nodes.values():
            box.cables = {port: cable for port, cable in box.cables.items() if cable.guid != hca.guid}
    lacking = discovered_topology(bare, told(discovery))
    assert lacking.partial.startswith("gpu012: ")
    assert "plan" not in lacking.table
    check_messages("discovered topology: without one node", [topology.table, lacking.table])
