"""Runs on a guest: one change by hand after the other, and what the role's comparison says of it. JSON comes and goes."""

from __future__ import annotations

import json
import subprocess
import sys

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.reading import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.state import drift


def shell(command: str) -> str:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{command}: {done.returncode} {done.stdout}{done.stderr}"


def main() -> None:
    told = json.load(sys.stdin)

    def settings() -> list[str]:
        return [f"{row.where}: {row.found}" for row in drift(Root("/"), told["expected"])]

    found = []
    for row in told["rows"]:
        trouble = shell(row["do"])
        wrong = settings()
        trouble += shell(row["undo"])
        found.append({"wrong": wrong, "trouble": trouble})
    # Each comparison takes seconds under emulation: what was not put back is seen once, at the end.
    json.dump({"rows": found, "after": settings()}, sys.stdout)


main()
