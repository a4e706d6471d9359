# SPDX-License-Identifier: GPL-3.0-or-later
"""Count the running containers of each engine from /proc. No daemon is queried, so none can hang the query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

PROC = Path("/proc")


def running(engine: str, proc: Path = PROC) -> int:
    """Return how many containers an engine runs now.

    Each container has one process of its engine that outlives the daemon: containerd's shim (also for docker, in a
    namespace of its own), or CRI-O's conmon. Podman has no daemon that could be restarted.
    """
    return sum(_belongs(engine, words) for words in _processes(proc))


def _belongs(engine: str, words: Sequence[str]) -> bool:
    program = words[0].rsplit("/", 1)[-1]
    shim = program.startswith("containerd-shim")
    if engine == "containerd":
        return shim
    if engine == "docker":
        return shim and _option(words, "-namespace") == "moby"
    if engine == "crio":
        return program == "conmon" and any("crio" in word for word in words[1:])
    return False


def _option(words: Sequence[str], name: str) -> str:
    at = words.index(name) + 1 if name in words else len(words)
    return words[at] if at < len(words) else ""


def _processes(proc: Path) -> Iterator[list[str]]:
    for directory in proc.iterdir():
        if not directory.name.isdigit():
            continue
        try:
            line = (directory / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        words = [word.decode("utf-8", "replace") for word in line.split(b"\0")]
        if words[0]:
            yield words
