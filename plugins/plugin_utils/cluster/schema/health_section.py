# SPDX-License-Identifier: GPL-3.0-or-later
"""Fields of `health` and `monitoring`: how sick nodes are noticed, who may drain them, and what Prometheus gets."""

from __future__ import annotations

from typing import Any

from .fields import Field, with_values
from .text_rules import TEXT

_SHARE: dict[str, Any] = {
    "pattern": r"(100|[1-9]?[0-9])%",
    "allowed": 'Allowed: whole percent, such as "5%".',
}
# A path without ".", ".." and a slash at its end, as the table of mounts has it.
_STEP = r"/(?!\.{1,2}(/|$))"
_MOUNT = rf"/|({_STEP}[^/\s,]+)+"
# In a line of a unit: no quotes, no "%" of systemd.
_FOLDER = rf"({_STEP}[A-Za-z0-9._+-]+)+"
_SECONDS: dict[str, Any] = {"minimum": 10, "maximum": 3600}

_DRAIN = {
    "cluster": Field(
        "Most nodes of the cluster that may be unavailable when a node is drained, at least one.",
        default="5%",
        **_SHARE,
    ),
    "nodes": Field("The same as a number of nodes; the smaller of the two counts.", "int", default=20, minimum=1),
    "partition": Field("Most nodes of a partition, at least one.", default="10%", **_SHARE),
    "rack": Field("Most nodes of a rack, at least one.", default="25%", **_SHARE),
    "nvlink_domain": Field("Most nodes of an NVLink domain, at least one.", default="25%", **_SHARE),
    "rate": Field(
        "Most drains in a time, such as 10/10m.",
        default="10/10m",
        pattern="[1-9][0-9]{0,3}/[1-9][0-9]{0,3}[mh]",
        allowed="Allowed: a number, / and minutes or hours, such as 10/10m.",
    ),
    "keep": Field("Nodes of each partition that are never drained.", "int", default=1, minimum=0),
}

_IGNORE = {
    "check": Field("The check, such as xid-94; its findings become notes.", required=True, **TEXT),
    "reason": Field("Why, and who decided it.", required=True, **TEXT),
    "until": Field("The last day, such as 2027-01-31; by default it never ends.", "date"),
}

_EVIDENCE = {
    "days": Field("Days that evidence is kept on a node.", "int", default=30, minimum=1, maximum=3650),
    "size": Field(
        "Most space of all evidence on a node; the oldest is removed first.",
        default="2G",
        pattern="[1-9][0-9]{0,4}[MG]",
        allowed="Allowed: a number and M or G, such as 2G.",
    ),
}

HEALTH = {
    "dry_run_until": Field(
        "The first day on which the controllers drain and resume nodes, such as 2027-01-31. Without it they only report what they would "
        "do.",
        "date",
    ),
    "gate": Field(
        "Whether the prolog fails jobs on a node where no job can run; strict: and slurmd waits for the first verdict after a boot.",
        "switch",
        default=True,
        choices=("strict",),
    ),
    "interval": Field("Seconds between two ticks of the agent.", "int", default=60, **_SECONDS),
    "quiet_after_boot": Field(
        "Seconds after a boot in which links and fabric are not judged.", "int", default=600, minimum=0, maximum=7200
    ),
    "drain": Field("How many nodes the controllers may drain.", "section", default={}, fields=with_values(_DRAIN)),
    "private_tmp": Field(
        "Directory on a local disk of the nodes, such as /var/lib/slurm-tmp: each job gets a /tmp and a /dev/shm there, which are removed "
        "with it. A change waits until no job runs.",
        pattern=rf"(?!/(tmp|dev)(/|$)){_FOLDER}",
        allowed="Allowed: an absolute path of letters, digits and . _ + -, without '..', not below /tmp or /dev.",
    ),
    "resume": Field(
        "Which of its drains the controller ends: after transient findings, or none.",
        default="transient",
        choices=("transient", "none"),
    ),
    "ignore": Field(
        "Checks that drain no node.", "list", item=Field("a check", "section", fields=with_values(_IGNORE))
    ),
    "thresholds": Field(
        "Other thresholds, by profile or GPU model, then by quantity; keys of a quantity as in docs/health.md#thresholds.",
        "map",
        item=Field("quantities", "map", item=Field("a quantity", "free")),
    ),
    "evidence": Field("How much evidence a node keeps.", "section", default={}, fields=with_values(_EVIDENCE)),
}

PROFILE_HEALTH = {
    "rails_needed": Field(
        "How many of its rails a job needs, all by default; with fewer the node cannot run jobs.",
        "int",
        minimum=0,
        maximum=64,
    ),
    "nvlink": Field("Whether NVLink is judged; by default on GPU models that have it.", "bool"),
    "mounts": Field(
        "Mount points that jobs need, such as /scratch.",
        "list",
        item=Field(
            "a mount point",
            pattern=_MOUNT,
            allowed="Allowed: an absolute path without blanks, commas, '..' and a slash at its end.",
        ),
    ),
}

_PORT: dict[str, Any] = {"minimum": 1, "maximum": 65535}

MONITORING = {
    "servers": Field(
        "Hosts of the Prometheus that the site has: they get targets and rules in /etc/bedplate/prometheus.",
        "list",
        item=Field("a host"),
    ),
    "slurm": Field(
        "Whether the controllers run the exporter of Slurm; auto: for releases before 25.11, which lack an own exporter.",
        "switch",
        default="auto",
        choices=("auto",),
    ),
    "slurm_port": Field("Port of Slurm's exporter.", "int", default=9341, **_PORT),
    "node_port": Field("Port of node exporter on all machines.", "int", default=9100, **_PORT),
    "dcgm_port": Field("Port of DCGM's exporter on GPU nodes; absent: it is not a target.", "int", **_PORT),
    "textfile": Field(
        "Directory from which node exporter reads text files.",
        default="/var/lib/prometheus/node-exporter",
        pattern=_FOLDER,
        allowed="Allowed: an absolute path of letters, digits and . _ + -, without '..' and a slash at its end.",
    ),
}
