# SPDX-License-Identifier: GPL-3.0-or-later
"""The cases of the alerts notice a changed rule: without its `for`, with another limit, with other checks."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.health.monitoring.rules_kit import FOLDER, TESTS, alerts, load

ALERTS = alerts()
# `x > 0` for a time since 1970: another small limit is the same rule.
SAME = {("BedplateDryRunPastDate", "limit")}


def mutants(rule: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield changed rules with the kind of the change."""
    expression = rule["expr"]
    yield "for", {key: value for key, value in rule.items() if key != "for"}
    for kind, pattern, new in (
        ("limit", r"([<>]) ([0-9.]+)", lambda found: f"{found[1]} {float(found[2]) * 10 + 1}"),
        ("value", r"== ?[01]\b", "== 7"),
        ("check", r'check=~?"[^"]*"', 'check=~".+"'),
        ("class", r'class=~?"[^"]*"', 'class=~".+"'),
        ("unless", "unless", "and"),
    ):
        yield kind, {**rule, "expr": re.sub(pattern, new, expression)}  # type: ignore[arg-type]


@pytest.mark.full_health
@pytest.mark.tools("promtool")
@pytest.mark.parametrize("name", ALERTS)
def test_a_changed_rule_fails_its_case(tmp_path: Path, name: str) -> None:
    (case,) = [(load(path), one) for path in TESTS for one in load(path)["tests"] if one["name"] == name]
    (tmp_path / "recording.yml").write_text((FOLDER / "recording.yml").read_text())
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/case.yml").write_text(yaml.safe_dump({**case[0], "tests": [case[1]]}))

    def passes(rule: dict[str, Any]) -> bool:
        (tmp_path / "alerts.yml").write_text(yaml.safe_dump({"groups": [{"name": "one", "rules": [rule]}]}))
        done = subprocess.run(
            ["promtool", "test", "rules", str(tmp_path / "tests/case.yml")],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        return done.returncode == 0

    assert passes(ALERTS[name])
    unnoticed = [kind for kind, rule in mutants(ALERTS[name]) if rule != ALERTS[name] and passes(rule)]
    assert [kind for kind in unnoticed if (name, kind) not in SAME] == []
