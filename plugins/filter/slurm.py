# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Slurm's files and plans from the cluster file; documented one by one in the .yml files beside this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.filter_input import cluster_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import render


def slurm_files(path: object, in_use: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return the files of a controller."""
    kept = in_use or {}
    return render.slurm_files(cluster_of(path, "slurm_files"), kept.get("slurm", ()), kept.get("gres", ()))


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
            "slurm_daemons": _plain("slurm_daemons", render.daemon_files),
            "slurm_accounts": _plain("slurm_accounts", render.accounts),
            "slurm_expected": _plain("slurm_expected", render.expected),
        }
