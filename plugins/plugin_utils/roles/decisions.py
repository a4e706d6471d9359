# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what a role deploys on a host: from the cluster file, the role's variables, and what was read on the host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..cluster import Cluster
from ..common.role_choices import defaults
from ..fabric.opensm import managers
from ..gpu_stack.parts import container_part, cuda_part, dcgm_part, driver_part
from ..gpu_stack.parts.container_part import PyxisHeaders
from ..gpu_stack.parts.part_plan import GpuSoftware, software_of
from ..health import health_control_part, node_health_part
from ..hosts import node_os_part
from ..parts.decision import Decision
from ..provision_host import image_part, provision_part
from ..rdma import rdma_part
from ..slurm import slurm_packages, slurm_part
from ..slurm.slurm_part import SlurmHost
from ..tuning import tuning_part


@dataclass(frozen=True)
class HostRequest:
    """The host for which a role decides.

    `choices` are the role's variables by what is behind `<role>_`. `reported` is what modules returned on the host, as far as they ran:
    the role's decision says which keys it reads. `groups` are those of the host. `login_user` is the user as whom Ansible logs in, or "".
    `check`: whether the run installs nothing. `gpu_by_table`: whether GPU software without a lock has the versions of bedplate's table.
    """

    cluster: Cluster
    host: str
    choices: Mapping[str, Any]
    reported: Mapping[str, Any] = field(default_factory=dict)
    groups: Collection[str] = ()
    login_user: str = ""
    check: bool = False
    gpu_by_table: bool = False

    def gpu_software(self) -> GpuSoftware | None:
        """Return the GPU software of the host; None for a host without any."""
        return software_of(self.cluster, self.host, self.gpu_by_table)


def decide(role: str, request: HostRequest) -> Decision:
    """Return the decision of a role for a host; an empty one where the role has nothing to do there.

    KeyError: no such role, or no such machine. ValueError: variables, or a cluster file, that cannot be.
    """
    return _DECISIONS[role](request) or Decision()


def decides(role: str) -> bool:
    """Return whether a role decides in Python."""
    return role in _DECISIONS


def _gpu_driver(request: HostRequest) -> Decision | None:
    wanted = request.gpu_software()
    if wanted is None:
        return None
    return driver_part.decide(wanted, request.cluster, request.host, request.choices, request.reported)


def _cuda(request: HostRequest) -> Decision | None:
    wanted = request.gpu_software()
    return cuda_part.decide(wanted) if wanted else None


def _dcgm(request: HostRequest) -> Decision | None:
    wanted = request.gpu_software()
    return dcgm_part.decide(wanted) if wanted else None


def _container_runtime(request: HostRequest) -> Decision:
    wanted, choices = request.gpu_software(), request.choices
    if not choices["pyxis"]:
        return container_part.decide(wanted, choices, PyxisHeaders(), request.reported)
    packages = list(choices["pyxis_packages"])
    if packages == defaults("container_runtime")["container_runtime_pyxis_packages"]:
        packages = slurm_packages.headers(request.cluster)
    follow = slurm_packages.values(request.cluster, [])["follow"]
    headers = PyxisHeaders(packages, follow, request.cluster.slurm.packages.manager)
    return container_part.decide(wanted, choices, headers, request.reported)


def _slurm(request: HostRequest) -> Decision:
    """Decide Slurm's parts.

    `reported` may have `in_use`, the answers of all controllers, `topology`, a topology.conf, `upgrade`, whether packages of another
    release are changed, `munge_pair`, whether munge gets two keys, and `left_out`, whether what a turn of keys has staged is removed.
    """
    host = SlurmHost(
        cluster=request.cluster,
        name=request.host,
        choices=request.choices,
        groups=request.groups,
        login_user=request.login_user,
        in_use=request.reported.get("in_use"),
        topology=request.reported.get("topology") or "",
        check=request.check,
        upgrade=bool(request.reported.get("upgrade")),
        munge_pair=bool(request.reported.get("munge_pair")),
        left_out=bool(request.reported.get("left_out")),
    )
    return slurm_part.decide(host)


_DECISIONS: dict[str, Callable[[HostRequest], Decision | None]] = {
    "node_tuning": lambda request: tuning_part.decide(request.cluster, request.host, request.choices),
    "rdma": lambda request: rdma_part.decide(request.cluster, request.host, request.choices),
    "gpu_driver": _gpu_driver,
    "cuda": _cuda,
    "dcgm": _dcgm,
    "container_runtime": _container_runtime,
    "slurm": _slurm,
    "health_control": lambda request: health_control_part.decide(request.cluster, request.host),
    "node_health": lambda request: node_health_part.decide(request.cluster, request.host, request.choices),
    "node_os": lambda request: node_os_part.decide(request.cluster, request.host, request.choices),
    "provision": lambda request: provision_part.decide(request.cluster, request.host, request.choices),
    "image": lambda request: image_part.decide(request.cluster, request.host, request.choices),
    "opensm": lambda request: managers.decide(request.cluster, request.host, request.choices, request.reported),
}
