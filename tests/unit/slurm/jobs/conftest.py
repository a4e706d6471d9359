"""A controller for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.slurm.jobs.controller import Node, installed


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return installed(Node(tmp_path), monkeypatch)
