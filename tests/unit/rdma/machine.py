"""A node with RDMA as a tree of files, and its programs, which answer as the real ones did where they were recorded.

mlnx_qos: the shape of a run on a ConnectX-4 that was published (att/netarbiter, nvmf/OUTPUTSAMPLE.setup-nic-lossless-layer3.sh.md), and
the lines that its source (Mellanox/mlnx-tools, python/mlnx_qos) adds since. dcb: the examples of dcb-app(8) and dcb-pfc(8) and of the
patches that brought them, with -N; what both say on an error is dcb's of iproute2 6.1, run on `lo`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.rdma.rdma_part import decide
from tests.kit.decided import shown

FILE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks:
  management: {cidr: 10.0.0.0/24, start: 10.0.0.11}
  rails: {cidr: 10.9.0.0/23, rails: 0-1}
profiles:
  gpu:
    sockets: 2
    cores_per_socket: 2
    memory_mib: 4096
    nics:
      - {name: mlx5_0, rail: 0, pci: "0000:3b:00.0"}
      - {name: mlx5_1, rail: 1, pci: "0000:5e:00.0"}
      - {name: mlx5_2, pci: "0000:86:00.0"}
  cpu: {sockets: 1, cores_per_socket: 2, memory_mib: 4096}
racks:
  r1: {nodes: gpu1, profile: gpu}
  r2: {nodes: cpu1, profile: cpu}
hosts: {ctl1: {address: 10.0.0.10}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
fabric: {spines: spine, technology: ethernet}
"""
CHOICES: dict[str, Any] = {
    "manage": True, "stack": "inbox", "os": "", "doca_url": "", "doca_key": "", "doca_version": "", "modules": [], "mtu": 0,
    "lossless": True, "dscp": 26, "priority": 3, "cnp_dscp": 48, "nccl": {},
    "nccl_topology": False, "nccl_manage": True, "nccl_socket_interfaces": [], "retransmission": "keep",
}  # fmt: skip
PCI = {"mlx5_0": "0000:3b:00.0", "mlx5_1": "0000:5e:00.0", "mlx5_2": "0000:86:00.0"}


def deployed(folder: Path, text: str = FILE, host: str = "gpu1", **choices: Any) -> dict[str, Any]:
    """Return what the role brings to a host of a cluster file."""
    path = folder / "c.bedplate.yml"
    path.write_text(text)
    return shown("rdma", decide(load(path), host, {**CHOICES, **choices}))


