# SPDX-License-Identifier: GPL-3.0-or-later
"""Health of nodes on the releases of Slurm that Debian's archive has: each test of release_cases.py must pass there."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.kit import slurm_releases
from tests.unit.health.releases.rendered_site import rendered

pytestmark = pytest.mark.full_health
CASES = "tests/unit/health/releases/release_cases.py"
RELEASES = {"bookworm": "22.05", "trixie": "24.11", "sid": "26.05"}


def run(suite: str, folder: Path, *words: str) -> str:
    """Run the tests in a copy of the root of a suite, and return what pytest printed."""
    version = RELEASES[suite]
    data = json.dumps(rendered(folder, version))
    try:
        shown = slurm_releases.inside(suite, "-c", "import os; os.execlp('slurmctld', 'slurmctld', '-V')").stdout
        done = slurm_releases.inside(suite, f"/mnt/{CASES}", *words, stdin=data, copy=True, timeout=540)
    except slurm_releases.UnavailableError as error:
        if os.environ.get("BEDPLATE_TOOLS") == "required":
            raise
        pytest.skip(f"NOT TESTED with Slurm {version}: {error}")
    assert f" {version}." in shown
    assert done.returncode == 0, done.stdout[-30000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("suite", RELEASES)
def test_scripts_agent_and_limiter_on_a_release(suite: str, tmp_path: Path) -> None:
    shown = run(suite, tmp_path)
    # Each of them ran, and none was skipped.
    assert re.search(r"^10 passed(, \d+ warnings?)? in ", shown, re.MULTILINE), shown
