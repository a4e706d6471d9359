# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Slurm's files and plans from the cluster file; documented one by one in the .yml files beside this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.utils.display import Display

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import HostlistError, fold
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.filter_input import cluster_of, role_result
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import (
    acting_controller,
    controller_files,
    job_guard,
    refused_lines,
    render,
    script_guard,
    scripts,
    state_guard,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import slurm_packages as packages
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.cluster_topology import of_cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.job_guard import answers


def slurm_files(path: object, in_use: controller_files.InUse = None, topology: str = "") -> dict[str, str]:
    """Return the files of a controller; `topology` is the text of a topology.conf that replaces the plan's."""
    return role_result(path, "slurm_files", lambda cluster: controller_files.files(cluster, in_use, topology))


def slurm_daemons(path: object, in_use: controller_files.InUse = None) -> dict[str, str]:
    """Return the environment files of the daemons."""
    return role_result(path, "slurm_daemons", lambda cluster: controller_files.daemons(cluster, in_use))


def slurm_expected(path: object, topology: str = "", in_use: Mapping[str, Any] | None = None) -> dict[str, object]:
    """Return what slurmctld should report; `topology` as for `slurm_files`; `in_use` is the answer of a controller, to read it back."""
    return role_result(path, "slurm_expected", lambda cluster: controller_files.expected(cluster, topology, in_use))


def slurm_wanted(path: object, *modes: Any, **named: Any) -> dict[str, object]:
    """Return the arguments of the module slurm_in_use."""
    return controller_files.in_use_arguments(cluster_of(path, "slurm_wanted"), *modes, **named)


def slurm_node_hardware(
    path: object, host: str, hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str]
) -> dict[str, object]:
    """Return the arguments of the module slurm_node_hardware."""
    cluster = cluster_of(path, "slurm_node_hardware")
    return {**render.node_hardware(cluster, host), **job_guard.hardware_arguments(hostvars, controllers, host)}


def slurm_state_marks(hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str]) -> dict[str, str]:
    """Return the marks that the controllers have left in StateSaveLocation."""
    names = list(controllers)
    return state_guard.marks(names, answers(hostvars, names, "__slurm_state_left"))


def slurm_state_refusal(hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str]) -> str:
    """Return why the controllers must not start on their StateSaveLocation, or nothing."""
    names = list(controllers)
    left, seen = (answers(hostvars, names, f"__slurm_state_{step}") for step in ("left", "seen"))
    return state_guard.refuse(names, left, seen)


def slurm_acting_controller(hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str]) -> dict[str, Any]:
    """Return which controller is in charge, and whether the primary stays stopped."""
    names = list(controllers)
    return acting_controller.decide(names, answers(hostvars, names, "__slurm_seen")).facts()


def slurm_parts(path: object, host: str) -> list[str]:
    """Return the parts of Slurm on a host."""
    return render.parts(cluster_of(path, "slurm_parts"), host)


def slurm_topology(path: object, text: str, file: str) -> str:
    """Return the text of a topology.conf for the nodes of the cluster file; warn of nodes that only one of the two has."""
    cluster = cluster_of(path, "slurm_topology")
    try:
        told, strangers, missing = of_cluster(text, [node.name for node in cluster.nodes])
    except HostlistError as error:
        raise AnsibleFilterError(f"slurm_topology: {file}: {error}") from None
    found = [f"nodes that are not in the cluster file and are left out: {fold(strangers)}"] if strangers else []
    found += [f"no place for nodes of the cluster file: {fold(missing)}"] if missing else []
    if found:
        Display().warning(
            f"{file} (slurm_controller_topology) has {'; '.join(found)}. Write it again with playbooks/fabric_topology.yml, or edit it."
        )
    return told


def slurm_packages(path: object, names: Sequence[str], version: str = "") -> dict[str, Any]:
    """Return what deploy takes of packages."""
    return role_result(
        path,
        "slurm_packages",
        lambda cluster: packages.values(cluster, names, version),
    )


