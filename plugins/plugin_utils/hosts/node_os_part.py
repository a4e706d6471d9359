# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide names, time and packages of a machine: the values of roles/node_os/parts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ..cluster import Cluster
from ..common.shared_results import once_a_run
from ..parts.decision import Decision
from .machine_facts import hosts_file, os_expected


def decide(cluster: Cluster, host: str, choices: Mapping[str, Any]) -> Decision:
    """Return the decision for a machine. `choices` are the role's variables by what is behind `node_os_`."""
    servers, has_names = list(choices["time_servers"]), choices["manage_hosts"]
    time = [servers] if servers else []
    parts: dict[str, Any] = {"node_os": {"hosts_files": [_hosts(cluster)] if has_names else [], "time_servers": time}}
    packages = [*choices["packages"], *(["chrony"] if servers else [])]
    if packages:
        parts["software"] = {"packages": packages, "time_servers": time}
    return Decision(parts, {"node_os": os_expected(cluster, host, servers, has_names)})


def _hosts(cluster: Cluster) -> str:
    # The same on every machine: at 10,000 nodes half a megabyte.
    key = hashlib.sha256(repr(cluster.stamp).encode()).hexdigest()
    return once_a_run(f"hosts-{key}", lambda: hosts_file(cluster).encode()).decode()
