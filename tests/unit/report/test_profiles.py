"""What is recorded of machines is a profile that the cluster file's reader takes, and that describes the same hardware."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.common.cpulists import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.report.hardware import read_hardware
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.machine_topology import read_machine
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.numa_map import compare, plan_from
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, Profile, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.report.gpu_names import model_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.report.profiles import profiles_text, recorded
from ansible_collections.bedplate.cluster.plugins.plugin_utils.tuning.numa_plan import plan_of
from tests.unit.tuning.trees import MACHINES, MachineTree, description

IDS = """10de  NVIDIA Corporation
\t2330  GH100 [H100 SXM5 80GB]
\t\t10de 16c1  a board
15b3  Mellanox
\t1021  MT2910 Family [ConnectX-7]
"""
CLUSTER: dict[str, Any] = {
    "plugin": "bedplate.cluster.racks",
    "site": "test",
    "cluster": "test",
    "networks": {"management": {"cidr": "10.0.0.0/24"}},
    "hosts": {"c1": {"address": "10.0.0.200"}},
    "services": {"controllers": ["c1"], "database": ["c1"]},
    "partitions": {"all": {"nodes": "all", "default": True}},
    "slurm": {"version": "24.11"},
}


class Trees(dict[str, Path]):
    """Trees of machines, each made when a test first uses it."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        super().__init__()
        self.factory = factory

    def __missing__(self, name: str) -> Path:
        self[name] = self.factory.mktemp("recorded") / name
        MachineTree(self[name], description(name)).write("usr/share/misc/pci.ids", IDS)
        return self[name]


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Trees:
    return Trees(tmp_path_factory)


def loaded(top: Path, text: str) -> Cluster:
    """Load a cluster file with these profiles; each has a node."""
    profiles = yaml.safe_load(text)["profiles"]
    nodes = [{"names": f"n{number}", "profile": name} for number, name in enumerate(profiles, 1)]
    path = top / "site.bedplate.yml"
    path.write_text(yaml.safe_dump({**CLUSTER, "racks": {"r1": {"nodes": nodes}}}) + text)
    return load(str(path))


@pytest.mark.parametrize("name", MACHINES)
def test_a_recorded_machine_loads_and_is_as_its_profile_says(trees: Trees, tmp_path: Path, name: str) -> None:
    text = profiles_text({"gpu01": read_hardware(str(trees[name]))}, {})
    (profile,) = loaded(tmp_path, text).profiles.values()
    machine = read_machine(str(trees[name]))
    assert compare(plan_from(plan_of(profile)), machine) == []
    assert profile.gpus is not None
    assert profile.gpus.count == len(machine.gpus)
    assert profile.memory_mib == sum(node.memory_mib or 0 for node in machine.nodes)
    assert {nic.name for nic in profile.nics} == {nic.rdma[0] for nic in machine.nics if nic.rdma}


def description_of(profile: Profile) -> dict[str, Any]:
    """Return the machine of a profile with one GPU and NIC to a switch, as tests/unit/tuning/machines/*.yml describe machines."""
    cores, threads = profile.sockets * profile.cores_per_socket, profile.threads_per_core
    per = profile.cores_per_socket
    packages = [
        fold(core + cores * thread for thread in range(threads) for core in range(socket * per, (socket + 1) * per))
        for socket in range(profile.sockets)
    ]
    nodes, devices = [], []
    for number, (node, ids) in enumerate(zip(profile.numa, profile.numa_cores, strict=True)):
        cpus = fold(core + cores * thread for thread in range(threads) for core in ids)
        memory = profile.memory_mib // len(profile.numa)
        nodes.append({"number": number, "cpus": cpus, "memory_mib": memory})
        for place in range(max(len(node.gpus), len(node.nics))):
            bus = f"{number * 3 + place + 1:x}"
            for kind, names in (("gpu", node.gpus), ("nic", node.nics)):
                if place < len(names):
                    end = f"0000:{bus}{'2' if kind == 'gpu' else '4'}:00.0"
                    what = {"gpu": "0x2330"} if kind == "gpu" else {"nic": names[place]}
                    path = [f"0000:{bus}0:01.0", f"0000:{bus}1:00.0", end]
                    devices.append({"path": path, "numa": number, **what})
    return {
        "processor": {"arch": "x86_64", "vendor": "GenuineIntel", "family": 6, "model": 143, "name": "x"},
        "threads": threads,
        "packages": packages,
        "cache_cores": per,
        "nodes": nodes,
        "devices": devices,
    }


STATED = """
profiles:
  h100x4:
    gpus: {model: h100, count: 4}
    sockets: 2
    cores_per_socket: 8
    threads_per_core: 2
    memory_mib: 512000
    numa:
      - {cores: 0-3, gpus: "0", nics: [mlx5_0]}
      - {cores: 4-7, gpus: "1", nics: [mlx5_1]}
      - {cores: 8-11, gpus: "2", nics: [mlx5_2]}
      - {cores: 12-15, gpus: "3", nics: [mlx5_3]}
    nics:
      - {name: mlx5_0, rail: 0}
      - {name: mlx5_1, rail: 1}
      - {name: mlx5_2, rail: 2}
      - {name: mlx5_3, rail: 3}
"""


