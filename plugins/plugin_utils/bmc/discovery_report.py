# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of a discovery: the summary with one line for each finding, and the data of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...module_utils.common.hostlist import fold
from ..machines.machine_values import BMC_FINGERPRINT, KEYS
from ..machines.record_changes import NEW, Update
from .bmc_findings import lines
from .bmc_targets import Target
from .discovery import Discovery

_MOST_FINGERPRINTS = 50


def summary(result: Discovery, update: Update, targets: Mapping[str, Target], *, records: bool, is_check: bool) -> str:
    """Return the summary: counts, a line for each finding, and the values that are new."""
    counts = ", ".join(f"{number} {state}" for state, number in result.counts().items()) or "no BMC declared"
    text = [f"{len(targets)} BMCs: {counts}", *lines(result.findings, targets)]
    new = update.comparison.of_state(NEW)
    if new:
        keys = Counter(one.key for one in new)
        shown = ", ".join(f"{keys[key]} {key}" for key in KEYS if keys[key])
        verb = "would be recorded" if is_check else "recorded"
        remedy = (
            f"{verb} in {update.path.name}"
            if records
            else "not on record; bmc_discover.yml -e bmc_record=true records them"
        )
        text.append(f"new values: {shown}: {remedy}")
    if records:
        text += _fingerprints(update)
    return "\n".join(text)


def _fingerprints(update: Update) -> list[str]:
    """Return the certificates that this run trusts for the first time, for a comparison with the BMCs' own displays."""
    rows = [one for one in update.comparison.of_state(NEW) if one.key == BMC_FINGERPRINT]
    if not rows:
        return []
    text = ["trusted at first contact, certificate SHA-256:"]
    text += [f"  {one.node} {one.found}" for one in rows[:_MOST_FINGERPRINTS]]
    if left := [one.node for one in rows[_MOST_FINGERPRINTS:]]:
        text.append(f"  and {fold(left)}: see the record")
    return text


def data_of(cluster: str, result: Discovery, targets: Mapping[str, Target]) -> dict[str, Any]:
    """Return the data of the JSON report: counts, and each machine with its state, address and facts."""
    machines = {
        node: {"state": result.states[node], "address": target.address, **result.facts.get(node, {})}
        for node, target in targets.items()
    }
    return {"cluster": cluster, "counts": result.counts(), "machines": machines}
