"""Each kind of drift of tests/drift/node.yml that a container can have: verify names it, and who overrides, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.paths import ssh_config_of
from tests.drift.node import KINDS, cluster, compared, fields, judge, parts

SCENARIO = Path(__file__).parents[1]
ROWS = [row for row in KINDS if row["real"] == "container"]

testinfra_hosts = ["ansible://compute_nodes"]
_found: dict[str, dict[str, Any]] = {}


@pytest.fixture
def results(host) -> dict[str, Any]:
    """Return what verify finds on a node before, with each kind of drift, and after all were taken back."""
    name = str(host.backend.host)
    if name not in _found:
        variables = yaml.safe_load((SCENARIO / "group_vars" / "compute_nodes.yml").read_text())
        told = parts(cluster(SCENARIO / "node_settings.bedplate.yml"), name, variables)
        _found[name] = compared(lambda command, text: _ssh(name, command, text), told, ROWS)
    return _found[name]


def _ssh(name: str, command: str, text: str) -> str:
    words = ["ssh", "-F", str(ssh_config_of("molecule-node_settings")), "-l", "root", name, command]
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_drift_is_named_with_who_overrides(results: dict[str, Any], row: dict[str, Any]) -> None:
    one, before = results["rows"][row["id"]], fields(results["before"])
    assert one["trouble"] == ""
    named, others = judge(row, before, fields(one["found"]))
    assert len(named) == 1, sorted(fields(one["found"]) - before)
    assert not others


def test_after_all_was_taken_back_the_node_is_as_it_was(results: dict[str, Any]) -> None:
    assert fields(results["after"]) == fields(results["before"])


def test_nothing_of_files_units_packages_and_names_differs_on_an_untouched_node(results: dict[str, Any]) -> None:
    """What the kernel of another machine has is no matter of these parts."""
    silent = ("unit", "file", "apt", "package", "host", "time", "login", "pam", "modprobe", "tuned", "boot", "block")
    assert [one for one in fields(results["before"]) if one[0].startswith(silent)] == []
