# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the cluster that a host's variables describe: of its cluster file, or of an inventory without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import AddressValueError, IPv4Address
from typing import Any

from ..cluster import Cluster, Node, load
from ..common.role_interfaces import has_template
from .plain_inventory import (
    NODES,
    SERVICES,
    SLURM,
    PlainHost,
    PlainInventory,
    PlainInventoryError,
    plain_cluster,
    with_profile,
)
from .requested_stack import STACK, VARIABLES, requested_profile

FILE = "bedplate_cluster_file"
HARDWARE = "bedplate_hardware"
ADDRESS = "bedplate_address"
PARTITIONS = "slurm_partitions"
CLUSTER = "bedplate_cluster"
DOMAIN = "bedplate_domain"
CLUSTER_WIDE = (*(f"slurm_{key}" for key in SLURM), PARTITIONS)
"""Variables that a cluster file has in its sections `slurm` and `partitions`."""
OF_FILE = (HARDWARE, DOMAIN, *CLUSTER_WIDE)
"""Variables that are refused beside a cluster file."""
_WHOLE = ("slurm", "node_os", "opensm")
# Roles that write the address of the host.
_NEED_ADDRESS = (*_WHOLE, "rdma")
# In a network for documentation (RFC 5737): no role that gets it writes it.
_NO_ADDRESS = "192.0.2.1"

Template = Callable[[Any], Any]


def host_cluster(role: str, variables: Mapping[str, Any], template: Template) -> Cluster:
    """Return the cluster for a role on a host. ClusterFileError, PlainInventoryError: mistakes in the file or in variables."""
    host = str(variables["inventory_hostname"])
    if variables.get(FILE):
        cluster = load(str(template(variables[FILE])))
        _refuse_cluster_wide(cluster, variables)
    else:
        cluster = plain_cluster(plain_inventory(role, variables, template))
    settings = {
        name: template(variables[name]) if has_template(variables[name]) else variables[name]
        for name in (STACK, *VARIABLES)
        if variables.get(name) is not None
    }
    if not settings:
        return cluster
    machine = cluster.machine(host)
    if not isinstance(machine, Node):
        return cluster
    return with_profile(cluster, host, requested_profile(machine.profile, settings, cluster.path, host))


def run_cluster(variables: Mapping[str, Any], template: Template) -> Cluster | None:
    """Return the cluster of a run from the variables of any of its hosts; None without a cluster file and without Slurm."""
    if variables.get(FILE):
        return load(str(template(variables[FILE])))
    controllers = variables["groups"].get(SERVICES["controllers"])
    if not controllers:
        return None
    own = dict(variables["hostvars"][controllers[0]])
    return host_cluster("slurm", {**own, "groups": variables["groups"], "hostvars": variables["hostvars"]}, template)


def _refuse_cluster_wide(cluster: Cluster, variables: Mapping[str, Any]) -> None:
    found = [beside_file(name, cluster) for name in OF_FILE if variables.get(name) is not None]
    if found:
        raise PlainInventoryError("\n".join(found))


def beside_file(name: str, cluster: Cluster) -> str:
    """Return the mistake of a variable of OF_FILE in an inventory with a cluster file."""
    keys = {HARDWARE: "profiles", DOMAIN: "domain", PARTITIONS: "partitions"}
    key = keys.get(name, name.replace("_", ".", 1))
    return f"{name}: this inventory has a cluster file. Set `{key}` of {cluster.path} instead."


def plain_inventory(role: str, variables: Mapping[str, Any], template: Template) -> PlainInventory:
    """Return groups and variables of an inventory without a cluster file.

    They are those of the host alone, or of all machines for roles that need them.
    """
    host = str(variables["inventory_hostname"])
    directory = str(variables.get("inventory_dir") or variables.get("playbook_dir") or "/")
    name = str(template(variables.get(CLUSTER) or "cluster"))
    if role not in _WHOLE:
        own = _host(host, lambda key: template(variables.get(key)), needs_address=role in _NEED_ADDRESS)
        return PlainInventory(directory, name, {host: own}, [host])
    groups, hostvars = variables["groups"], variables["hostvars"]
    services = {service: [str(one) for one in groups.get(group, ())] for service, group in SERVICES.items()}
    nodes = [str(one) for one in groups.get(NODES, ())]
    names = list(dict.fromkeys([*(one for members in services.values() for one in members), *nodes]))
    if host not in names:
        allowed = ", ".join([*SERVICES.values(), NODES])
        raise PlainInventoryError(f"host {host}: no group says what it is for. Allowed: {allowed}.")
    settings = _cluster_wide(names, hostvars)
    return PlainInventory(
        directory,
        name,
        _hosts(names, hostvars),
        nodes,
        services,
        {key: settings[f"slurm_{key}"] for key in SLURM},
        settings[PARTITIONS],
        settings[DOMAIN],
    )


def _hosts(names: list[str], hostvars: Mapping[str, Any]) -> dict[str, PlainHost]:
    """Return the hosts. PlainInventoryError: mistakes of all of them."""
    found, mistakes = {}, []
    for name in names:
        try:
            found[name] = _host(name, hostvars[name].get, needs_address=True)
        except PlainInventoryError as error:
            mistakes.append(str(error))
    if mistakes:
        raise PlainInventoryError("\n".join(mistakes))
    return found


def _host(name: str, value: Callable[[str], Any], needs_address: bool) -> PlainHost:
    stated = value(ADDRESS)
    address = str(stated or value("ansible_host") or name)
    try:
        IPv4Address(address)
    except AddressValueError:
        if needs_address or stated:
            where = ADDRESS if stated else f"{ADDRESS} is not set, and ansible_host"
            text = f"host {name}: {where}: {address!r} is not an IPv4 address. Set {ADDRESS}, such as 10.20.1.11."
            raise PlainInventoryError(text) from None
        address = _NO_ADDRESS
    hardware = value(HARDWARE)
    return PlainHost(address, _plain(hardware) if hardware is not None else None)


def _cluster_wide(names: list[str], hostvars: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of the whole cluster. PlainInventoryError: hosts do not agree."""
    found, mistakes = {}, []
    # Also the name: machines of another name would have another directory of secrets, and so another munge key.
    for variable in (CLUSTER, DOMAIN, *CLUSTER_WIDE):
        values = {name: _plain(hostvars[name].get(variable)) for name in names}
        first = values[names[0]]
        other = next((name for name, one in values.items() if one != first), None)
        if other:
            mistakes.append(
                f"{variable}: host {names[0]} and host {other} have different values. Set it for the group all."
            )
        found[variable] = first
    if mistakes:
        raise PlainInventoryError("\n".join(mistakes))
    return found


def _plain(value: Any) -> Any:
    """Return a value of Ansible as plain Python data, each template in it rendered."""
    if isinstance(value, Mapping):
        return {_plain(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value
