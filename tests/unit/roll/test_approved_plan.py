# SPDX-License-Identifier: GPL-3.0-or-later
"""An approved plan is applied, also what is left of it, and no other plan is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import approved_plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.approved_plan import ApprovalError, SavedPlan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.pending_parts import PendingNode

NODE = PendingNode({"CUDA": "install a"}, {"CUDA": "x"}, items={"CUDA": ("install a", "install b")})
NAMED = "own/check.sh"
CONTENT = ["scripts/prolog.sh", "files/motd", "templates/slurm/gres.conf.j2", "keys/nvidia.asc", NAMED]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "group_vars/all").mkdir(parents=True)
    (tmp_path / "group_vars/all/os.yml").write_text("a: 1\n")
    for name in CONTENT:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("a\n")
    (tmp_path / "gpu.gpu-lock.json").write_text("{}\n")
    (tmp_path / "gpu.bedplate.yml").write_text(f"site: {'x' * 300}\nslurm: {{scripts: {{prolog: [{NAMED}]}}}}\n")
    return tmp_path


def plan(site: Path, variables: dict[str, object] | None = None, **nodes: PendingNode) -> SavedPlan:
    inputs = approved_plan.inputs_of(site / "gpu.bedplate.yml", variables or {})
    return approved_plan.plan_of(inputs, nodes or {"n1": NODE, "n2": NODE})


def refused(site: Path, now: SavedPlan, digest: str = "") -> str:
    with pytest.raises(ApprovalError) as error:
        approved_plan.require(site / "plan.json", digest or saved(site), now)
    return str(error.value)


def saved(site: Path) -> str:
    found = plan(site)
    approved_plan.write(site / "plan.json", found)
    return found.digest


def test_the_approved_plan_is_applied_and_so_is_the_rest_of_it(site: Path):
    digest = saved(site)
    approved_plan.require(site / "plan.json", digest, plan(site))
    rest = PendingNode({"CUDA": "install b"}, {}, items={"CUDA": ("install b",)})
    approved_plan.require(site / "plan.json", digest, plan(site, n2=rest))
    note = PendingNode({}, {"CUDA": "the driver is not loaded"})
    approved_plan.require(site / "plan.json", digest, plan(site, n1=note))
    approved_plan.require(site / "plan.json", digest, plan(site, n1=PendingNode()))
    approved_plan.require(site / "plan.json", digest, plan(site, {"roll_deadline": 60, "roll_plan_digest": digest}))


def test_what_goes_beyond_it_is_refused(site: Path):
    more = PendingNode({"CUDA": "install c"}, {}, items={"CUDA": ("install b", "install c")})
    assert "n1: CUDA: install c: not in the plan" in refused(site, plan(site, n1=more))
    assert "n3: CUDA: install a, install b, reboot: not in the plan" in refused(site, plan(site, n3=NODE))
    reboot = PendingNode({}, {"GPU driver": "x"})
    assert "n1: GPU driver: reboot: not in the plan" in refused(site, plan(site, n1=reboot))
    unnamed = PendingNode({"CUDA": "change"}, items={"CUDA": ()})
    assert "n3: CUDA: change: not in the plan" in refused(site, plan(site, n3=unnamed))


def test_units_follow_from_an_approved_part_alone(site: Path):
    digest = saved(site)
    unit = "unit or hold: a.service: started"
    later = PendingNode({"CUDA": "change"}, items={"CUDA": (unit,)})
    approved_plan.require(site / "plan.json", digest, plan(site, n1=later))
    assert f"n3: CUDA: {unit}: not in the plan" in refused(site, plan(site, n3=later), digest)
    other = PendingNode({"Slurm": "change"}, items={"Slurm": (unit,)})
    assert f"n1: Slurm: {unit}: not in the plan" in refused(site, plan(site, n1=other), digest)


@pytest.mark.parametrize("name", ["gpu.bedplate.yml", "gpu.gpu-lock.json", "group_vars/all/os.yml", *CONTENT])
def test_a_changed_input_is_refused(site: Path, name: str):
    digest = saved(site)
    (site / name).write_text("another: 1\n")
    assert f"{name}: changed since the plan" in refused(site, plan(site), digest)


def test_a_file_elsewhere_that_the_cluster_file_names_is_an_input(site: Path, tmp_path_factory: pytest.TempPathFactory):
    elsewhere = tmp_path_factory.mktemp("keys") / "vendor.asc"
    elsewhere.write_text("a\n")
    (site / "gpu.bedplate.yml").write_text(f"key: {elsewhere}\n")
    digest = saved(site)
    elsewhere.write_text("b\n")
    assert f"{elsewhere}: changed since the plan" in refused(site, plan(site), digest)


@pytest.mark.parametrize("name", ["percent", "failures", "packages", "reserved", "when"])
def test_another_limit_of_the_roll_is_refused(site: Path, name: str):
    digest = saved(site)
    text = refused(site, plan(site, {f"roll_{name}": "x"}), digest)
    assert "variables of the command line: changed since the plan" in text


def test_another_release_of_bedplate_is_refused(site: Path, monkeypatch: pytest.MonkeyPatch):
    digest = saved(site)
    monkeypatch.setattr(approved_plan, "RELEASE", "9.9.9")
    assert "release of bedplate: changed since the plan" in refused(site, plan(site), digest)


def test_a_new_or_missing_input_is_refused(site: Path):
    digest = saved(site)
    (site / "host_vars").mkdir()
    (site / "host_vars/n1.yml").write_text("b: 2\n")
    (site / "gpu.gpu-lock.json").unlink()
    text = refused(site, plan(site, {"cuda_version": "13.0"}), digest)
    assert "host_vars/n1.yml: new since the plan" in text
    assert "gpu.gpu-lock.json: gone since the plan" in text
    assert "variables of the command line: changed since the plan" in text


def test_another_file_than_the_approved_one_is_refused(site: Path):
    digest = saved(site)
    (site / "plan.json").write_text((site / "plan.json").read_text().replace("n2", "n9"))
    assert f"roll_plan_digest: {digest}" in refused(site, plan(site), digest)
    assert "roll_plan_digest: empty" in refused_without_digest(site)
    (site / "plan.json").unlink()
    with pytest.raises(ApprovalError, match="No such file"):
        approved_plan.require(site / "plan.json", digest, plan(site))


def refused_without_digest(site: Path) -> str:
    with pytest.raises(ApprovalError) as error:
        approved_plan.require(site / "plan.json", "", plan(site))
    return str(error.value)


def test_a_plan_has_no_value_of_a_variable(site: Path):
    assert "s3cret" not in plan(site, {"password": "s3cret"}).text
