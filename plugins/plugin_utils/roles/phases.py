# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose packages, files or services of a part by the tags of a run: `<role>_packages`, `<role>_files`, `<role>_services`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ..parts.decision import Step

PACKAGES, FILES, SERVICES = PHASES = ("packages", "files", "services")
ALL = frozenset(PHASES)
_EVERY_TASK = ("all", "tagged")


def tags(role: str) -> list[str]:
    """Return the tags of a role's parts."""
    return [f"{role}_{phase}" for phase in PHASES]


def chosen_phases(role: str, run_tags: Collection[str], task_tags: Iterable[str]) -> frozenset[str]:
    """Return the phases that a run with `run_tags` deploys in a task with `task_tags`.

    All of them if the run chose the task by another tag, such as that of its play.
    """
    own = set(tags(role))
    others = set(task_tags) - own
    if not run_tags or others & set(run_tags) or set(_EVERY_TASK) & set(run_tags):
        return ALL
    return frozenset(phase for phase in PHASES if f"{role}_{phase}" in run_tags) or ALL


def narrowed(arguments: Mapping[str, Any], undivided: bool, phases: frozenset[str]) -> dict[str, Any] | None:
    """Return the arguments of bedplate.cluster.deploy for some phases; None if the part has nothing to deploy in them.

    An undivided part is deployed whole. Files and services of a part that restores files on failure are one change, and so is the removal
    of a part. A task that states `only` decides itself, whatever the tags of the run.
    """
    if undivided or phases == ALL or "only" in arguments:
        return dict(arguments)
    if arguments.get("state") == "absent":
        return dict(arguments) if phases & {FILES, SERVICES} else None
    if arguments.get("take_back") and phases & {FILES, SERVICES}:
        phases |= {FILES, SERVICES}
    if phases == ALL:
        return dict(arguments)
    return {**arguments, "only": [phase for phase in PHASES if phase in phases]}


def runs_step(step: Step, phases: frozenset[str]) -> bool:
    """Return whether a step runs in some phases. A step without phases, such as a check before a change, always runs."""
    return not step.phases or bool(phases & set(step.phases))


def waiting_units(arguments: Mapping[str, Any], changed: Collection[str]) -> Iterator[str]:
    """Yield the units that must read changed files, if the arguments leave out services."""
    if SERVICES in arguments.get("only", ALL):
        return
    for unit in arguments.get("units") or ():
        own = {f"/etc/systemd/system/{unit['name']}", *unit.get("restart_after", ()), *unit.get("reload_after", ())}
        if own & set(changed):
            yield unit["name"]
