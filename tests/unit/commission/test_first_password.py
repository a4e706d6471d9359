# SPDX-License-Identifier: GPL-3.0-or-later
"""BMCs that are refused before or at their first password, and whose errors are not taken for a password that must change."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_targets import Target
from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission import access
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_record import Machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import BmcError
from tests.kit.bmc.connect import bmc_of
from tests.kit.bmc.simulation import Simulation
from tests.unit.commission.commissioned_site import Made, errors, steps
from tests.unit.commission.test_commission import CHANGED

MUST_CHANGE: dict[str, Any] = {"password_change": True}


def test_a_bmc_that_is_commanded_by_ipmi_receives_no_request(make: Made) -> None:
    site = make()
    site.write_cluster({"bmc": {"protocol": "ipmi"}, "boot": {"method": "pxe"}})
    error = site.run_one().error
    assert error
    assert (error.kind, error.what) == ("unsupported", "it is commanded by IPMI")
    assert site.bmcs["gpu01"].state()["log"] == []


def test_a_given_account_is_the_one_that_a_new_bmc_gets(make: Made) -> None:
    site = make(faults=MUST_CHANGE, password_ends="own")
    site.secret("bmc/gpu01", "admin_x:Own-canary_123")
    assert steps(site.run_one()) == {**CHANGED, "factory": "same"}
    passwords = {user: one["Password"] for user, one in site.accounts().items()}
    assert passwords == {"root": "Own-canary_123", "admin_x": "Own-canary_123"}
    assert site.files() == ["gpu01"]


def test_a_first_password_that_is_not_taken_ends_the_run_of_the_bmc(make: Made) -> None:
    site = make(faults={**MUST_CHANGE, "not_taken": ["password"]})
    found = site.run_one()
    assert found.error
    assert found.error.kind == "not-taken", errors(found)
    assert list(site.accounts()) == ["root"]
    assert (site.secrets / "bmc/gpu01.pending").exists()
    assert not (site.secrets / "bmc/gpu01").exists()


def refused(simulation: Simulation, faults: dict[str, Any], *, serial: str = "SN1", pinned: bool = True) -> BmcError:
    """Return what a BMC's refusal of all requests is taken for."""
    simulated = simulation.add(faults=faults)
    recorded = Machine(serial, bmc_fingerprint=simulated.fingerprint if pinned else "")
    target = Target(simulated.node, simulated.address, recorded=recorded)
    with Client(bmc_of(simulated)) as client:
        found = access.needs_new_password(client, target)
    assert found
    return found


def test_only_the_refusal_for_the_password_lets_it_change(simulation: Simulation) -> None:
    assert refused(simulation, MUST_CHANGE).needs_new_password
    with pytest.raises(BmcError) as caught:
        refused(simulation, {"broken": ["/Systems"]})
    assert caught.value.status == 500


@pytest.mark.parametrize("record", [{"serial": ""}, {"pinned": False}])
def test_the_password_of_a_machine_without_a_record_is_not_changed(
    record: dict[str, Any], simulation: Simulation
) -> None:
    with pytest.raises(BmcError, match="nothing on record proves the BMC"):
        refused(simulation, MUST_CHANGE, **record)


def test_check_predicts_the_account_and_no_step_after_a_password_that_must_change(make: Made) -> None:
    site = make(faults=MUST_CHANGE)
    found = site.run_one(check=True)
    assert steps(found) == {"account": "predicted"}
    assert "further steps are not predicted" in errors(found)[0]
    assert site.writes() == []


def test_a_bmc_without_the_account_is_shown_so(make: Made) -> None:
    before = {one.name: one.before for one in make().run_one(check=True).steps}
    assert before["account"] == "no account"


def test_an_own_account_that_was_disabled_becomes_an_administrator_again(make: Made) -> None:
    site = make()
    site.secret("bmc/gpu01", "admin_x:Own-canary_123")
    root = site.accounts()["root"]
    shown = {key: root[key] for key in ("UserName", "RoleId", "Enabled", "Locked")}
    disabled = {**shown, "UserName": "admin_x", "RoleId": "ReadOnly", "Enabled": False}
    site.bmcs["gpu01"].change(accounts={root["Id"]: shown, "7": disabled}, passwords={"7": "another-canary"})
    assert steps(site.run_one()) == CHANGED
    own = site.accounts()["admin_x"]
    assert (own["Id"], own["RoleId"], own["Enabled"], own["Password"]) == ("7", "Administrator", True, "Own-canary_123")
