"""Real slurmctld of Slurm 24.11 and 26.05 places jobs on NVLink domains, one of them short: `make test-full`."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand, fold
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.topology.slurm_topology import (
    SlurmSwitch,
    Topology,
    blocks,
    conf,
    yaml,
)
from tests.kit import slurm_placement
from tests.unit.fabric.topology.test_slurm_releases import SUITES, available

pytestmark = pytest.mark.full

# Two whole domains of 8, and one of 4.
DOMAINS = {"d1": expand("n[01-08]"), "d2": expand("n[09-16]"), "d3": expand("n[17-20]")}
NODES = """\
NodeName=n[01-20] CPUs=1 State=CLOUD
PartitionName=all Nodes=n[01-20] Default=YES
PartitionName=short Nodes=n[17-20]
"""
# Three nodes are free in each whole domain, and the short one is.
BUSY = (["-N5", "-w", "n[01-05]"], ["-N5", "-w", "n[09-13]"])
FULL = (["-N8", "-w", "n[01-08]"], ["-N8", "-w", "n[09-16]"])


def case(topology: Topology, version: str, *jobs: list[str]) -> dict[str, Any]:
    options = "".join(f"{name}={value}\n" for name, value in topology.options.items())
    return {"files": {"slurm.conf": options + NODES, "topology.conf": conf(topology, version)}, "jobs": jobs}


@cache
def answers(suite: str) -> dict[str, list[str]]:
    """Return the nodes of the jobs of each case, of all cases in one call."""
    version = SUITES[suite][0]
    whole = blocks([], version, domains=DOMAINS, short=["d3"])
    # As it was: the smallest domain is the first of BlockSizes.
    smallest = blocks([], version, domains=DOMAINS, sizes=[4, 8, 16])
    cases = {
        "smallest": case(smallest, version, *BUSY, ["-N6"]),
        "whole": case(whole, version, *BUSY, ["-N3"], ["-N4", "-p", "short"]),
        "six": case(whole, version, *BUSY, ["-N6"]),
        "busy": case(whole, version, *BUSY, ["-N4"]),
        "full": case(whole, version, *FULL, ["-N4"]),
    }
    if version >= "25.05":
        # A topology of each partition: blocks for domains, a tree for the others.
        every = tuple(expand("n[01-20],c[1-2]"))
        tree = Topology([SlurmSwitch("all", 0, every, (), every, ("all",))])
        files = {
            "slurm.conf": "NodeName=n[01-20],c[1-2] CPUs=1 State=CLOUD\n"
            "PartitionName=mixed Nodes=n[01-20],c[1-2] Default=YES Topology=tree\nPartitionName=nvl Nodes=n[01-20] Topology=block\n",
            "topology.yaml": yaml({"tree": tree, "block": whole}, version),
        }
        for name in ("nvl", "mixed"):
            jobs = [[*busy, "-p", name] for busy in BUSY]
            cases[name] = {"files": files, "jobs": [*jobs, ["-N6", "-p", name]]}
    with available(version, suite):
        return slurm_placement.placed(suite, cases)


def domains(nodes: str) -> set[str]:
    return {name for name, members in DOMAINS.items() if set(members) & set(expand(nodes))}


@pytest.mark.parametrize("suite", SUITES)
def test_a_first_size_of_the_smallest_domain_spreads_a_job(suite: str):
    """What must not be: this test shows that the others can fail."""
    assert domains(answers(suite)["smallest"][-1]) == {"d1", "d2"}


@pytest.mark.parametrize("suite", SUITES)
def test_a_job_of_one_domain_waits_for_one(suite: str):
    assert answers(suite)["six"][-1] == ""
    _busy, _more, three, short = answers(suite)["whole"]
    assert len(domains(three)) == 1
    # A partition of the short domain alone uses it at any time.
    assert short == fold(DOMAINS["d3"])


@pytest.mark.parametrize("suite", SUITES)
def test_a_short_domain_has_jobs_by_the_release(suite: str):
    # In no block, it has no job while a node of a block is free; as a block it is like the others.
    assert answers(suite)["busy"][-1] == ("" if suite == "trixie" else fold(DOMAINS["d3"]))
    assert answers(suite)["full"][-1] == fold(DOMAINS["d3"])


def test_a_partition_of_blocks_keeps_a_job_in_a_domain_and_one_of_the_tree_does_not():
    assert answers("sid")["nvl"][-1] == ""
    # Three in each whole domain and the short one: six nodes are in two at least.
    assert len(domains(answers("sid")["mixed"][-1])) >= 2
