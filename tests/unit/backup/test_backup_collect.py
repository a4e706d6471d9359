# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of a backup has the parts of all hosts, or it is not written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.bedplate.cluster.plugins.action.slurm_backup_collect import ActionModule
from tests.unit.stand_ins import cluster_file


def collected(folder: Path, taken: object, check: bool = False) -> dict[str, Any]:
    """Return the result of the action, with what the controller has backed up."""
    file = folder / "c.bedplate.yml"
    file.write_text(cluster_file({"p": {}}, {"p": "n[1-2]"}))
    task = SimpleNamespace(action="x", args={}, check_mode=check, async_val=0, diff=False)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
    templar = SimpleNamespace(template=lambda value: value)
    action = ActionModule(task, connection, SimpleNamespace(check_mode=check), None, templar, None)
    action._display = SimpleNamespace(display=lambda _text: None)
    facts = {} if taken is None else {"__backup_taken": taken}
    variables = {"bedplate_cluster_file": str(file), "hostvars": SimpleNamespace(raw_get=lambda _host: facts)}
    return dict(action.run(task_vars={**variables, "backup_to": str(folder / "to")}))


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    "taken", [None, {"failed": True, "msg": "disk full", "part": "/x"}, {"unreachable": True, "part": "/x"}]
)
def test_a_host_without_a_backup_is_named_and_no_file_is_written(tmp_path: Path, taken: object, check: bool):
    with pytest.raises(AnsibleActionFail, match="no backup was made: ctl1 failed or was not in this run"):
        collected(tmp_path, taken, check)
    assert not (tmp_path / "to").exists()


def test_a_preview_names_the_hosts_and_writes_no_file(tmp_path: Path):
    found = collected(tmp_path, {"changed": True}, check=True)
    assert (found["changed"], found["file"]) == (True, "")
    assert "a backup of ctl1 and of the control node would be written" in found["msg"]
    assert not (tmp_path / "to").exists()
