# SPDX-License-Identifier: GPL-3.0-or-later
"""Arm and release orders with their media, or with what machines boot from the network, for a run of the control node."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import order_text, seed
from .medium import make_medium
from .network_boot import HTTP, MEDIA, PXE, UEFI, NetworkBoot, NetworkBootError
from .order_server import image_path, medium_path
from .order_text import Order, OrderError
from .orders import Orders
from .served_image import check_image

_MEDIUM, _NETWORK = "medium", "network"


@dataclass(frozen=True)
class Desk:
    """Folders of a provision host: orders, what its server serves, boot files of the installer; and the CA of the server (PEM file).

    `url` is the server's own address, `https://HOST:PORT`. `words` are appended to the kernel's command line of the installer. With
    `public_key`, a file of minisign, an image without a signature is refused. `network` answers machines that boot from the network.
    """

    orders: Path
    served: Path
    boot: Path
    authority: Path
    url: str
    words: str = ""
    public_key: Path | None = None
    network: NetworkBoot | None = None


@dataclass(frozen=True)
class Way:
    """The way in which a machine boots the installer. `method`: media, http or pxe; `firmware`: UEFI or Legacy."""

    method: str = MEDIA
    firmware: str = UEFI


def arm(
    desk: Desk,
    machine: Mapping[str, str],
    image: Mapping[str, object],
    files: Mapping[str, seed.SeedFile],
    seconds: float,
    way: Way = Way(),
) -> dict[str, str]:
    """Arm the order of a machine, and make its medium. Return `id`, and `medium`: the path of the medium on the server, a secret.

    With PXE there is no medium, and `medium` is "". `machine` has node, serial, mac, disk, wipe, address and gateway; `image` is an
    image.json. Raises OrderError, RefusedError, ImageError, MediumError, NetworkBootError, OSError; then no new order is open.
    """
    network = _network_of(desk, way)
    if way.method == PXE and (found := [path for path, one in files.items() if b"PRIVATE KEY" in one.data]):
        raise OrderError(
            f"{found[0]}: a private key, and with PXE the token crosses the network in clear. Leave it out."
        )
    digest = str(image["sha256"])
    check_image(desk.served / image_path(digest)[1:], image, desk.public_key)
    values = {key: str(image[key]) for key in ("raw_sha256", "raw_bytes", "root_start")}
    values.update(machine, image_sha256=digest, server=desk.url, image=f"{desk.url}{image_path(digest)}")
    values["host_key"] = "machine" if way.method == PXE else "seed"
    orders = Orders(desk.orders)
    order = orders.arm(values, seed.pack(files), seconds).order
    try:
        path = "" if way.method == PXE else _make_medium(desk, orders, order)
        if network:
            name = network.new_name(order.mac) if way.method == PXE else ""
            orders.note(order.id, _NETWORK, name)
            network.answer(order, desk.boot, desk.authority.read_bytes(), way.method, way.firmware, desk.words, name)
    except BaseException:
        release(desk, order.id)
        raise
    return {"id": order.id, "medium": path}


def _network_of(desk: Desk, way: Way) -> NetworkBoot | None:
    """Return what answers a machine that boots from the network, None for a medium of the BMC. Raises NetworkBootError."""
    if way.method not in (HTTP, PXE):
        return None
    if desk.network is None:
        raise NetworkBootError(f"boot method {way.method}: no folder for machines that boot from the network")
    desk.network.check()
    return desk.network


def _make_medium(desk: Desk, orders: Orders, order: Order) -> str:
    path = medium_path(secrets.token_hex(20))
    orders.note(order.id, _MEDIUM, path)
    text = order_text.render(order)
    make_medium(desk.boot, text, desk.authority.read_bytes(), desk.served / path[1:], desk.words)
    return path


def release(desk: Desk, order_id: str) -> None:
    """Close an order for good, and remove its medium and what its machine boots from the network. A second call changes nothing.

    Raises RefusedError if it never existed, OSError.
    """
    orders = Orders(desk.orders)
    if desk.network:
        desk.network.silence(order_id, orders.noted(order_id, _NETWORK))
    if path := orders.noted(order_id, _MEDIUM):
        with suppress(FileNotFoundError):
            (desk.served / path[1:]).unlink()
    orders.release(order_id)


def states(desk: Desk, nodes: list[str]) -> dict[str, dict[str, object]]:
    """Return the state of each node's open order, by node; a node without one is left out."""
    orders = Orders(desk.orders)
    found = {node: orders.open_order(node) for node in nodes}
    return {node: orders.state(order_id) for node, order_id in found.items() if order_id}
