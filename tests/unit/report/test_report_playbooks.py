"""playbooks/pilot.yml and playbooks/record_profile.yml on this machine and on one that is off: real modules, real files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kit.plays import play

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.playbooks
VARIABLES = {"ansible_python_interpreter": sys.executable, "ansible_password": "Pa55-of-the-site"}
HOSTS = {
    "zephyr-one": {"ansible_connection": "local"},
    "zephyr-off": {"ansible_port": 1, "ansible_host": "127.0.0.9", "ansible_user": "jdoe77"},
}


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site") / "hosts.json"
    path.write_text(json.dumps({"all": {"hosts": HOSTS, "vars": VARIABLES}}))
    return path


def run(playbook: str, inventory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return play(ROOT / f"playbooks/{playbook}.yml", "-i", inventory, *arguments, cwd=inventory.parent)


def devices() -> list[str]:
    return sorted(path.name for path in Path("/dev").iterdir())


def test_the_pilot_writes_one_redacted_file_and_changes_nothing(inventory: Path) -> None:
    before = devices()
    done = run("pilot", inventory, "-vvv")
    assert done.returncode == 0, done.stdout + done.stderr
    path = inventory.parent / "cluster.pilot.json"
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    report: dict[str, Any] = json.loads(text)
    assert (report["nodes"], len(report["kinds"]), len(report["not_read"])) == (2, 1, 1)
    assert report["kinds"][0]["hardware"]["shape"]["sockets"] >= 1
    names = ["zephyr", "127.0.0.9", "jdoe77", "Pa55-of-the-site"]
    assert [name for name in names if name.lower() in text.lower()] == []
    assert not re.search(rf"(?<![A-Za-z0-9]){re.escape(os.uname().nodename)}(?![A-Za-z0-9])", text, re.IGNORECASE)
    assert "1 node of 1 kind read, 1 not read" in " ".join(done.stdout.split())
    assert '"software": {' not in done.stdout
    assert "changed=1" not in done.stdout
    assert devices() == before


def test_check_mode_reads_the_same_and_writes_no_file(inventory: Path, tmp_path: Path) -> None:
    done = run("pilot", inventory, "--check", "-e", f"pilot_file={tmp_path / 'x.json'}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is not written in check mode" in " ".join(done.stdout.split())
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named(inventory: Path) -> None:
    done = run("pilot", inventory, "-e", "pilot_file=/nowhere/x.json", "--limit", "zephyr-one")
    assert done.returncode == 2
    assert "pilot_file /nowhere/x.json: No such file or directory; allowed:" in " ".join(
        done.stdout.split() + done.stderr.split()
    )


def test_the_profile_is_printed_so_that_it_can_be_pasted(inventory: Path, tmp_path: Path) -> None:
    file = tmp_path / "profiles.yml"
    done = run("record_profile", inventory, "-e", f"record_profile_file={file}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert file.read_text() in done.stdout
    assert "changed=1" in done.stdout
    before = file.read_text()
    again = run("record_profile", inventory, "-e", f"record_profile_file={file}")
    # What a real machine reports, such as its links, may change between two runs.
    assert ("changed=1" in again.stdout) == (file.read_text() != before)
    (profile,) = yaml.safe_load(file.read_text())["profiles"].values()
    assert profile["sockets"] >= 1
    assert "# zephyr-off: no profile: " in done.stdout
