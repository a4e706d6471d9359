# SPDX-License-Identifier: GPL-3.0-or-later
"""Find secrets where they do not belong: in files, in texts, and in the arguments of all processes of this machine."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from types import TracebackType

from tests.kit.packed import readable

_EVERY_S = 0.02


def in_text(where: str, text: str, secrets: Iterable[str]) -> list[str]:
    """Return `SECRET in WHERE` for each secret of a text, also of what Ansible has packed in it."""
    said = readable(text)
    return [f"{secret} in {where}" for secret in secrets if secret in said]


def in_files(folders: Iterable[Path], secrets: Collection[str], spared: Collection[Path] = ()) -> list[str]:
    """Return `SECRET in PATH` for each secret in a file, or in its name, below folders. `spared` paths may have some."""
    return [
        found
        for folder in folders
        for path in _files(folder)
        if not any(one == path or one in path.parents for one in spared)
        for found in in_text(str(path), f"{path.name}\n{path.read_bytes().decode(errors='replace')}", secrets)
    ]


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        # A file of a running process may be gone.
        if path.is_file() and not path.is_symlink():
            yield path


class Processes:
    """Sample the arguments of all processes while a context is open; `seen` has each different list of them once."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self.seen: set[str] = set()
        self._proc, self._stop = proc, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Processes:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def having(self, secrets: Iterable[str]) -> list[str]:
        """Return `SECRET in ARGUMENTS` for each secret in the arguments of a process."""
        listed = list(secrets)
        return [
            found for words in sorted(self.seen) for found in in_text(f"the process {words[:200]!r}", words, listed)
        ]

    def _run(self) -> None:
        known: set[tuple[str, int]] = set()
        while not self._stop.wait(_EVERY_S):
            for path in self._proc.iterdir():
                if not path.name.isdigit():
                    continue
                try:
                    words = (path / "cmdline").read_bytes()
                except OSError:
                    continue
                if (key := (path.name, hash(words))) not in known:
                    known.add(key)
                    self.seen.add(words.replace(b"\0", b" ").decode(errors="replace"))
