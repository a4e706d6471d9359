# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove that machines have one munge key: decode on one machine a credential that another one made."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ...common.command import run
from .key_files import KeyTurnError

_USER = "munge"
_TTL = 300  # seconds
_QUICK = 30.0


def credential(socket: str = "") -> str:
    """Return a credential without content, of the user munge, which root alone may decode. Raises KeyTurnError.

    `socket` is that of a munged; "" is the usual one.
    """
    words = ["munge", "--no-input", "--restrict-uid=0", f"--ttl={_TTL}", *_at(socket)]
    done = run(words, _QUICK, enter=_as_user(_USER))
    if done.code != 0 or not done.stdout.strip():
        raise KeyTurnError(f"munge makes no credential: {done.error_line}. Read `journalctl -u munge`, and run again")
    return done.stdout.strip()


def refused(credentials: Mapping[str, str], socket: str = "") -> dict[str, str]:
    """Return the names of credentials that a munged of this machine cannot decode, with unmunge's error."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="bedplate-keys-") as directory:
        for name, text in credentials.items():
            # Through a file: the arguments of a process are visible to all users.
            path = Path(directory) / "credential"
            path.write_text(text, encoding="ascii")
            done = run(["unmunge", "--no-output", f"--input={path}", *_at(socket)], _QUICK)
            if done.code != 0:
                found[name] = done.error_line
    return found


def _at(socket: str) -> list[str]:
    return [f"--socket={socket}"] if socket else []


def _as_user(name: str) -> Callable[[], object] | None:
    """Return what makes a new process one of a user; None if this process is not of root, or the user does not exist."""
    if os.geteuid() != 0:
        return None
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        return None

    def enter() -> None:
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)

    return enter
