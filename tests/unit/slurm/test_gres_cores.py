"""The cores of each GPU as Slurm takes them, and what Slurm itself makes of them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.cpulists import cpu_numbers, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.numa_map import record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.gres_cores import widen
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.record_lines import gres_lines, node_lines
from ansible_collections.bedplate.cluster.plugins.plugin_utils.tuning.tuning_part import decide
from tests.unit.tuning.conftest import Machines, cluster_file
from tests.unit.tuning.node import CHOICES
from tests.unit.tuning.trees import MACHINES, MachineTree, description

SENTENCES = Path(__file__).with_name("sentences.txt")
slurmd = pytest.mark.tools("slurmd")
Ask = Callable[[str, str], list[str]]

# The cores of the GPUs, first for releases that take any, then for those that take whole sockets.
CORES = {
    "a100-hgx": (
        ["48-63"] * 2 + ["16-31"] * 2 + ["112-127"] * 2 + ["80-95"] * 2,
        ["0-63"] * 4 + ["64-127"] * 4,
    ),
    "b200-hgx": (["0-55"] * 4 + ["56-111"] * 4,) * 2,
    "epyc-nps4": (["24-31", "8-15", "56-63", "40-47"], ["0-31", "0-31", "32-63", "32-63"]),
    "gb200-tray": (["0-71", "0-71", "72-143", "72-143"],) * 2,
    "h100-hgx": (["0-55"] * 4 + ["56-111"] * 4,) * 2,
    "xeon-interleaved": (["0-31", "32-63"],) * 2,
}


@pytest.mark.parametrize("name", MACHINES)
def test_cores_that_slurm_keeps_from_jobs_are_those_that_the_node_gives_to_interrupts(
    name: str, machine_of: Machines, tmp_path: Path
) -> None:
    """Slurm and the node get the same cores, also where the file does not say what the NUMA nodes are; Linux counts CPUs as it likes."""
    machine, threads = machine_of(name), len(machine_of(name).cores[0].cpus)
    told = record(machine)[0] | {"system_cores": 2}
    for profile in (told, {**told, "numa": [], "nics": [{"name": "mlx5_0"}]}):
        cluster = load(cluster_file(tmp_path, machine, profile))
        kept = cluster.profiles["node"].kept_cores
        abstract = [core * threads + thread for core in kept for thread in range(threads)]
        (line,) = node_lines(cluster)
        assert f" CPUSpecList={fold(abstract)} " in line
        decided = decide(cluster, "n1", {**CHOICES, "irqs": "auto", "isolated_cpus": ""})
        assert decided is not None
        assert decided.expected["node_tuning"]["settings"]["irqs"]["cores"] == list(kept)
        (tmp_path / "24.11.bedplate.yml").unlink()
    cpus = set(cpu_numbers(machine.cores, load(cluster_file(tmp_path, machine, told)).profiles["node"].kept_cores))
    assert [len(cpus & set(node.cpus)) for node in machine.cpu_nodes] == [2 * threads] * len(machine.cpu_nodes)


@pytest.mark.parametrize(
    ("cores", "shape", "version", "wide"),
    [
        ("16-31", (2, 64), "24.05", "16-31"),
        ("16-31", (2, 64), "24.11", "0-63"),
        ("0-63", (2, 64), "26.05", "0-63"),
        # NUMA nodes as sockets.
        ("16-31", (8, 16), "26.05", "16-31"),
        # Several caches as sockets: 24.11 takes several, later ones one or all.
        ("0-15", (8, 8), "24.11", "0-15"),
        ("0-11", (8, 8), "24.11", "0-15"),
        ("0-15", (8, 8), "25.11", "0-63"),
        ("60-67", (2, 64), "24.11", "0-127"),
        ("", (2, 64), "24.11", ""),
    ],
)
def test_cores_are_widened_to_what_a_release_takes(cores: str, shape: tuple[int, int], version: str, wide: str) -> None:
    assert widen(cores, *shape, version) == wide


@pytest.mark.parametrize("version", ["22.05", "24.11", "25.11"])
@pytest.mark.parametrize("name", MACHINES)
def test_each_gpu_has_the_cores_near_it(machine_of: Machines, tmp_path: Path, name: str, version: str) -> None:
    machine = machine_of(name)
    cluster = load(str(cluster_file(tmp_path, machine, record(machine)[0], version)))
    found: dict[str, str] = {}
    for line in gres_lines(cluster):
        pairs = dict(pair.split("=", 1) for pair in line.split())
        found |= dict.fromkeys(expand(pairs["File"]), pairs["Cores"])
    cores = CORES[name][version >= "24.11"]
    assert found == {f"/dev/nvidia{number}": one for number, one in enumerate(cores)}


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Let slurmd read a node line and gres.conf, and return what it says; the devices are links to one that is there."""

    def run(node: str, gres: str) -> list[str]:
        for number in range(8):
            if not (tmp_path / f"nvidia{number}").is_symlink():
                (tmp_path / f"nvidia{number}").symlink_to("/dev/null")
        conf = (
            "ClusterName=test\nSlurmctldHost=localhost\nSlurmdParameters=config_overrides\nGresTypes=gpu\n"
            f"SlurmdSpoolDir={tmp_path}\n{node}\n"
        )
        (tmp_path / "slurm.conf").write_text(conf)
        (tmp_path / "gres.conf").write_text(gres.replace("/dev/nvidia", f"{tmp_path}/nvidia"))
        done = subprocess.run(
            ["slurmd", "-G", "-f", str(tmp_path / "slurm.conf"), "-N", "n1"],
            env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [line.removeprefix("slurmd-n1: ") for line in (done.stderr + done.stdout).splitlines() if line.strip()]

    return run


@slurmd
@pytest.mark.parametrize("version", ["22.05", "24.11"])
@pytest.mark.parametrize("name", MACHINES)
def test_slurm_takes_the_lines_of_a_machine(
    machine_of: Machines, tmp_path: Path, ask: Ask, name: str, version: str
) -> None:
    machine = machine_of(name)
    cluster = load(str(cluster_file(tmp_path, machine, record(machine)[0], version)))
    said = ask("\n".join(node_lines(cluster)), "\n".join(gres_lines(cluster)))
    found: list[str] = []
    for line in said:
        match = re.match(r"Gres Name=gpu Type=gpu Count=(\d+) .*Cores=(\S+) ", line)
        assert match, said
        found += [match[2]] * int(match[1])
    assert sorted(found) == sorted(CORES[name][version > "22.05"])


@slurmd
def test_slurm_refuses_a_core_that_the_node_has_not(ask: Ask) -> None:
    node = "NodeName=n1 Sockets=2 CoresPerSocket=64 ThreadsPerCore=2 Gres=gpu:a100:8"
    gres = "NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia[0-7] Cores={}"
    assert not [line for line in ask(node, gres.format("112-127")) if line.startswith("error")]
    errors = [line for line in ask(node, gres.format("112-128")) if line.startswith("error: ")]
    assert any("Cores=112-128" in line for line in errors)


@slurmd
@pytest.mark.parametrize("name", ["epyc-nps4", "xeon-interleaved"])
def test_slurm_sees_the_same_sockets_and_cores(machine_of: Machines, tmp_path: Path, name: str) -> None:
    MachineTree(tmp_path, description(name), masks=True)
    env = {
        **os.environ,
        "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
        "HWLOC_FSROOT": str(tmp_path),
        "HWLOC_COMPONENTS": "linux,stop",
    }
    said = subprocess.run(["slurmd", "-C"], env=env, capture_output=True, text=True, timeout=60, check=True).stdout
    told, _ = record(machine_of(name))
    assert f"SocketsPerBoard={told['sockets']} CoresPerSocket={told['cores_per_socket']} " in said
    assert f"ThreadsPerCore={told['threads_per_core']} " in said
