"""The module kernel_cmdline as Ansible calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.bedplate.cluster.plugins.modules import kernel_cmdline
from tests.unit.tuning.machines import ROOT, el9


def call(capsys: pytest.CaptureFixture[str], **arguments: Any) -> dict[str, Any]:
    with patch_module_args(arguments), pytest.raises(SystemExit):
        kernel_cmdline.main()
    return json.loads(capsys.readouterr().out)


def test_it_says_what_it_does_and_does_what_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = el9(tmp_path, f"{ROOT} iommu=soft")
    before = machine.tree()
    wanted = {"tokens": ["iommu=pt"], "sysroot": str(tmp_path)}
    told = call(capsys, **wanted, _ansible_check_mode=True, _ansible_diff=True)
    assert machine.tree() == before
    done = call(capsys, **wanted, _ansible_diff=True)
    # Newer releases of Ansible leave it out.
    for one in (told, done):
        one.pop("invocation", None)
    assert told == done
    assert (done["changed"], done["tokens"], done["reboot_wanted"]) == (True, ["iommu=pt"], True)
    assert "iommu=pt" in done["reason"]
    assert done["gave_way"] == ["iommu=soft"]
    assert {one["before_header"] for one in done["diff"]} == {
        str(tmp_path / name)
        for name in [
            *(f"boot/loader/entries/{entry}.conf" for entry in ("a-0-rescue", "a-5.14")),
            "etc/default/grub",
            "etc/kernel/cmdline",
        ]
    }
    again = call(capsys, **wanted)
    assert (again["changed"], "diff" in again) == (False, False)


def test_all_mistakes_come_in_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = call(capsys, tokens=["a b", "root=x"], sysroot=str(tmp_path))
    assert failed["failed"]
    assert [line.split(" ")[0] for line in failed["msg"].splitlines()] == ["'a", "'root=x':"]


def test_a_note_says_why_a_reboot_is_wanted_and_goes_when_none_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = el9(tmp_path, ROOT)
    note = tmp_path / "run/bedplate/reboot-wanted/node_tuning"
    wanted = {"tokens": ["iommu=pt"], "sysroot": str(tmp_path), "note": "node_tuning"}
    assert call(capsys, **wanted, _ansible_check_mode=True)["changed"]
    assert not note.exists()
    assert call(capsys, **wanted)["changed"]
    (reason,) = note.read_text().splitlines()
    assert "iommu=pt" in reason
    assert not call(capsys, **wanted)["changed"]
    # As after the reboot, whose note is gone with the memory; here it is to be taken away.
    machine.put("proc/cmdline", f"{ROOT} iommu=pt\n")
    assert call(capsys, **wanted)["changed"]
    assert not note.exists()
    assert not call(capsys, **wanted)["changed"]


def test_a_machine_that_boots_from_the_network_gets_a_note_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = el9(tmp_path, ROOT)
    before = machine.tree()
    wanted = {"tokens": ["iommu=pt"], "sysroot": str(tmp_path), "note": "node_tuning", "boot": "network"}
    done = call(capsys, **wanted)
    assert (done["changed"], done["loader"], done["reboot_wanted"]) == (True, "network", True)
    assert "iommu=pt" in done["reason"]
    assert set(machine.tree()) - set(before) == {"run/bedplate/reboot-wanted/node_tuning"}
    again = call(capsys, **wanted)
    assert not again["changed"]
    machine.put("proc/cmdline", f"{ROOT} iommu=pt\n")
    assert call(capsys, **wanted)["changed"]
    assert machine.tree() == before


@pytest.mark.parametrize("boot", ["loader", "network"])
def test_a_probe_changes_nothing_and_fails_without_a_boot_loader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], boot: str
) -> None:
    wanted = {"tokens": ["iommu=pt"], "sysroot": str(tmp_path), "probe": True, "boot": boot}
    found = call(capsys, **wanted)
    assert found.get("failed", False) == (boot == "loader")
    assert list(tmp_path.iterdir()) == []
    machine = el9(tmp_path, ROOT)
    before = machine.tree()
    assert call(capsys, **wanted)["changed"] is False
    assert machine.tree() == before
