# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of a live BMC: the same functions as over trees, on the simulator, by GETs alone."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.live_reader import reader_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles import bios, firmware
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.bios_plan import judge, plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.profile_files import bios_profile
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources import dialects
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.reader import MissingResourceError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Account, Bmc, Trust
from tests.kit.bmc.simulation import Simulated, Simulation


def bmc_of(one: Simulated) -> Bmc:
    return Bmc(one.node, one.address, Trust(fingerprint=one.fingerprint), Account(one.user, one.password), one.port)


def test_bmc_is_compared_by_gets_alone(simulation: Simulation) -> None:
    bmc = simulation.add(second_system=True, settings_elsewhere=True, reset_info="action-info", kvm_slot=True)
    with Client(bmc_of(bmc), read_only=True) as client:
        get = reader_of(client)
        evidence, dialect = dialects.read(get)
        state = bios.read_state(get, evidence.system)
        items = firmware.read_inventory(get, evidence.root)
    assert {"boot_in_settings", "resets_in_action_info"} <= set(dialect.rows)
    assert state.attributes == {"ProcHyperthreading": "Enabled", "SriovEnable": "Disabled"}
    assert {one.kind for one in items} >= {"bmc", "bios"}
    profile = bios_profile({"bios_version": "1.2.3", "attributes": {"SriovEnable": "Enabled"}}, "sim")
    assert [row.state for row in bios.compare(profile, state)] == ["different"]
    assert bmc.writes() == []


def test_each_path_is_read_once(simulation: Simulation) -> None:
    with Client(bmc_of(simulation.add())) as client:
        get = reader_of(client)
        get("/redfish/v1/Systems/1")
        before = client.requests
        get("/redfish/v1/Systems/1")
        assert client.requests == before


def test_missing_resource(simulation: Simulation) -> None:
    with Client(bmc_of(simulation.add())) as client:
        get = reader_of(client)
        for _ in range(2):
            with pytest.raises(MissingResourceError):
                get("/redfish/v1/Systems/9")


RESET = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"
PROFILE = bios_profile({"bios_version": "1.2.3", "attributes": {"SriovEnable": "Enabled"}}, "sim")


@pytest.mark.parametrize("not_taken", [False, True])
def test_bios_is_written_and_read_back(simulation: Simulation, not_taken: bool) -> None:
    bmc = simulation.add()
    if not_taken:
        bmc.faults(not_taken=["bios"])
    with Client(bmc_of(bmc)) as client:

        def state() -> bios.BiosState:
            """Read again: a reader reads each path once."""
            get = reader_of(client)
            return bios.read_state(get, dialects.read(get)[0].system)

        found = plan(PROFILE, state(), dialects.read(reader_of(client))[1])
        assert [(one.round, dict(one.attributes)) for one in found.patches] == [(1, {"SriovEnable": "Enabled"})]
        patch = found.patches[0]
        client.patch(patch.path, patch.body)
        staged = judge(patch.attributes, state(), after_reset=False)
        assert [row.state for row in bios.compare(PROFILE, state())] == (["different"] if not_taken else ["pending"])
        client.post(RESET, {"ResetType": "ForceRestart"})
        after = judge(patch.attributes, state(), after_reset=True)
        assert (
            [one.where for one in staged] == [one.where for one in after] == ["BIOS attribute SriovEnable"] * not_taken
        )
        assert plan(PROFILE, state(), dialects.read(reader_of(client))[1]).patches == (
            found.patches if not_taken else ()
        )
    assert len(bmc.writes()) == 2
