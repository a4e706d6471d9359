# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests on a virtual machine with a kernel of its own; `make guest` runs them, and nothing else does."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The lab is no installed package: it is run from the checkout, as `python -m lab`.
sys.path.insert(0, str(Path(__file__).parents[2]))

from lab.guest import commands
from lab.guest.machine import Guest

# A boot under emulation takes a minute or two.
_failed: list[str] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what boots a guest or a bare machine, unless -m names the mark."""
    named = set(re.findall(r"\w+", str(config.option.markexpr)))
    left_out = [
        item
        for item in items
        if any(item.get_closest_marker(mark) for mark in ("guest", "metal"))
        and not any(item.get_closest_marker(mark) for mark in named)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Remember a step that failed."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed and item.get_closest_marker("step"):
        _failed.append(item.name)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail tests after a failed step: the guest is not in the state that they need."""
    if _failed and Path(str(item.fspath)).parent == Path(__file__).parent:
        pytest.fail(f"the guest did not get here: {_failed[0]} failed", pytrace=False)


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    """A new guest for the tests of one file."""
    commands.prepare()
    with Guest("test") as one:
        yield one
