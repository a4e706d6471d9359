# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that need a real tool, ``@pytest.mark.tools("scontrol")``, tests that run only when asked for, snapshots of messages."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.kit import sentences
from tests.kit.imports import may_have_mark, needs_ansible_core

# Minutes, or a download: not because somebody runs all tests, nor because -m leaves out something else.
ASKED_FOR = ("full", "full_health", "full_roles", "metal", "nightly")
# Each has a target of make with nothing else in -m.
ALONE = (*ASKED_FOR, "playbooks", "simulation", "daemons")


@pytest.fixture(scope="session", autouse=True)
def _day_of_branches() -> Iterator[None]:
    """Judge branches of the driver on one day: what is proposed must not change with the calendar."""
    # A pytest that a test runs has no collection.
    if importlib.util.find_spec("ansible_collections") is None:
        yield
        return
    resolve = importlib.import_module("ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.resolve")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolve, "today", lambda: date(2026, 11, 1))
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Write the reports of playbooks that tests run into a folder that goes with the session."""
    folder = tempfile.TemporaryDirectory(prefix="report-")
    os.environ["BEDPLATE_REPORT"] = folder.name
    config.add_cleanup(folder.cleanup)
    config.add_cleanup(_end_plays)


def _end_plays() -> None:
    # Not imported here: a pytest that a test runs has no collection.
    if plays := sys.modules.get("tests.kit.plays"):
        plays.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option with which the other end of the range of ansible-core is tested."""
    parser.addoption("--ansible-core", action="store_true", help="only files whose tests can depend on ansible-core")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that ansible-core has no part in, and those without the one mark that -m names: reading all takes half a minute."""
    if not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    if config.getoption("--ansible-core") and not needs_ansible_core(collection_path):
        return True
    mark = str(config.option.markexpr)
    return True if mark.isidentifier() and not may_have_mark(collection_path, mark) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only runs when -m names it; refuse a mark that pytest_ignore_collect would not find; begin with the longest test."""
    hidden = {
        f"{item.path}: nothing says mark.{mark.name}, so -m {mark.name} would miss it"
        for item in items
        for mark in item.iter_markers()
        if mark.name in ALONE and not may_have_mark(item.path, mark.name)
    }
    if hidden:
        raise pytest.UsageError("\n".join(sorted(hidden)))
    words = set(re.findall(r"\w+", str(config.option.markexpr)))
    left_out = [
        item for item in items if any(item.get_closest_marker(mark) and mark not in words for mark in ASKED_FOR)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    # With the longest one last, a core would be idle meanwhile.
    items.sort(key=lambda item: item.get_closest_marker("longest") is None)


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


# Checks of all processes of a run.
SENTENCES = pytest.StashKey[list[tuple[str, str]]]()
LEFT_OVER = pytest.StashKey[list[str]]()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep the cases whose sentences a process of pytest-xdist has checked."""
    node.config.stash.setdefault(SENTENCES, []).extend(getattr(node, "workeroutput", {}).get("sentences", []))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a whole run that is green where a snapshot has a case that no test has checked."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["sentences"] = sentences.checked()
        return
    done = [*config.stash.get(SENTENCES, []), *sentences.checked()]
    if exitstatus == pytest.ExitCode.OK and sentences.is_whole(config):
        config.stash[LEFT_OVER] = sentences.left_over(config.args, done)
        if config.stash[LEFT_OVER]:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say which cases are left over."""
    for line in config.stash.get(LEFT_OVER, []):
        terminalreporter.write_line(f"FAILED {line}", red=True)
