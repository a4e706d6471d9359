# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what Slurm's parts have on a machine: the values of roles/slurm/parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..cluster import Cluster
from ..parts.decision import Decision, LazyParts, Step
from ..parts.render import render_part
from . import backup_part, controller_files, render, scripts, slurm_packages
from .tables.packagings import PARTS, packaging

_RECONFIGURE = "/usr/local/lib/bedplate/slurm/reconfigure"
CLIENT_FILES = ("slurm.conf", "topology.conf", "topology.yaml", "plugstack.conf", "cli_filter.lua")
"""Files that Slurm's commands read on a client without sackd."""
TURN_MANIFESTS = ("turn_munge_key", "turn_munge_encodes", "turn_jwt_key")
"""Manifests of the files that playbooks/turn_keys.yml stages."""
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
    `topology`: text of a topology.conf that replaces the plan's. `check`: whether nothing is installed in this run. `upgrade`: whether
    packages of another release are changed to that of the cluster file. `munge_pair`: whether munge gets two keys, as in a turn of the
    key. `left_out`: whether what a turn has staged is removed.
    """

    cluster: Cluster
    name: str
    choices: Mapping[str, Any]
    groups: Collection[str] = ()
    login_user: str = ""
    in_use: controller_files.InUse = None
    topology: str = ""
    check: bool = False
    upgrade: bool = False
    munge_pair: bool = False
    left_out: bool = False

    def part_names(self) -> list[str]:
        """Return Slurm's parts on this machine."""
        return render.parts(self.cluster, self.name)


def decide(host: SlurmHost) -> Decision:
    """Return the decision for a machine. SlurmPartError, ValueError: variables that cannot be."""
    names = host.part_names()
    kinds = ["client" if name == "login" and not host.cluster.has_sackd else name for name in names]
    values: dict[str, Callable[[], Mapping[str, Any]]] = {name: partial(_VALUES[name], host) for name in kinds}
    if names:
        values["installed"] = lambda: _installed(host)
    if names and host.munge_pair:
        values["munge_pair"] = lambda: _manager(host)
    if "controller" in names:
        values["controller_packages"] = lambda: _packages(host, "controller")
    if {"compute", "login"} & set(names):
        manifest = "slurm_compute" if "compute" in names else "slurm_login"
        values["scripts"] = lambda: {"manifest": manifest, "scripts": _scripts(host)}
    if host.name in backup_part.backup_hosts(host.cluster):
        tools = backup_part.tools(host.cluster)
        values["crypt"] = lambda: tools
        if options := host.choices.get("backup"):
            is_on = options.get("enabled", True)
            values["backup" if is_on else "backup_absent"] = lambda: backup_part.values(
                host.cluster, host.name, options
            )
    return Decision(LazyParts(values), steps={"turned": _turned(host)} if names and host.left_out else {})


def _manager(host: SlurmHost) -> dict[str, str]:
    return {"manager": host.cluster.slurm.packages.manager}


def _turned(host: SlurmHost) -> list[Step]:
    """Return the modules that leave munge with one key after a turn, in their order."""
    return [
        Step("bedplate.cluster.deploy", render_part("slurm", "munge_pair_absent", _manager(host))),
        # systemd also reads the unit again, without the drop-in of the turn.
        Step("bedplate.cluster.units", {"units": [{"name": "munge.service", "state": "started"}]}),
        *(Step("bedplate.cluster.files", {"manifest": name, "files": []}) for name in TURN_MANIFESTS),
    ]


def _packages(host: SlurmHost, part: str) -> dict[str, Any]:
    names = slurm_packages.names(host.cluster, part, host.choices[f"{part}_packages"])
    return {
        **slurm_packages.repository(host.cluster.slurm.packages, host.choices["repository"]),
        **slurm_packages.values(host.cluster, names, host.choices["package_version"], host.upgrade),
    }