def test_a_profile_becomes_a_machine_and_is_recorded_equal(tmp_path: Path) -> None:
    (tmp_path / "stated").mkdir()
    stated = loaded(tmp_path / "stated", STATED).profiles["h100x4"]
    tree = MachineTree(tmp_path / "machine", description_of(stated))
    tree.write("usr/share/misc/pci.ids", IDS)
    text = profiles_text({"gpu01": read_hardware(str(tree.top))}, {})
    assert loaded(tmp_path, text).profiles == {"h100x4": stated}


def test_the_rails_are_the_nics_beside_gpus(trees: Trees) -> None:
    text = profiles_text({"gpu01": read_hardware(str(trees["h100-hgx"]))}, {})
    nics = yaml.safe_load(text)["profiles"]["h100x8"]["nics"]
    assert {nic["name"]: nic.get("rail") for nic in nics} == {
        **{f"mlx5_{number}": number for number in range(8)},
        "mlx5_8": None,
        "mlx5_9": None,
    }
    assert "0000:18:00.0; MT2910 Family [ConnectX-7]; InfiniBand; ibs0; NUMA node 0; at the switch of GPU 0" in text
    assert re.search(r"# Without RDMA, not a NIC of the fabric: eno3, 0000:2a:00.0; 8086:1021; NUMA node 0", text)


@pytest.fixture
def h100(trees: Trees) -> dict[str, Any]:
    return read_hardware(str(trees["h100-hgx"]))


def test_machines_with_equal_hardware_share_a_profile_with_the_least_memory(h100: dict[str, Any]) -> None:
    reports = {f"gpu{number:02}": {**h100, "memory_mib": h100["memory_mib"] - number} for number in (1, 2, 3)}
    (one,) = recorded(reports)
    assert sorted(one.hosts) == ["gpu01", "gpu02", "gpu03"]
    text = profiles_text(reports, {})
    assert "# gpu[01-03]" in text
    assert yaml.safe_load(text)["profiles"]["h100x8"]["memory_mib"] == h100["memory_mib"] - 3
    assert "The least of its machines, on gpu03" in text


def test_what_differs_is_another_profile_and_is_listed(h100: dict[str, Any], tmp_path: Path) -> None:
    other, small = copy.deepcopy(h100), {**h100, "memory_mib": h100["memory_mib"] // 2}
    del other["gpus"][7], other["shape"]["numa"][1]["gpus"]
    del other["shape"]["numa"][0]["gpus"]
    other["nics"][0]["numa"] = 1
    text = profiles_text({"gpu01": h100, "gpu02": h100, "gpu03": other, "gpu04": small}, {"gpu05": "no\nanswer"})
    assert list(loaded(tmp_path, text).profiles) == ["h100x8", "h100x8_2", "h100x7"]
    assert "# h100x7 differs from h100x8: GPUs: 8 x GH100 [H100 SXM5 80GB] (10de:2330) there, 7 x" in text
    assert "# h100x7 differs from h100x8: places of NICs: 0000:18:00.0 (0)" in text
    assert f"# h100x8_2 differs from h100x8: memory_mib: {h100['memory_mib']} there, {small['memory_mib']} here" in text
    assert "# gpu05: no profile: no answer" in text


def test_the_order_of_device_files_is_stated_where_the_driver_has_another(h100: dict[str, Any], tmp_path: Path) -> None:
    other = copy.deepcopy(h100)
    for gpu, minor in zip(other["gpus"], (3, 2, 1, 0, 7, 6, 5, 4), strict=True):
        gpu["minor"] = minor
    profile = loaded(tmp_path, profiles_text({"gpu01": other}, {})).profiles["h100x8"]
    assert profile.gpus is not None
    assert profile.gpus.devices == tuple(f"/dev/nvidia{number}" for number in (3, 2, 1, 0, 7, 6, 5, 4))


def test_a_gpu_that_the_table_does_not_have_is_a_decision(h100: dict[str, Any], tmp_path: Path) -> None:
    other = copy.deepcopy(h100)
    for gpu in other["gpus"]:
        gpu["name"] = "NVIDIA R100 288GB: #new"
    text = profiles_text({"gpu01": other}, {})
    assert (
        "model: gpu # DECIDE: the GPU table has no model of this name; 8 x NVIDIA R100 288GB: #new (10de:2330)" in text
    )
    assert list(loaded(tmp_path, text).profiles) == ["gpux8"]


def test_a_machine_without_gpus_and_without_numa_is_recorded(tmp_path: Path) -> None:
    tree = MachineTree.__new__(MachineTree)
    tree.top, tree._directories = tmp_path / "m", set()
    tree.write("sys/devices/system/cpu/online", "0-1")
    for cpu in (0, 1):
        tree.write(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", "0")
        tree.write(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", str(cpu))
    tree.write("proc/meminfo", "MemTotal:        8000000 kB")
    profile = loaded(tmp_path, profiles_text({"c": read_hardware(str(tree.top))}, {})).profiles["cpu"]
    assert (profile.sockets, profile.cores_per_socket, profile.gpus, profile.nics) == (1, 2, None, ())
    assert profile.memory_mib == 7812


def test_without_any_machine_the_text_is_still_yaml() -> None:
    assert yaml.safe_load(profiles_text({}, {"gpu01": "is off"})) == {"profiles": {}}


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("Tesla V100-SXM2-32GB", "v100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA GeForce RTX 4090", ""),
        ("", ""),
    ],
)
def test_a_name_of_the_driver_is_a_model_of_the_table(name: str, model: str) -> None:
    assert model_of(name) == model
