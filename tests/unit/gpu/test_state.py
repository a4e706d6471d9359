"""What verify tells of a machine whose GPU software is not as it was wanted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import state
from ansible_collections.bedplate.cluster.plugins.module_utils.node_command import Outcome

WANTED = {"libcuda1": "1.2-*", "kernel-dkms": "1.2-3"}
PINNED = {"libextra": "1.2-3"}
PARAMETERS = {"EnableGpuFirmware": 18, "EnableMSI": 1, "RegistryDwords": "a=1;b=2", "Max": 4294967295}
DRIVER = {"version": "1.2", "flavour": "open"}
SEEN = state.Seen(
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
    assert list(state.packages(WANTED, PINNED, SEEN, "r")) == []
    assert list(state.module({"file": "n.ko", "version": "1.2"}, SEEN)) == []
    assert list(state.units(["x.service"], False, SEEN)) == []
    assert list(state.driver(DRIVER, gpu())) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"packages": {"kernel-dkms": ["1.2-3"]}},
            "package libcuda1: expected 1.2-*, found not installed; run the playbook of the role r again",
        ),
        ({"packages": {**SEEN.packages, "libcuda1": ["1.3-1"]}}, "package libcuda1: expected 1.2-*, found 1.3-1"),
        # Of another architecture, which the same library has on a machine with both.
        ({"packages": {**SEEN.packages, "libcuda1": ["1.2-9", "1.1-1"]}}, "found 1.1-1"),
        ({"packages": {**SEEN.packages, "libextra": ["1.3-1"]}}, "package libextra: expected 1.2-3, found 1.3-1"),
        ({"held": frozenset(["libcuda1"])}, "package kernel-dkms: expected held, found not held"),
        # There for others only, but of this set as well.
        ({"packages": {**SEEN.packages, "libextra": ["1.2-3"]}}, "package libextra: expected held, found not held"),
    ],
)
def test_each_difference_of_packages_is_told(change: dict[str, Any], told: str) -> None:
    (finding,) = state.packages(WANTED, PINNED, replace(SEEN, **change), "r")
    assert told in str(finding)


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
    found = list(state.leftovers(names, "590.48.01", ["libnvidia-compute", "nvidia-modprobe"], seen, "apt-get purge"))
    assert [one.where for one in found] == ["package libnvidia-compute-570", "package nvidia-utils-580-server"]
    assert str(found[0]).endswith(
        "found 570.124.06-0ubuntu1; see that nothing needs it, then apt-get purge libnvidia-compute-570"
    )
    epoch = replace(SEEN, packages={"libnvsdm-570": ["0:570.1-1"], "nvidia-imex-570": ["3:590.48.01-1"]})
    assert [one.where for one in state.leftovers(["lib*", "nvidia-imex-*"], "590.48.01", [], epoch, "x")] == [
        "package libnvsdm-570"
    ]


def test_packages_of_a_pattern_are_to_be_held_whatever_they_are_called() -> None:
    kernels = {"linux-image-[!0-9]*": "*", "linux-image-amd64": "6.1-1"}
    there = {"linux-image-cloud-amd64": ["6.1-1"], "linux-image-amd64": ["6.1-1"], "linux-image-6.1-amd64": ["6.1-1"]}
    seen = replace(SEEN, packages=there, held=frozenset(["linux-image-amd64"]))
    (finding,) = state.packages({}, kernels, seen, "r")
    assert str(finding).startswith("package linux-image-cloud-amd64: expected held, found not held")


@pytest.mark.parametrize(("module", "found"), [("", "none"), ("1.1", "1.1")])
def test_a_module_that_would_not_load_after_a_reboot_is_told(module: str, found: str) -> None:
    (finding,) = state.module({"file": "n.ko", "version": "1.2"}, replace(SEEN, module=module))
    assert (finding.where, finding.found) == ("module n.ko for kernel 6.1", found)
    assert finding.remedy.startswith("do not reboot")


@pytest.mark.parametrize(
    ("unit", "runs", "found"),
    [
        ({}, False, "no such unit"),
        ({"UnitFileState": "disabled", "ActiveState": "active"}, True, "disabled"),
        ({"UnitFileState": "enabled", "ActiveState": "failed"}, True, "failed"),
    ],
)
def test_a_service_that_is_off_is_told(unit: dict[str, str], runs: bool, found: str) -> None:
    (finding,) = state.units(["x.service"], runs, replace(SEEN, units={"x.service": unit}))
    assert finding.found == found


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (gpu(None), "running driver: expected 1.2 (open), found none loaded; drain the node and reboot it"),
        (gpu("1.1"), "found 1.1 (open)"),
        (gpu(flavour="proprietary"), "found 1.2 (proprietary)"),
        (gpu(mismatch=True), "libraries of the driver: expected 1.2, found 9.9"),
        (gpu(nouveau=True), "nouveau: expected not loaded, found loaded"),
    ],
)
def test_a_driver_that_runs_and_is_not_the_one_is_told(facts: Any, told: str) -> None:
    (finding,) = state.driver(DRIVER, facts)
    assert told in str(finding)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (
            {"options": {"NVreg_EnableGpuFirmware": "0x12", "NVreg_RegistryDwords": '"a=1;b=2"', "NVreg_Max": "-1"}},
            None,
        ),
        # Of a module that is not this one, or that this driver has no more.
        ({"options": {"NVreg_Gone": "1"}}, None),
        (
            {"options": {"NVreg_EnableMSI": "0"}},
            "module option NVreg_EnableMSI: expected 0, found 1; drain the node and reboot it",
        ),
        (
            {"options": {"NVreg_RegistryDwords": "a=2"}},
            "module option NVreg_RegistryDwords: expected a=2, found a=1;b=2",
        ),
        ({"kernel": "6.1"}, None),
        ({"kernel": "6.2"}, "running kernel: expected 6.2, found 6.1; drain the node and reboot it"),
    ],
)
def test_options_and_a_stated_kernel_that_are_not_in_force_are_told(wanted: dict[str, Any], told: str | None) -> None:
    found = [str(one) for one in state.driver({**DRIVER, **wanted}, gpu())]
    assert [one.startswith(told or "") for one in found] == [True] * bool(told)
    # Nothing of it is known where none is loaded, which is a finding of its own.
    assert not [one for one in state.driver({**DRIVER, **wanted}, gpu(None)) if "module option" in str(one)]


def test_without_a_gpu_nothing_of_the_driver_is_claimed() -> None:
    assert list(state.driver(DRIVER, gpu(None, gpus=0))) == []
    (notice,) = state.not_checked(DRIVER, gpu(None, gpus=0))
    assert (notice.kind, notice.severity) == ("not-checked", "notice")
    assert "no GPU is on the PCI bus" in notice.found
    assert list(state.not_checked(DRIVER, gpu())) == []


def test_what_is_half_installed_is_not_installed() -> None:
    text = "a\tinstalled\t1\na\tinstalled\t1\nb\tconfig-files\t2\n"
    reader = state.Reader(lambda argv: Outcome(0, text if argv[0] == "dpkg-query" else "a\nc:i386\n", ""))
    assert reader.packages({"a": "1", "b": "2"}) == {"a": ["1", "1"]}
    assert reader.held({"a": "1", "b": "2", "c": "3"}) == {"a", "c"}


PERSISTENCE, FABRIC = "nvidia-persistenced.service", "nvidia-fabricmanager.service"


def card(**facts: Any) -> dict[str, Any]:
    good = {"address": "0000:3b:00.0", "persistence": True, "fabric_state": "Completed", "fabric_status": "Success"}
    return {**gpu(), "gpus": [{**good, **facts}]}


@pytest.mark.parametrize(
    ("services", "facts", "told"),
    [
        ([PERSISTENCE, FABRIC], {}, None),
        ([PERSISTENCE], {"persistence": False}, "persistence of GPU 0000:3b:00.0: expected on, found off; systemctl restart nvidia-per"),
        # A platform without the daemon, and a driver that does not tell.
        ([], {"persistence": False, "fabric_state": "In Progress"}, None),
        ([PERSISTENCE, FABRIC], {"persistence": None, "fabric_state": None, "fabric_status": None}, None),
        ([FABRIC], {"fabric_state": "In Progress", "fabric_status": None},
         "fabric of GPU 0000:3b:00.0: expected Completed, Success, found In Progress; "),
        ([FABRIC], {"fabric_status": "Insufficient Resources"}, "found Completed, Insufficient Resources; no job"),
        (["nvidia-imex.service"], {"fabric_state": "Not Started", "fabric_status": None}, "journalctl -b -u nvidia-imex.service, and"),
        ([FABRIC], {"fabric_status": None}, None),
    ],
)  # fmt: skip
def test_what_the_services_have_not_done_to_a_gpu_is_told(
    services: list[str], facts: dict[str, Any], told: str | None
) -> None:
    found = [str(one) for one in state.gpus(services, card(**facts))]
    assert len(found) == bool(told)
    assert all(str(told) in one for one in found)


def test_what_nvidia_smi_does_not_tell_is_not_claimed() -> None:
    silent = card(persistence=None, fabric_state=None)
    told = ["persistence of 1 GPUs", "fabric of 1 GPUs"]

    def notices(*arguments: Any) -> list[str]:
        found = list(state.not_checked(DRIVER, *arguments))
        assert all((one.kind, one.severity) == ("not-checked", "notice") for one in found)
        return [one.where for one in found]

    assert notices(silent, [PERSISTENCE, FABRIC]) == told
    assert notices(silent, [PERSISTENCE]) == told[:1]
    assert notices(card(), [PERSISTENCE, FABRIC]) == []
    # That none is loaded is a finding.
    unloaded = {**silent, "driver": {**silent["driver"], "version": None}}
    assert notices(unloaded, [PERSISTENCE]) == []
