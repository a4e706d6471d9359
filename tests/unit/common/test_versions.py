"""Versions that fit: exact, or by their beginning."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import matches_any
from ansible_collections.bedplate.cluster.plugins.module_utils.common.versions import matches, without_epoch


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("1.2-1", "1.2*", True),
        ("1.20-1", "1.2-*", False),
        ("1", "*", True),
        ("1", "", True),
        ("1.2-1", "1.2", False),
        ("1.2", "1.2", True),
        # Only at the end is it a pattern, and no other sign is one.
        ("1.2-1", "*-1", False),
        ("1.2", "1.?", False),
        ("3:1.2", "1.2", False),
    ],
)
def test_a_version_fits_whole_or_by_its_beginning(version: str, wanted: str, fits: bool) -> None:
    assert matches(version, wanted) is fits


def test_an_epoch_is_what_is_before_the_colon() -> None:
    assert [without_epoch(one) for one in ("3:1.2-1", "1.2-1", "0:1")] == ["1.2-1", "1.2-1", "1"]


def test_a_name_is_one_of_several_or_matches_their_patterns() -> None:
    assert [matches_any("libnpp-12-9", one) for one in (["libnpp-12-9"], ["x", "*-12-[0-9]"], ["libnpp"], [])] == [
        True,
        True,
        False,
        False,
    ]
