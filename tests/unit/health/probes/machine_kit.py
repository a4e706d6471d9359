# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine with eight GPUs in a tree of files, and the fake library with its scenario."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import Reading, Value
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes import (
    all_probes,
    probe_settings,
    reading_lines,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.all_probes import Probe
from tests.kit.fake_nvml.build import library

REPOSITORY = Path(__file__).parents[4]
ADDRESSES = [f"0000:{0x1B + 0x10 * index:02x}:00.0" for index in range(8)]


class Machine:
    """A tree of files, a scenario of the fake library, and the settings of a probe's child."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.top = folder, folder / "root"
        self.scenario, self.marker, self.settings = folder / "scenario", folder / "marker", folder / "settings.json"
        self.scenario.write_text("")
        self.missing: Sequence[str] = ()
        self.top.mkdir()
        self.write("proc/self/mountinfo", "")
        self.driver()
        for index, address in enumerate(ADDRESSES):
            self.gpu(address, index)

    @property
    def root(self) -> Root:
        return Root(str(self.top))

    def write(self, path: str, content: str | bytes) -> Path:
        target = self.top / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def driver(self, version: str = "580.95.05") -> None:
        self.write("sys/module/nvidia/version", f"{version}\n")
        for name in ("nvidiactl", "nvidia-uvm"):
            self.write(f"dev/{name}", "")

    def gpu(self, address: str, minor: int) -> None:
        base = f"sys/bus/pci/devices/{address}"
        files = {
            "vendor": "0x10de", "class": "0x030200", "device": "0x2330", "subsystem_vendor": "0x10de", "subsystem_device": "0x16c1",
            "numa_node": "0", "current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe",
            "current_link_width": "16", "max_link_width": "16",
        }  # fmt: skip
        for name, text in files.items():
            self.write(f"{base}/{name}", f"{text}\n")
        self.write(f"{base}/config", b"\xde\x10\x30\x23" + bytes(60))
        for name, total in (("fatal", "FATAL"), ("nonfatal", "NONFATAL"), ("correctable", "COR")):
            self.write(f"{base}/aer_dev_{name}", f"Undefined 0\nDLP 0\nTOTAL_ERR_{total} 0\n")
        self.write(
            f"proc/driver/nvidia/gpus/{address}/information",
            f"Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-{minor}\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n",
        )
        self.write(f"dev/nvidia{minor}", "")

    def hca(self, name: str, port: int = 1, **files: str) -> None:
        texts = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", **files}
        for file, text in texts.items():
            self.write(f"sys/class/infiniband/{name}/ports/{port}/{file}", f"{text}\n")
        for path in ("link_downed", "link_error_recovery", "symbol_error", "local_link_integrity_errors"):
            self.write(f"sys/class/infiniband/{name}/ports/{port}/counters/{path}", "0\n")

    def probe(self, kind: str, **settings: object) -> Probe:
        """Return a probe of this machine, and write the settings that its child reads."""
        given = {"has_gpus": True, "has_rails": True, "checks": "", **settings}
        if kind == "nvml":
            given = {"library": str(library(self.missing)), **given}
        all_settings = probe_settings.settings_from({"sysroot": str(self.top), **given})
        self.settings.write_text(json.dumps(all_settings.data()))
        found, _refused = all_probes.probes(all_settings, str(self.settings))
        return next(one for one in found if one.kind == kind)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ, "PYTHONPATH": str(REPOSITORY / "collections"),
            "FAKE_NVML_SCENARIO": str(self.scenario), "FAKE_NVML_MARKER": str(self.marker),
        }  # fmt: skip

    def read(self, kind: str, **settings: object) -> list[Reading]:
        """Return the readings of a probe's child that ends."""
        probe = self.probe(kind, **settings)
        done = subprocess.run(probe.argv, env=self.environment, capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        return reading_lines.parse(done.stdout, probe.quantities, (probe.source, *probe.more_sources), probe.source)


def values(readings: Sequence[Reading], quantity: str) -> dict[str, Value]:
    """Return device to value of one quantity."""
    return {one.device: one.value for one in readings if one.quantity == quantity}


def problems(readings: Sequence[Reading], quantity: str) -> set[str]:
    return {one.problem for one in readings if one.quantity == quantity and one.problem}
