# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of messages: tests assert kind, place and fields; the sentences of an area stand once, in its `sentences.txt`.

    FILE = Path(__file__).parent / "sentences.txt"

    def test_two_cables_in_a_port():
        problems = check(plan)
        assert [(one.rule, one.where) for one in problems] == [("P1", "rack r0, leaf1 port 1")]
        sentences.check(FILE, "two cables in a port", problems)

A better sentence is then one line of diff, which this writes: `BEDPLATE_RENEW_SENTENCES=1 pytest tests/unit/AREA`. A run of the whole
area, with or without other areas, fails when the file has a case that no test has checked, and removes it when it renews.
Checks belong into tests without the marks `simulation`, `playbooks` and the like, since every run of an area must have them.

The file has each case at the margin and its lines below, indented by four blanks.
"""

from __future__ import annotations

import difflib
import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAME, RENEW = "sentences.txt", "BEDPLATE_RENEW_SENTENCES"
_INDENT = "    "
# Area's file -> the cases that this process has checked.
_checked: dict[Path, set[str]] = {}
# What this process has written of each case while it renews.
_renewed: dict[tuple[Path, str], list[str]] = {}


def check(area_file: Path, case: str, lines: Iterable[object]) -> None:
    """Assert that the messages of a case are those of the area's file, or write them there where the file is renewed."""
    found = [line for one in lines for line in str(one).split("\n")]
    assert case == case.strip() != "", f"{case!r}: a case has a name without blanks around it"
    assert area_file.name == NAME
    _checked.setdefault(area_file, set()).add(case)
    if os.environ.get(RENEW):
        known = _renewed.setdefault((area_file, case), found)
        assert known == found, f"{case}: two checks with other lines; give each a case of its own\n{known}\n{found}"
        with _locked(area_file):
            cases = read(area_file)
            if cases.get(case) != found:
                _write(area_file, {**cases, case: found})
        return
    expected = read(area_file).get(case)
    if expected != found:
        diff = "\n".join(difflib.unified_diff(expected or [], found, area_file.name, "this test", lineterm="", n=0))
        raise AssertionError(f"{case}: other sentences than in {area_file}. {_how(area_file)}\n{diff}")


def read(area_file: Path) -> dict[str, list[str]]:
    """Return case -> lines of an area's file; nothing where there is no file yet."""
    cases: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in area_file.read_text(encoding="utf-8").split("\n") if area_file.exists() else ():
        if line.startswith(_INDENT):
            lines.append(line[len(_INDENT) :])
        elif line:
            lines = cases.setdefault(line, [])
    return cases


def checked() -> list[tuple[str, str]]:
    """Return file and case of all checks of this process, as data that pytest-xdist can send."""
    return [(str(file), case) for file, cases in _checked.items() for case in sorted(cases)]


def is_whole(config: Any) -> bool:
    """Tell whether a run of pytest leaves out nothing but marked tests, in the files and folders that it is given."""
    chosen = (config.option.keyword, config.option.deselect, config.getoption("lf", False), config.option.ansible_core)
    marks = re.sub(r"\bnot \w+", "", config.option.markexpr)
    return not any(chosen) and not re.search(r"\b(?!and\b)\w+", marks)


def left_over(given: Iterable[str], done: Iterable[tuple[str, str]]) -> list[str]:
    """Return what to say of cases below the `given` folders that no test has checked; or remove them where files are renewed."""
    areas: dict[Path, set[str]] = {}
    for name, case in done:
        areas.setdefault(Path(name).resolve(), set()).add(case)
    found = []
    for file in sorted({file for folder in given for file in Path(folder).resolve().rglob(NAME)}):
        kept = read(file)
        others = [case for case in kept if case not in areas.get(file, ())]
        if others and os.environ.get(RENEW):
            _write(file, {case: lines for case, lines in kept.items() if case not in others})
        elif others:
            found.append(f"{file}: no test has checked {', '.join(others)}. {_how(file)}")
    return found


def _how(area_file: Path) -> str:
    return f"If the new ones are better: {RENEW}=1 pytest {area_file.parent}"


def _write(area_file: Path, cases: dict[str, list[str]]) -> None:
    text = "".join(
        f"{case}\n" + "".join(f"{_INDENT}{line}\n" for line in lines) for case, lines in sorted(cases.items())
    )
    new = area_file.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(area_file)


@contextmanager
def _locked(area_file: Path) -> Iterator[None]:
    """Let one process after the other write: pytest-xdist runs the tests of an area in several."""
    folder = os.open(area_file.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
