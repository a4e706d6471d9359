# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU machines that are off behind simulated BMCs, their record, and an operator who runs playbooks over them.

QEMU's emulation panics a guest now and then. A panicked machine hangs; what ends that is the next command of an operator to its BMC, and
`Operator.provision` counts and shows each.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.guest import qemu
from lab.shell import say
from tests.kit import ROOT
from tests.kit.bmc.simulation import Simulated, Simulation
from tests.kit.provision import host, metal, qemu_behind

RUNS = 3
"""Runs of provision.yml for the same nodes, if machines panic."""
_BEHIND = "tests.kit.provision.qemu_behind:make"


class MetalHost(host.Host):
    """A provision host on this machine, with the image of the kit and the installer of this checkout."""

    def place_image(self, image: Path, served: Path) -> dict[str, Any]:
        """Take the built image from the cache."""
        built = metal.image()
        (image / "image.json").write_bytes((built / "image.json").read_bytes())
        metal.boot_folder(built, image / "boot")
        facts: dict[str, Any] = json.loads((image / "image.json").read_text())
        (served / "images" / f"{facts['sha256']}.img.zst").symlink_to(built / "image.img.zst")
        return facts


@dataclass(frozen=True)
class MetalNode:
    """A machine: its node, its number from 1 on, its address in the cluster, and that of its BMC."""

    name: str
    number: int
    address: str
    bmc: str

    @property
    def facts(self) -> dict[str, str]:
        """Return the machine's line of machines.json, without its BMC's certificate."""
        name, number = self.name.upper(), f"{self.number:02x}"
        macs = {"bmc_mac": f"52:54:00:be:bc:{number}", "boot_mac": f"52:54:00:be:d9:{number}"}
        return {"serial": f"SN-{name}", "disk_serial": f"DISK-{name}", **macs}

    @property
    def tap(self) -> str:
        """Return the machine's interface on this machine; each process of tests has its own."""
        return f"bp{os.getpid()}-{self.number}"


class Machines:
    """Machines with empty disks, off, each behind a simulated BMC that fetches media with the CA of `ca`."""

    def __init__(
        self, folder: Path, simulation: Simulation, nodes: Sequence[MetalNode], ca: Path, **options: Any
    ) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.folders = {node.name: folder / node.name for node in nodes}
        self.port = _free_port(nodes[0].bmc)
        specs = [self._spec(node, {"ca": str(ca), **options}) for node in nodes]
        self.bmcs: dict[str, Simulated] = dict(zip(self.nodes, simulation.add_all(specs), strict=True))

    def _spec(self, node: MetalNode, options: Mapping[str, Any]) -> dict[str, Any]:
        facts = node.facts
        size = int(options.get("disk_mib", 1024)) << 20
        drive = {"serial": facts["disk_serial"], "bytes": size, "protocol": "SATA", "model": "QEMU"}
        named = {"node": node.name, "address": node.bmc, "port": self.port, "serial": facts["serial"]}
        macs = {"bmc_mac": facts["bmc_mac"], "nics": [facts["boot_mac"]]}
        own = {"folder": str(self.folders[node.name]), "tap": node.tap, **options}
        return {**named, **macs, "drives": [drive], "power": "Off", "behind": _BEHIND, "behind_options": own}

    def record(self, cluster_file: Path) -> None:
        """Write machines.json beside a cluster file."""
        rows = {
            name: {**node.facts, "bmc_fingerprint": self.bmcs[name].fingerprint} for name, node in self.nodes.items()
        }
        path = cluster_file.with_name(cluster_file.name.replace(".bedplate.yml", ".machines.json"))
        path.write_text(json.dumps({"format": 1, "about": "machines of a test", "machines": rows}))

    def events(self, node: str, start: str = "") -> list[tuple[float, str]]:
        """Return the events of a machine that begin with a text, with their time in seconds since 1970."""
        path = self.folders[node] / qemu_behind.EVENTS
        lines = [line.partition(" ") for line in path.read_text().splitlines()] if path.exists() else []
        return [(float(at), event) for at, _, event in lines if event.startswith(start)]

    def panics(self) -> dict[str, int]:
        """Return node -> how often its kernel panicked."""
        return {node: len(self.events(node, "panic")) for node in self.nodes}

    def seconds_of_install(self, node: str) -> float:
        """Return the seconds of a machine from the start of its last installation until it was off."""
        started = max(at for at, event in self.events(node, "boot ") if event != "boot None")
        return min(at for at, _event in self.events(node, "off") if at > started) - started

    def console(self, node: str) -> str:
        """Return the last lines of a machine's console."""
        return qemu.console(self.folders[node], 30)

    def end(self) -> None:
        """End what the simulator left running."""
        for folder in self.folders.values():
            qemu.end(folder)


@dataclass
class Operator:
    """Runs playbooks on a cluster file. `variables` are extra variables of each run, `environment` is added to this process's."""

    cluster_file: Path
    machines: Machines
    variables: Mapping[str, Any]
    environment: Mapping[str, str]
    inventories: Sequence[Path] = ()

    def play(self, playbook: str, *arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Run a playbook by ansible-playbook; `stdout` has both outputs."""
        extra = json.dumps({**self.variables, **variables})
        words = ["ansible-playbook", *(f"--inventory={path}" for path in (self.cluster_file, *self.inventories))]
        started = time.monotonic()
        done = subprocess.run(
            [*words, f"--extra-vars={extra}", *arguments, str(ROOT / f"playbooks/{playbook}.yml")],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2400,
            check=False,
        )
        say("metal", f"{playbook}.yml: exit status {done.returncode} after {time.monotonic() - started:.0f} s")
        return done

    def provision(self, *nodes: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Run provision.yml for nodes, and again as long as a machine of the run before panicked. Return the last run."""
        named, wiped = ",".join(nodes), list[str]()
        for left in range(RUNS - 1, -1, -1):
            before = self.machines.panics()
            confirmed = {"provision_wipe": ",".join(wiped), "provision_count": len(wiped)} if wiped else {}
            done = self.play("provision", provision_nodes=named, **confirmed, **variables)
            hung = [node for node, count in self.machines.panics().items() if count > before[node]]
            if done.returncode == 0 or not (hung and left):
                return done
            say("metal", f"kernel panic of {', '.join(hung)}; provision.yml runs again")
            booted = [node for node in hung if self.machines.events(node, "boot ")[-1][1] == "boot None"]
            # A machine that panicked in the installer is on, and its disk may have been written.
            wiped = [node for node in hung if node not in booted]
            if booted:
                cycled = ",".join(booted)
                self.play("power", power="cycle", power_nodes=cycled, power_without_slurm=cycled)
        raise AssertionError("not reached")


def _free_port(address: str) -> int:
    with socket.socket() as found:
        found.bind((address, 0))
        port: int = found.getsockname()[1]
        return port
