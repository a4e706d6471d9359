# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the first line of a script as Linux does, and find the program that runs the script.

Linux splits `#!/usr/bin/env -S python3 -u` at the first blank: interpreter `/usr/bin/env`, one argument `-S python3 -u`. It removes blanks
at the end, but no carriage return.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

START = 256
"""Bytes of a file that Linux reads to decide how to run it."""

EMPTY, TEXT, CR_LF, NO_PATH, ENV_ARGUMENT = "empty", "text", "cr-lf", "no-path", "env-argument"
_ELF = b"\x7fELF"
_BLANKS = " \t"


def flaw(start: bytes) -> str:
    """Return why Linux cannot run a file that begins with these bytes on any machine; empty if it can.

    EMPTY: no content. TEXT: text without `#!`. CR_LF: a first line with a carriage return at its end. NO_PATH: `#!` without an absolute
    path. ENV_ARGUMENT: `#!/usr/bin/env NAME ARGUMENT`, which env(1) reads as one name.

    >>> flaw(b"#!/bin/sh\\r\\n"), flaw(b"echo\\n"), flaw(b"#!/usr/bin/env python3 -u\\n"), flaw(b"#! /bin/sh\\n")
    ('cr-lf', 'text', 'env-argument', '')
    """
    if not start:
        return EMPTY
    if not start.startswith(b"#!"):
        # A binary that is not ELF may have an interpreter in binfmt_misc.
        return TEXT if b"\0" not in start[:START] and not start.startswith(_ELF) else ""
    line = _line(start)
    if line.endswith("\r"):
        return CR_LF
    interpreter, argument = _words(line)
    if not interpreter.startswith("/"):
        return NO_PATH
    if _is_env(interpreter) and not argument.startswith("-") and len(argument.split()) > 1:
        return ENV_ARGUMENT
    return ""


def missing(start: bytes, search: Sequence[str]) -> str:
    """Return the program of the first line if this machine lacks it, else "".

    `search`: directories in which env(1) looks for a name; with none, a name is not looked for.
    """
    if not start.startswith(b"#!"):
        return ""
    interpreter, argument = _words(_line(start))
    if not _is_program(interpreter):
        return interpreter
    name = _name_of_env(argument) if _is_env(interpreter) else ""
    if not name or ("/" not in name and not search):
        return ""
    if "/" in name:
        return "" if _is_program(name) else name
    return "" if any(_is_program(f"{directory}/{name}") for directory in search) else f"{name} in {':'.join(search)}"


def _line(start: bytes) -> str:
    return start[2:START].partition(b"\n")[0].decode(errors="replace").strip(_BLANKS)


def _words(line: str) -> tuple[str, str]:
    """Return interpreter and argument; the argument is the rest of the line."""
    words = line.replace("\t", " ").split(" ", 1)
    return words[0], words[1].strip(" ") if len(words) > 1 else ""


def _is_env(interpreter: str) -> bool:
    return interpreter.rpartition("/")[2] == "env"


def _name_of_env(argument: str) -> str:
    """Return the program that env(1) runs; empty if it has further options.

    >>> _name_of_env("python3"), _name_of_env("-S A=1 python3 -u"), _name_of_env("-i python3")
    ('python3', 'python3', '')
    """
    if argument.startswith("-"):
        if not argument.startswith("-S"):
            return ""
        try:
            words = shlex.split(argument[2:])
        except ValueError:
            return ""
    else:
        words = [argument] if argument else []
    name = next((word for word in words if "=" not in word), "")
    return "" if name.startswith("-") or "$" in name else name


def _is_program(path: str) -> bool:
    return Path(path).is_file() and os.access(path, os.X_OK)
