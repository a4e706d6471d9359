"""playbooks/pilot.yml and playbooks/record_profile.yml on real machines, which are the same before and after."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml

from lab.nodes import container_name
from lab.paths import ROOT, ssh_config_of
from lab.scenario_run import recap

LAB = "molecule-plain"
testinfra_hosts = ["local://"]
NODES = ("gpu1", "gpu2")
SOURCE = "/etc/apt/sources.list.d/planted.list"
PLANTED = ["planted-mirror", "planted-user", "Planted5ecret", "planted-team", "planted-query"]
LINE = "deb [trusted=yes] https://planted-user:Planted5ecret@planted-mirror.corp.example/planted-team/?planted-query planted main"
# Files, owners, times and sizes; what SSH and sudo themselves write is elsewhere.
STATE = (
    r"find /etc /dev /boot /usr/src /var/lib/dkms /lib/modules -xdev ! -path '/dev/pts*' ! -path '/dev/shm*' "
    r"-printf '%p %y %m %u %T@ %s\n' 2>/dev/null | sort; dpkg-query --show; apt-mark showhold; systemctl list-units --all --no-legend "
    r"--plain --type=service | awk '{print $1, $3}' | grep -v -e user@ -e session -e user-runtime"
)


def state(name: str) -> list[str]:
    node = testinfra.get_host(f"podman://{container_name(LAB, name)}")
    # A directory of terminals has the time of the last login.
    return [
        line
        for line in node.check_output(STATE).splitlines()
        if not line.startswith(("/dev/pts ", "/dev/tty", "/dev/console"))
    ]


def play(playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ansible-playbook", f"--inventory={ROOT / 'molecule/plain/inventory/hosts.yml'}", f"playbooks/{playbook}.yml", *arguments],
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1",
             "ANSIBLE_SSH_COMMON_ARGS": f'-F "{ssh_config_of(LAB)}"'},
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the run, its file, and each node's state before and after; a third node is off."""
    top = tmp_path_factory.mktemp("pilot")
    off = {"compute_nodes": {"hosts": {"gpu9": {"ansible_host": "10.215.11.250"}}}}
    (top / "off.json").write_text(json.dumps({"all": {"children": off}}))
    gpu1 = testinfra.get_host(f"podman://{container_name(LAB, 'gpu1')}")
    gpu1.run_expect([0], f"printf '%s\\n' '{LINE}' > {SOURCE}")
    try:
        before = {name: state(name) for name in NODES}
        done = play("pilot", f"--inventory={top / 'off.json'}", f"--extra-vars=pilot_file={top / 'x.json'}", "-vvv")
        after = {name: state(name) for name in NODES}
    finally:
        gpu1.run_expect([0], f"rm {SOURCE}")
    return done, top / "x.json", before, after


def test_the_nodes_are_the_same_before_and_after(pilot: Any) -> None:
    done, _file, before, after = pilot
    assert done.returncode == 0, done.stdout + done.stderr
    for name in NODES:
        assert set(after[name]) ^ set(before[name]) == set()
        assert len(before[name]) == len(after[name]) > 500
        assert recap(done.stdout)[name]["changed"] == 0


def test_the_report_has_all_nodes_and_what_was_read(pilot: Any) -> None:
    _done, file, *_states = pilot
    report = json.loads(file.read_text())
    assert (report["nodes"], len(report["not_read"]), sum(len(kind["nodes"]) for kind in report["kinds"])) == (3, 1, 2)
    kind = report["kinds"][0]
    assert kind["expected"]["model"] == "h100"
    assert "no driver is loaded" in kind["found"]["gpu"]["nvidia_smi"]
    assert {"name": "nvidia-kernel-open-dkms", "version": "580.65.06-1"} in kind["found"]["packages"]
    assert [one for one in kind["found"]["dkms"] if one.startswith("nvidia 580.65.06 ")]
    assert "gpu-count" in {one["kind"] for one in kind["differences"]}
    assert "dkms status" in [one["command"] for one in kind["raw"]]


def test_the_report_and_the_screen_have_no_name_of_the_site(pilot: Any) -> None:
    done, file, *_states = pilot
    text = file.read_text()
    assert "planted.list" in text
    password = Path(ROOT / ".cache/lab/molecule-plain/ops_password").read_text().strip()
    for name in [*PLANTED, password, "10.215.11", "10.219.11"]:
        assert name.lower() not in text.lower(), name
    for name in ("gpu1", "gpu2", "gpu9", "ctl1", "jump", "ops"):
        assert not re.search(rf"(?<![a-z0-9]){name}(?![a-z0-9])", text, re.IGNORECASE), name
    # What a node returned is not shown by -vvv either.
    assert [name for name in PLANTED if name in done.stdout] == []


def test_the_profile_of_the_nodes_is_printed() -> None:
    done = play("record_profile")
    assert done.returncode == 0, done.stdout + done.stderr
    text = done.stdout[done.stdout.index("# Recorded from live machines") :].partition("\nTASK ")[0]
    (profile,) = yaml.safe_load(text)["profiles"].values()
    assert profile["memory_mib"] > 0
    assert "# gpu[1-2]" in text
    assert "DECIDE: this is a container" in text
    assert all(counters["changed"] == 0 for counters in recap(done.stdout).values())
