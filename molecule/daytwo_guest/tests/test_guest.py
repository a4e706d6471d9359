# SPDX-License-Identifier: GPL-3.0-or-later
"""A virtual machine among the containers: Slurm reboots it for real during a roll that changes its huge pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from lab import scenario_run
from lab.guest import bridge, commands
from lab.guest.machine import Guest
from lab.guest.qemu import GuestNic
from lab.paths import ROOT, ssh_config_of
from tests.kit import rolls
from tests.kit.rolls import Roll, disagreements

SCENARIO = "daytwo_guest"
ssh, states = partial(rolls.ssh, SCENARIO), partial(rolls.states_of, SCENARIO)
LAB = f"molecule-{SCENARIO}"
NODE, ADDRESS = "vm01", "10.215.42.12"
TAP, MAC = "bp-roll", "52:54:00:10:42:12"
_PAGES = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"
_PROFILE = """
  vm:
    sockets: 2
    cores_per_socket: 2
    memory_mib: 1900
    reserved_memory_mib: 40
    numa:
      - {cores: 0-1, hugepages: {2M: 16}}
      - {cores: 2-3, hugepages: {2M: 8}}
"""


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    """A guest with a second NIC on the network of the containers, which reaches it under its name and address."""
    commands.prepare()
    config = ssh_config_of(LAB)
    before = config.read_text()
    with Guest("daytwo", [GuestNic("virtio-net-pci", 0, queues=1, tap=TAP, mac=MAC)]) as one:
        bridge.join(one, TAP, LAB, NODE, ADDRESS, MAC)
        own = re.sub(r"^Host \*", f"Host {NODE} {ADDRESS}", one.ssh_config.read_text())
        # The first value of an option counts.
        config.write_text(f"{own}\n{before}")
        try:
            yield one
        finally:
            config.write_text(before)


@pytest.fixture(scope="module")
def cluster_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scenario's cluster file with the guest in a second rack."""
    text = (ROOT / f"molecule/{SCENARIO}/{SCENARIO}.bedplate.yml").read_text()
    # The last rack: nodes have their addresses in the order of the racks.
    text = text.replace("\nracks:\n", f"{_PROFILE}\nracks:\n")
    text = text.replace("\nhosts:\n", f"  r2: {{nodes: {NODE}, profile: vm}}\n\nhosts:\n")
    path = tmp_path_factory.mktemp("guest") / f"{SCENARIO}.bedplate.yml"
    path.write_text(text)
    # Containers have the kernel of the machine that runs them, and a guest its own.
    (path.parent / "host_vars").mkdir()
    (path.parent / f"host_vars/{NODE}.yml").write_text("node_tuning_manage: true\n")
    return path


def pages(guest: Guest) -> tuple[int, int]:
    return int(guest.read(_PAGES.format(0))), int(guest.read(_PAGES.format(1)))


def test_slurm_reboots_a_machine_whose_huge_pages_change(guest: Guest, cluster_file: Path) -> None:
    done = scenario_run.run(SCENARIO, ROOT / "playbooks/site.yml", cluster_file)
    # Its kernel still has the command line of its first boot, so it differs from the cluster file until the roll.
    assert done.returncode == 2, done.stdout[-6000:] + done.stderr[-2000:]
    assert f"{NODE}: reboot for node_tuning" in done.stdout + done.stderr
    assert "1 failed" not in done.stdout.partition("PLAY [Compare every machine")[0]
    assert states()[NODE] == "idle none"
    assert "hugepages" not in guest.read("/proc/cmdline")

    cluster_file.write_text(cluster_file.read_text().replace("{2M: 16}", "{2M: 32}"))
    job = ssh(
        "ctl1", f"sbatch --parsable --account=research --nodelist={NODE} --output=/dev/null --wrap='sleep 20; exit 3'"
    ).strip()
    boot = guest.boot_id()
    whole = Roll(SCENARIO, cluster_file, ("-e", "roll_percent=50", "--limit", NODE))
    assert whole.run() == 0, whole.text[-6000:]
    assert guest.boot_id() not in ("", boot)
    assert pages(guest) == (32, 8)
    assert "hugepages=0:32,1:8" in guest.read("/proc/cmdline")
    assert states()[NODE] == "idle none"
    assert disagreements(whole.report, states(), [NODE]) == []
    row = ssh("ctl1", f"sacct -D --allocations --noheader --parsable2 --jobs={job} --format=ExitCode,Restarts").split()
    assert row == ["3:0|0"]
