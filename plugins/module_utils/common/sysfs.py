# SPDX-License-Identifier: GPL-3.0-or-later
"""Read files below a root directory without following links out of it."""

from __future__ import annotations

import os
from pathlib import Path

from .command import run_together

_LINKS = 40  # the kernel's own limit


class Root:
    """Read the file tree of a machine below a directory. `problems` has one text for each path that could not be read."""

    def __init__(self, top: str) -> None:
        self.top = Path(top)
        self.problems: list[str] = []

    def find(self, path: str) -> Path:
        """Return the path here for a path of the machine. An absolute link starts at the machine's root, and `..` ends there."""
        todo, at, links = [part for part in reversed(path.split("/")) if part], self.top, 0
        while todo:
            part = todo.pop()
            if part == "..":
                at = at.parent if at != self.top else at
            elif part != ".":
                try:
                    target = os.readlink(at / part)  # noqa: PTH115 - Path.readlink drops a final dot
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
        """Return whether a path exists; a dangling link does not."""
        return self.find(path).exists()

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a directory; an empty list if the directory does not exist."""
        try:
            return sorted(os.listdir(self.find(path)))  # noqa: PTH208 - names, not paths
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.problem(path, error)
            return []

    def raw(self, path: str, *, needed: bool = True) -> bytes | None:
        """Return the content of a file, or None if it cannot be read. That is a problem, unless the file may be missing and is."""
        try:
            return self.find(path).read_bytes()
        except FileNotFoundError as error:
            if needed:
                self.problem(path, error)
        except OSError as error:
            self.problem(path, error)
        return None

    def text(self, path: str, *, needed: bool = True) -> str | None:
        """Return the text of a file without surrounding whitespace; None as in `raw`."""
        data = self.raw(path, needed=needed)
        return None if data is None else data.decode("utf-8", "replace").strip()

    def lines(self, path: str, *, needed: bool = False) -> list[str]:
        """Return the unchanged lines of a text file, so that their indexes match the file; an empty list if it cannot be read."""
        data = self.raw(path, needed=needed)
        return [] if data is None else data.decode("utf-8", "replace").splitlines()

    def link(self, path: str) -> str | None:
        """Return the last component of a link's target; None if there is no link."""
        try:
            return os.readlink(self.find(str(Path(path).parent)) / Path(path).name).rstrip("/").rsplit("/", 1)[-1]  # noqa: PTH115
        except FileNotFoundError:
            return None
        except OSError as error:
            self.problem(path, error)
            return None

    def texts(self, paths: list[str], seconds: float) -> tuple[dict[str, str], list[str]]:
        """Return the texts of files of a driver that may hang, and the paths that did not answer within `seconds`.

        A read that hangs in the kernel cannot be ended from inside this process, so child processes read.
        """
        outcomes = run_together([["cat", "--", str(self.find(path))] for path in paths], seconds)
        found, hung = {}, []
        for path, outcome in zip(paths, outcomes):
            if outcome.code == 0:
                found[path] = outcome.stdout
            elif outcome.code is None:
                hung.append(path)
                self.problems.append(
                    f"/{path}: the driver did not answer a read within {seconds:g} s; the driver hangs"
                )
            else:
                said = outcome.stderr.strip().rsplit(": ", 1)[-1] or f"cat ended with {outcome.code}"
                self.problems.append(f"/{path}: {said}")
        return found, hung

    def problem(self, path: str, error: OSError) -> None:
        """Record why a path could not be read."""
        self.problems.append(f"/{path}: {error.strerror or error}")
