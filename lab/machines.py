# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines to boot: read from the cluster file, the only source of truth."""

from __future__ import annotations

import ipaddress
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.paths import CLUSTER_SUFFIX, ROOT
from lab.shell import LabError

RELEASES = {"debian-12": "bookworm", "debian-13": "trixie", "ubuntu-22.04": "bookworm", "ubuntu-24.04": "trixie"}
"""System of a GPU stack -> release of Debian, for Ubuntu the one whose apt and DKMS are nearest."""
DEFAULT_RELEASE = "trixie"


@dataclass(frozen=True)
class Machine:
    """One container to be: its name, its address, how many GPUs it pretends to have, the Debian that it boots."""

    name: str
    address: str
    gpus: int = 0
    release: str = DEFAULT_RELEASE
    # Whether a driver is compiled there.
    compiles: bool = False
    # What lies in /srv/vendor, read-only; served to the others by HTTP.
    shared: str = ""
    serves: bool = False
    # Whether it boots with what compiling takes.
    compiler: bool = False
    # StateSaveLocation, where it shares that with the other controllers.
    state: str = ""


@dataclass(frozen=True)
class Plan:
    """The machines of one lab and the network they share."""

    subnet: ipaddress.IPv4Network
    machines: tuple[Machine, ...]
    controller: str = ""


def cluster_file(inventory: Path) -> Path:
    """Return the cluster file of an inventory, which is a folder or the file itself."""
    if inventory.is_file():
        return inventory
    found = sorted(inventory.glob(f"*{CLUSTER_SUFFIX}"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise LabError(f"{inventory}: exactly one *{CLUSTER_SUFFIX} is needed here; found: {names}")
    return found[0]


def gpu_sections(path: Path) -> dict[str, dict[str, Any]]:
    """Return profile -> its gpu_stack as the cluster file has it, for profiles with GPUs: the profile's keys before the cluster's.

    Read as it is: the keys that it names, which the model wants to see, may not have been written yet. A mistake is the model's to tell.
    """
    import yaml

    try:
        data = yaml.safe_load(path.read_text())
        profiles = data.get("profiles") or {}
        common = data.get("gpu_stack") or {}
        return {
            name: {**common, **(profile.get("gpu_stack") or {})}
            for name, profile in profiles.items()
            if profile.get("gpus")
        }
    except (yaml.YAMLError, AttributeError, TypeError):
        return {}


def read(inventory: Path, shared: Path | None = None, compiler: bool = False) -> Plan:
    """Read the machines of an inventory from its cluster file.

    `shared` is a folder of this machine that they see; with `compiler` those that compile a driver boot with what that takes.
    """
    path = cluster_file(inventory)
    # The model is bedplate's own; the link tree makes it importable without an installed collection.
    sys.path.insert(0, str(ROOT / "collections"))
    from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load

    try:
        cluster = load(str(path))
    except ClusterFileError as problem:
        raise LabError(str(problem)) from None
    machines = [Machine(host.name, host.address) for host in cluster.hosts.values()]
    sections = gpu_sections(path)
    for node in cluster.nodes:
        gpus = node.profile.gpus
        stack = sections.get(node.profile.name, {})
        release = RELEASES.get(stack.get("os", ""), DEFAULT_RELEASE)
        machines.append(Machine(node.name, node.address, gpus.count if gpus else 0, release, bool(stack)))
    if compiler:
        machines = [replace(one, compiler=one.compiles) for one in machines]
    if shared:
        machines = [replace(one, shared=str(shared), serves=one is machines[0]) for one in machines]
    controllers = cluster.services.controllers
    if len(controllers) > 1:
        # The storage that a site with two controllers has; the model has made sure that it is stated.
        state = str(next(value for key, value in cluster.slurm.options.items() if key.lower() == "statesavelocation"))
        machines = [replace(one, state=state) if one.name in controllers else one for one in machines]
    controller = next(iter(controllers), "")
    networks = [ipaddress.ip_network(network.cidr) for network in cluster.networks.values()]
    return Plan(common_network(machines, networks), tuple(machines), controller)


def common_network(
    machines: list[Machine], networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network]
) -> ipaddress.IPv4Network:
    """Return the one network of the cluster file that holds every machine's address."""
    for network in networks:
        if isinstance(network, ipaddress.IPv4Network) and all(
            ipaddress.ip_address(machine.address) in network for machine in machines
        ):
            return network
    raise LabError("The machines of a lab must share one IPv4 network of the cluster file; these do not.")
