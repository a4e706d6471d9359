# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hosts and groups from a cluster file."""

from __future__ import annotations

DOCUMENTATION = r"""
name: racks
short_description: Hosts and groups of a GPU cluster from one cluster file
version_added: 0.1.0
description:
  - Reads a cluster file, C(*.bedplate.yml), and adds all hosts with their addresses, and the groups V(bedplate) (all machines),
    V(compute_nodes), V(gpu_nodes), V(gpu_software), V(rdma_nodes), V(model_<gpu model>),
    V(rack_<rack>), V(partition_<partition>), V(slurm_controllers),
    V(slurm_database), V(slurm_login), V(slurm_rest), V(subnet_managers), V(provision_hosts), and V(slurm_script_hosts) (machines which have
    or check the scripts that slurm.conf names).
  - Group names are in small letters, and a C(-) in a name becomes C(_).
  - A host has one variable, C(ansible_host). The group V(all) has C(bedplate_cluster_file), C(bedplate_site) and C(bedplate_cluster).
    Further facts of a host are a filter, P(bedplate.cluster.node#filter), since every variable of every host is paid
    for by every command.
  - All mistakes of a cluster file are reported at once, each with its line. They end the command, before another
    plugin tries the file, unless C(any_unparsed_is_failed) is set to false; so this plugin is first in C(enable_plugins), or
    none of Ansible's own but V(auto) is before it.
  - All keys below these are in docs/cluster-file.md; docs/schema/cluster-file.schema.json is for editors.
  - Expressions in O(groups), O(keyed_groups) and O(compose) see what P(bedplate.cluster.node#filter) returns for each host.
extends_documentation_fragment: [ansible.builtin.constructed]
options:
  plugin:
    description: Always bedplate.cluster.racks.
    type: str
    required: true
    choices: [bedplate.cluster.racks]
  site:
    description: Name of the site.
    type: str
    required: true
  cluster:
    description: Slurm's ClusterName.
    type: str
    required: true
  domain:
    description: DNS domain of the machines.
    type: str
  networks:
    description: >-
      Networks by name. `management` is the one Ansible and Slurm use; `bmc`, if there, gives addresses to BMCs; in `provision` machines
      have an address while they are installed.
    type: dict
    required: true
  profiles:
    description: "Hardware profiles: the only place hardware is described."
    type: dict
    required: true
  racks:
    description: Racks by name; a hostlist is several racks alike, such as a[01-40].
    type: dict
    required: true
  hosts:
    description: "Machines outside the racks: controllers, login nodes."
    type: dict
  services:
    description: Which hosts do what; names or hostlists.
    type: dict
    required: true
  partitions:
    description: Slurm's partitions.
    type: dict
    required: true
  slurm:
    description: Slurm's release, options and accounts.
    type: dict
  fabric:
    description: The fabric; with it Slurm gets a tree topology.
    type: dict
  fabrics:
    description: >-
      Several fabrics by name, instead of `fabric`; each has the keys of `fabric`, and `subnet_managers`. Slurm has the topology of the
      first. A section without keys is a fabric without a plan.
    type: dict
  package_access:
    description: "How apt and dnf of all machines reach their repositories: proxy, certificates, passwords."
    type: dict
  gpu_stack:
    description: The GPU nodes' software, as one pinned set.
    type: dict
  snapshots:
    description: Dated copies of all repositories of the machines, from which alone they install.
    type: dict
  health:
    description: Nodes judge their health and report it, and the controllers drain sick ones within limits.
    type: dict
  monitoring:
    description: Files for the Prometheus that the site has.
    type: dict
  images:
    description: Images of operating systems by name, which are written on system disks.
    type: dict
  provision:
    description: "How machines are installed: the host that serves images, and limits of requests to BMCs."
    type: dict
author: The bedplate authors (!UNKNOWN)
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

import gc
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ansible import constants, context
from ansible.errors import AnsibleError, AnsibleParserError
from ansible.inventory.host import Host
from ansible.plugins.inventory import BaseInventoryPlugin, Constructable
from ansible.plugins.loader import action_loader, filter_loader
from ansible.template import trust_as_template
from ansible.utils.path import basedir

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_lock import lock_document
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts import inventory_folder
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.groups import groups_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.machine_facts import machine_facts

if TYPE_CHECKING:
    from ansible.inventory.data import InventoryData
    from ansible.parsing.dataloader import DataLoader

_DECISIONS = "ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.host_decision"
SUFFIXES = (".bedplate.yml", ".bedplate.yaml")
_OWN = re.compile(rb"""^plugin:[ \t]*["']?bedplate\.cluster\.racks\b""", re.MULTILINE)
# The key is among the first of a file; an inventory of others may be large, and every command would pay for it.
_HEAD = 1 << 16


