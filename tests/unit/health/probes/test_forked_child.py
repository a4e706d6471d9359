# SPDX-License-Identifier: GPL-3.0-or-later
"""Probes in forked children, as the agent runs them: the same readings as a new Python, bounded, and nothing of the parent's in them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import Reading
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes import all_probes, probe_settings
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.forked_child import ForkedChild, fork
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.probe_child import Ended, ProbeChildren
from tests.kit.fake_nvml.build import library

from .machine_kit import Machine, values

KINDS = ("nvml", "driver", "pci", "rdma")


def run(folder: Path, function: Callable[[], None], seconds: float = 10.0) -> Ended:
    children = ProbeChildren(folder)
    assert children.start("a", function, seconds)
    found: list[Ended] = []
    while not found:
        found = children.poll()
        time.sleep(0.005)
    return found[0]


def test_output_without_text_in_the_parents_buffers(tmp_path: Path):
    sys.stdout.write("of the parent")
    assert run(tmp_path, lambda: print("of the child")) == Ended("a", 0, b"of the child\n")


def test_an_exception_is_reported(tmp_path: Path):
    def fails() -> None:
        raise KeyError("a kind")

    assert run(tmp_path, fails) == Ended("a", 1, b"", "KeyError: 'a kind'")


def test_no_file_of_the_parent_is_open(tmp_path: Path):
    with (tmp_path / "open").open("w"):
        ended = run(tmp_path, lambda: print(sorted(int(one) for one in os.listdir("/proc/self/fd"))))  # noqa: PTH208
    # The last is of the listing itself.
    assert ended.output == b"[0, 1, 2, 3]\n"


def test_a_hang_and_a_signal(tmp_path: Path):
    assert run(tmp_path, lambda: time.sleep(600), 0.2) == Ended("a", None, b"")
    assert run(tmp_path, lambda: os.kill(os.getpid(), signal.SIGSEGV)).code == -signal.SIGSEGV


def test_a_child_that_was_collected_elsewhere_did_not_end_well():
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    assert ForkedChild(pid).poll() == 1


@pytest.mark.tools("gcc")
def test_the_same_readings_as_a_new_python(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("FAKE_NVML_SCENARIO", "FAKE_NVML_MARKER"):
        monkeypatch.setenv(name, machine.environment[name])
    machine.scenario.write_text("3 nvmlDeviceGetRemappedRows pending 1\n")
    machine.hca("mlx5_0")
    settings = probe_settings.settings_from({
        "sysroot": str(machine.top), "has_gpus": True, "has_rails": True, "checks": "", "library": str(library()),
    })  # fmt: skip
    due, _refused = all_probes.probes(settings, "", forks=True)
    was_loaded = "libnvidia-ml" in Path("/proc/self/maps").read_text()
    forked = all_probes.run_probes(ProbeChildren(tmp_path), due, machine.root)
    started: list[Reading] = [one for kind in KINDS for one in machine.read(kind)]
    assert set(started) == {one for one in forked if one.quantity != all_probes.DRIVER_HANG}
    assert set(values(forked, "remap-pending").values()) == {0, 1}
    # Children alone load the library; another test of this process may have loaded it before.
    assert ("libnvidia-ml" in Path("/proc/self/maps").read_text()) == was_loaded


def test_a_handler_of_the_parent_does_not_hold_a_child(tmp_path: Path):
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    try:
        ready = tmp_path / "ready"

        def run() -> None:
            ready.touch()
            time.sleep(60)

        child = fork(run, (tmp_path / "out", tmp_path / "err"), lambda: None)
        end = time.monotonic() + 10
        while not ready.exists() and time.monotonic() < end:
            time.sleep(0.01)
        assert os.getsid(child.pid) == os.getpgid(child.pid) == child.pid
        os.kill(child.pid, signal.SIGTERM)
        while child.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        code = child.poll()
        if code is None:
            os.kill(child.pid, signal.SIGKILL)
        assert code == -signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)
