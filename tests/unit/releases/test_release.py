"""The release of this tree stands in the code, galaxy.yml, pyproject.toml and the changelog, and no program on a node carries it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.common.release import RELEASE, UNRECORDED
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import shipped

ROOT = Path(__file__).parents[3]


def test_all_places_have_one_release():
    assert yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"] == RELEASE
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == RELEASE


def test_the_changelog_has_this_release_first_and_all_before_it_with_a_date():
    titles = re.findall("^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert titles[0].split()[0] == RELEASE
    assert titles[-1].split()[0] == UNRECORDED
    assert all(re.fullmatch(r"[0-9.]+ \(\d{4}-\d\d-\d\d\)", title) for title in titles[1:])


def test_no_program_on_a_node_changes_with_the_release_alone():
    """Its unit would be restarted by every update."""
    for program in ("tuning.apply_tuning", "rdma.apply_rdma", "gpu.mig_program", "gpu_settings.apply_settings"):
        paths = [path for path, _text in shipped.files(program)]
        assert any("/common/" in path for path in paths)
        assert not [path for path in paths if path.endswith("/common/release.py")]
