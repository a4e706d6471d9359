"""What verify tells of a machine whose GPU software is not as it was wanted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import gpu_software_drift
from tests.kit import sentences

SENTENCES = Path(__file__).parent / "sentences.txt"

WANTED = {"libcuda1": "1.2-*", "kernel-dkms": "1.2-3"}
PINNED = {"libextra": "1.2-3"}
PARAMETERS = {"EnableGpuFirmware": 18, "EnableMSI": 1, "RegistryDwords": "a=1;b=2", "Max": 4294967295}
DRIVER = {"version": "1.2", "flavour": "open"}
SEEN = gpu_software_drift.InstalledState(
    packages={"libcuda1": ["1.2-9"], "kernel-dkms": ["1.2-3"]},
    held=frozenset(WANTED),
    kernel="6.1",
    module="1.2",
    units={"x.service": {"UnitFileState": "enabled", "ActiveState": "inactive"}},
)


def gpu(
    version: str | None = "1.2", flavour: str = "open", mismatch: bool = False, nouveau: bool = False, gpus: int = 1
) -> Any:
    libraries = [{"version": "9.9" if mismatch else "1.2"}]
    loaded = {
        "version": version,
        "flavour": flavour,
        "mismatch": mismatch,
        "libraries": libraries,
        "parameters": PARAMETERS,
    }
    return {"gpus": [{}] * gpus, "driver": loaded, "nouveau": nouveau, "running_kernel": "6.1"}


def test_a_machine_that_is_as_wanted_has_no_findings() -> None:
    assert list(gpu_software_drift.packages(WANTED, PINNED, SEEN, "r")) == []
    assert list(gpu_software_drift.module({"file": "n.ko", "version": "1.2"}, SEEN)) == []
    assert list(gpu_software_drift.units(["x.service"], False, SEEN)) == []
    assert list(gpu_software_drift.driver(DRIVER, gpu())) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"packages": {"kernel-dkms": ["1.2-3"]}}, ("package", "libcuda1", "1.2-*", "not installed")),
        ({"packages": {**SEEN.packages, "libcuda1": ["1.3-1"]}}, ("package", "libcuda1", "1.2-*", "1.3-1")),
        # Of another architecture, which the same library has on a machine with both.
        ({"packages": {**SEEN.packages, "libcuda1": ["1.2-9", "1.1-1"]}}, ("package", "libcuda1", "1.2-*", "1.1-1")),
        ({"packages": {**SEEN.packages, "libextra": ["1.3-1"]}}, ("package", "libextra", "1.2-3", "1.3-1")),
        ({"held": frozenset(["libcuda1"])}, ("hold", "kernel-dkms", "held", "not held")),
        # There for others only, but of this set as well.
        ({"packages": {**SEEN.packages, "libextra": ["1.2-3"]}}, ("hold", "libextra", "held", "not held")),
    ],
)
def test_each_difference_of_packages_is_told(change: dict[str, Any], told: tuple[str, ...]) -> None:
    (finding,) = gpu_software_drift.packages(WANTED, PINNED, replace(SEEN, **change), "r")
    found = finding.found.partition(",")[0]
    assert (finding.kind, finding.where.removeprefix("package "), finding.expected, found) == told
    if told[1] == "kernel-dkms" or told[3] == "not installed":
        sentences.check(SENTENCES, f"a package that differs: {told[0]}", [finding])


def test_what_is_left_of_another_branch_is_told() -> None:
    there = {
        "libnvidia-compute-570": ["570.124.06-0ubuntu1"],
        "libnvidia-compute": ["590.48.01-1ubuntu1"],
        # Empty ones that lead to the new names, and what is stated in a version of its own.
        "nvidia-dkms-580": ["590.48.01-1ubuntu1"],
        "nvidia-modprobe": ["595.1-1"],
        "nvidia-utils-580-server": ["590.48.01-1ubuntu1", "580.173.02-1"],
    }
    names = [
        "libnvidia-compute",
        "libnvidia-compute-[0-9]*",
        "nvidia-dkms-[0-9]*",
        "nvidia-modprobe",
        "nvidia-utils-[0-9]*-server",
    ]
    seen = replace(SEEN, packages=there)
    found = list(
        gpu_software_drift.leftovers(
            names, "590.48.01", ["libnvidia-compute", "nvidia-modprobe"], seen, "apt-get purge"
        )
    )
    assert [one.where for one in found] == ["package libnvidia-compute-570", "package nvidia-utils-580-server"]
    assert (found[0].kind, found[0].found) == ("package", "570.124.06-0ubuntu1")
    assert "590.48.01" in found[0].expected
    assert "apt-get purge libnvidia-compute-570" in found[0].remedy
    sentences.check(SENTENCES, "packages of another branch", found)
    epoch = replace(SEEN, packages={"libnvsdm-570": ["0:570.1-1"], "nvidia-imex-570": ["3:590.48.01-1"]})
    assert [
        one.where for one in gpu_software_drift.leftovers(["lib*", "nvidia-imex-*"], "590.48.01", [], epoch, "x")
    ] == ["package libnvsdm-570"]


def test_packages_of_a_pattern_are_to_be_held_whatever_they_are_called() -> None:
    kernels = {"linux-image-[!0-9]*": "*", "linux-image-amd64": "6.1-1"}
    there = {"linux-image-cloud-amd64": ["6.1-1"], "linux-image-amd64": ["6.1-1"], "linux-image-6.1-amd64": ["6.1-1"]}
    seen = replace(SEEN, packages=there, held=frozenset(["linux-image-amd64"]))
    (finding,) = gpu_software_drift.packages({}, kernels, seen, "r")
    assert (finding.kind, finding.where) == ("hold", "package linux-image-cloud-amd64")


@pytest.mark.parametrize(("module", "found"), [("", "none"), ("1.1", "1.1")])
def test_a_module_that_would_not_load_after_a_reboot_is_told(module: str, found: str) -> None:
    (finding,) = gpu_software_drift.module({"file": "n.ko", "version": "1.2"}, replace(SEEN, module=module))
    assert (finding.where, finding.found) == ("module n.ko for kernel 6.1", found)
    assert "/build/make.log" in finding.remedy
    if module:
        sentences.check(SENTENCES, "a module that would not load after a reboot", [finding])


@pytest.mark.parametrize(
    ("unit", "runs", "found"),
    [
        ({}, False, "no such unit"),
        ({"UnitFileState": "disabled", "ActiveState": "active"}, True, "disabled"),
        ({"UnitFileState": "enabled", "ActiveState": "failed"}, True, "failed"),
    ],
)
def test_a_service_that_is_off_is_told(unit: dict[str, str], runs: bool, found: str) -> None:
    (finding,) = gpu_software_drift.units(["x.service"], runs, replace(SEEN, units={"x.service": unit}))
    assert finding.found == found


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (gpu(None), ("driver", "1.2 (open)", "none loaded")),
        (gpu("1.1"), ("driver", "1.2 (open)", "1.1 (open)")),
        (gpu(flavour="proprietary"), ("driver", "1.2 (open)", "1.2 (proprietary)")),
        (gpu(mismatch=True), ("driver-libraries", "1.2", "9.9")),
        (gpu(nouveau=True), ("nouveau", "not loaded", "loaded")),
    ],
)
def test_a_driver_that_runs_and_is_not_the_one_is_told(facts: Any, told: tuple[str, ...]) -> None:
    (finding,) = gpu_software_drift.driver(DRIVER, facts)
    assert (finding.kind, finding.expected, finding.found) == told
    assert finding.reboot
    if "(" not in finding.found:
        sentences.check(SENTENCES, f"the driver that runs: {finding.kind}", [finding])


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (
            {"options": {"NVreg_EnableGpuFirmware": "0x12", "NVreg_RegistryDwords": '"a=1;b=2"', "NVreg_Max": "-1"}},
            None,
        ),
        # Of a module that is not this one, or that this driver has no more.
        ({"options": {"NVreg_Gone": "1"}}, None),
        ({"options": {"NVreg_EnableMSI": "0"}}, ("module-option", "module option NVreg_EnableMSI", "0", "1")),
        (
            {"options": {"NVreg_RegistryDwords": "a=2"}},
            ("module-option", "module option NVreg_RegistryDwords", "a=2", "a=1;b=2"),
        ),
        ({"kernel": "6.1"}, None),
        ({"kernel": "6.2"}, ("running-kernel", "running kernel", "6.2", "6.1")),
    ],
)
def test_options_and_a_stated_kernel_that_are_not_in_force_are_told(
    wanted: dict[str, Any], told: tuple[str, ...] | None
) -> None:
    found = list(gpu_software_drift.driver({**DRIVER, **wanted}, gpu()))
    assert [(one.kind, one.where, one.expected, one.found) for one in found] == [told] * bool(told)
    assert all(one.reboot for one in found)
    if told and told[3] in ("1", "6.1"):
        sentences.check(SENTENCES, f"not in force: {told[0]}", found)
    # Nothing of it is known where none is loaded, which is a finding of its own.
    assert not [
        one for one in gpu_software_drift.driver({**DRIVER, **wanted}, gpu(None)) if one.kind == "module-option"
    ]


def test_without_a_gpu_nothing_of_the_driver_is_claimed() -> None:
    assert list(gpu_software_drift.driver(DRIVER, gpu(None, gpus=0))) == []
    (notice,) = gpu_software_drift.not_checked(DRIVER, gpu(None, gpus=0))
    assert (notice.kind, notice.severity) == ("not-checked", "notice")
    sentences.check(SENTENCES, "no GPU", [notice])
    assert list(gpu_software_drift.not_checked(DRIVER, gpu())) == []


def test_what_is_half_installed_is_not_installed() -> None:
    text = "a\tinstalled\t1\na\tinstalled\t1\nb\tconfig-files\t2\n"
    reader = gpu_software_drift.Reader(lambda argv: Outcome(0, text if argv[0] == "dpkg-query" else "a\nc:i386\n", ""))
    assert reader.packages({"a": "1", "b": "2"}) == {"a": ["1", "1"]}
    assert reader.held({"a": "1", "b": "2", "c": "3"}) == {"a", "c"}


PERSISTENCE, FABRIC, IMEX = "nvidia-persistenced.service", "nvidia-fabricmanager.service", "nvidia-imex.service"


def card(**facts: Any) -> dict[str, Any]:
    good = {
        "address": "0000:3b:00.0",
        "persistence": True,
        "fabric_state": "Completed",
        "fabric_status": "Success",
        "failure": None,
    }
    return {**gpu(), "gpus": [{**good, **facts}]}


@pytest.mark.parametrize(
    ("services", "facts", "told"),
    [
        ([PERSISTENCE, FABRIC], {}, None),
        ([PERSISTENCE], {"persistence": False}, ("gpu-persistence", "off", PERSISTENCE)),
        # A platform without the daemon, and a driver that does not tell.
        ([], {"persistence": False, "fabric_state": "In Progress"}, None),
        ([PERSISTENCE, FABRIC], {"persistence": None, "fabric_state": None, "fabric_status": None}, None),
        ([FABRIC], {"fabric_state": "In Progress", "fabric_status": None}, ("gpu-fabric", "In Progress", FABRIC)),
        ([FABRIC], {"fabric_status": "Insufficient Resources"}, ("gpu-fabric", "Completed, Insufficient Resources", FABRIC)),
        ([IMEX], {"fabric_state": "Not Started", "fabric_status": None}, ("gpu-fabric", "Not Started", IMEX)),
        ([FABRIC], {"fabric_status": None}, None),
    ],
)  # fmt: skip
def test_what_the_services_have_not_done_to_a_gpu_is_told(
    services: list[str], facts: dict[str, Any], told: tuple[str, str, str] | None
) -> None:
    found = list(gpu_software_drift.gpus(services, card(**facts)))
    assert len(found) == bool(told)
    for one in found:
        assert (one.kind, one.found, services[-1]) == told
        assert one.where.endswith(" of GPU 0000:3b:00.0")
        assert f"journalctl -b -u {services[-1]}" in one.remedy
        if services != [FABRIC] or facts["fabric_status"]:
            sentences.check(SENTENCES, f"a GPU for which a service has not done its part: {services[-1]}", found)


def test_a_failed_gpu_is_one_finding_and_not_a_gpu_without_reports() -> None:
    lost = card(persistence=None, fabric_state=None, fabric_status=None, failure="GPU is lost")
    (finding,) = gpu_software_drift.gpus([PERSISTENCE, FABRIC], lost)
    assert (finding.kind, finding.found, finding.severity) == ("gpu-failure", "GPU is lost", "error")
    sentences.check(SENTENCES, "a lost GPU", [finding])
    assert list(gpu_software_drift.not_checked(DRIVER, lost, [PERSISTENCE, FABRIC])) == []


def test_what_nvidia_smi_does_not_tell_is_not_claimed() -> None:
    silent = card(persistence=None, fabric_state=None)
    told = ["persistence of 1 GPUs", "fabric of 1 GPUs"]

    def notices(*arguments: Any) -> list[str]:
        found = list(gpu_software_drift.not_checked(DRIVER, *arguments))
        assert all((one.kind, one.severity) == ("not-checked", "notice") for one in found)
        return [one.where for one in found]

    assert notices(silent, [PERSISTENCE, FABRIC]) == told
    assert notices(silent, [PERSISTENCE]) == told[:1]
    assert notices(card(), [PERSISTENCE, FABRIC]) == []
    # That none is loaded is a finding.
    unloaded = {**silent, "driver": {**silent["driver"], "version": None}}
    assert notices(unloaded, [PERSISTENCE]) == []


@pytest.mark.parametrize(("code", "version"), [(0, "1.2"), (1, "")])
def test_the_module_is_read_for_the_kernel_that_boots_next(code: int, version: str) -> None:
    calls: list[list[str]] = []

    def run(argv: list[str]) -> Outcome:
        calls.append(argv)
        return Outcome(code, "1.2\n", "")

    assert gpu_software_drift.Reader(run).module("6.2", "nvidia.ko") == version
    assert calls == [["modinfo", "--set-version", "6.2", "--field", "version", "nvidia"]]
