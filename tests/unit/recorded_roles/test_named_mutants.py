# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutants that once left all tests green: each one is made in a copy of the tree, where the test that names it must fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kit.recorded.scenario import judge, play, scenarios
from tests.kit.recorded.stage import Stage
from tools.mutate_roles import copied

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.playbooks
NAMED: list[dict[str, Any]] = yaml.safe_load((ROOT / "tests/mutants/named.yml").read_text())
_FAILED = 1  # exit status of pytest where tests ran and one failed


@pytest.fixture(scope="module")
def tree() -> Iterator[Path]:
    """Return a copy of the source tree, with its tests."""
    target = copied(ROOT, "tests", "pyproject.toml", "inventories", "molecule", "tools")
    yield target
    shutil.rmtree(target)


def changed(entry: dict[str, Any]) -> str:
    """Return the text of the file with the change."""
    text = (ROOT / entry["file"]).read_text()
    assert text.count(entry["old"]) >= 1, (
        f"{entry['file']} has no {entry['old']!r} any more: renew tests/mutants/named.yml"
    )
    return text.replace(entry["old"], entry["new"])


@pytest.fixture(scope="module")
def stage(tree: Path) -> Iterator[Stage]:
    """Return a stage for mutants in YAML, which each run reads anew."""
    with Stage(tree) as found:
        yield found


@pytest.mark.parametrize("entry", NAMED, ids=lambda entry: entry["name"])
def test_a_mutant_is_still_one(entry: dict[str, Any]):
    assert changed(entry) != (ROOT / entry["file"]).read_text()


@pytest.mark.parametrize(
    "entry",
    # A run of roles on recorded nodes takes seconds: `make full-roles`, which makes all other mutants of roles, has these.
    [pytest.param(one, marks=pytest.mark.full_roles if "scenario" in one else (), id=one["name"]) for one in NAMED],
)
def test_a_mutant_is_noticed(tree: Path, stage: Stage, entry: dict[str, Any]):
    if "scenario" in entry:
        (scenario,) = (one for one in scenarios(ROOT) if str(one) == entry["scenario"])
        assert judge(scenario, play(stage, scenario)) == []
    (tree / entry["file"]).write_text(changed(entry))
    try:
        assert noticed(tree, stage, entry)
    finally:
        shutil.copy2(ROOT / entry["file"], tree / entry["file"])


def noticed(tree: Path, stage: Stage, entry: dict[str, Any]) -> bool:
    """Return whether the test that the entry names fails in the tree."""
    if "scenario" in entry:
        (scenario,) = (one for one in scenarios(ROOT) if str(one) == entry["scenario"])
        # Parts are read once in a process, as templates are; tasks and playbooks are read in each run.
        if entry["file"].endswith(".yml") and "/parts/" not in entry["file"]:
            return bool(judge(scenario, play(stage, scenario)))
        with Stage(tree) as fresh:
            return bool(judge(scenario, play(fresh, scenario)))
    # In pytest's usual place it would first remove what older runs of other tests have left there.
    own = f"--basetemp={tree / 'tmp'}"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", own, entry["test"]]
    # Other plugins of pytest take longer than these tests.
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(tree), os.environ.get("PYTHONPATH")))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode in (0, _FAILED), done.stdout + done.stderr
    return done.returncode == _FAILED
