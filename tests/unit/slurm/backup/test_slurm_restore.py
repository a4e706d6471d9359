# SPDX-License-Identifier: GPL-3.0-or-later
"""The module slurm_restore: a step is done once for a backup, counts only when it is done, and is left alone in check mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup import put_back
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.put_back import Marks, RestoreError
from ansible_collections.bedplate.cluster.plugins.modules import slurm_restore
from tests.kit.module import Module, result_of


class Host:
    """A host whose state is a file; `broken` is why it cannot be restored."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state, self.marks, self.broken = folder / "job_state", folder / "marks.json", ""
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(slurm_restore, "Marks", lambda backup: Marks(backup, self.marks))
        monkeypatch.setitem(slurm_restore._CHANGE, "state", self._restore)

    def _restore(self, module: Module) -> dict[str, Any]:
        if self.broken:
            raise RestoreError(self.broken)
        self.state.write_text(f"of the backup {module.params['backup']}")
        return {"files": 7}

    def restored(self, backup: str = "a", check: bool = False) -> dict[str, Any]:
        return result_of(self._monkeypatch, slurm_restore, Module({"step": "state", "backup": backup}, check))

    @property
    def steps(self) -> list[str]:
        return list(put_back.recorded(self.marks)["steps"])


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_a_call_that_continues_leaves_the_state_of_a_running_slurmctld(host: Host):
    assert host.restored() == {"changed": True, "restored": {"files": 7}}
    host.state.write_text("of slurmctld since then")
    assert host.restored() == {"changed": False, "restored": {}}
    assert host.state.read_text() == "of slurmctld since then"
    assert host.restored("b")["changed"] is True
    assert host.state.read_text() == "of the backup b"


def test_a_step_that_failed_is_done_again(host: Host):
    host.broken = "another digest"
    assert host.restored() == {"failed": True, "msg": "state: another digest"}
    assert host.steps == []
    host.broken = ""
    assert host.restored()["changed"] is True
    assert host.steps == ["state"]


def test_a_preview_restores_nothing(host: Host):
    assert host.restored(check=True) == {"changed": True, "restored": {}}
    assert (host.state.exists(), host.marks.exists()) == (False, False)
