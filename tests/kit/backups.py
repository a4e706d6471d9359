# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of the real gpg, the state of a slurmctld, and a host whose backup is real but for MariaDB and squeue."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup import pipes
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.host_backup import HostBackup, Settings
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.job_header import JobHeader
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.live_copy import LiveState
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.manifest import CLUSTER, SECRETS
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup import site_part

PASSPHRASE = b"correct horse"
NO_USER = "no-such-user"
"""SlurmUser of these tests: root reads as itself."""
SAVED_AT = 1_764_187_200
"""When the state was written, in seconds since 1970."""
DUMP = """\
-- MariaDB dump 10.19
CREATE TABLE `lab_job_table` (
  `job_db_inx` bigint(20) unsigned NOT NULL AUTO_INCREMENT
);
INSERT INTO `lab_job_table` VALUES
(1,'a),(b'),
(2,'it\\'s; \\n(x)');
CREATE TABLE `qos_table` (
  `id` int(11)
);
INSERT INTO `qos_table` VALUES (1,'normal'),(2,'x),(y'),(3,NULL);
CREATE TABLE `lab_event_table` (
  `id` int(11)
);
-- Dump completed on 2026-11-26 20:00:00
"""
ROWS = {"lab_job_table": 2, "qos_table": 3, "lab_event_table": 0}
SQUEUE = f"""\
41|RUNNING|{SAVED_AT - 60}|{SAVED_AT - 90}|N/A
42|RUNNING|{SAVED_AT - 50}|{SAVED_AT - 90}|N/A
43|PENDING|N/A|{SAVED_AT - 90}|N/A
44|RUNNING|{SAVED_AT + 1}|{SAVED_AT - 1}|N/A
45|RUNNING|{SAVED_AT + 2}|{SAVED_AT + 1}|N/A
40|COMPLETED|{SAVED_AT - 90}|{SAVED_AT - 95}|{SAVED_AT - 5}
"""


@dataclass(frozen=True)
class Keys:
    """Files of a public and a private key, and of a private key that opens nothing."""

    public: Path
    private: Path
    other: Path


def make_keys(folder: Path) -> Keys:
    """Make two pairs of keys; the first private one has the passphrase."""
    names = {}
    for user, passphrase in (("backup", PASSPHRASE.decode()), ("other", "")):
        # A short path: the socket of gpg's agent must fit into 108 bytes.
        with tempfile.TemporaryDirectory(prefix="g-", dir="/tmp") as home:
            gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback"]
            gpg += ["--passphrase", passphrase]
            made = ["--quick-gen-key", f"{user} <{user}@example.org>", "future-default", "default", "never"]
            subprocess.run([*gpg, *made], check=True, capture_output=True)
            for kind, option in (("public", "--export"), ("private", "--export-secret-keys")):
                path = folder / f"{user}.{kind}"
                path.write_bytes(subprocess.run([*gpg, "--armor", option], check=True, capture_output=True).stdout)
                path.chmod(0o600)
                names[user, kind] = path
            subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)
    return Keys(names["backup", "public"], names["backup", "private"], names["other", "private"])


def write_state(folder: Path, next_id: int = 46, saved_at: int = SAVED_AT) -> dict[str, bytes]:
    """Write the files of StateSaveLocation, and return those that belong to a backup."""
    header = JobHeader(protocol=10752, saved_at=saved_at, next_id=next_id).packed()
    found = {
        "job_state": header + b"records of jobs",
        "node_state": b"nodes",
        "clustername": b"lab",
        "hash.3/job.43/script": b"#!/bin/sh\n",
        "hash.3/job.43/environment": b"A=1\0",
    }
    for name, data in {**found, "job_state.old": b"old", "node_state.new": b"half", "heartbeat": b"1"}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return found


def programs(folder: Path, dump: str = DUMP, squeue: str = SQUEUE) -> Path:
    """Write programs that answer as those of MariaDB and Slurm, and return their folder, which belongs to the front of PATH."""
    folder.mkdir(exist_ok=True)
    (folder / "dump.sql").write_text(dump)
    (folder / "jobs").write_text(squeue)
    texts = {
        "mariadb-dump": f"cat {folder}/dump.sql",
        "squeue": f"cat {folder}/jobs",
        "slurmctld": "echo slurm-wlm 24.11.5",
    }
    for name, text in texts.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    return folder


def path_with(folder: Path) -> str:
    """Return a PATH with a folder at its front."""
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def make_backup(
    folder: Path,
    keys: Keys,
    monkeypatch: pytest.MonkeyPatch,
    *,
    cluster: str = "lab",
    squeue: str = SQUEUE,
    dump: str = DUMP,
) -> Path:
    """Back up a host that has the state and the database, and the control node; return the file of both."""
    path = path_with(programs(folder / "bin", dump, squeue))
    for module in (pipes, command):
        monkeypatch.setattr(module, "SEARCH_PATH", path)
    monkeypatch.setattr(LiveState, "wait_for_save", lambda _self: None)
    write_state(folder / "state")
    for name in ("etc/slurm/slurm.conf", "etc/slurm/jwt_hs256.key", "etc/munge/munge.key"):
        (folder / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "root" / name).write_bytes(b"of the host: " + name.encode())
    site = folder / "site"
    for name in ("lab.bedplate.yml", "lab.gpu-lock.json", "west.bedplate.yml", "group_vars/all.yml"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(name)
    (folder / "secrets").mkdir(mode=0o700)
    (folder / "secrets/munge_key").write_bytes(b"of the control node")
    (folder / "secrets/database_password").write_bytes(b"pw")
    settings = Settings(
        cluster, "ctl1", str(keys.public), str(folder / "host"), str(folder / "state"), "slurm_acct_db", NO_USER, 60
    )
    part, _manifest = HostBackup(settings, root=folder / "root").take()
    members = {
        CLUSTER: (site, site_part.beside(site / "lab.bedplate.yml")),
        SECRETS: (folder / "secrets", site_part.secret_files(folder / "secrets")),
    }
    file, _counts = site_part.collect(cluster, keys.public, {"ctl1": part}, members, folder / "to")
    return file
