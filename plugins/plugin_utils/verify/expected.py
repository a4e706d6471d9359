# SPDX-License-Identifier: GPL-3.0-or-later
"""Expectations of verify for one machine: the parts of plugins/module_utils/verify/readers.py, made for all roles at once.

Parts of single roles are what the roles' own filters return as `expected`. These three span all roles; each of their rows has the `role`
that deploys it, for the remedy:

- `files`: {"files": [row]}; a row is an entry of bedplate.cluster.files as it ends up on the machine: path, state (file, directory, link,
  block), owner, group, mode, target; `sha256` of a file's content, null where it is not known here; `content` and `manifest` of a block.
- `units`: {"units": [row]}; a row is an entry of bedplate.cluster.units.
- `packages`: {"manager": "apt" or "dnf", "packages": [row]}; a row has name, version ("" where none is stated) and held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding

from ..cluster import Cluster
from . import slurm_expected
from .host_variables import RoleVariables

Deployments = Iterable[tuple[str, Mapping[str, Any]]]
"""Role and arguments of each of its tasks with bedplate.cluster.deploy."""

ROLES = (
    "node_os",
    "node_tuning",
    "rdma",
    "gpu_driver",
    "cuda",
    "dcgm",
    "container_runtime",
    "slurm",
    "opensm",
    "node_health",
    "health_control",
    "provision",
    "image",
)
APART = ("provision", "image")
"""Roles of provision_host.yml: site.yml does not deploy them, so its end does not compare them."""
BEFORE_REBOOT = "gpu_driver_before_reboot"
"""Compared on request alone: the driver before a reboot."""
TAGS = {
    "os": ("node_os",),
    "interconnect": ("opensm",),
    "scheduler": ("slurm",),
    "tuning": ("node_tuning",),
    "rdma": ("rdma",),
    "gpu": ("gpu_driver", "cuda", "dcgm", "container_runtime"),
    "health": ("node_health", "health_control"),
}
"""Tag of a play of site.yml -> roles that verify compares with it alone."""

# Packages of these roles are compared by their own readers, with the versions of the set.
_OWN_PACKAGES = ("gpu_driver", "cuda", "dcgm", "container_runtime", "rdma")
# Units of GPU software run only where this driver does; their own reader compares them.
_OWN_UNITS = ("gpu_driver", "cuda", "dcgm")


@dataclass
class Expected:
    """The expectations of a machine by part, and the reasons of missing ones."""

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
        files += [{"role": role, **row, **content(role, entry)} for row, entry in _drop_ins(told)]
        if role not in _OWN_UNITS:
            units += [{"role": role, **unit} for unit in told.get("units", [])]
        if role not in _OWN_PACKAGES:
            held = told.get("hold", [])
            packages += [_package(role, one, held) for one in told.get("packages", [])]
    return {
        "files": {"files": files},
        "units": {"units": units},
        "packages": {"manager": manager, "packages": packages},
    }


def _drop_ins(told: Mapping[str, Any]) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Return the manifest and the file of each drop-in of a deployment."""
    for unit in told.get("units", []):
        for name, text in (unit.get("drop_ins") or {}).items():
            path = f"/etc/systemd/system/{unit['name']}.d/{name}"
            yield {"manifest": f"drop_ins:{unit['name']}"}, {"path": path, "content": text}


def _package(role: str, text: str, held: Iterable[str]) -> dict[str, Any]:
    name, _unused, version = text.partition("=")
    return {"role": role, "name": name, "version": version, "held": name in held}


def _decided(role: str) -> Callable[[ExpectedHost, Expected], None]:
    """Return what makes the expectations of a role that decides in Python."""

    def parts(host: ExpectedHost, found: Expected) -> None:
        decided = host.variables.decision(role)
        found.parts.update(decided.decision.expected)
        found.deployments += [(role, one) for one in decided.deployments() if decided.decision.expected]

    return parts


def _before_reboot(host: ExpectedHost, found: Expected) -> None:
    """Expect what the driver needs for the next boot, and nothing else."""
    decided = host.variables.decision("gpu_driver")
    if decided.decision.expected:
        found.parts[BEFORE_REBOOT] = decided.decision.expected["gpu_driver"]


def _slurm(host: ExpectedHost, found: Expected) -> None:
    parts, deployments = slurm_expected.expected(host.cluster, host.name, host.variables, host.kept)
    found.parts.update(parts)
    found.deployments += deployments
    if one := slurm_expected.stopped_primary(host.cluster, host.name, host.kept):
        found.findings.append(one)


_PARTS: dict[str, Callable[[ExpectedHost, Expected], None]] = {
    "node_os": _decided("node_os"),
    "node_tuning": _decided("node_tuning"),
    "rdma": _decided("rdma"),
    "gpu_driver": _decided("gpu_driver"),
    BEFORE_REBOOT: _before_reboot,
    "cuda": _decided("cuda"),
    "dcgm": _decided("dcgm"),
    "container_runtime": _decided("container_runtime"),
    "slurm": _slurm,
    "node_health": _decided("node_health"),
    "health_control": _decided("health_control"),
    "provision": _decided("provision"),
    "image": _decided("image"),
}
