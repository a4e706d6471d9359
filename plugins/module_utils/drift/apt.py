# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare apt's state with bedplate's: conflicting or unsigned sources, pins that win over bedplate's, and holds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..common.command import Runner, run_quick
from ..common.finding import Finding
from ..common.sysfs import Root
from ..common.text import matches_any
from ..primitives.files.manifest import STATE_DIRECTORY
from . import apt_files, written_files
from .apt_files import Pin

_INSECURE = re.compile(
    r"^\s*(?:APT::Get::AllowUnauthenticated|Acquire::AllowInsecureRepositories|Acquire::AllowWeakRepositories)"
    r"\s+\"?(?:true|yes|1)",
    re.IGNORECASE | re.MULTILINE,
)


def findings(root: Root, expected: Mapping[str, Any], run: Runner = run_quick) -> Iterator[Finding]:
    """Compare apt with `expected`, the rows of the part `packages`: name, version ("" is any), and whether it is held."""
    own = set(written_files.records(root))
    pins = list(apt_files.pins(root))
    mine = [one for one in pins if one.path in own]
    held = [str(row["name"]) for row in expected["packages"] if row.get("held")]
    yield from _sources(root, own, bool(mine or expected["packages"] or _has_holds(root)))
    yield from _pins(pins, mine, own, run)
    yield from _holds(held, run)


def _sources(root: Root, own: Collection[str], is_used: bool) -> Iterator[Finding]:
    found = list(apt_files.sources(root))
    mine = {(one.uri, one.suite): one for one in found if one.path in own}
    for one in found:
        if one.path in own:
            continue
        same = mine.get((one.uri, one.suite))
        if same and one.signed_by != same.signed_by:
            yield Finding(
                "apt-conflict", f"apt source {one.uri} {one.suite}", f"Signed-By {same.signed_by or 'unset'}",
                f"Signed-By {one.signed_by or 'unset'}: apt refuses every source", f"remove {one.place}", overridden_by=one.place,
            )  # fmt: skip
        if one.trusted and is_used:
            yield Finding(
                "apt-unsigned", f"apt source {one.uri} {one.suite}", "signature checked", "not checked",
                f"remove `trusted` in {one.place}", overridden_by=one.place,
            )  # fmt: skip
    for name in root.names("etc/apt/apt.conf.d") if is_used else ():
        path = f"etc/apt/apt.conf.d/{name}"
        text = "\n".join(root.lines(path))
        if f"/{path}" not in own and (match := _INSECURE.search(text)):
            place = f"/{path}:{text[: match.start()].count(chr(10)) + 1 + match[0].count(chr(10))}"
            yield Finding(
                "apt-unsigned", "apt's settings", "signatures are checked", " ".join(match[0].split()), f"remove {place}",
                overridden_by=place,
            )  # fmt: skip


def _pins(pins: list[Pin], mine: list[Pin], own: Collection[str], run: Runner) -> Iterator[Finding]:
    """Compare the version that apt would install of each pinned package with its pin."""
    wanted = {
        name: one.pin.split(None, 1)[1]
        for one in mine
        for name in one.packages
        if one.pin.startswith("version ") and one.priority > 0 and not re.search(r"[*?\[/]", name)
    }
    if not wanted:
        return
    outcome = run(["apt-cache", "policy", *wanted])
    for name, candidate in _candidates(outcome.stdout).items():
        if name not in wanted or candidate == "(none)":
            continue
        version = wanted[name]
        # apt allows a star in the middle of a pinned version.
        if not matches_any(candidate, [version]):
            rivals = [one for one in pins if one.path not in own and matches_any(name, one.packages)]
            winner = max(rivals, key=lambda one: (name in one.packages, one.priority), default=None)
            yield Finding(
                "apt-pin", f"version of {name} that apt would install", version, candidate,
                "remove the other pin" if winner else f"apt-cache policy {name}; check that a source has {version}",
                overridden_by=winner.place if winner else "",
            )  # fmt: skip


def _candidates(text: str) -> dict[str, str]:
    found, name = {}, ""
    for line in text.splitlines():
        if line and not line[0].isspace():
            name = line.rstrip(":")
        elif (words := line.split()) and words[0] == "Candidate:":
            found[name] = words[1]
    return found


def _has_holds(root: Root) -> bool:
    """Return whether bedplate's record has held packages of any role."""
    return root.exists(f"{STATE_DIRECTORY}/holds.json")


def _holds(held: list[str], run: Runner) -> Iterator[Finding]:
    if not held:
        return
    outcome = run(["apt-mark", "showhold"])
    if outcome.code != 0:
        yield Finding("apt-hold", "holds of packages", "readable", outcome.error_line, "apt-mark showhold")
        return
    there = {line.strip().partition(":")[0] for line in outcome.stdout.splitlines()}
    for name in held:
        if name.partition(":")[0] not in there:
            yield Finding("apt-hold", f"package {name}", "held", "not held", f"apt-mark hold {name}; who released it?")
