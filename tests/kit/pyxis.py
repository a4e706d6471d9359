# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for pyxis on the login host of a scenario: an inventory that requests it, for tests that compile it."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

from tests.kit import ROOT

SOURCES = ROOT / "molecule/container_runtime/files/pyxis"


def inventory(folder: Path) -> Path:
    """Write an archive of the sources, and an inventory in which login1 requests them; return the inventory."""
    archive = folder / "pyxis-0.24.0.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(SOURCES, "pyxis-0.24.0")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    variables = {
        "container_runtime_engines": ["enroot"],
        "container_runtime_packages": {"enroot": ["enroot"]},
        "container_runtime_pyxis": {"source": str(archive), "sha256": digest},
    }
    path = folder / "pyxis.json"
    path.write_text(json.dumps({"all": {"hosts": {"login1": variables}}}))
    return path
