# SPDX-License-Identifier: GPL-3.0-or-later
"""Every key of the cluster file, once: its type, its default, what it means."""

from __future__ import annotations

from typing import Any

from .fields import Field

_HOST: dict[str, Any] = {
    "pattern": "[a-z]([a-z0-9-]{0,61}[a-z0-9])?",
    "allowed": "Allowed: a host name of small letters, digits and '-', starting with a letter.",
}
_NAME: dict[str, Any] = {
    "pattern": "[a-z][a-z0-9_]{0,40}",
    "allowed": "Allowed: small letters, digits and '_', starting with a letter.",
}
_PARTITION: dict[str, Any] = {
    "pattern": "(?!(DEFAULT|ALL)$)[A-Za-z][A-Za-z0-9_-]{0,40}",
    "allowed": "Allowed: letters, digits, '_' and '-', starting with a letter; not DEFAULT or ALL.",
}
_DOMAIN: dict[str, Any] = {
    "pattern": r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*",
    "allowed": "Allowed: a DNS domain in small letters, such as cluster.example.org.",
}
_TIME: dict[str, Any] = {
    "pattern": "[0-9]+(:[0-9]+){0,2}|[0-9]+-[0-9]+(:[0-9]+){0,2}|UNLIMITED|INFINITE",
    "allowed": 'Allowed: minutes, hours:minutes:seconds or days-hours:minutes:seconds, in quotes, or "UNLIMITED".',
}
# What fits between quotes in one line of slurm.conf.
_TEXT: dict[str, Any] = {
    "pattern": r'[^\n\r"#]+',
    "allowed": 'Allowed: one line without " and #.',
}
# What Slurm writes in lists of features and switches, and what it takes for users.
_WORD: dict[str, Any] = {
    "pattern": "[A-Za-z0-9_][A-Za-z0-9_.-]*",
    "allowed": "Allowed: letters, digits and _ . -",
}
# sacctmgr makes the names of accounts and QOS small: with capitals, no later run would find them.
_OBJECT: dict[str, Any] = {
    "pattern": "[a-z0-9_][a-z0-9_.-]*",
    "allowed": "Allowed: small letters, digits and _ . -, for sacctmgr makes capital letters small.",
}


def _names(description: str, **rules: Any) -> Field:
    return Field(description, "list", item=Field("a name", **rules))


_TENANT_NAME: dict[str, Any] = {
    "pattern": "(?![Dd]efault$)[A-Za-z][A-Za-z0-9_.-]{0,30}",
    "allowed": "Allowed: at most 31 letters, digits and _ . -, starting with a letter; not Default.",
}
# A port of a switch as its label names it; brackets of a hostlist stand for several.
_PORT: dict[str, Any] = {
    "pattern": r"[A-Za-z0-9\[][A-Za-z0-9_.,\[\]-]*:[0-9,\[\]-]+",
    "allowed": "Allowed: a switch and its port, leaf-a01:17, or a hostlist of such, leaf-a[01-04]:[63-64].",
}


_NETWORK = {
    "cidr": Field("The network, such as 10.20.0.0/16.", required=True),
    "gateway": Field("Its gateway; no machine gets this address."),
    "start": Field("The first address for rack nodes; by default the first of the network."),
}

_GPUS = {
    "model": Field("GRES type and group name, such as h100.", required=True, **_NAME),
    "count": Field("GPUs per node.", "int", required=True, minimum=1, maximum=1024),
    "devices": Field("Device files as a hostlist, in the order of `numa.gpus`; by default /dev/nvidia[0-<count - 1>]."),
    "cores": Field(
        "Slurm's logical core ids near each GPU, one entry per GPU; by default as `numa` says.",
        "list",
        item=Field("core ids", "ranges"),
    ),
    "detect": Field(
        "Who tells slurmd the GPUs: this file (explicit), or the driver (nvidia: Slurm 24.11 or newer; nvml: MIG).",
        default="explicit",
        choices=("explicit", "nvidia", "nvml"),
    ),
}

