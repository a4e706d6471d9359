# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan that was saved and approved: which changes may be rolled, and what a run would do beyond them.

The file has what is pending on each node in full, the release of bedplate, and a digest of each file and of the variables that it was
made from. Its own digest is what a person approves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import atomic_write
from ansible_collections.bedplate.cluster.plugins.module_utils.common.release import RELEASE
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from .pending_parts import UNIT, PendingNode

VERSION = 1
_MOST = 20  # lines of an error
_COMMAND_LINE = "variables of the command line"
_RELEASE = "release of bedplate"
_FOLDERS = ("group_vars", "host_vars", "scripts", "files", "templates", "keys")
_OWN = "roll_"
# The others name the plan itself, or only decide how long the roll waits.
_LIMITS = ("roll_percent", "roll_failures", "roll_packages", "roll_reserved", "roll_when")


class ApprovalError(ValueError):
    """The saved plan is not the approved one, or the nodes need other changes."""


@dataclass(frozen=True)
class SavedPlan:
    """Hold the inputs of a plan, and what is pending: node -> part -> items; a reboot is an item of its part."""

    inputs: Mapping[str, str]
    pending: Mapping[str, Mapping[str, Iterable[str]]]

    @property
    def text(self) -> str:
        """Return the file."""
        pending = {name: {part: sorted(items) for part, items in parts.items()} for name, parts in self.pending.items()}
        data = {"version": VERSION, "inputs": dict(self.inputs), "pending": pending}
        return json.dumps(data, indent=1, sort_keys=True) + "\n"

    @property
    def digest(self) -> str:
        """Return the digest that a person approves."""
        return _digest(self.text)


def plan_of(inputs: Mapping[str, str], pending: Mapping[str, PendingNode]) -> SavedPlan:
    """Return the plan of pending nodes."""
    return SavedPlan(inputs, {name: _items(one) for name, one in pending.items() if one.is_pending})


def inputs_of(cluster_file: Path, variables: Mapping[str, Any]) -> dict[str, str]:
    """Return the release of bedplate, and the digests of what decides about a plan.

    That is the cluster file, files that begin with its name or that it names, folders of variables and content beside it, and the variables
    of the command line. Of the variables of the roll itself only its limits count.
    """
    beside = cluster_file.parent
    files = {path.relative_to(beside) if path.is_relative_to(beside) else path: path for path in _files(cluster_file)}
    found = {str(name): _digest(path.read_bytes()) for name, path in files.items()}
    given = {name: value for name, value in variables.items() if name in _LIMITS or not name.startswith(_OWN)}
    return {**found, _RELEASE: RELEASE, _COMMAND_LINE: _digest(json.dumps(given, sort_keys=True, default=str))}


def write(path: Path, plan: SavedPlan) -> None:
    """Write a plan."""
    atomic_write(path, plan.text, mode=0o644)


def require(path: Path, digest: str, now: SavedPlan) -> None:
    """Raise ApprovalError unless the file has this digest, the same inputs, and all that is pending now. The rest of it is done."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ApprovalError(f"roll_plan_file: {path}: {error}. Nothing was changed") from error
    if digest != _digest(text):
        raise ApprovalError(
            f"roll_plan_file: {path} has the digest {_digest(text)}; roll_plan_digest: {digest or 'empty'}. Nothing was changed"
        )
    saved = json.loads(text)
    found = [*_changed(saved["inputs"], now.inputs), *_beyond(saved["pending"], now.pending)]
    if found:
        more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
        raise ApprovalError(
            "\n".join(
                [
                    f"The approved plan {path} is not what would be done now. Nothing was changed. Make a new plan with --check:",
                    *found[:_MOST],
                    *more,
                ]
            )
        )


def _changed(saved: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys([*saved, *now]):
        if saved.get(name) != now.get(name):
            yield f"{name}: {'new' if name not in saved else 'gone' if name not in now else 'changed'} since the plan"


def _beyond(
    saved: Mapping[str, Mapping[str, Iterable[str]]], now: Mapping[str, Mapping[str, Iterable[str]]]
) -> Iterator[str]:
    """Yield what is pending on a node and not in the saved plan."""
    for name, parts in now.items():
        for part, items in parts.items():
            approved = set(saved.get(name, {}).get(part, ()))
            # Check mode cannot see units of packages that are not installed yet: they follow from the approved part.
            if extra := [one for one in items if one not in approved and not (approved and one.startswith(UNIT))]:
                yield f"{name}: {part}: {few(extra)}: not in the plan"


def _items(node: PendingNode) -> dict[str, list[str]]:
    """Return part -> its items; never none of a part, because a part without items would be in every plan."""
    return {
        part: [*node.items.get(part, ()), *(["reboot"] if part in node.reboot else [])] or ["change"]
        for part in dict.fromkeys([*node.parts, *node.reboot])
    }


def _files(cluster_file: Path) -> list[Path]:
    beside = cluster_file.parent
    named = [path for path in beside.glob(f"{cluster_file.name.partition('.')[0]}.*") if path.is_file()]
    found = [path for folder in _FOLDERS for path in (beside / folder).rglob("*") if path.is_file()]
    return sorted({cluster_file, *named, *found, *_mentioned(cluster_file)})


def _mentioned(cluster_file: Path) -> Iterator[Path]:
    """Yield files that are values in the cluster file, such as a script or a key in a folder of the site's own."""
    events = yaml.parse(cluster_file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    values = {event.value for event in events if isinstance(event, yaml.ScalarEvent) and "\n" not in event.value}
    for value in filter(None, values):
        # A relative path is beside the cluster file; an absolute one may also be of the nodes, and then a new plan is made in vain.
        with suppress(OSError):  # longer than the name of a file can be
            if (path := cluster_file.parent / value).is_file():
                yield path


def _digest(content: str | bytes) -> str:
    return sha256(content.encode() if isinstance(content, str) else content).hexdigest()
