# SPDX-License-Identifier: GPL-3.0-or-later
"""What verify expects of one machine: the parts of plugins/module_utils/verify/readers.py, made for all roles at once.

Parts of single roles are what the roles' own filters return as `expected`. These three span all roles; each of their rows has the `role`
that deploys it, for the remedy:

- `files`: {"files": [row]}; a row is an entry of bedplate.cluster.files as it ends up on the machine: path, state (file, directory, link,
  block), owner, group, mode, target; `sha256` of a file's content, null where it is not known here; `content` and `manifest` of a block.
- `units`: {"units": [row]}; a row is an entry of bedplate.cluster.units.
- `packages`: {"manager": "apt" or "dnf", "packages": [row]}; a row has name, version ("" where none is stated) and held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding

from ..cluster import Cluster
from ..hosts.machine_facts import os_expected
from . import slurm_expected
from .host_variables import RoleVariables

Deployments = Iterable[tuple[str, Mapping[str, Any]]]
"""Role and arguments of each of its tasks with bedplate.cluster.deploy."""

ROLES = ("node_os", "node_tuning", "rdma", "gpu_driver", "cuda", "dcgm", "container_runtime", "slurm", "opensm")
TAGS = {
    "os": ("node_os",),
    "interconnect": ("opensm",),
    "scheduler": ("slurm",),
    "tuning": ("node_tuning",),
    "rdma": ("rdma",),
    "gpu": ("gpu_driver", "cuda", "dcgm", "container_runtime"),
}
"""Tag of a play of site.yml -> roles that verify compares with it alone."""

# Packages of these roles are compared by their own readers, with the versions of the set.
_OWN_PACKAGES = ("gpu_driver", "cuda", "dcgm", "container_runtime", "rdma")


@dataclass
class Expected:
    """The expectations of a machine by part, and what stood in the way of making them."""

    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    deployments: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class ExpectedHost:
    """A machine of the cluster file, the variables of its roles, and what its controller keeps for jobs."""

    cluster: Cluster
    name: str
    variables: RoleVariables
    kept: Mapping[str, Any]


def expected(host: ExpectedHost, roles: Iterable[str]) -> Expected:
    """Return what is expected of a machine. A role whose expectations cannot be made is a finding; the others are there."""
    found = Expected()
    for role in roles:
        if role not in _PARTS:
            continue
        try:
            _PARTS[role](host, found)
        except Exception as error:
            text = str(getattr(error, "message", None) or error)
            remedy = "correct the variables of the role; playbooks/validate.yml names them"
            found.findings.append(Finding("unread", f"role {role}", "to be compared", text, remedy))
    return found


def rows(deployments: Deployments, content: Callable[[str, Mapping[str, Any]], Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parts `files`, `units` and `packages` of all deployments; `content` returns what a file or block holds."""
    files: list[dict[str, Any]] = []
    units: list[dict[str, Any]] = []
    packages: list[dict[str, Any]] = []
    manager = "apt"
    for role, told in deployments:
        if told.get("state") == "absent":
            continue
        manager = told.get("manager", manager)
        manifest = told.get("manifest", "")
        entries = [*told.get("sources", []), *told.get("files", [])]
        files += [{"role": role, "manifest": manifest, **content(role, entry)} for entry in entries]
        units += [{"role": role, **unit} for unit in told.get("units", [])]
        if role not in _OWN_PACKAGES:
            held = told.get("hold", [])
            packages += [_package(role, one, held) for one in told.get("packages", [])]
    return {
        "files": {"files": files},
        "units": {"units": units},
        "packages": {"manager": manager, "packages": packages},
    }


def _package(role: str, text: str, held: Iterable[str]) -> dict[str, Any]:
    name, _, version = text.partition("=")
    return {"role": role, "name": name, "version": version, "held": name in held}


def _node_os(host: ExpectedHost, found: Expected) -> None:
    value = host.variables.value
    told = {
        "manifest": "node_os",
        "files": [*value("node_os", "__node_os_hosts_files"), *value("node_os", "__node_os_time_files")],
        "packages": value("node_os", "__node_os_packages"),
        "units": value("node_os", "__node_os_time_units"),
    }
    found.deployments.append(("node_os", told))
    servers = value("node_os", "node_os_time_servers")
    hosts = bool(value("node_os", "node_os_manage_hosts"))
    found.parts["node_os"] = os_expected(host.cluster, host.name, servers, hosts)


def _settings(role: str) -> Callable[[ExpectedHost, Expected], None]:
    def parts(host: ExpectedHost, found: Expected) -> None:
        wanted = host.variables.value(role, f"__{role}_wanted")
        if wanted:
            found.parts[role] = wanted["expected"]
            found.deployments.append((role, wanted["deploy"]))

    return parts


def _gpu_driver(host: ExpectedHost, found: Expected) -> None:
    wanted = host.variables.value("gpu_driver", "__gpu_driver_wanted")
    if wanted:
        found.parts["gpu_driver"] = wanted["expected"]
        # Units of the driver depend on what runs; its own reader compares them.
        install = {"manifest": "gpu_driver_packages", "sources": wanted["pins"], "files": wanted["files"]}
        found.deployments += [("gpu_driver", {**wanted["prepare"], "units": []}), ("gpu_driver", install)]


def _gpu(role: str) -> Callable[[ExpectedHost, Expected], None]:
    def parts(host: ExpectedHost, found: Expected) -> None:
        wanted = host.variables.value(role, f"__{role}_wanted")
        if wanted and wanted.get("packages"):
            found.parts[role] = wanted["expected"]
            found.deployments.append((role, {**wanted["deploy"], "units": []}))

    return parts


def _containers(host: ExpectedHost, found: Expected) -> None:
    wanted = host.variables.value("container_runtime", "__container_runtime_wanted")
    if wanted["packages"]:
        found.parts["container_toolkit"] = wanted["expected"]
        found.parts["containers"] = wanted["asked"]
        found.deployments.append(("container_runtime", wanted["deploy"]))


def _slurm(host: ExpectedHost, found: Expected) -> None:
    parts, deployments = slurm_expected.expected(host.cluster, host.name, host.variables, host.kept)
    found.parts.update(parts)
    found.deployments += deployments


_PARTS: dict[str, Callable[[ExpectedHost, Expected], None]] = {
    "node_os": _node_os,
    "node_tuning": _settings("node_tuning"),
    "rdma": _settings("rdma"),
    "gpu_driver": _gpu_driver,
    "cuda": _gpu("cuda"),
    "dcgm": _gpu("dcgm"),
    "container_runtime": _containers,
    "slurm": _slurm,
}
