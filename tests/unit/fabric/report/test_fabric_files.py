"""The files of a fabric as an operator has them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.comparison import (
    comparison_report,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core import guid_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.places import KINDS
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.plane_files import LEFT_OUT
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import PlanError, planned
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report.fabric_files import written
from tests.kit.fabric_files import artefacts
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.pod import ROOT, VARIABLE, cluster, keep, seen, told

EVERY = {
    "cn_guid.conf",
    "guid_routing_order.conf",
    "node-name-map",
    "opensm-gpu002.conf",
    "opensm.conf",
    "partitions.conf",
    "qos-policy.conf",
    "root_guid.conf",
}


def test_before_delivery_all_but_lists_of_guids_is_there_and_the_rest_is_told_of(tmp_path: Path):
    files = artefacts(cluster(tmp_path))
    assert set(files) == {
        "slurm/topology.conf", "opensm/fabric/partitions.conf", f"opensm/fabric/{LEFT_OUT}", "ibsim/fabric.net",
        "cabling.csv", "cables-bill.csv", "fabric.svg", "fabric.html",
    }  # fmt: skip
    told_of = files[f"opensm/fabric/{LEFT_OUT}"]
    check_messages("files: what is left out before delivery", [told_of])
    assert "    ALL=full,\n    SELF=full ;\n" in files["opensm/fabric/partitions.conf"]


def test_with_guids_on_record_and_managers_of_the_plan_nothing_is_left_out(tmp_path: Path):
    edits = (
        ("  rest: ctl1\n", "  rest: ctl1\n  subnet_managers: [gpu001, gpu002]\n"),
        ("- {name: mlx5_7, rail: 7}", "- {name: mlx5_7, rail: 7}\n      - {name: mlx5_8}"),
        ("kind: rail-optimised, ", ""),
        ("leaf: su1, ", 'leaf: "su[1-2]", '),
        ("uplinks: 32", "uplinks: 160, switch_ports: 640"),
        ("su1-r[0-7],spine", "su[1-2],spine"),
    )
    found = cluster(tmp_path, *edits)
    keep(found, comparison_report(found, told(seen(found))).guids)
    files = artefacts(found)
    assert {name.rpartition("/")[2] for name in files if name.startswith("opensm/")} == EVERY
    master, standby = files["opensm/fabric/opensm.conf"], files["opensm/fabric/opensm-gpu002.conf"]
    assert ("sm_priority 15" in master, "sm_priority 14" in standby) == (True, True)
    guids = guid_record.read(guid_record.path_of(found.path))
    assert f"guid 0x{guids['gpu001 mlx5_0']['port']}" in master
    listed = re.findall(r"^0x(\w+)", files["opensm/fabric/root_guid.conf"], re.MULTILINE)
    assert listed == [guids[f"spine0{n}"]["node"] for n in range(1, 5)]


def test_each_plane_has_its_own_files(tmp_path: Path):
    edits = (("kind: rail-optimised, ", "kind: rail-only, "), ('"spine[01-04]"', '"spine[01-08]"'))
    files = artefacts(cluster(tmp_path, *edits))
    assert [name for name in files if name.startswith("ibsim/")] == [f"ibsim/rail{n}.net" for n in range(8)]
    assert {name.split("/")[1] for name in files if name.startswith("opensm/")} == {f"rail{n}" for n in range(8)}
    assert "8 switches" not in files["ibsim/rail0.net"]


def test_ethernet_has_neither_opensm_nor_ibsim(tmp_path: Path):
    files = artefacts(cluster(tmp_path, ("kind: rail-optimised, ", "kind: rail-optimised, technology: ethernet, ")))
    assert not [name for name in files if name.startswith(("opensm/", "ibsim/"))]


@pytest.mark.parametrize(("version", "yaml"), [("24.11", False), ("25.05", True), ("26.05.5", True)])
def test_topology_yaml_is_there_where_slurm_reads_it(tmp_path: Path, version: str, yaml: bool):
    files = artefacts(cluster(tmp_path), version)
    assert ("slurm/topology.yaml" in files) is yaml
    assert "SwitchName=spine Switches=su1\n" in files["slurm/topology.conf"]


def test_mistakes_of_the_plan_are_told_at_once(tmp_path: Path):
    found = cluster(tmp_path, ("uplinks: 32", "uplinks: 8"))
    with pytest.raises(PlanError) as error:
        artefacts(found)
    assert re.match(r"[^:]*:\d+: fabric.uplinks: .* \[docs/fabric.md, P4\]\Z", str(error.value))
    check_messages("files: a plan that is oversubscribed", error.value, tmp_path)


def test_cables_without_a_length_are_told_of_once_with_what_to_state(tmp_path: Path):
    def told_of(*edits: tuple[str, str]) -> list[str]:
        files, findings = written(planned(cluster(tmp_path, *edits)))
        assert all(one.difference in files["fabric.html"] for one in findings)
        return [str(one) for one in findings]

    assert told_of() == []
    rackless, nowhere = (', switch_racks: {"su1-r[0-7],spine[01-04]": net1}', ""), ("row: B, column: 9", "row: B")
    check_messages("files: cables without a length, for want of racks of switches", told_of(rackless))
    check_messages("files: cables without a length, for want of a column", told_of(nowhere))


def test_the_page_has_every_kind_of_finding_every_file_and_every_playbook(tmp_path: Path):
    text = (ROOT / "docs/fabric.md").read_text()
    table = text[text.index("<!-- kinds: begin -->") : text.index("<!-- kinds: end -->")]
    assert re.findall(r"^\| `(.+?)` \| (.+) \|$", table, re.MULTILINE) == list(KINDS.items())
    names = {name.rpartition("/")[2] for name in artefacts(cluster(tmp_path), "25.05")} - {"fabric.net"}
    assert not [name for name in names | EVERY - {"opensm-gpu002.conf"} if name not in text]
    variables = {name for book in ROOT.glob("playbooks/fabric*.yml") for name in VARIABLE.findall(book.read_text())}
    assert not [name for name in variables if name not in text]
    playbooks = {book.name for book in ROOT.glob("playbooks/fabric*.yml")} - {"fabric_discover.yml"}
    assert not [name for name in playbooks if name not in text]
