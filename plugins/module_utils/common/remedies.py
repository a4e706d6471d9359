# SPDX-License-Identifier: GPL-3.0-or-later
"""What to run where a machine is not as a role left it: people run playbooks, not roles."""

from __future__ import annotations

PLAYBOOKS = {
    "node_os": "os",
    "node_tuning": "tuning",
    "rdma": "rdma",
    "opensm": "interconnect",
    "gpu_driver": "gpu",
    "cuda": "gpu",
    "dcgm": "gpu",
    "container_runtime": "gpu",
    "slurm": "scheduler",
}
"""Role -> name of its playbook, a file of playbooks/."""


def again(role: str) -> str:
    """Return the remedy that runs a role.

    >>> again("gpu_driver")
    'run playbooks/gpu.yml again'
    """
    return f"run playbooks/{PLAYBOOKS[role]}.yml again" if role in PLAYBOOKS else f"run the role {role} again"
