"""What lab/bootstrap says where the tools that tests ask are missing and cannot be installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

BOOTSTRAP = Path(__file__).parents[3] / "lab/bootstrap"


@pytest.mark.parametrize(("promised", "status"), [("", 0), ("true", 1)])
def test_tools_that_are_missing_are_named_with_their_packages_and_fail_where_they_are_promised(
    tmp_path: Path, promised: str, status: int
):
    (tmp_path / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    # It looks into the sbin folders by itself, where slurmctld and opensm are if they are here.
    done = subprocess.run(
        [str(tmp_path / "sh"), str(BOOTSTRAP), "tools"],
        env={"PATH": str(tmp_path), "CI": promised}, capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip
    assert done.returncode == status
    said, _dot, packages = done.stderr.partition(". Run as root: apt-get install ")
    assert said.startswith("bootstrap: NOT TESTED: what needs ")
    assert {"scontrol", "ibsim", "ibdmchk", "promtool"} <= set(said.split())
    assert {"slurm-client", "ibsim-utils", "ibutils", "munge", "prometheus-alertmanager"} <= set(packages.split())
