# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-playbook for tests that run it with this repository's ansible.cfg: a fork of one loaded process, a fraction of the CPU time."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from pathlib import Path

from tests.kit import ROOT
from tests.kit.recorded.stage import Stage

FORKS = "50"


@functools.cache
def _stage() -> Stage:
    return Stage(ROOT)


def close() -> None:
    """End the process of this process of tests."""
    if _stage.cache_info().currsize:
        _stage().close()
        _stage.cache_clear()


def play(*arguments: str | Path, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ansible-playbook in a directory; `stdout` has both outputs.

    `environment` cannot change what ansible-core reads at its start: variables ANSIBLE_*.
    """
    changed = {**os.environ, **environment}
    with tempfile.TemporaryDirectory(prefix="play-") as folder:
        done = _stage().run(
            Path(folder),
            # The stage's recordings want one order; here hosts run beside each other, as with ansible.cfg.
            ["--forks", FORKS, *map(str, arguments)],
            [],
            cwd=cwd,
            environment={name: value for name, value in changed.items() if not name.startswith("ANSIBLE_")},
        )
    return subprocess.CompletedProcess(["ansible-playbook", *map(str, arguments)], done.rc, done.output, "")
