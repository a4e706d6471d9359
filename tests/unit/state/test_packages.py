"""Packages, and files of others that have apt take another version, or one that nobody signed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.state import packages
from tests.drift.node import KINDS, judge

from .machine import STATE, Machine, summary

ROWS: list[dict[str, Any]] = [
    {"name": "dcgm", "version": "4.2", "held": True, "role": "demo"},
    {"name": "mta", "version": ""},
]
SOURCE = "Types: deb\nURIs: https://example.org/cuda/\nSuites: ./\nSigned-By: /etc/apt/keyrings/a.asc\n"
LIST = "/etc/apt/sources.list.d/site.list"
PREFERENCES = "/etc/apt/preferences.d/bedplate.pref"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    one = Machine(tmp_path)
    one.write("/etc/apt/sources.list.d/bedplate.sources", SOURCE)
    one.write(PREFERENCES, "# why\nPackage: dcgm\nPin: version 4.2\nPin-Priority: 1001\n")
    one.put("etc/apt/sources.list", "deb http://deb.example.org/debian trixie main\n")
    one.put(f"{STATE}/holds.json", json.dumps({"demo": ["dcgm"]}))
    one.answers.update({"apt-mark": lambda _words: "dcgm\n", "apt-cache": _policy("4.2"), "dpkg-query": _dpkg("4.2")})
    return one


def _policy(version: str) -> Callable[[list[str]], str]:
    return lambda _words: f"dcgm:\n  Installed: 4.2\n  Candidate: {version}\n  Version table:\n     4.2 1001\n"


def _dpkg(version: str) -> Callable[[list[str]], str]:
    def answer(words: list[str]) -> str:
        return "a, mta (= 2), b\n" if "Provides" in words[2] else f"dcgm {version} installed\n"

    return answer


def put(path: str, text: str) -> Callable[[Machine], object]:
    return lambda machine: machine.put(path, text)


def answers(name: str, answer: Callable[[list[str]], str]) -> Callable[[Machine], object]:
    return lambda machine: machine.answers.update({name: answer})


def pinned(machine: Machine) -> None:
    machine.put(
        "etc/apt/preferences.d/00-site",
        "Package: *\nPin: release a=x\nPin-Priority: 5\n\nPackage: dcg*\nPin: version 5\nPin-Priority: 2000\n",
    )
    machine.answers["apt-cache"] = _policy("5")


CHANGES: dict[str, tuple[Callable[[Machine], object], tuple[str, str, str]]] = {
    "another Signed-By": (
        put(LIST, "# theirs\ndeb [signed-by=/usr/share/keyrings/b.gpg arch=amd64] https://example.org/cuda ./\n"),
        ("apt-conflict", "apt source https://example.org/cuda ./", f"{LIST}:2"),
    ),
    "no Signed-By": (
        put(LIST, "deb https://example.org/cuda ./\n"), ("apt-conflict", "apt source https://example.org/cuda ./", f"{LIST}:1"),
    ),
    "a source that is trusted": (
        put(LIST, "deb [trusted=yes] http://other.example.org/x ./\n"),
        ("apt-unsigned", "apt source http://other.example.org/x ./", f"{LIST}:1"),
    ),
    "a source that is trusted, in the other form": (
        put("/etc/apt/sources.list.d/s.sources", "Types: deb\n\nTypes: deb\nURIs: http://o.example.org\nSuites: x\nTrusted: yes\n"),
        ("apt-unsigned", "apt source http://o.example.org x", "/etc/apt/sources.list.d/s.sources:3"),
    ),
    "settings of apt": (
        put("/etc/apt/apt.conf.d/90site", '// x\nAPT::Get::AllowUnauthenticated "true";\n'),
        ("apt-unsigned", "apt's settings", "/etc/apt/apt.conf.d/90site:2"),
    ),
    "a pin": (pinned, ("apt-pin", "version of dcgm that apt would install", "/etc/apt/preferences.d/00-site:5")),
    "no hold": (answers("apt-mark", lambda _words: ""), ("apt-hold", "package dcgm", "")),
    "another version": (answers("dpkg-query", _dpkg("4.3")), ("package", "package dcgm", "")),
    "not installed": (
        answers("dpkg-query", lambda words: _dpkg("4.2")(words).replace("4.2 installed", "4.2 config-files")),
        ("package", "package dcgm", ""),
    ),
}  # fmt: skip


def read(machine: Machine) -> list[tuple[str, str, str]]:
    return summary(packages.findings(machine.root, {"manager": "apt", "packages": ROWS}, machine.run))


def test_packages_as_they_are_to_be_are_silent(machine: Machine) -> None:
    assert read(machine) == []


@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_is_named_alone(name: str, machine: Machine) -> None:
    change, finding = CHANGES[name]
    change(machine)
    assert read(machine) == [finding]


def test_drift_is_named_with_who_overrides(machine: Machine) -> None:
    (row,) = [row for row in KINDS if row["id"] == "source-with-another-key"]
    for step, count in (("make", 1), ("undo", 0)):
        command = row[step].replace("/etc/apt/sources", f"{machine.top}/etc/apt/sources")
        subprocess.run(["sh", "-ec", command], check=True)
        named, others = judge(row, set(), set(read(machine)))
        assert (len(named), others) == (count, set())


@pytest.mark.parametrize(
    "text",
    ["deb [signed-by=/etc/apt/keyrings/a.asc] https://example.org/cuda/ ./\n", "#deb [trusted=yes] http://x y\n"],
)
def test_a_source_that_agrees_is_silent(machine: Machine, text: str) -> None:
    machine.put(LIST, text)
    assert read(machine) == []


def test_a_source_that_is_switched_off_is_silent(machine: Machine) -> None:
    machine.put("etc/apt/sources.list.d/s.sources", f"Enabled: no\nTrusted: yes\n{SOURCE}")
    assert read(machine) == []
