# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute files for the Prometheus of a site from the cluster file: targets of each exporter, and how many of them there must be.

A target has its labels from the file, `job` among them, so that the rules do not depend on the site's names of scrape jobs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..cluster import Cluster, Host, Node

NODE, DCGM, SLURM = EXPORTERS = ("node", "dcgm", "slurm")
JOB = "bedplate-{}"
_COUNTS = "bedplate-expected"


def targets(cluster: Cluster, exporter: str) -> list[dict[str, Any]]:
    """Return the targets of an exporter as file_sd of Prometheus has them; an empty list if the cluster lacks the exporter.

    A node has the labels `node`, `rack`, `row`, `partition`, `profile`, `model` and `leaf`, as far as the cluster file has them. `leaf`
    is the leaf or scalable unit of its rack, where the profile has NICs. A node in several partitions has their names with commas. A
    machine outside the racks has `host`, and `rack`. ValueError: unknown exporter.
    """
    if exporter not in EXPORTERS:
        raise ValueError(f"exporter {exporter!r}; allowed: {', '.join(EXPORTERS)}")
    monitoring = cluster.monitoring
    if monitoring is None:
        return []
    job = JOB.format(exporter)
    if exporter == SLURM:
        # Its series have a label `node`, which one of the target would hide.
        controllers = cluster.services.controllers if monitoring.slurm_exporter else ()
        return [
            _target(cluster.machine(name).address, monitoring.slurm_port, {"job": job, "host": name})
            for name in controllers
        ]
    port = monitoring.node_port if exporter == NODE else monitoring.dcgm_port
    if not port:
        return []
    found = [
        _target(node.address, port, {"job": job, **labels})
        for node, labels in _node_labels(cluster)
        if exporter == NODE or node.profile.gpus
    ]
    if exporter == NODE:
        found += [_target(one.address, port, {"job": job, **_host_labels(one)}) for one in cluster.hosts.values()]
    return found


def target_files(cluster: Cluster) -> dict[str, str]:
    """Return name -> text of the files of targets: `node.json`, `dcgm.json`, `slurm.json`, a target a line.

    An exporter that the cluster lacks has an empty list: a file that vanishes would leave its old targets in Prometheus.
    """
    return {f"{exporter}.json": _lines(targets(cluster, exporter)) for exporter in EXPORTERS}


def expected_rules(cluster: Cluster) -> dict[str, Any]:
    """Return a rules file with the expected number of targets of each exporter, and of GPUs of each profile. JSON is YAML, too."""
    counts = {exporter: len(targets(cluster, exporter)) for exporter in EXPORTERS}
    rules = [
        _constant("bedplate:targets:expected", count, "job", JOB.format(exporter))
        for exporter, count in counts.items()
        if count
    ]
    rules += [
        _constant("bedplate:gpus:expected", profile.gpus.count, "profile", name)
        for name, profile in cluster.profiles.items()
        if profile.gpus
    ]
    return {"groups": [{"name": _COUNTS, "rules": rules}]}


def _constant(name: str, value: int, label: str, content: str) -> dict[str, Any]:
    return {"record": name, "expr": f"vector({value})", "labels": {label: content}}


def _node_labels(cluster: Cluster) -> Iterator[tuple[Node, dict[str, str]]]:
    """Yield each node of a rack with its labels, without empty ones."""
    partitions = _partitions(cluster)
    for node in cluster.nodes:
        rack, profile = node.rack, node.profile
        labels = {
            "node": node.name,
            "rack": rack.name,
            "row": rack.row or "",
            "partition": ",".join(partitions.get(node.name, ())),
            "profile": profile.name,
            "model": profile.gpus.model if profile.gpus else "",
            "leaf": rack.leaf if profile.nics else "",
        }
        yield node, {name: value for name, value in labels.items() if value}


def _partitions(cluster: Cluster) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for partition in cluster.partitions.values():
        for node in partition.nodes or ():
            found.setdefault(node, []).append(partition.name)
    return found


def _host_labels(host: Host) -> dict[str, str]:
    return {"host": host.name, **({"rack": host.rack} if host.rack else {})}


def _target(address: str, port: int, labels: Mapping[str, str]) -> dict[str, Any]:
    return {"targets": [f"[{address}]:{port}" if ":" in address else f"{address}:{port}"], "labels": dict(labels)}


def _lines(found: Iterable[Mapping[str, Any]]) -> str:
    """Return a JSON list with an entry a line, so that a diff names the nodes."""
    return "[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in found) + "\n]\n"
