# SPDX-License-Identifier: GPL-3.0-or-later
"""One machine that is off becomes a known node: provision.yml, a simulated BMC in its own process, a medium, Secure Boot.

The control node and the provision host are this machine; it and the machine are on a bridge of their own.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab import host as lab_host
from lab.guest import bridge
from lab.shell import say
from tests.kit.bmc.simulation import Simulation
from tests.kit.provision.host import IMAGE
from tests.kit.provision.metal import WORDS
from tests.kit.provision.metal_site import Machines, MetalHost, MetalNode, Operator

pytestmark = [pytest.mark.metal, pytest.mark.step]
NETWORK, HOST = "10.215.61.0/24", "10.215.61.254"
NODE = MetalNode("gpu01", 1, "10.215.61.1", "127.2.61.1")
BRIDGE = "bp-metal-one"
_SSH = """\
Host {node}
    HostName {address}
Host *
    User root
    IdentityFile "{folder}/operator"
    IdentitiesOnly yes
    UserKnownHostsFile "{folder}/known_hosts"
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    LogLevel ERROR
    ConnectTimeout 10
"""


def cluster(sha256: str) -> dict[str, object]:
    boot = {"firmware": "uefi", "method": "media", "secure_boot": True}
    size = {"sockets": 1, "cores_per_socket": 1, "memory_mib": 900}
    return {
        "plugin": "bedplate.cluster.racks",
        "site": "metal",
        "cluster": "one",
        "networks": {"management": {"cidr": NETWORK}, "bmc": {"cidr": "127.2.61.0/24"}},
        "profiles": {"small": {**size, "bmc": {"protocol": "redfish"}, "boot": boot, "image": IMAGE}},
        "racks": {"r1": {"nodes": NODE.name, "profile": "small"}},
        "hosts": {"ctl1": {"address": HOST}},
        "services": {"controllers": ["ctl1"]},
        "partitions": {"all": {"nodes": "all"}},
        "images": {IMAGE: {"os": "debian-12", "file": "image.img.zst", "sha256": sha256}},
        "provision": {"host": "ctl1"},
    }


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """A cluster file with one node, its machine off, and a provision host."""
    lab_host.require_root()
    lab_host.install_missing(metal=True)
    folder = tmp_path_factory.mktemp("metal")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "operator")], check=True)
    (folder / "ssh_config").write_text(_SSH.format(node=NODE.name, address=NODE.address, folder=folder))
    (folder / "secrets").mkdir(mode=0o700)
    (folder / "secrets/bmc_factory").write_text("root:factory-canary")
    (folder / "secrets/bmc_factory").chmod(0o400)
    (folder / "host").mkdir()
    with (
        bridge.own(BRIDGE, f"{HOST}/24"),
        bridge.taps(BRIDGE, [NODE.tap]),
        Simulation() as simulation,
    ):
        provision_host = MetalHost(folder / "host", HOST)
        machines = Machines(folder / "machines", simulation, [NODE], provision_host.ca)
        path = folder / "one.bedplate.yml"
        (folder / "image.img.zst").write_bytes(b"")
        path.write_text(yaml.safe_dump(cluster(str(provision_host.image["sha256"])), sort_keys=False))
        machines.record(path)
        provision_host.start()
        try:
            yield Operator(path, machines, variables(folder, machines, provision_host), environment(folder))
        finally:
            machines.end()
            provision_host.close()


def variables(folder: Path, machines: Machines, provision_host: MetalHost) -> dict[str, object]:
    return {
        "bmc_port": machines.port,
        "bedplate_secrets_dir": str(folder / "secrets"),
        "provision_directory": str(provision_host.folder),
        "provision_port": provision_host.port,
        "provision_words": WORDS,
        "provision_authorized_keys": str(folder / "operator.pub"),
        # There is no Slurm.
        "provision_without_slurm": NODE.name,
        "provision_install_seconds": 900,
        "provision_ssh_seconds": 900,
        "ansible_connection": "local",
    }


def environment(folder: Path) -> dict[str, str]:
    return {
        "ANSIBLE_SSH_COMMON_ARGS": f'-F "{folder / "ssh_config"}"',
        "BEDPLATE_REPORT": str(folder / "report"),
    }


def ssh(operator: Operator, command: str) -> str:
    words = ["ssh", "-F", str(operator.cluster_file.parent / "ssh_config"), NODE.name, command]
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=120).stdout.strip()


def test_from_off_to_known(operator: Operator) -> None:
    started = time.time()
    done = operator.provision(NODE.name)
    machines = operator.machines
    assert done.returncode == 0, f"{done.stdout}\n{machines.console(NODE.name)}"
    known = time.time()
    assert "gpu01: installed, and answers by SSH with its own host key" in " ".join(done.stdout.split())
    booted = machines.events(NODE.name, "boot None")[-1][0]
    install = machines.seconds_of_install(NODE.name)
    say(
        "metal",
        f"known after {known - started:.0f} s: installer {install:.0f} s, boot until SSH {known - booted:.0f} s; "
        f"panics: {machines.panics()[NODE.name]}",
    )
    assert ssh(operator, "hostname") == NODE.name
    assert "Secure boot enabled" in ssh(operator, "dmesg")
    sha256 = yaml.safe_load(operator.cluster_file.read_text())["images"][IMAGE]["sha256"]
    assert f"image={sha256}" in ssh(operator, "cat /etc/bedplate/image")
    assert "canary" not in done.stdout
    state = machines.bmcs[NODE.name].state()
    assert (any(state["media"].values()), state["boot"]["BootSourceOverrideEnabled"]) == (False, "Disabled")
    assert state["sessions"] == 0


def test_a_second_run_only_reads(operator: Operator) -> None:
    bmc = operator.machines.bmcs[NODE.name]
    boots, boot_id = bmc.state()["boots"], ssh(operator, "cat /proc/sys/kernel/random/boot_id")
    bmc.forget_log()
    done = operator.play("provision", provision_nodes=NODE.name)
    assert done.returncode == 0, done.stdout
    assert "changed=0" in done.stdout
    state = bmc.state()
    others = [one for one in state["log"] if not one.startswith("GET ") and "/SessionService/Sessions" not in one]
    assert (others, state["sessions"], state["boots"]) == ([], 0, boots)
    assert ssh(operator, "cat /proc/sys/kernel/random/boot_id") == boot_id
