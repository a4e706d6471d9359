# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of the command line: the record is written before the files, and grub.cfg is read back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot import boot_files, cmdline_change
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_tokens import CmdlineError
from tests.unit.tuning.machines import ROOT, debian, el9

RECORD = "var/lib/bedplate/cmdline.json"
EMPTY = "### BEGIN /etc/grub.d/10_linux ###\n### END /etc/grub.d/10_linux ###\n"
ELSEWHERE = f"### BEGIN /etc/grub.d/40_custom ###\nlinux /x {ROOT} iommu=pt\n### END /etc/grub.d/40_custom ###\n"


@pytest.mark.parametrize("make", [debian, el9])
def test_a_run_that_is_killed_at_its_first_file_has_recorded_old_and_new_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make
) -> None:
    machine = make(tmp_path)
    clean = machine.tree()
    machine.apply("iommu=pt")
    before, put = machine.tree(), boot_files._put

    def killed(path: Path, text: str | None) -> None:
        if path.name != "cmdline.json":
            raise KeyboardInterrupt
        put(path, text)

    monkeypatch.setattr(boot_files, "_put", killed)
    with pytest.raises(KeyboardInterrupt):
        machine.apply("init_on_alloc=0")
    monkeypatch.undo()
    assert json.loads(machine.get(RECORD))["own"] == ["init_on_alloc=0", "iommu=pt"]
    assert {name for name, data in machine.tree().items() if data != before[name]} == {RECORD}
    machine.apply()
    assert machine.tree() == clean


@pytest.mark.parametrize("text", [EMPTY, ELSEWHERE], ids=["no-kernel", "kernel-of-another-script"])
def test_a_grub_cfg_without_a_kernel_is_refused_and_the_old_files_return(tmp_path: Path, text: str) -> None:
    machine = debian(tmp_path)
    before, state = machine.tree(), tmp_path / "var/lib/bedplate"

    def run(argv: list[str]) -> Outcome:
        if (tmp_path / "etc/default/grub.d/zz-bedplate.cfg").exists():
            machine.put("boot/grub/grub.cfg", text)
            return Outcome(0, "", "")
        return machine.run(argv)

    with pytest.raises(CmdlineError, match=r"grub\.cfg without an entry for a kernel"):
        cmdline_change.apply_tokens(tmp_path, ["iommu=pt"], state, check=False, run=run)
    assert machine.tree() == before
