"""A cluster file with two fabrics: InfiniBand for compute, rail-optimised, and a leaf-spine one for storage."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core import guid_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.simulated_fabric import simulated_plan

COMPUTE = '{kind: rail-optimised, rails: 2, spines: "spine[1-2]", uplinks: 4, speed: HDR, switch_ports: 40}'
STORAGE = "{kind: leaf-spine, spines: core-s1, uplinks: 3, speed: HDR, switch_ports: 36, subnet_managers: [sm2, sm1]}"
TWO = f"""plugin: bedplate.cluster.racks
site: s
cluster: duo
networks: {{management: {{cidr: 10.0.0.0/24}}}}
profiles:
  gpu:
    sockets: 1
    cores_per_socket: 2
    memory_mib: 1024
    nics:
      - {{name: mlx5_0, rail: 0}}
      - {{name: mlx5_1, rail: 1}}
      - {{name: mlx5_2, fabric: storage}}
racks:
  r1: {{nodes: "n[1-2]", profile: gpu, leaf: su1}}
  r2: {{nodes: "n[3-4]", profile: gpu, leaf: su2, leaves: {{storage: st2}}}}
hosts:
  sm1: {{address: 10.0.0.200, nics: [{{name: mlx5_0}}, {{name: mlx5_1, fabric: storage}}]}}
  sm2: {{address: 10.0.0.201, nics: [{{name: mlx5_0}}, {{name: mlx5_1, fabric: storage}}]}}
  oss1: {{address: 10.0.0.202, nics: [{{name: mlx5_0, fabric: storage, purpose: storage}}]}}
services: {{controllers: [n1], subnet_managers: [sm1, sm2]}}
partitions: {{gpu: {{nodes: all}}}}
fabrics:
  compute: {COMPUTE}
  storage: {STORAGE}
"""
# The commonest case: storage has Ethernet.
MIXED = TWO.replace(
    STORAGE, "{technology: ethernet, kind: leaf-spine, spines: core-s1, uplinks: 3, speed: HDR, switch_ports: 36}"
)


def cluster(directory: Path, text: str = TWO, *edits: tuple[str, str], learned: bool = False) -> Cluster:
    """Return the cluster; with `learned` the GUIDs of all InfiniBand fabrics are on record."""
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    path = directory / "duo.bedplate.yml"
    path.write_text(text)
    found = load(str(path))
    for number, view in enumerate(found.views.values()) if learned else ():
        if view.fabric and view.fabric.technology == "infiniband":
            record(view, number)
    return found


def record(view: Cluster, number: int = 0) -> None:
    """Write invented GUIDs of a fabric into its record, other ones for each number."""
    full = simulated_plan(plan_of(view))
    rows = guid_record.record_of(full)
    for guids in rows.values():
        for sort, guid in guids.items():
            guids[sort] = f"{int(guid, 16) + (number << 40):016x}"
    guid_record.path_of(view.path, view.stated.part).write_text(guid_record.text_of(rows))
