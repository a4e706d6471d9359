# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide names, time and packages of a machine: the values of roles/node_os/parts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ..cluster import Cluster, PackageAccess
from ..cluster.package_access import certificates
from ..common.shared_results import once_a_run
from ..parts.decision import Decision
from . import snapshot_sources
from .machine_facts import hosts_file, os_expected

_CERTIFICATES = "/etc/apt/bedplate-access.pem"


def decide(cluster: Cluster, host: str, choices: Mapping[str, Any]) -> Decision:
    """Return the decision for a machine. `choices` are the role's variables by what is behind `node_os_`."""
    servers, has_names = list(choices["time_servers"]), choices["manage_hosts"]
    time = [servers] if servers else []
    names = [_hosts(cluster)] if has_names else []
    parts: dict[str, Any] = {"node_os": {"hosts_files": names, "time_servers": time, **_apt(cluster.package_access)}}
    expected: dict[str, Any] = {"node_os": os_expected(cluster, host, servers, has_names)}
    if snapshot := snapshot_sources.part_values(cluster, host):
        parts["snapshot"] = snapshot
        expected["snapshot"] = snapshot_sources.expected(cluster, host)
    packages = [*choices["packages"], *(["chrony"] if servers else [])]
    if packages:
        parts["software"] = {"packages": packages, "time_servers": time}
    return Decision(parts, expected, refusal=snapshot_sources.refusal(cluster, host))


def _apt(access: PackageAccess | None) -> dict[str, list[Any]]:
    """Return the values of apt's proxy, certificates and passwords, each a list of one element or none."""
    found: dict[str, list[Any]] = {"apt_certificates": [], "apt_access": [], "apt_logins": []}
    if access is None:
        return found
    if access.ca:
        found["apt_certificates"] = [certificates(access.ca)]
    if access.proxy or access.ca:
        ca = _CERTIFICATES if access.ca else ""
        found["apt_access"] = [{"proxy": access.proxy, "direct": list(access.no_proxy), "ca": ca}]
    if access.logins:
        # A mark for each password: its value is known only where the file is written.
        marks = {name: f"@{name}@" for name in access.secrets}
        rows = [{"url": one.url, "user": one.user, "mark": marks[one.secret]} for one in access.logins]
        found["apt_logins"] = [{"logins": rows, "secrets": {mark: name for name, mark in marks.items()}}]
    return found


def _hosts(cluster: Cluster) -> str:
    # The same on every machine: at 10,000 nodes half a megabyte.
    key = hashlib.sha256(repr(cluster.stamp).encode()).hexdigest()
    return once_a_run(f"hosts-{key}", lambda: hosts_file(cluster).encode()).decode()
