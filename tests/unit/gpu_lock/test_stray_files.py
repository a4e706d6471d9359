# SPDX-License-Identifier: GPL-3.0-or-later
"""A lock or own rows that no cluster file reads are mistakes, with the right name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from tests.kit import ROOT


@pytest.fixture
def site(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "tests/roles/clusters/gpu", tmp_path / "site")
    return tmp_path / "site/gpu.bedplate.yml"


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("old.gpu-lock.json", "gpu.gpu-lock.json"),
        ("old.gpu-table.yml", "gpu.gpu-table.yml"),
        ("gpu.gpu-table.yaml", "gpu.gpu-table.yml"),
    ],
)
def test_a_file_of_another_name_is_refused(site: Path, name: str, allowed: str) -> None:
    site.with_name(name).write_text("models: {}\n")
    with pytest.raises(ClusterFileError) as caught:
        load(site)
    (found,) = caught.value.mistakes
    assert found.where == "the file"
    assert name in found.message
    assert f"Allowed: {allowed}." in found.message


def test_files_of_a_second_cluster_file_are_its_own(site: Path) -> None:
    shutil.copy(site, site.with_name("east.bedplate.yaml"))
    site.with_name("east.gpu-table.yml").write_text("models: {}\n")
    assert load(site).path == str(site)
