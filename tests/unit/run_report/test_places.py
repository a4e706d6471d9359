# SPDX-License-Identifier: GPL-3.0-or-later
"""Racks of the report: of the cluster file, if the run has one that can be read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.run_report.report_places import site_of
from lab.paths import ROOT


def manager(path: str) -> Any:
    group = SimpleNamespace(get_vars=lambda: {"bedplate_cluster_file": path} if path else {})
    return SimpleNamespace(_inventory=SimpleNamespace(groups={"all": group}))


def test_hosts_have_the_racks_of_the_cluster_file():
    name, places = site_of(manager(str(ROOT / "inventories/lab/lab.bedplate.yml")))
    assert name == "lab"
    assert {"gpu01", "gpu04"} <= set(places)
    assert all(place.rack for place in places.values())


@pytest.mark.parametrize("text", ["racks: [", None])
def test_a_run_without_a_readable_cluster_file_has_no_racks(tmp_path: Path, text: str | None):
    path = tmp_path / "broken.bedplate.yml"
    path.write_text(text or "")
    assert site_of(manager(str(path) if text else "")) == ("", {})
    assert site_of(None) == ("", {})
    assert site_of(SimpleNamespace(_inventory=None)) == ("", {})
