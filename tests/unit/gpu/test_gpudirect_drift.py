"""The kernel modules of GPUDirect read back: on disk, built with the installed driver, in memory, and their devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import gpudirect_drift
from tests.kit import sentences
from tests.unit.gpu.driver.test_dkms_rebuild import KERNEL, Machine

SENTENCES = Path(__file__).parent / "sentences.txt"
WANTED = {
    "modules": {"nvidia-peermem": "nvidia_peermem", "gdrdrv": "gdrdrv"},
    "devices": ["/dev/gdrdrv"],
    "dkms": ["gdrdrv"],
}


class Node(Machine):
    """A machine whose modinfo finds some modules."""

    def __init__(self, root: Path, *modules: str) -> None:
        super().__init__(root)
        self.modules = modules
        self.sources("nvidia", "580.126.09")
        self.built("nvidia", "580.126.09", 1000)
        self.sources("gdrdrv", "2.5.1")
        self.built("gdrdrv", "2.5.1", 1001)

    def ask(self, argv: list[str]) -> Outcome:
        if argv[0] == "modinfo":
            assert argv[:-1] == ["modinfo", "--set-version", KERNEL, "--field", "filename"]
            return Outcome(0 if argv[-1] in self.modules else 1, "", "")
        return self.run(argv, 0)

    def findings(self) -> list[Any]:
        return list(gpudirect_drift.on_disk(WANTED, KERNEL, self.ask, self.root))


def test_modules_for_the_next_boot_are_found(tmp_path: Path) -> None:
    assert Node(tmp_path, *WANTED["modules"]).findings() == []
    assert list(gpudirect_drift.on_disk({}, KERNEL, lambda argv: pytest.fail("asked"), tmp_path)) == []


def test_a_module_that_is_missing_or_stale_is_a_finding(tmp_path: Path) -> None:
    node = Node(tmp_path, "nvidia-peermem")
    (missing,) = node.findings()
    assert (missing.kind, missing.where) == ("module", f"module gdrdrv for kernel {KERNEL}")
    node.modules = tuple(WANTED["modules"])
    node.sources("nvidia", "590.48.01")
    node.built("nvidia", "590.48.01", 2000)
    (stale,) = node.findings()
    assert (stale.kind, stale.where) == ("gpudirect", f"module gdrdrv 2.5.1 for kernel {KERNEL}")
    node.code = 1
    (unknown,) = node.findings()
    assert unknown.kind == "gpudirect"
    sentences.check(SENTENCES, "modules of GPUDirect on disk", [missing, stale, unknown])


@pytest.mark.parametrize(
    ("gpus", "version", "there", "kinds"),
    [
        (8, "580.126.09", True, []),
        (8, "580.126.09", False, ["module-loaded", "module-loaded", "gpudirect"]),
        # A node that awaits its reboot, and one without GPUs.
        (8, None, False, []),
        (0, "580.126.09", False, []),
    ],
)
def test_modules_and_devices_are_read_back(
    tmp_path: Path, gpus: int, version: str | None, there: bool, kinds: list[str]
) -> None:
    if there:
        for name in WANTED["modules"].values():
            (tmp_path / "sys/module" / name).mkdir(parents=True)
        (tmp_path / "dev").mkdir()
        (tmp_path / "dev/gdrdrv").symlink_to("/dev/null")
    gpu = {"gpus": [{}] * gpus, "driver": {"version": version}}
    found = list(gpudirect_drift.loaded(WANTED, gpu, tmp_path))
    assert [one.kind for one in found] == kinds
    if found:
        sentences.check(SENTENCES, "modules of GPUDirect that are not loaded", found)
