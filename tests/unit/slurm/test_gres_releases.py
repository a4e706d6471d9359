"""What gres.conf has for each machine, judged by the slurmctld of Slurm 24.11 and 26.05 from Debian's archive: `make test-full`.

slurmctld looks at cores when a node registers, and for nodes of the cloud when it starts: so these are such nodes here.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import config_trial
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.machine_topology import read_machine
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.numa_map import record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.record_lines import gres_lines, node_lines
from tests.kit import slurm_releases
from tests.unit.tuning.conftest import cluster_file
from tests.unit.tuning.trees import MACHINES, MachineTree, description

pytestmark = pytest.mark.full

# Suite of Debian -> the version of Slurm that it has, and whether the suite never goes away.
SUITES = {"trixie": ("24.11", True), "sid": ("26.05", False)}
BOUNDARIES = "doesn't match socket boundaries"
# What is asked with cores of our own choice: sockets, cores per socket, Cores, and the releases that refuse it.
CHOSEN = {
    "a part of a socket": (2, 64, "16-31", ("24.11", "26.05")),
    "a socket": (2, 64, "64-127", ()),
    "a NUMA node that is a socket": (8, 16, "16-31", ()),
    "two of eight sockets": (8, 8, "0-15", ("26.05",)),
    "all sockets": (8, 8, "0-63", ()),
    "a part of two sockets": (2, 64, "60-67", ("24.11", "26.05")),
}


def files(node: str, gres: str) -> dict[str, str]:
    conf = (
        "ClusterName=test\nSlurmctldHost=localhost\nGresTypes=gpu\nSelectType=select/cons_tres\n"
        f"{node}\nPartitionName=all Nodes=ALL Default=YES\n"
    )
    return {"slurm.conf": conf, "gres.conf": gres}


@cache
def machine_files(top: Path, version: str) -> dict[str, dict[str, str]]:
    made = {}
    for name in MACHINES:
        MachineTree(top / name, description(name))
        machine = read_machine(str(top / name))
        cluster = load(str(cluster_file(top / name, machine, record(machine)[0], version)))
        node = "\n".join(node_lines(cluster)).replace("State=UNKNOWN", "State=CLOUD")
        assert "State=CLOUD" in node
        made[name] = files(node, "\n".join(gres_lines(cluster)) + "\n")
    return made


@pytest.fixture(scope="module", params=SUITES)
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, config_trial.Result]:
    """Ask the release of a suite everything at once."""
    suite = request.param
    version, stays = SUITES[suite]
    candidates = machine_files(tmp_path_factory.mktemp(suite), version)
    for name, (sockets, cores, chosen, _refused) in CHOSEN.items():
        node = f"NodeName=n1 Sockets={sockets} CoresPerSocket={cores} RealMemory=1000 Gres=gpu:a:8 State=CLOUD"
        gres = f"NodeName=n1 Name=gpu Type=a File=/dev/nvidia[0-7] Cores={chosen}\n"
        candidates[name] = files(node, gres)
    try:
        return slurm_releases.ask(suite, candidates)
    except slurm_releases.UnavailableError as error:
        if stays or os.environ.get("CI") == "true" or os.environ.get("BEDPLATE_TOOLS") == "required":
            raise
        pytest.skip(f"NOT TESTED: Slurm {version}: {error}")


def test_each_release_takes_the_cores_of_each_machine(asked: dict[str, config_trial.Result]) -> None:
    assert {name: (asked[name].accepted, asked[name].errors) for name in MACHINES} == dict.fromkeys(
        MACHINES, (True, [])
    )


@pytest.mark.parametrize("name", CHOSEN)
def test_each_release_refuses_what_we_say_it_does(asked: dict[str, config_trial.Result], name: str) -> None:
    version = next(text for text in ("24.11", "26.05") if f"slurmctld {text}" in asked["a socket"].message)
    said = [error for error in asked[name].errors if BOUNDARIES in error]
    assert bool(said) == (version in CHOSEN[name][3]), asked[name].log
