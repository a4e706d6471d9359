"""Keys that are known to end jobs or to take a restart, and some that are not, edited under jobs of every kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import yaml

from tests.kit import ROOT
from tests.kit.edits import Edit, edits
from tests.kit.keys_run import Bench, problems

testinfra_hosts = ["ansible://slurm_controllers"]

BASE = ROOT / "molecule/slurm/slurm.bedplate.yml"
# The base of molecule/slurm_keys has the cores that the jobs need.
WIDE = yaml.safe_load((ROOT / "molecule/slurm_keys/slurm_keys.bedplate.yml").read_text())
ALL = {str(edit): edit for edit in edits()}
BATCHES = {
    "plain": [
        "SlurmctldDebug",
        "SlurmdDebug",
        "Licenses",
        "Prolog",
        "Epilog",
        "TaskProlog",
        "MaxArraySize",
        "MaxJobCount",
        "PriorityType",
        "SchedulerType",
        "DebugFlags",
        "KillWait",
        "InactiveLimit",
        "MessageTimeout",
    ],
    "ports": ["SlurmdPort"],
}


def wide_base() -> dict[str, object]:
    """Return the scenario's cluster file with more cores, which its containers do not need to have."""
    base = yaml.safe_load(BASE.read_text())
    base["profiles"] = WIDE["profiles"]
    base["slurm"]["options"] = WIDE["slurm"]["options"]
    return base


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Yield the scenario's cluster with its jobs; afterwards it is what the scenario says."""
    bench = Bench("slurm", wide_base(), tmp_path_factory.mktemp("keys"))
    bench.prepare()
    yield bench
    bench.workload.stop()
    bench.before = None
    bench.base = yaml.safe_load(BASE.read_text())
    outcome = bench.run()
    assert outcome.rc == 0, outcome


@pytest.mark.parametrize("name", BATCHES)
def test_edits_hurt_no_job(bench: Bench, name: str) -> None:
    batch: Sequence[Edit] = [ALL[f"slurm.{key}"] for key in BATCHES[name]]
    bench.ready()
    found = problems(batch, bench.run(batch))
    assert not found, "\n".join(found)
