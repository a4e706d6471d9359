# SPDX-License-Identifier: GPL-3.0-or-later
"""Every key of the cluster file, once: its type, its default, what it means."""

from __future__ import annotations

from typing import Any

from .fabric_section import FABRIC, NAMED_FABRIC
from .fields import Field, with_values
from .gpu_sections import GPU_STACK, GPUS, PROFILE_GPU_STACK
from .health_section import HEALTH, MONITORING, PROFILE_HEALTH
from .metal_section import IMAGE, IMAGE_NAME, PROFILE_METAL, PROVISION
from .slurm_sections import PACKAGES, USERS
from .snapshot_section import SNAPSHOTS
from .text_rules import DOMAIN, FABRIC_NAME, HOST_NAME, NAME, NODE_NAME, OBJECT, PARTITION, PCI, TEXT, TIME, WORD, names

# More memory than any machine has: a larger number is one in another unit, or a slip.
_PEBIBYTE_MIB = 1 << 30

_NETWORK = {
    "cidr": Field("The network, such as 10.20.0.0/16.", required=True),
    "gateway": Field(
        "Its gateway; no machine gets this address. With `rails`, each rail reaches the networks of other rails with a gateway through it."
    ),
    "start": Field("The first address for rack nodes; by default the first of the network."),
    "rails": Field(
        "The rails whose NICs have their addresses here, such as 0 or 0-7; several share the network in equal parts, in order. A node has "
        "the same place in each part that it has in `management`.",
        "ranges",
    ),
    "routes": Field(
        "With `rails` and `gateway`: further networks that its rails reach through the gateway, such as [10.48.0.0/16].",
        "list",
        item=Field("a network"),
    ),
}


def _pages(text: str) -> Field:
    item = Field("number of pages", "int", minimum=0, maximum=_PEBIBYTE_MIB)
    return Field(text, "map", keys=Field("page size", choices=("2M", "1G")), item=item)


_NUMA = {
    "cores": Field("Slurm's logical core ids of this NUMA node, such as 0-55.", "ranges", required=True),
    "gpus": Field("Indices of the GPUs at this NUMA node, such as 0-3.", "ranges"),
    "nics": names("Names of the NICs at this NUMA node.", **WORD),
    "hugepages": _pages(
        "Number of huge pages of this NUMA node alone by size, 2M or 1G, instead of `hugepages` of the profile."
    ),
}

_FABRIC_NAME = Field(
    "The device name that its NodeDescription in the fabric has, such as HCA-1, if that is not `name`.", **WORD
)

# Of a NIC's link.
_RATE = {
    "speed": Field(
        "Speed of a lane of its link, if not that of its leaf; HDR100 and NDR200 are two lanes of HDR and NDR, as with splitter cables.",
        choices=("FDR", "EDR", "HDR100", "HDR", "NDR200", "NDR", "XDR"),
    ),
    "width": Field("Lanes of its link, if not 4.", choices=("1x", "2x", "4x")),
}
_OF_FABRIC = Field("The fabric that it is cabled to, one of `fabrics`; by default the first.", **FABRIC_NAME)

_NIC = {
    "name": Field("The device name.", required=True, **WORD),
    "fabric": _OF_FABRIC,
    "fabric_name": _FABRIC_NAME,
    **_RATE,
    "rail": Field(
        "Its rail in its fabric, from 0; absent for storage and management. Addresses of rails, NCCL and tuning have the rails of the "
        "first fabric.",
        "int",
        minimum=0,
        maximum=63,
    ),
    "pci": Field("Its PCI address, such as 0000:3b:00.0: then it has this name, not the kernel's.", **PCI),
    "network": Field(
        "The network in which a NIC without a rail has its address, such as a storage NIC. A node has the same place in it that it has in "
        "`management`.",
        **NAME,
    ),
}

