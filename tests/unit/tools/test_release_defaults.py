"""The tool that writes a snapshot reads the same defaults from a tree's files as bedplate itself has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.update.changed_defaults import current
from tools import release_defaults

ROOT = Path(__file__).parents[3]


def test_the_files_of_this_tree_have_the_defaults_of_its_code():
    assert release_defaults.of_tree(ROOT) == current()


def test_a_snapshot_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(release_defaults, "SNAPSHOTS", tmp_path)
    monkeypatch.setattr(release_defaults, "of_commit", lambda commit: {"variables": {"of": commit}})
    assert release_defaults.main(["0.9.0", "abc"]) == 0
    assert json.loads((tmp_path / "0.9.0.json").read_text()) == {"release": "0.9.0", "variables": {"of": "abc"}}
    with pytest.raises(SystemExit, match=r"0\.9\.0\.json exists"):
        release_defaults.main(["0.9.0", "def"])
    assert "abc" in (tmp_path / "0.9.0.json").read_text()


def test_a_tree_without_one_of_the_files_is_refused(tmp_path: Path):
    with pytest.raises(SystemExit, match=r"defaults\.json: 0 files"):
        release_defaults.of_tree(tmp_path)
