# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenSM's files of a plane as playbooks/fabric.yml writes them: what lacks GUIDs, as before delivery, is left out, and named."""

from __future__ import annotations

import re

from ..core.fabric_model import STORAGE
from ..plan.checked_plan import Planned
from . import opensm_files as opensm
from .opensm_options import QOS, Choices, options
from .opensm_options import opensm_conf as options_text

# The file of a plane that says which files are not there, and why.
LEFT_OUT = "left-out.txt"


def directory(plane: str, part: str = "") -> str:
    """Return the name of a plane as that of a directory; `fabric` for the only one. `part` is `Plan.part`.

    >>> directory(""), directory("rail 0/a"), directory("", "storage"), directory("rail0", "storage")
    ('fabric', 'rail-0-a', 'storage', 'storage-rail0')
    """
    return re.sub(r"[^A-Za-z0-9_.-]", "-", "-".join(filter(None, (part, plane)))).lstrip(".") or "fabric"


def opensm_files(work: Planned, plane: str) -> dict[str, str]:
    """Return OpenSM's files of a plane, and the file that lists the missing ones."""
    plan = work.plan
    qos = QOS if any(hca.purpose == STORAGE and hca.plane == plane for hca in plan.hcas.values()) else ()
    choices = Choices(qos=qos)
    writers = opensm.writers(plan, plane, choices)
    managers = [one for one in plan.managers if plan.hcas[one.hca].plane == plane]
    for number, manager in enumerate(managers):
        host = plan.hcas[manager.hca].host
        name = f"opensm-{host}.conf" if number else opensm.OPTIONS
        writers[name] = lambda manager=manager: options_text(options(plan, manager, choices))  # type: ignore[misc]
    found, left = {}, list(work.managers.get(plane, []))
    for name, write in writers.items():
        try:
            found[name] = write()
        except ValueError as error:
            left += str(error).split("\n")
    if not managers:
        left.insert(0, f"{opensm.OPTIONS} needs a subnet manager:")
    if left:
        text = "# Files that are left out, and why. A run after the GUIDs are on record writes them.\n" + "\n".join(
            left
        )
        found[LEFT_OUT] = f"{text}\n"
    return found
