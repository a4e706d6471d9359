# SPDX-License-Identifier: GPL-3.0-or-later
"""A remedy that runs a role names a playbook that is there and runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.remedies import PLAYBOOKS

ROOT = Path(__file__).parents[2]


def test_every_role_has_its_playbook():
    assert set(PLAYBOOKS) == {path.name for path in (ROOT / "roles").iterdir() if path.is_dir()}


@pytest.mark.parametrize("role", PLAYBOOKS)
def test_the_playbook_runs_the_role(role: str):
    assert f"name: bedplate.cluster.{role}\n" in (ROOT / f"playbooks/{PLAYBOOKS[role]}.yml").read_text()
