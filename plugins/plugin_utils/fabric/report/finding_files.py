# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of a fabric for machines: as JSON, and as JUnit's XML."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, Finding, to_json

from ...common import junit as common_junit
from ..core.fabric_model import Plan
from ..core.places import KINDS, worst
from .since_last import FIRST, SinceLast


def as_json(plan: Plan, findings: Sequence[Finding], *, ok: int | None = None, since: SinceLast = FIRST) -> str:
    """Return findings for machines; `worst` is the gravest severity, "" without findings. `since` has the new ones."""
    counts: Mapping[str, int] = Counter(one.kind for one in findings)
    found = {
        "fabric": plan.name,
        "worst": worst(findings),
        "ok": ok,
        "planned": sum(1 for _unused in plan.present),
        "counts": {kind: counts[kind] for kind in sorted(counts)},
        "new": len(since.new),
        "findings": [{**row, "new": since.is_new(one)} for row, one in zip(to_json(findings), findings, strict=True)],
        "gone": to_json(since.gone),
    }
    return json.dumps(found, indent=1) + "\n"


def junit(plan: Plan, findings: Sequence[Finding], *, fail_on: str = ERROR) -> str:
    """Return findings as JUnit's XML: a case for each, and one passed case for each kind without any."""
    return common_junit.junit(f"fabric {plan.name}", "fabric", KINDS, findings, fail_on=fail_on)
