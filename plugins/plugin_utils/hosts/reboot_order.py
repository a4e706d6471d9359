# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order nodes are rebooted: a canary of each profile first, then batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..cluster import Node

VARIABLES = ("bedplate_reboot", "bedplate_reboot_batch")
ALLOWED = ("allowed", "never")
"""Values of bedplate_reboot."""
BATCH = 10
NOBODY = ["!all"]
"""A pattern of hosts that fits none, without a warning."""


class RebootError(ValueError):
    """A size of a batch that is not valid."""


@dataclass(frozen=True)
class Reboots:
    """The nodes in the order of their reboots, and how many are rebooted at a time; the last number is repeated."""

    hosts: list[str]
    serial: list[int]


def plan(nodes: Iterable[Node], answers: Mapping[str, Any], batch: object = BATCH) -> Reboots:
    """Return the order of the nodes that may be rebooted, by profile and then as in `nodes`, the cluster file's order.

    `answers` is host -> what `reboot_wanted` returned there. A node without an answer, without a reason, or on which something runs is
    not among them. The first batch has one node of each profile. RebootError: `batch` is not a number from 1.
    """
    size = _size(batch)
    by_profile: dict[str, list[str]] = {}
    for node in nodes:
        if may_reboot(answers.get(node.name)):
            by_profile.setdefault(node.profile.name, []).append(node.name)
    groups = [by_profile[name] for name in sorted(by_profile)]
    canaries = [hosts[0] for hosts in groups]
    others = [host for hosts in groups for host in hosts[1:]]
    return Reboots([*canaries, *others] or list(NOBODY), [len(canaries) or 1, size])


def value_mistakes(name: str, value: object) -> list[str]:
    """Return the mistake in the value of one of VARIABLES."""
    if name == "bedplate_reboot":
        shown = str(value).lower() if isinstance(value, bool) else "empty" if value is None else repr(value)
        return [] if value in ALLOWED else [f"{shown}; allowed: {', '.join(ALLOWED)}"]
    try:
        _size(value)
    except RebootError as error:
        return [str(error).removeprefix(f"{name}: ")]
    return []


def may_reboot(answer: object) -> bool:
    """Return whether an answer of `reboot_wanted` has a reason and no obstacle. A missing answer has no reason."""
    if not isinstance(answer, Mapping):
        return False
    reasons, in_use = answer.get("reasons"), answer.get("in_use")
    return bool(reasons) and isinstance(in_use, list) and not in_use


def _size(batch: object) -> int:
    text = str(batch)
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise RebootError(f"bedplate_reboot_batch: {batch!r}; allowed: a number of nodes from 1, such as {BATCH}")
    return int(text)
