# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the fabrics of a cluster file that a playbook works on, and from where each is discovered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from ..cluster import Cluster
from .compare.comparison import discovery_sources

# How many fabrics a playbook takes without `fabric_name`: all with a plan; the first, as Slurm does; or only the single one.
ALL, FIRST, ONE = "all", "first", "one"
SCOPES = (ALL, FIRST, ONE)
# Where saved texts are read.
_HERE = "localhost"


def chosen(cluster: Cluster, name: str = "", scope: str = ALL) -> list[str]:
    """Return the names of the fabrics to work on, in the order of the file. ValueError: unknown, or none can be chosen."""
    views = cluster.views
    if name:
        return [_known(cluster, name).stated.name]
    if scope == ONE and len(views) > 1:
        raise ValueError(
            f"{cluster.path} has the fabrics {', '.join(views)}: choose one with -e fabric_name={next(iter(views))}"
        )
    if scope == FIRST:
        return [next(iter(views))]
    return [one for one, view in views.items() if view.fabric] or list(views)


def mistakes(cluster: Cluster, name: object) -> list[str]:
    """Return the mistake in the variable fabric_name; [] if it names a fabric, or is not set."""
    try:
        if name is not None:
            _known(cluster, str(name))
    except ValueError as error:
        return [f"this run: fabric_name: {error}"]
    return []


def _known(cluster: Cluster, name: str) -> Cluster:
    try:
        return cluster.view(name)
    except KeyError as error:
        raise ValueError(str(error.args[0])) from None


def reads(
    cluster: Cluster, names: Sequence[str], sources: object = None, saved: object = None
) -> dict[str, list[dict[str, Any]]]:
    """Return host -> what it reads of each fabric: `fabric`, and options of the module fabric_facts.

    `sources` are hosts that are stated instead of those of the plan, `saved` texts that are read instead: a path, a list or a text with
    commas, or fabric -> those. ValueError: they do not say which fabric they are of.
    """
    if saved is not None:
        texts = _of_fabrics(cluster, names, saved)
        return {_HERE: [{"fabric": name, "path": _paths(files)} for name, files in texts.items()]}
    found: dict[str, list[dict[str, Any]]] = {}
    for one in _sources(cluster, names, sources):
        options = {key: value for key, value in one.items() if key != "name"}
        found.setdefault(one["name"], []).append(options)
    return found


def _sources(cluster: Cluster, names: Sequence[str], sources: object) -> Iterator[dict[str, Any]]:
    if sources is None:
        for name in names:
            yield from ({**one, "fabric": name} for one in discovery_sources(cluster.view(name)))
        return
    for one in sources if isinstance(sources, Iterable) else ():
        if not isinstance(one, Mapping) or not one.get("name"):
            raise ValueError(
                f"fabric_sources: {str(one)[:60]!r} has no name; allowed: such as {{name: HOST, lldp: false}}"
            )
        fabric = one.get("fabric")
        if fabric is None and len(names) > 1:
            raise ValueError(
                f"fabric_sources: {one['name']} has no fabric; allowed: fabric: {', '.join(names)}, or one for the run with -e fabric_name="
            )
        if fabric is not None and _known(cluster, str(fabric)).stated.name not in names:
            continue
        yield {**one, "fabric": str(fabric or names[0])}


def _of_fabrics(cluster: Cluster, names: Sequence[str], saved: object) -> dict[str, object]:
    if not isinstance(saved, Mapping):
        if len(names) > 1:
            example = "{" + ", ".join(f'"{name}": "{name}.txt"' for name in names) + "}"
            raise ValueError(
                f"fabric_saved: the fabrics are {', '.join(names)}; name the one of these files with -e fabric_name={names[0]}, or the "
                f"files of each: -e '{{\"fabric_saved\": {example}}}'"
            )
        return {names[0]: saved}
    if unknown := [str(name) for name in saved if name not in cluster.views]:
        hint = did_you_mean(unknown[0], list(cluster.views)) or f" Allowed: {', '.join(cluster.views)}."
        raise ValueError(f"fabric_saved: {unknown[0]!r} is not a fabric of {cluster.path}.{hint}")
    if lacking := [name for name in names if name not in saved]:
        raise ValueError(
            f"fabric_saved: there is no text of fabric {', '.join(lacking)}; add it, or choose a fabric with -e fabric_name="
        )
    return {name: saved[name] for name in names}


def _paths(files: object) -> list[str]:
    """Return absolute paths; a relative one is in the directory of the run."""
    listed = files.split(",") if isinstance(files, str) else files if isinstance(files, Sequence) else [files]
    return [str(Path(str(one).strip()).expanduser().resolve()) for one in listed]


def discoveries(answers: Iterable[object], name: str) -> list[Any]:
    """Return the discoveries of a fabric from registered results of the looped module fabric_facts, one for each host."""
    found: list[Any] = []
    for answer in answers:
        for one in answer.get("results", ()) if isinstance(answer, Mapping) else ():
            if "discoveries" in one and one["item"]["fabric"] == name:
                found += one["discoveries"]
    return found
