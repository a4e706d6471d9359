# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write orders and progress on the provision host, by its modules: each call is for all nodes of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...module_utils.provision.progress import Progress, progress_of
from ..roll import run_holder
from ..roll.controller_call import is_lost
from .wanted import Wanted

Call = Callable[[str, dict[str, Any]], Mapping[str, Any]]
"""Run a module of this collection on the provision host: name, arguments -> result."""


class DeskError(Exception):
    """The provision host did not answer, or a module on it failed. The text has the host's reason and no secret."""


@dataclass(frozen=True)
class DeskSettings:
    """Folder of the provision host, address of its order server, kernel words of the installer, and seconds of a window.

    `public_key` is that of minisign, a path on the provision host, "" without. `holder` names this process; `hold` is for how many seconds
    it holds a node at most.
    """

    directory: str
    url: str
    holder: str
    window: int = 7200
    words: str = ""
    public_key: str = ""
    hold: float = 14400.0


@dataclass(frozen=True)
class Seen:
    """Hold the state of a node on the provision host; `order` is the state of its order, `open` is an id. `medium` is a secret."""

    progress: Progress | None = None
    order: Mapping[str, Any] | None = None
    open: str = ""
    medium: str = ""


@dataclass(frozen=True)
class Look:
    """Hold the files of the provision host: nodes, `errors` of nodes that cannot be read, images, and its time."""

    nodes: Mapping[str, Seen]
    errors: Mapping[str, str]
    images: Mapping[str, Any]
    image_errors: Mapping[str, str]
    now: float


class Desk:
    """The provision host."""

    def __init__(self, call: Call, settings: DeskSettings) -> None:
        """Take the way to modules, and the settings."""
        self._call, self.settings = call, settings

    def look(self, nodes: Iterable[str], images: Iterable[str] = ()) -> Look:
        """Return what the host has of nodes and images. Raises DeskError."""
        key = {"public_key": self.settings.public_key} if self.settings.public_key else {}
        found = self._run("provision_states", nodes=list(nodes), images=list(images), **key)
        seen = {node: _seen(row) for node, row in found["nodes"].items()}
        return Look(seen, found["errors"], found["images"], found["image_errors"], float(found["now"]))

    def write(self, rows: Iterable[Progress], now: float, *, keeps: bool = True) -> dict[str, str]:
        """Write progress as this run's, and return node -> why another run has it. Without `keeps`, this run lets go of the nodes.

        Raises DeskError.
        """
        listed = list(rows)
        if not listed:
            return {}
        holder = self.settings.holder
        mine, until = (holder, now + self.settings.hold) if keeps else ("", 0.0)
        gone = self._gone(listed)
        data = [replace(one, holder=mine, until=until).facts() for one in listed]
        found = self._run("provision_states", write=data, holder=holder, gone=gone)
        return dict(found["held"])

    def hold(self, nodes: Iterable[str], look: Look) -> dict[str, str]:
        """Hold nodes for this run in the state that they have, and return node -> why another run has it. Raises DeskError."""
        listed = list(nodes)
        if not listed:
            return {}
        gone = self._gone([seen.progress for seen in look.nodes.values() if seen.progress])
        own = self.settings
        found = self._run("provision_states", hold=listed, holder=own.holder, until=look.now + own.hold, gone=gone)
        return dict(found["held"])

    def _gone(self, rows: Iterable[Progress]) -> list[str]:
        """Return the holders that have ended."""
        others = {one.holder for one in rows} - {"", self.settings.holder}
        return sorted(one for one in others if run_holder.is_gone(one))

    def is_free(self, progress: Progress | None, now: float) -> bool:
        """Return whether no other run works on a node."""
        if progress is None or progress.holder in ("", self.settings.holder) or now >= progress.until:
            return True
        return run_holder.is_gone(progress.holder)

    def arm(
        self, wanted: Mapping[str, Wanted], keys: Mapping[str, tuple[str, str] | None]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Open the orders of nodes, with their media. Return node -> id, and node -> why it has no order. Raises DeskError.

        `keys`: node -> its SSH host key, None if the machine makes its own.
        """
        armed, failed = dict[str, str](), dict[str, str]()
        for image in dict.fromkeys(one.image_name for one in wanted.values()):
            own = {node: one for node, one in wanted.items() if one.image_name == image}
            rows = [_row(one) for one in own.values()]
            seeds = json.dumps({node: _seed(one, keys[node]) for node, one in own.items()})
            found = self._run_orders(arm=rows, seeds=seeds, boot=f"{self.settings.directory}/images/{image}/boot")
            armed.update((node, str(one["id"])) for node, one in found["armed"].items())
            failed.update((node, str(why)) for node, why in found["failed_nodes"].items())
        return armed, failed

    def release(self, ids: Iterable[str]) -> dict[str, str]:
        """Close orders for good; their media and tokens are removed. Return id -> why it is not closed. Raises DeskError."""
        listed = list(dict.fromkeys(filter(None, ids)))
        return dict(self._run_orders(release=listed)["failed_nodes"]) if listed else {}

    def _run_orders(self, **arguments: Any) -> Mapping[str, Any]:
        own, folder = self.settings, self.settings.directory
        key = {"public_key": own.public_key} if own.public_key else {}
        paths = {name: f"{folder}/{name}" for name in ("orders", "served", "network")}
        paths = {**paths, "authority": f"{folder}/ca.pem", **key}
        found = self._call(
            "provision_orders", {**paths, "url": own.url, "words": own.words, "window": own.window, **arguments}
        )
        return _checked(found)

    def _run(self, name: str, **arguments: Any) -> Mapping[str, Any]:
        return _checked(self._call(name, {"directory": self.settings.directory, **arguments}))


def _checked(found: Mapping[str, Any]) -> Mapping[str, Any]:
    if is_lost(found):
        raise DeskError(f"the provision host: {found.get('msg') or 'no answer'}")
    return found


def _seen(row: Mapping[str, Any]) -> Seen:
    progress = progress_of(row["progress"]) if row["progress"] else None
    return Seen(progress, row["order"], row["open"], row["medium"])


def _row(one: Wanted) -> dict[str, Any]:
    return {"machine": dict(one.machine), "image": dict(one.image), "method": one.method, "firmware": one.mode}


def _seed(one: Wanted, host_key: tuple[str, str] | None) -> dict[str, Any]:
    return {
        path: {"content": file.data.decode(), "mode": f"{file.mode:04o}"} for path, file in one.files(host_key).items()
    }
