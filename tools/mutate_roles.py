# SPDX-License-Identifier: GPL-3.0-or-later
"""Make every mutant of roles/ and playbooks/, run the scenarios of tests/roles on it, and fail if no scenario notices.

    python -m tools.mutate_roles                          all
    python -m tools.mutate_roles roles/cuda playbooks/os.yml --subjects cuda,playbooks    some, by some scenarios
    python -m tools.mutate_roles playbooks/phases --change serial    those whose change has this text

A mutant that no scenario notices is a survivor. tests/mutants/survivors.yml lists those that are allowed, each with its reason.
"""

from __future__ import annotations

import argparse
import queue
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "collections"))

from tests.kit.recorded.scenario import Scenario, judge, play, scenarios  # noqa: E402
from tests.kit.recorded.stage import Run, Stage  # noqa: E402
from tools.mutants import Mutant, dumped, mutants  # noqa: E402

ALLOWED = ROOT / "tests/mutants/survivors.yml"
MOST_ALLOWED = 10
_COPIED = (
    "collections",
    "meta",
    "playbooks",
    "plugins",
    "roles",
    "tests/kit",
    "tests/roles",
    "ansible.cfg",
    "galaxy.yml",
)


@dataclass
class Outcome:
    """Result of a mutant: the scenario that noticed it with its message, or neither."""

    mutant: Mutant
    scenario: str = ""
    why: str = ""
    runs: int = 0


@dataclass
class Baseline:
    """Results of each scenario on the unchanged tree."""

    runs: dict[Scenario, Run] = field(default_factory=dict)

    def of(self, mutant: Mutant) -> list[Scenario]:
        """Return the scenarios that can notice a mutant, first the likely ones, and the cheap ones of them first.

        Where no host reached a task that always has a result, a change of the task alone changes nothing.
        """
        found: list[tuple[bool, bool, float, Scenario]] = []
        for scenario, run in self.runs.items():
            if mutant.file not in run.opened:
                continue
            reached = _reached(mutant, run)
            if reached or mutant.silent:
                found.append((not _is_likely(mutant, run, reached), not reached, run.cpu, scenario))
        return [scenario for *_, scenario in sorted(found, key=lambda one: one[:-1])]


def _reached(mutant: Mutant, run: Run) -> list[dict[str, Any]]:
    """Return the results of a run on the unchanged tree of the mutant's task, or of tasks in it."""
    found = []
    for one in run.results:
        path, _, line = one["place"].rpartition(":")
        if path.endswith(f"/{mutant.file}") and any(first <= int(line) <= last for first, last in mutant.spans):
            found.append(one)
    return found


