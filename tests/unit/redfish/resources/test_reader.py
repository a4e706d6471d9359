# SPDX-License-Identifier: GPL-3.0-or-later
"""Values, links and collections, over a tree."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources import reader


def get_of(tree: dict[str, Any]) -> reader.Get:
    def get(path: str) -> Any:
        if path not in tree:
            raise reader.MissingResourceError(path)
        return tree[path]

    return get


def linked(*paths: str) -> list[dict[str, str]]:
    return [{"@odata.id": path} for path in paths]


def test_members_of_all_pages_once() -> None:
    tree = {
        "/c": {"Members": linked("/a"), "Members@odata.nextLink": "/c?skip=1"},
        "/c?skip=1": {"Members": linked("/b"), "Members@odata.nextLink": "/c"},
        "/a": {"Id": "a"},
        "/b": {"Id": "b"},
    }
    assert [one["Id"] for one in reader.members(get_of(tree), "/c")] == ["a", "b"]


def test_pages_without_end_are_left() -> None:
    reads: list[str] = []

    def get(path: str) -> Any:
        reads.append(path)
        return {"Members": [], "Members@odata.nextLink": f"{path}x"}

    assert reader.members(get, "/c") == []
    assert len(reads) == 100


def test_member_in_full_is_not_read_again() -> None:
    tree = {"/c": {"Members": [{"@odata.id": "/a", "Id": "a"}, {"@odata.id": "/gone"}, "text", None]}}
    assert [one["Id"] for one in reader.members(get_of(tree), "/c")] == ["a"]


@pytest.mark.parametrize("page", [{}, {"Members": None}, {"Members": {}}])
def test_collection_without_members(page: dict[str, Any]) -> None:
    assert reader.members(get_of({"/c": page}), "/c") == []
    assert reader.members(get_of({}), "/c") == []
    assert reader.members(get_of({}), "") == []


def test_error_of_a_reader_other_than_missing_is_not_hidden() -> None:
    def get(path: str) -> Any:
        raise ConnectionError(path)

    with pytest.raises(ConnectionError):
        reader.optional(get, "/a")


def test_value_of_other_shapes_is_none() -> None:
    assert reader.value({"a": [1]}, "a/1") is None
    assert reader.value({"a": "text"}, "a/b") is None
    assert reader.link({"a": "text"}, "a") == ""
    assert reader.link({"a": {"@odata.id": None}}, "a") == ""
