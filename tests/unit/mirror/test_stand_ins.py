"""Everything that a site may want of NVIDIA, mirrored from stand-ins of its repositories (lab/vendor), and installed without them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import stack_table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror import build_mirror, cluster_mirror
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.mirror_model import MirrorReport
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.signing import Signer
from lab.vendor import repository
from lab.vendor.repository import Repository
from tests.kit.decided import decided
from tests.unit.mirror.origins import Archive, Deb, Node, served, what_apt_reads
from tests.unit.mirror.sites import SITE

pytestmark = [pytest.mark.playbooks, pytest.mark.tools("apt-get", "gpg", "dpkg-deb")]

OLDER, NEWER = "580.65.06", "590.48.01"
PARTS = (("gpu_driver", "prepare"), ("gpu_driver", "driver"), ("cuda", "cuda"), ("dcgm", "dcgm"))
COMPONENTS = ("main", "contrib", "non-free", "non-free-firmware")
STACK = """\
gpu_stack:
  os: debian-13
  source: nvidia
  driver: "{driver}"
  cuda: ["12.9", "13.0"]
  container_toolkit: "1.18.2"
  dcgm: "4.5.3"
"""


@dataclass
class Site:
    """A cluster file, in a directory with the keys of its origins."""

    directory: Path
    vendor: Repository
    base: Archive
    key: Signer

    def file(self, driver: str, more: str) -> str:
        text = SITE[: SITE.index("gpu_stack:")].replace("model: h100, count: 1", "model: h200, count: 8")
        path = self.directory / "site" / "away.bedplate.yml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + STACK.format(driver=driver) + more)
        return str(path)

    def origins(self) -> str:
        keys: dict[str, Path] = {}
        urls: dict[str, Path] = {}
        toolkit = next(row.name for row in stack_table.default().repositories if row.part == "toolkit")
        for name, part in (("nvidia", repository.PARTS[0]), (toolkit, repository.PARTS[1])):
            keys[name], urls[name] = self.vendor.key(part), self.vendor.part("debian-13", part)
        for name in ("debian", "debian-security"):
            keys[name], urls[name] = self.directory / "base.asc", self.base.directory
        said = [f"    {name}: 'file://{path}'\n" for name, path in urls.items()]
        told = [f"    {name}: {path}\n" for name, path in keys.items()]
        return f"  urls:\n{''.join(said)}  keys:\n{''.join(told)}"

    def make(self, driver: str) -> tuple[MirrorReport, dict[str, object]]:
        cluster = load(self.file(driver, self.origins()))
        order = build_mirror.Order(
            "away", self.directory / "mirror", self.directory / "cache", cluster_mirror.systems_of(cluster)
        )
        return build_mirror.make(order, lambda: self.key)

    def node(self, name: str, driver: str, url: str) -> tuple[Node, list[str]]:
        """Return a machine with what the roles bring to it, and the packages that they install."""
        file = self.file(driver, f"  mirror: {{url: '{url}', key: {self.directory / 'mirror/key.asc'}}}\n")
        parts = [decided(role, file, "gpu1", part) for role, part in PARTS]
        node = Node(self.directory / name, url, files=what_apt_reads(parts))
        return node, [package for part in parts for package in part["packages"]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, origin_key: Signer, mirror_key: Signer) -> Site:
    directory = tmp_path_factory.mktemp("vendor")
    base = Archive(
        directory / "base", origin_key, suites=("trixie", "trixie-updates", "trixie-security"), components=COMPONENTS
    )
    base.add(*(Deb(name, "1") for name in ("dkms", "g++", "linux-headers-amd64", "infiniband-diags", "libibumad3")))
    (directory / "base.asc").write_text(origin_key.public)
    vendor = repository.build(directory / "origin", ["debian-13"], drivers=[OLDER, NEWER])
    return Site(directory, vendor, base, mirror_key)


def test_every_part_is_installed_from_the_mirror_alone_upwards_and_downwards(site):
    first, listed = site.make(OLDER)
    parts = {part for row in listed["packages"] for part in row["systems"]["debian-13"]["parts"]}
    assert {"kernel", "driver", "fabric", "cuda", "toolkit", "dcgm", "build"} <= parts
    second, _ = site.make(NEWER)
    assert (len(first.kept), first.listed > 20) == (0, True)
    assert second.kept
    assert len(second.fetched) < second.listed
    with served(site.directory / "mirror") as (url, _):
        for driver in (OLDER, NEWER):
            node, packages = site.node(f"node-{driver}", driver, url)
            done = node.update()
            assert (done.returncode, done.stderr) == (0, "")
            done = node.download(*packages)
            assert done.returncode == 0, done.stdout + done.stderr
            wanted = {package.split("=")[0] for package in packages}
            assert wanted <= {name.split("_")[0] for name in node.archives}
            assert [name for name in node.archives if driver in name]
            other = NEWER if driver == OLDER else OLDER
            assert not [name for name in node.archives if other in name]
