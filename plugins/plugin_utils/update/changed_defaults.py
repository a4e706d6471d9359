# SPDX-License-Identifier: GPL-3.0-or-later
"""Defaults that differ between the release on record on a cluster and this one, and that the cluster does not set itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..cluster import Cluster, GpuStack
from ..cluster.schema.cluster_file import CLUSTER_FILE
from ..cluster.schema.fields import Field, dotted, json_schema
from ..cluster.schema.reader import read
from ..common.role_interfaces import options
from ..gpu_stack import stack_table
from ..releases.default_snapshots import defaults, driver_name, release_numbers
from ..releases.renamed_names import ANY
from ..slurm.tables import conf_text
from ..tuning import kernel_settings

SetOn = Mapping[str, Mapping[str, Any]]
"""Host -> its variables, as far as the inventory and the command line set them, and Ansible's `group_names`."""
_ALL = ("all",)
ROLE_GROUPS = {
    "slurm_compute": ("compute_nodes",),
    "slurm_rest": ("slurm_rest",),
    "node_tuning": ("compute_nodes",),
    "rdma": ("rdma_nodes",),
    "gpu_driver": ("gpu_software",),
    "cuda": ("gpu_software",),
    "dcgm": ("gpu_software",),
    "container_runtime": ("gpu_nodes", "gpu_software", "slurm_login"),
    "opensm": ("subnet_managers",),
    "node_health": ("health_nodes",),
    "health_control": ("slurm_controllers", "monitoring_servers"),
    "provision": ("provision_hosts",),
    "image": ("provision_hosts",),
}
"""How variables begin -> groups of hosts on which the playbooks read them; all others are read on all."""


@dataclass(frozen=True)
class ChangedDefault:
    """One default: what it was and is, how to keep what it was, and where it is not set: hosts, or places of the cluster file."""

    name: str
    before: str
    now: str
    keep: str
    places: tuple[str, ...] = ()


@cache
def current() -> dict[str, Any]:
    """Return the defaults of this tree."""
    table = stack_table.default()
    versions: dict[str, list[str]] = {"dcgm": list(table.dcgm.versions), "nccl": list(table.nccl.versions)}
    for driver in table.drivers:
        for system in driver.systems:
            versions.setdefault(driver_name(driver.source, system), []).append(driver.version)
    slurm = {kind: conf_text.defaults(kind) for kind in ("slurm", "cgroup", "slurmdbd")}
    return defaults(options(), json_schema(CLUSTER_FILE), slurm, kernel_settings.default_sysctl(), versions)


def changed_defaults(
    before: Mapping[str, Any], now: Mapping[str, Any], cluster: Cluster, set_on: SetOn
) -> Iterator[ChangedDefault]:
    """Yield the changed defaults that are in force on this cluster; `before` and `now` are snapshots of two releases."""
    yield from _variables(before["variables"], now["variables"], set_on)
    yield from _keys(before["keys"], now["keys"], cluster.path)
    for section, given in (
        ("options", cluster.slurm.options),
        ("cgroup", cluster.slurm.cgroup),
        ("slurmdbd", cluster.slurm.slurmdbd),
    ):
        yield from _slurm(section, before["slurm"][section], now["slurm"][section], given)
    yield from _sysctl(before["sysctl"], now["sysctl"], set_on)
    yield from _versions(before["versions"], now["versions"], cluster)


def _variables(before: Mapping[str, Any], now: Mapping[str, Any], set_on: SetOn) -> Iterator[ChangedDefault]:
    # A variable that only one of the two releases has is no default that changed; the changelog has it.
    for name in sorted(before.keys() & now.keys()):
        if before[name] == now[name]:
            continue
        start = next((start for start in ROLE_GROUPS if name.startswith(f"{start}_")), "")
        groups = ROLE_GROUPS.get(start, _ALL)
        hosts = tuple(host for host, given in _members(set_on, start) if name not in given)
        if hosts:
            keep = f"{name}: {_text(before[name])} in group_vars/{groups[0]}.yml"
            yield ChangedDefault(name, _text(before[name]), _text(now[name]), keep, hosts)