def _installed(host: SlurmHost) -> dict[str, Any]:
    """Return the checks of what is installed, with the packages of all parts: a version of another release in any list is refused."""
    lists = [slurm_packages.names(host.cluster, part, host.choices[f"{part}_packages"]) for part in PARTS]
    names = [name for part in lists for name in part]
    return slurm_packages.values(host.cluster, names, host.choices["package_version"])


def _directory(host: SlurmHost, name: str) -> list[bool]:
    """Return a row if the role makes a directory that the packages do not make, or leave to root."""
    source, ours = host.cluster.slurm.packages, packaging().paths
    # The part files name Debian's directories; another one is of a site's own table, and of its packages.
    return [True] if not source.makes_directories and source.paths[name] == ours[name] else []


def _scripts(host: SlurmHost) -> list[dict[str, str]]:
    found = scripts.files(host.cluster, host.name)
    return [{"name": one["path"].removeprefix(f"{scripts.DIRECTORY}/"), "text": one["content"]} for one in found]


def _daemon_options(host: SlurmHost, daemon: str) -> str:
    return controller_files.daemons(host.cluster, host.in_use)[daemon]


def _database(host: SlurmHost) -> dict[str, Any]:
    system, manager = host.cluster.slurm.packages.system, host.cluster.slurm.packages.manager
    return {
        **_packages(host, "database"),
        "buffer_pool": host.choices["database_buffer_pool"],
        "lock_wait": host.choices["database_lock_wait"],
        "slurmdbd_conf": render.slurmdbd_conf(host.cluster),
        "log_directory": _directory(host, "log"),
        "apt_mariadb": [system.mariadb_sql] if manager == "apt" else [],
        "dnf_mariadb": [system.mariadb_sql] if manager == "dnf" else [],
        "mariadb_files": [system.mariadb_program, system.mariadb_conf, system.mariadb_sql],
    }


def _controller(host: SlurmHost) -> dict[str, Any]:
    files = controller_files.files(host.cluster, host.in_use, host.topology)
    several = len(host.cluster.services.controllers) > 1
    # A site's own StateSaveLocation is on storage that the site mounts.
    is_own = any(key.lower() == "statesavelocation" for key in host.cluster.slurm.options)
    return {
        "slurmctld_options": _daemon_options(host, "slurmctld"),
        "configuration": [{"name": name, "text": text} for name, text in files.items()],
        "scripts": _scripts(host),
        "state_directory": [] if is_own else _directory(host, "state"),
        "log_directory": _directory(host, "log"),
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
        "account_rules": host.cluster.slurm.packages.system.account_rules,
        "spool_directory": _directory(host, "spool"),
        "log_directory": _directory(host, "log"),
        "logind_masked": bool(restricts),
        "logind_state": "stopped" if restricts else "started",
    }


def _login_users(host: SlurmHost) -> list[str]:
    """Return the users who may log in without a job: of the variable, and Ansible's own, who would lock itself out."""
    if not host.login_user:
        raise SlurmPartError(_NO_USER)
    return [user for user in dict.fromkeys([*host.choices["compute_ssh_users"], host.login_user]) if user != "root"]


def _login(host: SlurmHost) -> dict[str, Any]:
    # The lines that jobs keep are of slurmctld alone.
    options = controller_files.daemons(host.cluster)["sackd"]
    return {**_packages(host, "login"), "sackd_options": options, "scripts": _scripts(host)}


def _client(host: SlurmHost) -> dict[str, Any]:
    """Return the values of a client of a release without sackd: it has the files that commands read."""
    files = controller_files.files(host.cluster, host.in_use, host.topology)
    configuration = [{"name": name, "text": files[name]} for name in CLIENT_FILES if name in files]
    return {**_packages(host, "login"), "configuration": configuration, "scripts": _scripts(host)}


def _rest(host: SlurmHost) -> dict[str, Any]:
    unset = list(host.cluster.slurm.packages.unset)
    return {**_packages(host, "rest"), "listen": host.choices["rest_listen"], "unset": unset}


_VALUES = {
    "database": _database,
    "controller": _controller,
    "compute": _compute,
    "login": _login,
    "client": _client,
    "rest": _rest,
}
