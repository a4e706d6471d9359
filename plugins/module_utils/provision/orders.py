# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the orders of machines as files: the one place that says "this machine installs now".

A folder per order has `order.json` (without the token: its SHA-256), `seed.tar` until it is delivered, and one file per state that was
reached: `claim`, `seeded`, `report`, `released`. Each is written once, whole and synced, before anyone is answered, so a server that is
killed at any point continues where it was. `nodes/NAME` holds the id of a node's open order: a node has at most one.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..common.files import atomic_write, sync_directory, write_new
from .order_text import Order, check

CLAIM, SEEDED, REPORT, RELEASED = "claim", "seeded", "report", "released"
WRITTEN, REFUSED = "written", "refused"
_FACTS = ("serial", "mac", "disk")
_NONCE = re.compile(r"[0-9a-f-]{36}")
_HOST_KEY = re.compile(r"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI[A-Za-z0-9+/]{43}")
_OWN_KEY = "machine"
_PRIVATE = 0o600


class RefusedError(Exception):
    """A request that an order does not allow. `status` is that of HTTP; the text is the reason, and has no secret."""

    def __init__(self, status: int, reason: str) -> None:
        """Keep status and reason."""
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class Armed:
    """An order that was armed, with the token in its text: for the medium of the machine and nowhere else."""

    order: Order


