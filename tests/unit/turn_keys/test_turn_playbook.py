# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook on real munge and Slurm: it names who is missing, turns the key under jobs, and shows no secret."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretStore
from lab.paths import ROOT
from tests.kit.plays import play
from tests.unit.primitives.files.test_secrecy import readable
from tests.unit.slurm.keys.real_munge import CONTROLLER, MACHINES, NODES, MungedSlurm

pytestmark = [pytest.mark.playbooks, pytest.mark.tools("slurmctld", "slurmd", "scontrol", "sbatch", "munged")]
CLUSTER: dict[str, Any] = {
    "plugin": "bedplate.cluster.racks",
    "site": "unit",
    "cluster": "unit",
    "domain": "unit.internal",
    "networks": {"management": {"cidr": "10.1.0.0/24", "gateway": "10.1.0.1", "start": "10.1.0.11"}},
    "profiles": {"sim": {"sockets": 1, "cores_per_socket": 16, "memory_mib": 200, "reserved_memory_mib": 64}},
    "racks": {"r1": {"nodes": "n[1-2]", "profile": "sim"}},
    "hosts": {CONTROLLER: {"address": "10.1.0.9"}},
    "services": {"controllers": [CONTROLLER]},
    "partitions": {"cpu": {"nodes": "all", "default": True}},
    "slurm": {"version": "22.05"},
}


@dataclass
class Site:
    """The machines, and a control node with their secrets."""

    base: Path
    cluster: MungedSlurm

    @property
    def secrets(self) -> Path:
        return self.base / "secrets"

    def prepare(self) -> None:
        (self.base / "unit.bedplate.yml").write_text(yaml.safe_dump(CLUSTER))
        hosts = {}
        for name in MACHINES:
            python = self.base / f"python.{name}"
            python.write_text(f'#!/bin/sh\nexec {" ".join(self.cluster.enter(name))} {sys.executable} "$@"\n')
            python.chmod(0o755)
            hosts[name] = {"ansible_connection": "local", "ansible_python_interpreter": str(python)}
        (self.base / "machines.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))

    def play(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        inventory = [f"--inventory={self.base}/{name}" for name in ("unit.bedplate.yml", "machines.yml")]
        return play(
            ROOT / "playbooks/turn_keys.yml",
            *inventory,
            *("-vvv", "--diff", f"--extra-vars=bedplate_secrets_dir={self.secrets}", *arguments),
            BEDPLATE_REPORT=str(self.base / "report"),
            PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        )

    def keys(self) -> dict[str, str]:
        found = {name: self.cluster.on(name, "sha256sum", "/etc/munge/munge.key").split()[0] for name in MACHINES}
        own = hashlib.sha256((self.secrets / "munge_key").read_bytes()).hexdigest()
        return {**found, "own": own}


@pytest.fixture
def site(tmp_path: Path):
    key = SecretStore(tmp_path / "secrets").get("munge_key")
    (tmp_path / "machines").mkdir()
    with MungedSlurm(tmp_path / "machines", key) as cluster:
        found = Site(tmp_path, cluster)
        found.prepare()
        yield found


def test_the_key_is_turned_under_jobs(site: Site):
    before, old = site.keys(), (site.secrets / "munge_key").read_bytes()
    missing = site.play("--extra-vars=turn_keys=munge_key", "--limit=!n2")
    assert missing.returncode != 0
    assert "n2: left out of this run" in " ".join(missing.stdout.split())
    assert site.keys() == before

    site.cluster.submit("steps", "for i in $(seq 60); do srun --ntasks=1 true || echo LOST; sleep 0.5; done; exit 3")
    site.cluster.submit("array", "sleep 2; exit 5", "--array=1-8%2")
    done = site.play("--extra-vars=turn_keys=munge_key", "--extra-vars=turn_keys_window=10")
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-6000:]
    after = site.keys()
    assert len(set(after.values())) == 1
    assert set(after.values()).isdisjoint(before.values())
    assert site.cluster.ended() == {("steps", "3:0"): 1, ("array", "5:0"): 8}
    assert site.cluster.output("steps") == ""
    assert site.cluster.states() == ["idle"] * len(NODES)
    assert json.loads((site.secrets / "turn_keys.json").read_text())["stage"] == "finished"
    assert sorted(path.name for path in site.secrets.iterdir() if not path.name.startswith(".")) == [
        "munge_key",
        "turn_keys.json",
    ]
    assert "all machines make credentials with the new key. Waiting 10 s" in " ".join(said.split())
    assert [site.cluster.on(name, "ls", "/etc/munge").split() for name in MACHINES] == [["munge.key"]] * len(MACHINES)
    assert [site.cluster.on(name, "find", "/etc/systemd/system", "-type", "f") for name in MACHINES] == [""] * len(
        MACHINES
    )
    assert not any(digest in said for digest in (*before.values(), *after.values()))
    assert "MUNGE:" not in said
    keys = [old, (site.secrets / "munge_key").read_bytes()]
    assert not any(base64.b64encode(key[:48]).decode() in readable(said) for key in keys)

    again = site.play()
    assert again.returncode == 0, again.stdout[-3000:]
    assert "nothing to do" in again.stdout
    assert site.keys() == after
