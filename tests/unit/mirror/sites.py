"""A cluster file with one GPU node."""

from __future__ import annotations

from pathlib import Path

SITE = """\
plugin: bedplate.cluster.racks
site: away
cluster: away
domain: away.internal
networks:
  management: {cidr: 10.215.5.0/24, gateway: 10.215.5.1, start: 10.215.5.11}
profiles:
  h100:
    gpus: {model: h100, count: 1}
    sockets: 1
    cores_per_socket: 2
    memory_mib: 1024
racks:
  r1: {nodes: "gpu[1-2]", profile: h100}
hosts:
  ctl1: {address: 10.215.5.10}
services: {controllers: [ctl1]}
partitions:
  gpu: {nodes: all}
gpu_stack:
  os: debian-13
  source: debian
  driver: "550"
  module: proprietary
  @mirror@
"""


def write_site(directory: Path, origin: str, key: str, name: str = "away.bedplate.yml") -> Path:
    """Write a cluster file whose distribution is at `origin`, signed by `key`; without them, @mirror@ is left to fill in."""
    directory.mkdir(parents=True, exist_ok=True)
    text = SITE
    if origin:
        (directory / "origin.asc").write_text(key)
        names = ("debian", "debian-security")
        urls = ", ".join(f"{one}: '{origin}'" for one in names)
        keys = ", ".join(f"{one}: origin.asc" for one in names)
        text = SITE.replace("@mirror@", f"urls: {{{urls}}}\n  keys: {{{keys}}}")
    path = directory / name
    path.write_text(text)
    return path
