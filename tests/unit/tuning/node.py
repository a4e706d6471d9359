"""A node as a tree of files, with the settings of its kernel as the role wants them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot import cmdline_change
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.tuning.tuning_part import decide
from tests.kit.decided import shown

FILE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24}}
profiles:
  gpu:
    gpus: {model: h100, count: 2}
    sockets: 2
    cores_per_socket: 2
    memory_mib: 4096
    numa:
      - {cores: 0-1, gpus: 0, nics: [mlx5_0], hugepages: {2M: 16}}
      - {cores: 2-3, gpus: 1, hugepages: {2M: 8, 1G: 1}}
    nics: [{name: mlx5_0, rail: 0}]
racks: {r1: {nodes: gpu1, profile: gpu}}
hosts: {ctl1: {address: 10.0.0.10}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
"""
CHOICES: dict[str, Any] = {
    "manage": True,
    "thp": "madvise",
    "thp_defrag": "madvise",
    "iommu": "passthrough",
    "init_on_alloc": False,
    "isolated_cpus": "2-3",
    "cmdline": ["mitigations=auto"],
    "hugepages": "now",
    "sysctl": {"vm.swappiness": 1, "vm.max_map_count": None},
    "limits": {"memlock": "unlimited", "nofile": 1048576},
    "modules": ["nvidia-peermem"],
    "governor": "performance",
    "idle_us": 10,
    "irqs": "keep",
    "tuned": "keep",
    "acs": "auto",
    "read_request": 4096,
    "relaxed_ordering": "auto",
    "bridge_power": "auto",
}
ENTRY = "boot/loader/entries/a.conf"
# PCI Express at 0x40 with a read request of 512 bytes; ACS at 0x100, switched on.
_EXPRESS, _ACS = 0x40, 0x100


def deployed(folder: Path, text: str = FILE, host: str = "gpu1", **choices: Any) -> dict[str, Any]:
    """Return what the role brings to a host of a cluster file."""
    path = folder / "c.bedplate.yml"
    path.write_text(text)
    return shown("node_tuning", decide(load(path), host, {**CHOICES, **choices}))


class Node:
    """The tree; every value is written as the kernel shows it."""

    def __init__(self, top: Path) -> None:
        self.top = top

    def put(self, path: str, text: str) -> Path:
        """Write a file and return where it is."""
        file = self.top / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def text(self, path: str) -> str:
        """Return what is in a file."""
        return (self.top / path.lstrip("/")).read_text().strip()

    def run(self, command: Sequence[str]) -> Outcome:
        """Answer as the programs of the node would: a login has the limits of the file `login`, and there is no modprobe."""
        if command[0] == "su":
            return Outcome(0, self.text("login"), "")
        return Outcome(127, "", f"{command[0]}: No such file or directory")

    def numa(self, number: int, cpus: str, mib: int, **pages: int) -> None:
        """Have a NUMA node, with its pages by their size in KiB after a k."""
        base = f"sys/devices/system/node/node{number}"
        self.put(f"{base}/cpulist", f"{cpus}\n")
        self.put(f"{base}/distance", "10 20\n")
        self.put(f"{base}/meminfo", f"Node {number} MemTotal:  {mib * 1024} kB\nNode {number} MemFree: 0 kB\n")
        for size, count in pages.items():
            for name in ("nr_hugepages", "free_hugepages"):
                self.put(f"{base}/hugepages/hugepages-{size[1:]}kB/{name}", f"{count}\n")

    def function(
        self,
        address: str,
        pci_class: str,
        acs: int | None = None,
        request: int = 2,
        numa: int = 0,
        vendor: str = "0x15b3",
        relaxed: bool = True,
    ) -> Path:
        """Have a PCI function; `request` is 128 bytes shifted so often."""
        config = bytearray(0x200)
        config[6], config[0x34] = 0x10, _EXPRESS
        config[_EXPRESS] = 0x10
        config[_EXPRESS + 8 : _EXPRESS + 10] = (request << 12 | 0x800 | relaxed << 4).to_bytes(2, "little")
        if acs is not None:
            config[_ACS : _ACS + 4] = (0x1000D).to_bytes(4, "little")
            config[_ACS + 6 : _ACS + 8] = acs.to_bytes(2, "little")
        base = f"sys/bus/pci/devices/{address}"
        cpus = ("0-1", "2-3")[numa]
        for name, value in {
            "class": pci_class,
            "vendor": vendor,
            "numa_node": numa,
            "local_cpulist": cpus,
            "device": "0x2330",
        }.items():
            self.put(f"{base}/{name}", f"{value}\n")
        file = self.put(f"{base}/config", "")
        file.write_bytes(config)
        return file

    def below(self, bridge: str, address: str) -> None:
        """Have a PCI function below a bridge, which does not sleep."""
        at = f"sys/devices/pci0000:00/{bridge}/{address}"
        (self.top / at).parent.mkdir(parents=True, exist_ok=True)
        (self.top / f"sys/bus/pci/devices/{address}").rename(self.top / at)
        (self.top / f"sys/bus/pci/devices/{address}").symlink_to(f"../../../../{at}")
        self.put(f"sys/bus/pci/devices/{bridge}/power/control", "on\n")


