# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the running kernel's command line with the desired tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .cmdline_tokens import Token, of_families, owned


def reboot_reason(running: Sequence[Token], wanted: Sequence[Token], past: Iterable[Token]) -> str:
    """Return the reason for a reboot, as one sentence that names tokens; ``""`` without a reason.

    Each desired family must match: all its tokens, in their order, and no others. The order of families does not matter. `past` are former
    tokens of ours that the next boot will not have.
    """
    lacks: list[str] = []
    other: list[str] = []
    for family in dict.fromkeys(token.family for token in wanted):
        want, found = of_families(wanted, {family}), of_families(running, {family})
        if [token.same for token in want] == [token.same for token in found]:
            continue
        if found:
            other.append(f"{_words(found)} in place of {_words(want)}")
        else:
            lacks.append(_words(want))
    families, there = owned(wanted), {token.same for token in running}
    still = [str(token) for token in past if token.family not in families and token.same in there]
    parts = []
    if lacks:
        parts.append(f"lacks {' '.join(lacks)}")
    if other:
        parts.append(f"has {', '.join(other)}")
    if still:
        parts.append(f"still has {' '.join(still)}, which is no longer configured")
    return f"the running kernel {', and '.join(parts)}" if parts else ""


def _words(tokens: Iterable[Token]) -> str:
    return " ".join(str(token) for token in tokens)
