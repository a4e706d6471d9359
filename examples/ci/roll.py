#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan a roll, and apply the approved plan, by ansible-runner: `roll.py plan SITE` and `roll.py apply SITE DIGEST`.

SITE is a private data directory of ansible-runner: `inventory/` with the cluster file and its group_vars, `project/` with bedplate, and
`env/` with what is secret. Where env/settings names an execution environment, bedplate is in the image, and `project/` has an ansible.cfg
alone. The plan is written to SITE/roll-plan.json. Each run leaves report.json and report.html in SITE/artifacts/<run>. docs/how-to/ci.md
shows a pipeline.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_runner.config.runner import RunnerConfig
from ansible_runner.runner import Runner

PLAN = "roll-plan.json"
_KEPT = ("runner_on_failed", "runner_on_unreachable", "playbook_on_stats", "error")


def is_kept(event: Mapping[str, Any]) -> bool:
    """Return whether an event is kept as a file: what failed or changed, and the end."""
    result = event.get("event_data", {}).get("res") or {}
    return event.get("event") in _KEPT or (event.get("event") == "runner_on_ok" and bool(result.get("changed")))


def run(site: Path, *options: str, **variables: Any) -> int:
    """Run playbooks/roll.yml and return its exit status; the report is beside the events.

    Not by `ansible_runner.run`: that writes the options of its first call into SITE/env/cmdline, and each later call would have them, too.
    """
    is_clone = (site / "project/playbooks/roll.yml").exists()
    # Relative, since a container has SITE elsewhere. The working directory of a linked project is the one that the link names.
    plan_file = os.path.relpath(site / PLAN, (site / "project").resolve())
    config = RunnerConfig(
        private_data_dir=str(site),
        playbook="playbooks/roll.yml" if is_clone else "bedplate.cluster.roll",
        cmdline=" ".join(options),
        extravars={"roll_plan_file": plan_file, **variables},
        # Paths are relative to SITE/project, which is the working directory here and in a container.
        envvars={"ANSIBLE_CONFIG": "ansible.cfg", "ANSIBLE_CALLBACKS_ENABLED": "bedplate.cluster.report", "CI": "true"},
    )
    config.prepare()
    runner = Runner(config=config, event_handler=is_kept)
    try:
        runner.run()
    finally:
        # It has the whole environment of the pipeline, with its secrets.
        (Path(config.artifact_dir) / "command").unlink(missing_ok=True)
    return int(runner.rc)


def plan(site: Path) -> int:
    """Write the plan; its digest is in the last lines of the output."""
    return run(site, "--check")


def apply(site: Path, digest: str) -> int:
    """Apply the plan with this digest, and no other one."""
    return run(site, roll_plan_digest=digest, roll_waiting_fails=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the command of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("plan", "apply"):
        command = commands.add_parser(name)
        command.add_argument("site", type=Path)
        if name == "apply":
            command.add_argument("digest")
    chosen = parser.parse_args(arguments)
    site = chosen.site.resolve()
    return plan(site) if chosen.command == "plan" else apply(site, chosen.digest)


if __name__ == "__main__":
    sys.exit(main())