def as_wanted(top: Path, told: dict[str, Any]) -> Node:
    """Return a node on which everything is as the role wants it."""
    node = Node(top)
    settings = told["expected"]["settings"]
    node.numa(0, "0-1", 2048, k2048=16, k1048576=0)
    node.numa(1, "2-3", 2048, k2048=8, k1048576=1)
    node.put("proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz root=/dev/vda1 {' '.join(told['expected']['tokens'])} quiet\n")
    node.put("proc/cpuinfo", "flags : fpu sse\n")
    for name in ("isolated", "nohz_full"):
        node.put(f"sys/devices/system/cpu/{name}", "2-3\n")
    node.put("sys/devices/system/cpu/online", "0-3\n")
    for number in range(4):
        base = f"sys/devices/system/cpu/cpu{number}"
        node.put(f"{base}/topology/physical_package_id", f"{number // 2}\n")
        node.put(f"{base}/topology/thread_siblings_list", f"{number}\n")
        node.put(f"{base}/cpufreq/scaling_governor", "performance\n")
        for state, latency in enumerate((2, 133)):
            node.put(f"{base}/cpuidle/state{state}/latency", f"{latency}\n")
            node.put(f"{base}/cpuidle/state{state}/disable", f"{state}\n")
    node.put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    node.put("sys/kernel/mm/transparent_hugepage/defrag", "always defer defer+madvise [madvise] never\n")
    node.put("sys/kernel/iommu_groups/0/type", "identity\n")
    node.put("sys/module/nvidia_peermem/version", "1\n")
    for key, value in settings["sysctl"].items():
        # The kernel parts numbers by tabs.
        node.put(f"proc/sys/{key.replace('.', '/')}", value.replace(" ", "\t") + "\n")
    for entry in (one for one in told["files"] if "content" in one):
        node.put(entry["path"], entry["content"])
    node.put("proc/77/comm", "slurmd\n")
    wants = top / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / "bedplate-tuning.service").symlink_to("/etc/systemd/system/bedplate-tuning.service")
    node.put(ENTRY, "title Linux\nlinux /vmlinuz\noptions root=/dev/vda1 quiet\n")
    cmdline_change.apply_tokens(top, told["expected"]["tokens"], top / "var/lib/bedplate", check=False)
    limits = (
        "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max open files            1048576              1048576              files\n"
        "Max locked memory         unlimited            unlimited            bytes\n"
    )
    node.put("proc/77/limits", limits)
    node.put("login", limits)
    for service in ("sshd", "su"):
        node.put(f"etc/pam.d/{service}", "session required pam_limits.so\n@include common-session\n")
    node.function("0000:00:01.0", "0x060400", acs=0)
    node.function("0000:00:02.0", "0x060400")
    node.function("0000:3b:00.0", "0x020700", request=5)
    for numa, address in enumerate(("0000:18:00.0", "0000:9a:00.0")):
        node.function(address, "0x030200", numa=numa, vendor="0x10de")
    node.put("sys/bus/pci/devices/0000:3b:00.0/infiniband/mlx5_0/node_guid", "")
    node.below("0000:00:01.0", "0000:18:00.0")
    node.below("0000:00:02.0", "0000:3b:00.0")
    return node
