"""A site with GPU nodes, and a function that writes its own rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tests.kit import ROOT

Write = Callable[[str], Path]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return the cluster file of a copy of a site."""
    shutil.copytree(ROOT / "tests/roles/clusters/gpu", tmp_path / "site")
    return tmp_path / "site/gpu.bedplate.yml"


@pytest.fixture
def write(site: Path) -> Write:
    def write(text: str) -> Path:
        path = site.with_name("gpu.gpu-table.yml")
        path.write_text(dedent(text))
        return path

    return write
