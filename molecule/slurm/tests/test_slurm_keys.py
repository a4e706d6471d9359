"""Keys that trial and the table of option effects name, and some that they do not, edited under jobs of every kind.

`make full-slurm` edits every key; molecule/slurm_keys. What comes after this file begins with a cluster file of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import yaml

from lab.scenario_site import CLUSTER_FILE, SCENARIO
from tests.kit import ROOT
from tests.kit.edits import Edit, edits
from tests.kit.keys_run import Bench, problems

testinfra_hosts = ["ansible://slurm_controllers"]

BASE = yaml.safe_load(CLUSTER_FILE)
# The jobs need more cores than the containers have; the base of molecule/slurm_keys says so.
WIDE = yaml.safe_load((ROOT / "molecule/slurm_keys/slurm_keys.bedplate.yml").read_text())
ALL = {str(edit): edit for edit in edits()}
PROFILE = "cluster_file.profiles.<name>"
BATCHES = {
    "hardware": [
        f"{PROFILE}.{key}"
        for key in ("sockets", "cores_per_socket", "threads_per_core", "memory_mib", "gpus.model", "gpus.count")
    ],
    "refused-by-reader": [
        *(f"{PROFILE}.gpus.mig", "slurm.AuthAltTypes", "slurm.SlurmUser", "slurm.ClusterName", "slurm.TopologyPlugin"),
        *("slurmdbd.StorageLoc", "partition.Nodes"),
    ],
    "refused-with-jobs": ["slurm.StateSaveLocation", "slurm.SlurmdSpoolDir", "slurm.MaxJobCount"],
    "plain": [
        *("slurm.SlurmctldDebug", "slurm.Licenses", "slurm.MaxArraySize", "slurm.PriorityType"),
        *(
            "slurm.SchedulerType",
            "slurm.KillWait",
            "slurm.InactiveLimit",
            "slurm.SlurmdTimeout",
            "slurm.MessageTimeout",
        ),
        *("partition.State", "partition.AllowGroups", "partition.MinNodes", "cgroup.ConstrainRAMSpace"),
    ],
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Yield the scenario's cluster with its jobs; what is edited last stays in force."""
    base = yaml.safe_load(yaml.safe_dump(BASE))
    base["profiles"] = WIDE["profiles"]
    base["slurm"]["options"] = WIDE["slurm"]["options"]
    bench = Bench(SCENARIO, base, tmp_path_factory.mktemp("keys"))
    bench.prepare()
    yield bench
    bench.workload.stop()


# test_jobs_outrank_edits.py edits hardware under jobs, too.
FULL = {"hardware"}


def test_enough_keys_are_edited():
    assert sum(len(names) for name, names in BATCHES.items() if name not in FULL) >= 20


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.full_in("slurm") if one in FULL else ()) for one in BATCHES]
)
def test_edits_hurt_no_job(bench: Bench, name: str) -> None:
    batch: Sequence[Edit] = [ALL[key] for key in BATCHES[name]]
    bench.ready()
    found = problems(batch, bench.run(batch))
    assert not found, "\n".join(found)
