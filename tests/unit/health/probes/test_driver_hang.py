# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver that hangs is seen by two sources: NVML that misses deadlines, and /proc that shows its child in state D."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import Value
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes import all_probes, probe_child
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.probe_child import ProbeChildren
from tests.kit.fake_nvml.build import library

from .machine_kit import Machine

pytestmark = pytest.mark.tools("gcc")


def hangs(machine: Machine, children: ProbeChildren) -> dict[str, Value]:
    nvml = replace(machine.probe("nvml"), argv=("sleep", "600"), seconds=0.1)
    driver = replace(machine.probe("driver"), argv=("echo", '{"end":0}'))
    readings = all_probes.run_probes(children, [nvml, driver], machine.root)
    assert all(one.device == "" for one in readings)
    return {one.source: one.value for one in readings if one.quantity == all_probes.DRIVER_HANG}


def test_two_sources_after_two_deadlines(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    children = ProbeChildren(tmp_path, kill=lambda pid: None)
    assert hangs(machine, children) == {"nvml": 1, "procfs": 0}
    (left,) = children.leftovers.values()
    # The stand-in sleeps in state S, so NVML alone reports the hang.
    assert hangs(machine, children) == {"nvml": 2, "procfs": 0}
    monkeypatch.setattr(probe_child, "is_hanging", lambda one, cgroup, proc: one == left)
    assert hangs(machine, children) == {"nvml": 3, "procfs": 3}
    os.killpg(left.pid, signal.SIGKILL)


def test_a_healthy_node_reports_no_missed_deadline(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    kinds = ["nvml", "driver", "pci", "rdma"]
    machine.hca("mlx5_0")
    due = [machine.probe(kind, library=str(library())) for kind in kinds]
    readings = all_probes.run_probes(ProbeChildren(tmp_path), due, machine.root)
    assert {(one.quantity, one.source): one.value for one in readings if one.quantity == all_probes.DRIVER_HANG} == {
        ("driver-hang", "nvml"): 0, ("driver-hang", "procfs"): 0,
    }  # fmt: skip
    assert {one.quantity for one in readings if one.value is None} <= {
        "rdma-receive-errors", "rdma-buffer-overrun", "rdma-rnr-retries",
    }  # fmt: skip
