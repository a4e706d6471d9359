# SPDX-License-Identifier: GPL-3.0-or-later
"""No batch has more of a partition than may be out, whoever else is; canaries are first; each pending node is in one batch, or why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.roll_batches import (
    SlurmSide,
    apart,
    limits,
    plan,
)
from tests.unit.stand_ins import cluster_file

NODES = [*(f"n{number}" for number in range(1, 13)), *(f"m{number}" for number in range(1, 4))]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    data: dict[str, Any] = yaml.safe_load(cluster_file({"b": {}, "a": {}}, {"b": "n[1-12]", "a": "m[1-3]"}))
    data["partitions"] = {"all": {"nodes": "all"}, "few": {"nodes": ["n[1-4]"]}}
    data["fabric"] = {"spines": ["s1"], "top": "top"}
    file = tmp_path_factory.mktemp("roll") / "c.bedplate.yml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return load(file)


def test_one_node_of_a_small_partition_may_be_out(cluster: Cluster):
    assert [(one.where, one.most) for one in limits(cluster)] == [("partition all", 1), ("partition few", 1)]
    assert [(one.where, one.most) for one in limits(cluster, 50)] == [("partition all", 7), ("partition few", 2)]


def test_racks_without_a_fabric_adapter_are_the_lowest_switches(cluster: Cluster):
    assert [(one.where, one.argument()["nodes"]) for one in apart(cluster)] == [
        ("switch leaf-r1", "n[1-12]"),
        ("switch leaf-r2", "m[1-3]"),
    ]


def test_nodes_of_no_partition_have_a_limit_together(tmp_path: Path):
    data: dict[str, Any] = yaml.safe_load(cluster_file({"b": {}}, {"b": "n[1-6]"}))
    data["partitions"] = {"few": {"nodes": ["n[1-2]"]}}
    (tmp_path / "c.bedplate.yml").write_text(yaml.safe_dump(data, sort_keys=False))
    loose = load(tmp_path / "c.bedplate.yml")
    groups = {one.where: (one.nodes, one.most) for one in limits(loose, 50)}
    assert groups["nodes of no partition"] == (("n3", "n4", "n5", "n6"), 2)
    assert plan(loose, ["n3", "n4", "n5", "n6"], SlurmSide(), 50).batches == (("n3",), ("n4", "n5"), ("n6",))


SWITCHES = "SwitchName=s1 Nodes=n[1-12]\nSwitchName=s2 Nodes=m[1-3]\nSwitchName=top Switches=s[1-2]\n"


@pytest.mark.parametrize(
    ("topology_conf", "groups"),
    [
        (SWITCHES, [("switch s1", "n[1-12]"), ("switch s2", "m[1-3]")]),
        (
            "BlockName=b1 Nodes=n[1-12]\nBlockName=b2 Nodes=m[1-3]\nBlockSizes=4\n",
            [("block b1", "n[1-12]"), ("block b2", "m[1-3]")],
        ),
    ],
    ids=["switches", "blocks"],
)
def test_switches_and_blocks_of_the_sites_own_topology_are_groups(
    cluster: Cluster, topology_conf: str, groups: list[tuple[str, str]]
):
    assert [(one.where, one.argument()["nodes"]) for one in apart(cluster, topology_conf)] == groups
    assert plan(cluster, [], SlurmSide(), own_topology=topology_conf).apart == apart(cluster, topology_conf)


def test_canaries_of_each_profile_are_first(cluster: Cluster):
    found = plan(cluster, NODES, SlurmSide(), percent=50)
    assert found.batches[0] == ("n1", "m1")
    assert found.canaries == ("n1", "m1")
    assert found.batches[1] == ("n2", "n3", "n5", "n6", "n7", "n8", "n9")


def test_canaries_that_do_not_fit_together_are_batches_of_their_own(cluster: Cluster):
    found = plan(cluster, NODES, SlurmSide())
    assert found.batches[:2] == (("n1",), ("m1",))
    assert found.canaries == ("n1", "m1")
    assert len(found.batches) == len(NODES)


def test_what_is_drained_already_comes_first_and_is_its_profiles_canary(cluster: Cluster):
    found = plan(cluster, NODES, SlurmSide(own=["n7"]))
    assert found.batches[:3] == (("n7",), ("m1",), ("n1",))
    assert found.canaries == ("n7", "m1")


def test_what_is_drained_already_and_has_jobs_proves_nothing(cluster: Cluster):
    found = plan(cluster, NODES, SlurmSide(own=["n7"], busy=["n7"]))
    assert found.batches[:3] == (("n7",), ("n1",), ("m1",))
    assert found.canaries == ("n1", "m1")


def test_of_several_drained_nodes_one_is_the_canary_before_the_others(cluster: Cluster):
    found = plan(cluster, NODES, SlurmSide(own=["n7", "n8", "n9"], busy=["n9"]))
    assert found.batches[:3] == (("n7",), ("n8", "n9"), ("m1",))


def test_a_node_that_failed_before_proves_nothing(cluster: Cluster):
    found = plan(cluster, NODES, SlurmSide(own=["n7"], failed=["n7"]))
    assert found.batches[:3] == (("n7",), ("n1",), ("m1",))
    assert found.canaries == ("n1", "m1")


def test_a_canary_is_a_node_without_jobs_where_there_is_one(cluster: Cluster):
    found = plan(cluster, NODES, SlurmSide(busy=[*(f"n{number}" for number in range(1, 12)), "m1", "m2", "m3"]))
    assert found.canaries == ("n12", "m1")


def test_a_node_that_others_have_out_is_left_and_counts(cluster: Cluster):
    found = plan(cluster, ["n1", "n2"], SlurmSide({"n2": "DRAIN+IDLE (fan; set by ann)"}))
    assert not found.batches
    assert found.left == {
        "n1": "partition all: 1 of at most 1 nodes are out: n2; partition few: 1 of at most 1 nodes are out: n2",
        "n2": "out of service: DRAIN+IDLE (fan; set by ann)",
    }


def test_nothing_pending_is_no_batch(cluster: Cluster):
    found = plan(cluster, [], SlurmSide({"n2": "DOWN"}))
    assert (found.batches, found.left) == ((), {})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(
    pending=st.sets(st.sampled_from(NODES)),
    out=st.sets(st.sampled_from(NODES)),
    own=st.sets(st.sampled_from(NODES)),
    percent=st.integers(1, 100),
)
def test_no_batch_is_above_a_limit_and_no_node_is_lost(
    cluster: Cluster, pending: set[str], out: set[str], own: set[str], percent: int
):
    own = (own & pending) - out
    found = plan(cluster, pending, SlurmSide(dict.fromkeys(out, "DOWN"), own), percent)
    placed = [name for batch in found.batches for name in batch]
    assert sorted([*placed, *found.left]) == sorted(pending)
    for batch in found.batches:
        assert batch
        if set(batch) <= own:  # out already
            continue
        for group in limits(cluster, percent):
            assert not set(batch) & set(group.nodes) or len((set(batch) | out) & set(group.nodes)) <= group.most
