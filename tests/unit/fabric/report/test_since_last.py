"""What is new since the last comparison, and what is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.filter.fabric import fabric_comparison
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import Discovery
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.comparison import (
    ComparisonReport,
    comparison_report,
)
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.pod import cluster, cut, seen, swap, told


def report(found: Cluster, discovery: Discovery, last: str = "") -> ComparisonReport:
    return comparison_report(found, told(discovery), last=last)


def test_the_first_comparison_marks_nothing(tmp_path: Path):
    found = cluster(tmp_path)
    discovery = seen(found)
    swap(discovery, "su1-r3", 5, 6)
    first = report(found, discovery)
    assert "NEW" not in first.table
    data = json.loads(first.files["findings.json"])
    assert (data["new"], data["gone"], [one["new"] for one in data["findings"]]) == (0, [], [False])
    # The same again is the same file.
    assert report(found, discovery, first.files["findings.json"]) == first


def test_what_is_new_is_marked_and_what_is_gone_is_named(tmp_path: Path):
    found = cluster(tmp_path)
    discovery = seen(found)
    swap(discovery, "su1-r3", 5, 6)
    swap(discovery, "su1-r2", 1, 2)
    first = report(found, discovery)
    discovery = seen(found)
    swap(discovery, "su1-r3", 5, 6)
    cut(discovery, "gpu030 mlx5_7")
    second = report(found, discovery, first.files["findings.json"])
    data = json.loads(second.files["findings.json"])
    assert {one["kind"]: one["new"] for one in data["findings"]} == {"missing": True, "swapped": False}
    assert data["new"] == 1
    assert [one["where"] for one in data["gone"]] == ["rack net1, su1-r2 port 1"]
    check_messages("comparison: new and gone findings", [second.table])
    third = report(found, discovery, second.files["findings.json"])
    assert json.loads(third.files["findings.json"])["new"] == 0
    assert "since the last comparison" not in third.summary
    assert report(found, discovery, third.files["findings.json"]) == third


@pytest.mark.parametrize("last", ["", "{", "[]", '{"fabric": "pod32"}', '{"fabric": "pod32", "findings": [1]}', "null"])
def test_a_last_comparison_that_cannot_be_read_marks_nothing(tmp_path: Path, last: str):
    found = cluster(tmp_path)
    discovery = seen(found)
    swap(discovery, "su1-r3", 5, 6)
    assert report(found, discovery, last) == report(found, discovery)
    # It has no finding, so the swap would be new.
    other = report(found, seen(found)).files["findings.json"].replace('"pod32"', '"other"')
    assert report(found, discovery, other) == report(found, discovery)


def test_the_filter_reads_the_last_findings_of_its_directory(tmp_path: Path):
    found = cluster(tmp_path)
    discoveries = [{"name": one.name, "text": one.text} for one in told(seen(found))]
    discovery = seen(found)
    swap(discovery, "su1-r3", 5, 6)
    (tmp_path / "findings.json").write_text(report(found, discovery).files["findings.json"])
    after = fabric_comparison(found.path, discoveries, str(tmp_path))
    assert after["summary"].endswith("no findings; 1 gone since the last comparison")
    assert "GONE" in after["table"]
    (tmp_path / "findings.json").write_bytes(b"\xff\xfe")
    assert "GONE" not in fabric_comparison(found.path, discoveries, str(tmp_path))["table"]
