"""The pod of the examples, its discoveries, and playbooks that are run with it."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import Discovery
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import ToolOutput
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core import guid_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import (
    connect,
    discovery_of,
    ibnetdiscover_text,
)

ROOT = Path(__file__).parents[3]


POD = (ROOT / "inventories/examples/pod-32/pod-32.bedplate.yml").read_text()
# A variable of a playbook that an operator may set.
VARIABLE = re.compile(r"\b(fabric_\w+)(?: \| default| is (?:un)?defined)")


def cluster(tmp_path: Path, *edits: tuple[str, str]) -> Cluster:
    text = POD
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "pod.bedplate.yml"
    path.write_text(text)
    return load(path)


def seen(found: Cluster) -> Discovery:
    return discovery_of(plan_of(found))


def told(discovery: Discovery, name: str = "fabric") -> list[ToolOutput]:
    return [ToolOutput(name, ibnetdiscover_text(discovery))]


def node(discovery: Discovery, name: str):
    return next(one for one in discovery.nodes.values() if one.description == name)


def swap(discovery: Discovery, leaf: str, one: int, other: int) -> None:
    """Swap two cables at a leaf."""
    switch = node(discovery, leaf)
    ends = {port: (discovery.nodes[switch.cables[port].guid], switch.cables[port].port) for port in (one, other)}
    for port, far in ((one, ends[other]), (other, ends[one])):
        connect(switch, port, *far, "4x", "NDR")


def cut(discovery: Discovery, name: str) -> None:
    """Take out an HCA's cable."""
    hca = node(discovery, name)
    cable = hca.cables.pop(1)
    del discovery.nodes[cable.guid].cables[cable.port]


def keep(found: Cluster, text: str) -> None:
    guid_record.path_of(found.path).write_text(text)


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def books(*names: str) -> list[str]:
    return [f"playbooks/{name}.yml" for name in names]