_NUMA = {
    "cores": Field("Slurm's logical core ids of this NUMA node, such as 0-55.", "ranges", required=True),
    "gpus": Field("Indices of the GPUs at this NUMA node, such as 0-3.", "ranges"),
    "nics": _names("Names of the NICs at this NUMA node.", **_WORD),
}

_NIC = {
    "name": Field("The device name.", required=True, **_WORD),
    "rail": Field("Its rail, from 0; absent for storage and management.", "int", minimum=0, maximum=63),
}

_HOST_NIC = {
    "name": Field("The device name.", required=True, **_WORD),
    "rail": Field(
        "The rail whose leaf it is on; in a rail-only fabric its plane. By default any leaf, or one plane after the other.",
        "int",
        minimum=0,
        maximum=63,
    ),
    "purpose": Field(
        "What it is for; in none of the two ways does OpenSM take it for compute.",
        default="management",
        choices=("management", "storage"),
    ),
    "leaf": Field(
        "Leaf it plugs into, as the cabling plan names it. By default one of `fabric.leaves`, else its rack's, else the one with most free "
        "ports.",
        **_WORD,
    ),
    "port": Field(
        "Port of that leaf; by default the highest free one below its uplinks, or the next one of a leaf in fabric.leaves.",
        "int",
        minimum=1,
    ),
}

_PROFILE = {
    "gpus": Field("The GPUs; absent on CPU nodes.", "section", fields=_GPUS),
    "sockets": Field("Sockets, as `slurmd -C` prints them.", "int", required=True, minimum=1, maximum=64),
    "cores_per_socket": Field("Cores per socket.", "int", required=True, minimum=1, maximum=1024),
    "threads_per_core": Field("Threads per core.", "int", default=1, minimum=1, maximum=16),
    "memory_mib": Field(
        "Memory in MiB: RealMemory of `slurmd -C` on the smallest node of this profile.",
        "int",
        required=True,
        minimum=1,
    ),
    "reserved_memory_mib": Field(
        "Memory kept from jobs, beside huge pages; by default 2 % of memory_mib.", "int", minimum=0
    ),
    "hugepages": Field(
        "Huge pages per node by size, 2M or 1G; jobs get what is left.",
        "map",
        keys=Field("page size", choices=("2M", "1G")),
        item=Field("number of pages", "int", minimum=0),
    ),
    "numa": Field("NUMA nodes, in order.", "list", item=Field("a NUMA node", "section", fields=_NUMA)),
    "nics": Field("NICs of the fabric.", "list", item=Field("a NIC", "section", fields=_NIC)),
    "nvlink_domain": Field(
        "Nodes that one NVLink fabric joins: 18 on a GB200 NVL72. A rack has one such domain, or several of this size.",
        "int",
        minimum=2,
        maximum=1024,
    ),
    "features": _names("More features that users can ask for with --constraint.", **_WORD),
}

_EXCEPTION = {
    "profile": Field("Another profile than the rack's."),
    "address": Field("Another address."),
    "bmc_address": Field("Another BMC address."),
    "state": Field("State in Slurm.", choices=("drain", "down", "future")),
    "reason": Field("Why; required with a state.", **_TEXT),
}

_NODES = {
    "names": Field("The nodes: a hostlist, such as gpu[001-016].", required=True),
    "profile": Field("Their profile; by default the rack's."),
    "address": Field("Address of the first; the others follow. By default after the nodes before."),
    "bmc_address": Field("BMC address of the first; the others follow. By default after the nodes before."),
}

