"""The root of a machine with GPUs, in the shapes of sysfs, /proc and Debian's packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.gpu_inventory import Asked, read_facts

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder@U22-I3-H04-01-5)\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.309.01  Mon Mar  2 10:10:10 UTC 2026\n"
COMPILER = "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)\n"
PARAMETERS = 'EnableGpuFirmware: 18\nRestrictProfilingToAdminUsers: 1\nRegistryDwords: ""\nExcludedGpus: "a: b"\n'
VARIABLE = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


class Tree:
    """Writes files below a directory, and reads the facts of what is there."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.write("proc/sys/kernel/osrelease", "6.12.57-amd64\n")

    def write(self, path: str, content: str | bytes) -> Path:
        target = self.top / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def link(self, path: str, to: str) -> None:
        at = self.top / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.symlink_to(to)

    def pci(self, address: str, kind: str = "0x030200", driver: str | None = "nvidia", **files: str) -> None:
        """Write a PCI device as sysfs has it: a link into the tree of bridges, with attributes that end in a newline."""
        given = {
            "vendor": "0x10de", "class": kind, "device": "0x2330", "subsystem_vendor": "0x10de", "subsystem_device": "0x16C1",
            "numa_node": "1", "current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe",
            "current_link_width": "16", "max_link_width": "16", **files,
        }  # fmt: skip
        for name, text in given.items():
            self.write(f"sys/devices/pci0000:00/0000:00:01.0/{address}/{name}", f"{text}\n")
        self.link(f"sys/bus/pci/devices/{address}", f"../../../devices/pci0000:00/0000:00:01.0/{address}")
        if driver:
            (self.top / f"sys/bus/pci/drivers/{driver}").mkdir(parents=True, exist_ok=True)
            link = f"sys/devices/pci0000:00/0000:00:01.0/{address}/driver"
            self.link(link, f"../../../../bus/pci/drivers/{driver}")

    def driver(self, version: str = "580.159.04", flavour: str = OPEN) -> None:
        self.write("sys/module/nvidia/version", f"{version}\n")
        self.write("proc/driver/nvidia/version", flavour + COMPILER)
        self.write("proc/driver/nvidia/params", PARAMETERS)
        (self.top / "proc/driver/nvidia/capabilities/mig").mkdir(parents=True)

    def information(self, address: str, minor: int, uuid: str = "", excluded: str = "No") -> None:
        """Write what the driver tells of a GPU, in the format of its nv-procfs.c."""
        self.write(
            f"proc/driver/nvidia/gpus/{address}/information",
            f"Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 16\nGPU UUID: \t {uuid or f'GPU-{minor}'}\n"
            f"Video BIOS: \t 96.00.74.00.01\nBus Type: \t PCIe\nDMA Size: \t 52 bits\nBus Location: \t {address}\n"
            f"Device Minor: \t {minor}\nGPU Firmware: \t 580.159.04\nGPU Excluded:\t {excluded}\n",
        )

    def gpu(self, address: str, minor: int, **files: str) -> None:
        self.pci(address, **files)
        self.information(address, minor)

    def debian_library(self, version: str, triplet: str = "x86_64-linux-gnu") -> None:
        """Lay the chain of links that Debian's nvidia-alternative and libnvidia-ml1 lay; two of them are absolute."""
        real, name = f"usr/lib/{triplet}/nvidia/current", "libnvidia-ml.so.1"
        self.write(f"{real}/libnvidia-ml.so.{version}", "")
        self.link(f"{real}/{name}", f"libnvidia-ml.so.{version}")
        self.link(f"etc/alternatives/nvidia--{name}-{triplet}", f"/{real}/{name}")
        self.link(f"usr/lib/{triplet}/{name}", f"/etc/alternatives/nvidia--{name}-{triplet}")

    def facts(self, ask: Asked | None = None, seconds: float = 10.0) -> dict[str, Any]:
        return read_facts(str(self.top), seconds, ask)
