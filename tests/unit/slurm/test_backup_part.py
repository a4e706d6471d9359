# SPDX-License-Identifier: GPL-3.0-or-later
"""Which host backs up what, by a timer only where slurm_backup says so; a wrong key is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.host_backup import Settings
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import backup_part
from tests.kit import ROOT

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQENBF\n-----END PGP PUBLIC KEY BLOCK-----\n"


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    shutil.copytree(ROOT / "tests/roles/clusters/slurm", tmp_path / "site")
    (tmp_path / "site/slurm.gpu-lock.json").write_text("{}")
    (tmp_path / "site/west.note").write_text("{}")
    (tmp_path / "site/backup.asc").write_text(KEY)
    return load(str(tmp_path / "site/slurm.bedplate.yml"))


def test_the_data_of_each_host(cluster: Cluster):
    assert backup_part.backup_hosts(cluster) == ["ctl1"]
    found = backup_part.data_of(cluster, "ctl1")
    assert found == {
        "cluster": "slurm",
        "host": "ctl1",
        "state": "/var/lib/slurm/slurmctld",
        "database": "slurm_acct_db",
    }
    assert backup_part.data_of(cluster, "gpu1")["state"] == backup_part.data_of(cluster, "gpu1")["database"] == ""


def test_the_program_reads_the_settings_of_the_part(cluster: Cluster):
    values = backup_part.values(cluster, "ctl1", {"recipient": "backup.asc", "keep": 3})
    settings = Settings(**json.loads(json.dumps(values["settings"])))
    assert (settings.keep, settings.path) == (3, "/var/backups/bedplate")
    assert values["recipient"] == KEY
    assert set(values["site"]) == {"slurm.bedplate.yml", "slurm.gpu-lock.json"}
    assert values["at"] == "daily"
    assert backup_part.expected(cluster, "ctl1", {}) == {
        "path": "/var/backups/bedplate",
        "of": "slurm-ctl1",
        "hours": 48,
    }


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (None, "slurm_backup: .*backup.asc: No such file"),
        (KEY.replace("PUBLIC", "PRIVATE"), "is an OpenPGP private key"),
        ("age1qqp", "not an OpenPGP public key"),
    ],
)
def test_a_wrong_key_is_refused(cluster: Cluster, text: str | None, error: str):
    path = Path(cluster.path).with_name("backup.asc")
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    with pytest.raises(ValueError, match=error):
        backup_part.values(cluster, "ctl1", {"recipient": "backup.asc"})


def test_a_timer_that_is_off_needs_no_key(cluster: Cluster):
    assert backup_part.values(cluster, "ctl1", {"enabled": False})["packages"] == ["gpg"]
    with pytest.raises(ValueError, match="recipient is not set"):
        backup_part.values(cluster, "ctl1", {"keep": 3})
