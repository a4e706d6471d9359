# SPDX-License-Identifier: GPL-3.0-or-later
"""The recap of many hosts: each host on which anything happened, and results that are to be read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.executor.stats import AggregateStats
from ansible.plugins.callback.default import CallbackModule as Default

from ansible_collections.bedplate.cluster.plugins.callback.brief import CallbackModule

QUIET = [f"q{number}" for number in range(30)]


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The callback of a run of many hosts; `shown` has what the default callback would print."""
    found: Any = CallbackModule()
    found.shown = []
    found._hosts = len(QUIET)
    monkeypatch.setattr(Default, "v2_runner_on_ok", lambda self, one: self.shown.append(one.result))
    monkeypatch.setattr(Default, "v2_playbook_on_stats", lambda self, stats: self.shown.extend(stats.processed))
    monkeypatch.setattr(
        found, "_display", SimpleNamespace(verbosity=0, display=lambda text, *_more: found.shown.append(text))
    )
    return found


@pytest.mark.parametrize("what", ["changed", "dark", "failures", "rescued", "ignored"])
def test_a_host_on_which_anything_happened_is_in_the_recap(brief: Any, what: str):
    stats = AggregateStats()
    for name in [*QUIET, "odd"]:
        stats.increment("ok", name)
    stats.increment(what, "odd")
    brief.v2_playbook_on_stats(stats)
    assert brief.shown == ["odd", "30 other hosts: nothing changed, nothing failed"]
    # Other callbacks read it after this one.
    assert set(stats.processed) == {*QUIET, "odd"}


@pytest.mark.parametrize(
    ("data", "is_shown"),
    [
        ({}, False),
        ({"changed": True}, True),
        ({"warnings": ["old"]}, True),
        ({"deprecations": [{"msg": "x"}]}, True),
        ({"_ansible_verbose_always": True}, True),
    ],
)
def test_of_many_hosts_a_result_that_is_to_be_read_is_printed(brief: Any, data: dict[str, Any], is_shown: bool):
    brief.v2_runner_on_ok(SimpleNamespace(result=data))
    assert brief.shown == ([data] if is_shown else [])
