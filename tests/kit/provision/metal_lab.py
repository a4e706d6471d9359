# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab of one container, the controller, on whose bridge machines are that are installed: it serves their orders, image and packages."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import host, nodes
from lab.guest import bridge
from lab.machines import Machine, Plan
from lab.paths import ssh_config_of, state_of
from lab.podman import Podman
from lab.shell import capture
from tests.kit.provision import metal

LAB, CONTROLLER, KIT = "metal", "ctl1", "kit"
DIRECTORY = "/var/lib/bedplate/provision"
_ARCHIVES = "/var/cache/apt/archives"


@dataclass
class MetalLab:
    """The lab. `address` is that of the controller, in the network `subnet`."""

    subnet: str
    address: str
    podman: Podman = field(default_factory=lambda: Podman(host.prepare()))

    @property
    def folder(self) -> Path:
        """Return its folder of keys and secrets, which is removed with it."""
        return state_of(LAB)

    @property
    def bridge(self) -> str:
        """Return its bridge."""
        return bridge.of_lab(LAB)

    @property
    def ca(self) -> Path:
        """Return the CA of its order server."""
        return self.folder / "ca.pem"

    @property
    def sources(self) -> str:
        """Return sources.list of the nodes."""
        return f"deb [trusted=yes] http://{self.address}/packages/ ./\n"

    def start(self) -> None:
        """Start the controller, which has the packages that the lab's image has downloaded as an archive."""
        nodes.destroy(self.podman, LAB)
        packages = self.folder / "packages"
        packages.mkdir(parents=True)
        machine = Machine(CONTROLLER, self.address, shared=str(packages))
        nodes.create(self.podman, LAB, Plan(ipaddress.IPv4Network(self.subnet), (machine,), CONTROLLER))
        self.podman("cp", f"{self._container}:{_ARCHIVES}/.", str(packages))
        write_index(packages)

    def close(self) -> None:
        """Remove it."""
        nodes.destroy(self.podman, LAB)

    def execute(self, *words: str, timeout: float = 600) -> str:
        """Run a command on the controller, and return its output."""
        return self.podman("exec", self._container, *words, timeout=timeout)

    def copy(self, source: Path, target: str) -> None:
        """Copy a file, or the content of a folder, to the controller."""
        self.execute("mkdir", "-p", target if source.is_dir() else str(Path(target).parent))
        end = "/." if source.is_dir() else ""
        self.podman("cp", f"{source}{end}", f"{self._container}:{target}")

    def ssh(self, machine: str, command: str, timeout: float = 120) -> str:
        """Run a command on a machine by SSH, and return its output."""
        return capture(["ssh", "-F", str(ssh_config_of(LAB)), machine, command], timeout=timeout).strip()

    def name(self, machine: str, address: str) -> None:
        """Let ssh reach a further machine by its name, with the lab's keys."""
        config = ssh_config_of(LAB)
        config.write_text(f"Host {machine}\n    HostName {address}\n{config.read_text()}")

    def place_installer(self) -> dict[str, Any]:
        """Put kernel, initramfs and loaders on the controller, as a build there leaves them in image KIT. Return the image's line."""
        built = metal.image(metal.NODE_RECIPE)
        # Links of the folder are files in the copy.
        shutil.copytree(metal.boot_folder(built, self.folder / "boot"), self.folder / "installer")
        self.copy(self.folder / "installer", f"{DIRECTORY}/images/{KIT}/boot")
        facts = json.loads((built / "image.json").read_text())
        return {"os": "debian-13", "file": str(built / "image.img.zst"), "sha256": facts["sha256"]}

    def take_ca(self) -> None:
        """Take the CA that the role has made, for BMCs and firmware."""
        self.podman("cp", f"{self._container}:{DIRECTORY}/ca.pem", str(self.ca))

    def serve_packages(self) -> None:
        """Serve the archive by the nginx of the provision host."""
        self.execute("ln", "-sfn", nodes.SHARED, "/var/www/html/packages")

    @property
    def _container(self) -> str:
        return nodes.container_name(LAB, CONTROLLER)


def write_index(folder: Path) -> None:
    """Write the index of a flat apt repository."""
    with ThreadPoolExecutor(2) as pool:
        (folder / "Packages").write_text("\n".join(pool.map(_paragraph, sorted(folder.glob("*.deb")))))


def _paragraph(path: Path) -> str:
    control = subprocess.run(["dpkg-deb", "--field", str(path)], check=True, capture_output=True, text=True).stdout
    data = path.read_bytes()
    return f"{control}Filename: ./{path.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
