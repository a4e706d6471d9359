# SPDX-License-Identifier: GPL-3.0-or-later
"""A topology.conf of a site's own after a node has left the cluster file."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.cluster_topology import of_cluster


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SwitchName=a Nodes=n[1-4]", "SwitchName=a Nodes=n[1-3]"),
        (
            "SwitchName=a Nodes=n[1-3]\nSwitchName=b Nodes=n4\nSwitchName=t Switches=a,b",
            "SwitchName=a Nodes=n[1-3]\nSwitchName=t Switches=a",
        ),
        (
            "SwitchName=a Nodes=n[1-3]\nSwitchName=b Nodes=n4\nSwitchName=m Switches=b\nSwitchName=t Switches=a,m",
            "SwitchName=a Nodes=n[1-3]\nSwitchName=t Switches=a",
        ),
        ("BlockName=a Nodes=n[1-3]\nBlockName=b Nodes=n4\nBlockSizes=3", "BlockName=a Nodes=n[1-3]\nBlockSizes=3"),
    ],
)
def test_what_is_left_has_the_nodes_of_the_cluster_file_alone(text: str, told: str):
    assert of_cluster(text, ["n1", "n2", "n3"]) == (told + "\n", ["n4"], [])


def test_what_fits_stays_as_it_is_written():
    text = "# slurm.conf: TopologyPlugin=topology/tree\nSwitchName=a  Nodes=n[1-2] # a leaf\n"
    assert of_cluster(text, ["n1", "n2"]) == (text, [], [])


def test_nodes_without_a_place_are_told():
    assert of_cluster("SwitchName=a Nodes=n1\n", ["n1", "n2"])[2] == ["n2"]
