"""What Slurm reports against the plan."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.state import (
    compare_maps,
    compare_nodes,
    parse_nodes,
    parse_partitions,
    parse_topology,
    table,
)

# As Slurm 24.11 prints it.
SINFO = "gpu01|gpu:sim:2(S:0)|2|960|idle|none\ngpu02|gpu:sim:2|2|960|mix|none\n"
WANTED = [{"names": "gpu[01-02]", "gres": "gpu:sim:2", "cpus": 2, "memory": 960, "drained": False}]


def test_agreement_gives_no_finding():
    assert compare_nodes(WANTED, parse_nodes(SINFO)) == []


@pytest.mark.parametrize(
    ("live", "wanted", "found"),
    [
        ("gpu01|gpu:sim:1|2|960|idle|none", "gres gpu:sim:2", "gres gpu:sim:1"),
        ("gpu01|(null)|2|960|idle|none", "gres gpu:sim:2", "gres "),
        ("gpu01|gpu:sim:2|4|960|idle|none", "cpus 2", "cpus 4"),
        ("gpu01|gpu:sim:2|2|900|idle|none", "memory 960", "memory 900"),
        ("gpu01|gpu:sim:2|2|960|down*|Not responding", "able to run jobs", "down* (Not responding)"),
        ("gpu01|gpu:sim:2|2|960|idle*|none", "able to run jobs", "idle*"),
        (
            "gpu01|gpu:sim:2|2|960|drain|gres/gpu count reported lower",
            "able to run jobs",
            "drain (gres/gpu count reported lower)",
        ),
        ("gpu01|gpu:sim:2|2|960|inval|none", "able to run jobs", "inval"),
    ],
)
def test_every_difference_is_found(live: str, wanted: str, found: str):
    only = [{**WANTED[0], "names": "gpu01"}]
    (finding,) = compare_nodes(only, parse_nodes(live))
    assert (finding.where, finding.wanted, finding.found) == ("node gpu01", wanted, found)


def test_a_node_that_shall_be_drained_may_be():
    only = [{**WANTED[0], "names": "gpu01", "drained": True}]
    assert compare_nodes(only, parse_nodes("gpu01|gpu:sim:2|2|960|drain|fan")) == []
    assert compare_nodes(only, parse_nodes("gpu01|gpu:sim:2|2|960|down|fan")) != []


def test_a_node_that_slurm_does_not_know():
    (finding,) = compare_nodes([{**WANTED[0], "names": "gpu09"}], parse_nodes(SINFO))
    assert table([finding]) == "node gpu09: wanted known to Slurm, found unknown; run playbooks/scheduler.yml"


def test_partitions():
    text = (
        "PartitionName=gpu AllowGroups=ALL Default=YES Nodes=gpu[01-02] State=UP TotalCPUs=4\n"
        "PartitionName=old Hidden=YES Nodes=(null) State=DRAIN\n"
    )
    live = parse_partitions(text)
    assert live == {"gpu": "gpu[01-02]", "old": ""}
    assert compare_maps("partition", {"gpu": "gpu[01-02]"}, live, spared=["old"]) == []
    findings = compare_maps("partition", {"gpu": "gpu01", "debug": "gpu02"}, live)
    assert [(one.where, one.wanted, one.found) for one in findings] == [
        ("partition gpu", "gpu01", "gpu[01-02]"),
        ("partition debug", "gpu02", "absent"),
        ("partition old", "absent", ""),
    ]


def test_topology():
    text = (
        "SwitchName=leaf-r1 Level=0 LinkSpeed=1 Nodes=gpu[01-02]\n"
        "SwitchName=top Level=1 LinkSpeed=1 Nodes=gpu[01-04] Switches=leaf-r[1-2]\n"
    )
    assert parse_topology(text)["top"] == {"level": "1", "nodes": "gpu[01-04]", "switches": "leaf-r[1-2]"}
