# SPDX-License-Identifier: GPL-3.0-or-later
"""The next ordinary run of a machine that a turn left out removes what the turn has staged there; other machines are left alone."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleLookupError
from ansible.parsing.dataloader import DataLoader

from ansible_collections.bedplate.cluster.plugins.lookup.turn_left_out import LookupModule
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_choices import role_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretStore
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.slurm_part import SlurmHost, decide
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys.turn_record import (
    FINISHED,
    STAGING,
    TurnFile,
    TurnRecord,
)
from lab.paths import ROOT


def looked_up(**variables: Any) -> list[str]:
    lookup = LookupModule(loader=DataLoader(), templar=SimpleNamespace(template=lambda value: value))
    (found,) = lookup.run([], variables)
    return list(found)


def test_machines_of_the_last_turn(tmp_path: Path):
    directory = tmp_path / "secrets"
    SecretStore(directory).get("munge_key")
    assert looked_up(bedplate_secrets_dir=str(directory)) == []
    record = TurnRecord("3f2a9c1b", ("munge_key",), without={"n7": "no answer by SSH"})
    TurnFile(directory).write(record.at(STAGING))
    assert looked_up(bedplate_secrets_dir=str(directory)) == []
    TurnFile(directory).write(record.at(FINISHED))
    assert looked_up(bedplate_secrets_dir=str(directory)) == ["n7"]


def test_without_a_directory_no_machine_was_left_out(tmp_path: Path):
    assert looked_up() == []
    assert looked_up(bedplate_secrets_dir=str(tmp_path / "none")) == []


def test_a_damaged_record_is_an_error(tmp_path: Path):
    directory = tmp_path / "secrets"
    SecretStore(directory).get("munge_key")
    (directory / "turn_keys.json").write_text("{}")
    with pytest.raises(AnsibleLookupError, match="not a record of a turn"):
        looked_up(bedplate_secrets_dir=str(directory))


@pytest.mark.parametrize("entry", ["compute", "login", "rest"])
def test_each_machine_that_a_turn_may_leave_out_has_the_step_in_its_next_run(entry: str):
    (task,) = yaml.safe_load((ROOT / f"roles/slurm/tasks/{entry}.yml").read_text())
    part = task["bedplate.cluster.part"]
    assert part["after"] == ["turned"]
    assert "inventory_hostname in lookup('bedplate.cluster.turn_left_out')" in part["reported"]["left_out"]


def test_the_step_removes_what_the_playbook_stages():
    cluster = load(str(ROOT / "tests/roles/clusters/slurm/slurm.bedplate.yml"))
    choices = role_choices("slurm", {}, lambda value: value)
    left_out = decide(SlurmHost(cluster, "gpu1", choices, left_out=True))
    assert not decide(SlurmHost(cluster, "gpu1", choices)).steps
    deploy, units, *files = left_out.steps["turned"]
    assert (deploy.arguments["manifest"], deploy.arguments["state"]) == ("munge_pair", "absent")
    assert [unit["state"] for unit in deploy.arguments["units"]] == ["stopped", "stopped"]
    assert units.arguments["units"] == [{"name": "munge.service", "state": "started"}]
    text = "".join(path.read_text() for path in (ROOT / "playbooks/phases").glob("turn_keys_*.yml"))
    assert {step.arguments["manifest"] for step in files} == set(re.findall(r"manifest: (turn_\w+)", text))
    assert all(step.arguments["files"] == [] for step in files)
