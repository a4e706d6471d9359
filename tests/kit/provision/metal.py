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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.image import build_image
from ansible_collections.bedplate.cluster.plugins.module_utils.image.recipe import Recipe
from ansible_collections.bedplate.cluster.plugins.module_utils.provision import archive, arming, seed
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.arming import Way
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.network_boot import LOADERS, PXE, NetworkBoot
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.order_server import OrderServer, listen
from lab.guest.bare import ADDRESS, HOST, Identity
from lab.guest.recipe import MASKED
from lab.machines import DEFAULT_RELEASE
from lab.paths import image_cache, one_at_a_time
from lab.shell import say
from tests.kit import ROOT
from tests.kit.provision import certificates, network

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
NODE_RECIPE = replace(RECIPE, release=DEFAULT_RELEASE)
"""For nodes of a cluster whose controller is a container of the lab: of the same release."""
KEPT = 4
MEDIUM = Way()
_PREFIX = "metal-"


def image(recipe: Recipe = RECIPE) -> Path:
    """Return the folder of the image, which is built if the cache does not have it."""
    parts = [
        recipe.digest,
        *((build_image.INSTALLER / name).read_text() for name in ("finish.sh", "hooks/bedplate", "scripts/bedplate")),
    ]
    with one_at_a_time():
        wanted = image_cache() / f"{_PREFIX}{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:12]}"
        if not (wanted / "image.json").exists():
            say("metal", "building an image of Debian (minutes; once per recipe)")
            facts = build_image.build(recipe, wanted)
            say("metal", f"built: {int(str(facts['bytes'])) >> 20} MiB")
        os.utime(wanted)
        others = sorted(image_cache().glob(f"{_PREFIX}*"), key=lambda path: path.stat().st_mtime)
        for outdated in others[:-KEPT]:
            shutil.rmtree(outdated)
        return wanted


def boot_folder(built: Path, folder: Path) -> Path:
    """Return a boot folder with the installer of this checkout: the kernel unpacks it over that of the image."""
    folder.mkdir()
    for name in ("vmlinuz", "efi.img", *(one for row in LOADERS.values() for one in row.values())):
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
    address: str = ADDRESS
    gateway: str = HOST
    orders: list[str] = field(default_factory=list)

    def arm(self, wipe: str = "no", way: Way = MEDIUM, **other: str) -> tuple[str, Path]:
        """Release the last order of the node, arm another one, and return its id and its medium."""
        self.release()
        identity = Identity()
        machine = {
            "node": "gpu001", "serial": identity.serial, "mac": identity.mac, "disk": identity.disk, "wipe": wipe,
            "address": self.address, "gateway": self.gateway, **other,
        }  # fmt: skip
        own = ((self.folder / "host").read_text(), (self.folder / "host.pub").read_text())
        keys, place = (self.folder / "operator.pub").read_text(), (machine["mac"], self.address, self.gateway)
        host_key = None if way.method == PXE else own
        files = seed.machine_files("gpu001", "127.0.0.1 localhost\n", *place, keys, host_key)
        armed = arming.arm(self.desk, machine, self.image, files, 3600, way)
        self.orders.append(armed["id"])
        return armed["id"], self.desk.served / armed["medium"][1:]

    def release(self) -> None:
        """Release all orders of the node."""
        for order_id in self.orders:
            arming.release(self.desk, order_id)

    def state(self, order_id: str) -> dict[str, object]:
        """Return the state of an order."""
        return self.server.orders.state(order_id)


@contextmanager
def provision_host(folder: Path, bridge: tuple[str, str] | None = None) -> Iterator[Host]:
    """Serve orders for machines in QEMU's own network, until the end of the context.

    With `bridge` for machines on a bridge: the address of this machine there, and that of the machine in CIDR notation. Then there is a
    folder for machines that boot from the network, for dnsmasq.
    """
    built = image()
    facts = json.loads((built / "image.json").read_text())
    host, address = bridge or (HOST, ADDRESS)
    certified = certificates.make(folder / "certificates", f"IP:{host}", rsa=bridge is not None)
    for name in ("images", "media"):
        (folder / "served" / name).mkdir(parents=True)
    (folder / "served/images" / f"{facts['sha256']}.img.zst").symlink_to(built / "image.img.zst")
    for name in ("host", "operator"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "known_hosts").write_text(f"node {' '.join((folder / 'host.pub').read_text().split()[:2])}\n")
    own = host if bridge else "127.0.0.1"
    settings = {"address": own, "port": 0, "orders": str(folder / "state"), "served": str(folder / "served")}
    settings.update(certificate=str(certified / "server.pem"), key=str(certified / "server.key"))
    server = listen(settings)
    if bridge:
        # OVMF of 2022 has neither elliptic curves nor, with Python's choice of ciphers, another way to a key.
        server.context.load_dh_params(str(ROOT / "roles/provision/templates/bedplate-ffdhe2048.pem.j2"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://{host}:{server.server_address[1]}"
    answers = NetworkBoot(network.make_folder(folder / "network", network.NOBODY)) if bridge else None
    boot = boot_folder(built, folder / "boot")
    desk = arming.Desk(folder / "state", folder / "served", boot, certified / "ca.pem", url, WORDS, network=answers)
    try:
        yield Host(folder, desk, server, facts, address, host)
    finally:
        server.shutdown()
        server.server_close()
