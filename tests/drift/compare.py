"""Runs on a machine: one drift after the other is made, compared and taken back. JSON comes and goes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import to_json
from ansible_collections.bedplate.cluster.plugins.module_utils.verify.readers import read


def shell(command: str) -> str:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{command}: {done.returncode} {done.stdout}{done.stderr}"


def main() -> None:
    told = json.load(sys.stdin)
    before = to_json(read(told["parts"]))
    rows: dict[str, Any] = {}
    for row in told["rows"]:
        trouble = shell(row["make"])
        found = to_json(read(told["parts"]))
        rows[row["id"]] = {"found": found, "trouble": trouble + shell(row["undo"])}
    json.dump({"before": before, "rows": rows, "after": to_json(read(told["parts"]))}, sys.stdout)


main()
