# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose run was killed gets its slurmd back before Slurm ends its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.upgrade import (
    daemon_start,
    node_registration,
    slurmd_again,
)
from ansible_collections.bedplate.cluster.plugins.modules import slurm_upgrade
from tests.kit.module import Module, result_of


class Node:
    """A node with systemd and scontrol."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, timeout: int = 300, refuses: str = "") -> None:
        self.calls: list[str] = []
        self.runs, self._timeout, self._refuses, self._monkeypatch = True, timeout, refuses, monkeypatch
        for function in (daemon_start.running, daemon_start.stop, slurmd_again.prepare, slurmd_again.cancel):
            monkeypatch.setattr(function, "__defaults__", (self,))
        defaults = node_registration.Registration.__init__.__defaults__ or ()
        monkeypatch.setattr(node_registration.Registration.__init__, "__defaults__", (self, *defaults[1:]))

    def __call__(self, argv: Sequence[str], *_seconds: float, **_more: Any) -> Outcome:
        line = " ".join(argv)
        if self._refuses and argv[0] == self._refuses:
            return Outcome(1, "", "Failed to connect to bus\n")
        if "is-active" in argv:
            return Outcome(0 if self.runs else 3, "", "")
        if argv[0] == "scontrol":
            return Outcome(
                0, f"SlurmdTimeout           = {self._timeout} sec\nNodeName=n1 State=IDLE Version=26.05.5", ""
            )
        self.calls.append(line)
        if line == "systemctl stop slurmd.service":
            self.runs = False
        return Outcome(0, "", "")

    def step(self, step: str, **more: Any) -> dict[str, Any]:
        return result_of(self._monkeypatch, slurm_upgrade, Module({"step": step, **more}))


@pytest.mark.parametrize(("timeout", "seconds"), [(300, 185), (30, 15), (1800, 1185)])
def test_systemd_starts_slurmd_again_unless_the_run_does(monkeypatch: pytest.MonkeyPatch, timeout: int, seconds: int):
    node = Node(monkeypatch, timeout)
    assert node.step("stop", units=["slurmd.service"])["stopped"] == ["slurmd.service"]
    cancel, timer, stop = node.calls
    assert (cancel, stop) == ("systemctl stop bedplate-slurmd-again.timer", "systemctl stop slurmd.service")
    assert timer.startswith("systemd-run ")
    assert f"--on-active={seconds} " in timer
    assert timer.endswith("systemctl start --no-block slurmd.service")


def test_the_timer_ends_with_the_registration(monkeypatch: pytest.MonkeyPatch):
    node = Node(monkeypatch, 0)
    node.step("registered", name="n1", new="26.05", since=0.0, seconds=10)
    assert node.calls == ["systemctl stop bedplate-slurmd-again.timer"]


@pytest.mark.parametrize("refuses", ["systemd-run", "scontrol"])
def test_without_a_timer_slurmd_runs_on(monkeypatch: pytest.MonkeyPatch, refuses: str):
    node = Node(monkeypatch, refuses=refuses)
    assert node.step("stop", units=["slurmd.service"])["failed"]
    assert node.runs


def test_without_a_limit_and_for_other_daemons_there_is_no_timer(monkeypatch: pytest.MonkeyPatch):
    node = Node(monkeypatch, 0)
    node.step("stop", units=["slurmd.service"])
    assert not [call for call in node.calls if call.startswith("systemd-run")]
    node = Node(monkeypatch)
    node.step("stop", units=["slurmctld.service"])
    assert not [call for call in node.calls if "again" in call]
