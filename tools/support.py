# SPDX-License-Identifier: GPL-3.0-or-later
"""Write SUPPORT.md from tools/support.yml and the results of long targets in docs/testing.md.

Run `python -m tools.support`; `--check` fails if the page is out of date. tools/full_results.py runs it after each long target.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from lab.scenarios import ON_REQUEST

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "SUPPORT.md"
TESTING = ROOT / "docs" / "testing.md"
HOW = ("real", "stand-in", "read only")
HEAD = """\
# Support

After this page you know what bedplate was run on: real software, a stand-in, or documents only.

<!-- written by tools/support.py from tools/support.yml and docs/testing.md -->

* **real**: the real software ran. **stand-in**: a replacement ran. **read only**: written after
  public documents; no run.
* `make test` runs before every change. A long target has the commit and date of its last run;
  `make test-full` keeps no record.
* Nothing was run on bare metal with GPUs or InfiniBand.

| subject | how | shown | not shown | run by |
| --- | --- | --- | --- | --- |
"""

_RESULT = re.compile(r"^\| `(full-[\w-]+)` \| (\S+) \| (\S+) \| [^|]* \| ([^|]*) \|$", re.MULTILINE)


class SupportError(ValueError):
    """A row of tools/support.yml that no test backs."""


def results(text: str) -> dict[str, str]:
    """Return target -> its last commit and date, or its failure, from docs/testing.md.

    >>> results("| `full-gpu` | 2368f7f | 2026-11-23 | 12.0, 45 | 141 passed |")
    {'full-gpu': 'passed at 2368f7f, 2026-11-23'}
    """
    return {
        target: f"{'failed' if result.startswith('FAILED') else 'passed'} at {commit}, {date}"
        for target, commit, date, result in _RESULT.findall(text)
    }


def runner(name: str, known: dict[str, str]) -> str:
    """Return the cell of one test. SupportError: it does not exist, or has no result."""
    if name.startswith("full-"):
        if name not in known:
            raise SupportError(f"tools/support.yml: {name} has no row in docs/testing.md; run make {name}")
        return f"`make {name}` ({known[name]})"
    if not (ROOT / name).exists():
        raise SupportError(f"tools/support.yml: {name} does not exist")
    target = "make test-full" if Path(name).name in ON_REQUEST else "make test"
    return f"`{target}` ([{Path(name).name}]({name}))"


def line(row: dict[str, Any], known: dict[str, str]) -> str:
    """Return the line of a subject."""
    if row["how"] not in HOW:
        raise SupportError(f"tools/support.yml: {row['subject']}: how is {row['how']!r}; allowed: {', '.join(HOW)}")
    tests = ", ".join(runner(name, known) for name in row["by"])
    return (
        f"| {row['subject']} | {row['how']} | {row['shown']} | {row['missing']} | {tests} |".replace("|  |", "| |")
        + "\n"
    )


def page() -> str:
    """Return the page of today."""
    known = results(TESTING.read_text(encoding="utf-8"))
    rows = yaml.safe_load((ROOT / "tools" / "support.yml").read_text(encoding="utf-8"))["rows"]
    order = sorted(rows, key=lambda row: HOW.index(row["how"]) if row["how"] in HOW else -1)
    return HEAD + "".join(line(row, known) for row in order)


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="do not write; fail if the page is out of date")
    options = parser.parse_args(arguments)
    text = page()
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    if options.check:
        print("SUPPORT.md is out of date: run python -m tools.support")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
