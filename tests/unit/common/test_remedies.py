# SPDX-License-Identifier: GPL-3.0-or-later
"""A remedy that runs a role names a playbook that is there and runs it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.remedies import PLAYBOOKS, run_role_again

ROOT = Path(__file__).parents[3]


def test_every_role_has_its_playbook():
    assert set(PLAYBOOKS) == {path.name for path in (ROOT / "roles").iterdir() if path.is_dir()}


@pytest.mark.parametrize("role", PLAYBOOKS)
def test_the_playbook_runs_the_role(role: str):
    assert f"playbook: phases/{PLAYBOOKS[role]}.yml" in (ROOT / f"playbooks/{PLAYBOOKS[role]}.yml").read_text()
    assert f"__role: {role}" in (ROOT / f"playbooks/phases/{PLAYBOOKS[role]}.yml").read_text()


def test_a_manifest_of_a_role_is_of_its_playbook():
    assert run_role_again("slurm_controller") == run_role_again("slurm") == "run playbooks/scheduler.yml again"
    assert run_role_again("site_own").split()[-2:] == ["site_own", "again"]


def test_no_text_tells_people_to_run_a_role():
    """People run playbooks."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "plugins").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"\brun the role\b", line)
    ]
    assert found == []
