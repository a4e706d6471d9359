"""What verify says of packages and sources beside the machine's snapshot, by the output of apt and dnf."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.drift import snapshot_packages

BASE = "http://10.0.0.1/snapshots/2026-11-26/debian-13"
APT = {
    "manager": "apt",
    "name": "2026-11-26",
    "urls": {kind: f"{BASE}/{kind}" for kind in ("system", "security")},
    "base": "http://10.0.0.1/snapshots/",
}
DNF = {**APT, "manager": "dnf"}


class Machine:
    """Installed packages and what repositories have, as dpkg, apt and dnf print them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.installed, self.offered = folder, dict[str, str](), dict[str, dict[str, list[str]]]()
        self.broken, self.held = "", list[str]()
        self.repositories = ["bedplate-snapshot-system", "bedplate-snapshot-security"]

    def put(self, name: str, version: str, **offered: str) -> None:
        """Install a package; `offered` is kind -> version, of which `elsewhere` is no repository of the snapshot."""
        self.installed[name] = version
        rows = self.offered.setdefault(name, {})
        for kind, one in offered.items():
            rows.setdefault(one, []).append(kind)

    def source(self, text: str) -> None:
        path = self.folder / "etc/apt/sources.list.d/a.list"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, argv: Sequence[str]) -> Outcome:
        words = list(argv)
        if self.broken and words[0] == self.broken:
            return Outcome(1, "", "it is broken")
        if words[0] == "dpkg-query":
            want = {True: "hold", False: "install"}
            rows = [f"{want[name in self.held]} installed {name} {version}" for name, version in self.installed.items()]
            return Outcome(0, "\n".join([*rows, "deinstall config-files old 1"]), "")
        if words[0] == "apt-cache":
            return Outcome(0, "".join(map(self._policy, words[2:])), "")
        if words[:2] == ["dpkg", "--print-architecture"]:
            return Outcome(0, "amd64\n", "")
        if words[:2] == ["dpkg", "--compare-versions"]:
            return Outcome(0 if float(words[2]) < float(words[4]) else 1, "", "")
        if "repolist" in words:
            return Outcome(0, "\n".join(["repo id  repo name", *(f"{one}  x" for one in self.repositories)]), "")
        if "--installed" in words:
            return Outcome(0, "".join(f"{name}\t{version}\t@System\n" for name, version in self.installed.items()), "")
        rows = [
            (name, one, kind) for name, found in self.offered.items() for one, kinds in found.items() for kind in kinds
        ]
        if "--upgrades" in words:
            rows = [row for row in rows if row[1] == max(self.offered[row[0]]) > self.installed[row[0]]]
        return Outcome(0, "".join(f"{name}\t{one}\tbedplate-snapshot-{kind}\n" for name, one, kind in sorted(rows)), "")

    def _policy(self, name: str) -> str:
        versions = {**self.offered.get(name, {})}
        candidate = max(versions, default="(none)")
        versions.setdefault(self.installed[name], [])
        text = f"{name.removesuffix(':amd64')}:\n  Installed: {self.installed[name]}\n  Candidate: {candidate}\n  Version table:\n"
        for version in sorted(versions, reverse=True):
            mark = "***" if version == self.installed[name] else "   "
            text += f" {mark} {version} 1001\n"
            for kind in versions[version]:
                place = f"{BASE}/{kind}" if kind in APT["urls"] else "http://deb.debian.org/debian trixie/main amd64"
                text += f"       1001 {place} ./ Packages\n"
            if mark == "***":
                text += "        100 /var/lib/dpkg/status\n"
        return text

    def read(self, expected: dict[str, Any] | None = None) -> list[Finding]:
        return list(snapshot_packages.findings(Root(str(self.folder)), expected or APT, self.run))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path)
    found.put("zip", "2", system="2")
    found.put("bash", "5", system="4", security="5")
    # As dpkg names packages of which several architectures may be installed.
    found.put("libc6:amd64", "2", system="2")
    found.put("libc6:i386", "2", system="2")
    found.source(f"deb {BASE}/system ./\ndeb {BASE}/security ./\n")
    return found


@pytest.mark.parametrize("expected", [APT, DNF], ids=["apt", "dnf"])
def test_packages_of_the_snapshot_are_silent(machine: Machine, expected: dict[str, Any]) -> None:
    assert machine.read(expected) == []


@pytest.mark.parametrize("expected", [APT, DNF], ids=["apt", "dnf"])
def test_what_waits_is_one_warning_with_its_security_updates(machine: Machine, expected: dict[str, Any]) -> None:
    machine.put("tar", "1", system="2")
    machine.put("sed", "1", system="1.5", security="2")
    (found,) = machine.read(expected)
    assert (found.kind, found.severity) == ("packages-pending", "warning")
    assert "2 wait, security updates among them: 1 (sed)" in found.found
    assert "tar 1 -> 2" in found.found


