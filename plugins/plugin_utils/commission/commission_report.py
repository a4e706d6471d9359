# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of a run: the summary with a line for all machines with the same steps, the findings, the diff, and the data of the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils.common.finding import WARNING, Finding
from ...module_utils.common.hostlist import fold
from ..bmc.bmc_findings import DIFFERENT, MISSING, UNKNOWN, UNREAD, lines, of_error
from ..bmc.bmc_findings import KINDS as BMC_KINDS
from ..bmc.bmc_targets import Target
from ..bmc.power_run import NOT_ALLOWED
from ..redfish.errors import BmcError
from . import outcome
from .outcome import ACCOUNT, CERTIFICATE, CHANGED, FACTORY, IPMI, NTP, PREDICTED, RECORD, NodeResult, Step

_TITLES = {
    ACCOUNT: "accounts that were not created",
    FACTORY: "factory passwords that remain",
    NTP: "NTP servers that were not set",
    IPMI: "IPMI that may be on",
    CERTIFICATE: "certificates that are not of the CA",
    RECORD: "fingerprints that were not recorded",
}
KINDS = {
    **{f"bmc-{name}": title for name, title in _TITLES.items()},
    **{kind: BMC_KINDS[kind] for kind in (MISSING, UNKNOWN, DIFFERENT, UNREAD)},
}
_WORDS = {
    ACCOUNT: "own account",
    FACTORY: "factory password gone",
    NTP: "NTP",
    IPMI: "IPMI off",
    CERTIFICATE: "certificate of the CA",
    RECORD: "fingerprint recorded",
}


def findings_of(targets: Mapping[str, Target], results: Mapping[str, NodeResult]) -> list[Finding]:
    """Return the findings of all machines, in the order of the targets."""
    found = []
    for node, one in results.items():
        target = targets[node]
        for step in one.steps:
            if step.error:
                found.append(_of_step(target, step, step.error))
            elif step.state == outcome.UNKNOWN:
                remedy = "Write the account of new BMCs into it"
                place = f"BMC {target.address} {step.name}"
                found.append(Finding(f"bmc-{step.name}", place, "", step.after, remedy, WARNING, node))
        if one.error and not any(one.error is step.error for step in one.steps):
            found.append(_of_contact(target, one.error))
    return found


def _of_step(target: Target, step: Step, error: BmcError) -> Finding:
    seen = of_error(target, error)
    return Finding(
        f"bmc-{step.name}",
        f"BMC {target.address} {step.name}",
        seen.expected,
        seen.found,
        seen.remedy,
        machine=target.node,
    )


def _of_contact(target: Target, error: BmcError) -> Finding:
    if error.kind == NOT_ALLOWED:
        kind = DIFFERENT if target.recorded.serial else UNKNOWN
        what = error.what.replace(f" at {target.address}", "")
        return Finding(kind, f"BMC {target.address}", "", what, error.remedy, machine=target.node)
    return of_error(target, error)


def counts(results: Mapping[str, NodeResult]) -> dict[str, int]:
    """Return state -> number of BMCs: commissioned and failed."""
    failed = sum(one.has_failed for one in results.values())
    return {name: number for name, number in (("commissioned", len(results) - failed), ("failed", failed)) if number}


def summary(results: Mapping[str, NodeResult], findings: list[Finding], targets: Mapping[str, Target]) -> str:
    """Return the summary: counts, what changed or would change, and a line for each finding."""
    numbers = ", ".join(f"{number} {state}" for state, number in counts(results).items())
    text = [f"{len(results)} BMCs: {numbers}"]
    for state, words in ((CHANGED, "changed"), (PREDICTED, "would change")):
        groups: dict[str, list[str]] = {}
        for node, one in results.items():
            if steps := [_WORDS[step.name] for step in one.steps if step.state == state]:
                groups.setdefault(", ".join(steps), []).append(node)
        text += [f"{fold(nodes)}: {words}: {steps}" for steps, nodes in groups.items()]
    return "\n".join([*text, *lines(findings, targets)])


def states(results: Mapping[str, NodeResult], *, after: bool) -> str:
    """Return a line for each changed step with its state before or after, for a diff."""
    return "".join(
        f"{node} {step.name}: {(step.after if after else step.before) or 'none'}\n"
        for node, one in results.items()
        for step in one.steps
        if step.state in (CHANGED, PREDICTED)
    )


def data_of(cluster: str, results: Mapping[str, NodeResult], targets: Mapping[str, Target]) -> dict[str, Any]:
    """Return the data of the JSON report: counts, and each machine with its state, address and steps."""
    machines = {
        node: {
            "state": one.state,
            "address": targets[node].address,
            "steps": {step.name: step.state for step in one.steps},
        }
        for node, one in results.items()
    }
    return {"cluster": cluster, "counts": counts(results), "machines": machines}
