# SPDX-License-Identifier: GPL-3.0-or-later
"""Notices on drivers: judged by date and by recorded installations."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.notices import notices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_rows import lifecycle
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import stack_table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.resolve import resolve
from tests.unit.gpu_rows.conftest import Write
from tests.unit.gpu_stack.stack_cases import ask

TABLE = stack_table.default()
DEBIAN = "debian-13 debian 550"
NVIDIA = "debian-13 nvidia 595"


@pytest.mark.parametrize(
    ("day", "begins"),
    [
        # NVIDIA's branch 595 ends in March 2027.
        (date(2026, 11, 25), ""),
        (date(2026, 12, 28), ""),
        (date(2026, 12, 30), "driver branch 595 reaches its end of life in March 2027."),
        (date(2027, 3, 31), "driver branch 595 reaches its end of life in March 2027."),
        (date(2027, 4, 1), "driver branch 595 is at its end of life since March 2027 and gets no security updates."),
    ],
)
def test_a_branch_is_judged_by_the_day(day: date, begins: str):
    found = lifecycle.end_notice(ask(NVIDIA, "h100"), TABLE, day)
    assert found.startswith(begins)
    assert bool(found) == bool(begins)


def test_only_branches_that_last_longer_and_that_the_source_has_are_named():
    found = lifecycle.end_notice(ask("debian-13 nvidia 610", "h100"), TABLE, date(2026, 11, 25))
    # The table has 620 for no system.
    assert "last longer here: 595 (until March 2027), 580 (until June 2028). Source: docs.nvidia.com" in found
    found = lifecycle.end_notice(ask(DEBIAN, "h100"), TABLE, date(2026, 11, 25))
    assert "last longer here: none." in found


def test_a_date_that_was_not_read_at_the_source_is_marked():
    found = lifecycle.end_notice(ask("debian-13 nvidia 590", "h100"), TABLE, date(2026, 11, 25))
    assert "since September 2026 (not verified)" in found


def test_every_branch_of_the_table_has_an_end_or_is_a_branch_without_one():
    known = {row.branch for row in TABLE.branches}
    # NVIDIA publishes no end of a new feature branch.
    assert {driver.branch for driver in TABLE.drivers} - known == {615}


def test_a_driver_whose_real_packages_were_installed_has_no_notice():
    for request, is_seen in (
        (ask(DEBIAN, "h100", module="proprietary"), True),
        (ask(DEBIAN, "h100", module="open"), False),
        (ask("debian-12 debian 535.309.01", "a100", module="proprietary"), True),
        (ask(NVIDIA, "h100"), False),
    ):
        found = lifecycle.untested_notice(request, resolve(request), TABLE)
        assert ("never seen installed" in found) is not is_seen, request


def test_what_is_recorded_as_installed_is_a_driver_of_the_table():
    for row in TABLE.installed:
        for system in row.systems:
            assert row.version in [one.version for one in TABLE.drivers_of(system, row.source)]


def test_a_cluster_has_a_notice_for_all_profiles_alike_which_the_sites_own_row_ends(site: Path, write: Write):
    (line, _rows) = notices(load(site), date(2026, 11, 25))
    assert line.startswith(
        f"{site}: profiles hgx, card: driver 580.65.06 of nvidia on debian-13 with the open kernel module"
    )
    row = '{os: debian-13, source: nvidia, driver: "580.65.06", module: open}'
    assert f"add {row} to `installed` in gpu.gpu-table.yml" in line
    write(f"installed:\n  - {row}\n")
    assert notices(load(site), date(2026, 11, 25)) == []
    write(f'installed:\n  - {row}\nbranches:\n  "580": {{ends: "2026-10", source: a letter of the vendor}}\n')
    (line,) = notices(load(site), date(2026, 11, 25))
    assert "is at its end of life since October 2026 and gets" in line
    assert "gpu.gpu-table.yml: a letter of the vendor" in line
