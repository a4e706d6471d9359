# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm reports against what the cluster file says, as findings an operator can act on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.retain import pairs_of

# Compact states of `sinfo --format=%t` that mean a node can run jobs, is running them, or is about to return.
HEALTHY = {"idle", "alloc", "mix", "comp", "resv", "maint", "plnd", "boot"}


@dataclass(frozen=True)
class Finding:
    """One difference: where it is, what was wanted, what was found, what to do about it."""

    where: str
    wanted: str
    found: str
    fix: str


@dataclass(frozen=True)
class LiveNode:
    """A node as `sinfo --Node` reports it; memory in MiB."""

    gres: str
    cpus: int
    memory: int
    state: str
    reason: str


def parse_nodes(text: str) -> dict[str, LiveNode]:
    """Parse `sinfo --noheader --all --Node --format=%N|%G|%c|%m|%t|%E`.

    >>> parse_nodes("gpu01|gpu:h100:8|112|1000000|idle|none")["gpu01"].gres
    'gpu:h100:8'
    """
    nodes = {}
    for line in text.splitlines():
        name, gres, cpus, memory, state, reason = line.split("|", 5)
        # sinfo adds where the GPUs sit: gpu:h100:8(S:0-1).
        gres = re.sub(r"\(S:[^)]*\)", "", gres)
        nodes[name] = LiveNode("" if gres == "(null)" else gres, int(cpus), int(memory), state, reason)
    return nodes


def parse_partitions(text: str) -> dict[str, str]:
    """Parse `scontrol --oneliner show partition` to name -> folded nodes."""
    partitions = {}
    for line in text.splitlines():
        pairs = pairs_of(line)
        if "PartitionName" in pairs:
            nodes = pairs.get("Nodes", "(null)")
            partitions[pairs["PartitionName"]] = "" if nodes == "(null)" else fold(expand(nodes))
    return partitions


def parse_topology(text: str) -> dict[str, dict[str, str]]:
    """Parse `scontrol show topology` (tree) to switch -> level, folded nodes and folded switches below."""
    switches = {}
    for line in text.splitlines():
        pairs = pairs_of(line)
        if "SwitchName" in pairs:
            below = pairs.get("Switches", "")
            switches[pairs["SwitchName"]] = {
                "level": pairs.get("Level", ""),
                "nodes": fold(expand(pairs["Nodes"])) if pairs.get("Nodes") else "",
                "switches": fold(expand(below)) if below else "",
            }
    return switches


def compare_nodes(wanted: Iterable[Mapping[str, object]], live: Mapping[str, LiveNode]) -> list[Finding]:
    """Compare groups of like nodes (`names` folded, `gres`, `cpus`, `memory`, `drained`) with the live ones."""
    findings = []
    for group in wanted:
        for name in expand(str(group["names"])):
            findings += _compare_node(name, group, live.get(name))
    return findings


def _compare_node(name: str, wanted: Mapping[str, object], live: LiveNode | None) -> list[Finding]:
    where = f"node {name}"
    if live is None:
        return [Finding(where, "known to Slurm", "unknown", "run playbooks/scheduler.yml")]
    findings = [
        Finding(where, f"{key} {wanted[key]}", f"{key} {found}", "compare the profile with `slurmd -C` on the node")
        for key, found in (("gres", live.gres), ("cpus", live.cpus), ("memory", live.memory))
        if str(wanted[key]) != str(found)
    ]
    state = live.state.rstrip("*~#!%$@^-+")
    if live.state.endswith("*") or (
        state not in HEALTHY and not (wanted.get("drained") and state in ("drain", "drng"))
    ):
        reason = "" if live.reason == "none" else f" ({live.reason})"
        fix = f"`journalctl -u slurmd` on {name}; then `scontrol update nodename={name} state=resume`"
        findings.append(
            Finding(where, "drained" if wanted.get("drained") else "able to run jobs", f"{live.state}{reason}", fix)
        )
    return findings


def compare_maps(
    kind: str, wanted: Mapping[str, object], live: Mapping[str, object], spared: Iterable[str] = ()
) -> list[Finding]:
    """Compare partitions or switches, name by name; `spared` names may be there beside the wanted ones."""
    findings = []
    for name in dict.fromkeys([*wanted, *live]):
        if name in wanted or name not in spared:
            want, found = wanted.get(name, "absent"), live.get(name, "absent")
            if want != found:
                findings.append(Finding(f"{kind} {name}", str(want), str(found), "run playbooks/scheduler.yml"))
    return findings


def table(findings: Iterable[Finding]) -> str:
    """Return findings as text, a line each."""
    return "\n".join(f"{one.where}: wanted {one.wanted}, found {one.found}; {one.fix}" for one in findings)
