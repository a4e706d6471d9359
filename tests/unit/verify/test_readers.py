"""The table of readers: one that fails hides no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.verify import readers

FIRST, LAST = Finding("a", "first", "1", "2"), Finding("b", "last", "1", "2")


def breaks(_root: str, _expected: Mapping[str, Any]) -> Iterator[Finding]:
    yield FIRST
    raise KeyError("settings")


def test_a_reader_that_fails_is_a_finding_and_the_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(readers.READERS, "broken", breaks)
    monkeypatch.setitem(readers.READERS, "good", lambda root, expected: [LAST])
    first, unread, last = readers.read({"broken": {}, "good": {}})
    assert (first, last) == (FIRST, LAST)
    assert (unread.kind, unread.where, unread.severity) == ("unread", "part broken", "error")
    assert "settings" in unread.found


def test_a_part_that_nothing_reads_is_not_taken_for_right() -> None:
    (unread,) = readers.read({"nobody": {}})
    assert (unread.kind, unread.where, unread.severity) == ("unread", "part nobody", "error")
