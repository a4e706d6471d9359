# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of the kernel modules that were compiled on a machine before they were needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...common.files import atomic_write

# The deployed driver and the one to return to, each with the other modules of a machine, for two kernels.
_KEPT = 32


@dataclass(frozen=True)
class CompiledModule:
    """A module and what it was compiled from.

    `packages` is name -> version of the packages with its sources; empty for a module that is installed already. A module that is built
    against the driver has the driver's packages, too. `name` and `module_version` are DKMS's; the driver's name is "" until its sources
    are read, the version is "" where the packages alone decide it. `headers` is the version of the kernel's headers.
    """

    packages: Mapping[str, str]
    name: str
    module_version: str
    kernel: str
    headers: str

    def __str__(self) -> str:
        return f"{self.name or 'the driver'} {self.module_version or [*self.packages.values()][-1]}"


class ProofRecord:
    """The file with the modules that compile."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def find(self, wanted: CompiledModule) -> CompiledModule | None:
        """Return this module with its name, if exactly it was compiled before."""
        for row in self._rows():
            name = str(row.get("name", ""))
            found = replace(wanted, name=name)
            if wanted.name in ("", name) and (row == asdict(found) or row == _of_release_0_1(found, row)):
                return found
        return None

    def add(self, proof: CompiledModule) -> None:
        """Record a module that compiles."""
        self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        rows = [*self._rows(), asdict(proof)][-_KEPT:]
        atomic_write(self.path, json.dumps(rows, indent=1) + "\n")

    def _rows(self) -> list[dict[str, Any]]:
        try:
            rows = json.loads(self.path.read_text())
        except (FileNotFoundError, ValueError):
            return []
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _of_release_0_1(proof: CompiledModule, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of release 0.1 for a proof: one package had all sources. Such a proof still counts."""
    package = str(row.get("package", ""))
    old = {key: value for key, value in asdict(proof).items() if key != "packages"}
    return {**old, "package": package, "version": proof.packages.get(package)}
