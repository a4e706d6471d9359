"""Power limit, clocks, ECC and compute mode, read back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import gpu_drift
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.devices.gpu_users import GpuUsers
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu_settings import settings_drift, smi_settings
from tests.kit import sentences
from tests.unit.gpu.test_gpu_drift import WANTED as DRIVER
from tests.unit.gpu.tree import Tree
from tests.unit.gpu_settings.smi_machine import Card, Machine

SENTENCES = Path(__file__).parent / "sentences.txt"
WANTED = {
    "power_limit_watts": 600, "graphics_clock_max_mhz": 1800, "memory_clock_mhz": 2619, "ecc": True, "compute_mode": "default",
}  # fmt: skip
GOOD: dict[str, Any] = {"power": 600, "graphics": 345}


def found(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    wanted: dict[str, Any],
    *cards: Card,
    processes: Sequence[tuple[str, ...]] = (),
) -> list[Finding]:
    machine = Machine(root, *cards)
    monkeypatch.setattr(smi_settings, "run", machine.answer)
    for number, (name, *files) in enumerate(processes):
        machine.process(4321 + number, name, *files)
    findings = list(settings_drift.findings(wanted, smi_settings.run_nvidia_smi, GpuUsers(root)))
    assert machine.changes == []
    return findings


@pytest.mark.parametrize(
    ("name", "card", "kinds"),
    [
        ("as wanted", {}, []),
        # The driver takes the nearest clock that there is.
        ("a step above the lock", {"graphics": 1815}, []),
        ("the default power limit", {"power": 700}, ["gpu-power"]),
        ("a lower limit of the BMC", {"most": 500}, ["gpu-power"]),
        ("a clock above the lock", {"graphics": 1980}, ["gpu-clock"]),
        ("a memory clock above the lock", {"memory": 3201}, ["gpu-clock"]),
        ("another compute mode", {"mode": "Exclusive_Process"}, ["gpu-compute-mode"]),
        ("ECC off", {"ecc": "Disabled", "pending": "Disabled"}, ["gpu-ecc"]),
        ("ECC on after a reboot", {"ecc": "Disabled"}, ["gpu-ecc"]),
        ("ECC off after a reboot", {"pending": "Disabled"}, ["gpu-ecc"]),
        ("no ECC", {"ecc": "[N/A]", "pending": "[N/A]"}, ["gpu-ecc"]),
        ("a limit in force that is not known", {"unknown_enforced": True}, ["gpu-power"]),
        ("clocks that are not known", {"unknown_clocks": True}, ["gpu-clock", "gpu-clock"]),
        # A finding about the GPU itself.
        ("a lost GPU", {"lost": True}, []),
    ],
)  # fmt: skip
def test_settings_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, card: dict[str, Any], kinds: list[str]
) -> None:
    findings = found(tmp_path, monkeypatch, WANTED, Card("1b", **{**GOOD, **card}), Card("5e", **GOOD))
    assert [one.kind for one in findings] == kinds
    assert all(("0000:1b:00.0" in one.where, one.severity) == (True, ERROR) for one in findings)
    assert [one.reboot for one in findings if one.kind == "gpu-ecc"] in ([], [name == "ECC on after a reboot"])
    if findings:
        sentences.check(SENTENCES, f"settings: {name}", findings)


@pytest.mark.parametrize(
    ("process", "card", "severities"),
    [
        (("slurmstepd",), {"power": 700}, [("gpu-power", WARNING)]),
        # The minors of the machine are in the opposite order of the addresses.
        (("python", "/dev/nvidia1"), {"power": 700, "mode": "Exclusive_Process"}, [("gpu-power", WARNING), ("gpu-compute-mode", WARNING)]),
        (("python", "/dev/nvidia0"), {"power": 700}, [("gpu-power", ERROR)]),
        (("nvidia-persiste", "/dev/nvidia1"), {"power": 700}, [("gpu-power", ERROR)]),
        # No run mends these.
        (("slurmstepd",), {"most": 500}, [("gpu-power", ERROR)]),
        (("slurmstepd",), {"ecc": "Disabled"}, [("gpu-ecc", ERROR)]),
        (("conmon", "/dev/nvidia1"), {"most": 500, "mode": "Prohibited"}, [("gpu-power", ERROR), ("gpu-compute-mode", WARNING)]),
        (("slurmstepd",), {}, []),
    ],
)  # fmt: skip
def test_a_setting_that_a_job_holds_back_is_a_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    process: tuple[str, ...],
    card: dict[str, Any],
    severities: list[tuple[str, str]],
) -> None:
    cards = (Card("1b", **{**GOOD, **card}), Card("5e", **GOOD))
    findings = found(tmp_path, monkeypatch, WANTED, *cards, processes=[process])
    assert [(one.kind, one.severity) for one in findings] == severities
    held = [one for one in findings if one.severity == WARNING]
    assert all(f"{process[0]} (4321)" in one.remedy for one in held)
    if held:
        sentences.check(SENTENCES, f"settings: held back by {process[0]}", findings)


def test_only_stated_settings_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        found(tmp_path, monkeypatch, {"power_limit_watts": 600}, Card("1b", power=600, ecc="Disabled", mode="x")) == []
    )


def test_an_nvidia_smi_that_fails_is_a_finding(tmp_path: Path) -> None:
    def fails(arguments: object) -> str:
        raise smi_settings.SettingsError("nvidia-smi ended with 9")

    (finding,) = settings_drift.findings({"ecc": True}, fails, GpuUsers(tmp_path))
    assert (finding.kind, finding.found) == ("gpu-settings", "nvidia-smi ended with 9")
    # Without settings nothing runs.
    assert list(settings_drift.findings({}, fails, GpuUsers(tmp_path))) == []


@pytest.mark.parametrize(("loaded", "kinds"), [(True, ["gpu-power"]), (False, [])])
def test_verify_compares_them_where_the_driver_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded: bool, kinds: list[str]
) -> None:
    tree = Tree(tmp_path / "root")
    if loaded:
        tree.driver()
    tree.pci("0000:1b:00.0", driver=None)
    machine = Machine(tmp_path, Card("1b"))
    machine.process(4321, "slurmstepd")
    monkeypatch.setattr(smi_settings, "run", machine.answer)
    wanted = {**DRIVER, "signed": False, "mig": [], "module": {}, "gpu_settings": {"power_limit_watts": 600}}
    findings = list(gpu_drift._compared(wanted, tree.facts(), gpu_drift._Boots(), str(tmp_path)))
    # The job is found below the root that is compared.
    assert [(one.kind, one.severity) for one in findings] == [(kind, WARNING) for kind in kinds]
