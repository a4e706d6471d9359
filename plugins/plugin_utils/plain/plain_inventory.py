# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the cluster of an inventory without a cluster file: from its groups and variables, checked by the rules of the cluster file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any

from ..cluster import Cluster, Services
from ..cluster.build_cluster import build
from ..cluster.schema.cluster_file import CLUSTER_FILE
from ..cluster.schema.fields import Mistake, Mistakes, Path, dotted, walk

SERVICES = {
    "controllers": "slurm_controllers",
    "database": "slurm_database",
    "login": "slurm_login",
    "rest": "slurm_rest",
    "subnet_managers": "subnet_managers",
}
"""Service of a cluster file -> group of the inventory."""
NODES = "compute_nodes"
"""Group of the nodes."""
SLURM = ("version", "packages", "users", "options", "cgroup", "slurmdbd", "qos", "accounts", "scripts")
"""Keys of the section `slurm` of a cluster file; each is the variable slurm_<key> here."""
_RACK = "inventory"
# A machine that does not run Slurm need not say what Slurm counts.
_UNCOUNTED = {"sockets": 1, "cores_per_socket": 1, "memory_mib": 1024}


class PlainInventoryError(ValueError):
    """Variables that cannot be; a line for each mistake."""


@dataclass(frozen=True)
class PlainHost:
    """A host: its IPv4 address, and `bedplate_hardware` with the keys of a profile; None where it is not set."""

    address: str
    hardware: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class PlainInventory:
    """Groups and variables of an inventory.

    `directory`: absolute, where relative paths of key files and scripts start. `hosts`: those of the groups, in the order of the
    inventory. `nodes`: names of those that run jobs. `services`: service -> names. `slurm`: key of the cluster file's section -> value.
    `partitions`: as in a cluster file; None is one of all nodes.
    """

    directory: str
    cluster: str
    hosts: Mapping[str, PlainHost]
    nodes: Sequence[str]
    services: Mapping[str, Sequence[str]] = field(default_factory=dict)
    slurm: Mapping[str, Any] = field(default_factory=dict)
    partitions: Mapping[str, Any] | None = None
    domain: str | None = None

    @property
    def has_slurm(self) -> bool:
        """Return whether the inventory has a controller."""
        return bool(self.services.get("controllers"))


class VariableMistakes(Mistakes):
    """Mistakes whose place is a variable: `names` has the variable of each path; the longest matching path is used."""

    def __init__(self, data: Any, names: Mapping[Path, str]) -> None:
        super().__init__(dict.fromkeys(_paths(data, ()), 1))
        self._names = names

    def place(self, path: Path) -> str:
        """Return the host and variable of a path, such as "host gpu01: bedplate_hardware.sockets"."""
        for length in range(len(path), 0, -1):
            if name := self._names.get(path[:length]):
                rest = dotted(path[length:]) if path[length:] else ""
                return f"{name}.{rest}".replace(".[", "[") if rest else name
        return dotted(path)

    def texts(self) -> list[str]:
        """Return a line for each mistake."""
        return [_line(one) for one in self.found]


def _line(mistake: Mistake) -> str:
    return f"{mistake.where}: {mistake.message}"


def plain_cluster(inventory: PlainInventory) -> Cluster:
    """Return the cluster of an inventory. PlainInventoryError has all its mistakes."""
    if inventory.has_slurm and not inventory.nodes:
        raise PlainInventoryError(f"group {NODES}: has no host, so no job could run. Add the nodes of Slurm to it.")
    inventory, unset = _with_hardware(inventory)
    document, names = _document(inventory)
    mistakes = VariableMistakes(document, names)
    path = str(FilePath(inventory.directory) / "inventory")
    cluster = build(path, walk(document, CLUSTER_FILE, (), mistakes), mistakes)
    if unset or mistakes.found:
        raise PlainInventoryError("\n".join([*unset, *mistakes.texts()]))
    if not inventory.has_slurm:
        cluster.services = Services((), (), (), (), cluster.services.subnet_managers)
        cluster.partitions = {}
    return cluster


