# SPDX-License-Identifier: GPL-3.0-or-later
"""Upgrades of a machine's packages: what apt and dnf offer, what stays, and the commands that install it."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import upgrades
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.upgrades import Upgrade
from ansible_collections.bedplate.cluster.plugins.modules import os_packages
from tests.kit.module import Module

# apt-get 2.6.1 and dnf 4.14.0.
APT = """\
Reading package lists... Done
Inst base-files [12.4+deb12u11] (12.4+deb12u15 Debian:12.15/oldstable [amd64])
Inst libgcrypt20-dev [1.10.1-3] (1.10.1-3+deb12u1 Debian:12.15/oldstable, Debian-Security:12/oldstable-security [amd64]) []
Inst linux-image-6.1.0-57-amd64 (6.1.140-1 Debian-Security:12/oldstable-security [amd64])
Inst linux-image-amd64 [6.1.137-1] (6.1.140-1 Debian-Security:12/oldstable-security [amd64])
Inst slurmd [22.05.8-4] (22.05.8-4+deb12u3 Debian:12.15/oldstable [amd64])
Conf base-files (12.4+deb12u15 Debian:12.15/oldstable [amd64])
"""
DNF = """\
Available Upgrades
bash.x86_64                 5.1.8-9.el9             baseos
kernel-core.x86_64          5.14.0-611.5.1.el9_7    baseos
slurm-slurmd.x86_64         25.05.4-1.el9           site
"""


# As dnf 4 wraps it (fmtColumns in dnf/cli/output.py).
WRAPPED = """\
Available Upgrades
bash.x86_64                 5.1.8-9.el9             baseos
python3-a-name-that-is-longer-than-its-column.noarch
                            1:2.3-4.el9             site
kernel-core.x86_64          5.14.0-611.5.1.el9_7.with.a.long.release
                                                    baseos
