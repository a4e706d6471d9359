# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks: by monitor or by the task itself, to their end, with their messages, within a bound."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish import errors
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import BmcError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.tasks import finished

from .conftest import Made

SYSTEM = "/redfish/v1/Systems/1"
ONCE = {"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}


@pytest.mark.parametrize("is_monitor", [True, False])
def test_task_is_waited_for(make: Made, is_monitor: bool) -> None:
    simulated, bmc = make(faults={"tasks": ["boot"], "task_s": 0.3, "task_is_monitor": is_monitor})
    with Client(bmc) as client:
        answer = client.patch(SYSTEM, ONCE)
        assert answer.status == 202
        assert simulated.state()["boot"]["BootSourceOverrideTarget"] == "None"
        assert finished(client, answer).status < 300
    assert simulated.state()["boot"]["BootSourceOverrideTarget"] == "Pxe"


@pytest.mark.parametrize("is_monitor", [True, False])
def test_failed_task_has_its_messages(make: Made, is_monitor: bool) -> None:
    _simulated, bmc = make(faults={"tasks": ["boot"], "task_state": "Exception", "task_is_monitor": is_monitor})
    with Client(bmc) as client, pytest.raises(BmcError) as caught:
        finished(client, client.patch(SYSTEM, ONCE))
    assert caught.value.kind == errors.OTHER
    assert [one.key for one in caught.value.messages] == ["TaskFailed"]


def test_endless_task_is_bounded(make: Made) -> None:
    _simulated, bmc = make(faults={"tasks": ["boot"], "task_s": 30})
    with Client(bmc) as client, pytest.raises(BmcError) as caught:
        finished(client, client.patch(SYSTEM, ONCE), seconds=0.3)
    assert caught.value.kind == errors.TIMEOUT


def test_busy_bmc_does_not_end_the_wait(make: Made) -> None:
    simulated, bmc = make({"attempts": 2}, faults={"tasks": ["boot"], "task_s": 0.3})
    with Client(bmc) as client:
        answer = client.patch(SYSTEM, ONCE)
        simulated.faults(busy=5, methods=["GET"])
        finished(client, answer)
    assert simulated.state()["boot"]["BootSourceOverrideTarget"] == "Pxe"


def test_answer_without_a_task_is_the_result(make: Made) -> None:
    simulated, bmc = make()
    with Client(bmc) as client:
        answer = client.patch(SYSTEM, ONCE)
        assert finished(client, answer) is answer
    assert simulated.state()["requests"]["GET"] == 1
