# SPDX-License-Identifier: GPL-3.0-or-later
"""Find every reason against an upgrade before anything is touched, over all hosts at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.release_window import RELEASES, works_under

from .upgrade_site import Site, order

_MARGIN = 64 << 20  # bytes that a full disk must never reach
_RECORDS = 'Correct it, or upgrade by hand as docs/upgrade-slurm.md says under "By hand"'


def refusals(site: Site, without_return: bool) -> list[str]:
    """Return a text for each reason against the upgrade; hosts with the same reason are one text."""
    found: dict[str, list[str]] = {}
    for check in _CHECKS:
        for host, text in check(site):
            found.setdefault(text, []).append(host)
    if not without_return:
        for host, text in _packages_lost(site):
            found.setdefault(text, []).append(host)
    return [f"{fold(hosts)}: {text}" for text, hosts in found.items()]


def _unlooked(site: Site) -> Iterator[tuple[str, str]]:
    for host in site.core:
        if host not in site.looks:
            why = site.lost.get(host, "not in this run (--limit)")
            yield host, f"{why}. Database and controllers must all be in the run: their releases change together"


def _problems(site: Site) -> Iterator[tuple[str, str]]:
    for host, look in site.looks.items():
        if host in site.core or site.is_pending(host):
            yield from ((host, text) for text in look["problems"])


def _both(site: Site) -> Iterator[tuple[str, str]]:
    for host in site.core:
        if host in site.nodes:
            yield host, f"controller or database, and node: its slurmd cannot be upgraded after slurmctld. {_RECORDS}"


def _releases(site: Site) -> Iterator[tuple[str, str]]:
    """Yield hosts whose release cannot be upgraded to the new one."""
    allowed = [one for one in RELEASES if one != site.new and works_under(one, site.new)]
    for host in site.looks:
        found = site.releases(host)
        if not found and host in site.core:
            yield host, "no Slurm is installed. Run playbooks/scheduler.yml first"
        for one in found:
            if works_under(one, site.new):
                continue
            if order(one) < 0:
                text = f"an unknown release; allowed: {', '.join(allowed)}"
            elif order(one) > order(site.new):
                text = (
                    "newer, and no daemon reads the data of a newer release. Set slurm.version to the installed release"
                )
            else:
                text = f"too old; allowed: {', '.join(allowed)}. Upgrade to {_step(one)} first"
            yield host, f"Slurm {one} is installed, and {site.path} has slurm.version {site.new}: {text}"


def _step(release: str) -> str:
    """Return the newest release to which one can be upgraded."""
    return max((one for one in RELEASES if works_under(release, one)), key=order)


def _order(site: Site) -> Iterator[tuple[str, str]]:
    """Yield hosts with a release that is wrong beside the other hosts: database, controllers, then nodes and clients."""
    core = {host: site.releases(host) for host in site.core if host in site.looks}
    found = {one for releases in core.values() for one in releases}
    if len(found) > 1 and not site.unfinished():
        text = f"database and controllers have different releases ({', '.join(sorted(found, key=order))})"
        yield from (
            (host, f"{text}, and no record of an upgrade says why. Make them one release first") for host in core
        )
    if not found:
        return
    limit = min(map(order, found))
    if site.unfinished():
        limit = order(site.new)
    for host in site.looks:
        newest = max(map(order, site.releases(host)), default=-1)
        if host not in site.core and newest > limit:
            text = f"Slurm {RELEASES[newest]} is installed, newer than that of the controllers"
            yield host, f"{text}: slurmctld does not understand it. Install the controllers' release there first"


def _daemons(site: Site) -> Iterator[tuple[str, str]]:
    """Yield hosts whose daemons do not run: a failure would be put down to the upgrade."""
    if site.unfinished() or not site.needs_core():
        return
    for host in site.core:
        for unit, is_active in site.looks.get(host, {}).get("daemons", {}).items():
            if not is_active:
                yield host, f"{unit} does not run. Start it and see that it works before the upgrade"


def _space(site: Site) -> Iterator[tuple[str, str]]:
    for host, look in site.looks.items():
        places = (
            ("copies of state and database", look["state"] + look["database"], look["free"], "/var/lib/bedplate"),
            (
                "a second copy of the database, as a proof",
                look["database"],
                look["database_free"],
                "MariaDB's directory",
            ),
            ("downloads", look["download"], look["download_free"], "/var/cache/apt/archives"),
        )
        for what, needed, free, where in places:
            if needed and needed + _MARGIN > free:
                yield host, f"{what} need {mib(needed + _MARGIN)}, and {where} has {mib(free)} free"


def _removed(site: Site) -> Iterator[tuple[str, str]]:
    for host, look in site.looks.items():
        if look["removed"]:
            yield host, f"apt would remove {few(look['removed'])} for the new release. {_RECORDS}"


def _plugins(site: Site) -> Iterator[tuple[str, str]]:
    for host, look in site.looks.items():
        built = host in site.builds_pyxis
        for name in look["plugins"]:
            if not (built and name.endswith("spank_pyxis.so")):
                yield (
                    host,
                    f"plugstack.conf requires {name}, which is built for the installed release: every job would fail under the new one. "
                    "Let bedplate build it (container_runtime_pyxis), or write `optional` until it is built again",
                )


def _refused(site: Site) -> Iterator[tuple[str, str]]:
    if site.refusal:
        yield site.controllers[0], site.refusal


def _packages_lost(site: Site) -> Iterator[tuple[str, str]]:
    for host, look in site.looks.items():
        if look["old_missing"]:
            yield (
                host,
                f"the installed packages cannot be had any more, and without them there is no way back: {few(look['old_missing'])}. Offer "
                "them in a repository, or accept that with -e upgrade_without_return=true",
            )


def mib(size: int) -> str:
    """Return bytes as MiB or GiB.

    >>> mib(5 << 20), mib(3 << 30)
    ('5 MiB', '3.0 GiB')
    """
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{-(-size // (1 << 20))} MiB"


_CHECKS: tuple[Callable[[Site], Iterator[tuple[str, str]]], ...] = (
    _unlooked,
    _both,
    _releases,
    _order,
    _daemons,
    _refused,
    _problems,
    _removed,
    _plugins,
    _space,
)
