"""From what a kernel found to what the cluster file wants; every setting is read back, and one that is changed by hand is named alone."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import apply_rdma, rdma_drift
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import shipped
from tests.drift.node import KINDS, fields, judge
from tests.kit import sentences

from .machine import FILE, PCI, Machine, deployed, found

SENTENCES = Path(__file__).parent / "sentences.txt"

TOOLS = ["dcb", "mlnx_qos"]
INBOX = [
    "rdma-core",
    "ibverbs-providers",
    "ibverbs-utils",
    "rdmacm-utils",
    "infiniband-diags",
    "perftest",
    "mstflint",
    "iproute2",
]


def rows(machine: Machine, told: dict[str, Any]) -> list[str]:
    """Return the differences as lines."""
    return [
        f"{one.where}: wanted {one.expected}, found {one.found}"
        for one in rdma_drift.drift(machine.root, told["expected"], machine.run)
    ]


def brought(machine: Machine, told: dict[str, Any]) -> list[str]:
    """Run the unit, and return what failed."""
    return list(apply_rdma.apply(machine.root, told["expected"]["settings"], machine.run))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return deployed(tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def machine(tmp_path: Path, told: dict[str, Any], request: pytest.FixtureRequest) -> Machine:
    """Return a machine to which everything was brought; with dcb, where a test does not say another tool."""
    one = fresh(tmp_path, told, getattr(request, "param", "dcb"))
    assert brought(one, told) == []
    one.calls.clear()
    return one


def fresh(tmp_path: Path, told: dict[str, Any], tool: str) -> Machine:
    one = found(tmp_path / "node")
    if tool == "mlnx_qos":
        one.put("usr/bin/mlnx_qos", "")
    for entry in (row for row in told["files"] if "content" in row):
        one.put(entry["path"].lstrip("/"), entry["content"])
    for name in told["expected"]["modules"]:
        one.put(f"sys/module/{name}/refcnt", "1\n")
    one.packages = dict.fromkeys(INBOX, "1-1")
    return one


@pytest.mark.parametrize("machine", TOOLS, indirect=True)
def test_all_is_brought_and_a_second_run_only_reads(machine: Machine, told: dict[str, Any]) -> None:
    assert machine.names() == {place: name for name, place in PCI.items()}
    assert machine.addresses["ens1np0"] == ["10.9.0.11/23"]
    assert machine.addresses["ens2np0"] == ["10.9.1.11/23"]
    assert machine.addresses["ens3np0"] == ["10.0.0.11/24"]
    assert machine.pfc == {"ens1np0": "00010000", "ens2np0": "00010000", "ens3np0": "00000000"}
    assert machine.text("sys/kernel/config/rdma_cm/mlx5_1/ports/1/default_roce_tos") == "106"
    assert rows(machine, told) == []
    machine.calls.clear()
    assert brought(machine, told) == []
    asked = {f"mlnx_qos -i {interface}" for interface in ("ens1np0", "ens2np0")}
    assert machine.calls
    assert [call for call in machine.calls if not re.search(r" (show|list)\b", call) and call not in asked] == []


def test_the_commands_of_a_first_run_are_those_that_their_manuals_have(tmp_path: Path, told: dict[str, Any]) -> None:
    one = fresh(tmp_path, told, "dcb")
    brought(one, told)
    changes = [call for call in one.calls if "show" not in call]
    assert changes[:3] == [
        "rdma dev set ibp134s0 name mlx5_2", "rdma dev set mlx5_0 name bedplate_0000_5e_00_0", "rdma dev set mlx5_1 name mlx5_0",
    ]  # fmt: skip
    assert "ip link set dev ens1np0 mtu 9000" in changes
    assert "dcb app replace dev ens1np0 dscp-prio 26:3 48:6" in changes
    assert "dcb pfc set dev ens2np0 prio-pfc all:off 3:on" in changes
    # One whose address is the node's own, or that is on no rail, is not touched.
    assert not [call for call in one.calls if "ens3np0" in call]


def test_mlnx_qos_is_asked_one_thing_at_a_time(tmp_path: Path, told: dict[str, Any]) -> None:
    one = fresh(tmp_path, told, "mlnx_qos")
    one.mapping["ens1np0"] = {26: 0}
    one.trust["ens1np0"] = "dscp"
    one.firmware = True
    brought(one, told)
    assert [call for call in one.calls if call.startswith("mlnx_qos -i ens1np0 --")] == [
        "mlnx_qos -i ens1np0 --dcbx=os",
        "mlnx_qos -i ens1np0 --dscp2prio=set,26,3",
        "mlnx_qos -i ens1np0 --pfc=0,0,0,1,0,0,0,0",
    ]


Change = Callable[[Machine], object]


def put(path: str, text: str) -> Change:
    return lambda machine: machine.put(path, f"{text}\n")


def attribute(name: str, key: str, value: Any) -> Change:
    return lambda machine: getattr(machine, name).__setitem__(key, copy.copy(value))


CM = "sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos"
MUTATIONS: dict[str, tuple[Change, str]] = {
    "name": (
        lambda machine: machine._rdma(["dev", "set", "mlx5_2", "name", "ibp134s0"]),
        "name of the RDMA device at 0000:86:00.0: wanted mlx5_2, found ibp134s0",
    ),
    "address": (attribute("addresses", "ens1np0", ["10.9.0.9/23"]), "address of mlx5_0 (ens1np0): wanted 10.9.0.11/23, found 10.9.0.9/23"),
    "no address": (attribute("addresses", "ens2np0", []), "address of mlx5_1 (ens2np0): wanted 10.9.1.11/23, found none"),
    "MTU": (attribute("mtu", "ens1np0", 1500), "MTU of mlx5_0 (ens1np0): wanted 9000, found 1500"),
    "down": (attribute("up", "ens2np0", False), "interface of mlx5_1 (ens2np0): wanted up, found down"),
    "rp_filter": (put("proc/sys/net/ipv4/conf/ens1np0/rp_filter", "1"), "/proc/sys/net/ipv4/conf/ens1np0/rp_filter: wanted 2, found 1"),
    "arp_ignore": (put("proc/sys/net/ipv4/conf/ens1np0/arp_ignore", "0"), "/proc/sys/net/ipv4/conf/ens1np0/arp_ignore: wanted 1, found 0"),
    "arp_announce": (
        put("proc/sys/net/ipv4/conf/ens2np0/arp_announce", "0"), "/proc/sys/net/ipv4/conf/ens2np0/arp_announce: wanted 2, found 0"
    ),
    "PFC": (
        attribute("pfc", "ens1np0", "00010100"),
        "PFC of priorities 0 to 7 of mlx5_0 (ens1np0): wanted 0 0 0 1 0 0 0 0, found 0 0 0 1 0 1 0 0",
    ),
    "PFC off": (
        attribute("pfc", "ens1np0", "00000000"),
        "PFC of priorities 0 to 7 of mlx5_0 (ens1np0): wanted 0 0 0 1 0 0 0 0, found 0 0 0 0 0 0 0 0",
    ),
    "priority": (attribute("mapping", "ens1np0", {26: 2, 48: 6}), "priority of DSCP 26 of mlx5_0 (ens1np0): wanted 3, found 2"),
    "priority of notifications": (
        attribute("mapping", "ens2np0", {26: 3, 48: 3}), "priority of DSCP 48 of mlx5_1 (ens2np0): wanted 6, found 3"
    ),
    "ToS": (put(CM, "0"), "RDMA-CM's ToS on mlx5_0: wanted 106, found 0"),
    "DCQCN": (
        put("sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_dscp", "0"),
        "/sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_dscp: wanted 48, found 0",
    ),
}  # fmt: skip


# Both tools where they are asked.
_ASKED = ("PFC", "PFC off", "priority", "priority of notifications")


@pytest.mark.parametrize(
    ("machine", "name"),
    [*(("dcb", name) for name in MUTATIONS), *(("mlnx_qos", name) for name in _ASKED)],
    indirect=["machine"],
)
def test_a_setting_that_is_changed_by_hand_is_named_alone_and_mended(
    name: str, machine: Machine, told: dict[str, Any]
) -> None:
    change, line = MUTATIONS[name]
    change(machine)
    assert rows(machine, told) == [line]
    assert brought(machine, told) == []
    assert rows(machine, told) == []


def _without_trust(machine: Machine) -> None:
    machine.trust["ens1np0"], machine.mapping["ens1np0"] = "pcp", {}


OTHERS: dict[str, tuple[Change, str]] = {
    "trust": (_without_trust, "trust of mlx5_0 (ens1np0): wanted dscp, found pcp"),
    "module": (
        lambda machine: (machine.top / "sys/module/rdma_ucm").rename(machine.top / "sys/module/x"),
        "kernel module rdma_ucm: wanted loaded, found not loaded",
    ),
    "package": (lambda machine: machine.packages.pop("perftest"), "package perftest: wanted installed, found not installed"),
    "NCCL": (
        lambda machine: machine.put("etc/nccl.conf", machine.text("etc/nccl.conf") + "\nNCCL_IB_TC=0\n"),
        "NCCL_IB_TC in /etc/nccl.conf: wanted 106, found 0",
    ),
    "NCCL's devices": (
        put("etc/nccl.conf", "NCCL_IB_HCA=mlx5\nNCCL_IB_TC=106"), "NCCL_IB_HCA in /etc/nccl.conf: wanted =mlx5_0,mlx5_1, found mlx5"
    ),
    "a NIC that is away": (
        lambda machine: [(machine.top / path).unlink() for path in ("sys/class/infiniband/mlx5_2", "sys/bus/pci/devices/0000:86:00.0")],
        "RDMA device mlx5_2 at 0000:86:00.0: wanted present, found no such PCI device",
    ),
    "a NIC without RDMA": (
        lambda machine: (machine.top / "sys/class/infiniband/mlx5_2").unlink(),
        "RDMA device mlx5_2 at 0000:86:00.0: wanted present, found a PCI device with the driver mlx5_core, without RDMA",
    ),
    "link layer": (
        lambda machine: machine.put("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n"),
        "link layer of mlx5_0: wanted Ethernet, found InfiniBand",
    ),
    "no tree of DCQCN": (
        lambda machine: (machine.top / "sys/kernel/debug/mlx5/0000:5e:00.0/cc_params").rename(machine.top / "x"),
        "DCQCN of mlx5_1: wanted CNP with DSCP 48, found no such setting",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_missing_is_named_alone(name: str, machine: Machine, told: dict[str, Any]) -> None:
    change, line = OTHERS[name]
    change(machine)
    assert rows(machine, told) == [line]


def test_an_interface_of_nccl_that_no_node_has_is_named(tmp_path: Path) -> None:
    told = deployed(tmp_path, nccl_socket_interfaces=["eno1", "eno2"])
    one = fresh(tmp_path, told, "dcb")
    assert brought(one, told) == []
    assert [row for row in rows(one, told) if "NCCL's" in row] == [
        f"interface of NCCL's connections: wanted eno1 or eno2, found {', '.join(one.root.names('sys/class/net'))}"
    ]
    one.put("sys/class/net/eno2/mtu", "1500\n")
    assert rows(one, told) == []


def test_a_storage_nic_gets_its_address_and_a_foreign_one_is_named(tmp_path: Path) -> None:
    text = FILE.replace("  rails: {", "  storage: {cidr: 10.60.0.0/16}\n  rails: {")
    told = deployed(tmp_path, text.replace('"0000:86:00.0"}', '"0000:86:00.0", network: storage}'))
    one = fresh(tmp_path, told, "dcb")
    one.addresses["ens3np0"] = []  # elsewhere it is management's
    assert brought(one, told) == []
    assert rows(one, told) == []
    (interface,) = (name for name, addresses in one.addresses.items() if "10.60.0.11/16" in addresses)
    assert one.mtu[interface] == 9000
    # Lossless priorities are for rails.
    assert not [call for call in one.calls if call.startswith("dcb") and interface in call]
    one.addresses[interface] = []
    assert rows(one, told) == [f"address of mlx5_2 ({interface}): wanted 10.60.0.11/16, found none"]


def test_the_interface_of_ansible_and_slurm_is_never_touched(tmp_path: Path, told: dict[str, Any]) -> None:
    one = fresh(tmp_path, told, "dcb")
    one.addresses["ens1np0"] = ["10.0.0.11/24"]
    failed = brought(one, told)
    (line,) = failed
    assert [value for value in ("mlx5_0: ", "ens1np0", "10.0.0.11", "`management`") if value not in line] == []
    sentences.check(SENTENCES, "the interface of Ansible and Slurm", failed)
    assert (one.addresses["ens1np0"], one.mtu["ens1np0"]) == (["10.0.0.11/24"], 1500)


def test_an_address_that_moves_leaves_the_old_one_and_strangers_stay(
    tmp_path: Path, machine: Machine, told: dict[str, Any]
) -> None:
    machine.addresses["ens1np0"].append("192.168.7.1/24")
    other = deployed(tmp_path, FILE.replace("10.9.0.0/23", "10.8.0.0/23"))
    assert brought(machine, other) == []
    assert machine.addresses["ens1np0"] == ["192.168.7.1/24", "10.8.0.11/23"]


def test_a_nic_that_does_not_take_it_is_a_failure_with_what_it_has(tmp_path: Path, told: dict[str, Any]) -> None:
    one = fresh(tmp_path, told, "mlnx_qos")
    one.stubborn = one.firmware = True
    failed = [line for line in brought(one, told) if "ens1np0" in line]
    values = ("ens1np0: trust: ", "dscp", "pcp"), ("ens1np0: PFC ", "0 0 0 1 0 0 0 0", "0 0 0 0 0 0 0 0")
    assert [[value for value in row if value not in line] for row, line in zip(values, failed, strict=True)] == [[], []]
    sentences.check(SENTENCES, "a NIC that does not take what is set", failed)


def test_what_the_tool_says_is_told(tmp_path: Path, told: dict[str, Any]) -> None:
    one = fresh(tmp_path, told, "dcb")
    del one.pfc["ens1np0"]
    (line,) = [each for each in brought(one, told) if "ens1np0" in each]
    assert line.startswith("ens1np0: dcb -N app show dev ens1np0 dscp-prio: ")
    assert line.endswith("Operation not supported")


def test_docas_own_tree_is_taken_where_it_is(tmp_path: Path, told: dict[str, Any]) -> None:
    one = fresh(tmp_path, told, "mlnx_qos")
    ecn = "sys/class/net/ens1np0/ecn"
    for path, value in (("roce_np/enable/3", "0"), ("roce_rp/enable/3", "0"), ("roce_np/cnp_dscp", "0")):
        one.put(f"{ecn}/{path}", f"{value}\n")
    assert brought(one, told) == []
    assert [one.text(f"{ecn}/{path}") for path in ("roce_np/enable/3", "roce_rp/enable/3", "roce_np/cnp_dscp")] == [
        "1",
        "1",
        "48",
    ]
    assert one.text("sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/np_cnp_dscp") == "0"
    one.put(f"{ecn}/roce_rp/enable/3", "0\n")
    assert rows(one, told) == [f"/{ecn}/roce_rp/enable/3: wanted 1, found 0"]


def test_a_directory_of_rdma_cm_is_taken_away_again(tmp_path: Path, machine: Machine, told: dict[str, Any]) -> None:
    # A kernel makes what is in it; here it stays empty, as where RDMA-CM does not know the device.
    folder = machine.top / "sys/kernel/config/rdma_cm/mlx5_0"
    folder.rename(tmp_path / "away")
    (row,) = rows(machine, told)
    assert row.startswith("RDMA-CM's ToS on mlx5_0: wanted 106, ")
    (failed,) = brought(machine, told)
    assert failed.startswith("mlx5_0: RDMA-CM ")
    sentences.check(SENTENCES, "a device that RDMA-CM does not know", [row, failed])
    assert not folder.exists()


def test_devices_that_come_later_are_no_failure_and_are_brought_then(tmp_path: Path, told: dict[str, Any]) -> None:
    one = fresh(tmp_path, told, "dcb")
    away = [one.top / "sys/class/infiniband" / name for name in ("mlx5_0", "mlx5_1", "ibp134s0")]
    targets = [path.readlink() for path in away]
    for path in away:
        path.unlink()
    assert brought(one, told) == []
    assert len([line for line in rows(one, told) if line.startswith("RDMA device")]) == 3
    for path, target in zip(away, targets, strict=True):
        path.symlink_to(target)
    assert brought(one, told) == []
    assert rows(one, told) == []


def test_a_node_runs_what_is_shipped_with_nothing_else_of_ours(tmp_path: Path, told: dict[str, Any]) -> None:
    one = Machine(tmp_path / "node")
    for entry in (row for row in told["files"] if "content" in row):
        one.put(entry["path"].lstrip("/"), entry["content"])
    module = shipped.command("rdma.apply_rdma").split()[-1]
    library = one.top / shipped.library("rdma.apply_rdma").lstrip("/")
    assert 8 < len(shipped.files("rdma.apply_rdma")) < 30
    done = subprocess.run(
        [sys.executable, "-S", "-m", module, str(one.top / "etc/bedplate/rdma.json"), str(one.top)],
        env={"PYTHONPATH": str(library), "PYTHONDONTWRITEBYTECODE": "1"}, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition(": ")[0] for line in done.stdout.splitlines()] == ["mlx5_0", "mlx5_1"]
    sentences.check(SENTENCES, "NICs without an interface", done.stdout.splitlines()[:1])


@pytest.mark.parametrize("row", [row for row in KINDS if row["id"].startswith("rail-")], ids=lambda row: row["id"])
def test_drift_beside_a_rail_is_named_with_who_overrides(
    row: dict[str, Any], machine: Machine, told: dict[str, Any]
) -> None:
    def found() -> set[tuple[str, ...]]:
        rows = rdma_drift.drift(machine.root, told["expected"], machine.run)
        return fields([vars(one) for one in rows])

    machine.put("etc/sysctl.d/README", "")
    assert found() == set()
    subprocess.run(["sh", "-ec", row["make"].replace("/etc/", f"{machine.top}/etc/")], check=True)
    named, others = judge(row, set(), found())
    assert len(named) == 1
    # The other rail.
    assert len(others) == 1
    subprocess.run(["sh", "-ec", row["undo"].replace("/etc/", f"{machine.top}/etc/")], check=True)
    assert found() == set()


def test_settings_that_are_none_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text("{}")
    assert apply_rdma.main([str(tmp_path / "x.json")]) == 1
    assert "run playbooks/rdma.yml again" in capsys.readouterr().err


def test_a_reboot_is_noted_while_the_kernels_own_driver_runs_beside_doca(tmp_path: Path, told: dict[str, Any]) -> None:
    one = fresh(tmp_path, told, "dcb")
    settings = json.loads(json.dumps(told["expected"]["settings"]))
    settings["doca"] = True
    note = one.top / "run/bedplate/reboot-wanted/rdma"
    one.put("sys/module/mlx5_core/refcnt", "1\n")
    list(apply_rdma.apply(Root(str(one.top)), settings, one.run))
    assert note.read_text() == "DOCA-OFED is installed, and the kernel's own mlx5 driver runs\n"
    expected = {**told["expected"], "settings": settings, "doca": True}
    driver = [row for row in rdma_drift.drift(one.root, expected, one.run) if row.reboot]
    assert [(row.where, row.found) for row in driver] == [("driver mlx5_core", "the kernel's own")]
    one.put("sys/module/mlx5_core/version", "25.10-1.7.1\n")
    list(apply_rdma.apply(Root(str(one.top)), settings, one.run))
    assert not note.exists()
