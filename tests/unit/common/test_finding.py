# SPDX-License-Identifier: GPL-3.0-or-later
"""The type of all findings: its text and its JSON."""

from __future__ import annotations

import json

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import (
    NOTICE,
    Finding,
    from_json,
    to_json,
)

PORTS = (("gpu005 mlx5_3", 1), ("su1-r3", 5))


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        (Finding("k", "sysctl x", "10", "60"), "sysctl x: expected 10, found 60"),
        (
            Finding("k", "sysctl x", "10", "60", "reboot", machine="gpu01", overridden_by="/etc/x:3"),
            "gpu01: sysctl x: expected 10, found 60, overridden by /etc/x:3; reboot",
        ),
        (Finding("k", "plane rail0", "", "nothing"), "plane rail0: nothing"),
        (Finding("k", "leaf-03 port 17", "", "a cable", "take it out"), "leaf-03 port 17: a cable; take it out"),
    ],
)
def test_text(finding: Finding, text: str):
    assert str(finding) == text


def test_json_returns_the_same_finding():
    findings = [
        Finding("swapped", "leaf-03 port 17", "a", "b", "swap", ports=PORTS),
        Finding("k", "w", "", "f", "r", NOTICE, "m", "o", True),
    ]
    rows = json.loads(json.dumps(to_json(findings)))
    assert from_json(rows) == findings
    assert to_json(findings)[0]["ports"] == [["gpu005 mlx5_3", 1], ["su1-r3", 5]]
    assert len({*from_json(rows), *findings}) == 2


def test_rows_of_an_older_or_newer_bedplate_are_read():
    (found,) = from_json([{"kind": "k", "where": "w", "expected": "a", "found": "b", "colour": "red"}])
    assert found == Finding("k", "w", "a", "b")