_HOST_NIC = {
    "name": Field("The device name.", required=True, **WORD),
    "fabric": _OF_FABRIC,
    "fabric_name": _FABRIC_NAME,
    **_RATE,
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
        **WORD,
    ),
    "port": Field(
        "Port of that leaf; by default the highest free one below its uplinks, or the next one of a leaf in fabric.leaves.",
        "int",
        minimum=1,
    ),
}

_PROFILE = {
    "gpus": Field("The GPUs; absent on CPU nodes.", "section", fields=GPUS),
    "sockets": Field("Sockets, as `slurmd -C` prints them.", "int", required=True, minimum=1, maximum=64),
    "cores_per_socket": Field("Cores per socket.", "int", required=True, minimum=1, maximum=1024),
    "threads_per_core": Field("Threads per core.", "int", default=1, minimum=1, maximum=16),
    "memory_mib": Field(
        "Memory in MiB: RealMemory of `slurmd -C` on the smallest node of this profile.",
        "int",
        required=True,
        minimum=1,
        maximum=_PEBIBYTE_MIB,
        allowed="It is in MiB.",
    ),
    "reserved_memory_mib": Field(
        "Memory kept from jobs, beside huge pages; by default 2 % of memory_mib.",
        "int",
        minimum=0,
        maximum=_PEBIBYTE_MIB,
        allowed="It is in MiB.",
    ),
    "boot": PROFILE_METAL["boot"],
    "system_cores": Field(
        "Cores of each NUMA node, or of each socket without `numa`, that jobs do not get: daemons and the fabric's interrupts have them.",
        "int",
        default=0,
        minimum=0,
        maximum=64,
    ),
    "hugepages": _pages(
        "Number of huge pages of the whole node by size, 2M or 1G. Each NUMA node (each socket without `numa`) gets an equal share, so the "
        "number is a multiple of theirs; for unequal shares set `numa.hugepages`. Jobs get the remaining memory."
    ),
    "numa": Field("NUMA nodes, in order.", "list", item=Field("a NUMA node", "section", fields=_NUMA)),
    "nics": Field("NICs of the fabric.", "list", item=Field("a NIC", "section", fields=_NIC)),
    "nvlink_domain": Field(
        "Nodes that one NVLink fabric joins: 18 on a GB200 NVL72. A rack has one such domain, or several of this size; a domain over "
        "several racks needs their `nvlink_domain_name`.",
        "int",
        minimum=2,
        maximum=1024,
    ),
    "features": names("More features for users' --constraint.", **WORD),
    "gpu_stack": Field(
        "What differs from the cluster's `gpu_stack` on its nodes.", "section", fields=PROFILE_GPU_STACK
    ),
    "health": Field("What jobs need on its nodes.", "section", fields=with_values(PROFILE_HEALTH)),
    **{key: one for key, one in PROFILE_METAL.items() if key != "boot"},
}

_EXCEPTION = {
    "profile": Field("Another profile than the rack's."),
    "address": Field("Another address."),
    "bmc_address": Field("Another BMC address."),
    "state": Field("State in Slurm.", choices=("drain", "down", "future")),
    "reason": Field("Why; required with a state.", **TEXT),
    "image": Field("Another image than the profile's.", **IMAGE_NAME),
}

_NODES = {
    "names": Field("The nodes: a hostlist, such as gpu[001-016].", required=True),
    "profile": Field("Their profile; by default the rack's."),
    "address": Field("Address of the first; the others follow. By default after the nodes before."),
    "bmc_address": Field("BMC address of the first; the others follow. By default after the nodes before."),
}