def slurm_hosts_to_compare(hostvars: Mapping[str, Mapping[str, Any]], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the nodes and clients whose packages and users are compared before anything changes, or nothing."""
    controllers = groups.get("slurm_controllers") or ()
    # Where Ansible only lists the hosts of plays, no host has variables.
    own = hostvars.get(controllers[0]) if controllers else None
    if own is None:
        return []
    if path := own.get("bedplate_cluster_file"):
        return packages.hosts_to_compare(cluster_of(str(path), "slurm_hosts_to_compare"))
    if own.get("slurm_packages") is None and own.get("slurm_users") is None:
        return []
    served = {*controllers, *(groups.get("slurm_database") or ())}
    every = [name for group in ("compute_nodes", "slurm_login", "slurm_rest") for name in groups.get(group) or ()]
    return [name for name in dict.fromkeys(every) if name not in served]


def slurm_refused_lines(message: object, path: object, files: Mapping[str, str]) -> str:
    """Return slurmctld's errors about refused files, with the lines that it names."""
    return refused_lines.explain(str(message), files, cluster_of(path, "slurm_refused_lines").path)


def slurm_scripts(path: object, host: str) -> list[dict[str, str]]:
    """Return the scripts of a host as entries of bedplate.cluster.files."""
    return scripts.files(cluster_of(path, "slurm_scripts"), host)


def slurm_script_paths(path: object, host: str) -> list[dict[str, Any]]:
    """Return the scripts that a host must have without bedplate's doing."""
    return scripts.expected(cluster_of(path, "slurm_script_paths"), host)


def slurm_file_entries(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the files of a controller as entries of bedplate.cluster.files."""
    return [{"path": f"/etc/slurm/{name}", "content": text} for name, text in files.items()]


def slurm_unproven(
    path: object, hostvars: Mapping[str, Mapping[str, Any]], in_force: Mapping[str, str] | None = None
) -> str:
    """Return why options that name scripts must not be deployed, or nothing.

    A host where the installation failed has proved nothing. Without `in_force`, hosts that were not asked are no reason.
    """
    cluster = cluster_of(path, "slurm_unproven")
    names = script_guard.hosts(cluster)
    checked, written = (answers(hostvars, names, f"__slurm_{step}") for step in ("script_check", "scripts_written"))
    given = {name: one for name, one in checked.items() if not written[name].get("failed")}
    return script_guard.refuse(cluster, given, in_force)


def _plain(name: str, function: Callable[[Cluster], object]) -> Callable[[object], object]:
    return lambda path: function(cluster_of(path, name))


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {
            "slurm_files": slurm_files,
            "slurm_topology": slurm_topology,
            "slurm_wanted": slurm_wanted,
            "slurm_packages": slurm_packages,
            "slurm_hosts_to_compare": slurm_hosts_to_compare,
            "slurm_parts": slurm_parts,
            "slurm_refused_lines": slurm_refused_lines,
            "slurm_file_entries": slurm_file_entries,
            "slurm_script_options": _plain("slurm_script_options", scripts.stated),
            "slurm_scripts": slurm_scripts,
            "slurm_script_paths": slurm_script_paths,
            "slurm_unproven": slurm_unproven,
            "slurmdbd_conf": _plain("slurmdbd_conf", render.slurmdbd_conf),
            "slurm_daemons": slurm_daemons,
            "slurm_accounts": _plain("slurm_accounts", render.accounts),
            "slurm_expected": slurm_expected,
            "slurm_to_count": job_guard.to_count,
            "slurm_node_hardware": slurm_node_hardware,
            "slurm_counted": job_guard.counted,
            "slurm_refusal": job_guard.refusal,
            "slurm_acting_controller": slurm_acting_controller,
            "slurm_state_marks": slurm_state_marks,
            "slurm_state_refusal": slurm_state_refusal,
            "slurm_changed_files": job_guard.changed_files,
            "slurm_controllers_outside": job_guard.controllers_outside,
            "slurm_controllers_written": job_guard.controllers_written,
        }
