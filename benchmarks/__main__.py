# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m benchmarks [NAME]...`: the budgets of docs/performance.md and what is measured beside each."""

from __future__ import annotations

import argparse
import sys

from benchmarks import bmc, fabric, guest, inventory, primitives, roles, runner_events, site
from benchmarks.process import HEAD, BenchmarkError

ALL = {
    "inventory": inventory.rows,
    "primitives": primitives.rows,
    "fabric": fabric.rows,
    "bmc": bmc.rows,
    "site": site.rows,
    "roles": roles.rows,
    "runner_events": runner_events.rows,
}
ON_REQUEST = {"guest": guest.rows}
"""Takes a virtual machine."""


def main(arguments: list[str] | None = None) -> int:
    """Print the table; the exit code is 1 where a budget is missed, 2 where a measurement failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "name", nargs="*", help=f"of {', '.join(ALL)}, which are all measured unless named, {', '.join(ON_REQUEST)}"
    )
    parser.add_argument("--runs", type=int, help="of how many runs each median is taken")
    options = parser.parse_args(arguments)
    known = {**ALL, **ON_REQUEST}
    if unknown := [name for name in options.name if name not in known]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(known)}")
    status = 0
    print(HEAD)
    for name in options.name or ALL:
        print(f"{name}:")
        try:
            for row in known[name](options.runs) if options.runs else known[name]():
                print(f"  {row}", flush=True)
                status = status if row.within else max(status, 1)
        except BenchmarkError as error:
            print(f"  not measured: {error}", flush=True)
            status = 2
    return status


if __name__ == "__main__":
    sys.exit(main())