_RACK = {
    "row": Field("Row in the room.", **_TEXT),
    "column": Field("Place in the row; the first of a rack range, whose racks stand side by side.", "int", minimum=0),
    "leaf": Field(
        "Leaf switch of its nodes, or scalable unit; by default leaf-<rack>. Racks may share one; for a rack range also a hostlist, over "
        "which the racks are split evenly, in order."
    ),
    "pod": Field("Pod of a three-tier fabric, or group of a dragonfly, that its leaf belongs to.", **_WORD),
    "profile": Field("Profile of its nodes."),
    "nvlink_domain": Field(
        "Nodes of its NVLink domain, where it has fewer or more than the profile says.", "int", minimum=2, maximum=1024
    ),
    "address": Field("Address of its first node; the others follow. By default after the nodes before."),
    "bmc_address": Field("BMC address of its first node; the others follow. By default after the nodes before."),
    "nodes": Field(
        "The nodes: a hostlist, such as gpu[001-016]; or a list of sections, for several profiles in one rack. The nodes of a "
        "rack range are split evenly, in order. Absent in a rack of hosts alone, which has only `row` and `column`.",
        "list",
        item=Field("nodes", "section", fields=_NODES, short="names"),
    ),
    "exceptions": Field("What differs on single nodes.", "map", item=Field("a node", "section", fields=_EXCEPTION)),
}

_MACHINE = {
    "address": Field("Its address in the network `management`.", required=True),
    "bmc_address": Field("Address of its BMC in the network `bmc`."),
    "rack": Field("The rack it stands in, one of `racks`."),
    "nics": Field(
        "NICs of the fabric, as subnet managers and storage servers have them.",
        "list",
        item=Field("a NIC", "section", fields=_HOST_NIC),
    ),
}

_SERVICES = {
    "controllers": Field("Hosts of slurmctld; the first is the primary.", "list", required=True, item=Field("a host")),
    "database": _names("Host of slurmdbd and its MariaDB."),
    "login": _names("Hosts where users log in."),
    "rest": _names("Hosts of slurmrestd."),
    "subnet_managers": _names("Hosts of OpenSM; the first is the master."),
}

_PARTITION_FIELDS = {
    "nodes": Field(
        "`all`, or a list of hostlists, rack:NAME, profile:NAME and model:NAME.",
        "list",
        required=True,
        item=Field("a selector"),
    ),
    "default": Field("Whether jobs go here that name no partition.", "bool", default=False),
    "max_time": Field("Longest run time, as Slurm writes it, such as 7-00:00:00.", **_TIME),
    "options": Field("Further options of Slurm's PartitionName line.", "free"),
}

_ACCOUNT = {
    "description": Field("What it is for.", **_TEXT),
    "organization": Field("Whose it is.", **_TEXT),
    "parent": Field("The account above.", default="root", **_OBJECT),
    "users": _names("Its users.", **_WORD),
    "qos": _names("QOS its users may use; absent: as inherited.", **_OBJECT),
    "default_qos": Field(
        "QOS of jobs that name none; absent: that of the account above, `normal` at the top.", **_OBJECT
    ),
}

_SLURM = {
    "version": Field(
        "Slurm's release, in quotes; options are checked against it.",
        default="24.11",
        pattern=r"[0-9]{2}\.[0-9]{2}",
        allowed='Allowed: a release such as "24.11".',
    ),
    "options": Field("Options of slurm.conf, over bedplate's; null takes one away.", "free"),
    "cgroup": Field("Options of cgroup.conf, over bedplate's.", "free"),
    "slurmdbd": Field("Options of slurmdbd.conf, over bedplate's.", "free"),
    "qos": Field(
        "QOS by name, each with options as `sacctmgr modify qos set` takes them.",
        "map",
        keys=Field("a QOS", **_OBJECT),
        item=Field("options", "free"),
    ),
    "accounts": Field(
        "Accounts, parents first. With any, only users with an account can run jobs.",
        "map",
        keys=Field("an account", **_OBJECT),
        item=Field("an account", "section", fields=_ACCOUNT),
    ),
}

_MEMBERS = {
    "nodes": Field(
        "`all`, a hostlist of nodes and hosts, rack:NAME, profile:NAME, model:NAME or partition:NAME.", required=True
    ),
    "membership": Field("Other membership than the partition's.", choices=("full", "limited", "both")),
}

