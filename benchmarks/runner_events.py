# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure bytes of ansible-runner's event files per host, with the filter of the CI example and without it."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from ansible_runner.config.runner import RunnerConfig
from ansible_runner.runner import Runner

from benchmarks.process import ROOT, BenchmarkError, Row

HOSTS, TASKS = 30, 12
# One host in ten changes, once.
CHANGED = 10
_PLAYBOOK: list[dict[str, Any]] = [
    {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [
            *({"name": f"Unchanged {number}", "ansible.builtin.debug": {"msg": "x" * 200}} for number in range(TASKS)),
            {
                "name": "Changed",
                "ansible.builtin.debug": {"msg": "y" * 200},
                "changed_when": f"inventory_hostname[-1] == '{HOSTS % CHANGED}'",
            },
        ],
    }
]


def _example() -> Callable[[Mapping[str, Any]], bool]:
    spec = importlib.util.spec_from_file_location("roll_of_ci", ROOT / "examples/ci/roll.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kept: Callable[[Mapping[str, Any]], bool] = module.is_kept
    return kept


def _bytes(keep: Callable[[Mapping[str, Any]], bool]) -> int:
    """Return the bytes of the event files of one run."""
    with tempfile.TemporaryDirectory() as name:
        site = Path(name)
        for folder in ("project", "inventory"):
            (site / folder).mkdir()
        (site / "project/play.yml").write_text(json.dumps(_PLAYBOOK))
        hosts = {f"gpu{number:03}": {"ansible_connection": "local"} for number in range(HOSTS)}
        (site / "inventory/hosts.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
        environment = {"PATH": str(Path(sys.executable).parent), "ANSIBLE_FORKS": "10"}
        config = RunnerConfig(private_data_dir=name, playbook="play.yml", envvars=environment)
        config.prepare()
        runner = Runner(config=config, event_handler=keep)
        with redirect_stdout(io.StringIO()):
            runner.run()
        if runner.rc:
            raise BenchmarkError(f"ansible-runner: exit status {runner.rc}")
        return sum(path.stat().st_size for path in (site / "artifacts").glob("*/job_events/*.json"))


def rows(_runs: int = 1) -> list[Row]:
    """Return the bytes per host of both."""
    everything, kept = _bytes(lambda _event: True), _bytes(_example())
    what = f"of {TASKS + 1} tasks, one host in {CHANGED} changed"
    return [
        Row(f"all events, {what}", everything / HOSTS, "bytes/host"),
        Row(f"events of the CI example, {what}", kept / HOSTS, "bytes/host", everything / HOSTS / 20),
    ]
