# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources of a machine whose cluster file has a promoted snapshot: one repository of each kind, and no other source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..cluster import Cluster, Node, Snapshots
from ..cluster.snapshot_checks import system_of
from ..gpu_stack import apt_repositories, dnf_repositories, stack_table
from ..gpu_stack.apt_repositories import PackageRepository
from ..keys.repository_keys import trusted
from ..parts.part_files import rendered_template

LABEL = "bedplate-snapshot"
"""Label of the index of each repository of a snapshot, by which apt's preferences name them."""
_OURS = 1001  # above 1000 apt also installs an older version than the installed one
_VIEW = "/var/lib/bedplate/snapshot"
_MANAGERS = {"deb": "apt", "rpm": "dnf"}


def repositories_of(cluster: Cluster, host: str) -> list[PackageRepository]:
    """Return the repositories of a machine's snapshot, one for each kind; [] without a snapshot.

    ValueError: a key that cannot be read, or another one than the cluster file states.
    """
    snapshots = cluster.snapshots
    chosen = snapshots.of_machine(host) if snapshots else None
    if snapshots is None or chosen is None:
        return []
    key, system = trusted(snapshots.key, snapshots.fingerprints), _system(cluster, snapshots, host)
    return [
        PackageRepository(f"snapshot-{kind}", f"{snapshots.url}/{chosen.name}/{system}/{kind}", ("./",), (), key, True)
        for kind in chosen.systems.get(system, ())
    ]


def refusal(cluster: Cluster, host: str) -> str:
    """Return why a machine cannot have its snapshot, or "": the snapshot has nothing of its system."""
    snapshots = cluster.snapshots
    chosen = snapshots.of_machine(host) if snapshots else None
    if snapshots is None or chosen is None or chosen.systems.get(_system(cluster, snapshots, host)):
        return ""
    return (
        f"snapshot {chosen.name} has no repository for {_system(cluster, snapshots, host)}; it has {', '.join(chosen.systems)}. Make a "
        "snapshot with it, playbooks/mirror.yml, and promote that one"
    )


def mistakes(cluster: Cluster) -> list[str]:
    """Return what keeps machines from their snapshot: a key that cannot be read or is another one, a system that it lacks."""
    if cluster.snapshots is None:
        return []
    found = dict.fromkeys(filter(None, (refusal(cluster, name) for name in cluster.machines)))
    if cluster.snapshots.lock.promoted or cluster.snapshots.lock.testing:
        try:
            trusted(cluster.snapshots.key, cluster.snapshots.fingerprints)
        except ValueError as error:
            found[f"snapshots.key: {error}"] = None
    return list(found)


def part_values(cluster: Cluster, host: str) -> dict[str, Any] | None:
    """Return the values of the part `snapshot` of node_os; None for a machine without a snapshot."""
    listed = repositories_of(cluster, host)
    if not listed:
        return None
    manager = manager_of(cluster, host)
    is_apt = manager == "apt"
    return {
        "manager": manager,
        "foreign_sources": {"policy": "take_over", "alone": True},
        "apt_repositories": [apt_repositories.source_values(one) for one in listed] if is_apt else [],
        "apt_pins": [_pins()] if is_apt else [],
        "rpm_keys": [] if is_apt else [{"name": "snapshot", "text": _key_text(listed)}],
        "yum_repositories": []
        if is_apt
        else [_yum(one, "/etc/pki/rpm-gpg/RPM-GPG-KEY-bedplate-snapshot") for one in listed],
    }


def expected(cluster: Cluster, host: str) -> dict[str, Any] | None:
    """Return what verify expects of a machine's packages; None for a machine without a snapshot."""
    listed = repositories_of(cluster, host)
    chosen = cluster.snapshots.of_machine(host) if cluster.snapshots else None
    if not listed or chosen is None or cluster.snapshots is None:
        return None
    urls = {one.name.removeprefix("snapshot-"): one.url for one in listed}
    return {
        "manager": manager_of(cluster, host),
        "name": chosen.name,
        "urls": urls,
        "base": f"{cluster.snapshots.url}/",
    }


def view_files(cluster: Cluster, host: str) -> dict[str, str] | None:
    """Return the files of the module os_packages, by their path below its directory; None for a machine without a snapshot."""
    listed = repositories_of(cluster, host)
    if not listed:
        return None
    if manager_of(cluster, host) == "apt":
        sources = {
            f"sources.d/{one.name}.sources": _text("apt.sources.j2", apt_repositories.source_values(one))
            for one in listed
        }
        return {**sources, "preferences": _text("apt.pref.j2", _pins())}
    repositories = {f"repos.d/{one.name}.repo": _text("yum.repo.j2", _yum(one, f"{_VIEW}/key.asc")) for one in listed}
    return {**repositories, "key.asc": _key_text(listed)}


def manager_of(cluster: Cluster, host: str) -> str:
    """Return apt or dnf. KeyError: no machine of the cluster."""
    if cluster.snapshots is None:
        return "apt"
    return _MANAGERS[stack_table.default().systems[_system(cluster, cluster.snapshots, host)].family]


def _system(cluster: Cluster, snapshots: Snapshots, host: str) -> str:
    machine = cluster.machine(host)
    return system_of(snapshots, machine.profile if isinstance(machine, Node) else None)


def _pins() -> dict[str, Any]:
    about = "The promoted snapshot: packages that are newer than its own go down to its version."
    return {"about": about, "pins": [{"packages": "*", "pin": f"release l={LABEL}", "priority": _OURS}]}


def _yum(repository: PackageRepository, key_file: str) -> dict[str, str]:
    return {**dnf_repositories.repository_values(repository), "key_file": key_file}


def _key_text(listed: list[PackageRepository]) -> str:
    return f"{listed[0].key.strip()}\n"


def _text(template: str, item: Mapping[str, Any]) -> str:
    return rendered_template("node_os", template, {"item": item})