_TENANT = {
    "pkey": Field(
        "Its P_Key, 0x0001 to 0x7ffe.",
        "int",
        required=True,
        minimum=1,
        maximum=0x7FFE,
        hexadecimal=True,
        allowed="0x7fff is the default partition, of which all are members; the top bit says who is a full member, and is not stated.",
    ),
    "members": Field(
        "Whose adapters are in it: names as in Slurm's partitions, and partition:NAME; or a list with sections, for another membership.",
        "list",
        required=True,
        item=Field("members", "section", fields=_MEMBERS, short="nodes"),
    ),
    "membership": Field(
        "Limited members reach full ones alone; both is two P_Keys, for adapters whose virtual ones are limited.",
        default="full",
        choices=("full", "limited", "both"),
    ),
    "ipoib": Field("Whether IP runs in it.", "bool", default=True),
}

_FABRIC = {
    "spines": _names("Spine switches, as names or hostlists; for Slurm they are one tier."),
    "top": Field("Name of that tier in Slurm's topology.", default="spine", **_HOST),
    "rails": Field("Rails of the fabric; every profile with rails must have them all.", "int", minimum=1, maximum=64),
    "kind": Field(
        "Its shape: leaf-spine (a leaf for each `leaf` of the racks), rail-optimised (each `leaf` is a scalable unit with a leaf for each "
        "rail; with `cores`, spines by rail below them), three-tier (pods of leaves and spines, cores above), rail-only (a fabric of its "
        "own for each rail), dragonfly (groups joined pairwise; with spines dragonfly+).",
        default="leaf-spine",
        choices=("leaf-spine", "rail-optimised", "three-tier", "rail-only", "dragonfly"),
    ),
    "technology": Field("What the switches speak.", default="infiniband", choices=("infiniband", "ethernet")),
    "speed": Field("Speed of a lane of every link.", default="NDR", choices=("EDR", "HDR", "NDR", "XDR")),
    "switch_ports": Field("Ports of a switch, all alike.", "int", default=64, minimum=2, maximum=1024),
    "cage_ports": Field(
        "Ports that a cage of the switch holds, 2 on a Quantum-2.", "int", default=1, minimum=1, maximum=8
    ),
    "uplinks": Field(
        "Cables up from each leaf, a multiple of its spines; by default as few as make no leaf oversubscribed by its nodes.",
        "int",
        minimum=1,
    ),
    "cores": _names("Core switches, as names or hostlists."),
    "global_links": Field("Cables between two groups of a dragonfly.", "int", default=1, minimum=1),
    "oversubscription": Field("Hosts' ports to uplinks that a leaf may have at most.", "int", default=1, minimum=1),
    "leaves": _names(
        "More leaves, for NICs of `hosts` alone, as names or hostlists; below the same spines as those of the racks."
    ),
    "switch_racks": Field(
        "Where switches stand: hostlists of switches, and their rack, one of `racks`; or a hostlist of racks, over which the switches "
        "are split evenly, in order. By default a leaf stands in the rack of its nodes, where that is one, and of others no rack is known.",
        "map",
        keys=Field("switches"),
        item=Field("a rack"),
    ),
    "missing": Field(
        "Cables that are left out on purpose, each as one of its ends: switch and port, such as leaf-a01:17.",
        "list",
        item=Field("an end", **_PORT),
    ),
    "spare": Field(
        "Ports that are kept free on purpose, such as leaf-a[01-04]:[63-64]; cables are planned in others.",
        "list",
        item=Field("a port", **_PORT),
    ),
    "partitions": Field(
        "InfiniBand's partitions, of tenants. With any, what shares none reaches each other no more, but for the subnet managers.",
        "map",
        keys=Field("partition", **_TENANT_NAME),
        item=Field("a partition", "section", fields=_TENANT),
    ),
}

