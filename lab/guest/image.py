# SPDX-License-Identifier: GPL-3.0-or-later
"""The disk image of guests, built once for each recipe. Guests write to overlays, never to it."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from lab import image as node_image
from lab.guest import disk
from lab.guest.recipe import FILES, FINISH, PACKAGES, RELEASE, hooks, recipe_hash
from lab.host import KEYRING
from lab.paths import image_cache
from lab.shell import capture, say

PREFIX, SUFFIX = "guest-", ".img"
KEPT = 2
"""Images that stay in the cache: two checkouts of different versions take turns without building again."""


def ensure() -> Path:
    """Return the image of this recipe, which is built if the cache does not have it."""
    wanted = image_cache() / f"{PREFIX}{recipe_hash()}{SUFFIX}"
    if not wanted.exists():
        _build(wanted)
    # The age is that of the last use.
    os.utime(wanted)
    for outdated in images()[:-KEPT]:
        outdated.unlink()
    return wanted


def images() -> list[Path]:
    """Return the images in the cache, the least recently used first."""
    return sorted(image_cache().glob(f"{PREFIX}*{SUFFIX}"), key=lambda path: path.stat().st_mtime)


def remove_all() -> None:
    """Remove the images. A guest that runs keeps what it has open."""
    for path in images():
        path.unlink()


def _build(wanted: Path) -> None:
    """Install Debian into a folder, and make a disk of it."""
    mirror = os.environ.get("BEDPLATE_DEBIAN_MIRROR", node_image.MIRROR)
    security = os.environ.get("BEDPLATE_DEBIAN_SECURITY_MIRROR", node_image.SECURITY_MIRROR)
    say("guest", f"building a disk of Debian {RELEASE} from {mirror} (some minutes; once per recipe)")
    started = time.monotonic()
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wanted.parent, prefix="guest-build-") as scratch:
        root, overlay, unfinished = (Path(scratch) / name for name in ("root", "overlay.tar", "disk"))
        # mmdebstrap's chroot is not ours: the folder above the root has to be open to apt's own user.
        Path(scratch).chmod(0o755)
        overlay.write_bytes(node_image.tar({path: (text.encode(), 0o644) for path, text in FILES.items()}))
        command = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", f"--keyring={KEYRING}"]
        command += [f"--include={','.join(PACKAGES)}", *hooks(overlay, FINISH)]
        command += [RELEASE, str(root), *node_image.sources(RELEASE, mirror, security)]
        capture(
            command,
            why="The guest's disk could not be built. If the mirror cannot be reached, set BEDPLATE_DEBIAN_MIRROR "
            "(and BEDPLATE_DEBIAN_SECURITY_MIRROR) to a reachable mirror.",
            timeout=1800,
        )
        disk.make(root, unfinished)
        # Only a whole image gets the name that says it is there.
        unfinished.rename(wanted)
    size = wanted.stat().st_blocks >> 11
    say("guest", f"built in {time.monotonic() - started:.0f} s: {wanted} ({size} MiB)")
