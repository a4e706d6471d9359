# SPDX-License-Identifier: GPL-3.0-or-later
"""Write files that are lists of GUIDs, and report missing GUIDs that OpenSM's files need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import guid_of

from .fabric_model import Hca, Plan, Switch

_MOST = 1 << 64


class GuidError(ValueError):
    """GUIDs that are missing in the plan, and how to record them."""


@dataclass(frozen=True)
class NeededGuids:
    """A file, and the kind of GUID that it needs: `node` or `port`."""

    file: str
    sort: str


def missing_guids(needed: NeededGuids, plan: Plan, nodes: Sequence[Switch | Hca]) -> str:
    """Return the message about nodes without the required GUID; "" if all have it."""
    if all(_guid(node, needed.sort) for node in nodes):
        return ""
    listed = list({node.name: node for node in nodes}.values())
    without = [node for node in listed if not _guid(node, needed.sort)]
    what = "switches" if all(isinstance(node, Switch) for node in listed) else "HCAs"
    return (
        f"{needed.file} needs {needed.sort} GUIDs, and {len(without)} of {len(listed)} {what} lack one: "
        f"{few(plan.where(node.name) for node in without)}. Record them: playbooks/fabric_compare.yml -e fabric_record=true "
        "discovers the cabled fabric and binds its GUIDs to the names of the plan"
    )


def _guid(node: Switch | Hca, sort: str) -> str:
    return node.port_guid if sort == "port" and isinstance(node, Hca) else node.guid


def guid_list(needed: NeededGuids, plan: Plan, nodes: Sequence[Switch | Hca], head: str) -> str:
    """Return a file with a GUID and, as a comment, a name on each line. Raises GuidError if one is missing."""
    if missing := missing_guids(needed, plan, nodes):
        raise GuidError(missing)
    lines = [f"# {head}", *(f"0x{guid_of(_guid(node, needed.sort))} # {node.name}" for node in nodes)]
    return "\n".join(lines) + "\n"


def is_guid(guid: str) -> bool:
    """Return whether a text is a GUID: at most 16 hexadecimal digits, not 0 and not all ones.

    >>> is_guid("0x2c903000a0b0c"), is_guid("0"), is_guid("2c9:1")
    (True, False, False)
    """
    text = guid.lower()
    text = text[2:] if text.startswith("0x") else text
    if not re.match(r"[0-9a-f]{1,16}\Z", text):
        return False
    return 0 < int(text, 16) < _MOST - 1
