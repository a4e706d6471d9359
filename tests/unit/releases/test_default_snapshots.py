"""Snapshots of released defaults stay as they are, and describe what they say."""

from __future__ import annotations

import hashlib
import json

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.release import RELEASE, UNRECORDED
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_choices import role_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_interfaces import options
from ansible_collections.bedplate.cluster.plugins.plugin_utils.releases.default_snapshots import (
    SNAPSHOTS,
    release_numbers,
    released,
    schema_defaults,
    snapshot,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.role_mistakes import MISTAKES

DIGESTS = {"0.1.0": "7d2adac3c2f7b5a184ec4fe998f9fad94ebdd5741fd5360f1e51bb6dba8367d4"}
"""Of each released snapshot. A new release adds a line; no line ever changes."""


def test_a_released_snapshot_is_never_edited():
    found = {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in SNAPSHOTS.iterdir()}
    assert found == DIGESTS


def test_every_release_before_this_one_has_a_snapshot():
    assert released()[0] == UNRECORDED
    assert all(release_numbers(one) < release_numbers(RELEASE) for one in released())


@pytest.mark.parametrize("release", released())
def test_a_snapshot_is_of_its_release_and_has_all_parts(release: str):
    found = snapshot(release)
    assert found is not None
    assert found["release"] == release
    assert all(found[part] for part in ("variables", "keys", "slurm", "sysctl", "versions"))


def test_the_first_release_had_these_defaults():
    found = snapshot("0.1.0")
    assert found is not None
    assert found["variables"]["node_tuning_thp"] == "madvise"
    assert found["keys"]["fabric.speed"] == "NDR"
    assert found["keys"]["profiles.<name>.threads_per_core"] == 1
    assert found["slurm"]["options"]["MessageTimeout"] == "30"
    assert found["sysctl"]["vm.swappiness"] == "10"
    assert "580.126.09" in found["versions"]["driver nvidia debian-13"]
    # A template names another variable, and a section is no value.
    assert "node_tuning_cluster_file" not in found["variables"]
    assert "slurm" not in found["keys"]


@pytest.mark.parametrize("release", ["", "0.0.1", "../0.1.0", "../renamed", "next"])
def test_of_other_releases_there_is_no_snapshot(release: str):
    assert snapshot(release) is None


def test_defaults_of_a_schema_are_found_in_maps_lists_and_shorthands():
    inner = {"type": "object", "properties": {"speed": {"type": "string", "default": "x"}, "free": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {
            "plain": inner,
            "map": {"type": "object", "additionalProperties": inner},
            "list": {"anyOf": [{"type": "array", "items": {"anyOf": [inner, {"type": "string"}]}}, inner]},
            "off": {"type": "boolean", "default": False},
            "section": {"type": "object", "default": {}},
        },
    }
    assert dict(schema_defaults(json.loads(json.dumps(schema)))) == {
        "plain.speed": "x",
        "map.<name>.speed": "x",
        "list.speed": "x",
        "off": False,
    }


@pytest.mark.parametrize("release", released())
def test_what_an_earlier_release_had_as_default_may_still_be_set(release: str):
    """A site that keeps an old default, as the report of the update says, must not be refused for it."""
    found = snapshot(release)
    assert found is not None
    # Defaults that were null are not in the snapshot.
    values = {"node_tuning_idle_us": None, **found["variables"]}
    for role in options():
        choices = role_choices(role, values, lambda value: value)
        assert list(MISTAKES[role](choices) if role in MISTAKES else ()) == []
