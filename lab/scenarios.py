# SPDX-License-Identifier: GPL-3.0-or-later
"""Molecule scenarios, some at a time, with one line each and a table at the end."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lab import nodes
from lab.paths import ROOT
from lab.podman import Podman
from lab.shell import LabError, say, stream
from lab.vendor.inventory import prepare

LOGS = ROOT / ".cache" / "molecule"
TAIL = 80
ON_REQUEST = (
    "air_gap",
    "container_runtime",
    "daytwo_driver",
    "daytwo_guest",
    "gpu_driver",
    "gpu_dnf",
    "gpu_ubuntu",
    "patching",
    "plain",
    "primitives",
    "recover",
    "slurm_dnf",
    "slurm_keys",
    "slurm_keys_turned",
    "slurm_restore",
    "slurm_schedmd",
    "slurm_two",
    "slurm_upgrade",
)
"""Scenarios that run when they are named, in `make test-full`: they compile a driver, mirror an archive, install every engine, or
install by another way what other scenarios install."""
_LONGEST = ("slurm", "gpu_stack", "daytwo", "opensm", "node_settings")
"""Begun first, so that three at a time end at about the same time. opensm is not among the first three: while they boot, a simulated fabric
is too slow for OpenSM, which says so in its log."""


@dataclass(frozen=True)
class Result:
    """Result of one scenario."""

    scenario: str
    status: int
    seconds: float
    log: Path


def known() -> list[str]:
    """Return the scenarios of this checkout."""
    return sorted(path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml"))


def run(podman: Podman, names: list[str], *, keep: bool, verbose: bool, jobs: int = 1) -> int:
    """Run scenarios, `jobs` at a time, and print the table; return 1 if one failed."""
    scenarios = known()
    if unknown := sorted(set(names) - set(scenarios)):
        raise LabError(f"unknown scenario: {', '.join(unknown)}. Known: {', '.join(scenarios) or 'none'}")
    if not scenarios:
        raise LabError("molecule/ holds no scenario (molecule/*/molecule.yml).")
    others = sorted(set(scenarios) - set(ON_REQUEST) - set(_LONGEST))
    chosen = names or [*(name for name in _LONGEST if name in scenarios), *others]
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        results = list(pool.map(lambda name: _run_one(podman, name, keep=keep, verbose=verbose), chosen))
    print(table(results), flush=True)
    return int(any(result.status for result in results))


def table(results: list[Result]) -> str:
    """Return the summary: one line per scenario, failures with the place of their log."""
    width = max(len(result.scenario) for result in results)
    lines = [f"\n{'scenario':<{width}}  result  seconds"]
    for result in results:
        verdict = "FAILED" if result.status else "ok"
        where = f"  {result.log}" if result.status else ""
        lines.append(f"{result.scenario:<{width}}  {verdict:<6}  {result.seconds:7.0f}{where}")
    return "\n".join(lines)


def _run_one(podman: Podman, name: str, *, keep: bool, verbose: bool) -> Result:
    log = LOGS / f"{name}.log"
    say("molecule", f"{name} ...")
    # What an interrupted run left would make `check` on fresh nodes meaningless.
    nodes.destroy(podman, f"molecule-{name}")
    # The inventory, which Molecule reads first of all, may name keys that are made here.
    prepare(ROOT / "molecule" / name, f"molecule-{name}")
    # Molecule would not create again what its state says is there; nor may old results mix with new ones.
    for left in ("state.yml", "changes.jsonl"):
        (LOGS / name / left).unlink(missing_ok=True)
    started = time.monotonic()
    command = ["molecule", "--base-config", str(ROOT / ".config" / "molecule" / "config.yml"), "test"]
    command += ["--scenario-name", name, "--destroy", "never" if keep else "always"]
    env = {
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "MOLECULE_GLOB": "molecule/*/molecule.yml",
        # Molecule's default is named after the checkout's folder, so two checkouts would share it.
        "MOLECULE_EPHEMERAL_DIRECTORY": str(LOGS / name),
        "BEDPLATE_REPORT": str(LOGS / name / "report"),
        # The output goes to a file first of all: lines of a readable length, no colour codes.
        "COLUMNS": "160",
        "NO_COLOR": "1",
        "ANSIBLE_NOCOLOR": "1",
    }
    status = 1
    try:
        status = stream(command, log=log, env=env, quiet=not verbose)
    finally:
        if not (keep and status):
            nodes.destroy(podman, f"molecule-{name}")
    seconds = time.monotonic() - started
    say("molecule", f"{name} {'FAILED' if status else 'ok'} ({seconds:.0f} s)")
    if status and not verbose:
        print("\n".join(log.read_text(errors="replace").splitlines()[-TAIL:]), flush=True)
    return Result(name, status, seconds, log)
