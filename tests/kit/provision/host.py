# SPDX-License-Identifier: GPL-3.0-or-later
"""A provision host in a folder: the real order server in its own process, one image of a few bytes, and the modules called in process."""

from __future__ import annotations

import hashlib
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision.medium import BOOT_FILES
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.network_boot import LOADERS
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.order_server import image_path
from ansible_collections.bedplate.cluster.plugins.modules import provision_orders, provision_states
from tests.kit import ROOT
from tests.kit.module import Module, result_of
from tests.kit.provision import certificates, network

ADDRESS = "127.9.0.200"
IMAGE = "trixie"
_CONTENT = b"the image of a node"
_PROGRAM = "ansible_collections.bedplate.cluster.plugins.module_utils.provision.order_server"
_MODULES: dict[str, tuple[Any, dict[str, Any]]] = {
    "provision_orders": (
        provision_orders,
        {"boot": "", "authority": "", "url": "", "words": "", "network": None, "public_key": None, "window": 7200}
        | {"arm": [], "seeds": "{}", "release": [], "nodes": []},
    ),
    "provision_states": (
        provision_states,
        {
            "nodes": [],
            "write": [],
            "hold": [],
            "until": 0.0,
            "holder": "",
            "gone": [],
            "images": [],
            "public_key": None,
        },
    ),
}


class Host:
    """The provision host. `start` starts its order server."""

    def __init__(self, folder: Path, address: str = ADDRESS) -> None:
        self.folder, self.address = folder, address
        certified = certificates.make(folder / "certificates", f"IP:{address}")
        (folder / "ca.pem").write_bytes((certified / "ca.pem").read_bytes())
        served = folder / "served"
        for one in (folder / "images" / IMAGE, served / "images", served / "media"):
            one.mkdir(parents=True)
        self.image = self.place_image(folder / "images" / IMAGE, served)
        with socket.socket() as free:
            free.bind((address, 0))
            self.port: int = free.getsockname()[1]
        settings = {"address": address, "port": self.port, "orders": str(folder / "orders"), "served": str(served)}
        settings |= {"certificate": str(certified / "server.pem"), "key": str(certified / "server.key")}
        (folder / "settings.json").write_text(json.dumps(settings))
        self.log = folder / "server.log"
        network.make_folder(folder / "network")
        self._process: subprocess.Popen[bytes] | None = None
        self._network: subprocess.Popen[bytes] | None = None

    def place_image(self, image: Path, served: Path) -> dict[str, Any]:
        """Make the image: image.json and the folder `boot` in its folder, and its file below `served`. Return image.json."""
        sha256 = hashlib.sha256(_CONTENT).hexdigest()
        facts: dict[str, Any] = {"sha256": sha256, "bytes": len(_CONTENT), "raw_sha256": "a" * 64}
        facts |= {"raw_bytes": 24 << 20, "root_start": 2 << 20}
        (image / "image.json").write_text(json.dumps(facts))
        (image / "boot").mkdir()
        for name in {*BOOT_FILES, *(one for row in LOADERS.values() for one in row.values())}:
            (image / "boot" / name).write_bytes(name.encode() * 100)
        (served / image_path(sha256)[1:]).write_bytes(_CONTENT)
        return facts

    @property
    def ca(self) -> Path:
        """Return the CA of the order server."""
        return self.folder / "ca.pem"

    @property
    def url(self) -> str:
        """Return the address of the order server."""
        return f"https://{self.address}:{self.port}"

    def start(self) -> None:
        """Start the order server, and wait until it answers."""
        words = [sys.executable, "-m", _PROGRAM, str(self.folder / "settings.json")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(words, cwd=ROOT / "collections", stdout=log, stderr=log)
        self._network = network.stand_in(self.folder / "network")
        until = time.monotonic() + 30
        context = ssl.create_default_context(cafile=str(self.ca))
        while True:
            try:
                with socket.create_connection((self.address, self.port), 1) as plain:
                    context.wrap_socket(plain, server_hostname=self.address).close()
                return
            except OSError:
                if time.monotonic() > until or self._process.poll() is not None:
                    raise RuntimeError(f"the order server did not start: {self.log.read_text()}") from None
                time.sleep(0.05)

    def close(self) -> None:
        """End the order server."""
        for process in filter(None, (self._process, self._network)):
            network.end(process)

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a module, called in this process."""
        python, defaults = _MODULES[name]
        with pytest.MonkeyPatch.context() as patch:
            return result_of(patch, python, Module({**defaults, **arguments}))
