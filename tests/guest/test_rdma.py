# SPDX-License-Identifier: GPL-3.0-or-later
"""The role rdma on a machine with two soft RoCE devices, one at each end of a cable that is a pair of interfaces of its kernel.

The tests are steps: each one finds the guest as the one before it left it. What has no emulation (PFC, DCQCN, mlx5) is tested elsewhere,
with recorded programs.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from lab.guest.machine import Guest, environment
from lab.paths import ROOT
from lab.shell import say
from tests.guest.tuned_node import Run

pytestmark = [pytest.mark.guest, pytest.mark.step]

HERE = Path(__file__).parent / "rdma"
VARIABLES = {"rdma_stack": "keep", "rdma_modules": ["rdma_rxe"]}
_CABLE = "ip link add rail0 type veth peer name rail1"
_DEVICES = "rdma link add rxe0 type rxe netdev rail0 && rdma link add rxe1 type rxe netdev rail1"
# A kernel sends to its own addresses without a cable. These rules have it ask who has them first.
_APART = """\
set -e
for one in rail0 rail1; do echo 1 >/proc/sys/net/ipv4/conf/$one/accept_local; done
ip rule add pref 10 iif rail0 lookup local
ip rule add pref 11 iif rail1 lookup local
ip rule add pref 20 to 10.215.253.11 lookup 50
ip rule add pref 21 to 10.215.252.11 lookup 51
ip rule add pref 100 lookup local
ip rule del pref 0
ip route add 10.215.253.11/32 dev rail0 src 10.215.252.11 table 50
ip route add 10.215.252.11/32 dev rail1 src 10.215.253.11 table 51
"""
TOS = "/sys/kernel/config/rdma_cm/{0}/ports/1/default_roce_tos"
_RUN = "ib_write_bw --rdma_cm --ib-dev {} --size 65536 --iters 200"
_PAIR = f"""\
rm -f /run/tos*
python3 /root/sniff.py rail0 /run/tos & sniffer=$!
until test -e /run/tos.ready; do sleep 0.2; done
{_RUN.format("rxe1")} >/run/server.log 2>&1 & server=$!
sleep 5
timeout 120 {_RUN.format("rxe0")} 10.215.253.11; code=$?
touch /run/tos.stop
kill $server 2>/dev/null
wait $sniffer
echo code=$code
"""


class RdmaNode:
    """The guest, and the role on it."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest

    def play(self, name: str) -> Run:
        """Run a playbook of this folder on the node."""
        command = ["ansible-playbook", f"--inventory={HERE / 'guest.bedplate.yml'}", "--user=root"]
        command += [f"--extra-vars={json.dumps(VARIABLES)}", str(HERE / f"{name}.yml")]
        env = {**environment(self.guest), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
        return Run(done)

    def devices(self) -> dict[str, str]:
        """Return RDMA device -> its interface."""
        rows = json.loads(self.guest.run("rdma -j link") or "[]")
        return {row["ifname"]: row["netdev"] for row in rows}

    def settled(self) -> None:
        """Wait for udev, and for the unit that it starts."""
        self.guest.run("udevadm settle; sleep 1; systemctl is-active --wait bedplate-rdma >/dev/null; "
                       "until systemctl show -p ActiveState bedplate-rdma | grep -qE 'active$|failed'; do sleep 0.5; done")  # fmt: skip

    def tos(self, device: str) -> str:
        """Return what RDMA-CM gives the packets of a device."""
        folder = f"/sys/kernel/config/rdma_cm/{device}"
        return self.guest.run(f"mkdir {folder} && cat {TOS.format(device)}; rmdir {folder}")

    def mtu(self, device: str) -> str:
        """Return the MTU that a device has for RDMA."""
        found = re.search(r"active_mtu:\s+(\d+)", self.guest.run(f"ibv_devinfo -d {device}"))
        assert found
        return found[1]

    def addresses(self) -> dict[str, list[str]]:
        """Return interface -> IPv4 addresses."""
        rows = json.loads(self.guest.run("ip -j addr"))
        return {
            row["ifname"]: [f"{one['local']}/{one['prefixlen']}" for one in row["addr_info"] if one["family"] == "inet"]
            for row in rows
        }

    def measure(self) -> tuple[float, dict[str, int]]:
        """Write from one device to the other, and return MiB/s and how many packets left with which ToS."""
        output = self.guest.run(_PAIR, timeout=240)
        row = re.search(r"^\s*65536\s+200\s+\S+\s+(\S+)", output, re.MULTILINE)
        assert row, output + self.guest.run("cat /run/server.log; dmesg | tail -20")
        counted: dict[str, int] = json.loads(self.guest.read("/run/tos"))
        return float(row[1]), counted


@pytest.fixture(scope="module")
def node(guest: Guest) -> RdmaNode:
    """The guest with the cable, and the kernel's own two devices at it."""
    guest.run("cat >/root/sniff.py", stdin=(HERE / "sniff.py").read_text())
    guest.run(
        f"modprobe rdma_rxe && modprobe rdma_cm && {_CABLE} && ip link set rail0 up && ip link set rail1 up && {_DEVICES}"
    )
    guest.run("udevadm settle")
    return RdmaNode(guest)


def test_an_untouched_guest_is_otherwise(node: RdmaNode) -> None:
    assert sorted(node.devices().values()) == ["rail0", "rail1"]
    name = next(iter(node.devices()))
    assert node.mtu(name) == "1024"
    assert node.tos(name) == "0"
    assert node.addresses()["rail0"] == []


def test_a_run_brings_the_addresses_the_mtu_and_the_tos(node: RdmaNode) -> None:
    run = node.play("apply")
    assert run.code == 0, run.told
    assert run.counts["ok"] == 1, run.told
    # Debian's own rules may have named the devices already; with the role's they have the names of the file from the next time on.
    node.guest.run(
        f'rdma link del {next(iter(node.devices()))}; rdma link del $(rdma -j link | grep -o \'"ifname":"[^"]*\' | cut -d\'"\' -f4)'
    )
    node.guest.run(_DEVICES)
    node.settled()
    assert node.devices() == {"rxe0": "rail0", "rxe1": "rail1"}
    addresses = node.addresses()
    assert (addresses["rail0"], addresses["rail1"]) == (["10.215.252.11/23"], ["10.215.253.11/23"])
    assert addresses["eth0"] == ["10.0.2.15/24"]
    assert [node.mtu(one) for one in ("rxe0", "rxe1")] == ["4096", "4096"]
    assert [node.tos(one) for one in ("rxe0", "rxe1")] == ["106", "106"]
    assert node.guest.read("/proc/sys/net/ipv4/conf/rail1/arp_ignore") == "1"
    assert "NCCL_IB_HCA==rxe0,rxe1\nNCCL_IB_TC=106" in node.guest.read("/etc/nccl.conf")
    assert "bedplate-rdma.service" not in node.guest.failed_units()


def test_a_second_run_changes_nothing_and_verify_is_content(node: RdmaNode) -> None:
    run = node.play("apply")
    assert run.code == 0, run.told
    assert run.counts["changed"] == 0, run.told
    run = node.play("verify")
    assert run.code == 0, run.told


def test_rdma_writes_go_from_one_device_to_the_other_in_the_lossless_class(node: RdmaNode) -> None:
    node.guest.run(_APART)
    bandwidth, packets = node.measure()
    say("guest", f"ib_write_bw: {bandwidth:.1f} MiB/s between two soft RoCE devices; packets by ToS: {packets}")
    assert bandwidth > 0
    # 200 messages of 64 KiB in packets of 4 KiB, of which a slow reader misses some.
    assert packets["106"] > 100
    assert set(packets) == {"106"}


def test_after_a_reload_of_the_driver_it_is_all_there_again(node: RdmaNode) -> None:
    node.guest.run("rdma link del rxe0; rdma link del rxe1; modprobe -r rdma_rxe")
    assert node.devices() == {}
    run = node.play("verify")
    assert run.code == 2, run.told
    assert "RDMA device rxe0: expected " in run.text, run
    node.guest.run(f"modprobe rdma_rxe && {_DEVICES}")
    node.settled()
    assert [node.tos(one) for one in ("rxe0", "rxe1")] == ["106", "106"]
    run = node.play("verify")
    assert run.code == 0, run.told


def test_verify_names_each_setting_that_was_changed_by_hand(node: RdmaNode) -> None:
    made = "mkdir /sys/kernel/config/rdma_cm/rxe0"
    node.guest.run(f"ip addr del 10.215.253.11/23 dev rail1; ip link set rail0 mtu 1500; {made} && echo 0 >{TOS.format('rxe0')}; "
                   "rmdir /sys/kernel/config/rdma_cm/rxe0; echo 0 >/proc/sys/net/ipv4/conf/rail0/arp_announce; "
                   "sed -i s/106/0/ /etc/nccl.conf")  # fmt: skip
    run = node.play("verify")
    assert run.code == 2, run.told
    for line in (
        "address of rxe1 (rail1): expected 10.215.253.11/23, found none",
        "MTU of rxe0 (rail0): expected 9000, found 1500",
        "RDMA-CM's ToS on rxe0: expected 106, found 0",
        "/proc/sys/net/ipv4/conf/rail0/arp_announce: expected 2, found 0",
        "NCCL_IB_TC in /etc/nccl.conf: expected 106, found 0",
    ):
        assert line in run.text, run
    node.guest.run("systemctl restart bedplate-rdma")
    run = node.play("apply")
    assert run.code == 0, run.told
    run = node.play("verify")
    assert run.code == 0, run.told


def test_after_a_reboot_devices_that_come_late_are_set_up(node: RdmaNode) -> None:
    say("guest", f"rebooted in {node.guest.reboot():.0f} s")
    assert "bedplate-rdma.service" not in node.guest.failed_units()
    node.guest.run(f"{_CABLE} && {_DEVICES}")
    node.settled()
    run = node.play("verify")
    assert run.code == 0, run.told
