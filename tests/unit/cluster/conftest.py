"""A small cluster file that is right, to be made wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load

BASE = Path(__file__).with_name("base.yml").read_text(encoding="utf-8")


class Bench:
    """Writes variants of the base file and reads them."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "lab.bedplate.yml"

    def text(self, *edits: tuple[str, str]) -> str:
        """Return the base file with each edit made; an edit that finds nothing to replace is a mistake of the test."""
        text = BASE
        for old, new in edits:
            assert old in text, f"nothing to replace: {old!r}"
            text = text.replace(old, new, 1)
        return text

    def load(self, *edits: tuple[str, str]) -> Cluster:
        """Return the cluster of a variant."""
        self.path.write_text(self.text(*edits), encoding="utf-8")
        return load(self.path)

    def error(self, *edits: tuple[str, str]) -> ClusterFileError:
        """Return what is wrong with a variant."""
        return self.error_of(self.text(*edits))

    def error_of(self, text: str) -> ClusterFileError:
        """Return what is wrong with a text."""
        self.path.write_text(text, encoding="utf-8")
        with pytest.raises(ClusterFileError) as caught:
            load(self.path)
        return caught.value


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
