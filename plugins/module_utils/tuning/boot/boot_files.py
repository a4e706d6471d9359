# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write boot loader files as a whole, restore them after a failure, and keep bedplate's record of them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ...common.files import atomic_write
from .boot_entries import CommandLines
from .cmdline_tokens import CmdlineError

FILE_NAME = "cmdline.json"
_VERSION = 1


@dataclass(frozen=True)
class BootRecord:
    """Record of a machine: bedplate's tokens on the command line, its former tokens that may still run, and the original files."""

    own: list[str] = field(default_factory=list)
    past: list[str] = field(default_factory=list)
    files: dict[str, CommandLines] = field(default_factory=dict)

    def text(self) -> str | None:
        """Return the text of the record; None if there is nothing to record."""
        if not (self.own or self.past or self.files):
            return None
        return json.dumps({"version": _VERSION, **asdict(self)}, indent=1, sort_keys=True) + "\n"


def load(path: Path) -> BootRecord:
    """Return the record of this machine, an empty one if it is missing."""
    text = read(path)
    if text is None:
        return BootRecord()
    try:
        document = json.loads(text)
        if document.pop("version") != _VERSION:
            raise ValueError(f"this bedplate reads version {_VERSION}")
        files = {name: CommandLines(**seen) for name, seen in document.pop("files").items()}
        return BootRecord(files=files, **document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CmdlineError(
            [
                f"{path}, the record of bedplate's tokens on the kernel command line, cannot be read: {error}. Restore it from a "
                f"backup, or move it away (mv {path} {path}.broken) and check the boot loader's files for tokens of bedplate"
            ]
        ) from error


def read(path: Path) -> str | None:
    """Return the text with every byte of a file, or None if it does not exist."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CmdlineError([f"{path}: cannot be read: {error.strerror}"]) from error


def inside(sysroot: Path, path: Path) -> Path:
    """Return the real path of a file under another root, with links resolved inside that root."""
    for _turn in range(8):
        if not path.is_symlink():
            break
        target = str(path.readlink())
        path = sysroot / target.lstrip("/") if target.startswith("/") else path.parent / target
    return path


class Writer:
    """Write files one after the other, each as a whole, and restore the old files on failure."""

    def __init__(self) -> None:
        self._before: list[tuple[Path, str | None]] = []

    def write(self, texts: Mapping[Path, str | None]) -> None:
        """Write texts; None removes a file. Raises CmdlineError after restoring everything."""
        for path, text in texts.items():
            try:
                before = read(path)
                if before != text:
                    _put(path, text)
                    self._before.append((path, before))
            except OSError as error:
                self.undo()
                raise CmdlineError([f"{path}: cannot be written: {error.strerror}; nothing was changed"]) from error

    def undo(self) -> None:
        """Restore the old files, as far as possible."""
        for path, before in reversed(self._before):
            with contextlib.suppress(OSError):
                _put(path, before)
        self._before = []


def _put(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
        return
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    atomic_write(path, text.encode("utf-8", "surrogateescape"))
