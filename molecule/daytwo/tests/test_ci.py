# SPDX-License-Identifier: GPL-3.0-or-later
"""The CI example on real machines: plan, approve, apply by ansible-runner; another plan is refused, and no secret is in an artifact."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from lab import scenario_run
from lab.host import inspect
from lab.paths import ROOT, ssh_config_of, state_of
from lab.podman import Podman
from tests.kit import execution_environment
from tests.kit.reboots import SwitchOn

SCENARIO = "daytwo"
LAB = f"molecule-{SCENARIO}"
NOTE = "/run/bedplate/reboot-wanted/node_tuning"
NODE = "gpu02"
# Stand for secrets of the pipeline, in env/extravars and in the environment of its job.
CANARY, EXPORTED = "canary-4f1b0a77c2d94e55", "canary-9d2e61c0b7a84f13"
pytestmark = pytest.mark.full_in("daytwo")


@pytest.fixture(autouse=True)
def among_artifacts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports are beside the other artifacts, as in a pipeline, and not where the scenario has its own."""
    monkeypatch.delenv("BEDPLATE_REPORT", raising=False)
    monkeypatch.setenv("PIPELINE_TOKEN", EXPORTED)


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("roll_of_ci", ROOT / "examples/ci/roll.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private data directory: the scenario's cluster file and the variables of all scenarios."""
    folder = tmp_path_factory.mktemp("ci")
    inventory = folder / "inventory"
    shutil.copytree(ROOT / "molecule/inventory", inventory)
    shutil.copy(ROOT / f"molecule/{SCENARIO}/{SCENARIO}.bedplate.yml", inventory)
    shutil.copytree(ROOT / f"molecule/{SCENARIO}/group_vars", inventory / "group_vars", dirs_exist_ok=True)
    (folder / "project").symlink_to(ROOT)
    (folder / "env").mkdir()
    variables = {"bedplate_secrets_dir": str(state_of(LAB) / "secrets"), "pipeline_token": CANARY}
    (folder / "env/extravars").write_text(json.dumps(variables))
    (folder / "env/envvars").write_text(json.dumps({"ANSIBLE_SSH_COMMON_ARGS": f'-F "{ssh_config_of(LAB)}"'}))
    return folder


@pytest.fixture
def contained(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The private data directory of an execution environment; bedplate is in the image alone."""
    podman = Podman(inspect())
    folder = tmp_path / "site"
    for part in ("inventory", "env"):
        shutil.copytree(site / part, folder / part)
    (folder / "project").mkdir()
    (folder / "project/ansible.cfg").write_text(
        "[defaults]\ninject_facts_as_vars = false\n[inventory]\nenable_plugins = bedplate.cluster.racks, yaml\n"
    )
    (tmp_path / "build").mkdir()
    state = state_of(LAB)
    settings = {
        "process_isolation": True,
        "process_isolation_executable": "podman",
        "container_image": execution_environment.build(podman, tmp_path / "build"),
        # Without the first two of a machine's options, which are for an init.
        "container_options": ["--network=host", *podman.choice.run[2:]],
        "container_volume_mounts": [f"{state}:{state}:rw"],
    }
    (folder / "env/settings").write_text(json.dumps(settings))
    (tmp_path / "bin").mkdir()
    execution_environment.wrap(podman, tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return folder


@pytest.fixture
def pending() -> Iterator[None]:
    wanted = f"mkdir -p {NOTE.rpartition('/')[0]}; echo 'the running kernel lacks iommu=pt' > {NOTE}"
    scenario_run.ssh(SCENARIO, "root", NODE, wanted)
    with SwitchOn(SCENARIO):
        yield


def report(site: Path) -> dict[str, Any]:
    newest = max((site / "artifacts").glob("*/report.json"), key=lambda path: path.stat().st_mtime)
    found: dict[str, Any] = json.loads(newest.read_text())
    jsonschema.validate(found, json.loads((ROOT / "docs/schema/run-report.schema.json").read_text()))
    return found


def test_plan_approve_apply(example: ModuleType, site: Path, pending: None) -> None:
    assert example.main(["plan", str(site)]) == 0
    assert report(site)["check"]
    digest = hashlib.sha256((site / example.PLAN).read_bytes()).hexdigest()
    assert list(json.loads((site / example.PLAN).read_text())["pending"]) == [NODE]

    # Another plan than the approved one.
    assert example.main(["apply", str(site), "0" * 64]) == 2
    assert report(site)["nodes"][NODE]["outcome"] in ("ok", "failed")
    assert scenario_run.ssh(SCENARIO, "root", NODE, f"test -e {NOTE}").returncode == 0

    # An input that has changed since.
    variables = site / "inventory/group_vars/all/later.yml"
    variables.parent.mkdir(exist_ok=True)
    variables.write_text("node_tuning_sysctl: {vm.swappiness: 1}\n")
    assert example.main(["apply", str(site), digest]) == 2
    variables.unlink()

    assert example.main(["apply", str(site), digest]) == 0
    last = report(site)
    assert (last["outcome"], last["nodes"][NODE]["outcome"]) == ("done", "changed")
    assert scenario_run.ssh(SCENARIO, "root", NODE, f"test -e {NOTE}").returncode != 0
    # The same plan again: all of it is done.
    assert example.main(["apply", str(site), digest]) == 0
    assert report(site)["counts"]["changed"] == 0


def test_the_same_in_an_execution_environment(example: ModuleType, contained: Path, pending: None) -> None:
    assert example.main(["plan", str(contained)]) == 0
    digest = hashlib.sha256((contained / example.PLAN).read_bytes()).hexdigest()
    assert list(json.loads((contained / example.PLAN).read_text())["pending"]) == [NODE]
    assert example.main(["apply", str(contained), "0" * 64]) == 2
    assert example.main(["apply", str(contained), digest]) == 0
    last = report(contained)
    assert (last["outcome"], last["nodes"][NODE]["outcome"]) == ("done", "changed")
    assert scenario_run.ssh(SCENARIO, "root", NODE, f"test -e {NOTE}").returncode != 0
    has_no_secret(contained)


def test_no_artifact_has_a_secret(site: Path) -> None:
    has_no_secret(site)


def has_no_secret(site: Path) -> None:
    secrets = [path.read_bytes().strip() for path in (state_of(LAB) / "secrets").rglob("*") if path.is_file()]
    secrets = [*(one for one in secrets if len(one) >= 16), CANARY.encode(), EXPORTED.encode()]
    assert len(secrets) > 1
    files = [site / "roll-plan.json", *(path for path in (site / "artifacts").rglob("*") if path.is_file())]
    assert len(files) > 1
    for path in files:
        content = path.read_bytes()
        assert not [one for one in secrets if one in content], path


def test_events_are_of_what_changed_or_failed(site: Path) -> None:
    events = [json.loads(path.read_text()) for path in (site / "artifacts").glob("*/job_events/*.json")]
    kinds = {one["event"] for one in events}
    assert kinds <= {"runner_on_ok", "runner_on_failed", "runner_on_unreachable", "playbook_on_stats", "error"}
    assert all(one["event_data"]["res"].get("changed") for one in events if one["event"] == "runner_on_ok")
