# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hosts and groups from a cluster file."""

from __future__ import annotations

DOCUMENTATION = r"""
name: racks
short_description: Hosts and groups of a GPU cluster from one cluster file
version_added: 0.1.0
description:
  - Reads a cluster file, C(*.bedplate.yml), and makes of it all hosts with their addresses, and the groups V(bedplate) (all machines),
    V(compute_nodes), V(gpu_nodes), V(model_<gpu model>), V(rack_<rack>), V(partition_<partition>), V(slurm_controllers),
    V(slurm_database), V(slurm_login), V(slurm_rest) and V(subnet_managers). A C(-) in a name becomes C(_) in its group.
  - A host has one variable, C(ansible_host). The group V(all) has C(bedplate_cluster_file), C(bedplate_site) and C(bedplate_cluster).
    What else there is to know of a host is a filter away, P(bedplate.cluster.node#filter), since every variable of every host is paid
    for by every command.
  - All mistakes of a cluster file are reported at once, each with its line. With C(any_unparsed_is_failed) they end the command.
  - The keys are described in docs/cluster-file.md; docs/schema/cluster-file.schema.json is for editors.
extends_documentation_fragment: [ansible.builtin.constructed]
requirements: [netaddr]
options:
  plugin:
    description: Always V(bedplate.cluster.racks).
    required: true
    choices: [bedplate.cluster.racks]
author: The bedplate authors
"""

EXAMPLES = r"""
# lab.bedplate.yml
plugin: bedplate.cluster.racks
site: lab
cluster: lab
networks:
  management: {cidr: 10.213.0.0/24, gateway: 10.213.0.1, start: 10.213.0.11}
profiles:
  h100x8:
    gpus: {model: h100, count: 8}
    sockets: 2
    cores_per_socket: 56
    memory_mib: 2063000
racks:
  r[1-2]: {nodes: "gpu[01-04]", profile: h100x8}
hosts:
  ctl1: {address: 10.213.0.10}
services: {controllers: [ctl1], database: [ctl1]}
partitions:
  gpu: {nodes: all, default: true}
# ansible-inventory -i lab.bedplate.yml --graph rack_r1
# => @rack_r1:
# =>   |--gpu01
# =>   |--gpu02
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Constructable
from ansible.template import trust_as_template

try:
    from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load
except ImportError as error:  # netaddr or PyYAML
    IMPORT_ERROR: ImportError | None = error
else:
    IMPORT_ERROR = None

if TYPE_CHECKING:
    from ansible.inventory.data import InventoryData
    from ansible.parsing.dataloader import DataLoader

SUFFIXES = (".bedplate.yml", ".bedplate.yaml")
SERVICES = {
    "slurm_controllers": "controllers",
    "slurm_database": "database",
    "slurm_login": "login",
    "slurm_rest": "rest",
    "subnet_managers": "subnet_managers",
}


def group_name(prefix: str, name: str) -> str:
    """Return a valid group name.

    >>> group_name("rack", "a-01")
    'rack_a_01'
    """
    return f"{prefix}_{name}".replace("-", "_").lower()


def groups_of(cluster: Cluster) -> dict[str, list[str]]:
    """Return every group with the names of its hosts, in the order of the file."""
    groups: dict[str, list[str]] = {"bedplate": list(cluster.machines), "compute_nodes": [], "gpu_nodes": []}
    groups |= {group: list(getattr(cluster.services, service)) for group, service in SERVICES.items()}
    racks: dict[str, list[str]] = {name: [] for name in cluster.racks}
    for node in cluster.nodes:
        groups["compute_nodes"].append(node.name)
        racks[node.rack.name].append(node.name)
        if node.profile.gpus:
            groups["gpu_nodes"].append(node.name)
            groups.setdefault(group_name("model", node.profile.gpus.model), []).append(node.name)
    groups |= {group_name("rack", name): members for name, members in racks.items()}
    groups |= {group_name("partition", part.name): list(part.nodes) for part in cluster.partitions.values()}
    return groups


class InventoryModule(BaseInventoryPlugin, Constructable):  # type: ignore[misc]
    """The plugin."""

    NAME = "bedplate.cluster.racks"

    def verify_file(self, path: str) -> bool:
        """Take cluster files by their suffix."""
        return bool(super().verify_file(path)) and path.endswith(SUFFIXES)

    def parse(self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True) -> None:
        """Add the hosts and groups of a cluster file."""
        super().parse(inventory, loader, path, cache)
        if IMPORT_ERROR:
            raise AnsibleParserError(
                f"bedplate.cluster.racks needs a Python library on the control node: {IMPORT_ERROR}"
            )
        try:
            cluster = load(path)
        except ClusterFileError as error:
            count = len(error.mistakes)
            raise AnsibleParserError(f"{count} mistake{'s' * (count > 1)} in the cluster file:\n{error}") from None
        if "bedplate_cluster_file" in inventory.groups["all"].vars:
            other = inventory.groups["all"].vars["bedplate_cluster_file"]
            raise AnsibleParserError(f"{path}: the inventory has another cluster file, {other}; there can be one.")
        self._populate(cluster)
        if cluster.constructed:
            self._construct(cluster)

    def _populate(self, cluster: Cluster) -> None:
        inventory = self.inventory
        variables = {
            "bedplate_cluster_file": cluster.path,
            "bedplate_site": cluster.site,
            "bedplate_cluster": cluster.name,
        }
        inventory.groups["all"].vars.update({name: trust_as_template(text) for name, text in variables.items()})
        for name, machine in cluster.machines.items():
            inventory.add_host(name)
            # Straight into the variables: set_variable costs more than all the rest. Without the tag, programs that read
            # `ansible-inventory --list` would find a mapping where they expect an address.
            inventory.hosts[name].vars["ansible_host"] = trust_as_template(machine.address)
        for group, members in groups_of(cluster).items():
            inventory.add_group(group)
            _add_hosts(inventory.groups[group], [inventory.hosts[name] for name in members])

    def _construct(self, cluster: Cluster) -> None:
        options = cluster.constructed
        strict = bool(options.get("strict"))
        for name, host in self.inventory.hosts.items():
            variables = {**self.inventory.groups["all"].vars, **host.vars, "inventory_hostname": name}
            self._set_composite_vars(options.get("compose"), variables, name, strict=strict)
            variables |= host.vars
            self._add_host_to_composed_groups(options.get("groups"), variables, name, strict=strict)
            self._add_host_to_keyed_groups(options.get("keyed_groups"), variables, name, strict=strict)


def _add_hosts(group: Any, hosts: list[Any]) -> None:
    """Add hosts to a group."""
    for host in hosts:
        group.add_host(host)
