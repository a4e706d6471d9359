# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of Debian with which a driver is compiled: 200 MB for GPU nodes alone, kept beside the image and not in it."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from lab import image
from lab.paths import image_cache
from lab.podman import Podman
from lab.shell import say

PACKAGES = ("dkms", "linux-headers-amd64")
TOO_OLD = (
    "The packages with which a driver is compiled could not be fetched. If the archive no longer has them, the node image is too old: "
    "`python3 -m lab down --all` removes it, and the next run builds it again."
)
COMPILER = "compiler"
PLACE = "/srv/debian"
"""Where a node sees them; links to them lie in its apt cache, so that apt has nothing to fetch."""


def ensure(podman: Podman, release: str) -> Path:
    """Return the folder with what these packages need in the image of a release, fetched once for each image."""
    folder = image_cache() / f"{image.ARCHIVES}{image.tag(release)}"
    if folder.is_dir():
        return folder
    say("image", f"fetching {', '.join(PACKAGES)} and what they need for {release}; once per image")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        out = Path(scratch) / "out"
        (out / "partial").mkdir(parents=True)
        # By the lists of the image, which are those that a node has.
        fetch = ["apt-get", "-q", "install", "-y", "--download-only", "-o", "Dir::Cache::archives=/out", *PACKAGES]
        run = ["run", "--rm", *podman.choice.run, f"--volume={out}:/out", image.ensure(podman, release)]
        podman(*run, *fetch, why=TOO_OLD, timeout=900)
        for other in (out / "partial", out / "lock"):
            shutil.rmtree(other) if other.is_dir() else other.unlink(missing_ok=True)
        # Only a whole folder gets the name that says it is there.
        out.rename(folder)
    for outdated in _folders(release)[: -image.KEPT]:
        shutil.rmtree(outdated)
    return folder


# A container boots no kernel, so an initramfs would only cost time; molecule/air_gap and gpu_driver have one.
_INSTALL = f"""set -e
cp {PLACE}/*.deb /var/cache/apt/archives/
apt-get -q install -y {" ".join(PACKAGES)}
rm -f /var/cache/apt/archives/*.deb /boot/initrd.img-*
[ ! -d /etc/initramfs-tools ] || echo update_initramfs=no >/etc/initramfs-tools/update-initramfs.conf
"""


def installed(podman: Podman, release: str) -> str:
    """Return the image of a release with these packages installed, made once for each image."""
    recipe = hashlib.sha256(f"{image.recipe_hash(release)} {_INSTALL}".encode()).hexdigest()[:12]
    wanted = f"{image.REPOSITORY}:{COMPILER}-{release}-{recipe}"
    if podman.has_image(wanted):
        return wanted
    folder, name = ensure(podman, release), f"bedplate-{COMPILER}-{release}"
    say("image", f"installing {', '.join(PACKAGES)} for {release}; once per image")
    podman("rm", "--force", "--ignore", name)
    base, volume = image.ensure(podman, release), f"--volume={folder}:{PLACE}:ro"
    podman("run", "--name", name, *podman.choice.run, volume, base, "sh", "-c", _INSTALL, why=TOO_OLD, timeout=900)
    changes = ("--change", 'CMD ["/sbin/init"]', "--change", "STOPSIGNAL SIGRTMIN+3")
    podman("commit", "--quiet", *changes, name, wanted)
    podman("rm", "--force", name)
    return wanted


def links(folder: Path) -> dict[str, str]:
    """Return the links of a node's apt cache: path without the first slash -> where it leads."""
    return {f"var/cache/apt/archives/{path.name}": f"{PLACE}/{path.name}" for path in sorted(folder.glob("*.deb"))}


def _folders(release: str) -> list[Path]:
    """Return what was fetched for a release, the oldest first."""
    found = [
        path
        for path in image_cache().glob(f"{image.ARCHIVES}*")
        if image.release_of(path.name.removeprefix(image.ARCHIVES)) == release
    ]
    return sorted(found, key=lambda path: path.stat().st_mtime)
