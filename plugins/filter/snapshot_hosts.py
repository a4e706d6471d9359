# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Select the nodes that must have a snapshot before it is promoted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load

# A pattern that fits no host.
_NOBODY = ["!all"]


def snapshot_hosts(hostvars: Mapping[str, Any], hosts: Iterable[str], name: str, state: str) -> list[str]:
    """Return the nodes of `snapshots.test` if the snapshot is under test and a run promotes it, else a pattern that fits no host."""
    raw = getattr(hostvars, "raw_get", hostvars.__getitem__)
    files = (raw(host).get("bedplate_cluster_file") for host in hosts if host in hostvars)
    file = next((one for one in files if one), None)
    snapshots = load(str(file)).snapshots if file else None
    if snapshots is None or state != "promoted":
        return _NOBODY
    testing = snapshots.lock.testing
    return list(snapshots.test) if testing and testing.name == name and snapshots.test else _NOBODY


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {"snapshot_hosts": snapshot_hosts}
