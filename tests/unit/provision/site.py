"""A site on which provision.yml runs: simulated BMCs, the real order server, and stand-ins for ssh and Slurm."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.bmc.simulation import Simulation
from tests.kit.provision import behind, host
from tests.unit.bmc.site import Site

BEHIND = "tests.kit.provision.behind:make"
NODES = ("gpu01", "gpu02")
# `ssh -G` is the real one. A login to a node succeeds if the known_hosts file has the key of the system that it has booted last. Commands
# to all other hosts run here.
_SSH = """#!/bin/sh
case "$*" in *" -G "*) exec /usr/bin/ssh "$@" ;; esac
for last; do :; done
case " $* " in *" 10.0.0.200 "*|*" localhost "*) exec sh -c "$last" ;; esac
for word; do case "$word" in UserKnownHostsFile=*) [ -n "$file" ] || file=$(echo "$word" | cut -d'"' -f2) ;; esac; done
for word; do case "$word" in 10.0.0.*) node=gpu0${word##*.} ;; esac; done
key=$(grep '^system ' "@FOLDER@/$node-@NUMBER@.log" | tail -n 1 | cut -d' ' -f2-)
[ -n "$key" ] && grep -qF "$key" "$file" && exit 0
echo "Host key verification failed." >&2
exit 255
"""
# scontrol keeps the lines of nodes in a file, and changes them as Slurm does.
_SCONTROL = """#!/bin/sh
case "$*" in
*"show nodes"*) cat "@FOLDER@/nodes" ;;
*State=DRAIN*) for last; do :; done
  sed -i "s/State=IDLE.*/State=IDLE+DRAIN $last [root@2026-11-28T10:00:00]/" "@FOLDER@/nodes" ;;
*State=RESUME*) sed -i "s/State=.*/State=IDLE/" "@FOLDER@/nodes" ;;
esac
"""


@dataclass(frozen=True)
class Services:
    """A provision host whose order server runs, simulated BMCs, and the folder of the machines behind them."""

    simulation: Simulation
    host: host.Host
    machines: Path


@contextmanager
def services(folder: Path) -> Iterator[Services]:
    """Start an order server and simulated BMCs with machines behind them."""
    machines = folder / "machines"
    machines.mkdir()
    (folder / "host").mkdir()
    provision_host = host.Host(folder / "host")
    before = os.environ.get(behind.FOLDER)
    # The process of the BMCs starts the machines.
    os.environ[behind.FOLDER] = str(machines)
    try:
        with Simulation() as simulation:
            provision_host.start()
            try:
                yield Services(simulation, provision_host, machines)
            finally:
                provision_host.close()
    finally:
        if before is None:
            del os.environ[behind.FOLDER]
        else:
            os.environ[behind.FOLDER] = before


class InstalledSite:
    """A site of two nodes that are off; gpu01 is in Slurm and idle, gpu02 is unknown to it."""

    def __init__(self, folder: Path, given: Services, **spec: Any) -> None:
        self.host, self.machines = given.host, given.machines
        self.site = Site(folder, given.simulation, NODES, **{"behind": BEHIND, "power": "Off", **spec})
        (folder / "i.img.zst").write_bytes(b"")
        self.write_cluster()
        self.site.record()
        for node in NODES:
            own = self.site.spec(node)
            facts = {"ca": str(given.host.ca), "serial": own["serial"], "mac": own["nics"][0], "data": False}
            facts |= {"disk": own["drives"][0]["serial"], "behaviour": "install"}
            (self.machines / f"{own['node']}.json").write_text(json.dumps(facts))
        self.site.programs.mkdir()
        (folder / "nodes").write_text("NodeName=gpu01 NodeHostName=gpu01 State=IDLE\n")
        for name, text in {"ssh": _SSH, "scontrol": _SCONTROL, "squeue": "#!/bin/sh\n"}.items():
            changed = text.replace("@FOLDER@", str(self.machines if name == "ssh" else folder))
            (self.site.programs / name).write_text(changed.replace("@NUMBER@", str(self.site.number)))
            (self.site.programs / name).chmod(0o755)
        (folder / "key.pub").write_text("ssh-ed25519 AAAAC3Nza operator\n")

    def write_cluster(self, **profile: Any) -> None:
        """Write the cluster file; `profile` has further keys of the profile."""
        image = {"os": "debian-13", "file": "i.img.zst", "sha256": self.host.image["sha256"]}
        self.site.write_cluster(
            {"image": host.IMAGE, **profile},
            images={host.IMAGE: image},
            provision={"host": "ctl1", "address": host.ADDRESS},
            networks={
                "management": {"cidr": "10.0.0.0/24"},
                "bmc": {"cidr": f"127.2.{self.site.number}.0/24"},
                "provision": {"cidr": "127.9.0.0/24"},
            },
        )

    @property
    def variables(self) -> dict[str, Any]:
        """Return the variables of provision.yml for both nodes."""
        return {
            "provision_nodes": "gpu[01-02]",
            "provision_directory": str(self.host.folder),
            "provision_port": self.host.port,
            "provision_authorized_keys": str(self.site.folder / "key.pub"),
            "provision_ssh_seconds": 20,
            "ansible_ssh_executable": str(self.site.programs / "ssh"),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={self.site.folder}/known_hosts",
        }

    def play(self, *arguments: str, **variables: Any) -> Any:
        """Run provision.yml for both nodes."""
        return self.site.play("provision", *arguments, **{**self.variables, **variables})

    def events(self, node: str) -> list[str]:
        """Return what happened to a machine."""
        path = self.machines / f"{node}-{self.site.number}.log"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def slurm(self) -> str:
        """Return the lines of nodes."""
        return (self.site.folder / "nodes").read_text()
