# SPDX-License-Identifier: GPL-3.0-or-later
"""What the actions of provision.yml share: a mistake in their input is an error that says whether anything was changed."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.run_input import RunError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.provision_action import ProvisionAction
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.controller_call import ControllerAction


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
