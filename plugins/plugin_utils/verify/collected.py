# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of all machines: collected, folded and written for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import (
    ERROR,
    NOTICE,
    WARNING,
    Finding,
    from_json,
    ordered,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.live_drift import SILENT, SLURM

_SSH = re.compile(r".*ssh: connect to host \S+ port \d+: ")
_WORDS = {ERROR: "ERROR", WARNING: "WARNING", NOTICE: "notice"}


def collected(results: Mapping[str, Mapping[str, Any] | None], controllers: Sequence[str]) -> list[Finding]:
    """Return the findings of all machines, each with its machine; `results` are from bedplate.cluster.node_state, by host.

    What several controllers report of Slurm as a whole is taken from the first of `controllers` whose Slurm answers.
    """
    found = {host: _of_machine(host, result) for host, result in results.items()}
    speaker = next((host for host in controllers if host in found and _answers(results[host], found[host])), None)
    return ordered(
        one
        for host, findings in found.items()
        for one in _named_once(findings)
        if one.machine != SLURM or speaker is None or host == speaker
    )


def unasked(results: Mapping[str, Any], controllers: Sequence[str]) -> list[Finding]:
    """Return a notice if Slurm's state was not read because a --limit leaves out all controllers."""
    if not controllers or set(controllers) & set(results):
        return []
    return [Finding("not-checked", "Slurm", "to be compared", "no controller is within this run", severity=NOTICE)]


def _of_machine(host: str, result: Mapping[str, Any] | None) -> list[Finding]:
    if result is None:
        return [Finding("unread", "machine", "to be compared", "no result in this run", machine=host)]
    if result.get("unreachable"):
        text = " ".join(str(result.get("msg") or "no answer").split())
        # Without the address machines that are off for one reason are one line.
        text = _SSH.sub("SSH: ", text)
        remedy = "switch it on, or see why SSH fails; then verify again"
        return [Finding("unreachable", "machine", "to answer", text, remedy, machine=host)]
    if "findings" not in result:
        text = " ".join(str(result.get("msg") or "no message").split())
        return [Finding("unread", "machine", "to be compared", text, machine=host)]
    return [one if one.machine else one.on(host) for one in from_json(result["findings"])]


def _named_once(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, without a changed file if other findings name its options."""
    named = {one.where.split(" ")[0] for one in findings if one.kind == "slurm-conf"}
    return [one for one in findings if one.kind != "file" or one.where.removeprefix("file ") not in named]


def _answers(result: Mapping[str, Any] | None, findings: Iterable[Finding]) -> bool:
    return "slurm" in ((result or {}).get("compared") or ()) and not any(one.kind == SILENT for one in findings)


def folded(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with one for all machines that have the same, their names as a hostlist."""
    machines: dict[Finding, dict[str, None]] = {}
    for one in findings:
        machines.setdefault(replace(one, machine=""), {})[one.machine] = None
    return ordered(one.on(_names([name for name in names if name])) for one, names in machines.items())


def _names(names: list[str]) -> str:
    return fold(names) if len(names) > 1 else "".join(names)


def lines(findings: Iterable[Finding]) -> str:
    """Return the findings as text, a line each."""
    return "\n".join(f"{_WORDS[one.severity]} {one}" for one in findings)
