"""A cluster of NVLink domains for tests: four racks of a GB200 NVL72 each, on one unit of one rail."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load

TEXT = """\
plugin: bedplate.cluster.racks
site: nv
cluster: nv
networks:
  management: {cidr: 10.20.0.0/22}
profiles:
  gb200: {gpus: {model: gb200, count: 4}, sockets: 2, cores_per_socket: 72, memory_mib: 880000, nvlink_domain: 18,
          nics: {name: mlx5_0, rail: 0}}
  cpu: {sockets: 2, cores_per_socket: 64, memory_mib: 500000, nics: {name: mlx5_0, rail: 0}}
racks:
  n[1-4]: {leaf: su1, nodes: "n[01-72]", profile: gb200}
hosts:
  ctl1: {address: 10.20.3.11}
services: {controllers: ctl1}
partitions:
  train: {nodes: all}
fabric: {kind: rail-optimised, spines: "s[1-2]", switch_ports: 160}
"""
ALL_RACKS = '  n[1-4]: {leaf: su1, nodes: "n[01-72]", profile: gb200}\n'
# CPU nodes beside them.
MIXED = ("hosts:\n", '  c: {leaf: su1, nodes: "cpu[1-2]", profile: cpu}\nhosts:\n')
BLOCKS = [("n1", "n[01-18]"), ("n2", "n[19-36]"), ("n3", "n[37-54]"), ("n4", "n[55-72]")]


def make_site(directory: Path, *edits: tuple[str, str]) -> Cluster:
    """Return the cluster after edits, each the old text and the new one."""
    text = TEXT
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path = directory / "nv.bedplate.yml"
    path.write_text(text)
    return load(path)
