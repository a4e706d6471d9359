# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes in the variables of a backup and a restore are found before any host is touched, all at once."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup import backup_variables, run_choices
from tests.kit.backups import Keys


def test_a_backup_needs_a_public_key(keys: Keys, tmp_path: Path):
    assert backup_variables.backup_mistakes({}, str(keys.public), ["ctl1"]) == []
    assert "backup_recipient is not set" in backup_variables.backup_mistakes({}, "", ["ctl1"])[0]
    assert "OpenPGP private key" in backup_variables.backup_mistakes({}, str(keys.private), ["ctl1"])[0]
    assert "No such file" in backup_variables.backup_mistakes({}, str(tmp_path / "none"), ["ctl1"])[0]
    found = backup_variables.backup_mistakes({"backup_too": "/x", "backup_seconds": -1}, "", [])
    assert [one.split()[0].rstrip(":") for one in found] == ["backup_seconds", "backup_too", "the", "backup_recipient"]


def test_a_restore_needs_its_files(keys: Keys, tmp_path: Path):
    file = tmp_path / "x.backup"
    file.write_bytes(b"x")
    given = {"restore_from": str(file), "restore_key": str(keys.private)}
    assert backup_variables.restore_mistakes(given, ["ctl1"]) == []
    key = tmp_path / "key"
    key.write_bytes(keys.private.read_bytes())
    key.chmod(0o640)
    (mistake,) = backup_variables.restore_mistakes({**given, "restore_key": str(key)}, ["ctl1"])
    assert mistake == f"restore_key: {key} is open to others (mode 0640); allowed: 0600"
    found = backup_variables.restore_mistakes({}, ["ctl1"])
    assert [one.partition(" ")[0] for one in found] == ["restore_from", "restore_key"]
    passphrase = tmp_path / "passphrase"
    passphrase.write_text("x")
    passphrase.chmod(0o644)
    found = backup_variables.restore_mistakes({**given, "restore_passphrase_file": str(passphrase)}, ["ctl1"])
    assert "open to others (mode 0644)" in found[0]
    found = backup_variables.restore_mistakes({**given, "restore_loses_jobs": True}, ["ctl1"])
    assert found == ["restore_loses_jobs: True; allowed: accept"]


def test_values_of_a_run(keys: Keys, tmp_path: Path):
    file = tmp_path / "lab.bedplate.yml"
    variables = {
        "bedplate_cluster_file": str(file),
        "slurm_backup": {"recipient": "keys/b.asc"},
        "backup_seconds": "60",
    }
    found = run_choices.backup_choices(variables, lambda value: value)
    assert (found["recipient"], found["seconds"]) == (str(tmp_path / "keys/b.asc"), 60)
    found = run_choices.backup_choices({**variables, "backup_recipient": "/k.asc"}, lambda value: value)
    assert found["recipient"] == "/k.asc"
    chosen = run_choices.restore_choices(
        {"restore_over": "true", "restore_key": str(keys.private)}, lambda value: value
    )
    assert (chosen["over"], chosen["job_gap"], chosen["loses_jobs"]) == (True, 10000, "")
    assert run_choices.private_key(chosen).passphrase == b""
