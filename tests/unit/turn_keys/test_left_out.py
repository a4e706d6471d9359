# SPDX-License-Identifier: GPL-3.0-or-later
"""The next ordinary run of a machine that a turn left out removes what the turn has staged there; other machines are left alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleLookupError
from ansible.parsing.dataloader import DataLoader

from ansible_collections.bedplate.cluster.plugins.lookup.turn_left_out import LookupModule
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretStore
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


def test_the_role_removes_what_a_turn_has_staged_after_all_parts():
    (task,) = yaml.safe_load((ROOT / "roles/slurm/tasks/main.yml").read_text())
    assert "slurm_parts(inventory_hostname) + " in " ".join(task["loop"].split())
    assert "['turned'] if inventory_hostname in lookup('bedplate.cluster.turn_left_out')" in task["loop"]
    removed = [
        part
        for one in yaml.safe_load((ROOT / "roles/slurm/tasks/turned.yml").read_text())
        for part in [one.get("bedplate.cluster.files"), one.get("bedplate.cluster.part")]
        if part
    ]
    assert removed == [
        {"name": "munge_pair", "reported": {"munge_pair": False}},
        *({"manifest": f"turn_{name}", "files": []} for name in ("munge_key", "munge_encodes", "jwt_key")),
    ]
