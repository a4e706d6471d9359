# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that need a real tool: ``@pytest.mark.tools("scontrol")``."""

from __future__ import annotations

import os
import shutil

import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose tool is missing, but fail where the tools have been promised."""
    wanted = [str(tool) for mark in item.iter_markers("tools") for tool in mark.args]
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    missing = [tool for tool in wanted if not shutil.which(tool, path=path)]
    if not missing:
        return
    reason = f"{', '.join(missing)} not installed"
    if os.environ.get("CI") == "true" or os.environ.get("BEDPLATE_TOOLS") == "required":
        pytest.fail(f"{reason}, and the tools are required here (CI=true or BEDPLATE_TOOLS=required)", pytrace=False)
    pytest.skip(reason)
