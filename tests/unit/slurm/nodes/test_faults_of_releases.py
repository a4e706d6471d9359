# SPDX-License-Identifier: GPL-3.0-or-later
"""The faults of test_real_faults.py on the newest Slurm in Debian's archive: `make full-daytwo`. `make test` has them on this machine's."""

from __future__ import annotations

import re

import pytest

from tests.kit import slurm_releases

pytestmark = pytest.mark.full
FAULTS = "tests/unit/slurm/nodes/test_real_faults.py"
# The conftests need packages that the root lacks.
PYTEST = ("-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "-m", "daemons")


@pytest.mark.parametrize(("suite", "version"), [("sid", "26.05")])
def test_faults_on_another_release(suite: str, version: str):
    try:
        shown = slurm_releases.inside(suite, "-c", "import os; os.execlp('slurmctld', 'slurmctld', '-V')").stdout
        done = slurm_releases.inside(suite, *PYTEST, FAULTS, timeout=900)
    except slurm_releases.UnavailableError as error:
        pytest.fail(f"NOT TESTED with Slurm {version}: {error}")
    assert f" {version}." in shown
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    # Each of them ran, and none was skipped.
    assert re.search(r"^\d+ passed[^,]*(, \d+ warnings?)? in ", done.stdout, re.MULTILINE)
