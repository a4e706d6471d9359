# SPDX-License-Identifier: GPL-3.0-or-later
"""Arm and release orders with their media, for a run of the control node."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import order_text, seed
from .medium import make_medium
from .order_server import image_path, medium_path
from .orders import Orders
from .served_image import check_image

_MEDIUM = "medium"


@dataclass(frozen=True)
class Desk:
    """Folders of a provision host: orders, what its server serves, boot files of the installer; and the CA of the server (PEM file).

    `url` is the server's own address, `https://HOST:PORT`. `words` are appended to the kernel's command line of the installer. With
    `public_key`, a file of minisign, an image without a signature is refused.
    """

    orders: Path
    served: Path
    boot: Path
    authority: Path
    url: str
    words: str = ""
    public_key: Path | None = None


def arm(
    desk: Desk,
    machine: Mapping[str, str],
    image: Mapping[str, object],
    files: Mapping[str, seed.SeedFile],
    seconds: float,
) -> dict[str, str]:
    """Arm the order of a machine, and make its medium. Return `id`, and `medium`: the path of the medium on the server, a secret.

    `machine` has node, serial, mac, disk, wipe, address and gateway; `image` is an image.json. Raises OrderError, RefusedError,
    ImageError, MediumError, OSError; then no new order is open.
    """
    digest = str(image["sha256"])
    check_image(desk.served / image_path(digest)[1:], image, desk.public_key)
    values = {key: str(image[key]) for key in ("raw_sha256", "raw_bytes", "root_start")}
    values.update(machine, image_sha256=digest, server=desk.url, image=f"{desk.url}{image_path(digest)}")
    orders = Orders(desk.orders)
    order = orders.arm(values, seed.pack(files), seconds).order
    try:
        path = medium_path(secrets.token_hex(20))
        orders.note(order.id, _MEDIUM, path)
        make_medium(
            desk.boot, order_text.render(order), desk.authority.read_bytes(), desk.served / path[1:], desk.words
        )
    except BaseException:
        release(desk, order.id)
        raise
    return {"id": order.id, "medium": path}


def release(desk: Desk, order_id: str) -> None:
    """Close an order for good, and remove its medium. A second call changes nothing. Raises RefusedError if it never existed."""
    orders = Orders(desk.orders)
    if path := orders.noted(order_id, _MEDIUM):
        with suppress(FileNotFoundError):
            (desk.served / path[1:]).unlink()
    orders.release(order_id)


def states(desk: Desk, nodes: list[str]) -> dict[str, dict[str, object]]:
    """Return the state of each node's open order, by node; a node without one is left out."""
    orders = Orders(desk.orders)
    found = {node: orders.open_order(node) for node in nodes}
    return {node: orders.state(order_id) for node, order_id in found.items() if order_id}
