# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the agent: a mistake ends it, and an exception ends with its day."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent import node_health
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.agent_settings import (
    AgentPaths,
    SettingsError,
    load,
    settings_of,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.thresholds import rows_for
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load as load_cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.health import node_health_part

from .agent_kit import REPOSITORY

DAY = 86400


def test_settings_of_the_role_are_read(tmp_path: Path) -> None:
    profile = {
        "model": "h100",
        "gpus": 8,
        "nvlink": True,
        "rails": ["mlx5_0"],
        "rails_needed": 1,
        "mounts": ["/scratch"],
    }
    data = {
        "node": "gpu001", "interval": 30, "profile": profile, "ignore": [{"check": "xid-94", "until": None}],
        "evidence": {"days": 7, "bytes": 1000}, "textfile": "/var/x.prom",
    }  # fmt: skip
    path = tmp_path / "health.json"
    path.write_text(json.dumps(data))
    settings = load(path)
    assert (settings.node, settings.interval, settings.valid) == ("gpu001", 30.0, 90)
    assert (settings.profile.gpus, settings.profile.rails, settings.profile.mounts) == (8, ("mlx5_0",), ("/scratch",))
    assert (settings.evidence_days, settings.evidence_bytes, settings.textfile) == (7, 1000, "/var/x.prom")
    probes = node_health.probe_settings(settings, AgentPaths(tmp_path))
    assert (probes.has_gpus, probes.has_rails, probes.mounts) == (True, True, ("/scratch",))
    assert probes.checks == f"{tmp_path}/etc/bedplate/health/checks.d"


def test_settings_that_the_role_writes_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "site.bedplate.yml"
    section = "health: {ignore: [{check: xid-94, reason: r, until: 2027-01-31}]}\nmonitoring: {}\n"
    file.write_text((REPOSITORY / "tests/unit/cluster/base.yml").read_text() + section)
    cluster = load_cluster(file)
    for node in cluster.nodes:
        assert cluster.health is not None
        written = json.loads(json.dumps(node_health_part.settings(cluster, cluster.health, node)))
        found = settings_of(written)
        assert (found.node, found.interval) == (node.name, cluster.health.interval)
        assert found.ignore == {"xid-94": date(2027, 1, 31)}
        rows_for(found.profile)


@pytest.mark.parametrize(
    "data",
    [
        [],
        {},
        {"node": ""},
        {"node": "a", "surprise": 1},
        {"node": "a", "interval": 0},
        {"node": "a", "interval": "60"},
        {"node": "a", "interval": True},
        {"node": "a", "profile": {"gpu": 8}},
        {"node": "a", "profile": {"gpus": "8"}},
        {"node": "a", "profile": {"gpus": True}},
        {"node": "a", "profile": {"rails": [1]}},
        {"node": "a", "ignore": ["xid-94"]},
        {"node": "a", "ignore": [{"check": "xid-94", "until": "tomorrow"}]},
        {"node": "a", "evidence": {"days": 0}},
        {"node": "a", "probes": {"sysroot": "/x"}},
    ],
)
def test_mistakes_are_refused(data: Any) -> None:
    with pytest.raises(SettingsError):
        settings_of(data)


def test_exception_ends_after_its_day() -> None:
    rows = [{"check": "xid-94", "until": "1970-01-03"}, {"check": "task-hung", "until": None}]
    settings = settings_of({"node": "a", "profile": {"ignore": ["xid-13"]}, "ignore": rows})
    assert settings.profile_at(2 * DAY).ignore == ("xid-13", "xid-94", "task-hung")
    assert settings.profile_at(3 * DAY).ignore == ("xid-13", "task-hung")
    assert settings.profile_at(float("inf")).ignore == ("xid-13", "task-hung")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"node": "a", "profile": {"thresholds": {"no-such": {"warn": 1}}}}'])
def test_program_ends_with_bad_settings(tmp_path: Path, text: str) -> None:
    path = tmp_path / "health.json"
    path.write_text(text)
    assert node_health.main([str(path), "--root", str(tmp_path)]) == node_health.BAD_SETTINGS
    assert not (tmp_path / "run").exists()
