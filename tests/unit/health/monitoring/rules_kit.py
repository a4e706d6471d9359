# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the role health_control, and the names of all metrics that this project emits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent import textfile
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control import control_metrics
from ansible_collections.bedplate.cluster.plugins.module_utils.health.exporter import slurm_answers, slurm_metrics
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.prometheus_text import Metric
from tests.unit.health.monitoring import recorded_slurm

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "roles/health_control/files/prometheus"
TESTS = sorted((FOLDER / "tests").glob("*.yml"))
FOREIGN = {
    "up": "Prometheus",
    "node_timex_offset_seconds": "node exporter, collector timex",
    "node_timex_sync_status": "node exporter, collector timex",
    "node_filesystem_avail_bytes": "node exporter, collector filesystem",
    "node_filesystem_size_bytes": "node exporter, collector filesystem",
    "node_textfile_scrape_error": "node exporter, collector textfile",
    "DCGM_FI_DEV_GPU_TEMP": "DCGM's exporter, its default list of counters",
}
"""Metrics of other programs, and which ones."""
_KEYWORDS = {"and", "or", "unless", "by", "on", "without", "ignoring", "group_left", "group_right", "offset", "bool"}


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def alerts() -> dict[str, dict[str, Any]]:
    rules = [rule for group in load(FOLDER / "alerts.yml")["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    return {rule["alert"]: rule for rule in rules}


def recorded() -> dict[str, str]:
    """Return the names that recording.yml records, and their expressions."""
    return {
        rule["record"]: rule["expr"] for group in load(FOLDER / "recording.yml")["groups"] for rule in group["rules"]
    }


def agent_metrics(findings: Any = (), xids: Any = None, *, status: str = "ok", time: float = 0) -> list[Metric]:
    state = textfile.AgentState(time, 60, {"nvml": 1.0}, {"evidence": "full"}, is_reported=True, is_foreign=False)
    worst = findings[0].health_class if findings else ""
    return list(textfile.metrics(status, worst, findings, xids or {}, state))


def emitted() -> set[str]:
    """Return the names of all metrics of agent, controller and exporter."""
    diagnosis = slurm_answers.diagnosis_of(recorded_slurm.SDIAG)
    groups = (
        control_metrics.control_metrics(control_metrics.ControlState(0, True, False, None)),
        slurm_metrics.call_metrics(slurm_metrics.CallState({"sinfo": True})),
        slurm_metrics.node_metrics(slurm_answers.nodes_of(recorded_slurm.SINFO)),
        slurm_metrics.job_metrics({}),
        slurm_metrics.diagnosis_metrics(diagnosis),
    )
    found = {one.name for group in groups for one in group}
    return found | {one.name for one in agent_metrics()}


def names_in(expression: str) -> set[str]:
    """Return the metrics of an expression.

    >>> sorted(names_in('max by (node) (a{x="b"} > 1) unless on (node) rate(c:d[5m]) > time()'))
    ['a', 'c:d']
    """
    text = re.sub(r'"[^"]*"', "", expression)
    text = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", text)
    text = re.sub(r"\b(by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)", " ", text)
    return set(re.findall(r"(?<![\w:.])[A-Za-z_:][\w:]*(?![\w:]*\s*\()", text)) - _KEYWORDS


def matched(expression: str, label: str) -> Iterator[str]:
    """Yield the values of a label that an expression names; alternatives of a pattern one by one."""
    for _operator, value in re.findall(rf'\b{label}(=~|=)"([^"]*)"', expression):
        yield from value.split("|")
