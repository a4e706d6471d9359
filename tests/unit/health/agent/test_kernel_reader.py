# SPDX-License-Identifier: GPL-3.0-or-later
"""The log behind the agent: after an error it is opened again, from the cursor, and evidence has each record once."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.clock import Moment
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.kernel_reader import (
    UNREADABLE,
    KernelReader,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_records import record_line

from .agent_kit import NOON, XID_94

NOW = Moment(1000.0, NOON)


def test_log_that_is_opened_again_is_read_from_the_cursor(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(b"".join(record_line(number, number, XID_94) for number in range(3)))
    reader = KernelReader(path, -1)
    assert [one.kind for one in reader.read(NOW, 5).events] == ["xid"] * 3
    path.rename(tmp_path / "away")
    reader.close()
    assert [one.sequence for one in reader.read(NOW, 5).events] == [UNREADABLE]
    (tmp_path / "away").rename(path)
    assert reader.read(NOW, 5).events == ()
    assert reader.sequence == 2
    assert len(reader.last) == 3
