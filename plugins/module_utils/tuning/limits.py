# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the limits of users and jobs: PAM's for logins, systemd's for slurmd, whose limits its jobs inherit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..common.finding import Finding
from ..common.sysfs import Root

FILE = "etc/security/limits.d/60-bedplate.conf"
# Our names -> the names in /proc/PID/limits, and the size of PAM's unit.
ROWS = {"memlock": ("Max locked memory", 1024), "nofile": ("Max open files", 1)}
_DAEMON = "slurmd"


def of_pam(root: Root) -> Iterator[tuple[str, int, str, str, str, str]]:
    """Yield (file, line, domain, type, item, value) of limits.conf and limits.d, in the order in which PAM reads them."""
    names = [name for name in root.names("etc/security/limits.d") if name.endswith(".conf")]
    for path in ("etc/security/limits.conf", *(f"etc/security/limits.d/{name}" for name in names)):
        for number, line in enumerate(root.lines(path), 1):
            words = line.partition("#")[0].split()
            if len(words) == 4:
                yield path, number, words[0], words[1], words[2], words[3]


def effective(root: Root, item: str) -> dict[tuple[str, str], tuple[str, str]]:
    """Return (domain, soft or hard) -> (value, place): of PAM's lines for a domain, the last one counts."""
    found = {}
    for path, number, domain, kind, name, value in of_pam(root):
        if name == item:
            for one in ("soft", "hard") if kind == "-" else (kind,):
                found[domain, one] = (value, f"/{path}:{number}")
    return found


def drift_of_pam(root: Root, wanted: Mapping[str, str]) -> Iterator[Finding]:
    """Compare the limits of every login, and find lines for single users or groups that differ."""
    for item, value in wanted.items():
        lines = effective(root, item)
        for kind in ("soft", "hard"):
            there, place = lines.get(("*", kind), ("the distribution's", ""))
            if there != value:
                fix = f"run node_tuning again; {place} overrides it" if place else "run node_tuning again"
                yield Finding("limit", f"limit {item} ({kind}) of PAM", value, there, fix)
        for (domain, kind), (there, place) in lines.items():
            if domain != "*" and there != value:
                setting = f"limit {item} ({kind}) of {domain}, set in {place}"
                yield Finding("limit", setting, value, there, "remove that line, or change node_tuning_limits")


def _pids(root: Root, name: str) -> list[str]:
    found = (one for one in root.names("proc") if one.isdecimal())
    return [one for one in found if root.text(f"proc/{one}/comm", needed=False) == name]


def drift_of_slurmd(root: Root, wanted: Mapping[str, str]) -> Iterator[Finding]:
    """Compare the limits of a running slurmd."""
    for pid in _pids(root, _DAEMON)[:1]:
        text = root.text(f"proc/{pid}/limits", needed=False) or ""
        for item, value in wanted.items():
            row, unit = ROWS[item]
            found = re.search(rf"^{row}\s+(\S+)\s+(\S+)", text, re.MULTILINE)
            target = value if value == "unlimited" else str(int(value) * unit)
            for kind, there in zip(("soft", "hard"), found.groups() if found else ()):
                if there != target:
                    fix = f"systemctl restart {_DAEMON}, which ends no job; `systemctl show {_DAEMON} -p LimitMEMLOCK -p LimitNOFILE`"
                    yield Finding("limit", f"limit {item} ({kind}) of {_DAEMON}", target, there, fix)
