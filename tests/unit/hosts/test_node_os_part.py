# SPDX-License-Identifier: GPL-3.0-or-later
"""What node_os does not touch where the site has not asked for it: names, the clock, packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.decided import decided, decision

BASE = Path(__file__).parents[1] / "cluster" / "base.yml"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    file = tmp_path / "site.bedplate.yml"
    file.write_text(BASE.read_text())
    return file


def paths(site: Path, **variables: object) -> list[str]:
    return [entry["path"] for entry in decided("node_os", site, "ctl1", **variables)["files"]]


def test_names_that_the_site_manages_are_left_alone(site: Path) -> None:
    assert "/etc/hosts" in paths(site)
    assert "/etc/hosts" not in paths(site, manage_hosts=False)


def test_without_time_servers_the_clock_is_left_alone(site: Path) -> None:
    assert "software" not in decision("node_os", site, "ctl1").parts
    own = decided("node_os", site, "ctl1", "software", packages=["htop"])
    assert (own["packages"], own["units"]) == (["htop"], [])
    both = decided("node_os", site, "ctl1", "software", packages=["htop"], time_servers=["ntp1"])
    assert both["packages"] == ["htop", "chrony"]
    assert [unit["name"] for unit in both["units"]] == ["chrony.service"]
