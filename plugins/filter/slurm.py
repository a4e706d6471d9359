# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Slurm's files and plans from the cluster file; documented one by one in the .yml files beside this one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.slurm_topology import TopologyError
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.templates import TemplateError
from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import HostlistError
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.retain import Retained, merged
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.filter_input import cluster_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.once import once_a_run
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import render

InUse = Mapping[str, Any] | Iterable[Mapping[str, Any]] | None


def _kept(in_use: InUse, name: str) -> Retained:
    """Return what stays for jobs, of one answer of slurm_in_use or of several."""
    answers = [in_use] if isinstance(in_use, Mapping) else list(in_use or ())
    for answer in answers:
        if answer.get("failed"):  # without its lines, this controller's files would take its jobs away
            raise AnsibleFilterError(f"{name}: a controller cannot say what its jobs need: {answer.get('msg')}")
    silent = sum(not answer or bool(answer.get("unreachable")) for answer in answers)
    if len(answers) > 1 and silent and not any(answer.get("configured") or answer.get("slurm") for answer in answers):
        raise AnsibleFilterError(
            f"{name}: no controller of this run has a slurm.conf, and {silent} of {len(answers)} were not asked: they may "
            "keep nodes or partitions for jobs that this one would drop when it takes over. Run with all controllers, without --limit."
        )
    return merged(answers)


def slurm_files(path: object, in_use: InUse = None, topology: str = "") -> dict[str, str]:
    """Return the files of a controller; `topology` is the text of a topology.conf that replaces the plan's."""
    kept, cluster = _kept(in_use, "slurm_files"), cluster_of(path, "slurm_files")
    try:
        return render.slurm_files(cluster, kept.slurm, kept.gres, topology)
    except (TemplateError, TopologyError) as error:
        raise AnsibleFilterError(f"slurm_files: {error}") from None


def slurm_daemons(path: object, in_use: InUse = None) -> dict[str, str]:
    """Return the environment files of the daemons."""
    cluster, kept = cluster_of(path, "slurm_daemons"), list(_kept(in_use, "slurm_daemons").slurm)
    # The same for every node, and before Slurm 23.11 made of the lines of all nodes.
    key = hashlib.sha256(repr((cluster.stamp, kept)).encode()).hexdigest()
    text = once_a_run(f"slurm-daemons-{key}", lambda: json.dumps(render.daemon_files(cluster, kept)).encode())
    files: dict[str, str] = json.loads(text)
    return files


def slurm_expected(path: object, topology: str = "") -> dict[str, object]:
    """Return what slurmctld should report; `topology` as for `slurm_files`."""
    cluster = cluster_of(path, "slurm_expected")
    try:
        return render.expected(cluster, topology)
    except (TemplateError, TopologyError, HostlistError) as error:
        raise AnsibleFilterError(f"slurm_expected: {error}") from None


def slurm_wanted(path: object, unasked: bool = False) -> dict[str, object]:
    """Return the arguments of the module slurm_in_use."""
    return {**render.wanted(cluster_of(path, "slurm_wanted")), "unasked": unasked}


def slurm_parts(path: object, host: str) -> list[str]:
    """Return the parts of Slurm on a host."""
    return render.parts(cluster_of(path, "slurm_parts"), host)


def _plain(name: str, function: Callable[[Cluster], object]) -> Callable[[object], object]:
    return lambda path: function(cluster_of(path, name))


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {
            "slurm_files": slurm_files,
            "slurm_wanted": slurm_wanted,
            "slurm_parts": slurm_parts,
            "slurmdbd_conf": _plain("slurmdbd_conf", render.slurmdbd_conf),
            "slurm_daemons": slurm_daemons,
            "slurm_accounts": _plain("slurm_accounts", render.accounts),
            "slurm_expected": slurm_expected,
        }
