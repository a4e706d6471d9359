# SPDX-License-Identifier: GPL-3.0-or-later
"""Read files below a root without leaving it."""

from __future__ import annotations

import os
from pathlib import Path

from .command import run_together

_LINKS = 40  # as many as the kernel follows


class Root:
    """The tree of a machine below a directory. All that could not be read is in `problems`, one text each."""

    def __init__(self, top: str) -> None:
        self.top = Path(top)
        self.problems: list[str] = []

    def find(self, path: str) -> Path:
        """Return where a path of the machine is here. An absolute link means the machine's root, and `..` ends there."""
        todo, at, links = [part for part in reversed(path.split("/")) if part], self.top, 0
        while todo:
            part = todo.pop()
            if part == "..":
                at = at.parent if at != self.top else at
            elif part != ".":
                try:
                    target = os.readlink(at / part)  # noqa: PTH115 - Path.readlink came with 3.9, and drops a final dot
                except OSError:
                    at = at / part
                    continue
                links += 1
                if links > _LINKS:
                    return at / part
                at = self.top if target.startswith("/") else at
                todo += [part for part in reversed(target.split("/")) if part]
        return at

    def name(self, path: Path) -> str:
        """Return the path that a file has on the machine."""
        return f"/{path.relative_to(self.top)}"

    def exists(self, path: str) -> bool:
        """Tell whether a path is there, a dangling link is not."""
        return self.find(path).exists()

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none where there is no directory."""
        try:
            return sorted(os.listdir(self.find(path)))  # noqa: PTH208 - names, not paths
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.problem(path, error)
            return []

    def raw(self, path: str, *, needed: bool = True) -> bytes | None:
        """Return what is in a file; None when it cannot be read, and a problem unless it may be missing and is."""
        try:
            return self.find(path).read_bytes()
        except FileNotFoundError as error:
            if needed:
                self.problem(path, error)
        except OSError as error:
            self.problem(path, error)
        return None

    def text(self, path: str, *, needed: bool = True) -> str | None:
        """Return the text of a file without the space around it; None as with `raw`."""
        data = self.raw(path, needed=needed)
        return None if data is None else data.decode("utf-8", "replace").strip()

    def lines(self, path: str, *, needed: bool = False) -> list[str]:
        """Return the lines of a text file as they are, so that their numbers are those of the file; none when it cannot be read."""
        data = self.raw(path, needed=needed)
        return [] if data is None else data.decode("utf-8", "replace").splitlines()

    def link(self, path: str) -> str | None:
        """Return the last name of what a link points to; None when there is no link."""
        try:
            return os.readlink(self.find(str(Path(path).parent)) / Path(path).name).rstrip("/").rsplit("/", 1)[-1]  # noqa: PTH115
        except FileNotFoundError:
            return None
        except OSError as error:
            self.problem(path, error)
            return None

    def texts(self, paths: list[str], seconds: float) -> tuple[dict[str, str], list[str]]:
        """Return the texts of files of a driver that may hang, and which did not answer within so many seconds.

        A read that hangs in the kernel cannot be ended from inside this process, so that others read.
        """
        outcomes = run_together([["cat", "--", str(self.find(path))] for path in paths], seconds)
        found, hung = {}, []
        for path, outcome in zip(paths, outcomes):
            if outcome.code == 0:
                found[path] = outcome.stdout
            elif outcome.code is None:
                hung.append(path)
                self.problems.append(f"/{path}: the driver did not answer a read within {seconds:g} s; it hangs")
            else:
                said = outcome.stderr.strip().rsplit(": ", 1)[-1] or f"cat ended with {outcome.code}"
                self.problems.append(f"/{path}: {said}")
        return found, hung

    def problem(self, path: str, error: OSError) -> None:
        """Note why a path could not be read."""
        self.problems.append(f"/{path}: {error.strerror or error}")