"""


class Manager:
    """A package manager that prints a text, and keeps the commands."""

    def __init__(self, text: str, code: int = 0) -> None:
        self.text, self.code, self.commands = text, code, list[list[str]]()

    def __call__(self, argv: Sequence[str]) -> Outcome:
        self.commands.append(list(argv))
        return Outcome(self.code, self.text, "E: Unable to locate package x\n" if self.code else "")


def test_apt_upgrades_what_is_not_held_and_not_slurms():
    manager = Manager(APT)
    found = upgrades.offered("apt", manager)
    assert [str(one) for one in found] == [
        "base-files 12.4+deb12u15",
        "libgcrypt20-dev 1.10.1-3+deb12u1",
        "linux-image-6.1.0-57-amd64 6.1.140-1",
        "linux-image-amd64 6.1.140-1",
    ]
    assert [one.is_kernel for one in found] == [False, False, True, True]
    upgrades.install("apt", found, manager)
    command = manager.commands[-1]
    # A new package comes as a dependency; nothing is removed, and no changed file of /etc is replaced.
    assert command[command.index("install") + 1 :] == [
        "base-files=12.4+deb12u15",
        "libgcrypt20-dev=1.10.1-3+deb12u1",
        "linux-image-amd64=6.1.140-1",
    ]
    assert {"--no-remove", "--only-upgrade", "Dpkg::Options::=--force-confold"} <= set(command)


def test_dnf_upgrades_what_is_not_locked_and_not_slurms():
    manager = Manager(DNF)
    found = upgrades.offered("dnf", manager)
    assert [(one.name, one.is_kernel) for one in found] == [("bash", False), ("kernel-core", True)]
    assert "--exclude=slurm*" in manager.commands[-1]
    upgrades.install("dnf", found, manager)
    assert manager.commands[-1][-3:] == ["upgrade", "bash", "kernel-core"]
    assert "--exclude=slurm*" in manager.commands[-1]


@pytest.mark.parametrize("name", ["slurmd", "slurm-slurmd", "libslurm42", "libpam-slurm", "libpam-slurm-adopt"])
def test_no_package_of_slurm_is_an_upgrade(name: str):
    apt, dnf = Manager(f"Inst {name} [24.11.1] (24.11.5 site [amd64])\n"), Manager(f"{name}.x86_64  24.11.5  site\n")
    assert upgrades.offered("apt", apt) == upgrades.offered("dnf", dnf) == []
    with pytest.raises(upgrades.UpgradeError, match=name):
        upgrades.refuse_own_upgrades("apt", [Upgrade("libfoo1", "1", "2")], apt)
    upgrades.install("dnf", [Upgrade("bash", "1", "2")], dnf)
    for command in dnf.commands:
        patterns = [word.removeprefix("--exclude=") for word in command if word.startswith("--exclude=")]
        assert any(fnmatchcase(name, pattern) for pattern in patterns)


def test_an_installation_has_no_questions_and_restarts_no_daemon(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NEEDRESTART_MODE", "a")
    found = upgrades.patient(["env"]).stdout.splitlines()
    assert {"DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_MODE=l", "NEEDRESTART_SUSPEND=1"} <= set(found)


@pytest.mark.parametrize(
    ("manager", "text", "only", "newer", "arguments"),
    [
        (
            "apt",
            APT,
            ["base-files 12.4+deb12u15", "linux-image-amd64 6.1.139-1"],
            ["libgcrypt20-dev 1.10.1-3+deb12u1", "linux-image-6.1.0-57-amd64 6.1.140-1", "linux-image-amd64 6.1.140-1"],
            [
                "install",
                "base-files=12.4+deb12u15",
                "libgcrypt20-dev=1.10.1-3",
                "linux-image-6.1.0-57-amd64-",
                "linux-image-amd64=6.1.137-1",
            ],
        ),
        (
            "dnf",
            DNF,
            ["bash 5.1.8-9.el9", "kernel-core 5.14.0-600.el9"],
            ["kernel-core 5.14.0-611.5.1.el9_7"],
            ["--exclude=kernel-core", "upgrade", "bash"],
        ),
    ],
)
def test_a_package_that_is_not_allowed_is_not_installed_as_a_dependency_either(
    manager: str, text: str, only: list[str], newer: list[str], arguments: list[str]
):
    run = Manager(text)
    allowed, others = upgrades.split(upgrades.offered(manager, run), only)
    assert ([str(one) for one in allowed], [str(one) for one in others]) == (only[:1], newer)
    upgrades.install(manager, allowed, run, others)
    assert run.commands[-1][-len(arguments) :] == arguments


def test_without_a_list_all_that_is_offered_is_installed():
    offer = upgrades.parsed_apt(APT)
    assert upgrades.split(offer, None) == (offer, [])
    assert upgrades.split(offer, []) == ([], offer)


def test_a_line_that_dnf_wraps_is_an_upgrade():
    assert [str(one) for one in upgrades.offered("dnf", Manager(WRAPPED))] == [
        "bash 5.1.8-9.el9",
        "python3-a-name-that-is-longer-than-its-column 1:2.3-4.el9",
        "kernel-core 5.14.0-611.5.1.el9_7.with.a.long.release",
    ]


def test_an_upgrade_that_needs_a_newer_slurm_is_refused():
    found = [Upgrade("libfoo1", "1", "2"), Upgrade("libfoo-data", "", "2")]
    manager = Manager("Inst libfoo1 [1] (2 site [amd64])\nInst slurmd [24.11.1] (24.11.5 site [amd64])\n")
    with pytest.raises(upgrades.UpgradeError, match=r"slurmd 24\.11\.5"):
        upgrades.refuse_own_upgrades("apt", found, manager)
    upgrades.install("apt", found, manager)
    simulated, real = manager.commands
    assert [word for word in simulated if word != "--simulate"] == real
    # A package that is not there yet has no version in the brackets.
    new = Manager("Inst libslurm42 (24.11.5 site [amd64])\n")
    with pytest.raises(upgrades.UpgradeError, match="libslurm42"):
        upgrades.refuse_own_upgrades("apt", found, new)


def test_upgrades_that_leave_slurm_alone_are_not_refused():
    manager = Manager("Inst libfoo1 [1] (2 site [amd64])\n")
    upgrades.refuse_own_upgrades("apt", [Upgrade("libfoo1", "1", "2")], manager)
    upgrades.refuse_own_upgrades("apt", [], manager)
    upgrades.refuse_own_upgrades("dnf", [Upgrade("bash", "1", "2")], manager)
    assert len(manager.commands) == 1


def test_the_note_for_a_reboot_is_there_before_a_kernel_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A run that is killed after the installation finds no upgrade the next time."""
    path = tmp_path / "packages"

    def killed(*_: object, **__: object) -> None:
        assert path.read_text() == "linux-image-6.1.0-57-amd64 6.1.140-1 boots next\n"
        raise KeyboardInterrupt

    kernel = Upgrade("linux-image-6.1.0-57-amd64", "", "6.1.140-1")
    monkeypatch.setattr(upgrades, "offered", lambda *_, **__: [Upgrade("bash", "1", "2"), kernel])
    monkeypatch.setattr(upgrades, "refuse_own_upgrades", lambda *_, **__: None)
    monkeypatch.setattr(upgrades, "install", killed)
    module = Module({"refresh": False, "only": None, "snapshot": None, "note": str(path)})
    monkeypatch.setattr(os_packages, "AnsibleModule", lambda **_: module)
    with pytest.raises(KeyboardInterrupt):
        os_packages.main()
    assert path.exists()


