# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the limits of a login, and find PAM services that do not set them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..common.command import Runner
from ..common.finding import Finding
from ..common.sysfs import Root
from . import limits

_PAM = ("etc/pam.d", "usr/lib/pam.d")
# Services for logins on a console and over SSH, and for a change of user: Debian's and EL's packages set limits for all of them.
SERVICES = ("sshd", "login", "su", "runuser")
_FIRST_USER, _LAST_USER = 1000, 60000


def findings(root: Root, wanted: Mapping[str, str], run: Runner) -> Iterator[Finding]:
    """Log in as root and as a user, compare the limits of both, and find PAM services without limits."""
    if not wanted:
        return
    unlimited = list(_services(root))
    yield from unlimited
    for user in ("root", _user(root)):
        outcome = run(["su", "-l", user, "-s", "/bin/sh", "-c", "cat /proc/self/limits"])
        if outcome.code == 127 and not outcome.stdout:
            return
        if outcome.code != 0:
            remedy = f"su -l {user}; a limit above fs.nr_open or of a container ends a login"
            yield Finding("login", f"login of {user}", "works", outcome.error_line, remedy)
            continue
        for item, value in wanted.items():
            row, unit = limits.ROWS[item]
            measured = re.search(rf"^{row}\s+(\S+)\s+(\S+)", outcome.stdout, re.MULTILINE)
            target = value if value == "unlimited" else str(int(value) * unit)
            for kind, found in zip(("soft", "hard"), measured.groups() if measured else ()):
                if found != target:
                    by = _who(root, user, item, kind, value, unlimited)
                    where = f"limit {item} ({kind}) of a login of {user}"
                    yield Finding("login-limit", where, target, found, "remove what overrides it", overridden_by=by)


def _user(root: Root) -> str:
    """Return a user of the machine who can log in, "" without one."""
    for line in (root.text("etc/passwd", needed=False) or "").splitlines():
        row = line.split(":")
        is_person = len(row) > 6 and row[2].isdecimal() and _FIRST_USER <= int(row[2]) < _LAST_USER
        if is_person and not row[6].endswith(("nologin", "false")):
            return row[0]
    return "nobody"


def _who(root: Root, user: str, item: str, kind: str, value: str, unlimited: list[Finding]) -> str:
    """Return the line that sets another limit for a user: the user's own line, a line for all users, or a service without limits."""
    if any(one.where == "PAM service su" for one in unlimited):
        return next(one.overridden_by for one in unlimited if one.where == "PAM service su")
    lines = limits.effective(root, item)
    for domain in (user, "*"):
        there, place = lines.get((domain, kind), ("", ""))
        if place and there != value:
            return place
    return "the user's groups, or a script of the shell: /etc/profile, /etc/profile.d"


def _services(root: Root) -> Iterator[Finding]:
    """Yield the PAM services that do not set limits, with the line that is commented out or the file that lacks it."""
    for service in SERVICES:
        path = next((f"{folder}/{service}" for folder in _PAM if root.exists(f"{folder}/{service}")), "")
        if not path or _sets_limits(root, path, set()):
            continue
        lines = root.lines(path, needed=True)
        at = next((number for number, line in enumerate(lines, 1) if re.match(r"\s*#.*\bpam_limits\.so", line)), 0)
        yield Finding(
            "pam-limits", f"PAM service {service}", "session required pam_limits.so", "commented out" if at else "no such line",
            f"restore the line in /{path}", overridden_by=f"/{path}:{at}" if at else f"/{path}",
        )  # fmt: skip


def _sets_limits(root: Root, path: str, seen: set[str]) -> bool:
    """Return whether a PAM service, or a file that it includes, has pam_limits in its session."""
    if path in seen:
        return False
    seen.add(path)
    for line in (root.text(path, needed=False) or "").splitlines():
        words = line.partition("#")[0].split()
        if len(words) > 1 and words[0] == "@include":
            if any(_sets_limits(root, f"{folder}/{words[1]}", seen) for folder in _PAM):
                return True
        elif words and words[0].lstrip("-") == "session":
            if any(word.rpartition("/")[2] == "pam_limits.so" for word in words[2:]):
                return True
            if (
                words[1] in ("include", "substack")
                and len(words) > 2
                and any(_sets_limits(root, f"{folder}/{words[2]}", seen) for folder in _PAM)
            ):
                return True
    return False
