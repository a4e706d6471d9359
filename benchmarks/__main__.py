# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m benchmarks [inventory|primitives|fabric|roles]...`: the budgets of docs/performance.md and what is measured beside each."""

from __future__ import annotations

import argparse
import sys

from benchmarks import fabric, inventory, primitives, roles
from benchmarks.process import HEAD, BenchmarkError

ALL = {"inventory": inventory.rows, "primitives": primitives.rows, "fabric": fabric.rows, "roles": roles.rows}


def main(arguments: list[str] | None = None) -> int:
    """Print the table; the exit code is 1 where a budget is missed, 2 where something could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"of {', '.join(ALL)}; all of them unless named")
    parser.add_argument("--runs", type=int, help="of how many runs each median is taken")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.name if name not in ALL]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(ALL)}")
    status = 0
    print(HEAD)
    for name in options.name or ALL:
        print(f"{name}:")
        try:
            for row in ALL[name](options.runs) if options.runs else ALL[name]():
                print(f"  {row}", flush=True)
                status = status if row.within else max(status, 1)
        except BenchmarkError as error:
            print(f"  not measured: {error}", flush=True)
            status = 2
    return status


if __name__ == "__main__":
    sys.exit(main())
