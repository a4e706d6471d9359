# SPDX-License-Identifier: GPL-3.0-or-later
"""Four machines that are off become nodes of a cluster. The controller is a container on their bridge, and their provision host."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import yaml

from lab import host as lab_host
from lab.guest import bridge
from lab.paths import ssh_config_of
from lab.shell import say
from tests.kit.bmc.simulation import Simulation
from tests.kit.provision.metal import WORDS
from tests.kit.provision.metal_lab import CONTROLLER, KIT, LAB, MetalLab
from tests.kit.provision.metal_site import Machines, MetalNode, Operator

pytestmark = [pytest.mark.metal, pytest.mark.step]
SUBNET, ADDRESS = "10.215.62.{}", "10.215.62.10"
BMC = "127.2.62.{}"
IMAGE = "trixie"
NODES = [
    MetalNode(f"gpu{number:02d}", number, SUBNET.format(10 + number), BMC.format(number)) for number in range(1, 5)
]
METHODS = {"media": "gpu[01-02]", "http": "gpu03", "pxe": "gpu04"}
"""How machines boot the installer -> nodes. Two machines at a time: there are two cores."""
BATCHES = (("gpu01", "gpu02"), ("gpu03", "gpu04"))
ALL = "gpu[01-04]"
SIZE = {"memory_mib": 1024, "disk_mib": 2048}
figures: dict[str, str] = {}


def cluster(image: dict[str, object]) -> dict[str, object]:
    size = {"sockets": 1, "cores_per_socket": 1, "threads_per_core": 1, "memory_mib": 900, "reserved_memory_mib": 64}
    own = {**size, "bmc": {"protocol": "redfish"}, "image": IMAGE}
    boots = {name: {"firmware": "uefi", "method": name} for name in METHODS}
    boots["media"]["secure_boot"] = True  # type: ignore[assignment]
    network = {"cidr": SUBNET.format("0/24"), "gateway": SUBNET.format(1), "start": NODES[0].address}
    return {
        "plugin": "bedplate.cluster.racks",
        "site": "metal",
        "cluster": "metal",
        "domain": "metal.internal",
        "networks": {"management": network, "bmc": {"cidr": BMC.format("0/24")}},
        "profiles": {name: {**own, "boot": boot} for name, boot in boots.items()},
        "racks": {f"r-{name}": {"nodes": nodes, "profile": name} for name, nodes in METHODS.items()},
        "hosts": {CONTROLLER: {"address": ADDRESS}},
        "services": {"controllers": [CONTROLLER]},
        "partitions": {"all": {"nodes": "all", "default": True}},
        "slurm": {"version": "24.11"},
        "images": {IMAGE: image},
        "provision": {"host": CONTROLLER},
    }


@pytest.fixture(scope="module")
def lab() -> Iterator[MetalLab]:
    """The controller."""
    lab_host.require_root()
    lab_host.install_missing(metal=True)
    started = time.monotonic()
    one = MetalLab(SUBNET.format("0/24"), ADDRESS)
    try:
        one.start()
        for node in NODES:
            one.name(node.name, node.address)
        figures["controller"] = f"{time.monotonic() - started:.0f} s"
        yield one
    finally:
        one.close()


@pytest.fixture(scope="module")
def operator(lab: MetalLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The cluster file of the controller and the machines, which are off."""
    folder = tmp_path_factory.mktemp("cluster")
    path = folder / "metal.bedplate.yml"
    path.write_text(yaml.safe_dump(cluster(lab.place_installer()), sort_keys=False))
    (folder / "group_vars").mkdir()
    (folder / "group_vars/all.yml").write_text("ansible_user: root\n")
    # Packages are on the controller; the machines are too small to be tuned.
    own = {
        "node_os_extra_files": [{"path": "/etc/apt/sources.list", "content": lab.sources}],
        "node_tuning_manage": False,
        # Four emulated machines share two cores: slurmd may need longer than a real one.
        "slurm_drop_ins": {"slurmd.service": {"emulated.conf": "[Service]\nTimeoutStartSec=600\n"}},
    }
    (folder / "group_vars/compute_nodes.yml").write_text(yaml.safe_dump(own))
    served = {"image_boots": {IMAGE: KIT}}
    (folder / "group_vars/provision_hosts.yml").write_text(yaml.safe_dump(served))
    secrets = lab.folder / "secrets"
    secrets.mkdir(mode=0o700, exist_ok=True)
    (secrets / "bmc_factory").write_text("root:factory-canary")
    (secrets / "bmc_factory").chmod(0o400)
    variables = {
        "bedplate_secrets_dir": str(secrets),
        "provision_words": WORDS,
        "provision_authorized_keys": str(lab.folder / "id_ed25519.pub"),
        "provision_install_seconds": 900,
        "provision_ssh_seconds": 900,
    }
    environment = {
        "ANSIBLE_SSH_COMMON_ARGS": f'-F "{ssh_config_of(LAB)}"',
        "BEDPLATE_REPORT": str(folder / "report"),
    }
    with bridge.taps(lab.bridge, [node.tap for node in NODES]), Simulation() as simulation:
        machines = Machines(folder / "machines", simulation, NODES, lab.ca, **SIZE)
        machines.record(path)
        try:
            yield Operator(path, machines, {"bmc_port": machines.port, **variables}, environment)
        finally:
            machines.end()


