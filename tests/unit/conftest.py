# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that need a real tool, ``@pytest.mark.tools("scontrol")``, and tests that run only when they are asked for."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.kit.imports import needs_ansible_core

# Minutes, or a download: not because somebody runs all tests, nor because -m leaves out something else.
ASKED_FOR = ("full", "full_roles", "nightly")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option with which the other end of the range of ansible-core is tested."""
    parser.addoption("--ansible-core", action="store_true", help="only files whose tests can depend on ansible-core")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that ansible-core has no part in: they are the same with each release of it."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    if is_test and config.getoption("--ansible-core") and not needs_ansible_core(collection_path):
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only runs when -m names it."""
    words = set(re.findall(r"\w+", str(config.option.markexpr)))
    left_out = [
        item for item in items if any(item.get_closest_marker(mark) and mark not in words for mark in ASKED_FOR)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


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
