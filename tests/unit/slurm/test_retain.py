"""Nodes and partitions that leave the cluster file while jobs use them."""

from __future__ import annotations

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.retain import (
    Job,
    leaving,
    nodes_of,
    parse_jobs,
    retain,
)

SLURM = """\
ClusterName=lab
NodeName=gpu[01-02] NodeAddr=10.0.0.[11-12] Sockets=1 Gres=gpu:sim:2 Feature=sim,rack_r1 State=UNKNOWN
NodeName=gpu03 NodeAddr=10.0.0.13 Sockets=2 Feature=sim State=DRAIN Reason="fan is loud"
NodeSet=sim Feature=sim
PartitionName=gpu Nodes=sim Default=YES
PartitionName=debug Nodes=rack_r1 MaxTime=30
"""
GRES = "NodeName=gpu[01-02] Name=gpu Type=sim File=/dev/nvidia[0-1]\n"


def test_every_node_gets_its_own_address():
    nodes = nodes_of(SLURM)
    assert {name: pairs["NodeAddr"] for name, pairs in nodes.items()} == {
        "gpu01": "10.0.0.11",
        "gpu02": "10.0.0.12",
        "gpu03": "10.0.0.13",
    }
    assert nodes["gpu03"]["Reason"] == "fan is loud"


def test_leaving_is_what_the_file_in_force_has_and_the_wanted_ones_lack():
    assert leaving(SLURM, ["gpu01", "gpu04"], ["gpu", "dev"]) == (["gpu02", "gpu03"], ["debug"])
    assert leaving("", ["gpu01"], ["gpu"]) == ([], [])


def test_jobs_that_wait_have_several_partitions_and_no_nodes():
    assert parse_jobs("7|debug|gpu[01-02]\n8|gpu,debug|\n\n") == [
        Job("7", ("debug",), ("gpu01", "gpu02")),
        Job("8", ("gpu", "debug"), ()),
    ]


def test_a_partition_with_jobs_stays_draining_and_hidden_and_keeps_its_limits():
    kept = retain(SLURM, GRES, [], ["debug"], parse_jobs("8|gpu,debug|"), {"debug": ["gpu01", "gpu02"]})
    assert kept.slurm == ["PartitionName=debug Nodes=gpu[01-02] MaxTime=30 Default=NO State=DRAIN Hidden=YES"]
    assert kept.partitions == {"debug": ["8"]}


def test_a_node_with_jobs_stays_in_no_partition_with_its_gpus():
    kept = retain(SLURM, GRES, ["gpu02"], [], parse_jobs("7|gpu|gpu[01-02]"), {})
    assert kept.slurm == ["NodeName=gpu02 NodeAddr=10.0.0.12 Sockets=1 Gres=gpu:sim:2"]
    assert kept.gres == ["NodeName=gpu02 Name=gpu Type=sim File=/dev/nvidia[0-1]"]
    assert kept.nodes == {"gpu02": ["7"]}


def test_nothing_stays_without_jobs():
    kept = retain(SLURM, GRES, ["gpu02"], ["debug"], parse_jobs("7|gpu|gpu01"), {"debug": ["gpu01"]})
    assert (kept.slurm, kept.gres) == ([], [])


def test_what_was_kept_once_can_be_kept_again():
    kept = retain(SLURM, GRES, ["gpu02"], ["debug"], parse_jobs("7|debug|gpu02"), {"debug": ["gpu02"]})
    again = SLURM.replace("[01-02]", "01").replace("[11-12]", "11") + "\n".join(kept.slurm)
    twice = retain(again, "\n".join(kept.gres), ["gpu02"], ["debug"], parse_jobs("7|debug|gpu02"), {"debug": ["gpu02"]})
    assert sorted(twice.slurm) == sorted(kept.slurm)
    assert twice.gres == kept.gres


def test_a_partition_whose_nodes_have_all_left_has_no_empty_nodes():
    kept = retain(SLURM, GRES, ["gpu01", "gpu02"], ["debug"], parse_jobs("8|debug|"), {"debug": ["gpu01", "gpu02"]})
    assert kept.slurm == ["PartitionName=debug MaxTime=30 Default=NO State=DRAIN Hidden=YES"]
