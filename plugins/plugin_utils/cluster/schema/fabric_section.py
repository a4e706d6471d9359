# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of the cluster file's section `fabric`."""

from __future__ import annotations

from .fields import Field
from .text_rules import HOST_NAME, PORT, TENANT_NAME, TEXT, WORD, names

# Of a lane, in Quantum and older switches.
SWITCH_SPEEDS = ("EDR", "HDR", "NDR", "XDR")
# Kinds in which NICs without a rail are not of the fabric: there, a leaf is a rail's.
BY_UNIT = ("rail-optimised", "rail-only")

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
        allowed="0x7fff is the default partition with all nodes as members; the top bit, full membership, is not part of it.",
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

_SWITCH = {
    "ports": Field("Its ports, if not `fabric.switch_ports`.", "int", minimum=2, maximum=1024),
    "cage_ports": Field("Ports of a cage of it, if not `fabric.cage_ports`.", "int", minimum=1, maximum=8),
    "group": Field("With `cables`: its pod, or its group of a dragonfly; by default that of its nodes.", **WORD),
    "speed": Field(
        "Speed of a lane of its ports, if not `fabric.speed`. A link between two switches has the lower speed of both.",
        choices=SWITCH_SPEEDS,
    ),
}

FABRIC = {
    "spines": names("Spine switches, as names or hostlists; for Slurm they are one tier."),
    "top": Field("Name of that tier in Slurm's topology.", default="spine", **HOST_NAME),
    "rails": Field("Rails of the fabric; every profile with rails must have them all.", "int", minimum=1, maximum=64),
    "kind": Field(
        "Its shape: leaf-spine (a leaf for each `leaf` of the racks), rail-optimised (each `leaf` is a scalable unit with a leaf for each "
        "rail; with `cores`, spines by rail below them), three-tier (pods of leaves and spines, cores above), rail-only (a separate "
        "fabric for each rail), dragonfly (groups joined pairwise; with spines dragonfly+).",
        default="leaf-spine",
        choices=("leaf-spine", "rail-optimised", "three-tier", "rail-only", "dragonfly"),
    ),
    "cables": Field(
        "A list of cables that states a fabric which exists: a CSV file, as a path beside the cluster file or an absolute one, such as "
        "cables.csv. `kind` is then the shape of these cables.",
        **TEXT,
    ),
    "switches": Field(
        "Switches that differ from `speed`, `switch_ports` and `cage_ports`, by hostlists.",
        "map",
        keys=Field("switches"),
        item=Field("a switch", "section", fields=_SWITCH),
    ),
    "technology": Field("What the switches speak.", default="infiniband", choices=("infiniband", "ethernet")),
    "speed": Field(
        "Speed of a lane of every link, if no NIC, switch or row of `cables` states another.",
        default="NDR",
        choices=SWITCH_SPEEDS,
    ),
    "switch_ports": Field("Ports of a switch; `switches` has others.", "int", default=64, minimum=2, maximum=1024),
    "cage_ports": Field(
        "Ports that a cage of the switch holds, 2 on a Quantum-2.", "int", default=1, minimum=1, maximum=8
    ),
    "uplinks": Field(
        "Cables up from each leaf, a multiple of its spines; by default as few as make no leaf oversubscribed by its nodes.",
        "int",
        minimum=1,
    ),
    "cores": names("Core switches, as names or hostlists."),
    "sharp": Field(
        "Whether each switch has SHARP's aggregation node on an internal port, which OpenSM routes like an adapter. By default on for "
        "Quantum switches: InfiniBand at HDR, NDR and XDR.",
        "bool",
    ),
    "global_links": Field("Cables between two groups of a dragonfly.", "int", default=1, minimum=1),
    "oversubscription": Field("Hosts' ports to uplinks that a leaf may have at most.", "int", default=1, minimum=1),
    "leaves": names(
        "More leaves, for NICs of `hosts` alone, as names or hostlists; below the same spines as the racks' leaves."
    ),
    "switch_racks": Field(
        "Racks of switches: hostlists of switches, and their rack, one of `racks`; or a hostlist of racks, over which the switches "
        "are split evenly, in order. By default a leaf is in the rack of its nodes, if they have only one; the rack of others is unknown.",
        "map",
        keys=Field("switches"),
        item=Field("a rack"),
    ),
    "missing": Field(
        "Cables that are left out on purpose, each as one of its ends: switch and port, such as leaf-a01:17.",
        "list",
        item=Field("an end", **PORT),
    ),
    "spare": Field(
        "Ports that are kept free on purpose, such as leaf-a[01-04]:[63-64]; cables are planned in others.",
        "list",
        item=Field("a port", **PORT),
    ),
    "partitions": Field(
        "InfiniBand's partitions, of tenants. With any, hosts without a common one no longer reach each other, except the subnet managers.",
        "map",
        keys=Field("partition", **TENANT_NAME),
        item=Field("a partition", "section", fields=_TENANT),
    ),
}

# A fabric of several.
NAMED_FABRIC = {
    **FABRIC,
    "subnet_managers": names(
        "Hosts of its OpenSM; the first is the master. By default the first fabric has `services.subnet_managers`."
    ),
}
