"""A fabric with several rates is adopted with them: its comparison finds nothing until a cable gets slower."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import ToolOutput
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.adopt.adoption import Adoption, adoption, audited
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.lldp_discovery import discovery_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.link_rates import rate_of, total_gbits
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import planned
from tests.unit.fabric.compare.faulty import World
from tests.unit.fabric.lldp_answers import Answers, answers
from tests.unit.fabric.plan.test_planned_rates import CORES, OLD, OLD_SERVER, SITE, SPLIT, link_of, plan_of, site, world


def outputs(one: World) -> list[ToolOutput]:
    return [ToolOutput(plane or "fabric", one.text(plane)) for plane in one.plan.planes]


def bare(tmp_path: Path, *edits: tuple[str, str]) -> Cluster:
    """Return the cluster file without a fabric; the places of NICs are not stated."""
    path = tmp_path / "there.bedplate.yml"
    text = SITE[: SITE.index("fabric: {")]
    for old, new in edits:
        text = text.replace(old, new)
    path.write_text(text)
    return load(path)


def pasted(tmp_path: Path, found: Adoption) -> Plan:
    assert found.refused == ""
    for path, text in found.files.items():
        Path(path).write_text(text)
    path = tmp_path / "there.bedplate.yml"
    path.write_text(f"{path.read_text()}{found.snippet}\n")
    return planned(load(path)).plan


def rows(tmp_path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((tmp_path / "cables.csv").read_text().splitlines()))


def test_a_fabric_with_one_rate_has_a_list_without_rates(tmp_path: Path):
    one = world(plan_of(tmp_path))
    pasted(tmp_path, adoption(bare(tmp_path), outputs(one)))
    assert list(rows(tmp_path)[0]) == ["a", "a_port", "b", "b_port", "comment"]


@pytest.mark.parametrize("edits", [(SPLIT, OLD, OLD_SERVER), (CORES,)], ids=["NICs", "tiers"])
def test_the_list_states_rates_that_differ(tmp_path: Path, edits: tuple[tuple[str, str], ...]):
    one = world(plan_of(tmp_path, *edits))
    there = {link.ends: rate_of(one.plan, link) for link in one.plan.links}
    again = pasted(tmp_path, adoption(bare(tmp_path), outputs(one)))
    assert {link.ends: rate_of(again, link) for link in again.links} == {
        ends: rate if "oss1 mlx5_0" not in ends[0] else there[ends] for ends, rate in there.items()
    }
    found = comparison(again, one.discoveries())
    assert found.findings == []
    assert len(found.ok) == len(there)
    link = link_of(again, "gpu05 mlx5_0")
    one.join(*link.ends, "1x", "SDR")
    (finding,) = comparison(again, one.discoveries()).findings
    assert (finding.kind, finding.expected, finding.ports) == ("slow", "".join(there[link.ends]), link.ends)


def test_a_slow_cable_is_not_adopted_as_meant(tmp_path: Path):
    one = world(plan_of(tmp_path, SPLIT))
    link = link_of(one.plan, "gpu05 mlx5_0")
    one.join(*link.ends, "1x", "NDR")
    found = adoption(bare(tmp_path), outputs(one))
    assert "mixed-speed" in found.table
    again = pasted(tmp_path, found)
    (finding,) = comparison(again, one.discoveries()).findings
    assert (finding.kind, finding.expected, finding.ports) == ("slow", "2xNDR", link.ends)


def test_a_lower_rate_of_all_cards_without_a_name_is_one_finding_that_names_their_rows(tmp_path: Path):
    one = world(plan_of(tmp_path))
    cards = [name for name in one.plan.hcas if name.endswith("mlx5_1")]
    one.rename.update(dict.fromkeys(cards, "localhost HCA-1"))
    again = pasted(tmp_path, adoption(bare(tmp_path), outputs(one)))
    for name in cards:
        one.join(*link_of(one.plan, name).ends, "4x", "EDR")
    (finding,) = [found for found in comparison(again, one.discoveries()).findings if found.kind == "slow"]
    assert (finding.where, finding.expected, finding.ports) == ("there", "4xNDR", ())
    assert finding.found == "4xEDR on all 16 links of cards without a name"
    assert "state `speed` in their rows" in finding.remedy


def test_a_rate_that_the_nic_states_is_not_in_the_list(tmp_path: Path):
    one = world(plan_of(tmp_path, SPLIT, OLD))
    pasted(tmp_path, adoption(bare(tmp_path, SPLIT), outputs(one)))
    listed = {row["a"]: (row["speed"], row["width"]) for row in rows(tmp_path)}
    assert listed["gpu01 mlx5_0"] == ("", "")
    assert listed["gpu01 mlx5_1"] == ("EDR", "4x")


def ethernet(tmp_path: Path) -> Plan:
    technology = ("speed: NDR", "speed: NDR, technology: ethernet")
    return planned(site(tmp_path, technology, OLD, ("mlx5_0, rail: 0", "mlx5_0, rail: 0, speed: NDR200"))).plan


def speeds(plan: Plan) -> Answers:
    """Return LLDP's answers of hosts, with the planned speed of each link."""
    found = answers(plan)
    for link in plan.links:
        host, _blank, device = link.a.partition(" ")
        if device:
            runs_at(found, host, device, total_gbits(rate_of(plan, link)))
    return {box: answer for box, answer in found.items() if box not in plan.switches}


def runs_at(found: Answers, host: str, device: str, gbits: float) -> None:
    for one in found[host]["lldp"]["interface"]:
        for name, seen in one.items():
            if name == device:
                port: dict[str, Any] = seen["port"]
                current = f"{gbits:g}GbaseDR4 - {gbits:g}GBASE-R PCS/PMA over 4-lane single-mode fiber PMD"
                port["auto-negotiation"] = {"supported": True, "enabled": True, "current": current}


def test_ethernet_compares_all_gigabits_of_a_link(tmp_path: Path):
    plan = ethernet(tmp_path)
    answers = speeds(plan)
    found = comparison(plan, {"": discovery_of(answers, plan)})
    assert [one for one in found.findings if one.kind == "slow"] == []
    runs_at(answers, "gpu02", "mlx5_0", 100)
    runs_at(answers, "gpu03", "mlx5_1", 50)
    runs_at(answers, "gpu04", "mlx5_1", 200)
    found = comparison(plan, {"": discovery_of(answers, plan)})
    slow = {one.ports[0]: one.expected for one in found.findings if one.kind == "slow"}
    assert slow == {("gpu02 mlx5_0", 1): "200G", ("gpu03 mlx5_1", 1): "100G"}


def test_ethernet_is_adopted_and_audited_with_several_speeds(tmp_path: Path):
    plan = ethernet(tmp_path)
    answers = speeds(plan)
    runs_at(answers, "gpu02", "mlx5_0", 25)
    texts = [ToolOutput(name, json.dumps(answer)) for name, answer in answers.items()]
    assert "25G on the cable" in audited(bare(tmp_path), texts).table
    found = adoption(bare(tmp_path), texts)
    assert "\n  speed: EDR\n" in found.snippet
    (text,) = found.files.values()
    listed = {row["a"]: (row["speed"], row["width"]) for row in csv.DictReader(text.splitlines())}
    assert {listed[f"gpu{number:02} mlx5_1"] for number in range(1, 17)} == {("", "")}
    # Of a sort with a rule, a single slower cable is a fault: 200G are 4x HDR or 2x NDR.
    assert {listed[f"gpu{number:02} mlx5_0"] for number in range(1, 17)} == {("HDR", "4x")}
