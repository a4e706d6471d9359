# SPDX-License-Identifier: GPL-3.0-or-later
"""GUIDs that files of OpenSM need, and files that are lists of GUIDs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.findings import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import guid_of
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Hca, Plan, Problem, Switch

_STRICT = re.compile(r"0x[0-9A-Fa-f]{1,16}\Z")
_MOST = 1 << 64


class GuidError(ValueError):
    """GUIDs that the plan does not have, and how they get there."""


@dataclass(frozen=True)
class Want:
    """A file, and the GUIDs it needs: `node` or `port`."""

    file: str
    sort: str


def missing_guids(want: Want, plan: Plan, things: Sequence[Switch | Hca]) -> str:
    """Return what to say of things without the GUID that is wanted; "" when all have it."""
    if all(_guid(thing, want.sort) for thing in things):
        return ""
    listed = list({thing.name: thing for thing in things}.values())
    without = [thing for thing in listed if not _guid(thing, want.sort)]
    what = "switches" if all(isinstance(thing, Switch) for thing in listed) else "HCAs"
    return (
        f"{want.file} needs {want.sort} GUIDs, and {len(without)} of {len(listed)} {what} have none: "
        f"{few(plan.where(thing.name) for thing in without)}. Record them: playbooks/fabric_compare.yml -e fabric_record=true "
        "discovers the cabled fabric and binds its GUIDs to the names of the plan"
    )


def _guid(thing: Switch | Hca, sort: str) -> str:
    return thing.port_guid if sort == "port" and isinstance(thing, Hca) else thing.guid


def listing(want: Want, plan: Plan, things: Sequence[Switch | Hca], head: str) -> str:
    """Return a file with a GUID and, as a comment, a name on each line; GuidError when one is missing."""
    if missing := missing_guids(want, plan, things):
        raise GuidError(missing)
    lines = [f"# {head}", *(f"0x{guid_of(_guid(thing, want.sort))} # {thing.name}" for thing in things)]
    return "\n".join(lines) + "\n"


def read_guids(text: str, file: str, rule: str) -> tuple[dict[str, int], list[Problem]]:
    """Return GUIDs of a list in 16 digits, with their lines, and what OpenSM would refuse or misread in it."""
    found: dict[str, int] = {}
    problems = []
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        wrong = ""
        if not _STRICT.match(words[0]):
            wrong = f"{words[0]!r} is no GUID; allowed: 0x and at most 16 hexadecimal digits"
        elif (first := found.setdefault(guid_of(words[0]), number)) != number:
            wrong = f"{words[0]} is in line {first} already"
        if wrong:
            problems.append(Problem(rule, f"{file} line {number}", wrong))
    return found, problems


def valid(guid: str) -> bool:
    """Tell whether text is a GUID: at most 16 hexadecimal digits, not 0 and not all ones.

    >>> valid("0x2c903000a0b0c"), valid("0"), valid("2c9:1")
    (True, False, False)
    """
    text = guid.lower()
    text = text[2:] if text.startswith("0x") else text
    if not re.match(r"[0-9a-f]{1,16}\Z", text):
        return False
    return 0 < int(text, 16) < _MOST - 1
