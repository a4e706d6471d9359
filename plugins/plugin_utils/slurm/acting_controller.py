# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide from the answers of all controllers which one is in charge, and whether a run may start the primary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

Answers = Mapping[str, Mapping[str, Any]]
"""Controller -> the answer of bedplate.cluster.slurm_acting there; {} without an answer."""


@dataclass(frozen=True)
class ActingController:
    """The controller in charge, and whether a run leaves slurmctld of the primary stopped.

    `acting` is "" if no controller is in charge. `keeps_primary_down`: the primary is part of the run, its slurmctld does not run, and
    a standby is in charge; starting the primary would take the control back. `text` says so.
    """

    acting: str
    primary: str
    keeps_primary_down: bool
    text: str

    def facts(self) -> dict[str, Any]:
        """Return the decision as plain data."""
        return asdict(self)


def decide(controllers: Iterable[str], answers: Answers) -> ActingController:
    """Return the decision for `controllers`, the primary first.

    A controller knows best whether its own slurmctld runs: another one may be cut off from it. The heartbeat of a standby outweighs a
    primary that sees no controller.
    """
    names = list(controllers)
    primary = names[0] if names else ""
    given = {name: answer for name in names if (answer := answers.get(name) or {}).get("up") is not None}
    acting = _acting(primary, names, given)
    keeps = bool(acting) and acting != primary and primary in given
    text = (
        f"{primary} is the primary and does not run; {acting} is in charge. This run writes the files of {primary} and does not start "
        f"its slurmctld: that would take the control back. playbooks/takeover.yml -e takeover_by={primary} hands it back"
    )
    return ActingController(acting, primary, keeps, text if keeps else "")


def _acting(primary: str, names: list[str], given: Answers) -> str:
    own = given.get(primary)
    if own is not None and primary in own["up"]:
        return primary
    if own is None and any(primary in answer["up"] for answer in given.values()):
        return primary
    seen = [given[name].get("acting") for name in names if name in given]
    # The primary's slurmctld does not answer on its own host. A heartbeat of the primary that others see is of before.
    return next((name for name in seen if name and (name != primary or own is None)), "")
