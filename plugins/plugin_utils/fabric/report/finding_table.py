# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding

from .since_last import FIRST, SinceLast

# Findings that a terminal shows; all are in the files.
_SHOWN = 100


def table(findings: Sequence[Finding], summary: str, since: SinceLast = FIRST) -> str:
    """Return findings for a terminal, the gravest first: place, found state, and remedy; new ones are marked, gone ones are last."""
    lines = [summary]
    width = max((len(one.kind) for one in (*findings, *since.gone)), default=0)
    for one in findings[:_SHOWN]:
        new = "NEW: " if since.is_new(one) else ""
        lines.append(
            f"{one.severity.upper():7}  {one.kind:{width}}  {new}{printable(one.where)}: {printable(one.difference)}"
        )
        if one.remedy:
            lines.append(f"{'':7}  {'':{width}}  -> {printable(one.remedy)}")
    if len(findings) > _SHOWN:
        lines.append(f"and {len(findings) - _SHOWN} more; findings.json and fabric.html have all")
    lines += [
        f"{'GONE':7}  {one.kind:{width}}  {printable(one.where)}: {printable(one.difference)}"
        for one in since.gone[:_SHOWN]
    ]
    return "\n".join(lines)


def printable(text: str) -> str:
    """Return text without control characters: names are read from the network."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)