class Orders:
    """The orders in a folder. `clock` returns seconds since 1970."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        """Use a folder, which is made with mode 0700 if it is missing."""
        self.folder = folder
        self._clock = clock
        for one in (folder, folder / "orders", folder / "nodes"):
            one.mkdir(mode=0o700, parents=True, exist_ok=True)

    # The control node's side.

    def arm(self, values: Mapping[str, str], seed: bytes, seconds: float) -> Armed:
        """Make the order of a node with a new id and a new token, and open its window for so many seconds.

        `values` are the keys of an order without id, token, issued and seed_sha256. Raises OrderError; RefusedError if the node has an open
        order.
        """
        now = self._clock()
        token = secrets.token_hex(32)
        given = {**values, "id": secrets.token_hex(16), "token": token, "issued": str(int(now))}
        order = check({**given, "seed_sha256": hashlib.sha256(seed).hexdigest()})
        record = {key: value for key, value in asdict(order).items() if key != "token"}
        record.update(token_sha256=_hash(token), opens=now, closes=now + seconds)
        with self._alone():
            if open_id := self.open_order(order.node):
                raise RefusedError(409, f"{order.node} has the open order {open_id}; release it first")
            made = self.folder / "orders" / f".{order.id}"
            made.mkdir(mode=0o700)
            write_new(made / "order.json", json.dumps(record, indent=1).encode(), _PRIVATE)
            write_new(made / "seed.tar", seed, _PRIVATE)
            # Until the folder has its name, the node's file names an order that does not exist, which counts as no order.
            atomic_write(self.folder / "nodes" / order.node, order.id, mode=_PRIVATE)
            made.rename(self.folder / "orders" / order.id)
            sync_directory(self.folder / "orders")
        return Armed(order)

    def release(self, order_id: str) -> None:
        """Close an order for good, and remove its secrets. A second call changes nothing."""
        folder = self._path(order_id)
        if not (folder / "order.json").exists():
            raise RefusedError(404, "no such order")
        write_new(folder / RELEASED, self._stamp({}), _PRIVATE)
        with suppress(FileNotFoundError):
            (folder / "seed.tar").unlink()
        node = self.folder / "nodes" / self._record(folder)["node"]
        with self._alone(), suppress(FileNotFoundError):
            if node.read_text() == order_id:
                node.unlink()

    def open_order(self, node: str) -> str:
        """Return the id of a node's order that is not released, or ""."""
        try:
            order_id = (self.folder / "nodes" / node).read_text()
        except FileNotFoundError:
            return ""
        folder = self._path(order_id)
        return order_id if (folder / "order.json").exists() and not (folder / RELEASED).exists() else ""

    def note(self, order_id: str, name: str, text: str) -> None:
        """Keep a text of the caller with an order."""
        atomic_write(self._path(order_id) / f"note-{name}", text, mode=_PRIVATE)

    def noted(self, order_id: str, name: str) -> str:
        """Return a text that was kept with an order, or ""."""
        try:
            return (self._path(order_id) / f"note-{name}").read_text()
        except FileNotFoundError:
            return ""

    def state(self, order_id: str) -> dict[str, object]:
        """Return the state of an order: `state`, and of its report `reason` and `host_key`; times are in seconds since 1970.

        States: armed, expired, claimed, seeded, written, refused, released.
        """
        folder = self._path(order_id)
        record = self._record(folder)
        reached = {name: self._read(folder / name) for name in (CLAIM, SEEDED, REPORT, RELEASED)}
        report = reached[REPORT] or {}
        if reached[RELEASED]:
            state = "released"
        elif reached[REPORT]:
            state = str(report["result"])
        elif reached[SEEDED]:
            state = "seeded"
        elif reached[CLAIM]:
            state = "claimed"
        else:
            state = "armed" if record["opens"] <= self._clock() < record["closes"] else "expired"
        times = {name: row["at"] for name, row in reached.items() if row}
        result, reason = report.get("result", ""), report.get("reason", "")
        key = str(report.get("host_key", ""))
        found = {"id": order_id, "node": record["node"], "state": state, "result": result, "reason": reason}
        return {**found, "host_key": key, "at": times}

    # The installer's side.

    def authorize(self, order_id: str, token: str) -> Path:
        """Return the folder of an order whose token this is. Raises RefusedError: the same for an unknown order and a wrong token."""
        record: Mapping[str, Any] = {}
        if re.fullmatch(r"[0-9a-f]{32}", order_id):
            with suppress(FileNotFoundError):
                record = self._record(self._path(order_id))
        if not hmac.compare_digest(str(record.get("token_sha256", "")), _hash(token)):
            raise RefusedError(403, "unknown order or token")
        return self._path(order_id)

    def claim(self, folder: Path, facts: Mapping[str, str], peer: str) -> str:
        """Claim an order for the machine with these facts, once. Return the text that proves it to this claimer.

        `facts` are serial, mac, disk and nonce; a repetition with the same nonce is the same claim. `peer` is the address that sent it: an
        order whose token crossed the network in clear is claimed from its own address alone. Raises RefusedError.
        """
        record = self._record(folder)
        nonce = facts.get("nonce", "")
        if not _NONCE.fullmatch(nonce):
            raise RefusedError(400, "the claim has no nonce")
        self._refuse_closed(folder)
        for name in _FACTS:
            if facts.get(name) != record[name]:
                raise RefusedError(
                    403, f"{name} of the machine is {facts.get(name)!r}, and of the order {record[name]!r}"
                )
        if record["host_key"] == _OWN_KEY and peer != str(record["address"]).partition("/")[0]:
            raise RefusedError(403, f"the claim is from {peer}, and the order is for {record['address']}")
        if not (folder / CLAIM).exists() and not record["opens"] <= self._clock() < record["closes"]:
            raise RefusedError(403, "the window of the order is closed")
        if not write_new(folder / CLAIM, self._stamp({"nonce": nonce, "peer": peer}), _PRIVATE):
            claimed = self._read(folder / CLAIM) or {}
            if not hmac.compare_digest(str(claimed.get("nonce")), nonce):
                raise RefusedError(409, "the order was claimed before")
        # Another process may have released it since: who released an order relies on it that no claim is granted from then on.
        self._refuse_closed(folder)
        return f"claimed {record['id']} {nonce}\n"

    def take_seed(self, folder: Path, nonce: str) -> bytes:
        """Return the seed, once, to the machine that claimed the order; it is removed. Raises RefusedError."""
        self._refuse_closed(folder)
        self._refuse_other(folder, nonce)
        try:
            data = (folder / "seed.tar").read_bytes()
        except FileNotFoundError:
            raise RefusedError(409, "the seed was fetched before") from None
        if not write_new(folder / SEEDED, self._stamp({}), _PRIVATE):
            raise RefusedError(409, "the seed was fetched before")
        (folder / "seed.tar").unlink()
        return data

    def report(self, folder: Path, result: str, reason: str, nonce: str, host_key: str = "") -> str:
        """Keep how an installation ended. The same report again is answered the same. Raises RefusedError.

        `host_key` is the public SSH host key that the machine has made, type and base64; "" if its key is in the seed.
        """
        if result not in (WRITTEN, REFUSED):
            raise RefusedError(400, "the result is neither written nor refused")
        if (folder / RELEASED).exists():
            raise RefusedError(403, "the order is released")
        if (folder / CLAIM).exists():
            self._refuse_other(folder, nonce)
        if result == WRITTEN and not (folder / SEEDED).exists():
            raise RefusedError(409, "written was reported before the seed was fetched")
        makes_key = self._record(folder)["host_key"] == _OWN_KEY
        if (makes_key and result == WRITTEN and not host_key) or (host_key and not makes_key):
            raise RefusedError(400, "the host key of this order is in the seed, or was not reported")
        if host_key and not _HOST_KEY.fullmatch(host_key):
            raise RefusedError(400, "the host key is not the public half of an ed25519 key")
        text = "".join(one if one.isprintable() else " " for one in reason)[:2000]
        row = {"result": result, "reason": text, "host_key": host_key}
        if not write_new(folder / REPORT, self._stamp(row), _PRIVATE):
            before = self._read(folder / REPORT) or {}
            if any(before.get(key) != one for key, one in row.items()):
                raise RefusedError(409, "another result was reported before")
        with suppress(FileNotFoundError):
            (folder / "seed.tar").unlink()
        return f"reported {folder.name} {result}\n"

    def _refuse_closed(self, folder: Path) -> None:
        if (folder / RELEASED).exists():
            raise RefusedError(403, "the order is released")
        if (folder / REPORT).exists():
            raise RefusedError(409, "the order has ended")

    def _refuse_other(self, folder: Path, nonce: str) -> None:
        claimed = self._read(folder / CLAIM)
        if not claimed:
            raise RefusedError(409, "the order is not claimed")
        if not hmac.compare_digest(str(claimed["nonce"]).encode(), nonce.encode()):
            raise RefusedError(409, "the order was claimed by another start of the machine")

    def _path(self, order_id: str) -> Path:
        return self.folder / "orders" / order_id

    @staticmethod
    def _record(folder: Path) -> dict[str, Any]:
        found = json.loads((folder / "order.json").read_text())
        if not isinstance(found, dict):
            raise ValueError(f"{folder / 'order.json'}: not an object")
        return found

    @staticmethod
    def _read(path: Path) -> dict[str, Any] | None:
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        return found if isinstance(found, dict) else {}

    def _stamp(self, row: Mapping[str, object]) -> bytes:
        return json.dumps({**row, "at": self._clock()}).encode()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the folder against another process that arms or releases."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # An order that was never named, from a run that was killed.
            for left in (self.folder / "orders").glob(".*"):
                shutil.rmtree(left, ignore_errors=True)
            yield
            os.fsync(lock.fileno())


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
