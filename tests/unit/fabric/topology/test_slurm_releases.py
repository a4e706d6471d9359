"""What is written for Slurm 24.11 and 26.05, read by their own slurmctld from Debian's archive: `make test-full`."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import config_trial
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.slurm_proof import slurm_conf
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.topology.slurm_topology import (
    Topology,
    blocks,
    conf,
    shown,
    tree,
    yaml,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.render import slurm_files
from tests.kit import slurm_releases
from tests.unit.fabric import cases
from tests.unit.fabric.cases import CASES, discovered
from tests.unit.fabric.topology.nvlink_site import MIXED, make_site

pytestmark = pytest.mark.full

# Suite of Debian -> the version of Slurm that it has, and whether the suite never goes away.
SUITES = {"trixie": ("24.11", True), "sid": ("26.05", False)}
SWITCH = re.compile(r"SwitchName=(\S+) Level=(\d+) LinkSpeed=\d+ (?:Nodes=(\S*))?(?: Switches=(\S*))?")
BLOCK = re.compile(r"(BlockName|AggregatedBlock)=(\S+) BlockIndex=\d+ Nodes=(\S+) BlockSize=(\d+)")


def nvlink(version: str) -> Topology:
    plan = cases.nvlink_racks()
    return blocks(plan, version, domains={one.name: one.hosts for one in plan.domains})


BLOCKS: dict[str, Callable[[str], Topology]] = {
    "NVLink domains": nvlink,
    "stated sizes": lambda version: blocks(cases.nvlink_racks(), version, sizes=[18, 72]),
    "leaves": lambda version: blocks(cases.damaged(), version),
    "a short domain": lambda version: blocks(
        [], version, domains={"a": ["n1", "n2"], "b": ["n3", "n4"], "c": ["n5"]}, short=["c"]
    ),
    "unlike domains": lambda version: blocks([], version, domains={"a": ["n1", "n2"], "b": ["n3", "n4"], "c": ["n5"]}),
}
# What each release must refuse, so that its yes is worth something.
REFUSED = {
    "unknown child": "SwitchName=l0 Nodes=gpu[0-1]\nSwitchName=top Switches=l[0-1]\n",
    "no tree": "SwitchName=l0 Nodes=gpu[0-1]\nSwitchName=a Switches=l0,b\nSwitchName=b Switches=a\n",
}


# As they are planned, and as they are discovered.
TREES = [*CASES, *(f"{name}, discovered" for name, case in CASES.items() if case.seen)]


@cache
def tree_of(name: str) -> Topology:
    case = CASES[name.partition(",")[0]]
    return tree(discovered(case)[0] if name.endswith("discovered") else case.plan())


def nodes_of(*topologies: Topology) -> list[str]:
    found = [node for one in topologies for switch in one.switches for node in switch.nodes]
    found += [node for one in topologies for nodes in (one.blocks | one.left_out).values() for node in nodes]
    return list(dict.fromkeys(found))


def deployed(version: str) -> dict[str, str]:
    """Return the files of a controller of a cluster with nodes in NVLink domains and others."""
    with tempfile.TemporaryDirectory() as directory:
        stated = ("fabric:", f'slurm: {{version: "{version}"}}\nfabric:')
        partitions = (
            "  train: {nodes: all}\n",
            "  train: {nodes: all}\n  nvl: {nodes: 'profile:gb200', default: true}\n",
        )
        return slurm_files(make_site(Path(directory), MIXED, stated, partitions))


@contextmanager
def available(version: str, suite: str) -> Iterator[None]:
    """Skip where a suite that may go away cannot be had."""
    try:
        yield
    except slurm_releases.UnavailableError as error:
        if SUITES[suite][1] or os.environ.get("CI") == "true" or os.environ.get("BEDPLATE_TOOLS") == "required":
            raise
        pytest.skip(f"NOT TESTED: Slurm {version}: {error}")


@cache
def answers(suite: str) -> dict[str, config_trial.Result]:
    """Return what the release of a suite says of each candidate, all in one call."""
    version = SUITES[suite][0]
    candidates: dict[str, slurm_releases.Files] = {}
    made = {**{name: tree_of(name) for name in TREES}, **{name: make(version) for name, make in BLOCKS.items()}}
    for name, one in made.items():
        candidates[name] = {"slurm.conf": slurm_conf(nodes_of(one), one.options), "topology.conf": conf(one, version)}
        if version >= "25.05":
            param = {"TopologyParam": one.param} if one.param else {}
            candidates[f"{name}, yaml"] = {
                "slurm.conf": slurm_conf(nodes_of(one), param),
                "topology.yaml": yaml({"default": one}, version),
            }
    if version >= "25.05":
        both = (tree_of("rail_full"), BLOCKS["NVLink domains"](version))
        candidates["both, yaml"] = {
            "slurm.conf": slurm_conf(nodes_of(*both), {}) + "PartitionName=nvl Nodes=ALL Topology=nvl\n",
            "topology.yaml": yaml({"default": both[0], "nvl": both[1]}, version),
        }
        candidates["deployed"] = deployed(version)
    for name, text in REFUSED.items():
        options = {"TopologyPlugin": "topology/tree"}
        candidates[name] = {"slurm.conf": slurm_conf(["gpu0", "gpu1"], options), "topology.conf": text}
    with available(version, suite):
        return slurm_releases.ask(suite, candidates)


def switches(lines: Iterable[str]) -> dict[str, tuple[int, set[str], set[str]]]:
    found = {}
    for line in lines:
        match = SWITCH.match(line)
        assert match, line
        found[match[1]] = (int(match[2]), set(expand(match[3] or "")), set(expand(match[4] or "")))
    return found


def planned(topology: Topology) -> dict[str, tuple[int, set[str], set[str]]]:
    return {
        name: (level, set(expand(nodes)), set(expand(below))) for name, (level, nodes, below) in shown(topology).items()
    }


FORMS = [("trixie", ""), ("sid", ""), ("sid", ", yaml")]


@pytest.mark.parametrize(("suite", "form"), FORMS, ids=["24.11-conf", "26.05-conf", "26.05-yaml"])
@pytest.mark.parametrize("name", TREES)
def test_a_tree_is_taken_and_shown_as_planned(suite: str, form: str, name: str):
    result = answers(suite)[f"{name}{form}"]
    assert (result.accepted, result.errors) == (True, []), result.log
    assert result.version.startswith(SUITES[suite][0])
    assert switches(result.topology) == planned(tree_of(name))


@pytest.mark.parametrize(("suite", "form"), FORMS, ids=["24.11-conf", "26.05-conf", "26.05-yaml"])
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_are_taken_and_shown_as_planned(suite: str, form: str, name: str):
    topology = BLOCKS[name](SUITES[suite][0])
    result = answers(suite)[f"{name}{form}"]
    assert (result.accepted, result.errors) == (True, []), result.log
    found = [BLOCK.match(line) for line in result.topology]
    assert all(found), result.topology
    single = {match[2]: match[3] for match in found if match and match[1] == "BlockName"}
    assert single == {name: fold(nodes) for name, nodes in topology.blocks.items()}
    # Larger blocks are of blocks that follow each other: as many as whole ones fit.
    sizes = {int(match[4]) for match in found if match}
    assert sizes == set(topology.sizes), result.topology


def test_a_partition_may_have_another_topology_than_the_first():
    result = answers("sid")["both, yaml"]
    assert (result.accepted, result.errors) == (True, []), result.log
    assert switches(result.topology) == planned(tree_of("rail_full"))


def test_what_a_controller_gets_is_taken_with_the_tree_first():
    files = deployed("26.05")
    assert "topology.yaml" in files
    result = answers("sid")["deployed"]
    assert (result.accepted, result.errors) == (True, []), result.log
    assert {line.split()[0] for line in result.topology} == {"SwitchName=su1-r0", "SwitchName=spine"}


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_topology_is_refused(suite: str, name: str):
    assert not answers(suite)[name].accepted
    assert answers(suite)[name].fatal