def _with_hardware(inventory: PlainInventory) -> tuple[PlainInventory, list[str]]:
    """Return the inventory with a stand-in for hardware that is not set where Slurm counts it, and the mistake of these hosts."""
    unset = [name for name in inventory.nodes if inventory.hosts[name].hardware is None and inventory.has_slurm]
    if not unset:
        return inventory, []
    hosts = {
        name: replace(host, hardware=_UNCOUNTED) if name in unset else host for name, host in inventory.hosts.items()
    }
    text = (
        f"host {_first(unset)}: bedplate_hardware: is not set. Set the keys of a profile of the cluster file, such as "
        "{sockets: 2, cores_per_socket: 56, memory_mib: 2063000}."
    )
    return replace(inventory, hosts=hosts), [text]


def _first(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _document(inventory: PlainInventory) -> tuple[dict[str, Any], dict[Path, str]]:
    """Return what a cluster file of this inventory would have, and the variable of each path."""
    names: dict[Path, str] = {("cluster",): "bedplate_cluster", ("domain",): "bedplate_domain"}
    nodes = [name for name in inventory.hosts if name in set(inventory.nodes)]
    profiles, profile_of = _profiles(inventory, nodes, names)
    entries = []
    for number, name in enumerate(nodes):
        host = inventory.hosts[name]
        entries.append({"names": name, "profile": profile_of[name], "address": host.address})
        names["racks", _RACK, "nodes", number] = f"host {name}"
        names["racks", _RACK, "nodes", number, "address"] = f"host {name}: bedplate_address"
    hosts = {name: {"address": host.address} for name, host in inventory.hosts.items() if name not in profile_of}
    for name in hosts:
        names["hosts", name] = f"host {name}"
        names["hosts", name, "address"] = f"host {name}: bedplate_address"
    names |= {("slurm", key): f"slurm_{key}" for key in SLURM}
    names["partitions",] = "slurm_partitions"
    names |= {("services", service): f"group {group}" for service, group in SERVICES.items()}
    services = {name: list(members) for name, members in inventory.services.items() if members}
    document = {
        "plugin": "bedplate.cluster.racks",
        "site": "inventory",
        "cluster": inventory.cluster,
        **({"domain": inventory.domain} if inventory.domain else {}),
        "networks": {"management": {"cidr": "0.0.0.0/0"}},
        "profiles": profiles,
        "racks": {_RACK: {"nodes": entries}},
        "hosts": hosts,
        # A cluster file names a controller; without Slurm none of this is used.
        "services": services if inventory.has_slurm else {**services, "controllers": [next(iter(inventory.hosts))]},
        "partitions": inventory.partitions
        if inventory.partitions is not None
        else {"all": {"nodes": "all", "default": True}},
        "slurm": {key: value for key, value in inventory.slurm.items() if value is not None},
    }
    return document, names


def _profiles(
    inventory: PlainInventory, nodes: Sequence[str], names: dict[Path, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the profiles, one for all nodes with equal hardware, and the profile of each node."""
    shared: list[tuple[Mapping[str, Any], list[str]]] = []
    for name in nodes:
        hardware = inventory.hosts[name].hardware or {}
        if not inventory.has_slurm:
            hardware = {**_UNCOUNTED, **hardware}
        found = next((members for known, members in shared if known == hardware), None)
        if found is None:
            shared.append((hardware, [name]))
        else:
            found.append(name)
    profiles: dict[str, Any] = {}
    profile_of: dict[str, str] = {}
    for number, (hardware, members) in enumerate(shared):
        profile = f"hardware{number}"
        profiles[profile] = dict(hardware)
        profile_of |= dict.fromkeys(members, profile)
        names["profiles", profile] = f"host {_first(members)}: bedplate_hardware"
    return profiles, profile_of


def _paths(value: Any, path: Path) -> Iterator[Path]:
    """Yield the path of each value."""
    yield path
    below = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, one in below:
        yield from _paths(one, (*path, key))


def to_data(inventory: PlainInventory) -> dict[str, Any]:
    """Return an inventory as plain data, as filters take it in place of the path of a cluster file."""
    return asdict(inventory)


def from_data(data: Mapping[str, Any]) -> PlainInventory:
    """Return the inventory of `to_data`. TypeError: other keys."""
    hosts = {name: PlainHost(**host) for name, host in data["hosts"].items()}
    return PlainInventory(**{**data, "hosts": hosts})


def with_profile(cluster: Cluster, host: str, profile: Any) -> Cluster:
    """Return the cluster with another profile on one node."""
    node = replace(cluster.node(host), profile=profile)
    found = replace(cluster)
    found.machines = {**cluster.machines, host: node}
    return found
