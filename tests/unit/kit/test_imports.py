"""Which files of tests run on the other end of the range of ansible-core."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import ROOT
from tests.kit.imports import imports_of, may_have_mark, needs_ansible_core, users_of_ansible_core

UNIT = ROOT / "tests/unit"


@pytest.mark.parametrize(
    "name",
    [
        # By an import, by what a fixture or an imported file runs, by a command, by a name in a string.
        "filters/test_slurm_filters.py",
        "inventory/test_racks.py",
        "inventory/test_command.py",
        "verify/test_verify_playbook.py",
        "primitives/test_deploy.py",
        "test_docs.py",
    ],
)
def test_files_that_reach_ansible_core(name: str):
    assert needs_ansible_core(UNIT / name)


@pytest.mark.parametrize("name", ["common/test_hostlist.py", "slurm/test_render.py", "cluster/test_cluster.py"])
def test_files_that_do_not(name: str):
    assert not needs_ansible_core(UNIT / name)


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("import ansible", True),
        ("from ansible.module_utils.basic import AnsibleModule", True),
        ("import ansible_runner", False),
        ("from ansible_collections.bedplate.cluster.plugins.module_utils.common import hostlist", False),
        ("from ansible_collections.bedplate.cluster.plugins.modules import units", True),
        ("subprocess.run(['ansible-playbook', 'x'])", True),
        ("import (", True),
    ],
)
def test_what_counts(tmp_path: Path, text: str, needs: bool):
    path = tmp_path / "test_x.py"
    path.write_text(text)
    assert needs_ansible_core(path) is needs


def test_fixtures_of_the_folder_count(tmp_path: Path):
    (tmp_path / "conftest.py").write_text("import ansible.constants")
    (tmp_path / "test_x.py").write_text("")
    assert needs_ansible_core(tmp_path / "test_x.py")


@pytest.mark.parametrize(
    ("name", "mark", "found"),
    [
        ("test_docs.py", "playbooks", True),
        ("test_docs.py", "daemons", False),
        # The mark is in a file that it imports.
        ("fabric/simulate/test_proved_plans.py", "simulation", True),
    ],
)
def test_a_mark_is_found_in_a_file_and_in_what_it_imports(name: str, mark: str, found: bool):
    assert may_have_mark(UNIT / name, mark) is found


def test_each_file_that_uses_ansible_core_is_tested_on_its_other_end():
    """Tests of what imports such a file may be left out there, so its own tests, or those of a plugin that it is a part of, must not be."""
    kinds = {"modules", "action", "lookup", "connection", "callback", "inventory", "filter"}
    imported = {file for test in UNIT.rglob("test_*.py") if needs_ansible_core(test) for file in imports_of(test)}
    parts = {file for plugin in imported if plugin.parent.name in kinds for file in imports_of(plugin)}
    # Ansible runs a plugin by its name.
    users = {one for one in users_of_ansible_core(ROOT / "plugins") if one.parent.name not in kinds}
    assert users - imported - parts == set()
