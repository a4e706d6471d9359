"""Packages, and files of others that have apt take another version, or one that nobody signed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.drift import installed_packages
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
    "a source without a signature": (
        put(LIST, "\n\ndeb [allow-insecure=yes] http://other.example.org/x ./\n"),
        ("apt-unsigned", "apt source http://other.example.org/x ./", f"{LIST}:3"),
    ),
    "weak repositories": (
        put("/etc/apt/apt.conf.d/90site", '\nAcquire::AllowWeakRepositories "1";\n'),
        ("apt-unsigned", "apt's settings", "/etc/apt/apt.conf.d/90site:2"),
    ),
    "insecure repositories": (
        put("/etc/apt/apt.conf.d/90site", "acquire::allowinsecurerepositories yes;\n"),
        ("apt-unsigned", "apt's settings", "/etc/apt/apt.conf.d/90site:1"),
    ),
    "holds that cannot be read": (lambda machine: machine.answers.pop("apt-mark"), ("apt-hold", "holds of packages", "")),
    "a version that begins like ours": (answers("dpkg-query", _dpkg("4.20")), ("package", "package dcgm", "")),
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
    return summary(installed_packages.findings(machine.root, {"manager": "apt", "packages": ROWS}, machine.run))


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


def test_a_file_that_apt_does_not_read_has_no_say(machine: Machine) -> None:
    machine.put("etc/apt/preferences.d/00-site.bak", "Package: dcgm\nPin: version 5\nPin-Priority: 2000\n")
    machine.answers["apt-cache"] = _policy("5")
    assert [(kind, "dcgm" in where.split(), by) for kind, where, by in read(machine)] == [("apt-pin", True, "")]


def test_a_package_that_no_repository_has_or_that_a_pin_keeps_out_is_silent(machine: Machine) -> None:
    machine.write("/etc/apt/preferences.d/never.pref", "Package: nouveau\nPin: version *\nPin-Priority: -1\n")
    machine.answers["apt-cache"] = lambda _words: "dcgm:\n  Candidate: (none)\nnouveau:\n  Candidate: 1\n"
    assert read(machine) == []


def test_what_bedplate_wrote_for_apt_is_its_own(machine: Machine) -> None:
    machine.write("/etc/apt/sources.list.d/own.list", "deb [trusted=yes] file:/srv/mirror ./\n")
    machine.write("/etc/apt/apt.conf.d/80own", 'Acquire::AllowInsecureRepositories "true";\n')
    assert read(machine) == []


@pytest.mark.parametrize("used", ["", "packages", "pins", "holds"])
def test_apt_of_a_machine_on_which_bedplate_manages_no_package_is_not_judged(tmp_path: Path, used: str) -> None:
    machine = Machine(tmp_path)
    machine.put(LIST, "deb [trusted=yes] http://other.example.org/x ./\n")
    machine.put("etc/apt/apt.conf.d/90site", 'APT::Get::AllowUnauthenticated "true";\n')
    machine.answers.update({"dpkg-query": _dpkg("4.2"), "apt-cache": _policy("4.2")})
    if used == "pins":
        machine.write(PREFERENCES, "Package: dcgm\nPin: version 4.2\nPin-Priority: 1001\n")
    if used == "holds":
        machine.put(f"{STATE}/holds.json", "{}")
    rows = [{"name": "dcgm", "version": "4.2"}] if used == "packages" else []
    found = installed_packages.findings(machine.root, {"manager": "apt", "packages": rows}, machine.run)
    assert [one.kind for one in found] == (["apt-unsigned"] * 2 if used else [])


def test_with_dnf_neither_apt_nor_dpkg_has_a_say(machine: Machine) -> None:
    machine.put(LIST, "deb [trusted=yes] http://other.example.org/x ./\n")
    machine.answers["rpm"] = lambda _words: "dcgm 4.2-1.el9 installed\n"
    rows = [{"name": "dcgm", "version": "4.2-*", "held": True}, {"name": "mta"}]
    found = installed_packages.findings(machine.root, {"manager": "dnf", "packages": rows}, machine.run)
    assert [(one.where, one.found) for one in found] == [("package mta", "not installed")]


@pytest.mark.parametrize("name", ["dcgm:amd64", "dcgm/trixie-backports"])
def test_a_package_of_an_architecture_or_a_suite_is_found_by_its_name(machine: Machine, name: str) -> None:
    rows = [{"name": name, "version": "4.2"}]
    assert summary(installed_packages.findings(machine.root, {"manager": "apt", "packages": rows}, machine.run)) == []


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
