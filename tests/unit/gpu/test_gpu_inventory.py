"""What is read of a machine's GPUs and driver from sysfs and /proc, and what is said of what cannot be read."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.devices import gpu_devices
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver import driver_facts
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.driver_facts import initramfs_before
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.gpu_inventory import (
    nvidia_smi_query,
    query_this_machine,
)
from tests.kit import sentences
from tests.unit.gpu.tree import CLOSED, OPEN, VARIABLE, Tree

SENTENCES = Path(__file__).parent / "sentences.txt"

ONE, TWO = "0000:3b:00.0", "0000:5e:00.0"
quickly = settings(derandomize=True, deadline=None, max_examples=60)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def by_address(told: dict[str, Any]) -> dict[str, Any]:
    return {gpu["address"]: gpu for gpu in told["gpus"]}


def test_a_machine_without_gpus_has_none_and_no_problem(tree: Tree):
    told = tree.facts()
    assert (told["gpus"], told["nvswitches"], told["problems"]) == ([], [], [])
    assert told["driver"] == {"version": None, "flavour": None, "parameters": None, "libraries": [], "mismatch": None}
    assert (told["nouveau"], told["secure_boot"], told["queried"]) == (False, "none", False)


def test_a_gpu_is_known_by_its_address_and_not_by_the_order_of_minors(tree: Tree):
    tree.driver()
    tree.gpu(ONE, 1)
    tree.gpu(TWO, 0)
    told = tree.facts()
    assert [(gpu["address"], gpu["minor"], gpu["uuid"]) for gpu in told["gpus"]] == [
        (ONE, 1, "GPU-1"),
        (TWO, 0, "GPU-0"),
    ]
    assert told["gpus"][0] == {
        "address": ONE, "device": "0x2330", "subsystem_vendor": "0x10de", "subsystem_device": "0x16c1", "driver": "nvidia",
        "numa_node": 1, "link_speed": 32.0, "max_link_speed": 32.0, "link_width": 16, "max_link_width": 16,
        "minor": 1, "model": "NVIDIA H100 80GB HBM3", "uuid": "GPU-1", "excluded": False, "mig_instances": [],
        "persistence": None, "mig": None, "mig_pending": None, "ecc": None, "ecc_pending": None,
        "fabric_state": None, "fabric_status": None, "failure": None,
    }  # fmt: skip
    assert told["problems"] == []


def test_only_nvidias_gpus_and_nvswitches_count(tree: Tree):
    tree.pci("0000:01:00.0", vendor="0x1002")
    tree.pci("0000:02:00.0", kind="0x030000", driver=None)
    tree.pci("0000:03:00.0", kind="0x040300", driver="snd_hda_intel")
    tree.pci("0000:04:00.0", kind="0x068000", driver="nvidia-nvswitch", device="0x22a3", numa_node="-1")
    told = tree.facts()
    assert [(gpu["address"], gpu["driver"]) for gpu in told["gpus"]] == [("0000:02:00.0", None)]
    [switch] = told["nvswitches"]
    assert (switch["address"], switch["device"], switch["driver"]) == ("0000:04:00.0", "0x22a3", "nvidia-nvswitch")
    assert switch["numa_node"] is None
    assert "minor" not in switch
    assert told["problems"] == []


def test_a_gpu_that_fell_off_the_bus_has_no_link_instead_of_a_wrong_one(tree: Tree):
    tree.pci(ONE, current_link_speed="Unknown", current_link_width="63", max_link_width="255", numa_node="?")
    (tree.top / f"sys/devices/pci0000:00/0000:00:01.0/{ONE}/max_link_speed").unlink()
    told = tree.facts()
    gpu = told["gpus"][0]
    names = ("link_speed", "max_link_speed", "link_width", "max_link_width", "numa_node")
    assert [gpu[name] for name in names] == [None] * 5
    base = f"/sys/bus/pci/devices/{ONE}"
    said = [text.partition(f"{base}/")[2].split() for text in told["problems"]]
    assert [(words[0], words[1]) for words in said] == [
        ("numa_node:", "'?'"),
        ("current_link_speed:", "'Unknown'"),
        ("max_link_speed:", "No"),
        ("current_link_width:", "'63'"),
        ("max_link_width:", "'255'"),
    ]
    sentences.check(SENTENCES, "a GPU that fell off the bus", told["problems"])


def test_what_the_driver_does_not_tell_of_a_gpu_is_null_with_a_reason(tree: Tree):
    tree.driver()
    tree.pci(ONE)
    tree.pci(TWO)
    tree.information(ONE, 0, uuid="GPU-????????-????-????-????-????????????", excluded="perhaps")
    tree.information("0000:aa:00.0", 3)
    told = tree.facts()
    gpus = by_address(told)
    assert (gpus[ONE]["minor"], gpus[ONE]["uuid"], gpus[ONE]["excluded"]) == (0, None, None)
    assert (gpus[TWO]["minor"], gpus[TWO]["model"], gpus[TWO]["mig_instances"]) == (None, None, None)
    where = f"/proc/driver/nvidia/gpus/{ONE}/information"
    assert [text.partition(": ")[0] for text in told["problems"]] == [
        "/proc/driver/nvidia/gpus/0000:aa:00.0",
        where,
        where,
        f"/proc/driver/nvidia/gpus/{TWO}",
    ]
    assert "GPU UUID is 'GPU-????????-????-????-????-????????????'" in told["problems"][1]
    assert "GPU Excluded is 'perhaps'" in told["problems"][2]
    sentences.check(SENTENCES, "what the driver does not tell of a GPU", told["problems"])


def test_an_excluded_gpu_and_one_for_a_guest_are_no_problem(tree: Tree):
    tree.driver()
    tree.pci(ONE)
    tree.information(ONE, 0, excluded="Yes")
    tree.pci(TWO, driver="vfio-pci")
    told = tree.facts()
    assert (by_address(told)[ONE]["excluded"], by_address(told)[TWO]["minor"], told["problems"]) == (True, None, [])


def test_mig_instances_go_by_the_minor(tree: Tree):
    tree.driver()
    tree.gpu(ONE, 1)
    tree.gpu(TWO, 0)
    for path in ("gpu1/mig/gi10/ci0", "gpu1/mig/gi2/ci1", "gpu1/mig/gi2/ci0"):
        tree.write(f"proc/driver/nvidia/capabilities/{path}/access", "DeviceFileMinor: 3\n")
    gpus = by_address(tree.facts())
    assert gpus[ONE]["mig_instances"] == [{"gi": 2, "ci": [0, 1]}, {"gi": 10, "ci": [0]}]
    assert gpus[TWO]["mig_instances"] == []


def test_a_driver_without_capabilities_leaves_mig_unknown(tree: Tree):
    tree.driver()
    (tree.top / "proc/driver/nvidia/capabilities/mig").rmdir()
    (tree.top / "proc/driver/nvidia/capabilities").rmdir()
    tree.gpu(ONE, 0)
    told = tree.facts()
    assert told["gpus"][0]["mig_instances"] is None
    assert ["MIG instances of GPU minor 0" in text for text in told["problems"]] == [True]
    sentences.check(SENTENCES, "a driver without capabilities", told["problems"])


@pytest.mark.parametrize(("text", "flavour"), [(OPEN, "open"), (CLOSED, "proprietary"), ("garbage\n", None)])
def test_the_driver_tells_its_flavour_and_its_parameters(tree: Tree, text: str, flavour: str | None):
    tree.driver(flavour=text)
    told = tree.facts()
    assert told["driver"]["flavour"] == flavour
    assert len(told["problems"]) == (flavour is None)
    assert told["driver"]["parameters"] == {
        "EnableGpuFirmware": 18, "RestrictProfilingToAdminUsers": 1, "RegistryDwords": "", "ExcludedGpus": "a: b",
    }  # fmt: skip


def test_the_control_device_is_no_driver(tree: Tree):
    tree.write("dev/nvidiactl", "")
    tree.gpu(ONE, 0)
    told = tree.facts()
    assert (told["driver"]["version"], told["gpus"][0]["minor"], told["problems"]) == (None, None, [])


def test_a_driver_that_hangs_is_told_of_and_not_waited_for(tree: Tree):
    tree.driver()
    tree.gpu(ONE, 0)
    tree.gpu(TWO, 1)
    hanging = tree.top / f"proc/driver/nvidia/gpus/{ONE}/information"
    hanging.unlink()
    os.mkfifo(hanging)
    asked, start = [], time.monotonic()
    told = tree.facts(lambda seconds, problems: asked.append(seconds), 0.5)
    assert time.monotonic() - start < 5
    assert asked == []
    assert (by_address(told)[ONE]["minor"], by_address(told)[TWO]["minor"]) == (None, 1)
    (problem,) = [text for text in told["problems"] if ONE in text]
    assert problem.startswith(f"/proc/driver/nvidia/gpus/{ONE}/information: ")
    assert "0.5 s" in problem


def test_parameters_that_cannot_be_read_are_unknown_and_no_gpu(tree: Tree):
    tree.driver()
    tree.gpu(ONE, 0)
    parameters = tree.top / "proc/driver/nvidia/params"
    parameters.unlink()
    told = tree.facts()
    (missing,) = told["problems"]
    assert missing == f"/proc/driver/nvidia/params: {os.strerror(errno.ENOENT)}"
    os.mkfifo(parameters)
    told = tree.facts(seconds=0.2)
    assert told["driver"]["parameters"] is None
    (hangs,) = told["problems"]
    assert hangs.startswith("/proc/driver/nvidia/params: ")
    assert "0.2 s" in hangs
    sentences.check(SENTENCES, "parameters of a driver that hangs", [hangs])


@pytest.mark.parametrize(("loaded", "mismatch"), [("580.159.04", False), ("580.126.09", True), (None, None)])
def test_user_space_is_compared_with_the_loaded_module(tree: Tree, loaded: str | None, mismatch: bool | None):
    if loaded:
        tree.driver(loaded)
    tree.debian_library("580.159.04")
    told = tree.facts()["driver"]
    path = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    assert (told["libraries"], told["mismatch"]) == ([{"path": path, "version": "580.159.04"}], mismatch)


def test_a_second_library_of_another_version_is_a_mismatch(tree: Tree):
    tree.driver()
    tree.debian_library("580.159.04")
    tree.debian_library("535.309.01", "i386-linux-gnu")
    assert tree.facts()["driver"]["mismatch"] is True


def test_a_library_without_a_version_leaves_the_mismatch_open(tree: Tree):
    tree.driver()
    tree.write("usr/lib64/libnvidia-ml.so.1", "")
    tree.link("usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1", "libnvidia-ml.so.580.159.04")
    tree.debian_library("580.159.04")
    told = tree.facts()
    assert [library["version"] for library in told["driver"]["libraries"]] == [None, None, "580.159.04"]
    assert told["driver"]["mismatch"] is None
    gone = "/usr/lib/aarch64-linux-gnu/libnvidia-ml.so"
    nameless, broken = told["problems"]
    assert nameless.count("/usr/lib64/libnvidia-ml.so.1") == 2
    assert broken.startswith(f"{gone}.1: leads to {gone}.580.159.04")
    sentences.check(SENTENCES, "libraries without a version", told["problems"])


def test_each_kernel_is_listed_with_its_modules(tree: Tree):
    tree.link("lib", "/usr/lib")
    tree.write("usr/lib/modules/6.12.57-amd64/updates/dkms/nvidia-current-open.ko.xz", "")
    tree.write("usr/lib/modules/6.12.57-amd64/updates/dkms/nvidia-current-open-uvm.ko.xz", "")
    tree.write("usr/lib/modules/5.14.0-el9/extra/nvidia.ko", "")
    tree.write("boot/vmlinuz-6.12.57-amd64", "")
    tree.write("boot/vmlinuz-6.12.63-amd64", "")
    told = tree.facts()
    assert told["running_kernel"] == "6.12.57-amd64"
    found = [
        (one["release"], one["running"], one["image"], one["tree"], len(one["modules"])) for one in told["kernels"]
    ]
    assert found == [
        ("5.14.0-el9", False, False, True, 1),
        ("6.12.57-amd64", True, True, True, 1),
        ("6.12.63-amd64", False, True, False, 0),
    ]
    path = "/lib/modules/6.12.57-amd64/updates/dkms/nvidia-current-open.ko.xz"
    assert told["kernels"][1]["modules"] == [{"path": path, "name": "nvidia-current-open", "flavour": "open"}]
    assert told["kernels"][0]["modules"][0]["flavour"] is None


@pytest.mark.parametrize("end", ["", ".xz", ".zst", ".gz"])
def test_a_module_may_be_compressed(tree: Tree, end: str):
    tree.write(f"lib/modules/6.12.57-amd64/updates/dkms/nvidia-current.ko{end}", "")
    tree.write(f"lib/modules/6.12.57-amd64/updates/dkms/nvidia.ko{end}.old", "")
    [module] = tree.facts()["kernels"][0]["modules"]
    assert (module["name"], module["flavour"]) == ("nvidia-current", "proprietary")


@pytest.mark.parametrize(
    ("path", "data", "state", "problem"),
    [
        (VARIABLE, b"\x06\0\0\0\x01", "enabled", ""),
        (VARIABLE, b"\x06\0\0\0\x00", "disabled", ""),
        (VARIABLE, b"\x06\0\0\0\x02", None, "'0600000002' is not a state"),
        (VARIABLE, b"\x06\0\0\0\x01\0", None, "'060000000100' is not a state"),
        (VARIABLE, b"\x01", None, "'01' is not a state"),
        (VARIABLE.replace("SecureBoot-", "BootOrder-"), b"\x07\0\0\0\0\0", "none", ""),
        ("sys/firmware/efi/fw_platform_size", b"64\n", None, "Check that efivarfs is mounted"),
    ],
)
def test_secure_boot_is_what_the_firmware_says(tree: Tree, path: str, data: bytes, state: str | None, problem: str):
    tree.write(path, data)
    told = tree.facts()
    assert told["secure_boot"] == state
    assert [problem in text for text in told["problems"]] == ([True] if problem else [])


def test_nouveau_is_seen(tree: Tree):
    tree.write("sys/module/nouveau/initstate", "live\n")
    assert tree.facts()["nouveau"] is True


def test_a_link_never_leads_out_of_the_tree(tree: Tree):
    tree.link("sys/module/nvidia", "/../../../outside")
    tree.write("outside/version", "1.2\n")
    tree.link("usr/lib64/libnvidia-ml.so.1", "libnvidia-ml.so.1")  # to itself
    told = tree.facts()
    assert told["driver"]["version"] == "1.2"
    assert [text.count("/usr/lib64/libnvidia-ml.so.1") for text in told["problems"] if "libnvidia-ml" in text] == [2]


def test_only_this_machine_is_asked(tmp_path: Path):
    assert nvidia_smi_query("/", True) is nvidia_smi_query("//", True) is query_this_machine
    assert nvidia_smi_query("/", False) is nvidia_smi_query(str(tmp_path), True) is None


@given(st.text(max_size=80))
@quickly
def test_no_text_of_the_driver_breaks_its_readers(text: str):
    problems: list[str] = []
    found = gpu_devices.parse_information(text, "x", problems)
    assert len([name for name in found if found[name] is None]) <= len(problems)
    told = driver_facts.parse_parameters(text, problems := [])
    assert len(told) + len(problems) == len([line for line in text.splitlines() if line.strip()])
    driver_facts.parse_flavour(text)


@pytest.mark.parametrize("line", ["no colon", ": 2", "A: 3"], ids=["no-colon", "no-key", "twice"])
def test_a_parameter_that_cannot_be_read_is_a_problem_and_the_others_are_read(line: str) -> None:
    problems: list[str] = []
    assert driver_facts.parse_parameters(f'A: 1\n{line}\n\nB: "t"\n', problems) == {"A": 1, "B": "t"}
    assert [repr(line.strip()) in one for one in problems] == [True]


def test_an_initramfs_that_was_made_before_a_file_is_told(tmp_path: Path) -> None:
    boot, file = tmp_path / "boot", tmp_path / "etc/modprobe.d/x.conf"
    boot.mkdir()
    file.parent.mkdir(parents=True)
    for name, made in (
        ("initrd.img-6.1", 100),
        ("initramfs-5.14.img", 300),
        ("vmlinuz-6.1", 100),
        ("vmlinuz-5.14", 100),
        # What no rebuild makes again would be told of in every run.
        ("initramfs-5.14kdump.img", 100),
        ("initramfs-0-rescue-4f1c0a7e.img", 100),
        ("vmlinuz-0-rescue-4f1c0a7e", 100),
        ("initrd.img-6.1.dpkg-bak", 100),
        ("initrd.img-6.1.old-dkms", 100),
        ("initramfs-5.14.img.bak", 100),
        # Its kernel has gone.
        ("initrd.img-5.10", 100),
    ):
        (boot / name).touch()
        os.utime(boot / name, (made, made))
    told = lambda: initramfs_before(Root(str(tmp_path)), "/etc/modprobe.d/x.conf")  # noqa: E731
    # It is yet to come, so none has it.
    assert told() == ["/boot/initramfs-5.14.img", "/boot/initrd.img-6.1"]
    file.touch()
    os.utime(file, (200, 200))
    assert told() == ["/boot/initrd.img-6.1"]
    os.utime(boot / "initrd.img-6.1", (201, 201))
    assert told() == []
