# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare names and time of a machine with the result of the role node_os, as the machine resolves all its files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..common.finding import WARNING, Finding
from ..common.sysfs import Root

_HOSTS = "etc/hosts"
_CHRONY = "etc/chrony/chrony.conf"
_OWN_SOURCES = "/etc/chrony/sources.d/bedplate.sources"
_AGAIN = "run playbooks/os.yml again; who changed it?"


def findings(root: Root, expected: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare with `expected`: hostname ("" is any), names with their addresses, and time_servers."""
    yield from _hostname(root, expected["hostname"])
    yield from _names(root, expected["names"])
    yield from _time(root, expected["time_servers"])


def _hostname(root: Root, name: str) -> Iterator[Finding]:
    """Compare the kernel's host name and that of the next boot; slurmd finds its line in slurm.conf by this name."""
    for path in ("proc/sys/kernel/hostname", "etc/hostname") if name else ():
        found = (root.text(path, needed=False) or "").partition(".")[0]
        if found and found != name:
            yield Finding("hostname", f"name of the machine (/{path})", name, found, f"hostnamectl set-hostname {name}")


def _names(root: Root, names: Mapping[str, str]) -> Iterator[Finding]:
    """Compare names in /etc/hosts, where the first line counts, and check that nsswitch.conf has files before DNS."""
    if not names:
        return
    there: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(root.lines(_HOSTS), 1):
        words = line.partition("#")[0].split()
        for name in words[1:]:
            if ":" not in words[0]:
                there.setdefault(name, (words[0], number))
    for name, address in names.items():
        found, number = there.get(name, ("", 0))
        if found != address:
            by = f"/{_HOSTS}:{number}" if number else ""
            yield Finding("hosts", f"address of {name}", address, found or "none", _AGAIN, overridden_by=by)
    for number, line in enumerate(root.lines("etc/nsswitch.conf"), 1):
        words = line.partition("#")[0].replace(":", ": ").split()
        if words[:1] == ["hosts:"] and "dns" in words and words.index("dns") < _place(words, "files"):
            place = f"/etc/nsswitch.conf:{number}"
            yield Finding(
                "hosts-order", "order of names", "files before dns", " ".join(words[1:]), f"put `files` first in {place}",
                overridden_by=place,
            )  # fmt: skip


def _place(words: list[str], word: str) -> int:
    return words.index(word) if word in words else len(words)


def _time(root: Root, servers: list[str]) -> Iterator[Finding]:
    """Compare chrony's time sources: the servers of the role, and no others."""
    if not servers:
        return
    main = root.lines(_CHRONY)
    folders = [line.split()[1] for line in main if re.match(r"\s*sourcedir\s+\S", line)]
    if not any(folder.rstrip("/") == "/etc/chrony/sources.d" for folder in folders):
        at = next((number for number, line in enumerate(main, 1) if re.match(r"\s*[#!;%]\s*sourcedir\b", line)), 0)
        by = f"/{_CHRONY}:{at}" if at else f"/{_CHRONY}"
        yield Finding(
            "time-sources", "chrony's sourcedir", "/etc/chrony/sources.d", ", ".join(folders) or "none",
            f"put `sourcedir /etc/chrony/sources.d` back into /{_CHRONY}", overridden_by=by,
        )  # fmt: skip
    confdirs = [line.split()[1] for line in main if re.match(r"\s*confdir\s+\S", line)]
    files = [f"/{_CHRONY}"]
    for folder, ending in [*((one, ".sources") for one in folders), *((one, ".conf") for one in confdirs)]:
        files += [f"{folder.rstrip('/')}/{name}" for name in root.names(folder) if name.endswith(ending)]
    for path in files:
        if path == _OWN_SOURCES:
            continue
        for number, line in enumerate(root.lines(path), 1):
            words = line.split()
            if len(words) > 1 and words[0] in ("server", "pool", "peer", "refclock") and words[1] not in servers:
                # Debian's configuration contains Debian's own pool.
                vendor = path == f"/{_CHRONY}" and words[0] == "pool"
                yield Finding(
                    "time-sources", "chrony's sources", ", ".join(servers), f"{words[0]} {words[1]}", "remove it there",
                    severity=WARNING if vendor else "error", overridden_by=f"{path}:{number}",
                )  # fmt: skip
