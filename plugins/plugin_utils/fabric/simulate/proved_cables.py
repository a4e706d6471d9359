# SPDX-License-Identifier: GPL-3.0-or-later
"""The cables that a proof is of: it is compared with no other ones."""

from __future__ import annotations

import hashlib

from ..core.fabric_model import Plan


def cables_digest(plan: Plan, plane: str) -> str:
    """Return the digest of a plane's cables: both ends of each, and whether the plan leaves it out. GUIDs have no part in it."""
    ends = (plan.hcas, plan.switches)
    planes = {name: one.plane for kind in ends for name, one in kind.items()}
    cables = sorted(f"{link.ends} {link.missing}" for link in plan.links if planes.get(link.a) == plane)
    return hashlib.sha256("\n".join(cables).encode()).hexdigest()
