"""The action fabric_simulation: what of a cluster file it proves, and what it returns."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleError

from ansible_collections.bedplate.cluster.plugins.action import fabric_simulation
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate import requested_proofs, routing_proof
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.requested_proofs import (
    ProofReport,
    RequestedProof,
    SlurmProof,
)
from tests.unit.fabric.opensm.test_managers import FILE, cluster
from tests.unit.fabric.simulate.gate import real, root_dropped, slurm

ROOT = Path(__file__).parents[3]


def act(check: bool = False, **arguments: Any) -> dict[str, Any]:
    """Return the result of a task."""
    task = SimpleNamespace(
        action="bedplate.cluster.fabric_simulation", args=arguments, check_mode=check, async_val=0, diff=False,
        environment=[], collections=[], no_log=False, name="x",
    )  # fmt: skip
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
    action = fabric_simulation.ActionModule(task, connection, SimpleNamespace(check_mode=check), None, None, None)
    found: dict[str, Any] = action.run(task_vars={})
    return found


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[RequestedProof, float]]:
    """Have nothing simulated; what is asked for is kept."""
    asked: list[tuple[RequestedProof, float]] = []

    def run(request: RequestedProof, seconds: float) -> ProofReport:
        asked.append((request, seconds))
        return ProofReport(lines=["proved"])

    monkeypatch.setattr(requested_proofs, "run", run)
    return asked


def test_without_choices_it_proves_the_files_of_the_plan(ran: list[tuple[RequestedProof, float]], tmp_path: Path):
    found = cluster(tmp_path, learned=False)
    assert act(cluster_file=found.path, slurm_version="24.11") == {
        "changed": False, "findings": [], "planes": [], "msg": "proved", "proved": '{\n  "planes": []\n}\n',
    }  # fmt: skip
    ((request, seconds),) = ran
    assert request == requested_proofs.of_plan(found, "24.11")
    assert (list(request.files), request.tree is not None, seconds) == (["rail0", "rail1"], True, 302)


def test_before_guids_are_on_record_the_files_have_the_choices_of_the_role(
    ran: list[tuple[RequestedProof, float]], tmp_path: Path
):
    found = cluster(tmp_path, learned=False)
    act(cluster_file=found.path, recorded=False, opensm={"routing_engines": ["nue"], "options": {"scatter_ports": 3}})
    ((request, _seconds),) = ran
    assert request.tree is not None
    for files in request.files.values():
        assert "routing_engine nue\n" in files["opensm.conf"]
        assert "scatter_ports 3\n" in files["opensm.conf"]


def test_with_choices_it_proves_what_the_role_deploys(ran: list[tuple[RequestedProof, float]], tmp_path: Path):
    found = cluster(tmp_path)
    act(cluster_file=found.path, opensm={"no_fallback": "yes", "options": {"max_wire_smps": 8}}, timeout="7")
    ((request, seconds),) = ran
    assert (request.tree, seconds) == (None, 7)
    for files in request.files.values():
        assert "routing_engine ftree,updn,no_fallback\n" in files["opensm.conf"]
        assert "max_wire_smps 8\n" in files["opensm.conf"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"opensm": {"engine": "x"}}, "engine"),
        ({"opensm": {}}, "needs port GUIDs"),
        ({"slurm_version": "new"}, "'new' is not a version of Slurm"),
        ({"cluster_file": "/none.bedplate.yml"}, "cannot be read"),
        ({"planes": []}, "planes"),
    ],
)
def test_what_cannot_be_proved_is_said(
    ran: list[tuple[RequestedProof, float]], tmp_path: Path, arguments: dict[str, Any], message: str
):
    with pytest.raises(AnsibleError, match=message):
        act(**{"cluster_file": cluster(tmp_path, learned=False).path, **arguments})
    assert ran == []


def test_a_failure_has_all_findings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    findings = [Finding("routes", "plane rail0", "", "a loop"), Finding("slurm", "topology.conf", "", "no such node")]
    monkeypatch.setattr(requested_proofs, "run", lambda *_given: ProofReport(findings, [{"plane": "rail0"}], ["x"]))
    found = act(cluster_file=cluster(tmp_path).path)
    assert (found["failed"], found["changed"], found["planes"]) == (True, False, [{"plane": "rail0"}])
    assert [(one["kind"], one["where"]) for one in found["findings"]] == [(one.kind, one.where) for one in findings]
    assert found["msg"].splitlines() == ["2 findings:", *map(str, findings)]


def test_findings_of_tree_and_blocks_are_in_the_report(monkeypatch: pytest.MonkeyPatch):
    tree, blocks = (Finding("slurm", where, "", "refused") for where in ("tree", "blocks"))
    monkeypatch.setattr(requested_proofs, "prove_topology", lambda *_given: [tree])
    monkeypatch.setattr(requested_proofs, "prove_blocks", lambda *_given: ([blocks], ""))
    part = SlurmProof("", {}, {})
    assert requested_proofs.run(RequestedProof(Plan("x", "x"), {}, part, part), 1).findings == [tree, blocks]


@real
@slurm
def test_it_proves_in_check_mode_too_and_fails_with_all_findings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    found = cluster(tmp_path, FILE.replace('rail-only, rails: 2, spines: "s[1-4]"', 'rail-optimised, spines: "s[1-2]"'))
    good = act(check=True, cluster_file=found.path)
    assert good["changed"] is False
    assert good["msg"].startswith("proved: ftree routes 8 HCAs over 6 switches"), good["msg"]
    assert good["msg"].endswith("; slurmctld takes the topology")
    assert [{key: one for key, one in plane.items() if key != "cables"} for plane in good["planes"]] == [
        {
            "plane": "", "engine": "ftree", "hcas": 8, "switches": 6, "imbalance": 1.0, "unreachable": 0, "idle": 0,
            "busiest": 6, "least": 6,
        }
    ]  # fmt: skip
    assert act(cluster_file=found.path, opensm={})["planes"] == good["planes"]
    right = requested_proofs.of_plan

    def wrong(*given: Any) -> RequestedProof:
        request = right(*given)
        root_dropped(request.files[""])
        object.__setattr__(request.tree, "topology", request.tree.topology + "SwitchName=a Switches=zz\n")
        return request

    monkeypatch.setattr(requested_proofs, "of_plan", wrong)
    bad = act(cluster_file=found.path)
    assert bad["failed"]
    assert "directed links carry nothing" in bad["msg"]
    assert "invalid child (zz)" in bad["msg"]
    assert {one["kind"] for one in bad["findings"]} == {routing_proof.ROUTES, "slurm"}
