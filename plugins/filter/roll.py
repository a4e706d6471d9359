# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Select the nodes of each play of a roll; documented one by one in the .yml files beside this one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import roll_outcome
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.roll_document import NOBODY


def _raw(hostvars: Any) -> roll_outcome.Raw:
    """Return a function that reads a host's variables as they are, once: a text of a machine is not a template.

    Ansible merges all variables of the host at each read.
    """
    return cache(getattr(hostvars, "raw_get", hostvars.__getitem__))


def _plan(hostvars: Mapping[str, Any], nodes: Iterable[str]) -> Mapping[str, Any]:
    return roll_outcome.plan_of(_raw(hostvars), [name for name in nodes if name in hostvars])


def roll_hosts(hostvars: Mapping[str, Any], nodes: Iterable[str], key: str = "hosts") -> list[Any]:
    """Return `hosts`, `open` or `serial` of the plan, or `late` nodes and `late_serial`; without a plan, a pattern that fits no host."""
    plan = _plan(hostvars, nodes)
    late = roll_outcome.late(_raw(hostvars), plan)
    found = {**plan, "late": late, "late_serial": [len(late) or 1]}.get(key)
    return list(found or ([1] if key == "serial" else NOBODY))


def roll_stopped(hostvars: Mapping[str, Any], nodes: Iterable[str]) -> str:
    """Return why no further batch begins, or ""."""
    return roll_outcome.stopped(_plan(hostvars, nodes), _raw(hostvars), time.time())


def roll_seconds_left(hostvars: Mapping[str, Any], nodes: Iterable[str]) -> int:
    """Return for how many seconds the roll may still wait for jobs."""
    return max(0, int(_plan(hostvars, nodes)["until"] - time.time()))


def roll_watched(hostvars: Mapping[str, Any], nodes: Iterable[str]) -> list[dict[str, Any]]:
    """Return groups of resumed nodes, and how many of each health may have out of service."""
    return roll_outcome.watched(_plan(hostvars, nodes), _raw(hostvars))


def roll_seconds_to_settle(hostvars: Mapping[str, Any], nodes: Iterable[str], batch: Iterable[str]) -> int:
    """Return for how many seconds a batch waits until health has judged the canaries."""
    return roll_outcome.seconds_to_settle(_plan(hostvars, nodes), batch)


def roll_reboots(hostvars: Mapping[str, Any], nodes: Iterable[str]) -> str:
    """Return the nodes of a batch to reboot, as a hostlist."""
    return fold(roll_outcome.to_reboot(_raw(hostvars), nodes))


def roll_verified(hostvars: Mapping[str, Any], nodes: Iterable[str]) -> str:
    """Return the verified nodes of a batch, as a hostlist."""
    return fold(roll_outcome.verified(_raw(hostvars), nodes))


def roll_goes_on(hostvars: Mapping[str, Any], node: str, after: str) -> bool:
    """Return whether a node continues after it was `drained` or `changed`."""
    return roll_outcome.goes_on(_raw(hostvars), node, after)


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        found = (
            roll_hosts,
            roll_stopped,
            roll_seconds_left,
            roll_watched,
            roll_seconds_to_settle,
            roll_reboots,
            roll_verified,
            roll_goes_on,
        )
        return {function.__name__: function for function in found}
