# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of a dump are counted in both forms of mariadb-dump, however the bytes are cut; a dump without its last line is not complete."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.dump_rows import DumpRows
from tests.kit.backups import DUMP, ROWS


def counted(text: str, size: int) -> DumpRows:
    found = DumpRows()
    data = text.encode()
    for start in range(0, len(data), size):
        found.feed(data[start : start + size])
    found.finish()
    return found


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_rows_of_each_table(size: int):
    found = counted(DUMP, size)
    assert found.rows == ROWS
    assert found.is_complete()


def test_a_dump_that_is_cut_short():
    found = counted(DUMP[: DUMP.index("-- Dump completed")], 50)
    assert not found.is_complete()
    assert found.finish() == ");"


def test_a_value_that_looks_like_a_statement():
    text = "INSERT INTO `t` VALUES\n(1,'INSERT INTO `u` VALUES ('),\n(2,'');\n-- Dump completed on x\n"
    assert counted(text, 9).rows == {"t": 2}
