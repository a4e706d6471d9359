# SPDX-License-Identifier: GPL-3.0-or-later
"""The syntax of all playbooks and roles in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.lint_ansible import playbooks, syntax_errors

pytestmark = pytest.mark.playbooks


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "ansible.cfg").write_text("[defaults]\ncollections_path = collections\n")
    collection = tmp_path / "collections/ansible_collections/bedplate/cluster"
    collection.parent.mkdir(parents=True)
    collection.symlink_to(tmp_path)
    for path, content in {
        "playbooks/site.yml": "- hosts: localhost\n  tasks: []\n",
        "playbooks/tasks/part.yml": "- ansible.builtin.debug:\n",
        "molecule/slurm/converge.yml": "- ansible.builtin.import_playbook: ../../playbooks/site.yml\n",
        "molecule/slurm/molecule.yml": "driver:\n  name: default\n",
        "roles/slurm/tasks/main.yml": "- ansible.builtin.debug:\n",
        "roles/slurm/tasks/verify.yml": "- ansible.builtin.debug:\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    return tmp_path


def test_files_with_plays_or_imports_are_the_playbooks(project: Path) -> None:
    assert playbooks(project) == [Path("molecule/slurm/converge.yml"), Path("playbooks/site.yml")]


def test_right_syntax_has_no_errors(project: Path) -> None:
    assert syntax_errors(project) == ""


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        ("playbooks/site.yml", "- hosts: localhost\n  tasks:\n    - ansible.builtin.debugg:\n", "debugg"),
        (
            "molecule/slurm/converge.yml",
            "- ansible.builtin.import_playbook: ../../playbooks/absent.yml\n",
            "absent.yml",
        ),
        (
            "roles/slurm/tasks/verify.yml",
            "- ansible.builtin.debug:\n  ansible.builtin.fail:\n",
            "roles/slurm/tasks/verify.yml",
        ),
    ],
    ids=["unknown module", "absent playbook", "tasks of a role that no playbook imports"],
)
def test_wrong_syntax_is_shown(project: Path, path: str, content: str, said: str) -> None:
    (project / path).write_text(content)
    assert said in syntax_errors(project)
