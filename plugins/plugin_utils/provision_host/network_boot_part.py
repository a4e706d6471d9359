# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether the provision host answers machines that boot from the network, and on which network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.provision.network_boot import (
    CONFIGURATION,
    FOLDERS,
    MEDIA,
    configuration,
)

from ..cluster import Cluster
from ..parts.decision import Decision

_PART = "network_boot"


def decide(cluster: Cluster, directory: str) -> Decision:
    """Return the parts of the provision host whose folder is `directory`: the daemon, or its end if all machines boot from media."""
    stated = cluster.provision
    methods = {profile.metal.method for profile in cluster.profiles.values()}
    if stated is None or methods <= {MEDIA}:
        return Decision({f"{_PART}_absent": {}})
    network = cluster.networks.get("provision") or cluster.networks["management"]
    folder = Path(directory) / "network"
    values: dict[str, Any] = {
        "folders": list(FOLDERS),
        "file": str(folder / CONFIGURATION),
        "configuration": configuration(folder, stated.address, network.cidr),
    }
    return Decision({_PART: values}, {_PART: {"directory": directory}})
