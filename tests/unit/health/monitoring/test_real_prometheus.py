# SPDX-License-Identifier: GPL-3.0-or-later
"""From a node's text file to Alertmanager, through a real Prometheus with the rules and examples of the role."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.health_finding import finding
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.prometheus_text import text_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.health import monitoring_files
from tests.unit.health.monitoring.real_monitoring import Monitoring, Texts
from tests.unit.health.monitoring.rules_kit import ROOT, agent_metrics

pytestmark = pytest.mark.tools("prometheus", "prometheus-alertmanager", "amtool")
GPU = "0000:3b:00.0"
XID = finding("xid-79", "cannot-run", "Xid 79", device=GPU, sources=("kernel-log",))


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    file = tmp_path / "site.bedplate.yml"
    file.write_text((ROOT / "tests/unit/cluster/base.yml").read_text() + "health: {}\nmonitoring: {}\n")
    return load(file)


@pytest.fixture
def texts(cluster: Cluster) -> Iterator[Texts]:
    with Texts() as served:
        for node in cluster.nodes:
            served.texts[f"/{node.name}"] = text_of(agent_metrics())
        yield served


def targets(cluster: Cluster, port: int) -> list[dict[str, Any]]:
    """Return the targets of all nodes, each at its own path of one server."""
    return [
        {"targets": [f"127.0.0.1:{port}"], "labels": {**one["labels"], "__metrics_path__": f"/{one['labels']['node']}"}}
        for one in monitoring_files.targets(cluster, "node")
        if "node" in one["labels"]
    ]


def from_text_file_to_alertmanager(site: Monitoring, cluster: Cluster, texts: Texts) -> tuple[float, float]:
    """Write an Xid into the text file of one node; return the seconds until its alert is active, and until it has resolved."""
    node = next(one for one in cluster.nodes if one.profile.gpus)
    site.until(lambda: len(site.query("up == 1")) == len(cluster.nodes), 3 * site.seconds + 30)
    assert site.alerts("BedplateXidHardware") == []
    texts.texts[f"/{node.name}"] = text_of(agent_metrics([XID], {("79", GPU): 1}, status="fail"))
    fired = site.until(lambda: site.alerts("BedplateXidHardware"), 3 * site.seconds + 30)
    (alert,) = site.alerts("BedplateXidHardware")
    labels = alert["labels"]
    assert (labels["node"], labels["check"], labels["class"]) == (node.name, "xid-79", "cannot-run")
    assert (labels["device"], labels["rack"], labels["profile"]) == (GPU, node.rack.name, node.profile.name)
    assert alert["status"]["state"] == "active"
    assert f"scontrol show node {node.name}" in alert["annotations"]["remedy"]
    assert [one["name"] for one in alert["receivers"]] == ["tickets"]
    texts.texts[f"/{node.name}"] = text_of(agent_metrics())
    resolved = site.until(lambda: not site.alerts("BedplateXidHardware"), 3 * site.seconds + 30)
    return fired, resolved


@pytest.mark.daemons
def test_an_xid_in_a_text_file_reaches_alertmanager_and_resolves(
    tmp_path: Path, cluster: Cluster, texts: Texts
) -> None:
    with Monitoring(tmp_path, targets(cluster, texts.port)) as site:
        fired, resolved = from_text_file_to_alertmanager(site, cluster, texts)
        print(f"fired after {fired:.1f} s, resolved after {resolved:.1f} s, with intervals of 1 s")
        assert fired < 15
        # Labels of the cluster file are labels of the series, and recording rules add them up.
        assert site.query('count(bedplate_health_status{status="ok"}) by (rack)')
        racks = {one["metric"]["rack"] for one in site.query("rack_status:bedplate_health_status:sum")}
        assert racks == {node.rack.name for node in cluster.nodes}
        assert site.query('ALERTS{alertname="BedplateAgentStale"}')


@pytest.mark.daemons
def test_alerts_of_a_leaf_that_is_down_are_hidden(tmp_path: Path) -> None:
    with Monitoring(tmp_path, []) as site:
        for words in (
            ("BedplateLeafDown", "severity=page", "leaf=l1"),
            ("BedplateExporterDown", "severity=ticket", "leaf=l1", "node=n1"),
            ("BedplateExporterDown", "severity=ticket", "leaf=l2", "node=n2"),
            ("BedplateGpuLost", "severity=ticket", "leaf=l1", "node=n1"),
        ):
            url = f"--alertmanager.url={site.alertmanager}"
            subprocess.run(["amtool", url, "alert", "add", *words], check=True, timeout=10)
        site.until(lambda: any(one["status"]["inhibitedBy"] for one in site.alerts("BedplateExporterDown")), 20)
        down = {one["labels"]["node"]: one["status"]["state"] for one in site.alerts("BedplateExporterDown")}
        assert down == {"n1": "suppressed", "n2": "active"}
        assert site.alerts("BedplateGpuLost")[0]["status"]["state"] == "active"
        (leaf,) = site.alerts("BedplateLeafDown")
        assert [one["name"] for one in leaf["receivers"]] == ["pages"]


@pytest.mark.full_health
def test_an_xid_reaches_alertmanager_with_the_intervals_of_the_example(
    tmp_path: Path, cluster: Cluster, texts: Texts
) -> None:
    with Monitoring(tmp_path, targets(cluster, texts.port), 30) as site:
        fired, resolved = from_text_file_to_alertmanager(site, cluster, texts)
        print(f"fired after {fired:.1f} s, resolved after {resolved:.1f} s, with intervals of 30 s")
        assert fired < 75
