"""Kernel modules that must not be loaded: blacklisted, and loaded by nothing at boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.state import modprobe

from .machine import Machine

EXPECTED = {"blacklisted": ["nouveau"], "role": "gpu_driver"}
FILE = "etc/modprobe.d/bedplate-gpu-driver.conf"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    one = Machine(tmp_path)
    one.put(FILE, "# nouveau would take the GPUs first.\nblacklist nouveau\noptions nouveau modeset=0\n")
    one.put("proc/cmdline", "root=/dev/vda1 quiet\n")
    return one


def rows(machine: Machine) -> list[tuple[str, str, str]]:
    found = modprobe.findings(machine.root, EXPECTED, machine.run)
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
