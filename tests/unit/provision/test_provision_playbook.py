"""provision.yml by ansible-playbook, over simulated BMCs, the real order server, and stand-ins for ssh and Slurm."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import written
from tests.kit.bmc.simulation import Simulation
from tests.kit.provision import behind, host
from tests.unit.bmc.site import Site
from tests.unit.provision.world import BEHIND, events

pytestmark = pytest.mark.metal
NODES = ("gpu01", "gpu02")
# `ssh -G` is the real one. A login succeeds if the known_hosts file has the key of the system that the machine has booted last.
_SSH = """#!/bin/sh
case "$*" in *" -G "*) exec /usr/bin/ssh "$@" ;; esac
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


class InstalledSite:
    """A site of two nodes that are off; gpu01 is in Slurm and idle, gpu02 is unknown to it."""

    def __init__(self, folder: Path, simulation: Simulation, provision_host: host.Host, machines: Path) -> None:
        self.host, self.machines = provision_host, machines
        self.site = Site(folder, simulation, NODES, behind=BEHIND, power="Off")
        (folder / "i.img.zst").write_bytes(b"")
        self.site.write_cluster(
            {"image": host.IMAGE},
            images={host.IMAGE: {"os": "debian-13", "file": "i.img.zst", "sha256": provision_host.image["sha256"]}},
            provision={"host": "ctl1", "address": host.ADDRESS},
            networks={
                "management": {"cidr": "10.0.0.0/24"},
                "bmc": {"cidr": f"127.2.{self.site.number}.0/24"},
                "provision": {"cidr": "127.9.0.0/24"},
            },
        )
        self.site.record()
        for node in NODES:
            spec = self.site.spec(node)
            facts = {"ca": str(provision_host.ca), "serial": spec["serial"], "mac": spec["nics"][0], "data": False}
            facts |= {"disk": spec["drives"][0]["serial"], "behaviour": "install"}
            (machines / f"{spec['node']}.json").write_text(json.dumps(facts))
        self.site.programs.mkdir()
        (folder / "nodes").write_text("NodeName=gpu01 NodeHostName=gpu01 State=IDLE\n")
        texts = {"ssh": _SSH, "scontrol": _SCONTROL, "squeue": "#!/bin/sh\n"}
        for name, text in texts.items():
            changed = text.replace("@FOLDER@", str(machines if name == "ssh" else folder))
            (self.site.programs / name).write_text(changed.replace("@NUMBER@", str(self.site.number)))
            (self.site.programs / name).chmod(0o755)
        (folder / "key.pub").write_text("ssh-ed25519 AAAAC3Nza operator\n")

    def play(self, *arguments: str, **variables: Any) -> Any:
        """Run provision.yml for both nodes."""
        known = f"-o UserKnownHostsFile={self.site.folder}/known_hosts"
        own = {
            "provision_nodes": "gpu[01-02]",
            "provision_directory": str(self.host.folder),
            "provision_port": self.host.port,
            "provision_authorized_keys": str(self.site.folder / "key.pub"),
            "provision_ssh_seconds": 20,
            "ansible_ssh_executable": str(self.site.programs / "ssh"),
            "ansible_ssh_common_args": known,
        }
        return self.site.play("provision", *arguments, **{**own, **variables})

    def events(self, node: str) -> list[str]:
        """Return what happened to a machine."""
        return events(self.machines, f"{node}-{self.site.number}")

    @property
    def slurm(self) -> str:
        """Return the lines of nodes."""
        return (self.site.folder / "nodes").read_text()


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Simulation, host.Host, Path]]:
    folder = tmp_path_factory.mktemp("services")
    machines = folder / "machines"
    machines.mkdir()
    (folder / "host").mkdir()
    provision_host = host.Host(folder / "host")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(behind.FOLDER, str(machines))
        with Simulation() as simulation:
            provision_host.start()
            try:
                yield simulation, provision_host, machines
            finally:
                provision_host.close()


@pytest.fixture
def installed(tmp_path: Path, services: tuple[Simulation, host.Host, Path]) -> InstalledSite:
    # Progress is by node, and each site has the same nodes.
    shutil.rmtree(services[1].folder / "states", ignore_errors=True)
    return InstalledSite(tmp_path, *services)


def flat(text: str) -> str:
    return " ".join(text.split())


def test_nodes_are_installed_once(installed: InstalledSite) -> None:
    site = installed.site
    check = installed.play("--check")
    assert check.returncode == 0, check.stdout
    assert "gpu[01-02]: would install image trixie" in flat(check.stdout)
    assert site.writes() == []
    assert not (installed.host.folder / "states").exists()
    assert "State=IDLE\n" in installed.slurm
    done = installed.play("-vvvv")
    assert done.returncode == 0, done.stdout
    assert "gpu[01-02]: installed, and answers by SSH with its own host key" in flat(done.stdout)
    for node in NODES:
        assert [line.split()[0] for line in installed.events(node)].count("write") == 1
    assert "State=IDLE\n" in installed.slurm
    assert "127.0.0" not in (site.folder / "known_hosts").read_text()
    # Neither tokens nor private keys nor paths of media.
    texts = [done.stdout, installed.host.log.read_text()]
    texts += [path.read_text() for path in (installed.host.folder / "states").glob("*.json")]
    for text in texts:
        assert "PRIVATE KEY" not in text
        assert ".iso" not in text
        assert "canary" not in text
    site.forget()
    again = installed.play()
    assert again.returncode == 0, again.stdout
    assert "changed=0" in again.stdout
    assert all(bmc.state()["log"] == [] for bmc in site.bmcs.values())


def test_mistakes_and_a_job_refuse(installed: InstalledSite) -> None:
    site = installed.site
    site.record("gpu02")
    done = installed.play(provision_wipe="gpu03", provision_authorized_keys="/nowhere")
    text = flat(done.stdout)
    assert done.returncode == 2
    for says in ("gpu02: serial, boot_mac, disk_serial, bmc_fingerprint not on record", "gpu03 not in", "/nowhere"):
        assert says in text
    assert all(bmc.state()["log"] == [] for bmc in site.bmcs.values())
    site.record()
    (site.programs / "squeue").write_text("#!/bin/sh\necho '12|RUNNING|gpu01|1:00:00'\n")
    done = installed.play()
    assert done.returncode == 2
    assert "gpu01: job 12 on it" in flat(done.stdout)
    assert installed.events("gpu01") == []
    assert site.bmcs["gpu01"].writes() == []
    # The node was drained for nothing, and is in service again.
    assert "State=IDLE\n" in installed.slurm
    assert installed.events("gpu02")[-1].startswith("system ")


def test_a_persons_drain_and_a_wrong_serial_number(installed: InstalledSite) -> None:
    site = installed.site
    line = "NodeName=gpu01 NodeHostName=gpu01 State=IDLE+DRAIN Reason=fan is loud [ann@2026-11-28T10:00:00]\n"
    (site.folder / "nodes").write_text(line)
    site.bmcs["gpu02"].faults(serial="SN-OTHER")
    done = installed.play()
    assert done.returncode == 2
    text = flat(done.stdout)
    assert "fan is loud" in text
    assert "SN-OTHER" in text
    assert installed.slurm == line
    assert site.writes() == []
    assert written("provision", "orders", "x").startswith("bedplate:provision:orders:")
