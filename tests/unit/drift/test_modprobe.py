"""Kernel modules that must not be loaded: blacklisted, and loaded by nothing at boot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.drift import modprobe

from .machine import Machine

EXPECTED: dict[str, Any] = {"blacklisted": ["nouveau"], "role": "gpu_driver"}
FILE = "etc/modprobe.d/bedplate-gpu-driver.conf"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    one = Machine(tmp_path)
    one.put(FILE, "# nouveau would take the GPUs first.\nblacklist nouveau\noptions nouveau modeset=0\n")
    one.put("proc/cmdline", "root=/dev/vda1 quiet\n")
    return one


def rows(machine: Machine, expected: dict[str, Any] = EXPECTED) -> list[tuple[str, str, str]]:
    found = modprobe.findings(machine.root, expected, machine.run)
    return [(one.found, one.overridden_by, one.remedy) for one in found]


def test_a_blacklist_in_force_has_no_finding(machine: Machine) -> None:
    assert rows(machine) == []


def test_a_blacklist_that_is_out_of_the_files_is_named_with_the_playbook_that_writes_it(machine: Machine) -> None:
    machine.put(FILE, "#blacklist nouveau\n")
    assert rows(machine) == [("loadable", "", "run playbooks/gpu.yml again")]


def test_a_blacklist_that_modprobe_does_not_show_is_not_in_force(machine: Machine) -> None:
    machine.answers["modprobe"] = lambda _command: "options nouveau modeset=0\nblacklist pcspkr\n"
    assert [found for found, _by, _remedy in rows(machine)] == ["loadable"]
    machine.answers["modprobe"] = lambda _command: "blacklist nouveau\n"
    assert rows(machine) == []


def test_the_kernels_own_blacklist_counts_though_modprobe_does_not_show_it(machine: Machine) -> None:
    machine.put(FILE, "")
    machine.put("proc/cmdline", "quiet module_blacklist=pcspkr,nouveau\n")
    machine.answers["modprobe"] = lambda _command: "blacklist pcspkr\n"
    assert rows(machine) == []


@pytest.mark.parametrize(
    ("path", "text", "place"),
    [
        ("proc/cmdline", "quiet rd.driver.pre=drm,nouveau\n", "/proc/cmdline: rd.driver.pre=drm,nouveau"),
        ("etc/initramfs-tools/modules", "# site\nnouveau modeset=1\n", "/etc/initramfs-tools/modules:2"),
        ("etc/dracut.conf.d/site.conf", 'force_drivers+=" drm nouveau "\n', "/etc/dracut.conf.d/site.conf:1"),
    ],
)
def test_what_an_initramfs_loads_by_name_is_not_kept_out(machine: Machine, path: str, text: str, place: str) -> None:
    machine.put(path, text)
    (row,) = rows(machine)
    assert row[:2] == ("loaded at boot", place)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("etc/modules-load.d/site.conf", "nouveau\n"),
        ("etc/initramfs-tools/modules", "#nouveau\n"),
        ("etc/dracut.conf.d/site.conf", '#force_drivers+=" nouveau "\nadd_drivers+=" nouveau "\n'),
    ],
)
def test_what_heeds_the_blacklist_is_no_finding(machine: Machine, path: str, text: str) -> None:
    machine.put(path, text)
    assert rows(machine) == []


@pytest.mark.parametrize("outcome", [Outcome(1, "blacklist pcspkr\n", "no"), Outcome(0, "\n", "")])
def test_a_modprobe_that_shows_nothing_leaves_the_files_to_speak(machine: Machine, outcome: Outcome) -> None:
    assert list(modprobe.findings(machine.root, EXPECTED, lambda _command: outcome)) == []
    machine.put(FILE, "")
    found = modprobe.findings(machine.root, EXPECTED, lambda _command: outcome)
    assert [one.found for one in found] == ["loadable"]


WANTED = {"modules": ["ib-uverbs"], "role": "rdma"}
SITE = "etc/modprobe.d/site.conf"


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        (SITE, "blacklist ib_uverbs\n", ("blacklisted", f"/{SITE}:1")),
        (SITE, "\ninstall ib_uverbs /bin/true\n", ("replaced by /bin/true", f"/{SITE}:2")),
        (SITE, "alias ib-uverbs off\n", ("alias off", f"/{SITE}:1")),
        (
            "proc/cmdline",
            "modprobe.blacklist=ib_uverbs\n",
            ("blacklisted", "/proc/cmdline: modprobe.blacklist=ib_uverbs"),
        ),
    ],
)
def test_what_keeps_a_wanted_module_out_is_named(
    machine: Machine, path: str, text: str, found: tuple[str, str]
) -> None:
    machine.put(path, text)
    assert [row[:2] for row in rows(machine, WANTED)] == [found]


@pytest.mark.parametrize(
    "text",
    [
        "install ib_uverbs /sbin/modprobe --ignore-install ib_uverbs\n",
        "alias ib_uverbs other\n",
        "options ib_uverbs x=1\n",
    ],
)
def test_what_loads_a_wanted_module_in_another_way_is_no_finding(machine: Machine, text: str) -> None:
    machine.put(SITE, text)
    assert rows(machine, WANTED) == []


def test_of_files_of_one_name_the_first_directory_counts(machine: Machine) -> None:
    machine.put("usr/lib/modprobe.d/site.conf", "blacklist ib_uverbs\n")
    assert [row[1] for row in rows(machine, WANTED)] == ["/usr/lib/modprobe.d/site.conf:1"]
    machine.put(SITE, "# not here\n")
    assert rows(machine, WANTED) == []


def test_a_continued_line_does_not_shift_the_numbers_of_those_after_it(machine: Machine) -> None:
    machine.put(SITE, "install other /bin/sh -c \\\n  true\nblacklist ib_uverbs\n")
    assert [row[1] for row in rows(machine, WANTED)] == [f"/{SITE}:3"]
    machine.put(SITE, "install \\\n  ib_uverbs /bin/true")
    assert [row[:2] for row in rows(machine, WANTED)] == [("replaced by /bin/true", f"/{SITE}:1")]
