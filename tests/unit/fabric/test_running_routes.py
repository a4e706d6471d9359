"""Routes in force, read by ibnetdiscover and dump_fts on ibsim, against what was proved of the same plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import (
    TABLES,
    SavedError,
    ToolOutput,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.running_routes import (
    RunningRoutes,
    proved_of,
    running_routes,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import (
    discovery_of,
    ibnetdiscover_text,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.opensm_dumps import DumpError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.proved_cables import cables_digest
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.simulated_fabric import (
    local_conf,
    simulated,
)
from tests.unit.fabric.cases import CASES
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.simulate.gate import SMALL, Files, made, real, root_dropped, without

PROVED = {"": {"plane": "", "engine": "ftree", "imbalance": 1.0, "busiest": 12}}


def read(plan: Plan, files: Files, scratch: Path) -> list[ToolOutput]:
    """Return what ibnetdiscover and dump_fts say of a fabric that OpenSM has routed with some files."""
    for name, text in files.items():
        (scratch / name).write_text(local_conf(text, files, str(scratch)) if name == "opensm.conf" else text)
    with simulated(plan, scratch, "", plan.managers[0].hca) as fabric:
        fabric.opensm()
        return [ToolOutput("rail0", fabric.run("ibnetdiscover")), ToolOutput("rail0", fabric.run("dump_fts", "-n"))]


def judged(plan: Plan, outputs: list[ToolOutput], proved: Mapping[str, Mapping[str, Any]]) -> RunningRoutes:
    assert [one.kind for one in outputs] == ["infiniband", TABLES]
    return running_routes(plan, outputs, proved)


@real
@pytest.mark.parametrize("sharp", [False, True], ids=["plain", "sharp"])
def test_routes_in_force_are_measured_as_those_that_were_proved(sharp: bool, tmp_path: Path):
    plan = replace(SMALL, sharp=sharp)
    outputs = read(plan, made(plan), tmp_path)
    for proved in (PROVED, {}):
        found = judged(plan, outputs, proved)
        assert found.findings == []
        assert found.lines[0].startswith("fabric: 16 HCAs, busiest link 1.00 times the mean")


@real
def test_routes_that_are_worse_than_proved_are_an_error_and_say_where(tmp_path: Path):
    files = made(SMALL)
    root_dropped(files)
    outputs = read(SMALL, files, tmp_path)
    (wrong,) = judged(SMALL, outputs, PROVED).findings
    assert (wrong.kind, wrong.severity) == ("routes", "error")
    assert wrong.expected == "1.00 times the mean, as proved with ftree"
    assert wrong.found.startswith("the busiest link has 2.00 times the mean load: leaf-u0-r1 port 61 to s1 ")
    # Without a proof it is known all the same that a link has more than any routes need.
    (unproved,) = judged(SMALL, outputs, {}).findings
    assert unproved.severity == "warning"
    assert "fabric_check.yml" in unproved.remedy


@real
def test_while_nodes_are_off_a_worse_load_is_a_warning(tmp_path: Path):
    off = [link for link in SMALL.links if link.a == "gpu5 mlx5_1"]
    there = without(SMALL, off)
    files = made(there)
    root_dropped(files)
    (wrong,) = judged(SMALL, read(there, files, tmp_path), PROVED).findings
    assert wrong.severity == "warning"


@real
def test_pairs_without_a_way_are_an_error(tmp_path: Path):
    files = made(SMALL, "updn")
    leaves = [one for one in SMALL.switches.values() if one.tier == 1]
    files["root_guid.conf"] = "".join(f"0x{one.guid}\n" for one in leaves)
    found = judged(SMALL, read(SMALL, files, tmp_path), PROVED).findings
    assert any("cannot reach each other" in one.found for one in found)
    assert {one.severity for one in found} == {"error"}


def test_outputs_that_do_not_belong_together_are_refused():
    tables = ToolOutput("rail1", "Unicast lids [0x0-0x1] of switch Lid 1 guid 0x0000000000000001 (x):\n")
    with pytest.raises(SavedError) as refused:
        running_routes(SMALL, [tables], {})
    check_messages("routes in force: no output of ibnetdiscover", [str(refused.value)])


def circling(plan: Plan) -> list[ToolOutput]:
    """Return what both tools print of a ring whose switches all send the same way round."""
    seen = discovery_of(plan)
    lids = {node.description: node.lid for node in seen.nodes.values()}
    at = {link.a: (link.b, link.b_port) for link in plan.links if link.a in plan.hcas}
    way = {link.a: link.a_port for link in plan.links if link.a in plan.switches}
    lines = []
    for node in seen.switches:
        lines.append(f"Unicast lids [0x0-0xf] of switch Lid {node.lid} guid 0x{node.guid} ({node.description}):")
        for name, (leaf, port) in at.items():
            lines.append(f"0x{lids[name]:04X} {port if leaf == node.description else way[node.description]:03} : (x)")
    return [ToolOutput("now", ibnetdiscover_text(seen)), ToolOutput("now", "\n".join(lines))]


def test_a_circle_of_links_is_an_error_unless_the_proved_engine_has_lanes():
    plan = CASES["ring5"].plan()
    for engine, circles in (("updn", ["error"]), ("lash", [])):
        proved = {"": {"plane": "", "engine": engine, "imbalance": 2.0}}
        found = judged(plan, circling(plan), proved).findings
        assert [one.severity for one in found if "in a circle" in one.found] == circles
        assert len(found) == len(circles)


def test_a_proof_of_other_cables_is_no_limit_and_is_reported():
    plan = CASES["ring5"].plan()
    proved = {"": {"plane": "", "engine": "lash", "imbalance": 9.0, "cables": cables_digest(plan, "")}}
    assert running_routes(plan, circling(plan), proved).findings == []
    left_out = replace(plan, links=[replace(plan.links[-1], missing=True), *plan.links[:-1]])
    found = running_routes(left_out, circling(plan), proved).findings
    assert (found[0].severity, found[0].found) == ("warning", "proved.json is of other cables than the plan has now")
    assert "fabric_check.yml" in found[0].remedy
    # Nine times the mean is not what it is judged by any more.
    assert [one.found.rpartition("; ")[2] for one in found[1:]] in ([], ["nothing is proved of this plane"])


def test_routes_of_another_fabric_or_without_tables_are_refused():
    both = circling(CASES["ring5"].plan())
    with pytest.raises(SavedError, match="no switch of the plan was discovered"):
        running_routes(SMALL, both, {})
    for outputs in (both[:1], [both[0], replace(both[1], name="other")]):
        with pytest.raises(SavedError, match=r"found: ibnetdiscover now, dump_fts (none|other)"):
            running_routes(CASES["ring5"].plan(), outputs, {})


def test_what_was_proved_is_read_from_its_file(tmp_path: Path):
    path = tmp_path / "proved.json"
    assert proved_of(path) == {}
    path.write_text(json.dumps({"planes": [{"plane": "rail0", "engine": "ftree", "imbalance": 1.5}]}))
    assert proved_of(path) == {"rail0": {"plane": "rail0", "engine": "ftree", "imbalance": 1.5}}
    nothing_measured = '{"planes": [{"plane": "", "engine": "ftree"}]}'
    for wrong in (
        "{",
        "[]",
        '{"planes": [{}]}',
        nothing_measured,
        nothing_measured.replace('e"}', 'e", "imbalance": "x"}'),
    ):
        path.write_text(wrong)
        with pytest.raises(ValueError, match="fabric_check"):
            proved_of(path)


@real
def test_tables_of_another_run_are_refused(tmp_path: Path):
    discovered, tables = read(SMALL, made(SMALL), tmp_path)
    other = ToolOutput("rail0", tables.text.replace(SMALL.switches["s1"].guid, "0000000000000bad"))
    with pytest.raises(DumpError, match="they are of two runs"):
        running_routes(SMALL, [discovered, other], {})
