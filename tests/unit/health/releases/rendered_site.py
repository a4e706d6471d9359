# SPDX-License-Identifier: GPL-3.0-or-later
"""Render what the roles install for health on the nodes of a small cluster with a given release of Slurm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_choices import role_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.health import health_control_part, node_health_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.render import render_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import render, scripts

# g1 should have a GPU, and this machine has neither a GPU nor a driver: two sources of `cannot-run`.
CLUSTER = """\
plugin: bedplate.cluster.racks
site: unit
cluster: unit
networks: {{management: {{cidr: 10.0.0.0/24, start: 10.0.0.11}}}}
profiles:
  cpu: {{sockets: 1, cores_per_socket: 2, memory_mib: 1024}}
  gpu: {{gpus: {{model: h100, count: 1}}, sockets: 1, cores_per_socket: 2, memory_mib: 1024, health: {{nvlink: false}}}}
racks:
  r1: {{nodes: "n[1-4]", profile: cpu}}
  r2: {{nodes: g1, profile: gpu}}
hosts: {{ctl1: {{address: 10.0.0.10}}}}
services: {{controllers: [ctl1]}}
partitions: {{gpu: {{nodes: all, default: true}}}}
slurm: {{version: "{version}"}}
health:
  dry_run_until: 2026-01-01
  interval: 10
  quiet_after_boot: 0
  drain: {{cluster: 80%, partition: 80%, rack: 100%, rate: 100/10m}}
"""
KERNEL_LOG = "/var/lib/test/kmsg"
# Options of the scripts, and those with which Slurm runs them.
_OPTION = re.compile(r"^((?:Prolog|Epilog|HealthCheck|SchedulerParameters)\w*)=(.*)$", re.MULTILINE)


def rendered(folder: Path, version: str) -> dict[str, Any]:
    """Return options of slurm.conf, files and agents by node, and the settings of the limiter; all as plain data."""
    path = folder / "unit.bedplate.yml"
    path.write_text(CLUSTER.format(version=version))
    cluster = load(path)
    control = health_control_part.decide(cluster, "ctl1")
    assert control
    return {
        "version": version,
        "options": dict(_OPTION.findall(render.slurm_files(cluster)["slurm.conf"])),
        "nodes": {node.name: _node(cluster, node.name) for node in cluster.nodes},
        "control": control.parts["health_control"]["settings"],
    }


def _node(cluster: Cluster, name: str) -> dict[str, Any]:
    choices = role_choices("node_health", {"node_health_kernel_log": KERNEL_LOG}, lambda value: value)
    decision = node_health_part.decide(cluster, name, choices)
    assert decision
    part = render_part("node_health", "node_health", decision.parts["node_health"])
    files = [one for one in (*part["files"], *scripts.files(cluster, name)) if "content" in one]
    (unit,) = [one["content"] for one in files if one["path"].endswith("/bedplate-health.service")]
    return {
        "files": [{"path": one["path"], "content": one["content"], "mode": one.get("mode", "0644")} for one in files],
        "agent": re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)[0].split(),
        "environment": dict(
            word.split("=", 1)
            for line in re.findall(r"^Environment=(.*)$", unit, re.MULTILINE)
            for word in line.split()
        ),
    }
