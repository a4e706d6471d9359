# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the options of Slurm that roles/slurm needs: a file that removes or replaces one of them is a mistake.

needed.json has a row for each: what must be its `value`, or which of `words` must be in its comma list (one is enough;
"jwt_key=" stands for all that begins so), or that it is a `path`, or what it `follows` from; `own` is Slurm's own
default, in force after a null; `when` names the condition. Everything else is the user's to decide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from ..slurm.tables.conf_text import text_of
from .model import Cluster
from .rack_layout import more
from .schema.fields import Mistakes, Path, dotted

_PATH = re.compile(r'/[^\s"]+')
_JWT = "auth/jwt"


@cache
def rows() -> dict[str, list[dict[str, Any]]]:
    """Return the table, `slurm` and `slurmdbd` -> rows."""
    table: dict[str, list[dict[str, Any]]] = json.loads(
        FilePath(__file__).parent.joinpath("schema", "needed.json").read_text()
    )
    return table


def check_needed(cluster: Cluster, mistakes: Mistakes) -> None:
    """Note every option whose value, or null, breaks what bedplate deploys."""
    conditions = {
        "rest": bool(cluster.services.rest),
        "gpus": any(profile.gpus for profile in cluster.profiles.values()),
        "tree": cluster.fabric is not None and not cluster.has_blocks,
        "blocks": cluster.has_blocks,
        "database": bool(cluster.services.database),
        "slurmdbd": cluster.has_slurmdbd,
    }
    # An option that is wrong in itself is one mistake, not two.
    told = {mistake.where for mistake in mistakes.found}
    for kind, section, options in (
        ("slurm", "options", cluster.slurm.options),
        ("slurmdbd", "slurmdbd", cluster.slurm.slurmdbd),
    ):
        given = {str(key).lower(): (key, value) for key, value in options.items()}
        conditions["jwt"] = _JWT in _words(given.get("authalttypes", ("", _JWT))[1])
        for row in rows()[kind]:
            key, value = given.get(row["option"].lower(), (None, None))
            path: Path = ("slurm", section, key)
            applies = key is not None and conditions.get(row.get("when", ""), True) and dotted(path) not in told
            if applies and (problem := _problem(row, value)):
                mistakes.add(path, problem)
    _check_shared_state(cluster, mistakes)


def _words(value: object) -> list[str]:
    return [word.strip().lower() for word in text_of(value).split(",")] if value is not None else []


def _problem(row: Mapping[str, Any], value: object) -> str:
    """Return what a value, or null, breaks, and what to do; nothing where all is well."""
    if "follows" in row:
        return f"follows from {row['follows']}. Remove it here."
    if value is None and "own" in row:
        return ""
    stated = f"{row['option']} is {'null' if value is None else repr(text_of(value))}"
    if "path" in row:
        allowed = "Allowed: an absolute path without blanks."
        return "" if _PATH.fullmatch(text_of(value)) else f"{stated}. {allowed}"
    if "value" in row:
        good, hint = text_of(value) == row["value"], f"Allowed: {row['value']}."
    else:
        first = row["words"][0]
        good, hint = any(_has(word, value) for word in row["words"]), f"Add {first} to it."
        stated += f", without {first}"
    return "" if good else f"{stated}: {row['why']} {'Delete this line.' if value is None else hint}"


def _has(word: str, value: object) -> bool:
    word = word.lower()
    return any(one == word or (word.endswith("=") and one.startswith(word)) for one in _words(value))


def _check_shared_state(cluster: Cluster, mistakes: Mistakes) -> None:
    controllers = [name for name in cluster.services.controllers if name in cluster.machines]
    # Whether a stated directory is shared cannot be seen from here.
    if len(controllers) < 2 or any(str(key).lower() == "statesavelocation" for key in cluster.slurm.options):
        return
    mistakes.add(
        ("services", "controllers"),
        f"{controllers[0]}{more(controllers)} are controllers, and each would keep Slurm's state in its own directory, "
        f"StateSaveLocation {cluster.slurm.packages.paths['state']} (bedplate's default): after a takeover no job would be "
        "known. State it in slurm.options, a directory on storage that all controllers mount, owned by user slurm.",
    )