def test_slurm_waits_for_its_own_playbook(machine: Machine) -> None:
    machine.put("slurmd", "1", system="2")
    (found,) = machine.read()
    assert (found.kind, found.severity) == ("slurm-pending", "warning")
    assert "upgrade_slurm.yml" in found.remedy


@pytest.mark.parametrize("expected", [APT, DNF], ids=["apt", "dnf"])
@pytest.mark.parametrize("offered", [{}, {"system": "2"}], ids=["unknown", "newer than the snapshot's"])
def test_a_package_from_outside_is_an_error(
    machine: Machine, expected: dict[str, Any], offered: dict[str, str]
) -> None:
    machine.put("own", "3", **offered)
    (found,) = machine.read(expected)
    assert (found.kind, found.where, found.found, found.severity) == ("package-outside", "package own", "3", "error")


def test_another_repository_that_has_the_package_does_not_count(machine: Machine) -> None:
    machine.put("own", "3", elsewhere="3")
    (found,) = machine.read()
    assert (found.kind, found.where) == ("package-outside", "package own")


def test_a_source_of_others_is_an_error(machine: Machine) -> None:
    machine.source(
        f"deb {BASE}/system ./\n# deb http://a.example.org x main\ndeb http://deb.debian.org/debian trixie main\n"
    )
    (found,) = machine.read()
    assert (found.kind, found.overridden_by) == ("source-outside", "/etc/apt/sources.list.d/a.list:3")


def test_a_source_whose_address_only_begins_alike_is_an_error(machine: Machine) -> None:
    machine.source(f"deb {BASE}/system-of-mine ./\n")
    assert [one.kind for one in machine.read()] == ["source-outside"]


def test_a_repository_of_dnf_that_is_not_of_the_snapshot_is_an_error(machine: Machine) -> None:
    machine.repositories.append("epel")
    (found,) = machine.read(DNF)
    assert (found.kind, found.found) == ("source-outside", "epel is enabled")


@pytest.mark.parametrize(("program", "expected"), [("dpkg-query", APT), ("apt-cache", APT), ("dnf", DNF)])
def test_packages_that_cannot_be_read_are_an_error(machine: Machine, program: str, expected: dict[str, Any]) -> None:
    machine.broken = program
    (found,) = machine.read(expected)
    assert (found.kind, found.severity) == ("unread", "error")


def test_another_build_of_the_same_version_is_not_that_of_the_snapshot() -> None:
    text = (
        "zip:\n  Installed: 3.0-1\n  Candidate: 3.0-1\n  Version table:\n *** 3.0-1 100\n        100 /var/lib/dpkg/status\n"
        f"     3.0-1 1001\n       1001 {BASE}/system ./ Packages\n"
    )
    assert snapshot_packages.parsed_policy(text, APT["urls"]) == {
        "zip": ("3.0-1", {"3.0-1 of another build": ["system"]})
    }  # type: ignore[arg-type]


@pytest.mark.parametrize("expected", [APT, DNF], ids=["apt", "dnf"])
def test_an_older_version_that_the_snapshot_has_as_well_waits_too(machine: Machine, expected: dict[str, Any]) -> None:
    machine.put("zip", "1", system="1")
    (found,) = machine.read(expected)
    assert (found.kind, "zip 1 -> 2" in found.found) == ("packages-pending", True)


def test_a_held_package_in_a_version_of_the_snapshot_is_silent(machine: Machine) -> None:
    machine.put("zip", "1", system="1")
    machine.held.append("zip")
    assert machine.read() == []
    machine.put("tar", "1", system="2")
    machine.held.append("tar")
    assert [one.kind for one in machine.read()] == ["packages-pending"]


def test_a_machine_with_the_sources_of_another_snapshot_waits_for_the_new_one(machine: Machine) -> None:
    machine.source(f"deb {BASE}/system ./\ndeb {BASE}/security ./\n")
    expected = {
        **APT,
        "name": "2026-12-01",
        "urls": {kind: url.replace("2026-11-26", "2026-12-01") for kind, url in APT["urls"].items()},
    }  # type: ignore[attr-defined]
    (found,) = machine.read(expected)
    assert (found.kind, found.severity, found.found) == (
        "snapshot-pending",
        "warning",
        "sources of snapshot 2026-11-26",
    )
    machine.put("own", "3")
    assert [one.kind for one in machine.read(expected)] == ["snapshot-pending", "package-outside"]


def test_a_machine_with_dnf_waits_as_well(machine: Machine) -> None:
    path = machine.folder / "etc/yum.repos.d/bedplate-snapshot-system.repo"
    path.parent.mkdir(parents=True)
    path.write_text(f"[bedplate-snapshot-system]\nbaseurl={BASE.replace('2026-11-26', '2026-11-20')}/system\n")
    assert [one.kind for one in machine.read(DNF)] == ["snapshot-pending"]
