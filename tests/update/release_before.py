# SPDX-License-Identifier: GPL-3.0-or-later
"""The release before this one, as a checkout of its last commit: the file release_before names both."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.paths import ROOT

NAMED = Path(__file__).with_name("release_before")


@dataclass(frozen=True)
class Release:
    """A release and its last commit."""

    number: str
    commit: str


def release_before() -> Release:
    """Return the release before this one."""
    number, commit = NAMED.read_text(encoding="utf-8").split()
    return Release(number, commit)


@contextmanager
def checkout(release: Release, folder: Path) -> Iterator[Path]:
    """Lend a work tree of a release, with the Python environment of this one."""
    if _git("cat-file", "-e", f"{release.commit}^{{commit}}").returncode != 0:
        raise AssertionError(
            f"git has no commit {release.commit}, the last one of release {release.number} ({NAMED}). "
            f"In a shallow clone fetch it first: git fetch origin {release.commit}"
        )
    _remove(folder)
    done = _git("worktree", "add", "--detach", str(folder), release.commit)
    assert done.returncode == 0, done.stderr
    try:
        (folder / ".venv").symlink_to((ROOT / ".venv").resolve())
        yield folder
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a work tree, also one that a killed run has left."""
    _git("worktree", "remove", "--force", str(folder))
    _git("worktree", "prune")


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
