# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the command of a long target and write what it said, with commit, date and time, into the table of docs/testing.md.

    python -m tools.full_results slurm --minutes 40 -- .venv/bin/python -m lab molecule slurm_keys

Lines of the output that are summaries are kept: `FULL RESULT ...`, or else pytest's `12 passed in 3.45s`. A command that
fails, has no such line, or takes longer than `--minutes`, is written as such and ends with a status that is not 0.
"""  # fmt: skip

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from . import support

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "testing.md"
BEGIN, END = "<!-- full results: begin, written by tools/full_results.py -->\n", "<!-- full results: end -->\n"
HEAD = "| target | commit | date | minutes, of at most | result |\n|---|---|---|---|---|\n"

_MARKED = re.compile(r"^\W*FULL RESULT:? *(.+)$")
_PYTEST = re.compile(r"^=* *(\d+ (?:passed|failed|error)[^=]*?) in [\d.]+s.*$")


def summary(lines: list[str]) -> str:
    """Return the summary of a command's output: its marked lines, or else pytest's of each run, or else an empty text.

    >>> summary(["...", "==== 3 passed, 1 skipped in 2.10s ===="])
    '3 passed, 1 skipped'
    >>> summary(["FULL RESULT: 400 keys", "3 passed in 2.10s", "bye"])
    '400 keys'
    """
    for pattern in (_MARKED, _PYTEST):
        if found := [match[1].strip() for match in map(pattern.match, lines) if match]:
            return "; ".join(found)
    return ""


def last(lines: list[str]) -> str:
    """Return the last line that says anything."""
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output")


def with_row(text: str, target: str, row: str) -> str:
    """Return the page with this row for the target; the table is sorted by target. Raise ValueError for a page without marks."""
    before, begin, rest = text.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no table between {BEGIN.strip()} and {END.strip()}; add both lines")
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("| `")}
    rows[f"`full-{target}`"] = row
    return f"{before}{BEGIN}\n{HEAD}" + "".join(f"{rows[name]}\n" for name in sorted(rows)) + f"\n{END}{after}"


def row_of(target: str, commit: str, date: str, minutes: tuple[float, float], result: str) -> str:
    """Return the line of a target; `minutes` are those taken and those allowed."""
    cells = (f"`full-{target}`", commit, date, f"{minutes[0]:.1f}, {minutes[1]:g}", result.replace("|", "/"))
    return f"| {' | '.join(cells)} |"


def commit() -> str:
    """Return the commit of the checkout, with a plus sign where files differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    # These two pages change with each of these targets.
    pages = [f":!{page.relative_to(ROOT)}" for page in (PAGE, support.PAGE)]
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", *pages)
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def run(command: list[str]) -> tuple[int, list[str]]:
    """Run a command, show its output at once, and return its status and lines."""
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    return process.returncode, lines


def main(arguments: list[str] | None = None) -> int:
    """Run the command and write the row; return its status, or 1 where it took too long."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("target", help="name of the target without full-")
    parser.add_argument("--minutes", type=float, default=45, help="most minutes that it may take")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("command", nargs="+", help="after --")
    options = parser.parse_args(arguments)
    at, started = commit(), time.monotonic()
    status, lines = run(options.command)
    minutes = (time.monotonic() - started) / 60
    late = minutes > options.minutes
    said = summary(lines)
    # A target that did nothing, as under `make --dry-run`, ends well, too.
    status = status or int(not said)
    result = f"FAILED ({status}): {said or last(lines)}" if status else said
    result += ", TOO LATE" if late else ""
    row = row_of(options.target, at, datetime.now(UTC).strftime("%Y-%m-%d"), (minutes, options.minutes), result)
    options.page.write_text(with_row(options.page.read_text(encoding="utf-8"), options.target, row), encoding="utf-8")
    if options.page == PAGE:
        support.main([])
    return status or int(late)


if __name__ == "__main__":
    sys.exit(main())
