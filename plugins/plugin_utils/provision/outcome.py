# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what a run will do and has done, as text: nodes with the same result are one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils.common.hostlist import fold
from ...module_utils.provision.progress import KNOWN, Progress
from .planning import Plan
from .wanted import Wanted

_NEXT = "run site.yml, then provision.yml with the same nodes, which resumes them"


def intended(plan: Plan, wanted: Mapping[str, Wanted], check: bool) -> list[str]:
    """Return lines: which nodes get which image, which disks lose their data, and which nodes are refused."""
    lines = []
    for image in dict.fromkeys(wanted[node].image_name for node in plan.work):
        nodes = [node for node in plan.work if wanted[node].image_name == image]
        sha256 = str(wanted[nodes[0]].image["sha256"])[:12]
        verb = "would install" if check else "installs"
        lines.append(f"{fold(nodes)}: {verb} image {image} (sha256 {sha256}...)")
    lines += [
        f"{node}: the data on disk {wanted[node].machine['disk']} may be ERASED"
        for node in plan.work
        if wanted[node].wipes
    ]
    lines += [f"{node}: continues at {one.state}" for node, one in plan.work.items() if one.state != "planned"]
    return [*lines, *known_lines(plan.known, wanted), *grouped(plan.refused, "REFUSED: ")]


def known_lines(known: Mapping[str, Progress], wanted: Mapping[str, Wanted]) -> list[str]:
    """Return lines for nodes that are installed, and for nodes with another image than the cluster file has now."""
    texts = {}
    for node, one in known.items():
        text = f"has image {one.image} (sha256 {one.sha256[:12]}...) already"
        if one.sha256 != wanted[node].image["sha256"]:
            text += (
                f", and the cluster file has {wanted[node].image_name}. To install it, name the node in provision_wipe"
            )
        texts[node] = text
    return grouped(texts)


def grouped(reasons: Mapping[str, str], prefix: str = "") -> list[str]:
    """Return a line for all nodes with the same text."""
    groups: dict[str, list[str]] = {}
    for node, why in reasons.items():
        groups.setdefault(why, []).append(node)
    return [f"{fold(names)}: {prefix}{why}" for why, names in groups.items()]


def results(progress: Mapping[str, Progress], stopped: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return node -> `state` and `reason`; "" as reason of a node that is installed."""
    return {
        node: {"state": one.state, "reason": stopped.get(node, "" if one.state == KNOWN else one.reason)}
        for node, one in progress.items()
    }


def summary(known: Iterable[str], failed: Mapping[str, str], slurm: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return lines of the end of a run. `slurm`: node -> result of the resume."""
    listed = list(known)
    lines = [f"{fold(listed)}: installed, and answers by SSH with its own host key"] if listed else []
    resumed = [node for node, one in slurm.items() if one.get("outcome") == "resumed" and one.get("changed")]
    if resumed:
        lines.append(f"{fold(resumed)}: resumed in Slurm")
    waiting = {
        node: f"stays drained in Slurm: {one.get('why') or one.get('outcome')}. When it is set up, {_NEXT}"
        for node, one in slurm.items()
        if one.get("outcome") != "resumed" and one.get("why") != "unknown to Slurm"
    }
    return [*lines, *grouped(waiting), *grouped(failed)]
