# SPDX-License-Identifier: GPL-3.0-or-later
"""Report at the end of a site.yml run that updates a cluster: from which release, and the changed defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.release import RELEASE
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ..cluster import Cluster
from ..releases.default_snapshots import release_numbers, released, snapshot
from .changed_defaults import ChangedDefault, SetOn, changed_defaults, current


def cluster_release(recorded: Iterable[str]) -> str:
    """Return the oldest release of all machines, since an update may have stopped half-way; "" if no machine has files of bedplate.

    >>> cluster_release(["0.10.0", "", "0.2.0"])
    '0.2.0'
    """
    return min(filter(None, recorded), key=release_numbers, default="")


def update_lines(recorded: Mapping[str, str], cluster: Cluster, set_on: Callable[[], SetOn], check: bool) -> list[str]:
    """Return lines about the update of a cluster; none where all machines have this tree's release on record.

    `recorded` is host -> release, "" where bedplate has written nothing. `set_on` is called only where defaults are compared. Without
    `check` the update has been made, and one line says what changed.
    """
    return [*_newer(recorded), *_update(cluster_release(recorded.values()), cluster, set_on, check)]


def _newer(recorded: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each release on record that is newer than this tree's."""
    hosts: dict[str, list[str]] = {}
    for host, release in recorded.items():
        if release and release_numbers(release) > release_numbers(RELEASE):
            hosts.setdefault(release, []).append(host)
    for release, names in sorted(hosts.items()):
        yield (
            f"{_places(names)}: release {release} of bedplate is on record, and this is {RELEASE}, which is older. No test covers "
            "a return to an older release: look at --check --diff of one machine of each kind before you continue"
        )


def _update(release: str, cluster: Cluster, set_on: Callable[[], SetOn], check: bool) -> list[str]:
    if release == "" or release_numbers(release) >= release_numbers(RELEASE):
        return []
    before = snapshot(release)
    if before is None:
        known = ", ".join(released())
        return [
            f"this cluster has release {release} of bedplate on record, and this is {RELEASE}, which knows the defaults of {known} alone. "
            "Read CHANGELOG.md for what changed"
        ]
    found = list(changed_defaults(before, current(), cluster, set_on()))
    step = f"update of bedplate from {release} to {RELEASE}"
    if not found:
        return [f"{step}: no default that is in force here changed"]
    if not check:
        return [f"{step}: {_count(found)} changed: {', '.join(one.name for one in found)}. CHANGELOG.md says why"]
    return [f"{step}: {_count(found)} in force here will change:", *map(_line, found)]


def _count(found: Sequence[ChangedDefault]) -> str:
    return "1 default" if len(found) == 1 else f"{len(found)} defaults"


def _line(one: ChangedDefault) -> str:
    """Return a changed default in one line, with how to keep the old one."""
    where = f" ({_places(one.places)})" if one.places else ""
    return f"{one.name}: {one.before} becomes {one.now}{where}; to keep it: {one.keep}"


def _places(places: Sequence[str]) -> str:
    try:
        return fold(places) if len(places) > 1 else places[0]
    except ValueError:
        return few(places)
