"""An order server, an image and a machine for each test, and the order that fits them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision import (
    arming,
    medium,
    network_boot,
    order_text,
    seed,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.order_server import OrderServer, listen
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.order_text import Order
from tests.kit.provision import certificates, machine, small_image
from tests.kit.provision.small_image import SmallImage
from tests.unit.provision.world import world  # noqa: F401


@dataclass
class Site:
    """A running order server with one image. `now` moves its clock by seconds."""

    server: OrderServer
    image: SmallImage
    ca: Path
    later: float = 0.0

    @property
    def url(self) -> str:
        """Return the address of the server."""
        return f"https://127.0.0.1:{self.server.server_address[1]}"

    def values(self, **other: str) -> dict[str, str]:
        """Return the values of an order for the machine of the kit."""
        return {
            "node": "gpu001", "serial": machine.SERIAL, "mac": machine.MAC, "disk": machine.DISK_SERIAL, "wipe": "no",
            "server": self.url, "image": f"{self.url}/images/{self.image.sha256}.img.zst", "image_sha256": self.image.sha256,
            "raw_sha256": self.image.raw_sha256, "raw_bytes": str(self.image.raw_bytes), "root_start": str(small_image.ROOT_START),
            "address": machine.ADDRESS, "gateway": "10.20.8.1", "host_key": "seed", **other,
        }  # fmt: skip

    def files(self) -> dict[str, seed.SeedFile]:
        """Return the files of the seed."""
        return seed.machine_files(
            "gpu001",
            "127.0.0.1 localhost\n",
            machine.MAC,
            machine.ADDRESS,
            "10.20.8.1",
            "ssh-ed25519 AAAA operator\n",
            ("PRIVATE-HOST-KEY\n", "PUBLIC\n"),
        )

    def arm(self, seconds: float = 3600, **other: str) -> Order:
        """Arm an order for the machine."""
        return self.server.orders.arm(self.values(**other), seed.pack(self.files()), seconds).order

    def arm_for(self, one: machine.Machine, **other: str) -> Order:
        """Arm an order, and give it to a machine."""
        order = self.arm(**other)
        one.give(order_text.render(order), self.ca)
        return order

    def state(self, order: Order) -> str:
        """Return the state of an order."""
        return str(self.server.orders.state(order.id)["state"])


@pytest.fixture(scope="session")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> SmallImage:
    return small_image.make(tmp_path_factory.mktemp("image"))


@pytest.fixture
def site(tmp_path: Path, certified: Path, image: SmallImage) -> Iterator[Site]:
    served = tmp_path / "served"
    (served / "images").mkdir(parents=True)
    (served / "media").mkdir()
    (served / "images" / f"{image.sha256}.img.zst").symlink_to(image.path)
    names = {"certificate": str(certified / "server.pem"), "key": str(certified / "server.key")}
    server = listen(
        {**names, "address": "127.0.0.1", "port": 0, "orders": str(tmp_path / "state"), "served": str(served)}
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    found = Site(server, image, certified / "ca.pem")
    clock = server.orders._clock
    server.orders._clock = lambda: clock() + found.later
    yield found
    server.shutdown()
    server.server_close()


@pytest.fixture
def node(tmp_path: Path) -> machine.Machine:
    return machine.Machine(tmp_path / "node")


IMAGE_BYTES = b"image"


@pytest.fixture
def desk(tmp_path: Path) -> arming.Desk:
    boot, served = tmp_path / "boot", tmp_path / "served"
    boot.mkdir()
    (served / "media").mkdir(parents=True)
    (served / "images").mkdir()
    (served / "images" / f"{hashlib.sha256(IMAGE_BYTES).hexdigest()}.img.zst").write_bytes(IMAGE_BYTES)
    for name in {*medium.BOOT_FILES, *(one for row in network_boot.LOADERS.values() for one in row.values())}:
        (boot / name).write_bytes(name.encode() * 1000)
    (tmp_path / "ca.pem").write_text("CERTIFICATE\n")
    return arming.Desk(tmp_path / "orders", served, boot, tmp_path / "ca.pem", "https://10.0.0.1:8443", "console=ttyS0")
