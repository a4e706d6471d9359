# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse several controllers with a StateSaveLocation that is not proved to be one directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common import finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.shared_state import KIND

Answers = Mapping[str, Any]


def marks(controllers: Iterable[str], left: Answers) -> dict[str, str]:
    """Return the marks that the controllers have left, name -> mark."""
    return {name: left[name]["mark"] for name in controllers if _is_answer(left.get(name)) and left[name]["mark"]}


def refuse(controllers: Iterable[str], left: Answers, seen: Answers) -> str:
    """Return the problems of the storage of all controllers, a line each; empty if it is proved.

    `left` and `seen`: controller -> result of slurm_shared_state, of its steps `leave` and `look`. One that was not asked stops a first
    start: it may have a directory of its own. It stops nothing where another one runs already on the directory that was proved.
    """
    names = list(controllers)
    rows = [
        one.on(name)
        for answers in (left, seen)
        for name in names
        if _is_answer(answers.get(name))
        for one in finding.from_json(answers[name]["findings"])
    ]
    silent = [name for name in names if not _is_answer(left.get(name))]
    if silent and not any(left[name]["in_force"] for name in names if name not in silent):
        rows.append(
            Finding(
                KIND,
                "StateSaveLocation",
                "one directory, proved on all controllers before their first start",
                f"{fold(silent)} not reached",
                "Run without --limit and with all controllers up, or take them from services.controllers until they are",
            )
        )
    return finding.table(rows)


def _is_answer(answer: Any) -> bool:
    return isinstance(answer, Mapping) and "findings" in answer and not answer.get("failed")
