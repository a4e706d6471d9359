# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what Slurm's parts have on a machine: the values of roles/slurm/parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..cluster import Cluster
from ..parts.decision import Decision, LazyParts
from . import controller_files, render, scripts, slurm_packages

_RECONFIGURE = "/usr/local/lib/bedplate/slurm/reconfigure"
_LOGIN_GROUPS = ("slurm_login", "slurm_controllers")
_NO_USER = (
    "The user of Ansible's logins to the nodes is unknown, and a user who is not root and has no job would be locked out. Set ansible_user "
    "(root, too) in the inventory or with --user, or set slurm_compute_restrict_ssh to false."
)


class SlurmPartError(ValueError):
    """Variables that cannot be."""


@dataclass(frozen=True)
class SlurmHost:
    """A machine for which Slurm's parts are decided.

    `choices`: the role's variables by what is behind `slurm_`. `groups`: the groups of the host. `login_user`: the user as whom Ansible
    logs in, or "". `in_use`: answers of bedplate.cluster.slurm_in_use, as `controller_files.files` takes them; None is a preview.
    `topology`: text of a topology.conf that replaces the plan's. `check`: whether nothing is installed in this run.
    """

    cluster: Cluster
    name: str
    choices: Mapping[str, Any]
    groups: Collection[str] = ()
    login_user: str = ""
    in_use: controller_files.InUse = None
    topology: str = ""
    check: bool = False

    def part_names(self) -> list[str]:
        """Return Slurm's parts on this machine."""
        return render.parts(self.cluster, self.name)


def decide(host: SlurmHost) -> Decision:
    """Return the decision for a machine. SlurmPartError, ValueError: variables that cannot be."""
    names = host.part_names()
    values: dict[str, Callable[[], Mapping[str, Any]]] = {name: partial(_VALUES[name], host) for name in names}
    if "controller" in names:
        values["controller_packages"] = lambda: _packages(host, "controller")
    if {"compute", "login"} & set(names):
        manifest = "slurm_compute" if "compute" in names else "slurm_login"
        values["scripts"] = lambda: {"manifest": manifest, "scripts": _scripts(host)}
    return Decision(LazyParts(values))


def _packages(host: SlurmHost, part: str) -> dict[str, Any]:
    repository = host.choices["repository"]
    return {
        "repositories": [repository] if repository else [],
        **slurm_packages.values(host.cluster, host.choices[f"{part}_packages"], host.choices["package_version"]),
    }


def _scripts(host: SlurmHost) -> list[dict[str, str]]:
    found = scripts.files(host.cluster, host.name)
    return [{"name": one["path"].removeprefix(f"{scripts.DIRECTORY}/"), "text": one["content"]} for one in found]


def _daemon_options(host: SlurmHost, daemon: str) -> str:
    return controller_files.daemons(host.cluster, host.in_use)[daemon]


def _database(host: SlurmHost) -> dict[str, Any]:
    return {
        **_packages(host, "database"),
        "buffer_pool": host.choices["database_buffer_pool"],
        "lock_wait": host.choices["database_lock_wait"],
        "slurmdbd_conf": render.slurmdbd_conf(host.cluster),
    }


def _controller(host: SlurmHost) -> dict[str, Any]:
    files = controller_files.files(host.cluster, host.in_use, host.topology)
    several = len(host.cluster.services.controllers) > 1
    return {
        "slurmctld_options": _daemon_options(host, "slurmctld"),
        "configuration": [{"name": name, "text": text} for name, text in files.items()],
        "scripts": _scripts(host),
        "reconfigure": [True] if several else [],
        "reload_command": [_RECONFIGURE, host.name] if several else ["scontrol", "reconfigure"],
    }


def _compute(host: SlurmHost) -> dict[str, Any]:
    options = [_daemon_options(host, "slurmd")]
    accepts_new = host.choices["compute_new_controllers"]
    # Nobody could log in where users are to start their first job.
    restricts = host.choices["compute_restrict_ssh"] and not set(_LOGIN_GROUPS) & set(host.groups)
    rules = [_login_users(host)] if restricts else []
    return {
        **_packages(host, "compute"),
        "guarded_options": [] if accepts_new else options,
        "unguarded_options": options if accepts_new else [],
        # In check mode the package of the PAM module may not be installed yet.
        "login_rules": [] if host.check else rules,
        "predicted_login_rules": rules if host.check else [],
        "scripts": _scripts(host),
        "logind_masked": bool(restricts),
        "logind_state": "stopped" if restricts else "started",
    }


def _login_users(host: SlurmHost) -> list[str]:
    """Return the users who may log in without a job: of the variable, and Ansible's own, who would lock itself out."""
    if not host.login_user:
        raise SlurmPartError(_NO_USER)
    return [user for user in dict.fromkeys([*host.choices["compute_ssh_users"], host.login_user]) if user != "root"]


def _login(host: SlurmHost) -> dict[str, Any]:
    return {**_packages(host, "login"), "sackd_options": _daemon_options(host, "sackd"), "scripts": _scripts(host)}


def _rest(host: SlurmHost) -> dict[str, Any]:
    return {**_packages(host, "rest"), "listen": host.choices["rest_listen"]}


_VALUES = {"database": _database, "controller": _controller, "compute": _compute, "login": _login, "rest": _rest}
