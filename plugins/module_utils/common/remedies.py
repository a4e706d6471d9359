# SPDX-License-Identifier: GPL-3.0-or-later
"""Name the playbook that restores a role's state: people run playbooks, not roles."""

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
    "node_health": "health",
    "health_control": "health",
    "provision": "provision_host",
    "image": "provision_host",
}
"""Role -> name of its playbook, a file of playbooks/."""


def run_role_again(role: str) -> str:
    """Return the remedy that runs a role again; `role` may be the manifest of one of its tasks.

    >>> run_role_again("gpu_driver")
    'run playbooks/gpu.yml again'
    >>> run_role_again("slurm_compute")
    'run playbooks/scheduler.yml again'
    """
    name = next((name for name in PLAYBOOKS if role == name or role.startswith(f"{name}_")), "")
    return f"run playbooks/{PLAYBOOKS[name]}.yml again" if name else f"run the playbook of the role {role} again"
