"""Trees of whole machines in the shapes of sysfs and /proc, made from the descriptions in machines/*.yml.

The descriptions are authored from what vendors and kernels document of such machines (PCI addresses, NUMA affinities and CPU
numbers as `nvidia-smi topo -m` and `lscpu` show them in public manuals). None is a recording of a machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.common.cpulists import fold, parse

DESCRIPTIONS = Path(__file__).with_name("machines")
MACHINES = sorted(path.stem for path in DESCRIPTIONS.glob("*.yml"))
SPEEDS = {3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe", 6: "64.0 GT/s PCIe"}
PAGES = (2048, 1048576)
BRIDGE = "0x060400"


def description(name: str) -> dict[str, Any]:
    """Return what machines/<name>.yml says."""
    found: dict[str, Any] = yaml.safe_load((DESCRIPTIONS / f"{name}.yml").read_text())
    return found


class MachineTree:
    """Writes a machine below a directory, and single files of it anew; `masks` adds what hwloc reads beside.

    `vectors`: how many interrupts of each NIC its driver has made; None for all.
    """

    def __init__(self, top: Path, told: dict[str, Any], masks: bool = False, vectors: int | None = None) -> None:
        self.top = top
        self.told = told
        self.masks = masks
        self.vectors = vectors
        self.count = sum(len(parse(cpus)) for cpus in told["packages"])
        self._directories: set[str] = set()
        self._cpus()
        self._processor()
        self._nodes()
        for device in told["devices"]:
            self._device(**device)

    def write(self, path: str, text: str) -> None:
        # There are thousands: pathlib would take twice as long.
        target = f"{self.top}/{path}"
        directory = target.rpartition("/")[0]
        if directory not in self._directories:
            os.makedirs(directory, exist_ok=True)  # noqa: PTH103
            self._directories.add(directory)
        with open(target, "w") as file:  # noqa: PTH123
            file.write(text + "\n")

    def link(self, path: str, to: str) -> None:
        at = self.top / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.symlink_to(to)

    def _cpus(self) -> None:
        base = "sys/devices/system/cpu"
        self.write(f"{base}/online", fold(range(self.count)))
        self.write(f"{base}/possible", fold(range(self.count)))
        for package, text in enumerate(self.told["packages"]):
            cpus = parse(text)
            # The second threads of all cores follow the first ones.
            cores = [cpu for cpu in cpus if cpu < self.count // self.told["threads"]]
            for start in range(0, len(cores), self.told["cache_cores"]):
                shared = cores[start : start + self.told["cache_cores"]]
                cache = fold(cpu for first in shared for cpu in self._threads(first))
                for first in shared:
                    self._core(first, cache, package, cpus)

    def _threads(self, first: int) -> range:
        return range(first, self.count, self.count // self.told["threads"])

    def _core(self, first: int, cache: str, package: int, cpus: tuple[int, ...]) -> None:
        siblings = self._threads(first)
        for cpu in siblings:
            at = f"sys/devices/system/cpu/cpu{cpu}"
            self.write(f"{at}/topology/physical_package_id", str(package))
            self.write(f"{at}/topology/thread_siblings_list", fold(siblings))
            self.write(f"{at}/cache/index3/shared_cpu_list", cache)
            if self.masks:
                self.write(f"{at}/topology/core_id", str(cpus.index(first)))
                self.write(f"{at}/topology/thread_siblings", _mask(siblings, self.count))
                self.write(f"{at}/topology/core_siblings", _mask(cpus, self.count))

    def _processor(self) -> None:
        told = self.told["processor"]
        if told["arch"] == "arm64":
            words = {"CPU implementer": "0x41", "CPU architecture": "8"}
        else:
            keys = {"vendor_id": "vendor", "cpu family": "family", "model": "model", "model name": "name"}
            words = {key: told[name] for key, name in keys.items()}
        blocks = [{"processor": str(number), **words} for number in (0, 1)]
        texts = ["\n".join(f"{key}\t: {word}" for key, word in block.items()) for block in blocks]
        self.write("proc/cpuinfo", "\n\n".join(texts))

    def _nodes(self) -> None:
        base = "sys/devices/system/node"
        nodes = {node["number"]: node for node in self.told["nodes"]}
        self.write(f"{base}/online", fold(nodes))
        self.write(f"{base}/has_cpu", fold(number for number, node in nodes.items() if node.get("cpus")))
        self.write(f"{base}/has_memory", fold(number for number, node in nodes.items() if node["memory_mib"]))
        for number, node in nodes.items():
            at, cpus = f"{base}/node{number}", fold(parse(node.get("cpus", "")))
            self.write(f"{at}/cpulist", cpus)
            self.write(f"{at}/cpumap", _mask(parse(cpus), self.count))
            self.write(f"{at}/distance", " ".join(str(_distance(node, number, other)) for other in nodes))
            self.write(f"{at}/meminfo", f"Node {number} MemTotal:       {node['memory_mib'] * 1024} kB")
            for size in PAGES if node["memory_mib"] else ():
                self.write(f"{at}/hugepages/hugepages-{size}kB/nr_hugepages", "0")

    def _device(
        self,
        path: list[str],
        numa: int,
        gpu: str = "",
        nic: str = "",
        net: str = "",
        link: str = "InfiniBand",
        gen: int = 5,
        irqs: str = "",
        vendor: str = "",
    ) -> None:
        """Write a device and the bridges above it; `gpu` is its device id, `nic` and `net` are names."""
        for depth in range(1, len(path)):
            self._function(path[:depth], BRIDGE, ("0x1000", "0xc030"), numa, gen)
        kind = "0x030200" if gpu else "0x020700" if link == "InfiniBand" else "0x020000"
        ids = (vendor or ("0x10de" if gpu else "0x15b3"), gpu or "0x1021")
        base = self._function(path, kind, ids, numa, gen)
        if nic:
            self.write(f"{base}/infiniband/{nic}/ports/1/link_layer", link)
            self.link(f"sys/class/infiniband/{nic}", f"../../{base.removeprefix('sys/')}/infiniband/{nic}")
            self.link(f"{base}/infiniband/{nic}/device", f"../../../{path[-1]}")
        if net:
            self.write(f"{base}/net/{net}/mtu", "4092" if link == "InfiniBand" else "9000")
        for index, irq in enumerate(parse(irqs)[: self.vectors]):
            self.write(f"{base}/msi_irqs/{irq}", "msix")
            self.write(f"sys/kernel/irq/{irq}/hwirq", str(index))
            self.write(f"proc/irq/{irq}/smp_affinity_list", fold(range(self.count)))
            self.write(f"proc/irq/{irq}/effective_affinity_list", "0")

    def _function(self, path: list[str], kind: str, ids: tuple[str, str], numa: int, gen: int) -> str:
        """Write a PCI function that is not there yet, and return its directory."""
        base = f"sys/devices/pci{path[0][:7]}/{'/'.join(path)}"
        if f"{self.top}/{base}" in self._directories:
            return base
        files = {
            "class": kind,
            "vendor": ids[0],
            "device": ids[1],
            "subsystem_vendor": ids[0],
            "subsystem_device": "0x0001",
            "numa_node": str(numa),
            "local_cpulist": self._cpus_of(numa),
            "max_link_speed": SPEEDS[gen],
            "current_link_speed": SPEEDS[gen],
            "max_link_width": "16",
            "current_link_width": "16",
        }
        for name, text in files.items():
            self.write(f"{base}/{name}", text)
        self.link(f"sys/bus/pci/devices/{path[-1]}", f"../../../{base.removeprefix('sys/')}")
        return base

    def _cpus_of(self, numa: int) -> str:
        """Return local_cpulist as the kernel has it: all CPUs where the node is unknown."""
        if numa < 0:
            return fold(range(self.count))
        node = next(node for node in self.told["nodes"] if node["number"] == numa)
        return fold(parse(node.get("cpus", "")))


def _distance(node: dict[str, Any], number: int, other: int) -> int:
    if number == other:
        return 10
    return 12 if other in parse(str(node.get("near", ""))) else 32


def _mask(cpus: Any, width: int) -> str:
    bits = sum(1 << cpu for cpu in cpus)
    words = -(-width // 32)
    return ",".join(f"{bits >> (32 * word) & 0xFFFFFFFF:08x}" for word in reversed(range(words)))
