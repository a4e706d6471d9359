# SPDX-License-Identifier: GPL-3.0-or-later
"""Group the tokens of nodes that boot from the network, for their boot server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold


@dataclass(frozen=True)
class BootTokens:
    """Tokens that a boot server passes to some nodes of one profile; `nodes` is a hostlist, `tokens` one line."""

    profile: str
    nodes: str
    tokens: str


def grouped(nodes: Iterable[tuple[str, str, Sequence[str]]]) -> list[BootTokens]:
    """Return nodes with equal tokens together; `nodes` has (name, profile, tokens) in the order of the cluster file.

    >>> grouped([("gpu1", "h100", ["iommu=pt"]), ("gpu2", "h100", ["iommu=pt"])])
    [BootTokens(profile='h100', nodes='gpu[1-2]', tokens='iommu=pt')]
    """
    found: dict[tuple[str, str], list[str]] = {}
    for name, profile, tokens in nodes:
        found.setdefault((profile, " ".join(tokens)), []).append(name)
    return [BootTokens(profile, fold(names), tokens) for (profile, tokens), names in found.items()]


def text(rows: Sequence[BootTokens]) -> str:
    """Return groups of nodes as text: a line with the profile and its nodes, and a line with the tokens."""
    return "".join(f"# profile {row.profile}: {row.nodes}\n{row.tokens}\n" for row in rows)


def to_json(rows: Sequence[BootTokens]) -> str:
    """Return groups of nodes as JSON: a list of objects with profile, nodes and tokens."""
    return json.dumps([asdict(row) for row in rows], indent=2) + "\n"


def tokens_of(expected: Mapping[str, Mapping[str, object]]) -> Sequence[str] | None:
    """Return the tokens in a decision's `expected` of a node that boots from the network; None for another node."""
    found = expected.get("node_tuning", {})
    tokens = found.get("tokens")
    return tokens if found.get("boot") == "network" and isinstance(tokens, list) else None
