# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Select the nodes of each step of a recovery; documented one by one in the .yml files beside this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover import recover_outcome
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.recover_plan import Raw
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.roll_document import NOBODY


def _raw(hostvars: Any) -> Raw:
    """Return a function that reads a host's variables as they are: a text of a machine is not a template."""
    return getattr(hostvars, "raw_get", hostvars.__getitem__)  # type: ignore[no-any-return]


def _plan(hostvars: Mapping[str, Any], nodes: Iterable[str]) -> Mapping[str, Any]:
    return recover_outcome.plan_of(_raw(hostvars), [name for name in nodes if name in hostvars])


def recover_hosts(hostvars: Mapping[str, Any], nodes: Iterable[str]) -> list[str]:
    """Return the nodes to recover; without a plan, a pattern that fits no host."""
    return list(_plan(hostvars, nodes).get("hosts") or NOBODY)


def recover_goes_on(hostvars: Mapping[str, Any], node: str, after: str) -> bool:
    """Return whether a node continues after a step."""
    return recover_outcome.goes_on(_raw(hostvars), node, after, _plan(hostvars, [node]))


def recover_nodes(hostvars: Mapping[str, Any], nodes: Iterable[str], step: str) -> str:
    """Return the nodes to `reboot` or to `resume`, as a hostlist."""
    names = list(nodes)
    choose = {"reboot": recover_outcome.to_reboot, "resume": recover_outcome.to_resume}[step]
    return choose(_raw(hostvars), names, _plan(hostvars, names))


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {function.__name__: function for function in (recover_hosts, recover_goes_on, recover_nodes)}
