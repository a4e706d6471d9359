"""The rows of tests/drift: how many kinds there are, and what a finding must have to be that of a row. New rows against their readers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import NOTICE, Finding, to_json
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.drift import apt, names_and_time
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.accounting.accounts_drift import compare
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.accounting.accounts_plan import (
    DesiredAccounts,
    ListedAccounts,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live import live_state
from tests.drift.node import KINDS, fields, judge
from tests.drift.slurm import ROWS, is_of, missed, others
from tests.kit import ROOT

EVERY = [*KINDS, *ROWS]
COUNTING = [row for row in EVERY if row["counts"]]
OWN_FILE = "bedplate's own file"


def by_id(name: str) -> dict[str, Any]:
    (row,) = [row for row in EVERY if row["id"] == name]
    return row


def on(row: dict[str, Any], findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return findings as verify reports them of the machine of a row."""
    return to_json(one if one.machine else one.on(row["machine"]) for one in findings)


def test_enough_kinds_are_made_from_beside_and_few_were_known() -> None:
    assert len({row["id"] for row in EVERY}) == len(EVERY)
    assert len(COUNTING) >= 30
    assert len([row for row in COUNTING if not row["in_trial"]]) >= 12


def test_the_page_on_tests_has_these_numbers() -> None:
    page = " ".join((ROOT / "docs/testing.md").read_text().split())
    new = len([row for row in COUNTING if not row["in_trial"]])
    nodes = len([row for row in KINDS if row["counts"]])
    rows = re.search(r"tests/drift/node\.yml`\D*(\d+)\D*tests/drift/slurm\.yml`\D*(\d+)\D*(.*)", page)
    assert rows
    assert [int(rows[1]), int(rows[2])] == [len(KINDS), len(ROWS)]
    counting = [int(number) for number in re.findall(r"\d+", rows[3])[:4]]
    assert counting == [len(COUNTING), nodes, len(COUNTING) - nodes, new]


def test_a_row_that_does_not_count_says_why() -> None:
    assert [row["id"] for row in COUNTING if "why" in row] == []
    counting = {f"as {row['id']}" for row in COUNTING}
    why = {row["id"]: row["why"] for row in EVERY if not row["counts"]}
    assert {name for name, text in why.items() if text not in {OWN_FILE, *counting}} == {"sysctl-pattern"}
    assert len([text for text in why.values() if text == OWN_FILE]) == 18


@pytest.mark.parametrize(
    ("by", "found", "is_the_rows"),
    [
        ("", "", True),
        ("", "/etc/site.conf:3", False),
        ("/etc/site.conf:3", "/etc/site.conf:3", True),
        ("`scontrol update node`", "`scontrol update node`, Slurm does not record by whom", True),
        ("/etc/site.conf:3", "", False),
    ],
)
def test_who_overrides_is_compared(by: str, found: str, is_the_rows: bool) -> None:
    row = {"id": "x", "kind": "k", "where": "w", "machine": "gpu01", "overridden_by": by}
    (one,) = to_json([Finding("k", "w", "a", "b", machine="gpu01", overridden_by=found)])
    assert is_of(row, one) == is_the_rows
    assert missed([row], [one]) == ([] if is_the_rows else ["x"])
    named, _others = judge({**row, "beside": []}, set(), fields([one]))
    assert bool(named) == (found == by)


def test_what_is_neither_of_a_row_nor_beside_one_is_another() -> None:
    row = {"id": "x", "kind": "k", "where": "w", "machine": "gpu01", "overridden_by": ""}
    beside = [{"machine": "gpu02", "where": "limit * of root"}]
    mine, near, far, skipped = to_json(
        [
            Finding("k", "w", "a", "b", machine="gpu01"),
            Finding("l", "limit nofile of root", "a", "b", machine="gpu02"),
            Finding("l", "limit nofile of root", "a", "b", machine="gpu01"),
            Finding("not-checked", "clock", "a", "b", severity=NOTICE, machine="gpu01"),
        ]
    )
    assert others([{**row, "beside": beside}], [mine, near, far, skipped]) == [far]
    assert others([row], [mine, near, skipped]) == [near]


def test_a_qos_that_sacctmgr_changed() -> None:
    row = by_id("a QOS has another priority")
    found = ListedAccounts(qos={"urgent": {"name": "urgent", "priority": "5"}})
    findings = on(row, compare("molecule", DesiredAccounts(qos={"urgent": {"Priority": 100}}), found, ""))
    assert (missed([row], findings), others([row], findings)) == ([], [])


def test_a_hold_that_is_released(tmp_path: Path) -> None:
    row = by_id("the hold of slurmd is released")
    expected = {"packages": [{"name": name, "version": "24.11.*", "held": True} for name in ("slurmd", "slurm-client")]}
    root = Root(str(tmp_path))
    findings = on(row, apt.findings(root, expected, lambda _words: Outcome(0, "slurm-client\n", "")))
    assert (missed([row], findings), others([row], findings)) == ([], [])


def test_a_node_that_is_drained() -> None:
    row = by_id("a node is drained")
    line = "gpu02|gpu:sim:2|2|1024|drain|24.11.5|root(0)|2026-01-01T00:00:00|disk"
    live, unread = live_state.parse_nodes(line)
    wanted = [{"names": "gpu02", "gres": "gpu:sim:2", "cpus": 2, "memory": 1024, "state": ""}]
    findings = on(
        row, live_state.compare_nodes(wanted, live, {"SlurmUser": "slurm(64030)", "SLURM_VERSION": "24.11.5"})
    )
    assert (unread, missed([row], findings), others([row], findings)) == ([], [], [])


def test_a_name_that_was_changed_live(tmp_path: Path) -> None:
    row = by_id("name-changed-live")
    for path, text in (("proc/sys/kernel/hostname", "stray\n"), ("etc/hostname", "node1\n")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    expected = {"hostname": "node1", "names": {}, "time_servers": []}
    found = fields(to_json(names_and_time.findings(Root(str(tmp_path)), expected)))
    assert judge(row, set(), found) == (found, set())
    assert len(found) == 1
