# SPDX-License-Identifier: GPL-3.0-or-later
"""Search for a text that breaks a property of properties.py, with atheris, for as long as it is told to.

    python3.11 -m venv /tmp/fuzz && /tmp/fuzz/bin/pip install atheris
    PYTHONPATH=.:collections /tmp/fuzz/bin/python tests/fuzz/run.py DIRECTORY -max_total_time=3600

DIRECTORY keeps the corpus, and under `found` one text for each place that failed, with its traceback: a failure does not end the run.
`run.py FILE` replays one such text. Options with one dash are libFuzzer's.
"""

from __future__ import annotations

import hashlib
import random
import sys
import traceback
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["ansible_collections"]):
    from tests.fuzz.properties import PROPERTIES
    from tests.fuzz.seeds import change, seeds

NAMES = list(PROPERTIES)


def mutate(data: bytes, most: int, seed: int) -> bytes:
    """Change bytes as libFuzzer does, or lines and words. The first byte is the property's number."""
    rng = random.Random(seed)
    if rng.random() < 0.4 or len(data) < 2:
        return bytes(atheris.Mutate(data, min(len(data) + 8, most)))
    return (data[:1] + change(data[1:].decode(errors="replace"), rng).encode(errors="replace"))[:most]


def check(data: bytes) -> str:
    """Try one input; return the name of its property."""
    name = NAMES[data[0] % len(NAMES)]
    PROPERTIES[name](data[1:].decode(errors="replace"))
    return name


class Finder:
    """Tries texts, and keeps those that fail at a place that is new."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "found"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.known: set[str] = set()

    def __call__(self, data: bytes) -> None:
        try:
            if data:
                check(data)
        except Exception as error:
            self._keep(data, error)

    def _keep(self, data: bytes, error: Exception) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        name = NAMES[data[0] % len(NAMES)]
        where = f"{name} {type(error).__name__} " + " ".join(f"{frame.name}:{frame.lineno}" for frame in frames[-2:])
        if where not in self.known:
            self.known.add(where)
            path = self.directory / f"{name}-{hashlib.sha256(where.encode()).hexdigest()[:8]}"
            path.write_bytes(data)
            story = f"{where}\n{''.join(traceback.format_exception(error))}"
            path.with_suffix(".txt").write_text(story, errors="replace")
            print(f"FOUND {where}: {str(error)[:200]!r}", flush=True)


def main() -> None:
    """Run, or replay a file."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    path = Path(sys.argv[1])
    if path.is_file():
        print(f"{check(path.read_bytes())} holds")
        return
    corpus = path / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, (name, text) in enumerate(seeds()):
        (corpus / f"seed-{number}").write_bytes(bytes([NAMES.index(name)]) + text.encode())
    atheris.Setup(
        [sys.argv[0], str(corpus), "-max_len=20000", f"-artifact_prefix={path}/", *sys.argv[2:]],
        Finder(path),
        custom_mutator=mutate,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
