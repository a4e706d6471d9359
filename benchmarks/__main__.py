# SPDX-License-Identifier: GPL-3.0-or-later
"""Every benchmark, or the ones that are named: `python -m benchmarks [inventory] [roles] [primitives]`."""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks import inventory, primitives, roles

BENCHMARKS: dict[str, Callable[[], int | None]] = {
    "inventory": lambda: inventory.main([]),
    "roles": roles.main,
    "primitives": lambda: primitives.main([]),
}


def main(names: list[str]) -> int:
    """Run benchmarks one after another; the exit code says whether every budget is met."""
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        raise SystemExit(f"no such benchmark: {', '.join(sorted(unknown))}; allowed: {', '.join(BENCHMARKS)}")
    worst = 0
    for name in names or BENCHMARKS:
        print(f"\n{name}", flush=True)
        worst = max(worst, BENCHMARKS[name]() or 0)
    return worst


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