_RACK = {
    "row": Field("Row in the room.", **TEXT),
    "column": Field("Place in the row; the first of a rack range, whose racks are side by side.", "int", minimum=0),
    "leaf": Field(
        "Leaf switch of its nodes, or scalable unit; by default leaf-<rack>. Racks may share one; for a rack range also a hostlist, over "
        "which the racks are split evenly, in order."
    ),
    "leaves": Field(
        "Leaf switch, or scalable unit, of its nodes in the fabrics after the first, by fabric; as `leaf`. By default <fabric>-<leaf>.",
        "map",
        keys=Field("a fabric", **FABRIC_NAME),
        item=Field("a leaf"),
    ),
    "pod": Field("Pod of a three-tier fabric, or group of a dragonfly, that its leaf belongs to.", **WORD),
    "profile": Field("Profile of its nodes."),
    "nvlink_domain": Field(
        "Nodes of its NVLink domain, where it has fewer or more than the profile says.", "int", minimum=2, maximum=1024
    ),
    "nvlink_domain_name": Field(
        "Name of its NVLink domain. Consecutive racks with one name are one domain, or several of the size in `nvlink_domain`; for a rack "
        "range also a hostlist, over which the racks are split evenly, in order. By default a domain does not leave its rack."
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
    "rack": Field("Its rack, one of `racks`."),
    "nics": Field(
        "NICs of the fabric, as subnet managers and storage servers have them.",
        "list",
        item=Field("a NIC", "section", fields=_HOST_NIC),
    ),
}

_SERVICES = {
    "controllers": Field("Hosts of slurmctld; the first is the primary.", "list", required=True, item=Field("a host")),
    "database": names("Host of slurmdbd and its MariaDB."),
    "login": names("Hosts where users log in."),
    "rest": names("Hosts of slurmrestd."),
    "subnet_managers": names("Hosts of OpenSM; the first is the master."),
}

_PARTITION_FIELDS = {
    "nodes": Field(
        "`all`, or a list of hostlists, rack:NAME, profile:NAME and model:NAME.",
        "list",
        required=True,
        item=Field("a selector"),
    ),
    "default": Field("Whether jobs go here that name no partition.", "bool", default=False),
    "max_time": Field("Longest run time, as Slurm writes it, such as 7-00:00:00.", **TIME),
    "options": Field("Further options of Slurm's PartitionName line.", "free"),
}

_ACCOUNT = {
    "description": Field("What it is for.", **TEXT),
    "organization": Field("Whose it is.", **TEXT),
    "parent": Field("The account above.", default="root", **OBJECT),
    "users": names("Its users.", **WORD),
    "qos": names("QOS its users may use; absent: as inherited.", **OBJECT),
    "default_qos": Field(
        "QOS of jobs that name none; absent: that of the account above, `normal` at the top.", **OBJECT
    ),
}

_SCRIPT = {
    "file": Field("A file, relative to the cluster file, that bedplate installs."),
    "path": Field("An absolute path where the machines have the script already."),
}


def _scripts(description: str) -> Field:
    return Field(description, "list", item=Field("a script", "section", fields=_SCRIPT, short="file"))


# Several run in the order of the list; the first that fails ends it.
_SCRIPTS = {
    "prolog": _scripts("Prolog: on a node before a job, as root."),
    "epilog": _scripts("Epilog: on a node after a job, as root."),
    "task_prolog": _scripts("TaskProlog: before each task, as its user."),
    "task_epilog": _scripts("TaskEpilog: after each task, as its user."),
    "health_check": _scripts("HealthCheckProgram: on nodes, as root."),
    "reboot": _scripts("RebootProgram: on nodes, for `scontrol reboot`."),
    "unkillable_step": _scripts("UnkillableStepProgram: on a node, when a step does not end."),
    "srun_prolog": _scripts("SrunProlog: where srun is called."),
    "srun_epilog": _scripts("SrunEpilog: where srun is called."),
    "prolog_slurmctld": _scripts("PrologSlurmctld: on the controller before a job."),
    "epilog_slurmctld": _scripts("EpilogSlurmctld: on the controller after a job."),
    "resume": _scripts("ResumeProgram: on the controller, starts nodes."),
    "suspend": _scripts("SuspendProgram: on the controller, powers nodes down."),
    "resume_fail": _scripts("ResumeFailProgram: on the controller, for nodes that did not start."),
    "reservation_prolog": _scripts("ResvProlog: on the controller, when a reservation begins."),
    "reservation_epilog": _scripts("ResvEpilog: on the controller, when a reservation ends."),
    "mail": _scripts("MailProg: on the controller."),
    "job_submit": _scripts("job_submit.lua, with the plugin lua in JobSubmitPlugins."),
    "cli_filter": _scripts("cli_filter.lua, with the plugin lua in CliFilterPlugins."),
    "plugstack": _scripts("Lines of plugstack.conf."),
}

_SLURM = {
    "version": Field(
        "Slurm's release, in quotes; options are checked against it.",
        default="24.11",
        pattern=r"[0-9]{2}\.[0-9]{2}",
        allowed='Allowed: a release such as "24.11".',
        needs_value=True,
    ),
    "packages": Field(
        "Who made Slurm's packages: debian, schedmd, openhpc, or a section with a table of the site. By default debian.",
        "section",
        default={},
        fields=with_values(PACKAGES),
        short="packaging",
        needs_value=True,
    ),
    "users": Field("Numbers of Slurm's system users.", "section", default={}, fields=USERS, needs_value=True),
    "options": Field("Options of slurm.conf, over bedplate's; null removes one.", "free"),
    "scripts": Field("Scripts that Slurm runs, by kind.", "section", default={}, fields=with_values(_SCRIPTS)),
    "cgroup": Field("Options of cgroup.conf, over bedplate's.", "free"),
    "slurmdbd": Field("Options of slurmdbd.conf, over bedplate's.", "free"),
    "qos": Field(
        "QOS by name, each with options as `sacctmgr modify qos set` takes them.",
        "map",
        keys=Field("a QOS", **OBJECT),
        item=Field("options", "free"),
    ),
    "accounts": Field(
        "Accounts, parents first. With any, only users with an account can run jobs.",
        "map",
        keys=Field("an account", **OBJECT),
        item=Field("an account", "section", fields=with_values(_ACCOUNT)),
    ),
}

# Messages show no user and no password of an address.
_LOGIN = ".*(?=@)"
_LINE: dict[str, Any] = {"pattern": r"[^\s\"#;]+", "allowed": "Allowed: text without blanks, quotes, # and ;."}
_SERVER_LOGIN = {
    "url": Field(
        "Address of the server or of a part of it, such as https://mirror.example.org/gpu.",
        required=True,
        hides=_LOGIN,
        **_LINE,
    ),
    "user": Field("User name.", required=True, **_LINE),
    "password": Field(
        "Name of the secret with the password, such as mirror_password; its value is in `bedplate_secrets`, never here.",
        required=True,
        pattern="[a-z0-9_]{1,100}",
        allowed="Allowed: the name of a secret, of a-z, 0-9 and _. The password itself belongs into `bedplate_secrets`.",
        hides=".+",
    ),
}

_PACKAGE_ACCESS = {
    "proxy": Field("Proxy for HTTP and HTTPS, such as http://proxy.example.org:3128.", hides=_LOGIN, **_LINE),
    "no_proxy": Field(
        "Hosts that machines reach without the proxy, each a name or an address.",
        "list",
        item=Field("a host", pattern=r"[A-Za-z0-9][A-Za-z0-9.:-]*", allowed="Allowed: a host name or an address."),
    ),
    "ca": Field(
        "Certificates (PEM) by which HTTPS servers and proxies of packages are judged, instead of the machine's own: a path beside the "
        "cluster file or an absolute one.",
        **TEXT,
    ),
    "logins": Field(
        "Servers, and the proxy, that need a user and a password.",
        "list",
        item=Field("a server", "section", fields=_SERVER_LOGIN),
    ),
}

CLUSTER_FILE = Field(
    "A bedplate cluster file.",
    "section",
    fields={
        "plugin": Field("Always bedplate.cluster.racks.", required=True, choices=("bedplate.cluster.racks",)),
        "site": Field("Name of the site.", required=True, **HOST_NAME),
        "cluster": Field("Slurm's ClusterName.", required=True, **NAME),
        "domain": Field("DNS domain of the machines.", **DOMAIN),
        "networks": Field(
            "Networks by name. `management` is the one Ansible and Slurm use; `bmc`, if there, gives addresses to BMCs; in "
            "`provision` machines have an address while they are installed.",
            "map",
            required=True,
            keys=Field("network", **NAME),
            item=Field("a network", "section", fields=_NETWORK),
        ),
        "profiles": Field(
            "Hardware profiles: the only place hardware is described.",
            "map",
            required=True,
            keys=Field("profile", **NAME),
            item=Field("a profile", "section", fields=_PROFILE),
        ),
        "racks": Field(
            "Racks by name; a hostlist is several racks alike, such as a[01-40].",
            "map",
            required=True,
            item=Field("a rack", "section", fields=_RACK),
        ),
        "hosts": Field(
            "Machines outside the racks: controllers, login nodes.",
            "map",
            keys=Field("host", **HOST_NAME),
            item=Field("a host", "section", fields=_MACHINE),
        ),
        "services": Field("Which hosts do what; names or hostlists.", "section", required=True, fields=_SERVICES),
        "partitions": Field(
            "Slurm's partitions.",
            "map",
            required=True,
            keys=Field("partition", **PARTITION),
            item=Field("a partition", "section", fields=_PARTITION_FIELDS),
        ),
        "slurm": Field("Slurm's release, options and accounts.", "section", default={}, fields=_SLURM),
        "fabric": Field("The fabric; with it Slurm gets a tree topology.", "section", fields=FABRIC),
        "fabrics": Field(
            "Several fabrics by name, instead of `fabric`; each has the keys of `fabric`, and `subnet_managers`. Slurm has the topology of "
            "the first. A section without keys is a fabric without a plan.",
            "map",
            keys=Field("a fabric", **FABRIC_NAME),
            item=Field("a fabric", "section", fields=NAMED_FABRIC),
        ),
        "package_access": Field(
            "How apt and dnf of all machines reach their repositories: proxy, certificates, passwords.",
            "section",
            fields=_PACKAGE_ACCESS,
        ),
        "gpu_stack": Field("The GPU nodes' software, as one pinned set.", "section", fields=GPU_STACK),
        "snapshots": Field(
            "Dated copies of all repositories of the machines, from which alone they install.",
            "section",
            fields=SNAPSHOTS,
        ),
        "health": Field(
            "Nodes judge their health and report it, and the controllers drain sick ones within limits.",
            "section",
            fields=with_values(HEALTH),
        ),
        "monitoring": Field("Files for the Prometheus that the site has.", "section", fields=with_values(MONITORING)),
        "images": Field(
            "Images of operating systems by name, which are written on system disks.",
            "map",
            keys=Field("image", **IMAGE_NAME),
            item=Field("an image", "section", fields=with_values(IMAGE)),
        ),
        "provision": Field(
            "How machines are installed: the host that serves images, and limits of requests to BMCs.",
            "section",
            fields=with_values(PROVISION),
        ),
        "groups": Field("As in ansible.builtin.constructed.", "free"),
        "keyed_groups": Field("As in ansible.builtin.constructed.", "list"),
        "compose": Field("As in ansible.builtin.constructed.", "free"),
        "strict": Field("As in ansible.builtin.constructed.", "bool", default=False),
        "use_extra_vars": Field("As in ansible.builtin.constructed.", "bool", default=False),
        "leading_separator": Field("As in ansible.builtin.constructed.", "bool", default=True),
    },
)
# For names that stand in hostlists, which a pattern for the whole value cannot see.
NODE, SWITCH = Field("a node name", **NODE_NAME), Field("a switch name", **WORD)
RACK = Field(
    "a rack name",
    pattern="[A-Za-z0-9][A-Za-z0-9_-]{0,40}",
    allowed="Allowed: letters, digits, '_' and '-', or a hostlist of such names, a[01-40].",
)