def test_dnf_removes_what_nothing_needs_and_no_repository_has_but_no_kernel_and_not_slurm():
    listed = {
        "--extras": "old-lib\nkernel-core\nslurm-libs\nmine\n",
        "--unneeded": "old-lib\nkernel-core\nslurm-libs\nof-the-snapshot\n",
    }
    found = upgrades.surplus("dnf", [], lambda argv: Outcome(0, listed[argv[-1]], ""))
    assert found == ["old-lib"]
    manager = Manager("")
    upgrades.remove("dnf", found, manager)
    # dnf would also remove what only the removed package needed, which the snapshot may have.
    assert manager.commands == [["dnf", "--assumeyes", "--quiet", "--noautoremove", "remove", "old-lib"]]


def test_apt_removes_no_kernel_and_no_package_of_slurm_and_nothing_that_a_repository_has():
    removed = "Remv old-lib [1]\nRemv linux-image-6.1.0-57-amd64 [6.1]\nRemv libslurm42 [24.11]\nRemv offered [1]\n"

    def run(argv: Sequence[str]) -> Outcome:
        if argv[0] == "apt-cache":
            return Outcome(0, " offered | 1 | http://m/s ./ Packages\n", "")
        return Outcome(0, removed, "")

    assert upgrades.surplus("apt", [], run) == ["old-lib"]


@pytest.mark.parametrize("manager", ["apt", "dnf"])
def test_a_manager_that_fails_is_an_error(manager: str):
    broken = Manager("", 100)
    for call in (
        lambda: upgrades.refresh(manager, broken),
        lambda: upgrades.offered(manager, broken),
        lambda: upgrades.install(manager, [Upgrade("bash", "1", "2")], broken),
    ):
        with pytest.raises(upgrades.UpgradeError, match="Unable to locate package x"):
            call()


def test_the_lists_are_read_first_and_a_missing_one_is_an_error():
    manager = Manager("")
    upgrades.refresh("apt", manager)
    upgrades.refresh("dnf", manager)
    assert manager.commands == [["apt-get", "--quiet", "--error-on=any", "update"], ["dnf", "--quiet", "makecache"]]
