# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the probes' tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from .machine_kit import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a healthy machine with eight GPUs."""
    return Machine(tmp_path)
