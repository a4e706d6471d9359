# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep how far each node of a provisioning run is: a file per node on the provision host, so that a run that was killed continues.

The order alone (orders.py) says whether a machine may install. These files say what the run does next, and which run works on a node.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..common.files import atomic_write

PLANNED, VERIFIED, ARMED, STARTED, CLAIMED, WRITTEN, OFF, RELEASED, ON, KNOWN = STATES = (
    "planned",
    "verified",
    "armed",
    "started",
    "claimed",
    "written",
    "off",
    "released",
    "on",
    "known",
)
"""`verified`: its order may exist. `armed`: medium and override are read back. `started`: the reset may have been sent."""
REFUSED = "refused"
"""The order has ended without an installation; the next run begins a new one."""
UNTOUCHED = "held by a run that has not begun with it"
"""Reason of a node that is known. A run that was killed then has done nothing to it, so what a person confirmed is not used up."""
_PRIVATE = 0o600


class ProgressError(ValueError):
    """A file of a node that cannot be read as progress. The text names the file."""


@dataclass(frozen=True)
class Progress:
    """Progress of one node. `order` is the id of its order, "" before it exists; `digest` is that of what the order was made from.

    `image` and `sha256` name the image. `host_key` is the public SSH host key that the machine will have. `at`: when the state was
    reached; `until`: until when `holder`, the process that works on the node, holds it at the latest; both in seconds since 1970.
    `reason`: why the node was refused, or why the last run stopped.
    """

    node: str
    state: str = PLANNED
    order: str = ""
    digest: str = ""
    image: str = ""
    sha256: str = ""
    host_key: str = ""
    at: float = 0.0
    holder: str = ""
    until: float = 0.0
    reason: str = ""

    def facts(self) -> dict[str, Any]:
        """Return the progress as plain data."""
        return asdict(self)

    def has_reached(self, state: str) -> bool:
        """Return whether the node is at a state or beyond it; a refused node is at none."""
        return self.state != REFUSED and STATES.index(self.state) >= STATES.index(state)


def progress_of(data: Mapping[str, Any]) -> Progress:
    """Return the progress of plain data. Raises ProgressError."""
    names = {one.name for one in fields(Progress)}
    if set(data) - names or not data.get("node"):
        raise ProgressError(f"unknown keys {sorted(set(data) - names)}, or no node")
    found = Progress(**data)
    for field in fields(Progress):
        value, kind = getattr(found, field.name), (int, float) if field.name in ("at", "until") else str
        if not isinstance(value, kind):
            raise ProgressError(f"{field.name}: {value!r} has the wrong type")
    if found.state not in (*STATES, REFUSED):
        raise ProgressError(f"state: {found.state!r}. Allowed: {', '.join((*STATES, REFUSED))}")
    return found


class NodeStates:
    """The files in a folder. `clock` returns seconds since 1970."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        """Use a folder; `write` makes it."""
        self.folder = folder
        self._clock = clock

    def read(self, node: str) -> Progress | None:
        """Return the progress of a node, None without any. Raises ProgressError; an unreadable file is never no progress."""
        path = self.folder / f"{node}.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(data, dict) or data.get("node") != node:
                raise ProgressError("not the progress of this node")
            return progress_of(data)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise ProgressError(f"{path}: {error}. Find out what the machine does, and remove the file.") from None

    def write(self, rows: Iterable[Progress], holder: str, gone: Collection[str] = ()) -> dict[str, str]:
        """Write progress, and return node -> reason for the nodes that another run holds, which are not written.

        A row without a holder lets go of its node. `gone` are holders that have ended. Raises OSError.
        """
        given = {row.node: row for row in rows}
        return self._change(given, lambda node, _before: given[node], holder, gone)

    def hold(self, nodes: Iterable[str], holder: str, until: float, gone: Collection[str] = ()) -> dict[str, str]:
        """Hold nodes in the state that they have, and return node -> reason for the nodes that another run holds. Raises OSError."""
        return self._change(nodes, lambda node, before: _held(before or Progress(node), holder, until), holder, gone)

    def _change(
        self,
        nodes: Iterable[str],
        row_of: Callable[[str, Progress | None], Progress],
        holder: str,
        gone: Collection[str],
    ) -> dict[str, str]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        refused: dict[str, str] = {}
        with self._alone():
            for node in nodes:
                try:
                    before = self.read(node)
                except ProgressError as error:
                    refused[node] = str(error)
                    continue
                if before and self._is_held(before, holder, gone):
                    refused[node] = f"another run works on it: {before.holder}"
                    continue
                row = row_of(node, before)
                atomic_write(self.folder / f"{node}.json", json.dumps(row.facts(), indent=1) + "\n", mode=_PRIVATE)
        return refused

    def _is_held(self, before: Progress, holder: str, gone: Collection[str]) -> bool:
        return before.holder not in ("", holder, *gone) and self._clock() < before.until

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _held(before: Progress, holder: str, until: float) -> Progress:
    """Return the progress of a node that a run holds from now on."""
    reason = before.reason
    if before.state == KNOWN:
        reason = UNTOUCHED if not before.holder or before.reason == UNTOUCHED else ""
    return replace(before, holder=holder, until=until, reason=reason)
