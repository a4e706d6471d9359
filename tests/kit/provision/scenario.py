# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenario `provision`: an image and an order on its provision host, and a machine that uses curl as the installer does."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab import scenario_run
from lab.paths import ROOT
from tests.kit.provision import machine, small_image
from tests.kit.provision.small_image import SmallImage

HOST, NODE = "ctl1", "node1"
FOLDER = "/var/lib/bedplate/provision"
ADDRESS = "10.215.31.10"
PORT = 8443
SCENARIO = "provision"
HERE = ROOT / "molecule" / SCENARIO
_BOOT = f"{FOLDER}/images/kit/boot"
_TOKEN = re.compile(r"token=([0-9a-f]{64})")


def done(name: str, command: str) -> str:
    """Return the output of a command on a machine, which must succeed."""
    found = scenario_run.ssh(SCENARIO, "root", name, command)
    assert found.returncode == 0, f"{name}: {command}\n{found.stdout}\n{found.stderr}"
    return found.stdout


def until(seconds: float, holds: Callable[[], bool]) -> None:
    """Wait until a condition holds. AssertionError: it did not in time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.5)


class Site:
    """A copy of the cluster file with the kit's image, and the playbook run on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.image: SmallImage = small_image.make(folder / "image")
        self.path = folder / "provision.bedplate.yml"
        data: dict[str, Any] = yaml.safe_load((HERE / "provision.bedplate.yml").read_text())
        row = {"os": "debian-13", "file": str(self.image.path), "sha256": self.image.sha256}
        self.data = {**data, "images": {"tiny": row}}
        self.write()
        # As a build leaves them: kernel, initramfs and loaders of the installer.
        names = "vmlinuz initrd.img efi.img"
        done(HOST, f"mkdir -p {_BOOT} && cd {_BOOT} && for one in {names}; do seq 2000 >$one; done")

    def write(self) -> None:
        """Write the cluster file."""
        self.path.write_text(yaml.safe_dump(self.data))

    def run(self, *arguments: str, playbook: Path = ROOT / "playbooks/provision_host.yml") -> Any:
        """Run a playbook of the site."""
        boots = '--extra-vars={"image_boots": {"tiny": "kit"}}'
        return scenario_run.run(SCENARIO, playbook, self.path, boots, *arguments)

    def apply(self, *arguments: str) -> int:
        """Run the playbook, which must succeed, and return how many tasks changed the host."""
        found = self.run(*arguments)
        assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
        return int(scenario_run.recap(found.stdout)[HOST]["changed"])

    def compare(self) -> Any:
        """Run verify of both roles."""
        return self.run(playbook=HERE / "compare.yml")


@dataclass(frozen=True)
class Order:
    """An order as its medium has it: `id`, `token`, and the path of the medium. All but the id are secrets."""

    id: str
    token: str
    medium: str


@dataclass(frozen=True)
class Answer:
    """An answer to curl: status of HTTP, and the text or the hash of the body."""

    status: int
    text: str


class Curl:
    """curl on the machine, with the CA of the provision host alone."""

    def __init__(self, address: str = ADDRESS) -> None:
        self.url = f"https://{address}:{PORT}"

    def get(self, path: str, *options: str, hashed: bool = False) -> Answer:
        """Return the answer to a request; `hashed`: with the SHA-256 of the body instead of the body."""
        words = " ".join(map(shlex.quote, ["--silent", "--show-error", "--cacert", "/root/ca.pem", *options]))
        show = "sha256sum /root/body | cut -d' ' -f1" if hashed else "cat /root/body"
        text = done(NODE, f"curl {words} -o /root/body -w '%{{http_code}}\\n' {self.url}{path} && {show}")
        status, _line, body = text.partition("\n")
        return Answer(int(status), body.strip())

    def post(self, order: Order, verb: str, /, token: str = "", hashed: bool = False, **values: str) -> Answer:
        """Return the answer to a request of the installer."""
        body = "".join(f"{key}={value}\n" for key, value in values.items())
        header = f"Authorization: Bearer {token or order.token}"
        return self.get(f"/orders/{order.id}/{verb}", "-H", header, "--data-binary", body, hashed=hashed)

    def claim(self, order: Order, nonce: str, token: str = "") -> Answer:
        """Claim an order for the machine of the kit."""
        serial, mac, disk = machine.SERIAL, machine.MAC, machine.DISK_SERIAL
        return self.post(order, "claim", token, nonce=nonce, serial=serial, mac=mac, disk=disk)


def trust_the_host() -> None:
    """Give the machine the certificate of the CA, as its medium does."""
    text = done(HOST, f"cat {FOLDER}/ca.pem")
    done(NODE, f"cat >/root/ca.pem <<'END'\n{text}END")


def arm(site: Site, node: str, curl: Curl) -> Order:
    """Arm an order by the real module, and read it from its medium, through nginx."""
    result = site.folder / f"{node}.armed"
    facts = {"node": node, "serial": machine.SERIAL, "mac": machine.MAC, "disk": machine.DISK_SERIAL, "wipe": "no"}
    facts |= {"address": machine.ADDRESS, "gateway": "none"}
    image = json.loads(done(HOST, f"cat {FOLDER}/images/tiny/image.json"))
    files = {"/etc/hostname": {"content": f"{node}\n", "mode": "0644"}}
    order = {"machine": {"facts": facts, "server": curl.url}, "image": image, "files": files, "result": str(result)}
    given = site.folder / f"{node}.order.json"
    given.write_text(json.dumps({"order": order}))
    found = site.run(f"--extra-vars=@{given}", playbook=HERE / "arm.yml")
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr[-2000:]
    armed = json.loads(result.read_text())
    assert armed["failed_nodes"] == {}, armed["failed_nodes"]
    medium = armed["armed"][node]["medium"]
    assert curl.get(medium, hashed=True).status == 200
    token = _TOKEN.search(done(NODE, "grep -a -o 'token=[0-9a-f]*' /root/body"))
    assert token
    return Order(armed["armed"][node]["id"], token[1], medium)
