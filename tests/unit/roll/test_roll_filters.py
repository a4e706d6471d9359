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


def test_each_play_has_the_nodes_of_the_plan_and_without_a_plan_none():
    plan = {"hosts": ["n1", "n2"], "serial": [1, 1], "open": ["n3"], "canaries": [], "failures": 0, "until": 0.0}
    hosts = HostVars(
        n1={"__roll": plan, "__roll_drained": {"nodes": {"n1": {"outcome": "draining"}, "n2": {"outcome": "drained"}}}},
        n2={"__roll_drained": {"nodes": {"n2": {"outcome": "drained"}}}},
    )
    found = {
        key: roll.roll_hosts(hosts, ["n1", "n2"], key) for key in ("hosts", "serial", "open", "late", "late_serial")
    }
    assert found == {"hosts": ["n1", "n2"], "serial": [1, 1], "open": ["n3"], "late": ["n1"], "late_serial": [1]}
    none = HostVars(n1={})
    assert [roll.roll_hosts(none, ["n1"], key) for key in ("hosts", "open", "late")] == [["!all"]] * 3
    assert [roll.roll_hosts(none, ["n1"], key) for key in ("serial", "late_serial")] == [[1], [1]]


def test_resumed_nodes_are_watched_and_a_batch_after_canaries_waits():
    plan = {"hosts": ["n1", "n2"], "canaries": ["n1"], "failures": 0, "settle": 90}
    resumed = {"nodes": {"n1": {"outcome": "resumed"}}}
    hosts = HostVars(n1={"__roll": plan, "__roll_resumed": resumed}, n2={})
    assert [one["nodes"] for one in roll.roll_watched(hosts, ["n1", "n2"])] == ["n1", "n1"]
    assert [roll.roll_seconds_to_settle(hosts, ["n1", "n2"], [name]) for name in hosts] == [0, 90]


def test_of_a_batch_only_what_wants_it_is_rebooted_and_what_is_verified_resumed():
    wants = {"__roll_wanted": {"reasons": {"gpu_driver": "x"}}}
    hosts = HostVars(
        n1={"__roll_step": "changed", **wants},
        n2={"__roll_step": "changed", "__roll_wanted": {"reasons": {}}},
        n3={"__roll_step": "verified", **wants},
        n4={},
    )
    batch = ["n1", "n2", "n3", "n4"]
    assert (roll.roll_reboots(hosts, batch), roll.roll_verified(hosts, batch)) == ("n1", "n3")


def test_a_node_goes_on_after_an_answer_alone():
    hosts = HostVars(
        n1={"__roll_drained": {"nodes": {"n1": {"outcome": "drained"}}}},
        n2={"__roll_drained": {"nodes": {"n2": {"outcome": "draining"}}}},
        n3={},
    )
    assert [roll.roll_goes_on(hosts, name, "drained") for name in hosts] == [True, False, False]


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
