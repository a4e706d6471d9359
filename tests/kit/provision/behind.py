# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine behind a simulated BMC that behaves as the installer does towards the real order server, and has a disk of one text.

`behind="tests.kit.provision.behind:make"` in a spec. The folder of BEDPLATE_MACHINES has NODE.json, which describes it and is read
at each start: `ca`, `serial`, `mac`, `disk`, `data` (the disk has some), `behaviour`, `seconds` (before the report). NODE.log has a line
for each event: `boot TARGET`, `claim STATUS`, `write ORDER`, `report RESULT STATUS`, `off`, `system KEY`. NODE.secrets has a line for
each secret that the machine has received: the path of its medium, the token, and the middle of its private host key.

Behaviours: install; no-claim (it starts, and boots something else); hang (no report); stays-on (no power off at the end).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import ssl
import subprocess
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.bedplate.cluster.plugins.module_utils.provision import order_text
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.order_text import Order
from tests.kit.bmc.behind import BootSource, Events
from tests.kit.bmc.spec import Spec

FOLDER = "BEDPLATE_MACHINES"
"""Environment variable with the folder of machines."""
_KEY = "/etc/ssh/ssh_host_ed25519_key.pub"
_KEY_TYPE, _PLAIN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI", str.maketrans("-_", "+/")


class _OffError(Exception):
    """The power ended meanwhile."""


class FakeMachine:
    """The machine. `_start` counts its starts: a thread of an earlier start does nothing any more."""

    def __init__(self, node: str, folder: Path, events: Events) -> None:
        self.node, self.folder, self._events = node, folder, events
        self._start = 0
        self._disk = ""

    def power_on(self, boot: BootSource) -> None:
        """Start the machine, and boot it from the source."""
        self._start += 1
        threading.Thread(target=self._boot, args=(boot, self._start), daemon=True).start()

    def reset(self, boot: BootSource) -> None:
        """Reset the machine, and boot it from the source."""
        self.power_on(boot)

    def power_off(self, graceful: bool) -> None:
        """End the machine at once."""
        self._start += 1

    def insert(self, slot: str, image: str) -> None:
        """Do nothing: a medium is read when it is booted."""

    def eject(self, slot: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """End the machine."""
        self._start += 1

    def _boot(self, boot: BootSource, start: int) -> None:
        facts = json.loads((self.folder / f"{self.node}.json").read_text())
        self._log(f"boot {boot.target}")
        url = {"Cd": next(iter(boot.media.values()), ""), "UefiHttp": boot.http_boot_uri}.get(boot.target, "")
        try:
            archive = _network_files(facts) if boot.target == "Pxe" else None
            if (url or archive) and facts["behaviour"] != "no-claim":
                order = _order_in(archive.read_bytes()) if archive else _order_on(url, facts["ca"])
                self._keep(*filter(None, (urlsplit(url).path, order.token)))
                self._install(order, facts, start)
                if facts["behaviour"] != "stays-on":
                    self._log("off")
                    self._events.went_off()
            elif boot.target == "None" and self._disk:
                self._log(f"system {self._disk}")
        except _OffError:
            pass
        except Exception as error:
            self._log(f"failed {type(error).__name__}: {error}")

    def _install(self, order: Order, facts: dict[str, Any], start: int) -> None:
        nonce = str(uuid.uuid4())

        def send(verb: str, **values: str) -> tuple[int, bytes]:
            if start != self._start:
                raise _OffError
            return _post(order, verb, facts["ca"], {"nonce": nonce, **values})

        if facts["serial"] != order.serial:
            return self._refuse(send, f"serial is {facts['serial']}, not {order.serial}")
        if (facts["data"] or self._disk) and order.wipe == "no":
            return self._refuse(send, f"the disk {order.disk} holds: gpt ext4; wipe was not confirmed")
        status, _text = send("claim", serial=facts["serial"], mac=facts["mac"], disk=facts["disk"])
        self._log(f"claim {status}")
        if status != 200:
            return None
        self._disk = ""
        if hashlib.sha256(_get(order.image, facts["ca"])).hexdigest() != order.image_sha256:
            return self._refuse(send, "the hash of the image differs")
        self._log(f"write {order.id}")
        time.sleep(float(facts.get("seconds", 0)))
        status, seed = send("seed")
        if status != 200:
            return self._refuse(send, f"the order server does not send the seed: {status}")
        if facts["behaviour"] == "hang":
            raise _OffError
        own = order.host_key == "machine"
        if not own:
            self._keep(*_member(seed, _KEY.removesuffix(".pub")).splitlines()[2:4])
        made = f"{_KEY_TYPE}{secrets.token_urlsafe(32).translate(_PLAIN)}"
        self._disk = made if own else " ".join(_member(seed, _KEY).split()[:2])
        status, _text = send("report", result="written", reason="", host_key=self._disk if own else "")
        self._log(f"report written {status}")
        return None

    def _refuse(self, send: Any, reason: str) -> None:
        status, _text = send("report", result="refused", reason=reason)
        self._log(f"report refused {status}")

    def _keep(self, *texts: str) -> None:
        with (self.folder / f"{self.node}.secrets").open("a") as stream:
            stream.writelines(f"{text}\n" for text in texts)

    def _log(self, line: str) -> None:
        with (self.folder / f"{self.node}.log").open("a") as stream:
            stream.write(f"{line}\n")


def make(spec: Spec, events: Events) -> FakeMachine:
    """Return the machine of a spec."""
    return FakeMachine(spec.node, Path(os.environ[FOLDER]), events)


def _order_on(url: str, ca: str) -> Order:
    """Return the order on a medium."""
    with tempfile.TemporaryDirectory() as folder:
        iso, archive = Path(folder) / "iso", Path(folder) / "order.cpio"
        iso.write_bytes(_get(url, ca))
        words = ["xorriso", "-osirrox", "on", "-indev", str(iso), "-extract", "/order.cpio", str(archive)]
        subprocess.run(words, check=True, capture_output=True)
        return _order_in(archive.read_bytes())


def _network_files(facts: dict[str, Any]) -> Path | None:
    """Return the archive with the order in the machine's own folder of the TFTP server."""
    own = Path(facts["ca"]).parent / "network/tftp" / facts["mac"].replace(":", "-")
    return next(own.glob("*/order.cpio"), None)


def _order_in(text: bytes) -> Order:
    start = text.index(b"bedplate_order=")
    end = text.index(b"\nend=", start)
    return order_text.parse(text[start : text.index(b"\n", end + 1) + 1].decode())


def _member(seed: bytes, path: str) -> str:
    with tarfile.open(fileobj=io.BytesIO(seed)) as archive:
        manifest = archive.extractfile("manifest")
        assert manifest
        paths = [line.split()[2] for line in manifest.read().decode().splitlines()[:-1]]
        member = archive.extractfile(str(paths.index(path)))
        assert member
        return member.read().decode()


def _get(url: str, ca: str) -> bytes:
    with urllib.request.urlopen(url, context=ssl.create_default_context(cafile=ca), timeout=10) as answer:
        data: bytes = answer.read()
    return data


def _post(order: Order, verb: str, ca: str, values: dict[str, str]) -> tuple[int, bytes]:
    body = "".join(f"{key}={value}\n" for key, value in values.items()).encode()
    request = urllib.request.Request(
        f"{order.server}/orders/{order.id}/{verb}", body, {"Authorization": f"Bearer {order.token}"}
    )
    try:
        with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=ca), timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