def _members(set_on: SetOn, start: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the hosts on which variables that begin so are read, with their variables; not where the role is switched off."""
    groups = ROLE_GROUPS.get(start)
    for host, given in set_on.items():
        is_off = str(given.get(f"{start}_manage")).lower() in ("false", "no", "off", "0")
        if not is_off and (groups is None or not set(groups).isdisjoint(given.get("group_names", ()))):
            yield host, given


def _sysctl(before: Mapping[str, Any], now: Mapping[str, Any], set_on: SetOn) -> Iterator[ChangedDefault]:
    def is_set(given: Mapping[str, Any], key: str) -> bool:
        wishes = given.get("node_tuning_sysctl")
        return isinstance(wishes, Mapping) and key in wishes

    for key, old, new in _differences(before, now):
        there = {host: given for host, given in _members(set_on, "node_tuning") if not is_set(given, key)}
        if hosts := tuple(there):
            wish = "null" if old is None else repr(old)
            keep = f"node_tuning_sysctl: {{{key}: {wish}}} in group_vars/{ROLE_GROUPS['node_tuning'][0]}.yml"
            if any("node_tuning_sysctl" in given for given in there.values()):
                keep += ", and in each node_tuning_sysctl of a group or host, which replaces it"
            yield ChangedDefault(f"sysctl {key}", _text(old), _text(new), keep, hosts)


def _slurm(
    section: str, before: Mapping[str, Any], now: Mapping[str, Any], given: Mapping[str, Any]
) -> Iterator[ChangedDefault]:
    known = {str(option).lower() for option in given}
    for option, old, new in _differences(before, now):
        if option.lower() not in known:
            keep = f"slurm.{section}: {{{option}: {'null' if old is None else repr(old)}}} in the cluster file"
            yield ChangedDefault(f"slurm.{section}.{option}", _text(old), _text(new), keep)


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, old and new value of what differs; None: bedplate sets nothing, and the default of others is in force."""
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            yield name, before.get(name), now.get(name)


def _keys(before: Mapping[str, Any], now: Mapping[str, Any], path: str) -> Iterator[ChangedDefault]:
    changed = {key for key in before.keys() & now.keys() if before[key] != now[key]}
    if not changed:
        return
    places: dict[str, list[str]] = {}
    for key, place in unset_keys(CLUSTER_FILE, read(path)[0]):
        if key in changed:
            places.setdefault(key, []).append(place)
    for key, found in sorted(places.items()):
        keep = f"{found[0]}: {_text(before[key])} in the cluster file"
        yield ChangedDefault(key, _text(before[key]), _text(now[key]), keep, tuple(found))


def unset_keys(
    rule: Field, value: object, key: str = "", path: tuple[str | int, ...] = ()
) -> Iterator[tuple[str, str]]:
    """Yield each key with a default that a file leaves out: as the reference writes it, and its place in the file.

    `value` is the data at `path`; a section that is left out and has no default has no keys in force.
    """
    given = {rule.short: value} if rule.short and isinstance(value, str) else value
    for name, below in rule.fields.items():
        here = given.get(name) if isinstance(given, Mapping) else None
        at, known = (*path, name), f"{key}.{name}" if key else name
        if below.type == "section":
            if here is not None or below.default is not None:
                yield from unset_keys(below, here, known, at)
        elif below.type == "map" and below.item and isinstance(here, Mapping):
            for entry, inner in here.items():
                yield from unset_keys(below.item, inner, f"{known}.{ANY}", (*at, entry))
        elif below.type == "list" and below.item and here is not None:
            for number, inner in enumerate(here if isinstance(here, list) else [here]):
                yield from unset_keys(below.item, inner, known, (*at, number))
        elif below.default is not None and here is None:
            yield known, dotted(at)


def _versions(
    before: Mapping[str, Sequence[str]], now: Mapping[str, Sequence[str]], cluster: Cluster
) -> Iterator[ChangedDefault]:
    """Yield the branches of `gpu_stack` whose latest known version is another one."""
    found: dict[tuple[str, str, str, str, str], list[str]] = {}
    for name, profile in cluster.profiles.items():
        for key, branch, table in _branches(profile.gpu_stack):
            old, new = (latest(versions.get(table, ()), branch) for versions in (before, now))
            if old and new and old != new:
                place = f"profiles.{name}.gpu_stack" if _states(cluster, name, key) else "gpu_stack"
                found.setdefault((f"{place}.{key}", key, branch, old, new), []).append(f"profile {name}")
    for (place, key, branch, old, new), places in found.items():
        keep = f'{place}: "{old}" in the cluster file'
        yield ChangedDefault(f'gpu_stack.{key} "{branch}"', old, new, keep, tuple(places))


def _states(cluster: Cluster, profile: str, key: str) -> bool:
    """Return whether a profile has its own key of gpu_stack."""
    stack = read(cluster.path)[0]["profiles"][profile].get("gpu_stack")
    return isinstance(stack, Mapping) and key in stack


def _branches(stack: GpuStack | None) -> Iterator[tuple[str, str, str]]:
    """Yield key, what the file says, and the name among `versions`, of what may be a branch."""
    # A lock has the versions of its own, whatever a release knows.
    if stack is not None and stack.lock is None:
        yield "driver", stack.driver, driver_name(stack.source, stack.os)
        yield from ((key, value, key) for key, value in (("dcgm", stack.dcgm), ("nccl", stack.nccl)) if value)


def latest(versions: Sequence[str], branch: str) -> str:
    """Return the latest version of a branch; "" if the branch lacks one.

    >>> latest(["580.65.06", "580.126.09", "590.48.01"], "580"), latest(["580.65.06"], "570")
    ('580.126.09', '')
    """
    wanted = branch.partition("-")[0]
    fits = [one for one in versions if one == wanted or one.startswith(f"{wanted}.")]
    return max(fits, key=release_numbers, default="")


def _text(value: object) -> str:
    """Return a value as YAML has it."""
    if value is None:
        return "not set"
    return repr(value) if isinstance(value, str) else json.dumps(value)