def _names_this_plugin(path: str) -> bool:
    """Return whether a file names this plugin."""
    try:
        with Path(path).open("rb") as file:
            return bool(_OWN.search(file.read(_HEAD)))
    except OSError:
        return False


def _ends_the_command() -> bool:
    """Return whether a wrong cluster file ends the command: yes, unless the configuration excludes it.

    Installed as a collection there is no ansible.cfg that says so, and Ansible would go on without a host, with what five other plugins
    have to say of the file before and after its mistakes.
    """
    value, origin = constants.config.get_config_value_and_origin("INVENTORY_ANY_UNPARSED_IS_FAILED")
    return bool(value) or origin == "default"


class Preload:
    """Loads what nearly every task of a role needs, right before Ansible forks for the first of them.

    A fork takes over what is loaded and loses what it loads: without this each task on each host reads Ansible's own filters
    and the cluster's again, which is half of what a task costs that does nothing else. A command without tasks never forks.
    """

    def __init__(self) -> None:
        self.waits = False
        self.loaded = False

    def wait(self) -> None:
        """Load before the next fork; once in a process, however many inventories it reads."""
        if not self.waits:
            self.waits = True
            os.register_at_fork(before=self.load)

    def load(self) -> None:
        """Load, the first time."""
        if self.loaded:
            return
        self.loaded = True
        try:
            with _uncollected():
                filter_loader.get("bedplate.cluster.slurm_parts")
                filter_loader.get("ansible.builtin.combine")
                action_loader.get("ansible.builtin.normal", class_only=True)
                action_loader.get("bedplate.cluster.deploy", class_only=True)
                action_loader.get("bedplate.cluster.part", class_only=True)
                # Not before the first fork: a command without tasks needs none of it.
                import_module(_DECISIONS).preload()
        except KeyboardInterrupt:
            # Python ignores what is raised before a fork, and the run would go on. No fork is there yet that would have to end first.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)


PRELOAD = Preload()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Turn off Python's garbage collection meanwhile, and for the existing objects also afterwards.

    What is made stays to the end: to look for garbage in it again and again is half of the time now, and a tenth of what comes after.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if collecting:
            gc.enable()


