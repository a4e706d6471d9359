"""A cluster file with a RoCE fabric: reports of what LLDP shows, of hosts alone as playbooks query it, and without a plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import LldpSettings, ToolOutput
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.comparison import (
    comparison_report,
    discovered_topology,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import planned
from tests.unit.fabric.lldp_answers import Answers
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.pod import POD, cluster
from tests.unit.fabric.roce.test_lldp_limits import ports
from tests.unit.fabric.roce.test_roce_names import BROKEN, WHOLE, System, answers

ROCE = ("kind: rail-optimised, ", "kind: rail-optimised, technology: ethernet, ")
NODES = [f"gpu{number:03}" for number in range(1, 33)]


def outputs(found: Answers, settings: LldpSettings | None = None) -> list[ToolOutput]:
    return [ToolOutput(box, json.dumps(answer), settings or LldpSettings()) for box, answer in found.items()]


def roce(tmp_path: Path, *edits: tuple[str, str]) -> tuple[Cluster, Plan]:
    found = cluster(tmp_path, ROCE, *edits)
    return found, planned(found).plan


@pytest.mark.parametrize("system", WHOLE.values(), ids=WHOLE)
def test_hosts_alone_show_their_cables_whatever_the_switches_are(tmp_path: Path, system: System):
    found, plan = roce(tmp_path)
    report = comparison_report(found, outputs(answers(plan, system, *NODES)))
    assert (report.counts, report.failed) == ({"ok": 256, "partial": 1}, False)


@pytest.mark.parametrize("system", BROKEN.values(), ids=BROKEN)
def test_cages_of_two_ports(tmp_path: Path, system: System):
    found, plan = roce(tmp_path, ("rails: 8, ", "rails: 8, cage_ports: 2, "))
    report = comparison_report(found, outputs(answers(plan, system, *NODES)))
    assert (report.counts, report.failed) == ({"ok": 256, "partial": 1}, False)


def test_settings_of_the_site_reach_the_comparison(tmp_path: Path):
    found, plan = roce(tmp_path)
    told = answers(plan, WHOLE["nxos without description"], *NODES)
    ports(told, "gpu001")[0]["mfs"] = "4222"
    assert comparison_report(found, outputs(told)).counts["mtu"] == 1
    assert "mtu" not in comparison_report(found, outputs(told, LldpSettings("nxos", 4200))).counts


def test_answers_of_other_devices_alone_compare_nothing_and_fail(tmp_path: Path):
    found, plan = roce(tmp_path)
    (answer,) = answers(plan, next(iter(WHOLE.values())), "gpu001").values()
    report = comparison_report(found, outputs({"lldp": answer}))
    assert (report.counts["ok"], report.failed) == (0, True)
    check_messages(
        "comparison: no answer is of the plan", [one for one in report.table.split("\n") if "partial" in one]
    )


def test_topology_of_slurm_without_a_plan(tmp_path: Path):
    _found, plan = roce(tmp_path)
    path = tmp_path / "bare.bedplate.yml"
    path.write_text(POD[: POD.index("fabric: {")])
    topology = discovered_topology(load(path), outputs(answers(plan, WHOLE["sonic alias"], *plan.switches)))
    assert topology.partial == ""
    assert "Nodes=gpu[001-032]" in topology.files["slurm/topology.conf"]
