# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics for node exporter: the text format, escaped labels, a bounded number of series."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent import passed_jobs, textfile
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.textfile import AgentState
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.health_finding import finding
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report import prometheus_text
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.prometheus_text import Metric

AGENT = AgentState(
    1_790_000_000.4, 60.0, {"nvml": 3.25, "mount:/scratch": 1.0}, {"report": "x"}, True, False, {"stale": 4}
)
FINDINGS = [
    finding("xid-79", "cannot-run", "lost", device="0000:3b:00.0"),
    finding("mount", "degraded", "hung", device='/a"b\\c\nd'),
]
_LINE = re.compile(r'bedplate_health_[a-z_]+(\{([a-z]+="([^"\\\n]|\\["\\n])*",?)+\})? -?[0-9.e+]+\Z')


def text() -> str:
    xids = {("79", "0000:3b:00.0"): 2, ("13", ""): 5}
    return prometheus_text.text_of(textfile.metrics("fail", "cannot-run", FINDINGS, xids, AGENT))


def test_each_line_is_of_the_text_format() -> None:
    lines = text().splitlines()
    assert all(line.startswith(("# HELP ", "# TYPE ")) or _LINE.match(line) for line in lines)
    for line in lines:
        if not line.startswith("#"):
            name = re.split(r"[{ ]", line)[0]
            assert any(one.startswith(f"# TYPE {name} ") for one in lines)


def test_samples() -> None:
    lines = text().splitlines()
    for line in (
        'bedplate_health_status{status="fail"} 1',
        'bedplate_health_status{status="ok"} 0',
        'bedplate_health_class{class="cannot-run"} 1',
        'bedplate_health_findings{check="xid-79",class="cannot-run",device="0000:3b:00.0"} 1',
        'bedplate_health_findings{check="mount",class="degraded",device="/a\\"b\\\\c\\nd"} 1',
        'bedplate_health_xid_total{xid="79",gpu="0000:3b:00.0"} 2',
        'bedplate_health_probe_age_seconds{kind="nvml"} 3.2',
        "bedplate_health_agent_last_tick 1790000000",
        'bedplate_health_agent_problem{part="report"} 1',
        "bedplate_health_reported 1",
        'bedplate_health_prolog_passed_total{cause="stale"} 4',
    ):
        assert line in lines


def test_many_findings_have_a_bounded_number_of_series() -> None:
    many = [finding(f"check-{number}", "note", "x") for number in range(1000)]
    lines = prometheus_text.text_of(textfile.metrics("ok", "note", many, {}, AGENT)).splitlines()
    assert len(lines) < 300
    assert "bedplate_health_findings_hidden 800" in lines


def test_passed_jobs_are_counted_by_cause(tmp_path: Path) -> None:
    path = tmp_path / "passed"
    assert passed_jobs.counted(path) == {}
    path.write_text("stale\nabsent\nstale\n\nX Y\n")
    assert passed_jobs.counted(path) == {"stale": 2, "absent": 1, "other": 2}
    passed_jobs.empty_if_large(path)
    assert passed_jobs.counted(path)["stale"] == 2
    path.write_text("stale\n" * 200_000)
    assert sum(passed_jobs.counted(path).values()) < 50_000
    passed_jobs.empty_if_large(path)
    assert path.read_text() == ""


def test_many_causes_have_a_bounded_number_of_series(tmp_path: Path) -> None:
    path = tmp_path / "passed"
    path.write_text("".join(f"cause-{chr(97 + number // 26)}{chr(97 + number % 26)}\n" for number in range(400)))
    found = passed_jobs.counted(path)
    assert len(found) == 17
    assert sum(found.values()) == 400


@given(st.text(max_size=50))
def test_label_of_any_text_is_one_line(value: str) -> None:
    lines = prometheus_text.text_of([Metric("x", "gauge", "Help.", [({"a": value}, 1)])]).split("\n")
    assert len(lines) == 4


def test_problem_of_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    found = textfile.metrics("ok", "", [], {}, AGENT)
    assert textfile.write(tmp_path / "a.prom", found) == ""
    assert [one.name for one in tmp_path.iterdir()] == ["a.prom"]
    assert "absent" in textfile.write(tmp_path / "absent/a.prom", found)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_metrics() -> None:
    done = subprocess.run(["promtool", "check", "metrics"], input=text(), text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
