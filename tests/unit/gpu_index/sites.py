"""A site whose GPU nodes have Debian 13 and Rocky 9, with repositories in a directory."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from tests.unit.mirror.sites import SITE

SYSTEMS = ("debian-13", "rocky-9")
OLDER, GAINED = ["580.65.06", "590.48.01"], "580.999.10"
PROFILES = """\
  deb:
    gpus: {model: h200, count: 8}
    sockets: 1
    cores_per_socket: 2
    memory_mib: 1024
    gpu_stack: {os: debian-13, URLS of debian-13}
  rpm:
    gpus: {model: h200, count: 8}
    sockets: 1
    cores_per_socket: 2
    memory_mib: 1024
    gpu_stack: {os: rocky-9, kernel: 5.14.0-503.11.1.el9_5.x86_64, URLS of rocky-9}
racks:
  r1: {nodes: "deb[1-2]", profile: deb}
  r2: {nodes: rpm1, profile: rpm}
hosts:
"""
STACK = """\
gpu_stack:
  os: debian-13
  source: nvidia
  driver: "580"
  cuda: ["12.9"]
  nccl: "2.30"
  container_toolkit: "1.18.2"
  dcgm: "4"
  keys: {nvidia: keys/nvidia.asc, container-toolkit: keys/toolkit.asc}
"""


@dataclass
class VendorSite:
    """A cluster file and its repositories, which may become those of another stage."""

    directory: Path
    stages: dict[str, Path]

    def __post_init__(self) -> None:
        self.file = self.directory / "site/west.bedplate.yml"
        self.lock = self.directory / "site/west.gpu-lock.json"
        self.file.parent.mkdir()
        self.become("first")
        shutil.copytree(self.stages["first"] / "keys", self.file.parent / "keys")
        self.write()

    def become(self, stage: str) -> None:
        """Let the repositories be as they are at another time; their addresses stay."""
        place = self.directory / "public"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.stages[stage], place)

    def write(self, old: str = "", new: str = "", more: str = "") -> None:
        """Write the cluster file, with a text of it replaced."""
        text = (
            SITE[: SITE.index("  h100:")]
            + PROFILES
            + SITE[SITE.index("  ctl1:") : SITE.index("gpu_stack:")]
            + STACK
            + more
        )
        for system in SYSTEMS:
            urls = ", ".join(
                f'{name}: "file://{self.directory}/public/{part}/{system}"'
                for name, part in (("nvidia", "nvidia"), ("container-toolkit", "toolkit"))
            )
            text = text.replace(f"URLS of {system}", f"urls: {{{urls}}}")
        assert old in text
        self.file.write_text(text.replace(old, new))

    def cluster(self) -> Cluster:
        return load(self.file)
