# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts of an upgrade, with what was found on each: the input of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.versions import without_epoch
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.release_window import RELEASES, release_of

from ..cluster import Cluster

INSTALLING, SERVED, FINISHED = "installing", "served", "finished"
"""Marks of module_utils/slurm/saved/upgrade_folder.py."""
NO_ANSWER = "no answer by SSH"


@dataclass(frozen=True)
class Site:
    """Hosts by what they run, in the order of the cluster file, and what was found on them.

    `looks`: host -> RV(look) of bedplate.cluster.slurm_upgrade. `lost`: host of this run -> why it has no look. `builds_pyxis`: hosts where
    bedplate builds pyxis. `refusal`: why slurm_in_use refuses the files of the new release, or "".
    """

    path: str
    new: str
    database: tuple[str, ...]
    controllers: tuple[str, ...]
    nodes: tuple[str, ...]
    others: tuple[str, ...]
    looks: Mapping[str, Mapping[str, Any]]
    lost: Mapping[str, str] = field(default_factory=dict)
    builds_pyxis: frozenset[str] = frozenset()
    refusal: str = ""

    @property
    def core(self) -> list[str]:
        """Return the hosts of the database and of controllers, each once."""
        return list(dict.fromkeys([*self.database, *self.controllers]))

    def releases(self, host: str) -> list[str]:
        """Return the releases of the installed packages of a host, oldest first."""
        found = {release_of(without_epoch(one)) for one in self.looks[host]["installed"].values()}
        return sorted(found, key=order)

    def is_pending(self, host: str) -> bool:
        """Return whether a host that was looked at has a package of another release."""
        return host in self.looks and any(one != self.new for one in self.releases(host))

    def unfinished(self) -> str:
        """Return the folder of an upgrade that a call began to install and did not finish, or ""."""
        for name, marks in self._folders():
            if INSTALLING in marks and FINISHED not in marks:
                return name
        return ""

    def has_served(self) -> bool:
        """Return whether slurmctld of the unfinished upgrade has served, so there is no way back.

        A call that was killed while it waited for the primary has left no mark, and slurmctld has come up without it.
        """
        unfinished = self.unfinished()
        if any(name == unfinished and SERVED in marks for name, marks in self._folders()):
            return True
        primary = self.controllers[0]
        runs = bool(self.looks.get(primary, {}).get("daemons", {}).get("slurmctld.service"))
        return bool(unfinished) and runs and not self.is_pending(primary)

    def untouched(self) -> list[str]:
        """Return the hosts of database and controllers that have no package of the new release."""
        return [host for host in self.core if host in self.looks and self.new not in self.releases(host)]

    def _folders(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for host in self.core:
            for name, marks in self.looks.get(host, {}).get("folders", {}).items():
                yield str(name), marks

    def old(self) -> str:
        """Return the release before: of the unfinished upgrade, else the oldest of database and controllers."""
        if unfinished := self.unfinished():
            return unfinished.rpartition("-")[0]
        found = [one for host in self.core if host in self.looks for one in self.releases(host)]
        return min(found, key=order, default="")

    def needs_core(self) -> bool:
        """Return whether database and controllers need the release, or their upgrade is unfinished."""
        return bool(self.unfinished()) or any(self.is_pending(host) for host in self.core)


def order(release: str) -> int:
    """Return the place of a release in Slurm's order, -1 for an unknown one."""
    return RELEASES.index(release) if release in RELEASES else -1


def site_of(
    cluster: Cluster,
    looks: Mapping[str, Mapping[str, Any]],
    lost: Mapping[str, str],
    builds_pyxis: Iterable[str] = (),
    refusal: str = "",
) -> Site:
    """Return the site of a cluster file."""
    services = cluster.services
    return Site(
        path=str(cluster.path),
        new=cluster.slurm.version,
        database=tuple(services.database),
        controllers=tuple(services.controllers),
        nodes=tuple(node.name for node in cluster.nodes),
        others=tuple(dict.fromkeys([*services.login, *services.rest])),
        looks=looks,
        lost=lost,
        builds_pyxis=frozenset(builds_pyxis),
        refusal=refusal,
    )
