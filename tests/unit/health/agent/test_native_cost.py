# SPDX-License-Identifier: GPL-3.0-or-later
"""Ten minutes of real ticks of the real agent, with a fake NVML of eight GPUs: at most half a percent of one core, children counted."""

from __future__ import annotations

import faulthandler
import os
import time
from pathlib import Path

import pytest

from tests.kit.fake_nvml.build import library
from tests.unit.health.probes.machine_kit import Machine

from .agent_kit import Node, wait_for
from .test_node_health import resident, ticks

SECONDS = float(os.environ.get("BEDPLATE_NATIVE_SECONDS", "600"))
INTERVAL = 60


@pytest.mark.full_health
def test_ten_minutes_cost_half_a_percent_of_a_core(tmp_path: Path) -> None:
    # pytest would end the run after as many minutes; this test only sleeps, and needs no bound.
    faulthandler.cancel_dump_traceback_later()
    machine = Machine(tmp_path)
    rails = [f"mlx5_{number}" for number in range(8)]
    for name in rails:
        machine.hca(name)
        machine.write(f"sys/class/infiniband/{name}/ports/1/counters/excessive_buffer_overrun_errors", "0\n")
    profile = {"model": "h100", "gpus": 8, "nvlink": True, "rails": rails, "rails_needed": 8}
    node = Node(tmp_path, {"interval": INTERVAL, "profile": profile, "probes": {"library": str(library())}})
    scenario = {name: machine.environment[name] for name in ("FAKE_NVML_SCENARIO", "FAKE_NVML_MARKER")}
    with node.running(environment=scenario) as process:
        wait_for(lambda: node.verdict() is not None, 30)
        before, start = ticks(process.pid), time.monotonic()
        loads = machine.marker.read_text().splitlines().count("loaded")
        time.sleep(SECONDS)
        share = (ticks(process.pid) - before) / (time.monotonic() - start)
        loads = machine.marker.read_text().splitlines().count("loaded") - loads
        found = node.verdict()
        assert found is not None
        print(
            f"{SECONDS:.0f} s, {loads} ticks: {share * 100:.3f} % of a core with children, {resident(process.pid)} MiB"
        )
        assert found.status == "ok"
        # Each tick read the GPUs in a child of its own, and the last one is in the verdict.
        assert loads >= SECONDS // INTERVAL
        assert time.clock_gettime(time.CLOCK_BOOTTIME) - found.written < 1.5 * INTERVAL
        assert share <= 0.005
        assert resident(process.pid) <= 64
