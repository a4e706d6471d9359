"""Secure Boot: what mokutil says is understood, and what a person is told. Only "no EFI" is asked of the real mokutil."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.next_kernel import BootError
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.secure_boot_state import (
    certificate,
    enrolment,
    judge,
)
from ansible_collections.bedplate.cluster.plugins.modules import secure_boot
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts import driver_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.part_plan import software_of
from tests.kit import sentences
from tests.kit.module import Module, result_of
from tests.unit.gpu_stack.parts.test_driver_part import DEBIAN, cluster, facts, found, notes

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

NO_EFI = "EFI variables are not supported on this system"
KEY = "/var/lib/dkms/mok.pub"
UBUNTU = "/var/lib/shim-signed/mok/MOK.der"


def mokutil(
    stdout: str = "", stderr: str = "", code: int = 1, signer: str = "DKMS module signing key"
) -> Callable[[list[str]], Outcome]:
    """Return a machine whose mokutil says this, and whose modules are signed by somebody."""

    def run(argv: list[str]) -> Outcome:
        if argv[0] == "modinfo":
            assert argv[1:] == ["--set-version", "6.1", "--field", "signer", "nvidia"]
            return Outcome(0, f"{signer}\n", "")
        assert argv == ["mokutil", "--test-key", KEY]
        return Outcome(code, stdout, stderr)

    return run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    at = tmp_path / KEY.lstrip("/")
    at.parent.mkdir(parents=True)
    at.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("stdout", "stderr", "code", "state"),
    [
        (f"{KEY} is not enrolled\n", "", 0, "absent"),
        (f"{KEY} is already enrolled\n", "", 1, "enrolled"),
        (f"{KEY} is already in db\n", "", 1, "enrolled"),
        (f"{KEY} is already in the built-in trusted keyring\n", "", 1, "enrolled"),
        (f"{KEY} is already in the enrollment request\n", "", 1, "requested"),
        (f"{KEY} is blocked in dbx\n", "", 1, "blocked"),
        (f"{KEY} is blocked in MokListXRT\n", "", 1, "blocked"),
        # A keyring that cannot be read is told of beside the answer.
        (f"Failed to accesss kernel trusted keyring: x\n{KEY} is not enrolled\n", "", 0, "absent"),
        ("", f"{NO_EFI}\n", 1, ""),
        ("/another is already enrolled\n", "", 1, ""),
        ("", "mokutil: No such file or directory", 127, ""),
        ("", "", 0, ""),
    ],
)
def test_what_mokutil_says_is_one_state_and_anything_else_is_none(
    stdout: str, stderr: str, code: int, state: str
) -> None:
    found, said = enrolment(KEY, mokutil(stdout, stderr, code))
    assert found == state
    assert said


@pytest.mark.tools("mokutil")
@pytest.mark.skipif(Path("/sys/firmware/efi").exists(), reason="this machine has EFI")
def test_the_real_mokutil_without_efi_gives_no_state(tmp_path: Path) -> None:
    def run(argv: list[str]) -> Outcome:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=dict(os.environ))
        return Outcome(done.returncode, done.stdout, done.stderr)

    key = tmp_path / "key.der"
    key.touch()
    assert enrolment(str(key), run) == ("", NO_EFI)


@pytest.mark.parametrize(
    ("files", "path"),
    [
        ({}, KEY),
        ({"etc/os-release": 'NAME="Debian"\nID=debian\n'}, KEY),
        ({"etc/os-release": 'NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n'}, UBUNTU),
        # As Debian's DKMS ships it.
        ({"etc/dkms/framework.conf": "# mok_signing_key=/a\n# mok_certificate=/var/lib/dkms/mok.pub\n"}, KEY),
        ({"etc/dkms/framework.conf": 'mok_signing_key=/root/k\nmok_certificate="/root/site.der"\n'}, "/root/site.der"),
        ({"etc/dkms/framework.conf.d/a.conf": "mok_certificate=/a.der\n", "etc/dkms/framework.conf": "mok_certificate=/b.der\n"}, "/a.der"),
        # With a key of its own, Ubuntu's DKMS takes its own default for the certificate.
        ({"etc/os-release": "ID=ubuntu\n", "etc/dkms/framework.conf": "mok_signing_key=/root/k\n"}, KEY),
    ],
)  # fmt: skip
def test_the_certificate_is_the_one_that_dkms_takes(tmp_path: Path, files: dict[str, str], path: str) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert certificate(tmp_path) == path


def test_an_enrolled_key_and_a_signed_module_are_in_nobodys_way(root: Path) -> None:
    assert judge("enabled", mokutil(f"{KEY} is already enrolled\n"), root, "nvidia.ko", "6.1") is None


@pytest.mark.parametrize("state", ["disabled", "none", None])
def test_where_secure_boot_is_not_known_to_be_on_nothing_is_asked_or_guessed(root: Path, state: str | None) -> None:
    def run(argv: list[str]) -> Outcome:
        raise AssertionError(argv)

    assert judge(state, run, root, "nvidia.ko", "6.1") is None


def test_a_person_is_told_all_steps_and_where_the_request_is_made_the_rest(root: Path) -> None:
    obstacle = judge("enabled", mokutil(f"{KEY} is not enrolled\n", code=0), root, "nvidia.ko", "6.1")
    assert obstacle
    first, *steps = obstacle.remedy.splitlines()
    assert KEY in first
    assert [line[:4] for line in steps] == ["  1.", "  2.", "  3.", "  4."]
    assert f"`mokutil --import {KEY}`" in steps[0]
    assert "`systemctl reboot`" in steps[1]
    assert "Enroll MOK, Continue, Yes" in steps[2]
    assert f"`mokutil --test-key {KEY}`" in steps[3]
    sentences.check(SENTENCES, "Secure Boot: all steps", [obstacle])
    obstacle = judge("enabled", mokutil(f"{KEY} is already in the enrollment request\n"), root, "nvidia.ko", "6.1")
    assert obstacle
    sentences.check(SENTENCES, "Secure Boot: the rest of the steps", [obstacle])
    assert [line[:4] for line in obstacle.remedy.splitlines()[1:]] == ["  2.", "  3.", "  4."]


@pytest.mark.parametrize(
    ("case", "machine", "values"),
    [
        ("a forbidden key", mokutil(f"{KEY} is blocked in dbx\n"), [KEY, "dbx"]),
        ("no EFI", mokutil(stderr=f"{NO_EFI}\n"), [f"`mokutil --test-key {KEY}`", NO_EFI]),
        ("a module without a signature", mokutil(signer=""), ["nvidia.ko", "kernel 6.1"]),
    ],
)
def test_each_other_obstacle_is_named(root: Path, case: str, machine: Any, values: list[str]) -> None:
    obstacle = judge("enabled", machine, root, "nvidia.ko", "6.1")
    assert obstacle
    assert (obstacle.kind, obstacle.where) == ("secure-boot", "Secure Boot")
    assert all(value in obstacle.remedy for value in values)
    sentences.check(SENTENCES, f"Secure Boot: {case}", [obstacle])


def test_without_a_key_nothing_was_signed(tmp_path: Path) -> None:
    obstacle = judge("enabled", mokutil(), tmp_path)
    assert obstacle
    assert obstacle.kind == "secure-boot"
    assert KEY in obstacle.found
    sentences.check(SENTENCES, "Secure Boot: no key", [obstacle])


@pytest.mark.parametrize(
    ("dkms", "state", "asked"),
    [
        ("n", "enabled", True),
        ("n", None, True),
        ("n", "disabled", False),
        ("n", "none", False),
        ("", "enabled", False),
    ],
)
def test_the_note_on_a_reboot_waits_where_the_firmware_may_decide(
    tmp_path: Path, dkms: str, state: str | None, asked: bool
) -> None:
    wanted = software_of(cluster(tmp_path, DEBIAN), "gpu1")
    assert wanted
    wanted = replace(wanted, stack=replace(wanted.stack, sources=(dkms,) if dkms else ()))
    assert driver_part.judge(wanted, {**facts(None, None), "secure_boot": state}).firmware_decides is asked


@pytest.mark.parametrize(("secure_boot", "count"), [("none", 1), ("disabled", 1), ("enabled", 0), (None, 0)])
def test_the_note_is_left_to_who_asks_the_firmware(tmp_path: Path, secure_boot: str | None, count: int) -> None:
    told = found(cluster(tmp_path, DEBIAN), gpu={**facts(None, None), "secure_boot": secure_boot})
    assert len(notes(told)) == count
    assert list(told["steps"]) == ["gpu_facts", "gpu_platform", *(["secure_boot"] if count == 0 else [])]
    asked = told["steps"].get("secure_boot", {})
    reason = asked.get("reboot") or "".join(notes(told)).removesuffix("\n")
    assert "driver 550.163.01" in reason
    sentences.check(SENTENCES, "the note on a reboot where the firmware decides", [reason])
    if asked:
        kernel = {"file": told["expected"]["module"]["file"], "kernel": told["expected"]["module"]["kernel"]}
        assert asked == {"state": secure_boot or "", "reboot": reason, **kernel}


OBSTACLE = Finding(
    "secure-boot", "Secure Boot", "an enrolled key", "not enrolled", "mokutil --import, then the console"
)
REASON = "driver 550.163.01 is installed and not loaded"


@pytest.mark.parametrize(
    ("obstacle", "check", "failed", "changed", "noted"),
    [
        (None, False, False, True, True),
        (None, True, False, True, False),
        (OBSTACLE, False, True, False, False),
        # Nothing was installed, so nothing is in the way yet.
        (OBSTACLE, True, False, False, False),
    ],
)
def test_a_reboot_is_noted_only_where_the_module_will_be_loaded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    obstacle: Finding | None,
    check: bool,
    failed: bool,
    changed: bool,
    noted: bool,
) -> None:
    monkeypatch.setattr(secure_boot, "judge", lambda *_arguments, **_named: obstacle)
    arguments = {
        "state": "enabled",
        "file": "nvidia.ko",
        "kernel": "6.1",
        "reboot": REASON,
        "note": str(tmp_path / "note"),
    }
    module = Module(arguments, check)
    result = result_of(monkeypatch, secure_boot, module)
    assert (bool(result.get("failed")), bool(result.get("changed"))) == (failed, changed)
    assert (tmp_path / "note").exists() is noted
    assert (OBSTACLE.remedy in result["msg"]) is (obstacle is not None)
    assert module.warnings == ([OBSTACLE.remedy] if obstacle and check else [])


def test_a_signature_for_a_kernel_that_is_not_known_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown() -> str:
        raise BootError("nothing tells which kernel boots next")

    monkeypatch.setattr(secure_boot, "next_kernel", unknown)
    monkeypatch.setattr(secure_boot, "judge", lambda *_arguments, **_named: None)
    arguments = {
        "state": "enabled",
        "file": "nvidia.ko",
        "kernel": "",
        "reboot": REASON,
        "note": str(tmp_path / "note"),
    }
    result = result_of(monkeypatch, secure_boot, Module(arguments))
    assert (result.get("failed"), "nothing tells which kernel" in result["msg"]) == (True, True)
    assert not (tmp_path / "note").exists()


def test_a_secure_boot_that_is_not_known_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {"state": "", "file": "nvidia.ko", "kernel": "6.1", "reboot": REASON, "note": str(tmp_path / "note")}
    module = Module(arguments)
    result = result_of(monkeypatch, secure_boot, module)
    assert result["changed"] is True
    assert (tmp_path / "note").read_text() == f"{REASON}\n"
    assert ["mokutil --sb-state" in text for text in module.warnings] == [True]
