# SPDX-License-Identifier: GPL-3.0-or-later
"""Interrupts of NICs at both NUMA nodes of a machine with its own kernel: two virtio-net with several queues, and one e1000e.

The tests are steps: each one finds the guest as the one before it left it. The e1000e requests its interrupts when its interface gets up,
as mlx5 does when a vector is used: no event reports it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest

from lab.guest import commands
from lab.guest.machine import Guest
from lab.guest.qemu import GuestNic
from lab.shell import say
from tests.guest.tuned_node import TunedNode

pytestmark = [pytest.mark.guest, pytest.mark.step]

NICS = (GuestNic("virtio-net-pci", 0, 2), GuestNic("virtio-net-pci", 1, 2), GuestNic("e1000e", 1))
# Nothing that needs a reboot.
VARIABLES = {"node_tuning_iommu": "keep", "node_tuning_thp": "", "node_tuning_thp_defrag": ""}
_RULES = "/etc/udev/rules.d/62-bedplate-irqs.rules"
_READ = """\
cd -P /sys/class/net/{0}/device; test -d msi_irqs || cd ..
for irq in $(ls msi_irqs); do
  test -d /proc/irq/$irq && echo "$irq $(cat /sys/kernel/irq/$irq/hwirq) $(cat /proc/irq/$irq/smp_affinity_list)"
done; true
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TunedNode]:
    """The guest as a node with three NICs in its profile, and with a core of each NUMA node for the system."""
    commands.prepare()
    # bedplate changes nothing of PCI Express in a machine that knows to be virtual.
    with Guest("interrupts", NICS, cpu="max,-hypervisor") as guest:
        one = TunedNode(guest, tmp_path_factory.mktemp("cluster"), dict(VARIABLES))
        for pages in (16, 8):
            one.want(f", hugepages: {{2M: {pages}}}", "")
        one.want(
            "    memory_mib:",
            "    system_cores: 1\n    nics: [{name: eth1}, {name: eth2}, {name: eth3}]\n    memory_mib:",
        )
        yield one


def _places(node: TunedNode, nic: str) -> dict[int, tuple[int, str]]:
    """Return interrupt -> vector and CPUs, of the interrupts of a NIC that have a handler."""
    rows = [line.split() for line in node.guest.run(_READ.format(nic)).splitlines()]
    return {int(irq): (int(vector) & 0x7FF, cpus) for irq, vector, cpus in rows}


def _cpus(node: TunedNode, nic: str) -> set[str]:
    return {cpus for _vector, cpus in _places(node, nic).values()}


def _wait(until: Callable[[], bool], seconds: float) -> float:
    """Return after how many seconds something is true."""
    started = time.monotonic()
    while not until():
        assert time.monotonic() - started < seconds, "it did not get true in time"
        time.sleep(2)
    return time.monotonic() - started


def test_an_untouched_guest_has_its_nics_at_both_numa_nodes(node: TunedNode) -> None:
    command = "cd -P /sys/class/net/{}/device; test -d msi_irqs || cd ..; cat numa_node"
    # The host bridge with the higher number is the first that ACPI names.
    assert [node.guest.run(command.format(nic)) for nic in ("eth1", "eth2", "eth3")] == ["1", "0", "1"]
    # Of the configuration, and of two queues in both directions.
    assert [len(_places(node, nic)) for nic in ("eth1", "eth2", "eth3")] == [5, 5, 0]
    assert not _cpus(node, "eth1") <= {"2"}
    assert len(node.guest.run("ls /sys/class/net/eth3/device/msi_irqs").split()) >= 3


def test_a_run_moves_the_interrupts_to_the_system_cores_of_their_nic(node: TunedNode) -> None:
    run = node.play("apply")
    assert run.code == 0, run.told
    assert (_cpus(node, "eth1"), _cpus(node, "eth2"), _places(node, "eth3")) == ({"2"}, {"0"}, {})
    assert node.guest.run("systemctl is-active bedplate-irqs.timer") == "active"
    assert node.guest.ssh("systemctl is-enabled irqbalance").stdout.strip() == "masked"
    run = node.play("apply")
    assert (run.code, run.counts["changed"]) == (0, 0), run.told
    run = node.play("verify")
    assert run.code == 0, run.told


def test_interrupts_that_no_event_reports_are_placed_by_the_timer(node: TunedNode) -> None:
    before = {nic: _places(node, nic) for nic in ("eth1", "eth2")}
    node.guest.run("ip link set eth3 up")
    assert len(_places(node, "eth3")) >= 2
    seconds = _wait(lambda: _cpus(node, "eth3") == {"2"}, 150)
    say("guest", f"new interrupts placed after {seconds:.0f} s")
    # One plan: that of the others is as before.
    assert {nic: _places(node, nic) for nic in ("eth1", "eth2")} == before
    run = node.play("verify")
    assert run.code == 0, run.told
    # Beside the path of the report, which has the name of the guest.
    assert "interrupt" not in re.sub(r"^report: .*", "", run.text, flags=re.MULTILINE), run.told


