# SPDX-License-Identifier: GPL-3.0-or-later
"""P10: partitions can be written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..core.fabric_model import Plan, PlanProblem
from .plan_index import View, plan_problem

# P_Key of the default partition.
DEFAULT = 0x7FFF
MEMBERSHIPS = ("full", "limited", "both")
# Signs of a partition's name that OpenSM keeps.
LONGEST = 31
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\Z")


def partitions(view: View) -> Iterator[PlanProblem]:
    """P10: names and P_Keys are OpenSM's and unique, and members and subnet managers are in the plan."""
    yield from (plan_problem("P10", "partitions", text) for text in _mistakes(view.plan))


def _mistakes(plan: Plan) -> list[str]:
    """Return the mistakes of the partitions and subnet managers of a plan."""
    wrong = []
    hosts = {hca.host for hca in plan.hcas.values()}
    pkeys: dict[int, str] = {}
    names: dict[str, str] = {"default": "the default partition"}
    for one in plan.partitions:
        where = f"partition {one.name}"
        if not _NAME.match(one.name) or len(one.name) > LONGEST:
            wrong.append(f"{where}: allowed as name: at most {LONGEST} letters, digits and _.-, a letter first")
        if one.name.lower() in names:
            wrong.append(f"{where}: has the name of {names[one.name.lower()]}")
        if not 0 < one.pkey < DEFAULT:
            wrong.append(
                f"{where}: pkey 0x{one.pkey:x}; allowed: 0x0001 to 0x7ffe, without the top bit, full membership"
            )
        elif one.pkey in pkeys:
            wrong.append(f"{where}: has the pkey 0x{one.pkey:04x} of {pkeys[one.pkey]}, so both would be one")
        names.setdefault(one.name.lower(), where)
        pkeys.setdefault(one.pkey, where)
        for member, membership in one.members.items():
            if member not in hosts and member not in plan.hcas:
                wrong.append(f"{where}: {member} is neither a host nor an HCA of the plan")
            if membership not in MEMBERSHIPS:
                wrong.append(f"{where}: {member} is {membership!r}; allowed: {', '.join(MEMBERSHIPS)}")
        if not one.members:
            wrong.append(f"{where}: has no members, so OpenSM would leave it out")
    wrong += [
        f"subnet manager {one.hca} is not an HCA of the plan" for one in plan.managers if one.hca not in plan.hcas
    ]
    return wrong