class InventoryModule(BaseInventoryPlugin, Constructable):  # type: ignore[misc]
    """The plugin."""

    NAME = "bedplate.cluster.racks"
    # The cluster file is the user's own: what `compose` makes of it may be a template.
    trusted_by_default = True

    def verify_file(self, path: str) -> bool:
        """Take cluster files by their suffix; one with another name is refused with a warning that the name is why."""
        if not super().verify_file(path):
            return False
        if path.endswith(SUFFIXES):
            return True
        if _names_this_plugin(path):
            # What the other plugins say of it, each for itself, is that it is no inventory of theirs.
            self.display.warning(
                f"{path} names this plugin, {self.NAME}, and is not read, because its name is not the name of a cluster file. "
                f"Allowed: names that end in {' or '.join(SUFFIXES)}. Rename it."
            )
        return False

    def parse(self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True) -> None:
        """Add the hosts and groups of a cluster file; end the command on a wrong file, unless configured otherwise."""
        super().parse(inventory, loader, path, cache)
        try:
            self._parse(path)
        except AnsibleError as error:
            if not _ends_the_command():
                raise
            # The manager would go on with the other plugins: each of them has its say about the file, and one of them may take
            # it for an inventory of its own.
            self.display.error(error)
            raise SystemExit(1) from error

    def _parse(self, path: str) -> None:
        with _uncollected():
            cluster = self._load(path)
            self._populate(cluster)
        PRELOAD.wait()
        if cluster.constructed:
            self._construct(cluster)

    def _load(self, path: str) -> Cluster:
        """Return the cluster; the only one of this inventory."""
        # Before a task writes one there: tasks run in forks.
        lock_document.keep_predictions_in(constants.DEFAULT_LOCAL_TMP)
        try:
            cluster = load(path)
        except ClusterFileError as error:
            count = len(error.mistakes)
            raise AnsibleParserError(f"{count} mistake{'s' * (count > 1)} in the cluster file:\n{error}") from None
        other = self.inventory.groups["all"].vars.get("bedplate_cluster_file", cluster.path)
        ignored = constants.config.get_config_value("INVENTORY_IGNORE_PATTERNS") or []
        for text in inventory_folder.mistakes(Path(path), context.CLIARGS.get("inventory") or (), ignored):
            raise AnsibleParserError(text)
        if other != cluster.path:
            raise AnsibleParserError(f"{path}: this inventory has a cluster file already, {other}. There can be one.")
        return cluster

    def _populate(self, cluster: Cluster) -> None:
        """Add everything, past InventoryData's methods where they would be called for each host.

        Every command pays for the whole inventory: by the methods ten thousand nodes cost four times as much.
        """
        inventory = self.inventory
        everything, hosts = inventory.groups["all"], inventory.hosts
        variables = {
            "bedplate_cluster_file": cluster.path,
            "bedplate_site": cluster.site,
            "bedplate_cluster": cluster.name,
        }
        everything.vars.update({name: trust_as_template(text) for name, text in variables.items()})
        source = inventory.current_source
        # What InventoryData.add_host sets.
        place = {"inventory_file": source, "inventory_dir": basedir(source) if source else None}
        for name, machine in cluster.machines.items():
            if name not in hosts:
                host = hosts[name] = Host(name)
                host.groups.append(everything)
                host.vars.update(place)
            # Without the tag, programs that read `ansible-inventory --list` would find a mapping instead of an address.
            hosts[name].vars["ansible_host"] = trust_as_template(machine.address)
        for group, members in groups_of(cluster).items():
            self._fill(group, [hosts[name] for name in members])
        everything.clear_hosts_cache()

    def _fill(self, name: str, hosts: list[Host]) -> None:
        """Add hosts to a group."""
        if name in self.inventory.groups:
            # Another source has made it: it may have hosts, and parents that the hosts have to know.
            for host in hosts:
                self.inventory.groups[name].add_host(host)
            return
        # What add_child and add_host do to a group that is new, but for their search through all groups there are.
        everything, group = self.inventory.groups["all"], self.inventory.groups[self.inventory.add_group(name)]
        everything.child_groups.append(group)
        group.parent_groups.append(everything)
        group.depth = everything.depth + 1
        group.hosts.extend(hosts)
        for host in hosts:
            host.groups.append(group)

    def _construct(self, cluster: Cluster) -> None:
        """Add the results of the user's own expressions; they see the facts of the filter node, and the host's variables."""
        # Ansible's own reading marks the expressions as templates to trust, with their lines. It is slow: only for these.
        self._read_config_data(cluster.path)
        strict = self.get_option("strict")
        for name, machine in cluster.machines.items():
            variables = {
                **machine_facts(cluster, machine),
                **self.inventory.groups["all"].vars,
                "inventory_hostname": name,
            }
            self._set_composite_vars(self.get_option("compose"), variables, name, strict=strict)
            self._add_host_to_composed_groups(self.get_option("groups"), variables, name, strict=strict)
            self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, name, strict=strict)
