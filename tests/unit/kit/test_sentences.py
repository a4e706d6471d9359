"""Snapshots of messages: what differs, what is missing and what is left over is a failure, and one command renews them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.kit import ROOT, sentences


@pytest.fixture
def area(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(sentences.RENEW, raising=False)
    monkeypatch.setattr(sentences, "_checked", {})
    monkeypatch.setattr(sentences, "_renewed", {})
    return tmp_path / "sentences.txt"


def test_sentences_are_compared_and_renewed(area: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(AssertionError, match=r"port: .*BEDPLATE_RENEW_SENTENCES=1 pytest"):
        sentences.check(area, "port", ["leaf1 port 17: no such port"])
    monkeypatch.setenv(sentences.RENEW, "1")
    sentences.check(area, "port", ["leaf1 port 17: no such port", "allowed: 1 to 16\n\n  # or less"])
    sentences.check(area, "name", [ValueError("no name")])
    monkeypatch.delenv(sentences.RENEW)
    assert area.read_text().startswith("name\n    no name\nport\n    leaf1 port 17")
    sentences.check(area, "port", ["leaf1 port 17: no such port", "allowed: 1 to 16", "", "  # or less"])
    with pytest.raises(AssertionError, match=r"(?s)\n-no name\n\+another"):
        sentences.check(area, "name", ["another"])


def test_two_checks_of_one_case_do_not_overwrite_each_other(area: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(sentences.RENEW, "1")
    sentences.check(area, "port", ["no such port"])
    sentences.check(area, "port", ["no such port"])
    with pytest.raises(AssertionError, match="port"):
        sentences.check(area, "port", ["another"])
    assert sentences.read(area) == {"port": ["no such port"]}


def test_cases_that_are_not_checked_are_left_over(area: Path, monkeypatch: pytest.MonkeyPatch):
    area.write_text("old\n    was said\nport\n    is said\n")
    sentences.check(area, "port", ["is said"])
    (left_over,) = sentences.left_over([str(area.parent)], sentences.checked())
    assert left_over.startswith(f"{area}: ")
    assert "old." in left_over.split()
    assert "port" not in left_over.removeprefix(str(area))
    assert sentences.left_over([str(area.parent / "elsewhere")], []) == []
    monkeypatch.setenv(sentences.RENEW, "1")
    assert sentences.left_over([str(area.parent)], sentences.checked()) == []
    assert sentences.read(area) == {"port": ["is said"]}


@pytest.mark.parametrize(
    ("given", "whole"),
    [({}, True), ({"markexpr": "not simulation and not playbooks"}, True), ({"markexpr": "simulation"}, False),
     ({"keyword": "port"}, False), ({"deselect": ["x"]}, False), ({"lf": True}, False), ({"ansible_core": True}, False)],
)  # fmt: skip
def test_only_a_whole_run_says_what_is_left_over(given: dict[str, object], whole: bool):
    options = {"keyword": "", "deselect": None, "markexpr": "", "ansible_core": False, "lf": False} | given
    config = SimpleNamespace(option=SimpleNamespace(**options), getoption=lambda name, default: options[name])
    assert sentences.is_whole(config) is whole


def test_processes_of_a_run_are_judged_together(area: Path):
    (area.parent / "conftest.py").write_text("from tests.unit.conftest import *\n")
    (area.parent / "test_it.py").write_text(
        "from pathlib import Path\nimport pytest\nfrom tests.kit import sentences\n"
        "@pytest.mark.parametrize('case', ['a', 'b', 'c', 'd'])\n"
        "def test_it(case):\n    sentences.check(Path(__file__).with_name('sentences.txt'), case, [case * 3])\n"
    )

    area.write_text("".join(f"{case}\n    {case * 3}\n" for case in "abcde"))
    command = [sys.executable, "-m", "pytest", "-q", "-n2", f"--rootdir={area.parent}", "."]
    there = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    there["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(command, cwd=area.parent, env=there, capture_output=True, text=True, timeout=300, check=False)
    said = re.findall(rf"{area}: .*\b(\S+)\. .*BEDPLATE_RENEW", done.stdout)
    assert (done.returncode, said) == (1, ["e"]), done.stdout + done.stderr
