# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules and examples for Prometheus and Alertmanager: the real promtool and amtool accept them, and each alert has its three cases."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.exporter import slurm_answers
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.health_finding import CLASSES
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.verdict_line import STATUSES
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables import thresholds
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load as load_cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.health import monitoring_files
from tests.unit.health.monitoring.rules_kit import (
    FOLDER,
    FOREIGN,
    ROOT,
    TESTS,
    alerts,
    emitted,
    load,
    matched,
    names_in,
    recorded,
)

ALERTS = alerts()
EXPECTED = {"bedplate:targets:expected", "bedplate:gpus:expected"}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def accepted(*command: str | Path) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.tools("promtool")
def test_promtool_accepts_rules_and_the_example() -> None:
    assert f"SUCCESS: {len(ALERTS)} rules found" in accepted("promtool", "check", "rules", FOLDER / "alerts.yml")
    assert f"SUCCESS: {len(recorded())} rules found" in accepted("promtool", "check", "rules", FOLDER / "recording.yml")
    accepted("promtool", "check", "config", FOLDER / "prometheus.example.yml")


@pytest.mark.tools("promtool")
@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_rules_fire_stay_silent_and_resolve(path: Path) -> None:
    accepted("promtool", "test", "rules", path)


@pytest.mark.tools("promtool")
def test_promtool_accepts_expected_numbers_and_targets(tmp_path: Path) -> None:
    site = tmp_path / "site.bedplate.yml"
    site.write_text((ROOT / "tests/unit/cluster/base.yml").read_text() + "health: {}\nmonitoring: {dcgm_port: 9400}\n")
    cluster = load_cluster(site)
    (tmp_path / "expected.yml").write_text(json.dumps(monitoring_files.expected_rules(cluster)))
    accepted("promtool", "check", "rules", tmp_path / "expected.yml")
    for name, text in monitoring_files.target_files(cluster).items():
        (tmp_path / name).write_text(text)
    config = (FOLDER / "prometheus.example.yml").read_text().replace("/etc/bedplate/prometheus/targets", str(tmp_path))
    (tmp_path / "prometheus.yml").write_text(config)
    assert "WARNING" not in accepted("promtool", "check", "config", tmp_path / "prometheus.yml")


@pytest.mark.tools("amtool")
def test_amtool_accepts_the_example_and_routes_by_severity() -> None:
    example = FOLDER / "alertmanager.example.yml"
    assert "3 inhibit rules" in accepted("amtool", "check-config", example)
    routes = ("amtool", "config", "routes", "test", f"--config.file={example}")
    assert accepted(*routes, "severity=page").strip() == "pages"
    assert accepted(*routes, "severity=ticket").strip() == "tickets"


def test_inhibition_names_alerts_and_labels_that_exist() -> None:
    for rule in load(FOLDER / "alertmanager.example.yml")["inhibit_rules"]:
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            pattern = re.compile(matcher.partition('"')[2].rstrip('"'))
            names = {name for name in ALERTS if pattern.fullmatch(name)}
            count = len(re.findall(r"[(|]", pattern.pattern)) or 1
            assert len(names) == count, matcher


def cases() -> dict[str, dict[str, Any]]:
    found = [case for path in TESTS for case in load(path)["tests"]]
    assert len({case["name"] for case in found}) == len(found)
    return {case["name"]: case for case in found}


def seconds(text: str) -> float:
    return float(text[:-1]) * _UNITS[text[-1]]


def test_each_alert_has_a_case_and_each_case_an_alert() -> None:
    assert set(cases()) == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_stays_silent_then_fires_for_some_series_then_resolves(name: str) -> None:
    case = cases()[name]
    steps = case["promql_expr_test"]
    assert {one["expr"] for one in steps} == {f'ALERTS{{alertname="{name}", alertstate="firing"}}'}
    times = [seconds(one["eval_time"]) for one in steps]
    assert times == sorted(times)
    assert [bool(one["exp_samples"]) for one in steps] == [False, True, False]
    severity = ALERTS[name]["labels"]["severity"]
    for sample in steps[1]["exp_samples"]:
        assert f'severity="{severity}"' in sample["labels"]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_severity_and_a_remedy_that_can_be_run(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert set(rule["annotations"]) == {"summary", "remedy"}
    commands = re.findall(r"`([^`]+)`", rule["annotations"]["remedy"])
    assert commands
    for playbook in re.findall(r"playbooks/\S+?\.yml", rule["annotations"]["remedy"]):
        assert (ROOT / playbook).is_file(), playbook


@pytest.mark.parametrize("name", ALERTS)
def test_annotations_use_labels_that_the_alert_has(name: str) -> None:
    rule = ALERTS[name]
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    shown = cases()[name]["promql_expr_test"][1]["exp_samples"]
    fired = {label for one in shown for label in re.findall(r"(\w+)=", one["labels"])}
    # A target outside the racks has `host` instead of `node`, and a rack is not in each case.
    assert used <= fired | {"node", "host", "rack"}
    aggregated = re.match(r"\s*(?:max|min|sum|count) by \(([^)]*)\)", rule["expr"])
    if aggregated and " or " not in rule["expr"]:
        assert used <= set(re.findall(r"\w+", aggregated[1]))


def test_each_metric_is_emitted() -> None:
    known = emitted() | set(FOREIGN) | set(recorded()) | EXPECTED
    used = set()
    for expression in (*(one["expr"] for one in ALERTS.values()), *recorded().values()):
        names = names_in(expression)
        assert names, expression
        assert names <= known, names - known
        used |= names
    assert set(FOREIGN) <= used
    assert used >= EXPECTED


def test_cases_use_metrics_and_labels_that_are_emitted() -> None:
    known = emitted() | set(FOREIGN) | EXPECTED
    for case in cases().values():
        for one in case["input_series"]:
            assert names_in(one["series"]) <= known


@pytest.mark.parametrize("name", [*ALERTS, *recorded()])
def test_values_of_labels_exist(name: str) -> None:
    expression = ALERTS[name]["expr"] if name in ALERTS else recorded()[name]
    checks = set(thresholds.default().rows)
    assert {one for one in matched(expression, "check") if not re.search(r"[+?*]", one)} <= checks
    assert set(matched(expression, "class")) <= set(CLASSES)
    assert set(matched(expression, "status")) <= set(STATUSES)
    assert set(matched(expression, "state")) <= set(slurm_answers.STATES)


def test_unavailable_states_are_those_of_the_exporter() -> None:
    rule = recorded()["partition:bedplate_slurm_unavailable:ratio"]
    assert set(matched(rule, "state")) == set(slurm_answers.UNAVAILABLE)
