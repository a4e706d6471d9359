# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters of a roll read the variables of hosts as they are, and how much time is left."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.filter import roll
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.pending_parts import needs
from lab.paths import ROOT


class HostVars(dict[str, Any]):
    """Ansible's hostvars: reading a host by its key would make templates of its values."""

    raw_get = dict.__getitem__

    def __getitem__(self, name: str) -> Any:
        raise AssertionError(f"the variables of {name} are read as templates")


def hostvars(until: float) -> HostVars:
    return HostVars(n1={"__roll": {"hosts": ["n1"], "until": until, "canaries": [], "failures": 0}})


@pytest.mark.parametrize(("seconds", "least", "most"), [(-5, 0, 0), (100, 95, 100)])
def test_jobs_are_waited_for_until_the_deadline(seconds: int, least: int, most: int):
    # A host of the group that this inventory has no variables of.
    assert least <= roll.roll_seconds_left(hostvars(time.time() + seconds), ["n0", "n1"]) <= most
    assert bool(roll.roll_stopped(hostvars(time.time() + seconds), ["n1"])) == (seconds < 0)


def test_each_result_that_decides_what_is_pending_is_one_of_a_role():
    registered = set()
    for path in [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/phases/*.yml")]:
        registered |= set(_registered(yaml.safe_load(path.read_text())))
    assert {name for need in needs().values() for name in need.registered} <= registered


def _registered(tasks: object) -> list[str]:
    if isinstance(tasks, list):
        return [name for task in tasks for name in _registered(task)]
    if isinstance(tasks, dict):
        own = [str(tasks["register"])] if "register" in tasks else []
        return own + [name for value in tasks.values() for name in _registered(value)]
    return []
