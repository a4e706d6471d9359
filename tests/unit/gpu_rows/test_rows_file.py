# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's own rows: read beside the cluster file, checked with file and line, and used by the resolver."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.gpu_stack_checks import (
    stack_of,
    version_mistakes,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_rows import rows_file, site_rows
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_rows.site_rows import NO_ROWS
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import stack_table
from tests.kit import ROOT
from tests.unit.gpu_rows.conftest import Write

MODEL = """\
    models:
      h100-96: {generation: hopper, board: hgx, lowest: 580, least: "580.126.09"}
"""


def refused(site: Path) -> list[str]:
    """Return the mistakes of loading a site: file and line, place, and text."""
    with pytest.raises(ClusterFileError) as caught:
        load(site)
    return [line.removeprefix(f"{site.parent}/") for line in str(caught.value).splitlines()]


def test_a_site_without_rows_has_the_table_of_bedplate(site: Path):
    assert rows_file.rows_of(site) == NO_ROWS
    assert site_rows.table_with(NO_ROWS) is stack_table.default()
    assert rows_file.path_of(site.parent / "hosts.yml") is None


def test_a_model_of_the_site_resolves_by_its_own_minimum(site: Path, write: Write):
    text = site.read_text().replace("h100, count: 8}", "h100_96, count: 8}")
    text = text.replace('gpu_stack: {dcgm: "4",', 'gpu_stack: {model: h100-96, dcgm: "4",')
    site.write_text(text)
    assert "[unknown-model]" in refused(site)[0]
    write(MODEL)
    # The table judges: this version is below the minimum.
    (line,) = version_mistakes(load(site))
    assert "h100-96 needs driver 580.126.09 or later; 580.65.06 does not drive it" in line
    site.write_text(text.replace("580.65.06", "580.126.09"))
    assert version_mistakes(load(site)) == []
    profile = load(site).profiles["hgx"]
    assert profile.gpu_stack is not None
    stack = stack_of(profile.gpu_stack, profile)
    assert (stack.driver, stack.platform) == ("580.126.09", "hgx")


def test_a_row_replaces_the_tables_of_its_name(site: Path, write: Write):
    write(
        'models:\n  h100: {generation: hopper, board: pcie, lowest: 600}\nbranches:\n  "580": {ends: "2027-01", source: mail}\n'
    )
    table = site_rows.table_with(rows_file.rows_of(site))
    assert table.models["h100"].lowest == 600
    assert [one.ends for one in table.branches if one.branch == 580] == ["2027-01"]
    assert set(table.models) == set(stack_table.default().models)
    assert any("h100 needs driver branch 600 or later" in line for line in version_mistakes_or_refusals(site))


@pytest.mark.parametrize("text", ["", "# no rows yet\n", "- models\n"])
def test_a_file_without_keys_names_the_page_that_explains_it(site: Path, write: Write, text: str):
    write(text)
    (line,) = refused(site)
    assert line.startswith("gpu.gpu-table.yml:1: ")
    assert "docs/gpu-stack.md" in line
    assert "gpu-table.yml" in (ROOT / "docs/gpu-stack.md").read_text()


def version_mistakes_or_refusals(site: Path) -> list[str]:
    try:
        return version_mistakes(load(site))
    except ClusterFileError as error:
        return str(error).splitlines()


def test_a_kernel_for_which_a_driver_does_not_compile_is_refused(site: Path, write: Write):
    site.write_text(site.read_text().replace("  os: debian-13\n", "  os: debian-13\n  kernel: 6.12.117+deb13-amd64\n"))
    assert version_mistakes(load(site)) == []
    write(
        """\
        breaks:
          - {os: debian-13, driver: "580.65.06", works: 6.12.107, fails: 6.12.117, why: "error: too few arguments"}
        """
    )
    lines = version_mistakes(load(site))
    assert lines
    assert "does not compile on kernel 6.12.117+deb13-amd64: from 6.12.117 on error: too few arguments" in lines[0]


def test_a_change_of_the_rows_is_read_by_the_next_task(site: Path, write: Write):
    first = load(site)
    write(MODEL)
    second = load(site)
    assert first.stamp != second.stamp
    assert second.profiles["hgx"].gpu_stack.rows.models[0].name == "h100-96"  # type: ignore[union-attr]


def test_all_mistakes_of_both_files_are_told_at_once_with_file_and_line(site: Path, write: Write):
    write(
        """\
        models:
          h100-96: {generation: hoper, board: sxm, lowest: "580"}
          b100: {generation: blackwell, board: hgx, lowest: 580, least: "570.10", highest: 570}
        branches:
          580: {ends: "2028-06", source: x}
          "590": {ends: 2028-13, source: x}
          "595": {ends: "2028-06"}
        installed:
          - {os: debian-14, source: nvidia, driver: "580", module: open}
        breaks:
          - {os: debian-13, driver: "580.65.06", works: 6.12.117, fails: 6.12.107, why: x}
        driver: []
        """
    )
    site.write_text(site.read_text().replace("sockets: 2", "sockets: two", 1))
    found = [line.partition(": ") for line in refused(site)]
    places = [(place, rest.partition(": ")[0]) for place, _colon, rest in found]
    assert places[0] == ("gpu.bedplate.yml:14", "profiles.hgx.sockets")
    assert places[1:] == [
        ("gpu.gpu-table.yml:2", "models.h100-96.board"),
        ("gpu.gpu-table.yml:2", "models.h100-96.lowest"),
        ("gpu.gpu-table.yml:2", "models.h100-96.generation"),
        ("gpu.gpu-table.yml:3", "models.b100.least"),
        ("gpu.gpu-table.yml:3", "models.b100.highest"),
        ("gpu.gpu-table.yml:5", "branches[580]"),
        ("gpu.gpu-table.yml:6", "branches.590.ends"),
        ("gpu.gpu-table.yml:7", "branches.595"),
        ("gpu.gpu-table.yml:9", "installed[0].driver"),
        ("gpu.gpu-table.yml:9", "installed[0].os"),
        ("gpu.gpu-table.yml:11", "breaks[0].fails"),
        ("gpu.gpu-table.yml:12", "driver"),
    ]


def test_rows_that_are_not_yaml_are_a_mistake_of_their_file(site: Path, write: Write):
    write("models: [\n")
    (line,) = refused(site)
    assert line.startswith("gpu.gpu-table.yml:2: the file: is not YAML")
