# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of roles: Ansible validates them in playbooks of others, bedplate's playbooks leave that to validate.yml."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ROLE = ROOT / "playbooks/tasks/role.yml"


def test_one_file_leaves_out_the_validation_of_a_role():
    files = [*ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("roles/*/*/*.yml")]
    assert [path for path in files if re.search(r"^ +rolespec_validate:", path.read_text(), re.MULTILINE)] == [ROLE]
    assert [path for path in files if re.search(r"(import|include)_role:", path.read_text())] == [ROLE]


@pytest.mark.playbooks
def test_ansible_validates_the_arguments_in_playbooks_of_others(tmp_path: Path):
    role = {"name": "bedplate.cluster.rdma"}
    task = {"name": "Run", "ansible.builtin.include_role": role, "vars": {"rdma_mtu": "wrong"}}
    play = tmp_path / "play.yml"
    play.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]))
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(play)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    headings = re.findall(r"^TASK \[(.*?)\]", done.stdout, re.MULTILINE)
    assert "Validating arguments against arg spec 'main'" in headings[-1]
    assert "rdma_mtu" in done.stdout
