# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide by Slurm's answer which nodes may be installed: drained by provisioning without jobs, or unknown to Slurm. All else is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils.common.hostlist import HostlistError, expand
from ...module_utils.common.text import few
from ...module_utils.slurm.live.drain_reasons import PROVISION
from ..roll.controller_call import is_lost

RUN = "orders"
"""Run of the reasons of provisioning. The progress of a node says which process works on it, so all runs have one name in Slurm."""
_UNKNOWN = "unknown to Slurm"


def refusals(nodes: Iterable[str], answer: Mapping[str, Any], sworn: str, check: bool = False) -> dict[str, str]:
    """Return node -> why it must not be installed. `answer` is the result of bedplate.cluster.slurm_node with state drained, or without.

    `sworn` is the hostlist of provision_without_slurm: nodes that a person names as unused. It counts only while Slurm does not answer.
    `check`: the answer is a prediction.
    """
    listed = list(nodes)
    if is_lost(answer) or not isinstance(answer.get("nodes"), Mapping):
        return _without_slurm(listed, str(answer.get("msg") or "no answer").rstrip(". "), sworn)
    found = {node: refusal(answer["nodes"].get(node), check) for node in listed}
    return {node: why for node, why in found.items() if why}


def early_refusals(nodes: Iterable[str], answer: Mapping[str, Any], sworn: str, waits: bool) -> dict[str, str]:
    """Return node -> why Slurm would not let it be drained now, before its BMC gets a request.

    `answer` is the result of bedplate.cluster.slurm_node without a state. With `waits` the drain waits for jobs. What this does not see
    is refused after the drain.
    """
    listed = list(nodes)
    if is_lost(answer) or not isinstance(answer.get("nodes"), Mapping):
        return refusals(listed, answer, sworn)
    found = {node: answer["nodes"].get(node) or {} for node in listed}
    return {node: refusal(one) for node, one in found.items() if _is_in_use(one, waits)}


def _is_in_use(found: Mapping[str, Any], waits: bool) -> bool:
    """Return whether a node has jobs for which the drain does not wait, or others than Slurm itself and provisioning have it."""
    kind = found.get("kind")
    is_others = (kind, found.get("run")) != (PROVISION, RUN) if kind else found.get("outcome") == "held"
    return bool(found.get("jobs") and not waits) or (is_others and not found.get("by_slurm"))


def refusal(found: Mapping[str, Any] | None, check: bool = False) -> str:
    """Return why a node must not be installed, "" if it may."""
    if not found:
        return "Slurm reported nothing. Run again."
    if found.get("why") == _UNKNOWN and not found.get("state"):
        return ""
    state, why = str(found.get("state", "")), str(found.get("why", ""))
    jobs = [str(one) for one in found.get("jobs") or ()]
    if jobs:
        text = f"job{'s' * (len(jobs) > 1)} {few(jobs)} on it"
        return f"{text} ({state}). Wait until they end, or set -e provision_drain_seconds=3600"
    # In check mode a node that would be drained has no reason yet.
    is_own = (found.get("kind"), found.get("run")) == (PROVISION, RUN)
    if found.get("outcome") == "drained" and (is_own or (check and found.get("changed"))):
        return ""
    shown = why if why.startswith(state) else f"{why or found.get('outcome') or 'no outcome'} ({state})"
    return f"{shown}. Only nodes that this run drains are installed: resume it first."


def unresumed(nodes: Iterable[str], answer: Mapping[str, Any]) -> dict[str, str]:
    """Return node -> that it was not resumed, for nodes that Slurm did not report. `answer`: the result with state resumed."""
    found = answer.get("nodes")
    if is_lost(answer) or not isinstance(found, Mapping):
        error = str(answer.get("msg") or "no answer").rstrip(". ")
        text = f"not resumed in Slurm, which does not answer: {error}. When it does, run again, which resumes it"
        return dict.fromkeys(nodes, text)
    return {node: "not resumed in Slurm, which reported nothing. Run again" for node in nodes if not found.get(node)}


def named(sworn: str) -> set[str]:
    """Return the nodes of provision_without_slurm, none for a hostlist that cannot be read."""
    try:
        return set(expand(sworn)) if sworn else set()
    except HostlistError:
        return set()


def _without_slurm(nodes: list[str], error: str, sworn: str) -> dict[str, str]:
    try:
        unused = set(expand(sworn)) if sworn else set()
    except HostlistError as mistake:
        return dict.fromkeys(nodes, f"provision_without_slurm: {mistake}")
    remedy = "If no job can run on it, as before Slurm is installed, name it in -e provision_without_slurm=..."
    return {
        node: f"Slurm does not answer, so jobs may use it: {error}. {remedy}" for node in nodes if node not in unused
    }
