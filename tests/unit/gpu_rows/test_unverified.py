# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of the table that a set depends on, and whether they were read at their source."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.notices import notices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_rows.unverified import unverified_rows
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import stack_table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.resolve import resolve
from tests.unit.gpu_rows.conftest import Write
from tests.unit.gpu_stack.stack_cases import ask

TABLE = stack_table.default()
DATA: dict[str, Any] = json.loads(Path(stack_table.__file__).with_name("stack.json").read_text())


def test_the_reader_says_of_each_row_what_the_file_says() -> None:
    for key in ("systems", "models", "platforms"):
        assert {name: row.verified for name, row in getattr(TABLE, key).items()} == {
            name: row["verified"] for name, row in DATA[key].items()
        }
    for key in ("repositories", "names", "gpudirect"):
        assert [row.verified for row in getattr(TABLE, key)] == [row["verified"] for row in DATA[key]]
    assert [row.verified for row in TABLE.cuda] == [row["verified"] for row in DATA["cuda"]["offers"]]
    for key in ("dcgm", "toolkit", "nccl"):
        assert getattr(TABLE, key).verified is DATA[key]["verified"]


@pytest.mark.parametrize(
    ("more", "further"),
    [
        ({}, []),
        ({"cuda": ("12.9",)}, ["CUDA"]),
        ({"nccl": "2.28.9"}, ["NCCL"]),
        ({"dcgm": "4"}, ["DCGM"]),
        ({"toolkit": "1.18.2"}, ["repository container-toolkit", "container toolkit"]),
        ({"gpu_count": 8}, ["platform hgx"]),
        ({"gpudirect": ("nvidia-fs",)}, ["nvidia-fs"]),
    ],
)
def test_rows_that_the_set_depends_on_are_named(more: dict[str, Any], further: list[str]) -> None:
    always = ["system ubuntu-24.04", "model h100", "repository nvidia", "package names of nvidia"]
    request = ask("ubuntu-24.04 nvidia 580", "h100", **more)
    found = unverified_rows(request, resolve(request), TABLE)
    assert sorted(found) == sorted([*always, *further])


def test_a_row_that_was_read_at_its_source_is_not() -> None:
    request = ask("debian-13 debian 550", "h100")
    assert unverified_rows(request, resolve(request), TABLE) == ["model h100"]
    known = replace(TABLE, models={**TABLE.models, "h100": replace(TABLE.models["h100"], verified=True)})
    assert unverified_rows(request, resolve(request), known) == []


def test_they_are_said_at_validate_until_the_set_was_installed(site: Path, write: Write) -> None:
    (_driver, line) = notices(load(site), date(2026, 11, 25))
    # One line for all profiles.
    assert line.startswith(f"{site}: ")
    named = line.partition("not read at their source: ")[2].rstrip(".").split(", ")
    assert {"platform hgx", "repository nvidia", "package names of nvidia", "DCGM"} <= set(named)
    assert len(named) == len(set(named))
    write('installed:\n  - {os: debian-13, source: nvidia, driver: "580.65.06", module: open}\n')
    assert notices(load(site), date(2026, 11, 25)) == []
