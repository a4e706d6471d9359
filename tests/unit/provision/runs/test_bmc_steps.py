# SPDX-License-Identifier: GPL-3.0-or-later
"""Single steps at the BMC of a node: which state of the machine refuses a reset, a release and power."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision import bmc_steps
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.machine_run import job_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine_reading import read_machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.media import eject_media
from tests.kit.bmc.state import NO_OVERRIDE
from tests.unit.provision.world import World

pytestmark = pytest.mark.tools("xorriso")
SYSTEM = "/redfish/v1/Systems/1"


def step(world: World, node: str, do: Callable[..., object], url: str = "") -> str:
    """Do a step at the BMC of a node, and return its error."""
    job = replace(job_of(world.wanted(node)), url=url)
    return world.fleet().each({node: job}, do)[node].error


@pytest.mark.parametrize(("enabled", "target"), [("Disabled", "Cd"), ("Once", "Pxe"), ("Once", "Hdd")])
def test_a_machine_that_would_boot_something_else_is_not_reset(enabled: str, target: str, world: World) -> None:
    node = world.machine()
    # A BMC may show the last target although its override is off.
    boot = {**NO_OVERRIDE, "BootSourceOverrideEnabled": enabled, "BootSourceOverrideTarget": target}
    world.bmcs[node].change(boot=boot)
    job = job_of(world.wanted(node))
    assert world.fleet().each({node: job}, bmc_steps.start)[node].value is False
    assert [one for one in world.bmcs[node].writes() if "Reset" in one] == []


def test_a_machine_that_was_turned_on_too_early_keeps_what_it_boots_from(world: World) -> None:
    node = world.machine(power="On", behaviour="none")
    assert "was turned on before its medium was removed" in step(world, node, bmc_steps.release)
    assert world.bmcs[node].writes() == []


@pytest.mark.parametrize(("left", "says"), [("medium", "a medium is inserted again"), ("override", "boot override")])
def test_a_machine_with_a_medium_or_an_override_is_not_turned_on(left: str, says: str, world: World) -> None:
    node = world.machine()
    assert not step(world, node, bmc_steps.arm, "https://127.0.0.1:1/media/x.iso")
    if left == "medium":
        boot = {"Boot": {"BootSourceOverrideEnabled": "Disabled"}}
        assert not step(world, node, lambda client, job: client.patch(SYSTEM, boot))
    else:
        assert not step(
            world,
            node,
            lambda client, job: eject_media(client, read_machine(client, serial=job.target.recorded.serial)),
        )
    assert says in step(world, node, bmc_steps.turn_on)
    assert world.bmcs[node].state()["power"] == "Off"
