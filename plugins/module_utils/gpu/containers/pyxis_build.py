# SPDX-License-Identifier: GPL-3.0-or-later
"""Build pyxis on the node against the headers of the installed Slurm, and record for which Slurm it was built."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ...common import command
from ...common.command import Outcome
from ...common.files import atomic_write
from .archives import ArchiveError, unpack, verify

Run = Callable[[list[str], float], Outcome]

PLUGIN = "spank_pyxis.so"
_TIMEOUT = 600.0
_VERSION = re.compile(r"\b(\d+)\.(\d+)\.(\d+)\b")
_NUMBER = re.compile(r"^\s*#\s*define\s+SLURM_VERSION_NUMBER\s+0x([0-9a-fA-F]+)", re.MULTILINE)
_ERROR = re.compile(r".*(?:error:|undefined reference|No such file).*")


class PyxisError(Exception):
    """pyxis cannot be built; the text is complete."""


@dataclass(frozen=True)
class Built:
    """Record of a build: SHA-256 of the archive, Slurm release, and resulting file."""

    archive: str
    slurm: str
    plugin: str
    digest: str


class Pyxis:
    """pyxis on this machine. `prefix` is that of its Makefile; the plugin is installed in its lib/slurm."""

    def __init__(
        self,
        record: Path,
        prefix: Path,
        header: Path = Path("/usr/include/slurm/slurm_version.h"),
        run: Run = command.run,
    ) -> None:
        self.record = record
        self.prefix = prefix
        self.header = header
        self.run = run

    @property
    def plugin(self) -> Path:
        """Return the path of the plugin."""
        return self.prefix / "lib/slurm" / PLUGIN

    def slurm(self) -> str:
        """Return the installed Slurm release, such as 24.11.5; "" without Slurm."""
        outcome = self.run(["srun", "--version"], 30.0)
        match = _VERSION.search(outcome.stdout)
        return ".".join(match.groups()) if outcome.code == 0 and match else ""

    def headers(self) -> str:
        """Return the release of the installed headers; "" without headers."""
        try:
            text = self.header.read_text(encoding="utf-8")
        except OSError:
            return ""
        match = _NUMBER.search(text)
        if not match:
            return ""
        number = int(match[1], 16)
        return f"{number >> 16 & 0xFF}.{number >> 8 & 0xFF:02d}.{number & 0xFF}"

    def is_built(self, archive: str) -> bool:
        """Return whether the installed plugin was built from this archive (its SHA-256) and for the installed Slurm."""
        found = self._recorded()
        return found is not None and found == Built(archive, self.slurm(), str(self.plugin), _digest(self.plugin))

    def why(self, archive: str) -> str:
        """Return why it must be built."""
        found, slurm = self._recorded(), self.slurm()
        if found is None:
            return "it was never built here"
        if found.archive != archive:
            return "another archive is configured"
        if found.slurm != slurm:
            return f"it was built for Slurm {found.slurm}, and {slurm} is installed"
        return f"{self.plugin} is not the file that this build installed"

    def build(self, archive: Path, sha256: str, scratch: Path) -> None:
        """Build and install the plugin. The old plugin stays until the new one is complete. Raises PyxisError if a step fails."""
        slurm, headers = self.slurm(), self.headers()
        if not slurm:
            raise PyxisError(
                "pyxis is a plugin of Slurm, but `srun --version` shows no Slurm on this node. Deploy Slurm first"
            )
        if headers != slurm:
            said = f"those of {headers}" if headers else f"none ({self.header})"
            raise PyxisError(
                f"Slurm {slurm} is installed, its headers are {said}, and Slurm refuses a plugin of another release "
                "(Incompatible plugin version). Install the headers of the same release (container_runtime_pyxis_packages)"
            )
        try:
            verify(archive, sha256)
            source = unpack(archive, scratch)
        except ArchiveError as error:
            raise PyxisError(f"pyxis: {error}") from None
        stage = scratch / "bedplate-stage"
        for words in (["make", "-C", str(source)], ["make", "-C", str(source), "install", f"DESTDIR={stage}"]):
            outcome = self.run([*words, f"prefix={self.prefix}"], _TIMEOUT)
            if outcome.code != 0:
                errors = [line.strip() for line in outcome.text.splitlines() if _ERROR.match(line)]
                raise PyxisError(
                    f"pyxis does not compile against Slurm {slurm} ({' '.join(words[3:]) or 'make'} ended with "
                    f"{outcome.code}); the old plugin is unchanged:\n  "
                    + "\n  ".join(errors[:5] or [outcome.text[-600:]])
                )
        self._install(stage, Path(f"{stage}{self.plugin}"))
        self._remember(Built(sha256, slurm, str(self.plugin), _digest(self.plugin)))

    def _install(self, stage: Path, made: Path) -> None:
        if not made.is_file():
            found = ", ".join(str(path.relative_to(stage)) for path in stage.rglob("*.so")) or "no plugin"
            raise PyxisError(
                f"`make install` made {found}, not {self.plugin.relative_to('/')}. Check that the archive is pyxis"
            )
        self.plugin.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        # Replace it in one step: job steps have the old one open.
        atomic_write(self.plugin, made.read_bytes(), mode=0o644)

    def _recorded(self) -> Built | None:
        try:
            return Built(**json.loads(self.record.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def _remember(self, built: Built) -> None:
        self.record.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        atomic_write(self.record, json.dumps(asdict(built), indent=1) + "\n")


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