def _is_likely(mutant: Mutant, run: Run, reached: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a scenario does what the mutant changes: it skips, runs, fails there, or has hosts that fail."""
    states = {one["status"] for one in reached}
    if mutant.change.startswith("when true"):
        return "skipped" in states
    if mutant.change.startswith("that true"):
        return "failed" in states
    if mutant.change in ("any_errors_fatal dropped", "max_fail_percentage dropped"):
        return any(one["status"] in ("failed", "unreachable") for one in run.results)
    if mutant.change in ("run_once dropped", "serial dropped"):
        return len({one["host"] for one in run.results}) > 1
    return bool(states - {"skipped"})


def copied(root: Path, *more: str) -> Path:
    """Return a copy of what scenarios need of the source tree, and of `more` of it."""
    target = Path(tempfile.mkdtemp(prefix="bedplate-mutants-"))
    for name in (*(one for one in _COPIED if not any(one.startswith(f"{other}/") for other in more)), *more):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if (root / name).is_dir():
            shutil.copytree(root / name, target / name, symlinks=True)
        else:
            shutil.copy2(root / name, target / name)
    return target


def chosen(root: Path, names: Sequence[str]) -> list[str]:
    """Return the files to mutate, all or those below the names."""
    found = sorted(
        [*root.glob("roles/*/tasks/*.yml"), *root.glob("roles/*/handlers/*.yml"), *root.glob("playbooks/**/*.yml")]
    )
    paths = [str(path.relative_to(root)) for path in found]
    return [
        path
        for path in paths
        if not names or any(path == name or path.startswith(f"{name.rstrip('/')}/") for name in names)
    ]


class Runner:
    """Runs mutants in several copies of the tree at once."""

    def __init__(
        self, root: Path, files: Sequence[str], jobs: int, subjects: Sequence[str] = (), change: str = ""
    ) -> None:
        self._root, self._jobs, self._subjects = root, jobs, subjects
        self._work: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
        self._scenarios: queue.SimpleQueue[Scenario] = queue.SimpleQueue()
        for file in files:
            for mutant in mutants(file, (root / file).read_text()):
                if change in mutant.change:
                    self._work.put(mutant)
        self._files = files
        self._baseline = Baseline()
        self._barrier = threading.Barrier(jobs)
        self.outcomes: list[Outcome] = []
        self.broken: list[str] = []

    def run(self) -> None:
        """Run all scenarios, then all mutants."""
        for scenario in scenarios(self._root):
            if not self._subjects or scenario.subject in self._subjects:
                self._scenarios.put(scenario)
        threads = [threading.Thread(target=self._run) for _ in range(self._jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run(self) -> None:
        tree = copied(self._root)
        try:
            with Stage(tree) as stage:
                self._unchanged(stage, tree)
                self._barrier.wait()
                while not self.broken and not self._work.empty():
                    try:
                        mutant = self._work.get_nowait()
                    except queue.Empty:
                        break
                    self._mutate(stage, tree, mutant)
        except BaseException as error:
            self.broken.append(f"{type(error).__name__}: {error}")
            self._barrier.abort()
        finally:
            shutil.rmtree(tree, ignore_errors=True)

    def _unchanged(self, stage: Stage, tree: Path) -> None:
        """Run scenarios on files written like mutants, without a change."""
        for file in self._files:
            (tree / file).write_text(dumped(yaml.safe_load((self._root / file).read_text())))
        while not self._scenarios.empty():
            try:
                scenario = self._scenarios.get_nowait()
            except queue.Empty:
                break
            run = play(stage, scenario)
            self._baseline.runs[scenario] = run
            self.broken += [f"{scenario}: {text}" for text in judge(scenario, run)]
        for file in self._files:
            shutil.copy2(self._root / file, tree / file)

    def _mutate(self, stage: Stage, tree: Path, mutant: Mutant) -> None:
        outcome = Outcome(mutant)
        (tree / mutant.file).write_text(mutant.text)
        for scenario in self._baseline.of(mutant):
            outcome.runs += 1
            if found := judge(scenario, play(stage, scenario, to_its_end=False)):
                outcome.scenario, outcome.why = str(scenario), found[0]
                break
        shutil.copy2(self._root / mutant.file, tree / mutant.file)
        self.outcomes.append(outcome)
        if not outcome.scenario:
            print(f"SURVIVED {mutant} ({outcome.runs} scenarios)", flush=True)


def allowed(path: Path) -> dict[tuple[str, str, str], str]:
    """Return the reason of each survivor that is allowed."""
    entries = yaml.safe_load(path.read_text()) if path.exists() else []
    return {(entry["file"], entry["task"], entry["change"]): entry["reason"] for entry in entries or []}


def main(arguments: Sequence[str]) -> int:
    """Run the mutants, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="files or folders of roles/ and playbooks/; all by default")
    parser.add_argument("--jobs", type=int, default=2, help="copies of the tree at once (default: 2)")
    parser.add_argument(
        "--subjects", default="", help="use the scenarios of these files of tests/roles alone, such as slurm,reboot"
    )
    parser.add_argument(
        "--change", default="", help="make the mutants alone whose change has this text, such as serial"
    )
    parser.add_argument("--verbose", action="store_true", help="print what noticed each mutant")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    runner = Runner(
        ROOT,
        chosen(ROOT, options.names),
        options.jobs,
        [one for one in options.subjects.split(",") if one],
        options.change,
    )
    runner.run()
    if runner.broken:
        print("The unchanged tree is not as the scenarios say:", *runner.broken, sep="\n  ")
        return 2
    reasons = allowed(ALLOWED)
    survivors = [one.mutant for one in runner.outcomes if not one.scenario]
    excused = {(one.file, one.task, one.change) for one in survivors} & set(reasons)
    if options.verbose:
        for one in sorted(runner.outcomes, key=lambda outcome: (outcome.mutant.file, outcome.mutant.line)):
            print(f"{one.mutant}\n    {one.scenario or 'SURVIVED'}: {one.why[:300]}")
    problems = [f"no scenario notices {one}" for one in survivors if (one.file, one.task, one.change) not in excused]
    if len(reasons) > MOST_ALLOWED:
        problems.append(f"{ALLOWED}: {len(reasons)} survivors; allowed: {MOST_ALLOWED}")
    if not options.names and not options.change:
        problems += [
            f"{ALLOWED}: {' / '.join(one)} does not survive; remove it" for one in sorted(set(reasons) - excused)
        ]
    print(*problems, sep="\n")
    print(
        f"FULL RESULT: mutants: {len(runner.outcomes)}, noticed: {len(runner.outcomes) - len(survivors)}, allowed: {len(excused)}, "
        f"runs: {sum(one.runs for one in runner.outcomes)}, seconds: {time.monotonic() - began:.0f}"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
