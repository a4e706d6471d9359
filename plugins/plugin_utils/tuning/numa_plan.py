# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a profile that a node needs to judge its NUMA map."""

from __future__ import annotations

from typing import Any

from ..cluster import Profile


def plan_of(profile: Profile) -> dict[str, Any]:
    """Return the plan of a profile as data, which `numa_map.plan_from` reads on the node.

    GPUs are None where the profile has none, or does not say how many.
    """
    railed = [nic for nic in profile.nics if nic.rail is not None]
    return {
        "sockets": profile.sockets,
        "cores_per_socket": profile.cores_per_socket,
        "threads_per_core": profile.threads_per_core,
        "gpus": profile.gpus.count or None if profile.gpus else None,
        "numa": [{"cores": node.cores, "gpus": list(node.gpus), "nics": list(node.nics)} for node in profile.numa],
        "nics": [nic.name for nic in profile.nics],
        "rails": [nic.name for nic in sorted(railed, key=lambda nic: nic.rail or 0)],
    }
