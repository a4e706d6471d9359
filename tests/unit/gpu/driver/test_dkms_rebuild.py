"""Modules that are built against the driver are built again after it has changed, which DKMS does not do."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver import dkms_rebuild
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_build import DkmsError
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
KERNEL = "6.8.0-90-generic"
NAMES = ["nvidia-fs", "gdrdrv"]


class Machine:
    """A machine with DKMS: modules with their sources, and what is built for a kernel at which second."""

    def __init__(self, root: Path) -> None:
        self.root, self.lines, self.calls = root, list[str](), list[list[str]]()
        self.code = 0
        (root / f"lib/modules/{KERNEL}/build").mkdir(parents=True)

    def sources(self, name: str, version: str, built: str = "") -> None:
        folder = self.root / f"usr/src/{name}-{version}"
        folder.mkdir(parents=True)
        text = f'PACKAGE_NAME="{name}"\nPACKAGE_VERSION="{version}"\nBUILT_MODULE_NAME[0]="{built or name}"\n'
        (folder / "dkms.conf").write_text(text)

    def built(self, name: str, version: str, second: int, kernel: str = KERNEL) -> None:
        self.lines.append(f"{name}/{version}, {kernel}, {platform.machine()}: installed")
        file = self.root / f"var/lib/dkms/{name}/{version}/{kernel}/{platform.machine()}/module/{name}.ko.xz"
        file.parent.mkdir(parents=True)
        file.touch()
        os.utime(file, (second, second))

    def run(self, argv: list[str], timeout: float) -> Outcome:
        self.calls.append(argv)
        if argv[:2] == ["dkms", "status"]:
            return Outcome(self.code, "\n".join(self.lines), "")
        return Outcome(self.code, "", "nvfs-core.c:1:1: error: no such thing")

    def stale(self) -> list[tuple[str, str]]:
        found = dkms_rebuild.stale(NAMES, self.run, self.root)
        return [(module.name, kernel) for module, kernel in found]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.sources("nvidia", "580.126.09")
    made.built("nvidia", "580.126.09", 1000)
    made.sources("nvidia-fs", "2.26.6")
    return made


@pytest.mark.parametrize(("second", "stale"), [(1001, []), (999, [("nvidia-fs", KERNEL)])])
def test_a_build_that_is_older_than_the_drivers_is_stale(
    machine: Machine, second: int, stale: list[tuple[str, str]]
) -> None:
    machine.built("nvidia-fs", "2.26.6", second)
    assert machine.stale() == stale


def test_a_missing_build_is_made_for_each_kernel_that_has_the_driver_and_headers(machine: Machine) -> None:
    for kernel in ("6.8.0-100-generic", "5.15.0-1-generic"):
        machine.built("nvidia", "580.126.09", 1000, kernel)
    (machine.root / "lib/modules/6.8.0-100-generic/build").mkdir(parents=True)
    # A module that others need is not ours, and one that is not installed has no sources.
    machine.sources("lustre", "2.15")
    assert sorted(machine.stale()) == [("nvidia-fs", "6.8.0-100-generic"), ("nvidia-fs", KERNEL)]


def test_without_a_driver_nothing_is_stale(tmp_path: Path) -> None:
    made = Machine(tmp_path)
    made.sources("nvidia-fs", "2.26.6")
    assert made.stale() == []


def test_it_is_built_and_installed_by_force(machine: Machine) -> None:
    ((module, kernel),) = dkms_rebuild.stale(NAMES, machine.run, machine.root)
    dkms_rebuild.rebuild(module, kernel, machine.run)
    options = ["--force", "-m", "nvidia-fs", "-v", "2.26.6", "-k", KERNEL]
    assert machine.calls[1:] == [["dkms", "build", *options], ["dkms", "install", *options]]


def test_what_does_not_compile_is_an_error(machine: Machine) -> None:
    ((module, kernel),) = dkms_rebuild.stale(NAMES, machine.run, machine.root)
    machine.code = 10
    with pytest.raises(DkmsError, match=r"(?s)nvidia-fs 2\.26\.6 .*no such thing.*gpu_stack\.gpudirect") as caught:
        dkms_rebuild.rebuild(module, kernel, machine.run)
    assert machine.calls[-1][1] == "build"
    sentences.check(SENTENCES, "a module that is not built with the new driver", str(caught.value).splitlines())
    with pytest.raises(DkmsError, match="dkms status"):
        machine.stale()


@pytest.mark.parametrize(("driver", "names"), [("580.126.09", []), ("590.48.01", ["nvidia-fs"])])
def test_check_mode_predicts_it_for_another_driver(machine: Machine, driver: str, names: list[str]) -> None:
    machine.built("nvidia-fs", "2.26.6", 1001)
    assert dkms_rebuild.replaced(NAMES, driver, machine.root) == names
