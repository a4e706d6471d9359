"""Nodes and partitions that leave the cluster file while jobs use them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.conf_reader import parse
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.removed_records import (
    Retained,
    gres_types,
    leaving,
    merged,
    retain,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.slurmctld_report import (
    SlurmJob,
    pairs_of,
    parse_jobs,
    parse_live,
)

SLURM = """\
ClusterName=lab
NodeName=gpu[01-02] NodeAddr=10.0.0.[11-12] Sockets=1 Gres=gpu:sim:2 Feature=sim,rack_r1 State=UNKNOWN
NodeName=gpu03 NodeAddr=10.0.0.13 Sockets=2 Feature=sim State=DRAIN Reason="fan's loud"
NodeSet=sim Feature=sim
PartitionName=gpu Nodes=sim Default=YES
PartitionName=debug Nodes=rack_r1 MaxTime=30
"""
GRES = "NodeName=gpu[01-02] Name=gpu Type=sim File=/dev/nvidia[0-1]\n"
# As Slurm 24.11 prints them.
LIVE_NODE = (
    "NodeName=cloud1 Arch=x86_64 CoresPerSocket=28 CPUAlloc=0 CPUEfctv=112 CPUTot=112 CPULoad=0.01 "
    "AvailableFeatures=big ActiveFeatures=big Gres=gpu:h100:8(S:0-1) NodeAddr=10.0.0.31 NodeHostName=cloud1 Port=7001 "
    "Version=24.11.5 OS=Linux 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1 RealMemory=1000000 AllocMem=0 "
    "FreeMem=9 Sockets=2 Boards=1 State=IDLE+DRAIN ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
    "Partitions=adhoc  BootTime=None CfgTRES=cpu=112 AllocTRES= CurrentWatts=0 Reason=it's hot [root@2026-01-01]"
)
LIVE_PARTITION = (
    "PartitionName=adhoc AllowGroups=ALL Default=NO QoS=N/A DefaultTime=NONE Hidden=NO MaxTime=02:00:00 "
    "Nodes=cloud1 PriorityJobFactor=1 PriorityTier=5 OverSubscribe=NO State=UP"
)


def keep(
    jobs: str, nodes: tuple[str, ...] = (), partitions: tuple[str, ...] = (), members: str = "", slurm: str = SLURM,
    gres: str = GRES, live_nodes: str = "",
) -> Retained:  # fmt: skip
    """Return what stays for jobs; `members` are lines of scontrol show partitions."""
    live = parse_live("", live_nodes, members, jobs)
    return retain(parse(slurm), parse(gres), nodes, partitions, live)


def test_leaving_is_what_is_in_force_and_not_wanted():
    assert leaving(parse(SLURM), None, ["gpu01", "gpu04"], ["gpu", "dev"]) == (["gpu02", "gpu03"], ["debug"])
    assert leaving(parse(""), None, ["gpu01"], ["gpu"]) == ([], [])


def test_what_slurmctld_has_and_its_file_lacks_leaves_too():
    live = parse_live("", LIVE_NODE, LIVE_PARTITION, "")
    wanted = ["gpu01", "gpu02", "gpu03"]
    assert leaving(parse(SLURM), live, wanted, ["gpu", "debug"]) == (["cloud1"], ["adhoc"])


def test_a_dynamic_node_is_in_no_file_so_no_file_takes_it_away():
    live = parse_live("", LIVE_NODE.replace("State=IDLE+DRAIN", "State=IDLE+DYNAMIC_NORM"), "", "")
    assert leaving(parse(""), live, [], []) == ([], [])


@pytest.mark.parametrize(
    ("line", "job"),
    [
        ("7|debug|gpu[01-02]|", SlurmJob("7", ("debug",), ("gpu01", "gpu02"), ())),
        ("8|gpu,debug||", SlurmJob("8", ("gpu", "debug"), (), ())),
        ("9_[1-4%2]|gpu||gpu[01-02],n7", SlurmJob("9_[1-4%2]", ("gpu",), (), ("gpu01", "gpu02", "n7"))),
        ("9|gpu|(null)|(null)", SlurmJob("9", ("gpu",), (), ())),
    ],
)
def test_jobs(line: str, job: SlurmJob):
    assert parse_jobs(line + "\n\n") == [job]


def test_a_line_of_scontrol_has_no_quotes_and_no_comments():
    pairs = pairs_of(LIVE_NODE)
    assert (pairs["RealMemory"], pairs["AllocTRES"], pairs["CurrentWatts"]) == ("1000000", "", "0")
    assert pairs_of("NodeName=n1 Reason=see NodeName=n2")["NodeName"] == "n1"


DEBUG = "PartitionName=debug Nodes=gpu[01-02]"
# what leaves, what the jobs are -> the lines that stay
LINES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a partition stays draining and hidden and keeps its limits": (
        {"jobs": "8|gpu,debug||", "partitions": ("debug",), "members": DEBUG},
        ["PartitionName=debug Nodes=gpu[01-02] MaxTime=30 Default=NO State=DRAIN Hidden=YES"],
    ),
    "a node stays in no partition": (
        {"jobs": "7|gpu|gpu[01-02]|", "nodes": ("gpu02",)},
        ["NodeName=gpu02 NodeAddr=10.0.0.12 Sockets=1 Gres=gpu:sim:2"],
    ),
    "a node that a waiting job asks for by name stays": (
        {"jobs": "7|gpu||gpu[02-03]", "nodes": ("gpu03",)},
        ["NodeName=gpu03 NodeAddr=10.0.0.13 Sockets=2"],
    ),
    "nothing stays without jobs": (
        {"jobs": "7|gpu|gpu01|gpu01", "nodes": ("gpu02",), "partitions": ("debug",), "members": DEBUG},
        [],
    ),
    "a partition whose nodes have all left has no empty Nodes=": (
        {"jobs": "8|debug||", "nodes": ("gpu01", "gpu02"), "partitions": ("debug",), "members": DEBUG},
        ["PartitionName=debug MaxTime=30 Default=NO State=DRAIN Hidden=YES"],
    ),
    "a partition has the nodes that stay, not those kept for other jobs": (
        {"jobs": "8|debug||\n9|gpu|gpu03|", "nodes": ("gpu02", "gpu03"), "partitions": ("debug",), "members": DEBUG},
        [
            "NodeName=gpu03 NodeAddr=10.0.0.13 Sockets=2",
            "PartitionName=debug Nodes=gpu01 MaxTime=30 Default=NO State=DRAIN Hidden=YES",
        ],
    ),
    "a partition of nodes that are only kept has these": (
        {"jobs": "8|debug|gpu02|\n9|gpu|gpu03|", "nodes": ("gpu01", "gpu02", "gpu03"), "partitions": ("debug",),
         "members": DEBUG},
        [
            "NodeName=gpu02 NodeAddr=10.0.0.12 Sockets=1 Gres=gpu:sim:2",
            "NodeName=gpu03 NodeAddr=10.0.0.13 Sockets=2",
            "PartitionName=debug Nodes=gpu02 MaxTime=30 Default=NO State=DRAIN Hidden=YES",
        ],
    ),
    "a file in another hand, with defaults": (
        {"jobs": "7|p|n2|", "nodes": ("n2",), "partitions": ("p",), "members": "PartitionName=p Nodes=n1,n2",
         "slurm": "nodename=DEFAULT cpus=4 features=x state=IDLE\n  NODENAME=n[1-2] \\\n reason=\"it's\"\n"
                  "partitionname=DEFAULT maxtime=9 STATE=UP\npartitionname=p nodes=ALL default=yes"},
        [
            "NodeName=n2 cpus=4 NodeAddr=n2",
            "PartitionName=p Nodes=n1 maxtime=9 State=DRAIN Default=NO Hidden=YES",
        ],
    ),
    "what has no line of its own is described by slurmctld": (
        {"jobs": "7|adhoc|cloud1|", "nodes": ("cloud1",), "partitions": ("adhoc",), "members": LIVE_PARTITION,
         "live_nodes": LIVE_NODE},
        [
            "NodeName=cloud1 NodeAddr=10.0.0.31 Port=7001 Sockets=2 CoresPerSocket=28 ThreadsPerCore=2 "
            "RealMemory=1000000 Gres=gpu:h100:8",
            "PartitionName=adhoc Nodes=cloud1 MaxTime=02:00:00 OverSubscribe=NO PriorityTier=5 PriorityJobFactor=1 "
            "Default=NO State=DRAIN Hidden=YES",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("case", "lines"), LINES.values(), ids=LINES)
def test_lines(case: dict[str, Any], lines: list[str]):
    assert keep(**case).slurm == lines


def test_the_ids_of_the_jobs_are_told():
    kept = keep("7|debug|gpu02|gpu02\n8|gpu||gpu02\n9|debug||", ("gpu02",), ("debug",), DEBUG)
    assert kept.nodes == {"gpu02": ["7", "8"]}
    assert kept.partitions == {"debug": ["7", "9"]}


# gres.conf -> the lines of the node that stays
@pytest.mark.parametrize(
    ("gres", "lines"),
    [
        (GRES, ["NodeName=gpu02 Name=gpu Type=sim File=/dev/nvidia[0-1]"]),
        ("nodename=gpu[01-02] NAME=gpu File=/dev/a \\\n Cores=0", ["NodeName=gpu02 Name=gpu File=/dev/a Cores=0"]),
        ("Name=gpu File=/dev/a\nName=shard Count=2", ["NodeName=gpu02 Name=gpu File=/dev/a"]),
        ("AutoDetect=nvml", ["NodeName=gpu02 AutoDetect=nvml"]),
        ("NodeName=gpu01 Name=gpu File=/dev/a", ["NodeName=gpu02 Name=gpu Type=sim Count=2"]),
        ("", ["NodeName=gpu02 Name=gpu Type=sim Count=2"]),
    ],
)
def test_the_gpus_of_a_node_that_stays(gres: str, lines: list[str]):
    assert keep("7|gpu|gpu02|", ("gpu02",), gres=gres).gres == lines


def test_a_node_without_gpus_has_no_line_in_gres_conf():
    assert keep("7|gpu|gpu03|", ("gpu03",), gres="AutoDetect=nvml\nName=gpu File=/dev/a").gres == []


@pytest.mark.parametrize(
    ("gres", "types"), [("gpu:h100:8(S:0-1),gpu:a100:1,shard:4", ["gpu", "shard"]), ("gpu", ["gpu"]), ("", [])]
)
def test_types_of_gres(gres: str, types: list[str]):
    assert gres_types(gres) == types


def test_what_was_kept_once_can_be_kept_again():
    kept = keep("7|debug|gpu02|", ("gpu02",), ("debug",), DEBUG)
    again = SLURM.replace("[01-02]", "01").replace("[11-12]", "11") + "\n".join(kept.slurm)
    members = "PartitionName=debug Nodes=gpu01"
    twice = keep("7|debug|gpu02|", ("gpu02",), ("debug",), members, slurm=again, gres="\n".join(kept.gres))
    assert sorted(twice.slurm) == sorted(kept.slurm)
    assert twice.gres == kept.gres


ONE = {"slurm": ["NodeName=n10 CPUs=1", "PartitionName=p Nodes=a"], "gres": ["NodeName=n10 Name=gpu Count=1"],
       "nodes": {"n10": ["7"]}, "partitions": {"p": ["7"]}}  # fmt: skip
TWO = {"slurm": ["NodeName=n2 CPUs=2", "NodeName=n10 CPUs=9"], "gres": ["NodeName=n2 Name=gpu Count=2",
       "NodeName=n2 Name=gpu Count=3", "NodeName=n10 Name=gpu Count=9"], "nodes": {"n2": ["8"]}}  # fmt: skip


def test_the_answers_of_controllers_are_one():
    kept = merged([{}, ONE, TWO, {"unreachable": True, "msg": "no"}])
    assert kept.slurm == ["NodeName=n2 CPUs=2", "NodeName=n10 CPUs=1", "PartitionName=p Nodes=a"]
    assert kept.gres == [
        "NodeName=n2 Name=gpu Count=2",
        "NodeName=n2 Name=gpu Count=3",
        "NodeName=n10 Name=gpu Count=1",
    ]
    assert (kept.nodes, kept.partitions) == ({"n2": ["8"], "n10": ["7"]}, {"p": ["7"]})
    assert merged([]) == Retained()