def test_a_nic_that_appears_later_is_placed_by_udev(node: TunedNode) -> None:
    node.guest.run("systemctl stop bedplate-irqs.timer")
    device = node.guest.run("basename $(readlink /sys/class/net/eth1/device)")
    node.guest.run(f"echo {device} >/sys/bus/virtio/drivers/virtio_net/unbind")
    node.guest.run(f"echo {device} >/sys/bus/virtio/drivers/virtio_net/bind && udevadm settle")
    _wait(lambda: len(_places(node, "eth1")) == 5 and _cpus(node, "eth1") == {"2"}, 60)
    node.guest.run("systemctl start bedplate-irqs.timer")
    assert "bedplate-irqs.service" not in node.guest.failed_units()


def test_verify_names_interrupts_outside_the_numa_node_alone(node: TunedNode) -> None:
    node.guest.run("systemctl stop bedplate-irqs.timer")
    irq = min(_places(node, "eth1"))
    # Nothing uses the queue, so that the kernel has not moved it yet: an interrupt moves when it comes.
    node.guest.run(f"echo 1 >/proc/irq/{irq}/smp_affinity_list")
    run = node.play("verify")
    assert run.code == 2, run.told
    assert "interrupts of eth1: expected CPUs 2-3 of NUMA node 1" in " ".join(run.text.split()), run.told
    node.guest.run(f"echo 3 >/proc/irq/{irq}/smp_affinity_list; systemctl start bedplate-irqs.timer")
    _wait(lambda: _cpus(node, "eth1") == {"2"}, 150)
    run = node.play("verify")
    assert run.code == 0, run.told


def test_without_system_cores_the_vectors_use_all_cores_of_the_node(node: TunedNode) -> None:
    node.want("    system_cores: 1\n", "")
    node.variables["node_tuning_irqs"] = "numa"
    run = node.play("apply")
    assert run.code == 0, run.told
    assert (_cpus(node, "eth1"), _cpus(node, "eth2"), _cpus(node, "eth3")) == ({"2", "3"}, {"0", "1"}, {"2", "3"})
    vectors = dict(_places(node, "eth2").values())
    assert vectors == {vector: str(vector % 2) for vector in range(5)}


def test_after_a_reboot_the_plan_is_the_same(node: TunedNode) -> None:
    before = {nic: dict(_places(node, nic).values()) for nic in ("eth1", "eth2")}
    say("guest", f"rebooted in {node.guest.reboot():.0f} s")
    assert node.guest.failed_units() == []
    _wait(lambda: {nic: dict(_places(node, nic).values()) for nic in ("eth1", "eth2")} == before, 150)
    run = node.play("verify")
    assert run.code == 0, run.told


_ACS = """\
import glob
for path in sorted(glob.glob("/sys/bus/pci/devices/*/config")):
    data, at = open(path, "rb").read(), 0x100
    while 0x100 <= at < len(data) - 8 and (head := int.from_bytes(data[at : at + 4], "little")):
        if head & 0xFFFF == 0xD:
            print(path.split("/")[-2], data[at + 6] | data[at + 7] << 8)
        at = head >> 20
"""


def _acs(node: TunedNode) -> set[str]:
    """Return the control words of ACS of all ports."""
    return {line.split()[1] for line in node.guest.run("python3 -", stdin=_ACS).splitlines()}


def test_acs_is_switched_off_in_ports_of_the_guest(node: TunedNode) -> None:
    assert _acs(node) not in (set(), {"0"})
    node.variables["node_tuning_acs"] = "off"
    run = node.play("apply")
    assert run.code == 0, run.told
    assert _acs(node) == {"0"}
    run = node.play("verify")
    assert run.code == 0, run.told


def test_a_kernel_in_lockdown_is_tuned_but_for_pci_and_verify_warns_once(node: TunedNode) -> None:
    node.variables["node_tuning_cmdline"] = ["lockdown=integrity"]
    assert node.play("apply").code == 0
    say("guest", f"rebooted in {node.guest.reboot():.0f} s")
    assert "[integrity]" in node.guest.read("/sys/kernel/security/lockdown")
    assert node.guest.failed_units() == []
    assert _acs(node) != {"0"}
    port = "/sys/bus/pci/devices/0000:80:00.0/config"
    assert "Operation not permitted" in node.guest.ssh(f"printf x | dd of={port} bs=1 seek=64 conv=notrunc").stderr
    assert node.guest.read("/proc/sys/kernel/numa_balancing") == "0"
    run = node.play("apply")
    assert (run.code, run.counts["changed"]) == (0, 0), run.told
    run = node.play("verify")
    assert run.code == 0, run.told
    words = " ".join(run.text.split())
    assert words.count("the kernel is locked down (integrity)") == 1, run.told
    assert "node_tuning_acs: keep" in words


def test_keep_stops_the_timer_and_moves_nothing(node: TunedNode) -> None:
    node.variables["node_tuning_irqs"] = "keep"
    run = node.play("apply")
    assert run.code == 0, run.told
    assert node.guest.ssh("systemctl is-active bedplate-irqs.timer").stdout.strip() == "inactive"
    assert node.guest.ssh(f"test -e {_RULES}").returncode == 1
    run = node.play("apply")
    assert (run.code, run.counts["changed"]) == (0, 0), run.told
    run = node.play("verify")
    assert run.code == 0, run.told