def test_the_controller_becomes_the_provision_host(operator: Operator, lab: MetalLab) -> None:
    started = time.monotonic()
    done = operator.play("provision_host")
    assert done.returncode == 0, done.stdout[-12000:]
    lab.take_ca()
    lab.serve_packages()
    figures["provision_host.yml"] = f"{time.monotonic() - started:.0f} s"


@pytest.mark.parametrize("batch", BATCHES, ids="-".join)
def test_machines_become_known(operator: Operator, batch: tuple[str, ...]) -> None:
    started = time.monotonic()
    # Slurm is not installed yet.
    done = operator.provision(*batch, provision_without_slurm=",".join(batch))
    machines = operator.machines
    assert done.returncode == 0, "\n".join([done.stdout, *map(machines.console, batch)])
    installs = " ".join(f"{machines.seconds_of_install(node):.0f}" for node in batch)
    figures["-".join(batch)] = f"off to known {time.monotonic() - started:.0f} s (installers {installs} s)"


def test_the_site_is_deployed(operator: Operator, lab: MetalLab) -> None:
    started = time.monotonic()
    done = operator.play("site")
    assert done.returncode == 0, done.stdout[-12000:]
    figures["site.yml"] = f"{time.monotonic() - started:.0f} s"
    for node in NODES:
        assert lab.ssh(node.name, "hostname") == node.name


def test_a_job_runs_on_all_nodes(lab: MetalLab) -> None:
    lab.ssh(CONTROLLER, "for n in $(seq 60); do sinfo -h -N -o %t | grep -vq idle || break; sleep 2; done; sinfo -N")
    names = lab.ssh(CONTROLLER, f"srun -N{len(NODES)} -t 5 hostname").split()
    assert sorted(names) == [node.name for node in NODES]
    figures["job"] = f"srun -N{len(NODES)} on {' '.join(sorted(names))}"


def test_secure_boot(lab: MetalLab) -> None:
    for name in BATCHES[0]:
        assert "Secure boot enabled" in lab.ssh(name, "dmesg")


def test_a_second_run_changes_nothing(operator: Operator) -> None:
    machines = operator.machines
    boots = {name: bmc.state()["boots"] for name, bmc in machines.bmcs.items()}
    for bmc in machines.bmcs.values():
        bmc.forget_log()
    done = operator.play("provision", provision_nodes=ALL)
    assert done.returncode == 0, done.stdout
    assert "changed=0" in done.stdout
    assert "changed=1" not in done.stdout
    for name, bmc in machines.bmcs.items():
        state = bmc.state()
        assert (bmc.writes(), state["boots"], state["sessions"]) == ([], boots[name], 0)
    panics = sum(machines.panics().values())
    rows = "; ".join(f"{key}: {text}" for key, text in figures.items())
    say("metal", rows)
    print(f"\nFULL RESULT: {rows}; kernel panics of emulation: {panics}", flush=True)
