# SPDX-License-Identifier: GPL-3.0-or-later
"""What the actions of provision.yml share: a mistake in their input is an error that says whether anything was changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.run_input import RunError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.provision_action import ProvisionAction
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.site_input import site_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.controller_call import ControllerAction
from lab.paths import ROOT


class Refused(ProvisionAction):
    """An action whose input has a mistake."""

    def _prepare(self) -> None:
        raise RunError("gpu01: no serial number is recorded")

    def _work(self) -> dict[str, Any]:
        raise AssertionError("it began to work")


def test_a_mistake_in_the_input_ends_the_task_before_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ControllerAction, "run", lambda *_: {})
    action = object.__new__(Refused)
    with pytest.raises(AnsibleActionFail, match="Nothing was changed: gpu01: no serial number is recorded"):
        action.run(None, {})


def test_a_file_of_keys_that_does_not_exist_is_named_with_the_variable_and_a_remedy(tmp_path: Path) -> None:
    cluster = tmp_path / "c.bedplate.yml"
    cluster.write_text((ROOT / "inventories/examples/rack-4/rack-4.bedplate.yml").read_text())
    variables = {"bedplate_cluster_file": str(cluster), "provision_authorized_keys": str(tmp_path / "none.pub")}
    with pytest.raises(RunError) as error:
        site_of({**variables, "provision_nodes": "gpu01"}, {}, lambda value: value)
    said = str(error.value).splitlines()
    assert said[0].startswith(
        f"provision_authorized_keys {tmp_path}/none.pub: No such file or directory; allowed: a file"
    )
    assert "-e provision_authorized_keys=FILE" in said[0]
    assert len(said) > 1
