"""Verify's reader of a node's verdict: what it finds on trees of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.report import node_drift

BOOT = "5f2c1a90-0000-4000-8000-123456789abc"
OTHER = BOOT.replace("5f", "6f")


def machine(folder: Path, verdict: str | None, *, off: bool = False) -> str:
    for path, text in {
        "proc/sys/kernel/random/boot_id": f"{BOOT}\n",
        "proc/uptime": "1000.50 9.00\n",
        node_drift.VERDICT: verdict,
        node_drift.GATE_OFF: "" if off else None,
    }.items():
        if text is not None:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
    return str(folder)


@pytest.mark.parametrize(
    ("verdict", "kinds"),
    [
        (f"1 ok {BOOT} 990 180 -\n", []),
        (f"1 warn {BOOT} 990 180 transient ib-link-downed@mlx5_0/1\n", []),
        (f"1 fail {BOOT} 990 180 reset xid-48@0000:3b:00.0\n", ["health"]),
        (f"1 unknown {BOOT} 990 180 -\n", ["health"]),
        (f"1 ok {BOOT} 700 180 -\n", ["health-verdict"]),
        (f"1 ok {OTHER} 990 180 -\n", ["health-verdict"]),
        ("1 ok\n", ["health-verdict"]),
        ("", ["health-verdict"]),
        (None, ["health-verdict"]),
    ],
)
def test_each_state_of_the_verdict(tmp_path: Path, verdict: str | None, kinds: list[str]) -> None:
    found = node_drift.findings(machine(tmp_path, verdict), {"gate": "prolog"})
    assert [one.kind for one in found] == kinds


@pytest.mark.parametrize(("gate", "kinds"), [("prolog", ["health-gate"]), ("strict", ["health-gate"]), ("open", [])])
def test_a_gate_that_is_off_on_the_node_alone_is_found(tmp_path: Path, gate: str, kinds: list[str]) -> None:
    found = node_drift.findings(machine(tmp_path, f"1 ok {BOOT} 990 180 -\n", off=True), {"gate": gate})
    assert [one.kind for one in found] == kinds


@pytest.mark.parametrize(
    ("details", "count"),
    [
        ({"problems": {"report": "Extra stays as it is: Extra 'rack 7' is not JSON"}}, 1),
        ({"problems": {str(number): "no" for number in range(9)}}, 3),
        ({"problems": {}}, 0),
        ({"problems": ["no"]}, 0),
        ([], 0),
        (None, 0),
    ],
)
def test_problems_of_the_agent_are_found(tmp_path: Path, details: object, count: int) -> None:
    """Such as an Extra of Slurm that the site writes: the limiter has no report of the node then."""
    root = machine(tmp_path, f"1 fail {BOOT} 990 180 reset xid-48@0000:3b:00.0\n")
    (tmp_path / node_drift.DETAILS).write_text(json.dumps(details) if details is not None else "{")
    found = list(node_drift.findings(root, {"gate": "prolog"}))
    assert [one.kind for one in found] == ["health-agent"] * count + ["health"]
