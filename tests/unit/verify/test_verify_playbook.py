"""playbooks/verify.yml on four machines: two that differ, a controller with a Slurm that differs, and one that is off."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from tests.kit.plays import play

pytestmark = pytest.mark.playbooks
CLUSTER = """
plugin: bedplate.cluster.racks
site: test
cluster: test
networks: {management: {cidr: 127.0.0.0/24, start: 127.0.0.11}}
profiles: {node: {sockets: 1, cores_per_socket: 2, threads_per_core: 1, memory_mib: 1024, reserved_memory_mib: 64}}
racks: {r1: {nodes: "n[1-3]", profile: node}}
hosts: {ctl1: {address: 127.0.0.2}, ctl2: {address: 127.0.0.3}}
services: {controllers: [ctl1, ctl2]}
partitions: {batch: {nodes: all, default: true, max_time: "02:00:00"}}
slurm: {version: "24.11", options: {StateSaveLocation: /srv/slurm}}
"""
# As Slurm 24.11 prints it; somebody has run `scontrol update partitionname=batch state=down maxtime=5`.
SCONTROL = """#!/bin/sh
case "$*" in
*config*) echo "HASH_VAL = Match"; echo "SlurmUser = slurm(64030)"; echo "SLURM_VERSION = 24.11.5"; echo "SlurmctldDebug = info";;
*partition*) echo "PartitionName=batch AllowGroups=ALL AllocNodes=ALL Default=YES QoS=N/A DefaultTime=NONE GraceTime=0 Hidden=NO \
MaxNodes=UNLIMITED MaxTime=00:05:00 MaxCPUsPerNode=UNLIMITED Nodes=n[1-3] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO \
State=DOWN";;
*node*) for n in 1 2 3; do echo "NodeName=n$n AvailableFeatures=node,rack_r1 Weight=1"; done;;
esac
"""
SINFO = """#!/bin/sh
for n in 1 2 3; do echo "n$n||2|960|idle|24.11.5|Unknown|Unknown|none"; done
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the inventory and a Slurm that is two scripts."""
    base = tmp_path_factory.mktemp("site")
    (base / "site.bedplate.yml").write_text(CLUSTER)
    local = {"ansible_connection": "local"}
    # With pipelining, Ansible may still write when ssh has ended, and then its reason is another one.
    closed = {"ansible_port": 1, "ansible_ssh_pipelining": False}
    hosts = {"n1": local, "n2": local, "ctl1": local, "n3": closed, "ctl2": closed}
    variables = {
        "ansible_user": "root",
        "ansible_python_interpreter": sys.executable,
        "bedplate_secrets_dir": str(base / "secrets"),
        "node_tuning_modules": ["no_such_module"],
        "rdma_manage": False,
        "slurm_compute_restrict_ssh": False,
    }
    (base / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts, "vars": variables}}))
    (base / "bin").mkdir()
    for name, text in (("scontrol", SCONTROL), ("sinfo", SINFO)):
        (base / "bin" / name).write_text(text)
        (base / "bin" / name).chmod(0o755)
    return base


def run(site: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """Run verify.yml; return how it ended and the findings of its file."""
    file = site / "findings.json"
    file.unlink(missing_ok=True)
    inventories = ["-i", site / "site.bedplate.yml", "-i", site / "hosts.json"]
    path = f"{site / 'bin'}:{os.environ['PATH']}"
    done = play("playbooks/verify.yml", *inventories, "-e", f"verify_report_file={file}", *arguments, PATH=path)
    return done, json.loads(file.read_text()) if file.exists() else []


def of_kind(rows: list[dict[str, Any]], kind: str) -> list[tuple[str, str]]:
    return [(row["machine"], row["where"]) for row in rows if row["kind"] == kind]


def test_all_machines_are_compared_and_the_run_fails_last(site: Path) -> None:
    done, rows = run(site)
    assert done.returncode == 2, done.stdout + done.stderr
    assert {tuple(row) for row in rows} == {tuple(field.name for field in fields(Finding))}
    assert of_kind(rows, "unreachable") == [("ctl2", "machine"), ("n3", "machine")]
    assert [machine for machine, where in of_kind(rows, "module") if "no_such_module" in where] == ["n1", "n2"]
    assert sorted(of_kind(rows, "partition-option")) == [
        ("Slurm", "partition batch MaxTime"),
        ("Slurm", "partition batch State"),
    ]
    (state,) = [row for row in rows if row["where"] == "partition batch State"]
    assert (state["expected"], state["found"], state["severity"]) == ("UP", "DOWN", "error")
    assert "scontrol update partition" in state["overridden_by"]
    text = " ".join(done.stdout.split())
    assert re.search(r"ERROR n\[1-2\]: [^:]*\bno_such_module: ", text)
    assert re.search(r"ERROR ctl2,n3: machine: [^;]*Connection refused; ", text)


def test_one_machine_alone_is_compared_and_says_that_slurm_was_not_asked(site: Path) -> None:
    done, rows = run(site, "--limit=n1")
    assert done.returncode == 2, done.stdout + done.stderr
    assert {row["machine"] for row in rows} == {"n1", ""}
    assert of_kind(rows, "not-checked") == [("", "Slurm")]


def test_a_phase_is_compared_alone(site: Path) -> None:
    done, rows = run(site, "--tags=scheduler", "--limit=ctl1")
    assert done.returncode == 2, done.stdout + done.stderr
    assert len(of_kind(rows, "partition-option")) == 2
    assert of_kind(rows, "module") == []


def test_check_mode_of_verify_fails_like_verify(site: Path) -> None:
    done, rows = run(site, "--check")
    assert done.returncode == 2, done.stdout + done.stderr
    assert len(of_kind(rows, "partition-option")) == 2


def test_in_a_check_of_site_yml_differences_are_warnings_without_remedy(site: Path) -> None:
    done, rows = run(site, "--check", "-e", "__verify_records_release=true")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(of_kind(rows, "partition-option")) == 2
    text = " ".join((done.stdout + done.stderr).split())
    assert re.search(r"partition batch State: [^;]*\bUP\b[^;]*\bDOWN\b", text)
    assert "who changed it" not in text
    assert "machines are as the cluster file" not in text


def test_a_file_that_cannot_be_written_is_told(site: Path) -> None:
    done, _rows = run(site, "-e", "verify_report_file=/nonexistent/findings.json", "--limit=n1")
    assert done.returncode == 2
    assert "verify_report_file /nonexistent/findings.json: " in " ".join(done.stdout.split())
