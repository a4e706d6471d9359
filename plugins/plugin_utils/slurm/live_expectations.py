# SPDX-License-Identifier: GPL-3.0-or-later
"""Expected state of a running slurmctld beside nodes: options of partitions, features of nodes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.conf_reader import parse

from ..cluster import Cluster
from . import cluster_topology, record_lines

Row = dict[str, str | None]
_RECORDS = ("NodeName", "NodeSet", "PartitionName", "SlurmctldHost", "DownNodes")


@cache
def rows() -> tuple[Row, ...]:
    """Return the table of the options of partitions that scontrol changes, partition_runtime.json."""
    text = Path(__file__).with_name("partition_runtime.json").read_text(encoding="utf-8")
    return tuple(json.loads(text)["options"])


def options(slurm_conf: str) -> dict[str, str]:
    """Return the global options of a rendered slurm.conf."""
    lines = (pairs for pairs in parse(slurm_conf).lines if next(iter(pairs)) not in _RECORDS)
    return {name: value for pairs in lines for name, value in pairs.items()}


def partitions(cluster: Cluster, topology: str = "") -> dict[str, list[Row]]:
    """Return partition -> rows of the table that compare, each with the value `want`; `topology` replaces the plan's."""
    found = {}
    lines = record_lines.partition_lines(cluster, cluster_topology.of_partitions(cluster, topology))
    for pairs in parse("\n".join(lines)).records("PartitionName"):
        stated = {name.lower(): value for name, value in pairs.items()}
        wanted = [{**row, "want": stated.get(str(row["option"]).lower(), row["default"])} for row in rows()]
        if "priority" in stated:  # the older name sets both
            wanted = [row for row in wanted if not str(row["option"]).startswith("Priority")]
        found[pairs["PartitionName"]] = [row for row in wanted if row["want"] is not None]
    return found


def features(cluster: Cluster) -> list[dict[str, str]]:
    """Return groups of nodes with the same features."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for node in cluster.nodes:
        groups.setdefault(tuple(record_lines.features_of(node)), []).append(node.name)
    return [{"names": fold(names), "features": ",".join(words)} for words, names in groups.items()]