_GPU_STACK = {
    "os": Field("Operating system of the GPU nodes and its release, such as debian-13.", required=True, **_WORD),
    "source": Field(
        "Whose packages of the driver: the distribution's own (debian, canonical), or NVIDIA's repository (nvidia), or a mirror of either.",
        required=True,
        choices=("debian", "canonical", "nvidia"),
    ),
    "driver": Field(
        "Branch, whose latest version known to bedplate is taken, or exact version; in quotes.",
        required=True,
        pattern=r"[0-9]{3}(\.[0-9]+){0,2}",
        allowed='Allowed: a branch such as "550", or a whole version of three numbers.',
    ),
    "module": Field("Kernel module; by default what fits the GPUs.", choices=("open", "proprietary")),
    "kernel": Field(
        "Kernel that the nodes run, such as 6.12.117+deb13-amd64, for which the driver is proven before it is installed; by default the "
        "newest that is installed.",
        pattern=r"[0-9]+\.[0-9]+[A-Za-z0-9._+~-]*",
        allowed="Allowed: a kernel's release as uname -r prints it.",
    ),
}

CLUSTER_FILE = Field(
    "A bedplate cluster file.",
    "section",
    fields={
        "plugin": Field("Always bedplate.cluster.racks.", required=True, choices=("bedplate.cluster.racks",)),
        "site": Field("Name of the site.", required=True, **_HOST),
        "cluster": Field("Slurm's ClusterName.", required=True, **_NAME),
        "domain": Field("DNS domain of the machines.", **_DOMAIN),
        "networks": Field(
            "Networks by name. `management` is the one Ansible and Slurm use; `bmc`, if there, gives addresses to BMCs.",
            "map",
            required=True,
            keys=Field("network", **_NAME),
            item=Field("a network", "section", fields=_NETWORK),
        ),
        "profiles": Field(
            "Hardware profiles: the only place hardware is described.",
            "map",
            required=True,
            keys=Field("profile", **_NAME),
            item=Field("a profile", "section", fields=_PROFILE),
        ),
        "racks": Field(
            "Racks by name; a hostlist stands for several alike, such as a[01-40].",
            "map",
            required=True,
            item=Field("a rack", "section", fields=_RACK),
        ),
        "hosts": Field(
            "Machines that are no rack nodes: controllers, login nodes.",
            "map",
            keys=Field("host", **_HOST),
            item=Field("a host", "section", fields=_MACHINE),
        ),
        "services": Field("Which hosts do what; names or hostlists.", "section", required=True, fields=_SERVICES),
        "partitions": Field(
            "Slurm's partitions.",
            "map",
            required=True,
            keys=Field("partition", **_PARTITION),
            item=Field("a partition", "section", fields=_PARTITION_FIELDS),
        ),
        "slurm": Field("Slurm's release, options and accounts.", "section", default={}, fields=_SLURM),
        "fabric": Field("The fabric; with it Slurm gets a tree topology.", "section", fields=_FABRIC),
        "gpu_stack": Field("The GPU nodes' driver, as one pinned set.", "section", fields=_GPU_STACK),
        "groups": Field("As in ansible.builtin.constructed.", "free"),
        "keyed_groups": Field("As in ansible.builtin.constructed.", "list"),
        "compose": Field("As in ansible.builtin.constructed.", "free"),
        "strict": Field("As in ansible.builtin.constructed.", "bool", default=False),
        "use_extra_vars": Field("As in ansible.builtin.constructed.", "bool", default=False),
        "leading_separator": Field("As in ansible.builtin.constructed.", "bool", default=True),
    },
)
# For names that stand in hostlists, which a pattern for the whole value cannot see.
HOST, SWITCH = Field("a host name", **_HOST), Field("a switch name", **_WORD)
RACK = Field(
    "a rack name",
    pattern="[A-Za-z0-9][A-Za-z0-9_-]{0,40}",
    allowed="Allowed: letters, digits, '_' and '-', or a hostlist of such names, a[01-40].",
)
