# SPDX-License-Identifier: GPL-3.0-or-later
"""A provision host for bare machines under emulation: the image, built once per recipe, the order server, and orders with their media."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.image import build_image
from ansible_collections.bedplate.cluster.plugins.module_utils.image.recipe import Recipe
from ansible_collections.bedplate.cluster.plugins.module_utils.provision import archive, arming, seed
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.order_server import OrderServer, listen
from lab.guest.bare import ADDRESS, HOST, Identity
from lab.guest.recipe import MASKED
from lab.paths import image_cache, one_at_a_time
from lab.shell import say
from tests.kit.provision import certificates

# Without `lsm=`: under Secure Boot the kernel must have its integrity module.
WORDS = "console=ttyS0 no_timer_check mitigations=off tsc=reliable norandmaps"
RECIPE = Recipe(
    kernel="linux-image-cloud-amd64",
    words=WORDS,
    units=MASKED,
    modules="list",
    drivers=("virtio_pci", "virtio_blk", "virtio_net", "nvme"),
    mirror=os.environ.get("BEDPLATE_DEBIAN_MIRROR", Recipe.mirror),
    security=os.environ.get("BEDPLATE_DEBIAN_SECURITY_MIRROR", Recipe.security),
    components=("main",),
    spare_mib=16,
)
KEPT = 2
_PREFIX = "metal-"


def image() -> Path:
    """Return the folder of the image, which is built if the cache does not have it."""
    parts = [
        RECIPE.digest,
        *((build_image.INSTALLER / name).read_text() for name in ("finish.sh", "hooks/bedplate", "scripts/bedplate")),
    ]
    with one_at_a_time():
        wanted = image_cache() / f"{_PREFIX}{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:12]}"
        if not (wanted / "image.json").exists():
            say("metal", "building an image of Debian (minutes; once per recipe)")
            facts = build_image.build(RECIPE, wanted)
            say("metal", f"built: {int(str(facts['bytes'])) >> 20} MiB")
        os.utime(wanted)
        others = sorted(image_cache().glob(f"{_PREFIX}*"), key=lambda path: path.stat().st_mtime)
        for outdated in others[:-KEPT]:
            shutil.rmtree(outdated)
        return wanted


def _boot(built: Path, folder: Path) -> Path:
    """Return a boot folder with the installer of this checkout: the kernel unpacks it over that of the image."""
    folder.mkdir()
    for name in ("vmlinuz", "efi.img"):
        (folder / name).symlink_to(built / "boot" / name)
    lib = {f"bedplate/lib/{path.name}": path.read_bytes() for path in (build_image.INSTALLER / "lib").iterdir()}
    initramfs = (built / "boot/initrd.img").read_bytes()
    (folder / "initrd.img").write_bytes(initramfs + bytes(-len(initramfs) % 4) + archive.pack(lib))
    return folder


@dataclass
class Host:
    """A running order server with an image, and the keys of an operator and of the node."""

    folder: Path
    desk: arming.Desk
    server: OrderServer
    image: dict[str, Any]
    orders: list[str] = field(default_factory=list)

    def arm(self, wipe: str = "no", **other: str) -> tuple[str, Path]:
        """Release the last order of the node, arm another one, and return its id and its medium."""
        for order_id in self.orders:
            arming.release(self.desk, order_id)
        identity = Identity()
        machine = {
            "node": "gpu001", "serial": identity.serial, "mac": identity.mac, "disk": identity.disk, "wipe": wipe,
            "address": ADDRESS, "gateway": HOST, **other,
        }  # fmt: skip
        host_key = ((self.folder / "host").read_text(), (self.folder / "host.pub").read_text())
        keys = (self.folder / "operator.pub").read_text()
        files = seed.machine_files("gpu001", "127.0.0.1 localhost\n", machine["mac"], ADDRESS, HOST, keys, host_key)
        armed = arming.arm(self.desk, machine, self.image, files, 3600)
        self.orders.append(armed["id"])
        return armed["id"], self.desk.served / armed["medium"][1:]

    def state(self, order_id: str) -> dict[str, object]:
        """Return the state of an order."""
        return self.server.orders.state(order_id)


@contextmanager
def provision_host(folder: Path) -> Iterator[Host]:
    """Serve orders for machines in QEMU's own network, until the end of the context."""
    built = image()
    facts = json.loads((built / "image.json").read_text())
    certified = certificates.make(folder / "certificates", f"IP:{HOST}")
    for name in ("images", "media"):
        (folder / "served" / name).mkdir(parents=True)
    (folder / "served/images" / f"{facts['sha256']}.img.zst").symlink_to(built / "image.img.zst")
    for name in ("host", "operator"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "known_hosts").write_text(f"node {' '.join((folder / 'host.pub').read_text().split()[:2])}\n")
    settings = {"address": "127.0.0.1", "port": 0, "orders": str(folder / "state"), "served": str(folder / "served")}
    settings.update(certificate=str(certified / "server.pem"), key=str(certified / "server.key"))
    server = listen(settings)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://{HOST}:{server.server_address[1]}"
    desk = arming.Desk(
        folder / "state", folder / "served", _boot(built, folder / "boot"), certified / "ca.pem", url, WORDS
    )
    try:
        yield Host(folder, desk, server, facts)
    finally:
        server.shutdown()
        server.server_close()
