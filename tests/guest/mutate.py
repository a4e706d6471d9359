"""Runs on a guest: one change by hand after the other, and what the role's comparison says of it. JSON comes and goes."""

from __future__ import annotations

import json
import subprocess
import sys

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding, to_json
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.drift import running_units, written_files
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.tuning_drift import drift


def shell(command: str) -> str:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{command}: {done.returncode} {done.stdout}{done.stderr}"


def main() -> None:
    told = json.load(sys.stdin)

    def compared() -> list[Finding]:
        root = Root("/")
        found = [*drift(root, told["expected"]), *written_files.findings(root, told["files"])]
        return [*found, *running_units.findings(root, told["units"])]

    def lines(found: list[Finding]) -> list[str]:
        return [f"{one.where}: {one.found}" for one in found]

    found = []
    for row in told["rows"]:
        trouble = shell(row["do"])
        wrong = compared()
        trouble += shell(row["undo"])
        found.append({"wrong": lines(wrong), "findings": to_json(wrong), "trouble": trouble})
    # Each comparison takes seconds under emulation: what was not put back is seen once, at the end.
    last = compared()
    json.dump({"rows": found, "after": lines(last), "findings_after": to_json(last)}, sys.stdout)


main()
