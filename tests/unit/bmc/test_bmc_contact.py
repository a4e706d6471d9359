# SPDX-License-Identifier: GPL-3.0-or-later
"""The first contact: no credential is sent to a BMC whose certificate nothing proves."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_accounts import Accounts, account_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_contact import Contact, contact
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_targets import Reach, Target
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_record import Machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import READ_ONLY, REFUSED, BmcError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Account, Limits
from tests.kit.bmc.simulation import Simulated, Simulation

QUICK = Limits(connect_s=2, answer_s=5, attempts=2, first_delay_s=0.05, patience_s=5)
ACCOUNT = Account("root", "factory-canary")


def reached(
    bmc: Simulated, fingerprint: str = "", ca_file: str = "", *, new: bool = False, accounts: Accounts | None = None
) -> Contact[str]:
    target = Target("gpu01", bmc.address, recorded=Machine(bmc_fingerprint=fingerprint))
    known = accounts or Accounts({"gpu01": ACCOUNT}, {})
    reach = Reach(bmc.port, ca_file, limits=QUICK)
    found = contact([target], known, reach, lambda client: client.get("/redfish/v1/Systems/1").path, trusts_new=new)
    return found["gpu01"]


def test_a_bmc_without_a_record_shows_its_fingerprint_and_receives_no_request(simulation: Simulation) -> None:
    bmc = simulation.add()
    found = reached(bmc)
    assert (found.value, found.error, found.fingerprint) == (None, None, bmc.fingerprint)
    assert bmc.state()["log"] == []


def test_a_run_that_records_trusts_the_fingerprint_it_has_read(simulation: Simulation) -> None:
    bmc = simulation.add()
    found = reached(bmc, new=True)
    assert (found.value, found.fingerprint) == ("/redfish/v1/Systems/1", bmc.fingerprint)
    assert bmc.state()["sessions"] in ({}, [], 0)


def test_a_recorded_fingerprint_is_trusted_and_another_ends_the_contact(simulation: Simulation) -> None:
    bmc = simulation.add()
    assert reached(bmc, bmc.fingerprint).value
    bmc.forget_log()
    for new in (False, True):
        found = reached(bmc, "ab" * 32, new=new)
        assert found.error is not None
        assert (found.error.kind, found.error.found) == ("wrong-certificate", bmc.fingerprint)
        assert "correct `bmc_fingerprint`" in str(found.error)
        assert "bmc_discover" not in str(found.error)
    assert bmc.state()["log"] == []


def test_a_ca_proves_a_bmc_without_a_record_and_one_with_a_renewed_certificate(simulation: Simulation) -> None:
    bmc, foreign = simulation.add(), simulation.add(certificate="other-ca")
    ca = str(bmc.ca_file)
    assert [reached(bmc, one, ca).value for one in ("", "ab" * 32)] == ["/redfish/v1/Systems/1"] * 2
    assert reached(bmc, "", ca).fingerprint == ""
    assert reached(foreign, foreign.fingerprint, ca).value
    foreign.forget_log()
    for fingerprint in ("", "ab" * 32):
        found = reached(foreign, fingerprint, ca, new=True)
        assert found.error is not None
        assert found.error.kind == "wrong-certificate"
    assert foreign.state()["log"] == []


@pytest.mark.parametrize("renewed", [False, True])
def test_a_contact_that_only_reads_sends_no_write(renewed: bool, simulation: Simulation) -> None:
    """By the fingerprint on record, and by the CA after it."""
    bmc = simulation.add()
    target = Target("gpu01", bmc.address, recorded=Machine(bmc_fingerprint="ab" * 32 if renewed else bmc.fingerprint))
    reach = Reach(bmc.port, str(bmc.ca_file), limits=QUICK)
    accounts = Accounts({"gpu01": ACCOUNT}, {})
    found = contact([target], accounts, reach, lambda client: client.patch("/redfish/v1/Systems/1", {"AssetTag": "x"}))
    error = found["gpu01"].error
    assert error is not None
    assert error.kind == READ_ONLY
    assert bmc.writes() == []


@pytest.mark.parametrize("text", ["canary", "root:", ":canary", "root:can\nary", "root:canary\n"])
def test_a_text_that_is_not_an_account(text: str) -> None:
    with pytest.raises(SecretError) as caught:
        account_of("bmc_factory", text)
    assert "canary" not in str(caught.value)


def test_a_node_without_an_account_is_contacted_for_its_fingerprint_alone(simulation: Simulation) -> None:
    bmc = simulation.add()
    none = Accounts({}, {"gpu01": BmcError(REFUSED, "gpu01", "no account", "Write it.")})
    found = reached(bmc, new=True, accounts=none)
    assert found.error is not None
    assert (found.error.what, found.fingerprint) == ("no account", bmc.fingerprint)
    assert bmc.state()["log"] == []
    assert reached(bmc, accounts=none).error is None


def test_a_silent_bmc_is_an_error_of_its_own(simulation: Simulation, tmp_path: Path) -> None:
    bmc = simulation.add()
    targets = [Target("gpu01", bmc.address), Target("gpu02", "127.3.0.1")]
    reach = Reach(bmc.port, limits=QUICK)
    found = contact(targets, Accounts({}, {}), reach, lambda client: "")
    assert list(found) == ["gpu01", "gpu02"]
    assert found["gpu01"].fingerprint
    error = found["gpu02"].error
    assert error is not None
    assert error.kind == "unreachable"
