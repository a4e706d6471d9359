# SPDX-License-Identifier: GPL-3.0-or-later
"""Output of the callback bedplate.cluster.brief."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.playbooks
PLAYS = """\
- {name: Empty, hosts: "all:!all", gather_facts: false, tasks: [{name: Never, debug: {}}]}
- name: Skipped
  hosts: all
  gather_facts: false
  tasks: [{name: Left out, debug: {}, when: false}, {name: Each left out, debug: {}, loop: [1], when: false}]
- name: Batches
  hosts: all
  gather_facts: false
  serial: 1
  tasks:
    - {name: Left out on one, debug: {msg: x}, when: inventory_hostname == 'b'}
    - {name: Fail, fail: {msg: no}, when: inventory_hostname == 'b'}
"""
BRIEF = ["PLAY [Batches]", "TASK [Left out on one]", "ok: [b]", "TASK [Fail]", "fatal: [b]"]


def printed(folder: Path, *arguments: str) -> list[str]:
    (folder / "plays.yml").write_text(PLAYS)
    command = [
        str(Path(sys.executable).with_name("ansible-playbook")),
        "-i",
        "a,b,",
        "-c",
        "local",
        str(folder / "plays.yml"),
        *arguments,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    text = done.stdout.partition("PLAY RECAP")[0]
    return re.findall(r"^(?:PLAY \[.*?\]|TASK \[.*?\]|\w+: \[\w\]|skipping: no hosts)", text, re.MULTILINE)


def test_headings_are_printed_with_the_first_result_below_them(tmp_path: Path) -> None:
    assert printed(tmp_path) == BRIEF


def test_verbose_runs_print_everything(tmp_path: Path) -> None:
    lines = printed(tmp_path, "-v")
    assert lines[:3] == ["PLAY [Empty]", "skipping: no hosts", "PLAY [Skipped]"]
    assert lines.count("PLAY [Batches]") == 2
    assert {"skipping: [a]", "skipping: [b]", "TASK [Each left out]"} <= set(lines)
    assert [line for line in lines if line.endswith("[b]") and "skipping" not in line] == ["ok: [b]", "fatal: [b]"]


MANY = """\
- name: Many
  hosts: all
  gather_facts: false
  tasks:
    - {name: Quiet, ansible.builtin.assert: {that: true, quiet: true}}
    - {name: Text, ansible.builtin.debug: {msg: read me}, when: inventory_hostname == 'h3'}
    - {name: Change, ansible.builtin.command: "true", when: inventory_hostname == 'h1'}
    - {name: Rescued, block: [{name: Fail, ansible.builtin.fail: {msg: no}, when: inventory_hostname == 'h2'}], rescue: [{meta: noop}]}
"""


def test_of_many_hosts_those_with_news_are_printed_alone(tmp_path: Path) -> None:
    (tmp_path / "many.yml").write_text(MANY)
    hosts = ",".join(f"h{number}" for number in range(1, 22))
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", f"{hosts},", "-c", "local", "many.yml"]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text, _, recap = done.stdout.partition("PLAY RECAP")
    lines = re.findall(r"^(ok|changed|fatal): \[(\w+)\]", text, re.MULTILINE)
    assert lines == [("ok", "h3"), ("changed", "h1"), ("fatal", "h2")]
    assert re.findall(r"^(h\d+) +:", recap, re.MULTILINE) == ["h1", "h2"]
    assert "19 other hosts: nothing changed, nothing failed" in recap
