# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the active profile of tuned, with the profiles that it includes, with the settings of node_tuning.

After its own [sysctl] lines tuned applies /run/sysctl.d and /etc/sysctl.d again (`reapply_sysctl` of tuned-main.conf, on by default), so
that bedplate's file wins over them. Its other plugins have no such order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..common.finding import Finding
from ..common.sysfs import Root
from ..primitives.kernel import sysctl
from .boot.cmdline_tokens import CmdlineError, Token, known, of_families, owned

ACTIVE = "etc/tuned/active_profile"
MAIN = "etc/tuned/tuned-main.conf"
KEEP, OFF = "keep", "off"
_NO = ("0", "false", "no", "off", "n")
_PROFILES = ("etc/tuned", "etc/tuned/profiles", "usr/lib/tuned", "usr/lib/tuned/profiles")
_THP = "/sys/kernel/mm/transparent_hugepage"
_VM = frozenset(["dirty_bytes", "dirty_ratio", "dirty_background_bytes", "dirty_background_ratio"])


@dataclass(frozen=True)
class Option:
    """A line of a profile."""

    profile: str
    file: str
    line: int
    section: str
    key: str
    value: str

    @property
    def place(self) -> str:
        """Return the place for the operator."""
        return f"tuned profile {self.profile} (/{self.file}:{self.line})"


def options(root: Root) -> list[Option]:
    """Return the settings of the active profile; a profile overrides the profiles that it includes. Empty without tuned."""
    found: dict[tuple[str, str], Option] = {}
    seen: set[str] = set()
    for name in (root.text(ACTIVE, needed=False) or "").split():
        for one in _of_profile(root, name, seen):
            found[one.section, one.key] = one
    return list(found.values())


def _of_profile(root: Root, name: str, seen: set[str]) -> Iterator[Option]:
    path = next((f"{one}/{name}/tuned.conf" for one in _PROFILES if root.exists(f"{one}/{name}/tuned.conf")), "")
    if not path or path in seen:
        return
    seen.add(path)
    own, section = [], ""
    for number, line in enumerate(root.lines(path, needed=True), 1):
        if head := re.match(r"\s*\[(.+)\]", line):
            section = head[1]
        elif pair := re.match(r"\s*([^#;=\s]+)\s*=\s*(.*?)\s*\Z", line):
            if (section, pair[1]) == ("main", "include"):
                for parent in re.split(r"[\s,;]+", pair[2]):
                    yield from _of_profile(root, parent, seen)
            else:
                own.append(Option(name, path, number, section, pair[1], pair[2]))
    yield from own


def findings(root: Root, expected: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the lines of tuned that contradict `expected`, that of the filter node_tuning."""
    if expected["tuned"] == OFF:
        return
    settings, is_reapplied = expected["settings"], reapplies_sysctl(root)
    files = {str(one["path"]): str(one["value"]) for one in settings["writes"]}
    governor = next((value for path, value in files.items() if path.endswith("/scaling_governor")), "")
    for one in options(root):
        where, wanted, found = "", "", one.value
        if one.section == "sysctl" and is_reapplied:
            continue
        if one.section in ("sysctl", "vm") and (key := _owned(_sysctl(one), settings["sysctl"])):
            where, wanted = f"sysctl {key}", settings["sysctl"][key]
            if key == _sysctl(one) and _agrees(one.value, wanted):
                continue
            found = one.value.lstrip("><=") if key == _sysctl(one) else f"{_sysctl(one)} {one.value}"
        elif one.section == "vm" and one.key in ("transparent_hugepages", "transparent_hugepage"):
            where, wanted = f"{_THP}/enabled", files.get(f"{_THP}/enabled", "")
        elif one.section == "vm" and one.key == "transparent_hugepage.defrag":
            where, wanted = f"{_THP}/defrag", files.get(f"{_THP}/defrag", "")
        elif one.section == "sysfs":
            where, wanted = one.key, files.get(one.key, "")
        elif one.section == "cpu" and one.key == "governor" and governor not in one.value.split("|"):
            where, wanted = "CPU governor", governor
        elif one.section == "bootloader" and one.key.startswith("cmdline"):
            yield from _tokens(one, expected["tokens"])
            continue
        if wanted and found != wanted:
            yield _finding(one, where, wanted, found)


def reapplies_sysctl(root: Root) -> bool:
    """Return whether tuned applies /etc/sysctl.d after its own lines: of several lines in tuned-main.conf, the last one counts."""
    found = [re.match(r"\s*reapply_sysctl\s*=\s*(\S*)", line) for line in root.lines(MAIN)]
    values = [match[1].lower() for match in found if match]
    return not values or values[-1] not in _NO


def _sysctl(one: Option) -> str:
    return sysctl.dotted(one.key) if one.section == "sysctl" else f"vm.{one.key}" if one.key in _VM else ""


def _owned(key: str, wanted: Mapping[str, str]) -> str:
    """Return the desired key that a setting of tuned changes: the same key, or its partner, which the kernel then sets to 0."""
    return next((one for one in (key, sysctl.partner(key)) if one in wanted), "")


def _agrees(value: str, wanted: str) -> bool:
    """Return whether a value of tuned does not change the desired one: `>8` only raises, `<8` only lowers."""
    bare = value.lstrip("><=").strip()
    if value[:1] in ("<", ">") and bare.isdecimal() and wanted.isdecimal():
        return int(wanted) >= int(bare) if value[0] == ">" else int(wanted) <= int(bare)
    return sysctl.equal(bare, wanted)


def _tokens(one: Option, wanted: Sequence[str]) -> Iterator[Finding]:
    """Compare the tokens that tuned adds to the kernel command line, each family separately."""
    own = known(wanted)
    try:
        theirs = known([one.value.strip('"').lstrip("+-")])
    except CmdlineError:
        return
    if one.value.lstrip().startswith("-"):
        theirs = [token for token in theirs if token.same in {mine.same for mine in own}]
        for token in theirs:
            yield _finding(one, f"kernel command line, {token.family}", str(token), "removed")
        return
    for family in sorted(owned(theirs) & owned(own)):
        mine, other = of_families(own, {family}), of_families(theirs, {family})
        if [token.same for token in mine] != [token.same for token in other]:
            yield _finding(one, f"kernel command line, {family}", _text(mine), _text(other))


def _text(found: Sequence[Token]) -> str:
    return " ".join(map(str, found))


def _finding(one: Option, where: str, wanted: str, found: str) -> Finding:
    remedy = (
        f"set node_tuning_tuned to `off` or to a profile without that line, or accept it: {_accepted(where, found)}"
    )
    return Finding("tuned", where, wanted, found, remedy, overridden_by=one.place)


def _accepted(where: str, found: str) -> str:
    """Return the variable of node_tuning that has the value of tuned."""
    kind, _blank, name = where.partition(" ")
    if kind == "sysctl":
        return f"node_tuning_sysctl: {{{name}: null}}"
    if where.startswith(_THP):
        return f"node_tuning_thp{'_defrag' if where.endswith('defrag') else ''}: {found}"
    return f"node_tuning_governor: {found}" if "governor" in where else "change node_tuning_cmdline or its variable"
