"""Rails whose interface another program configures: files that name it, programs that manage it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import apply_rdma, rail_owners, rdma_devices
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma.rdma_devices import NicSettings
from tests.kit import sentences

from .machine import FILE, Machine, deployed, found
from .test_rdma_part import ROUTED, contents

SENTENCES = Path(__file__).parent / "sentences.txt"
MAC = "0c:42:a1:65:d1:a0"
PLAN = "network:\n  version: 2\n  ethernets:\n"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return deployed(tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    one = found(tmp_path / "node")
    one.put("sys/class/net/ens1np0/address", f"{MAC}\n")
    one.put("usr/lib/systemd/network/80-container-host0.network", "[Match]\nName=host0\n")
    return one


def refusals(machine: Machine, told: dict[str, Any]) -> list[Any]:
    settings = told["expected"]["settings"]
    nics = rdma_devices.nics_from(settings["nics"])
    there = rdma_devices.read_devices(machine.root)
    return list(rail_owners.refusals(machine.root, there, nics, settings["management"], machine.run))


# File, its text, and the number of the line that names an interface or its MAC address.
OWNERS = [
    ("etc/netplan/50-cloud-init.yaml", f"{PLAN}    eno1: {{dhcp4: true}}\n    ens1np0:\n      dhcp4: true\n", 5),
    ("etc/netplan/60-rails.yaml", f'{PLAN}    rail0: {{match: {{macaddress: "{MAC.upper()}"}}, mtu: 9000}}\n', 4),
    ("run/netplan/bond.yaml", "network:\n  bonds:\n    bond0: {interfaces: [ens1np0, ens2np0]}\n", 3),
    ("etc/NetworkManager/system-connections/a.nmconnection", "[connection]\nid=a\ninterface-name=ens1np0\n", 3),
    ("etc/NetworkManager/system-connections/b.nmconnection", f"[ethernet]\nmac-address={MAC.upper()}\n", 2),
    ("etc/sysconfig/network-scripts/ifcfg-ens1np0", 'DEVICE="ens1np0"\nONBOOT=yes\n', 1),
    ("etc/systemd/network/00-rail.network", "[Match]\nName=eno1 ens1np0\n", 2),
    ("etc/network/interfaces", "auto lo\n# iface ens1np0\niface ens1np0 inet dhcp\n", 3),
    ("etc/network/interfaces.d/rails", "allow-hotplug ens1np0\n", 1),
]
NO_OWNERS = [
    ("etc/netplan/50-cloud-init.yaml", f"{PLAN}    # ens1np0:\n    ens1np0x: {{}}\n    ens1: {{}}\n    all: {{match: {{name: 'en*'}}}}\n"),
    ("etc/netplan/60-old.yaml", f"#ens1np0:\n{PLAN}    eno1: {{}} # was ens1np0\n"),
    ("etc/systemd/network/10-eno1.network", "[Match]\nName=eno1 # not ens1np0\n"),
    ("etc/netplan/50-cloud-init.yaml.save", f"{PLAN}    ens1np0: {{}}\n"),
    ("etc/NetworkManager/system-connections/ens1np0.nmconnection", "[connection]\nid=x\nautoconnect=false\ninterface-name=ens1np0\n"),
    ("etc/NetworkManager/system-connections/b", "[connection]\nid=ens1np0\n"),
    ("etc/sysconfig/network-scripts/ifcfg-ens1np0", "DEVICE=ens1np0\nONBOOT=no\n"),
    ("run/systemd/network/10-netplan-ens1np0.network", "[Match]\nName=ens1np0\n"),
    ("etc/systemd/network/05-bedplate-mlx5_0.network", "[Match]\nName=ens1np0\n"),
    ("etc/systemd/network/10-all.network", "[Match]\nName=en*\n"),
    ("etc/network/interfaces", "#auto ens1np0\n"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "line"), OWNERS, ids=lambda value: str(value).rpartition("/")[2])
def test_a_file_that_names_the_interface_is_refused_with_its_line(
    path: str, text: str, line: int, machine: Machine, told: dict[str, Any]
) -> None:
    machine.put(path, text)
    rows = refusals(machine, told)
    where = [("interface ens1np0 of mlx5_0", f"/{path}:{line}")]
    if "ens2np0" in text:
        where.append(("interface ens2np0 of mlx5_1", f"/{path}:{line}"))
    assert [(one.where, one.overridden_by) for one in rows] == where


@pytest.mark.parametrize(("path", "text"), NO_OWNERS)
def test_a_pattern_or_a_file_without_effect_is_not_an_owner(
    path: str, text: str, machine: Machine, told: dict[str, Any]
) -> None:
    machine.put(path, text)
    assert refusals(machine, told) == []


def test_all_owners_are_reported_at_once_before_any_file_is_written(machine: Machine, told: dict[str, Any]) -> None:
    for path, text, _line in OWNERS[:4]:
        machine.put(path, text)
    machine.addresses["ens2np0"] = ["10.0.0.11/24"]
    rows = refusals(machine, told)
    netplan, manager = "configured by netplan, too", "configured by NetworkManager, too"
    assert [one.found for one in rows] == [netplan, netplan, netplan, manager, "10.0.0.11", netplan]
    sentences.check(SENTENCES, "other owners of rails", [str(one) for one in rows])


def test_a_nic_without_an_address_may_have_any_owner(tmp_path: Path, machine: Machine) -> None:
    machine.put("etc/netplan/a.yaml", f"{PLAN}    ens1np0: {{}}\n")
    told = deployed(tmp_path, FILE.replace("  rails: {cidr: 10.9.0.0/23, rails: 0-1}\n", ""))
    assert refusals(machine, told) == []
    assert told["steps"] == {}
    files = contents(told)
    assert not [path for path in files if "unmanaged" in path or path.startswith("/etc/systemd/network")]


def test_the_role_looks_for_owners_before_it_writes_a_file(told: dict[str, Any]) -> None:
    arguments = told["steps"]["rail_owners"]
    assert arguments["nics"] == told["expected"]["settings"]["nics"]
    assert arguments["management"] == "10.0.0.11"


def test_files_keep_other_programs_off_by_pci_address(told: dict[str, Any]) -> None:
    files = contents(told)
    rules = files["/etc/udev/rules.d/62-bedplate-unmanaged.rules"].splitlines()
    assert [line for line in rules if line.startswith("KERNELS")] == [
        'KERNELS=="0000:3b:00.0", ENV{NM_UNMANAGED}="1"',
        'KERNELS=="0000:5e:00.0", ENV{NM_UNMANAGED}="1"',
    ]
    # Of all events but a removal: a later event without it would delete the property.
    assert 'ACTION=="remove", GOTO="bedplate_end"' in rules
    unit = files["/etc/systemd/network/05-bedplate-mlx5_1.network"]
    assert unit.endswith("[Match]\nPath=*pci-0000:5e:00.0\n\n[Link]\nUnmanaged=yes\n")
    assert "/etc/systemd/network/05-bedplate-mlx5_2.network" not in files
    assert "/etc/systemd/networkd.conf.d/60-bedplate-rdma.conf" not in files


def test_networkd_leaves_the_rules_of_routed_rails(tmp_path: Path) -> None:
    text = contents(deployed(tmp_path, ROUTED))["/etc/systemd/networkd.conf.d/60-bedplate-rdma.conf"]
    assert text.endswith("[Network]\nManageForeignRoutingPolicyRules=no\n")


@pytest.mark.parametrize("owner", ["NetworkManager", "systemd-networkd"])
def test_a_program_that_manages_a_rail_lets_go_before_the_rail_is_configured(
    owner: str, machine: Machine, told: dict[str, Any]
) -> None:
    machine.managers[owner] = {"ens1np0", "ens2np0"}
    list(apply_rdma.apply(machine.root, told["expected"]["settings"], machine.run))
    assert machine.managers[owner] == set()
    release = "nmcli device set ens1np0 managed no" if owner == "NetworkManager" else "networkctl reload"
    first = next(call for call in machine.calls if call.startswith("ip addr add"))
    assert machine.calls.index(release) < machine.calls.index(first)
    assert machine.addresses["ens1np0"] == ["10.9.0.11/23"]


def test_a_program_that_manages_a_rail_later_is_a_finding(machine: Machine, told: dict[str, Any]) -> None:
    settings = told["expected"]["settings"]
    machine.managers = {"NetworkManager": {"ens2np0"}, "systemd-networkd": {"ens3np0"}}
    nics, there = rdma_devices.nics_from(settings["nics"]), rdma_devices.read_devices(machine.root)
    rows = list(rail_owners.drift(machine.root, there, nics, settings["management"], machine.run))
    assert [(one.kind, one.where, one.found) for one in rows] == [
        ("rail-manager", "interface ens2np0 of mlx5_1", "managed by NetworkManager")
    ]


def test_the_interface_of_management_is_not_taken_from_its_program(machine: Machine, told: dict[str, Any]) -> None:
    machine.addresses["ens1np0"] = ["10.0.0.11/24"]
    machine.managers["NetworkManager"] = {"ens1np0"}
    (failed,) = [
        line for line in apply_rdma.apply(machine.root, told["expected"]["settings"], machine.run) if "ens1np0" in line
    ]
    assert "`management`" in failed
    assert machine.managers["NetworkManager"] == {"ens1np0"}


def test_a_program_that_does_not_let_go_is_a_failure(machine: Machine) -> None:
    machine.managers["systemd-networkd"] = {"ens1np0"}
    nic = NicSettings("mlx5_0", pci="0000:3b:00.0", address="10.9.0.11/23")

    def run(command: Any) -> Any:
        outcome = machine.run(command)
        machine.managers["systemd-networkd"] = {"ens1np0"}
        return outcome

    (line,) = rail_owners.release(rdma_devices.read_devices(machine.root), [nic], "10.0.0.11", run, pause=0)
    assert line.startswith("ens1np0 of mlx5_0 is managed by systemd-networkd, ")


def test_the_real_networkctl_or_its_absence_is_not_an_owner() -> None:
    """On a machine without a system bus networkctl fails, and on one without it nothing starts."""
    program = (
        "from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import run_quick\n"
        "from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import rail_owners\n"
        "print(list(rail_owners.managers('lo', run_quick)))\n"
    )
    collections = Path(__file__).parents[3] / "collections"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(collections)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
