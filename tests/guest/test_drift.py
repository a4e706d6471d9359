# SPDX-License-Identifier: GPL-3.0-or-later
"""Each kind of drift of tests/drift/node.yml that takes a kernel or a boot loader: named with who overrides, and silent when taken back."""

from __future__ import annotations

from typing import Any

import pytest

from lab.guest.machine import Guest
from lab.shell import say
from tests.drift.node import KINDS, fields, judge
from tests.guest.tuned_node import TunedNode

pytestmark = [pytest.mark.guest]

ROWS = [row for row in KINDS if row["real"] == "guest"]
VARIABLES = {
    "node_tuning_cmdline": ["audit=0"],
    "node_tuning_sysctl": {"vm.swappiness": 7},
    "node_tuning_modules": ["rdma_rxe"],
}


@pytest.fixture(scope="module")
def results(guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what verify finds on a tuned guest with each kind of drift; the first row changes nothing."""
    node = TunedNode(guest, tmp_path_factory.mktemp("cluster"), dict(VARIABLES))
    run = node.play("apply")
    assert run.code == 0, run.told
    rows = [{"make": "true", "undo": "true"}, *ROWS]
    found = node.mutations([{"do": row["make"], "undo": row["undo"]} for row in rows])
    assert [one["trouble"] for one in found["rows"]] == [""] * len(rows)
    say("guest", f"{len(ROWS)} kinds of drift made from beside")
    return {
        "before": fields(found["rows"][0]["findings"]),
        "after": fields(found["findings_after"]),
        **{row["id"]: fields(one["findings"]) for row, one in zip(ROWS, found["rows"][1:], strict=True)},
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_drift_is_named_with_who_overrides(results: dict[str, Any], row: dict[str, Any]) -> None:
    named, others = judge(row, results["before"], results[row["id"]])
    assert len(named) == 1, sorted(results[row["id"]] - results["before"])
    assert not others


def test_an_untouched_guest_lacks_only_what_its_next_boot_brings(results: dict[str, Any]) -> None:
    at_boot = {"kernel-cmdline", "cpu-isolation", "iommu", "huge-pages", "numa-cores"}
    assert {one for one in results["before"] if one[0] not in at_boot} == set()
    assert results["after"] == results["before"]
