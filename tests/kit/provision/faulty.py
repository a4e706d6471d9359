# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of the installer that go wrong: always, or at one call of a run."""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.kit.provision.machine import Machine, programs

FAULTS = {
    "fails": "exit 1",
    "prints nothing": "exit 0",
    "prints garbage": "echo 'garbage 0x0 200 no error: gpt'; exit 0",
    # As a program that is killed in the middle of its work.
    "is killed": "kill -9 $$",
}
ABSENT = "is absent"
_COUNTED = """#!/bin/bash
exec 9>>"{calls}.lock"
flock 9
echo {name} >>"{calls}"
number=$(wc -l <"{calls}")
exec 9>&-
if [ "$number" = "{at}" ]; then
    {fault}
fi
exec "{real}" "$@"
"""
_ALWAYS = "#!/bin/bash\n{fault}\n"


_MATCHING = """#!/bin/bash
pattern={pattern}
if [[ " $* " == *$pattern* ]]; then
    echo >>"{marks}"
    if [ "$(/usr/bin/wc -l <"{marks}")" = "{at}" ]; then
        {fault}
    fi
fi
exec "{real}" "$@"
"""
WORKS_AND_FAILS = '"$real" "$@"; exit 1'


def always(node: Machine, name: str, fault: str) -> None:
    """Make a program of a machine go wrong at each call."""
    node.stand_in(name, None if fault == ABSENT else _ALWAYS.format(fault=FAULTS[fault]))


def at_call(node: Machine, number: int, fault: str) -> Path:
    """Make the call with this number of all programs go wrong, counted from 1; 0 only counts. Return the file with a line per call."""
    calls, real = node.root / "calls", node.root / "real"
    real.mkdir(exist_ok=True)
    for name in programs():
        moved = real / name
        if not moved.exists():
            (node.bin / name).rename(moved)
        at = _COUNTED.format(calls=calls, name=name, at=number, fault=FAULTS[fault], real=moved)
        node.stand_in(name, at.replace("wc -l", "/usr/bin/wc -l").replace("\nflock", "\n/usr/bin/flock"))
    calls.write_text("")
    return calls


def at_words(node: Machine, name: str, pattern: str, fault: str, number: int = 1) -> None:
    """Make the call with this number of a program go wrong, among those whose words have a pattern of the shell.

    `fault` is code of bash, in which `$real` is the program.
    """
    real = node.root / "real"
    real.mkdir(exist_ok=True)
    (node.bin / name).rename(real / name)
    words = {"pattern": shlex.quote(pattern), "marks": real / f"{name}.calls", "at": number, "real": real / name}
    node.stand_in(name, _MATCHING.format(fault=f'real="{real / name}"; {fault}', **words))
