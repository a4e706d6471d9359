# SPDX-License-Identifier: GPL-3.0-or-later
"""A site with simulated BMCs: cluster file, record of machines, secrets, and stand-ins for Slurm's commands."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.kit import ROOT
from tests.kit.bmc.simulation import Simulated, Simulation
from tests.kit.plays import play

NODES = ("gpu01", "gpu02", "gpu03", "gpu04")
FACTORY = "root:factory-canary"
CANARY = "canary"
"""Part of each secret of these tests."""
_NUMBER = iter(range(1, 250))


class Site:
    """Four nodes with a BMC each; `bmcs` are the simulated ones by node. Each site has a network and a port of its own."""

    def __init__(self, folder: Path, simulation: Simulation, nodes: tuple[str, ...] = NODES, **spec: Any) -> None:
        self.folder, self.number = folder, next(_NUMBER)
        self.cluster_file, self.record_file = folder / "c.bedplate.yml", folder / "c.machines.json"
        self.secrets, self.reports, self.programs = folder / "secrets", folder / "reports", folder / "bin"
        self.names = nodes
        self.write_cluster()
        self.port = _free_port(self.address(nodes[0]))
        self.bmcs: dict[str, Simulated] = {}
        specs = [{**self.spec(node), **spec} for node in nodes]
        self.bmcs = dict(zip(nodes, simulation.add_all(specs), strict=True))
        self.secret("bmc_factory", FACTORY)

    def address(self, node: str) -> str:
        """Return the address of a node's BMC: its place in the network."""
        return f"127.2.{self.number}.{self.names.index(node) + 1}"

    def spec(self, node: str) -> dict[str, Any]:
        """Return the spec of a node's machine."""
        number = self.names.index(node) + 1
        hexadecimal = f"{self.number:02x}:{number:02x}"
        return {
            "node": f"{node}-{self.number}",
            "address": self.address(node),
            "port": self.port,
            "serial": f"SN{self.number}{number:04d}",
            "bmc_mac": f"02:00:00:ff:{hexadecimal}",
            "nics": [f"02:00:00:00:{hexadecimal}", f"02:00:00:01:{hexadecimal}"],
            "drives": [
                {"serial": f"D{self.number}-{number}", "bytes": 960197124096, "protocol": "NVMe", "model": "PM9A3"}
            ],
        }

    def write_cluster(self, profile: Mapping[str, Any] | None = None, **sections: Any) -> None:
        """Write the cluster file; `profile` has further keys of the profile, `sections` further sections."""
        small = {"sockets": 1, "cores_per_socket": 2, "memory_mib": 4096}
        data = {
            "plugin": "bedplate.cluster.racks",
            "site": "s",
            "cluster": "c",
            "networks": {"management": {"cidr": "10.0.0.0/24"}, "bmc": {"cidr": f"127.2.{self.number}.0/24"}},
            "profiles": {"small": {**small, "bmc": {"protocol": "redfish"}, **(profile or {})}},
            "racks": {"r1": {"nodes": ",".join(self.names), "profile": "small"}},
            "hosts": {"ctl1": {"address": "10.0.0.200"}},
            "services": {"controllers": ["ctl1"]},
            "partitions": {"all": {"nodes": "all"}},
            **sections,
        }
        self.cluster_file.write_text(yaml.safe_dump(data, sort_keys=False))

    def secret(self, name: str, text: str) -> None:
        """Write a secret."""
        path = self.secrets / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.secrets.chmod(0o700)
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o400)

    def record(self, *left_out: str, **changed: Mapping[str, str]) -> None:
        """Write the record as the machines are, without the nodes left out, with changed values of nodes."""
        machines = {}
        for node in self.names:
            if node in left_out:
                continue
            spec = self.spec(node)
            own = {"serial": spec["serial"], "bmc_mac": spec["bmc_mac"], "boot_mac": spec["nics"][0]}
            own |= {"disk_serial": spec["drives"][0]["serial"], "bmc_fingerprint": self.bmcs[node].fingerprint}
            machines[node] = {key: value for key, value in {**own, **changed.get(node, {})}.items() if value}
        self.record_file.write_text(json.dumps({"format": 1, "about": "x", "machines": machines}))

    @property
    def recorded(self) -> dict[str, dict[str, str]]:
        """Return the machines of the record."""
        found: dict[str, dict[str, str]] = json.loads(self.record_file.read_text())["machines"]
        return found

    def report(self, name: str) -> dict[str, Any]:
        """Return a JSON report."""
        found: dict[str, Any] = json.loads((self.reports / f"{name}.json").read_text())
        return found

    def slurm(self, states: Mapping[str, str], jobs: str = "") -> None:
        """Write stand-ins for scontrol and squeue. `states`: node -> such as `IDLE+DRAIN Reason=fan [root@2026-11-28T10:00:00]`."""
        lines = [f"NodeName={node} NodeHostName={node} State={state}" for node, state in states.items()]
        self.programs.mkdir(exist_ok=True)
        nodes = ['case "$*" in', "*nodes*) cat <<'EOF'", *lines, "EOF", ";;", "esac"]
        texts = {
            "scontrol": "\n".join(["#!/bin/sh", *nodes]),
            "squeue": "\n".join(["#!/bin/sh", "cat <<'EOF'", *([jobs] if jobs else []), "EOF"]),
        }
        for name, text in texts.items():
            (self.programs / name).write_text(text + "\n")
            (self.programs / name).chmod(0o755)

    def variables(self, playbook: str, **variables: Any) -> dict[str, Any]:
        """Return the variables of a run of a playbook."""
        return {
            "bmc_port": self.port,
            "bedplate_secrets_dir": str(self.secrets),
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            **({} if playbook in ("power", "provision") else {"bmc_report": str(self.reports)}),
            **variables,
        }

    def play(self, playbook: str, *arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Run a playbook. Its output must not have a secret."""
        extra = self.variables(playbook, **variables)
        path = f"{self.programs}:{os.environ['PATH']}"
        done = play(
            ROOT / f"playbooks/{playbook}.yml", "-i", self.cluster_file, "-e", json.dumps(extra), *arguments, PATH=path
        )
        assert CANARY not in done.stdout
        return done

    def writes(self) -> list[str]:
        """Return the requests of all BMCs that are not reads, nor the sessions' own."""
        return [f"{node} {one}" for node, bmc in self.bmcs.items() for one in bmc.writes()]

    def forget(self) -> None:
        """Forget all requests so far."""
        for bmc in self.bmcs.values():
            bmc.forget_log()


def _free_port(address: str) -> int:
    with socket.socket() as found:
        found.bind((address, 0))
        port: int = found.getsockname()[1]
        return port
