# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the findings of a comparison with the last comparison: new findings, and findings that no longer exist."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding, from_json

# A finding is known again by its kind and its ports, or its place if it has none: numbers in its text may differ.
Key = tuple[str, object]


@dataclass(frozen=True)
class SinceLast:
    """New findings, by key, and findings of the last comparison that no longer exist; both are empty without a last comparison."""

    new: frozenset[Key] = frozenset()
    gone: tuple[Finding, ...] = ()

    def is_new(self, finding: Finding) -> bool:
        """Return whether the last comparison did not have this finding."""
        return key_of(finding) in self.new

    def __str__(self) -> str:
        parts = [f"{len(self.new)} new" if self.new else "", f"{len(self.gone)} gone" if self.gone else ""]
        words = ", ".join(filter(None, parts))
        return f"{words} since the last comparison" if words else ""


FIRST = SinceLast()


def key_of(finding: Finding) -> Key:
    """Return what a finding is known by in the next comparison."""
    return finding.kind, tuple(sorted(finding.ports)) if finding.ports else finding.where


def since_last(last: str, fabric: str, findings: Sequence[Finding]) -> SinceLast:
    """Return the difference from the last comparison of a fabric; `last` is its findings.json, any other text counts as none."""
    before = _findings(last, fabric)
    if before is None:
        return FIRST
    old, now = {key_of(one) for one in before}, {key_of(one) for one in findings}
    return SinceLast(frozenset(now - old), tuple(one for one in before if key_of(one) not in now))


def _findings(text: str, fabric: str) -> list[Finding] | None:
    """Return the findings of a findings.json; None if it cannot be read or is of another fabric."""
    try:
        data = json.loads(text)
        return from_json(data["findings"]) if data["fabric"] == fabric else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