class Machine:
    """The tree and the programs. `calls` are the commands that ran."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.root = Root(str(top))
        self.calls: list[str] = []
        self.addresses: dict[str, list[str]] = {}
        self.mtu: dict[str, int] = {}
        self.up: dict[str, bool] = {}
        self.trust: dict[str, str] = {}
        self.pfc: dict[str, str] = {}
        self.mapping: dict[str, dict[int, int]] = {}
        self.firmware = False
        self.stubborn = False
        self.packages: dict[str, str] = {}
        self.active_mtu = 4096
        # Program that runs -> interfaces that it manages.
        self.managers: dict[str, set[str]] = {}

    def put(self, path: str, text: str) -> None:
        """Write a file."""
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def text(self, path: str) -> str:
        """Return what is in a file."""
        return (self.top / path).read_text().strip()

    def device(self, name: str, pci: str, interface: str, guid: str, layer: str = "Ethernet") -> None:
        """Have a NIC of mlx5 with its interface, as mlx5_core without DOCA shows it."""
        place = f"sys/devices/pci0000:00/{pci}"
        self.put(f"{place}/infiniband/{name}/node_guid", f"{guid}\n")
        self.put(f"{place}/infiniband/{name}/ports/1/link_layer", f"{layer}\n")
        self.put(f"{place}/net/{interface}/dev_port", "0\n")
        # Interfaces that are not the port's: of a virtual function, of a second port.
        self.put(f"{place}/net/{interface[:3]}r0/dev_port", "0\n")
        self.put(f"{place}/net/{interface[:3]}r0/phys_port_name", "pf0vf0\n")
        self.put(f"{place}/net/a{interface}/dev_port", "1\n")
        self.link(f"{place}/infiniband/{name}/device", f"../../../{pci}")
        self.link(f"{place}/driver", "../../../bus/pci/drivers/mlx5_core")
        self.link(f"sys/bus/pci/devices/{pci}", f"../../../devices/pci0000:00/{pci}")
        self.link(f"sys/class/infiniband/{name}", f"../../devices/pci0000:00/{pci}/infiniband/{name}")
        for one in (interface, f"{interface[:3]}r0", f"a{interface}"):
            self.link(f"sys/class/net/{one}", f"../../devices/pci0000:00/{pci}/net/{one}")
        self.put(f"sys/kernel/config/rdma_cm/{name}/ports/1/default_roce_tos", "0\n")
        self.put(f"sys/kernel/debug/mlx5/{pci}/cc_params/np_cnp_dscp", "0\n")
        self.addresses[interface], self.mtu[interface], self.up[interface] = [], 1500, False
        self.trust[interface], self.pfc[interface], self.mapping[interface] = "pcp", "0" * 8, {}
        for key in ("rp_filter", "arp_ignore", "arp_announce"):
            self.put(f"proc/sys/net/ipv4/conf/{interface}/{key}", "0\n")

    def link(self, path: str, target: str) -> None:
        """Make a link."""
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_symlink():
            file.symlink_to(target)

    def names(self) -> dict[str, str]:
        """Return PCI address -> name of the RDMA devices."""
        links = (self.top / "sys/class/infiniband").iterdir()
        return {one.readlink().parts[-3]: one.name for one in links}

    def run(self, command: Sequence[str]) -> Outcome:
        """Run a program of the machine."""
        self.calls.append(" ".join(command))
        words = list(command)
        answer = {
            "ip": self._ip, "rdma": self._rdma, "mlnx_qos": self._mlnx_qos, "dcb": self._dcb, "dpkg-query": self._dpkg,
            "modprobe": lambda words: "", "nmcli": self._nmcli, "networkctl": self._networkctl,
            "ibv_devinfo": lambda words: f"\t\t\tactive_mtu:\t\t{self.active_mtu} (5)\n",
        }[words[0]](words[1:])  # fmt: skip
        return Outcome(0, answer, "") if isinstance(answer, str) else Outcome(1, "", answer[0])

    def _ip(self, words: list[str]) -> str | tuple[str]:
        if words[:2] == ["-N", "-j"]:
            return "[]"  # no rule and no route of bedplate
        interface = words[words.index("dev") + 1]
        if interface not in self.mtu:
            return (f'Device "{interface}" does not exist.\n',)
        if words[:3] == ["-j", "addr", "show"]:
            rows = [one.partition("/") for one in self.addresses[interface]]
            info = [{"family": "inet", "local": one, "prefixlen": int(length)} for one, _, length in rows]
            info.append({"family": "inet6", "local": "fe80::1", "prefixlen": 64})
            flags = ["BROADCAST", "MULTICAST", *(["UP", "LOWER_UP"] if self.up[interface] else [])]
            return json.dumps(
                [{}, {"ifname": interface, "flags": flags, "mtu": self.mtu[interface], "addr_info": info}]
            )
        if words[:2] == ["addr", "add"]:
            self.addresses[interface].append(words[2])
        elif words[:2] == ["addr", "del"]:
            self.addresses[interface].remove(words[2])
        elif "mtu" in words:
            self.mtu[interface] = int(words[-1])
        elif words[-1] == "up":
            self.up[interface] = True
        else:
            raise AssertionError(words)
        return ""

    def _nmcli(self, words: list[str]) -> str | tuple[str]:
        if "NetworkManager" not in self.managers:
            return ("Error: NetworkManager is not running.\n",)
        interface = words[words.index("show") + 1] if "show" in words else words[2]
        if words == ["device", "set", interface, "managed", "no"]:
            self.managers["NetworkManager"].discard(interface)
            return ""
        assert words == ["-g", "GENERAL.STATE", "device", "show", interface]
        return "100 (connected)\n" if interface in self.managers["NetworkManager"] else "10 (unmanaged)\n"

    def _networkctl(self, words: list[str]) -> str | tuple[str]:
        if "systemd-networkd" not in self.managers:
            return ("Failed to connect system bus: No such file or directory\n",)
        if words == ["reload"]:
            self.managers["systemd-networkd"].clear()
            return ""
        assert words[:3] == ["--no-pager", "--no-legend", "list"]
        setup = "configured" if words[3] in self.managers["systemd-networkd"] else "unmanaged"
        return f"  4 {words[3]} ether routable {setup}\n"

    def _rdma(self, words: list[str]) -> str | tuple[str]:
        assert (words[:2], words[3]) == (["dev", "set"], "name")
        old, new = words[2], words[4]
        folder = self.top / "sys/class/infiniband"
        if (folder / new).is_symlink():
            return ("error: File exists\n",)
        if not (folder / old).is_symlink():
            return ("error: No such device\n",)
        place = (folder / old).readlink()
        (self.top / "sys/class/infiniband" / place).rename(folder / place.parent / new)
        (folder / old).unlink()
        (folder / new).symlink_to(place.parent / new)
        return ""

    def _mlnx_qos(self, words: list[str]) -> str | tuple[str]:
        interface, options = words[1], dict(word.lstrip("-").split("=") for word in words[2:])
        assert words[0] == "-i"
        assert len(options) <= 1  # trust and dscp2prio in one call are refused
        if not self.stubborn:
            self._set_mlnx_qos(interface, options)
        if self.trust[interface] == "dscp":
            rows: dict[int, list[int]] = {}
            for dscp in range(63, -1, -1):
                rows.setdefault(self.mapping[interface].get(dscp, dscp // 8), []).append(dscp)
            lines = "".join(
                f"\tprio:{prio} dscp:{''.join(f'{dscp:02},' for dscp in part)}\n"
                for prio, dscps in sorted(rows.items())
                for part in (dscps[at : at + 8] for at in range(0, len(dscps), 8))
            )
            lines = f"dscp2prio mapping:\n{lines}"
        else:
            lines = ""
        return MLNX_QOS.format(
            mode="Firmware" if self.firmware else "OS",
            trust=self.trust[interface],
            mapping=lines,
            enabled="".join(f"{bit}   " for bit in self.pfc[interface]),
            end="",
        )

    def _set_mlnx_qos(self, interface: str, options: dict[str, str]) -> None:
        if options.get("dcbx") == "os":
            self.firmware = False
        if self.firmware:
            return
        self.trust[interface] = options.get("trust", self.trust[interface])
        if "dscp2prio" in options:
            _, dscp, prio = options["dscp2prio"].split(",")
            self.mapping[interface][int(dscp)] = int(prio)
        self.pfc[interface] = options.get("pfc", self.pfc[interface]).replace(",", "")

    def _dcb(self, words: list[str]) -> str | tuple[str]:
        interface = words[words.index("dev") + 1]
        if interface not in self.pfc:
            return ("Attribute read: Operation not supported\n",)
        if words[:3] == ["-N", "app", "show"]:
            rows = "".join(f"{dscp}:{prio} " for dscp, prio in sorted(self.mapping[interface].items()))
            return f"dscp-prio {rows}\n" if rows else ""
        if words[:2] == ["pfc", "show"]:
            states = "".join(
                f"{place}:{'on' if bit == '1' else 'off'} " for place, bit in enumerate(self.pfc[interface])
            )
            return f"prio-pfc {states}\n"
        if self.stubborn:
            return ""
        if words[:2] == ["app", "replace"]:
            self.mapping[interface].update(
                (int(one), int(two)) for one, two in re.findall(r"(\d+):(\d)", " ".join(words))
            )
        else:
            assert (words[:2], words[5]) == (["pfc", "set"], "all:off")
            on = [int(one) for one in re.findall(r"(\d):on", " ".join(words))]
            self.pfc[interface] = "".join(str(int(place in on)) for place in range(8))
        return ""

    def _dpkg(self, words: list[str]) -> str:
        return "".join(f"{name} {self.packages[name]} installed\n" for name in words if name in self.packages)


MLNX_QOS = """\
DCBX mode: {mode} controlled
Priority trust state: {trust}
{mapping}Receive buffer size (bytes): 20016,156096,0,0,0,0,0,0,max_buffer_size=1027728
Cable len: 7
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     {enabled}
\tbuffer      0   0   0   1   0   0   0   0   {end}
tc: 1 ratelimit: unlimited, tsa: vendor
\t priority:  0
tc: 0 ratelimit: unlimited, tsa: vendor
\t priority:  1
"""


def found(top: Path) -> Machine:
    """Return a machine as its kernel found it: the first two NICs the other way round, and nothing set up."""
    machine = Machine(top)
    machine.device("mlx5_1", PCI["mlx5_0"], "ens1np0", "0c42:a103:0065:d1a0")
    machine.device("mlx5_0", PCI["mlx5_1"], "ens2np0", "0c42:a103:0065:d1a1")
    machine.device("ibp134s0", PCI["mlx5_2"], "ens3np0", "0c42:a103:0065:d1a2")
    for name in ("mlx5_0", "mlx5_1"):
        machine.put(f"sys/kernel/config/rdma_cm/{name}/ports/1/default_roce_tos", "0\n")
    machine.put("usr/sbin/dcb", "")
    machine.addresses["ens3np0"] = ["10.0.0.11/24"]
    return machine
