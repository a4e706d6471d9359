# SPDX-License-Identifier: GPL-3.0-or-later
"""Commissioning of simulated BMCs: what they have afterwards, what a second run sends, and what is refused before the first write."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission import access
from tests.unit.commission.commissioned_site import NTP, CommissionedSite, Made, errors, steps

ALL = ("account", "factory", "ntp", "ipmi", "certificate", "record")
CHANGED = dict.fromkeys(ALL, "changed")
SAME = dict.fromkeys(ALL, "same")
SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"account_slots": 16},
    {"password_ends": "own"},
    {"password_ends": "all"},
    {"certificate_restarts": True},
    {"session_service": False},
    {"etag": "required"},
    {"etag": "weak-as-strong"},
    {"ntp_places": 4},
    {"password_longest": 16},
    {"password_shortest": 24},
    {"password_sign": "-"},
    {"faults": {"tasks": ["account", "protocols", "certificate"]}},
    {"faults": {"takes_s": 0.3}},
    {"faults": {"not_taken": ["account"], "not_taken_count": 1}},
    {"faults": {"not_taken": ["password"], "not_taken_count": 1}},
    {"faults": {"not_taken": ["protocols"], "not_taken_count": 1}},
    {"faults": {"busy": 2, "methods": ["PATCH"]}},
)


def is_done(site: CommissionedSite, node: str = "gpu01") -> None:
    """Assert that a BMC has what a commissioned one has, and that the next run sends reads alone."""
    state, accounts = site.bmcs[node].state(), site.accounts(node)
    user, password = site.saved(node)
    assert (accounts[user]["RoleId"], accounts[user]["Enabled"], accounts[user]["Password"]) == (
        "Administrator",
        True,
        password,
    )
    assert "factory-canary" not in [one["Password"] for one in accounts.values()]
    assert state["protocols"] == {"ntp": list(NTP), "ntp_on": True, "ipmi": False}
    assert site.recorded[node]["bmc_fingerprint"] == state["fingerprint"] != site.bmcs[node].fingerprint
    assert state["sessions"] == 0
    assert site.files() == sorted(site.names)
    site.forget()
    again = site.run()
    assert steps(again[node]) == SAME, errors(again[node])
    assert site.writes() == []


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_new_bmc_is_commissioned_once(shape: dict[str, Any], make: Made) -> None:
    site = make(**shape)
    found = site.run_one()
    assert errors(found) == []
    assert steps(found) == CHANGED
    is_done(site)


def test_an_account_is_saved_only_once_a_login_has_proved_it(make: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    site = make()
    accepts = access.accepts
    monkeypatch.setattr(
        access, "accepts", lambda clients, bmc, account: account.user == "root" and accepts(clients, bmc, account)
    )
    found = site.run_one()
    assert found.error is not None
    assert found.error.kind == "not-taken"
    assert not (site.secrets / "bmc/gpu01").exists()
    assert (site.secrets / "bmc/gpu01.pending").exists()
    # The factory's account still is the way in.
    assert site.accounts()["root"]["Password"] == "factory-canary"


def test_password_has_the_mode_of_a_secret_and_fits_ipmi(make: Made) -> None:
    site = make()
    site.run()
    path = site.secrets / "bmc/gpu01"
    assert path.stat().st_mode & 0o777 == 0o400
    user, password = site.saved()
    assert (user, len(password)) == ("bedplate", 20)
    assert password != site.accounts()["root"]["Password"] or user != "root"


def test_check_predicts_and_sends_reads_alone(make: Made) -> None:
    site = make()
    before = site.record_file.read_text()
    found = site.run_one(check=True)
    assert errors(found) == []
    assert steps(found) == dict.fromkeys(ALL, "predicted")
    assert site.writes() == []
    assert site.record_file.read_text() == before
    assert not (site.secrets / "bmc").exists()
    site.run()
    assert steps(site.run_one(check=True)) == SAME


def test_twenty_bmcs_at_once_and_one_that_fails_does_not_stop_the_others(make: Made) -> None:
    nodes = [f"gpu{number:02}" for number in range(1, 21)]
    site = make(*nodes)
    site.bmcs["gpu07"].faults(serial="OTHER")
    found = site.run()
    assert [node for node, one in found.items() if one.has_failed] == ["gpu07"]
    assert len({site.saved(node) for node in nodes if node != "gpu07"}) == 19
    assert site.bmcs["gpu07"].writes() == []
    fingerprints = {node: site.recorded[node]["bmc_fingerprint"] for node in nodes}
    assert {node for node in nodes if fingerprints[node] != site.bmcs[node].fingerprint} == set(nodes) - {"gpu07"}
    site.bmcs["gpu07"].faults()
    site.forget()
    again = site.run()
    assert steps(again["gpu07"]) == CHANGED
    assert {node for node, one in again.items() if one.is_changed} == {"gpu07"}
    assert {one.partition(" ")[0] for one in site.writes()} == {"gpu07"}


def test_another_serial_or_none_on_record_is_refused_before_the_first_write(make: Made) -> None:
    site = make("gpu01", "gpu02")
    site.record(gpu01={"serial": "SN-OTHER"}, gpu02={"serial": ""})
    found = site.run()
    assert [
        "another machine answers" in errors(found["gpu01"])[0],
        "is not on record" in errors(found["gpu02"])[0],
    ] == [
        True,
        True,
    ]
    assert site.writes() == []
    assert not (site.secrets / "bmc").exists()


@pytest.mark.parametrize("ca", [True, False])
def test_another_certificate_than_the_recorded_one_receives_no_password(ca: bool, make: Made) -> None:
    site = make()
    site.record(gpu01={"bmc_fingerprint": "ab" * 32})
    before = site.record_file.read_text()
    found = site.run_one(ca=ca)
    assert found.error
    assert (found.error.kind, found.error.found) == ("wrong-certificate", site.bmcs["gpu01"].fingerprint)
    assert site.bmcs["gpu01"].state()["log"] == []
    assert site.record_file.read_text() == before


def test_a_certificate_of_the_ca_that_this_playbook_did_not_sign_is_a_finding(make: Made) -> None:
    site = make()
    site.run()
    site.record(gpu01={"bmc_fingerprint": "ab" * 32})
    site.forget()
    found = site.run_one()
    assert found.error
    assert found.error.kind == "wrong-certificate"
    assert site.bmcs["gpu01"].state()["log"] == []
    assert site.recorded["gpu01"]["bmc_fingerprint"] == "ab" * 32


def test_a_certificate_without_a_record_is_trusted_if_it_is_of_the_ca(make: Made) -> None:
    site = make()
    site.record(gpu01={"bmc_fingerprint": ""})
    found = site.run_one()
    assert found.error
    assert (
        f"its SHA-256 is {site.bmcs['gpu01'].fingerprint}" in str(found.error)
        or found.error.kind == "wrong-certificate"
    )
    assert site.bmcs["gpu01"].state()["log"] == []
    site.record()
    site.run()
    served = site.bmcs["gpu01"].state()["fingerprint"]
    site.record(gpu01={"bmc_fingerprint": ""})
    assert steps(site.run_one()) == {**SAME, "record": "changed"}
    assert site.recorded["gpu01"]["bmc_fingerprint"] == served


def test_without_a_ca_the_other_steps_are_done_and_without_its_key_the_certificate_is_a_finding(make: Made) -> None:
    site = make()
    without = {name: state for name, state in CHANGED.items() if name not in ("certificate", "record")}
    assert steps(site.run_one(ca=False)) == without
    found = site.run_one(signs=False)
    assert steps(found) == {**dict.fromkeys(without, "same"), "certificate": "failed"}
    assert "there is no key to sign one" in errors(found)[0]
    assert steps(site.run_one())["certificate"] == "changed"


@pytest.mark.parametrize(
    ("shape", "failed", "says"),
    [
        ({"has_ntp": False}, "ntp", "shows no NTP servers"),
        ({"has_ipmi": False}, "ipmi", "does not show whether IPMI is on"),
        ({"certificate_service": False}, "certificate", "no GenerateCSR and no ReplaceCertificate"),
        ({"faults": {"not_taken": ["protocols"]}}, "ntp", "NTP was accepted and not taken"),
        ({"faults": {"not_taken": ["certificate"]}}, "certificate", "certificate was accepted and not taken"),
    ],
)
def test_a_step_that_a_bmc_cannot_do_is_a_finding_and_the_others_follow(
    shape: dict[str, Any], failed: str, says: str, make: Made
) -> None:
    site = make(**shape)
    found = site.run_one()
    assert steps(found)[failed] == "failed"
    assert steps(found)["account"] == steps(found)["factory"] == "changed"
    assert says in errors(found)[0]
    assert site.bmcs["gpu01"].state()["sessions"] == 0
    if failed == "certificate":
        assert site.recorded["gpu01"]["bmc_fingerprint"] == site.bmcs["gpu01"].fingerprint
        site.bmcs["gpu01"].faults()
        site.bmcs["gpu01"].change(certificate_service=True)
        assert steps(site.run_one())["certificate"] == "changed"


def test_a_refused_password_has_the_reason_of_the_bmc_and_a_site_can_choose_another(make: Made) -> None:
    site = make(password_sign="_", faults={"echo_secrets": True})
    found = site.run_one()
    assert "The password must contain _." in errors(found)[0]
    pending = (site.secrets / "bmc/gpu01.pending").read_text().partition(":")[2]
    assert pending not in str(errors(found))
    assert list(site.accounts()) == ["root"]
    site.secret("bmc/gpu01", "admin_x:Own-canary_123")
    assert steps(site.run_one()) == CHANGED
    assert site.accounts()["admin_x"]["Password"] == site.accounts()["root"]["Password"] == "Own-canary_123"


def test_a_site_can_keep_the_factory_s_account_with_another_password(make: Made) -> None:
    site = make(password_ends="own")
    site.secret("bmc/gpu01", "root:Own-canary_123")
    assert steps(site.run_one()) == {**CHANGED, "factory": "same"}
    assert list(site.accounts()) == ["root"]
    assert steps(site.run_one()) == SAME


def test_the_factory_s_account_as_own_account_is_refused(make: Made) -> None:
    site = make()
    site.secret("bmc/gpu01", "root:factory-canary")
    found = site.run_one()
    assert steps(found) == {"account": "same", "factory": "failed"}
    assert "has the factory's account" in errors(found)[0]


def test_an_account_with_an_unknown_password_is_never_overwritten(make: Made) -> None:
    site = make()
    site.run()
    (site.secrets / "bmc/gpu01").unlink()
    site.bmcs["gpu01"].change(password="factory-canary")
    site.forget()
    found = site.run_one()
    assert "the account bedplate exists, and its password is not among the secrets" in errors(found)[0]
    assert site.writes() == []


def test_a_bmc_that_lost_its_accounts_gets_the_saved_one_again(make: Made) -> None:
    site = make()
    site.run()
    saved = site.saved()
    state = site.bmcs["gpu01"].state()["accounts"]["root"]
    site.bmcs["gpu01"].change(
        password="factory-canary",
        accounts={"1": {key: state[key] for key in ("UserName", "RoleId", "Enabled", "Locked")}},
    )
    assert steps(site.run_one()) == {**SAME, "account": "changed", "factory": "changed"}
    assert site.saved() == saved


def test_an_own_account_that_is_not_an_administrator_is_a_finding(make: Made) -> None:
    site = make()
    site.run()
    accounts = site.accounts()
    site.bmcs["gpu01"].change(accounts={one["Id"]: {**one, "RoleId": "ReadOnly"} for one in accounts.values()})
    assert "is not an administrator: bedplate: ReadOnly" in errors(site.run_one())[0]


def test_no_account_at_all_is_named(make: Made) -> None:
    site = make()
    site.bmcs["gpu01"].change(password="unknown-canary")
    found = site.run_one()
    assert "refuses all known accounts: root" in errors(found)[0]
    (site.secrets / "bmc_factory").unlink()
    assert "no account to try" in errors(site.run_one())[0]


def test_a_factory_account_that_must_change_its_password_first(make: Made) -> None:
    site = make(faults={"password_change": True}, password_ends="own")
    assert "further steps are not predicted" in errors(site.run_one(check=True))[0]
    assert site.writes() == []
    assert steps(site.run_one()) == {**CHANGED, "factory": "same"}
    is_done(site)


def test_such_an_account_of_a_bmc_that_only_a_ca_proves_is_refused(make: Made, simulation: Any) -> None:
    site = make(faults={"password_change": True})
    site.record(gpu01={"bmc_fingerprint": ""})
    site.ca_file.write_bytes(simulation.ca_file.read_bytes())
    found = site.run_one(signs=False)
    assert "nothing on record proves the BMC" in errors(found)[0]
    assert site.writes() == []


def test_a_certificate_that_ends_soon_is_replaced(make: Made) -> None:
    site = make()
    assert steps(site.run_one(days=20)) == CHANGED
    assert steps(site.run_one()) == {**SAME, "certificate": "changed", "record": "changed"}
    assert steps(site.run_one()) == SAME


def test_ipmi_and_ntp_stay_if_they_are_not_ordered(make: Made) -> None:
    site = make()
    assert set(steps(site.run_one(ntp=(), ends_ipmi=False))) == {"account", "factory", "certificate", "record"}
    assert site.bmcs["gpu01"].state()["protocols"] == {"ntp": [], "ntp_on": True, "ipmi": True}


def test_a_missing_factory_secret_is_not_called_gone(make: Made) -> None:
    site = make()
    site.run()
    (site.secrets / "bmc_factory").unlink()
    assert steps(site.run_one()) == {**SAME, "factory": "unknown"}


def test_a_record_that_changed_during_the_run_is_left_alone(make: Made) -> None:
    site = make()
    site.run()
    site.record(gpu01={"bmc_fingerprint": site.bmcs["gpu01"].state()["fingerprint"]})
    from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission import commission_run
    from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import BmcError

    record = commission_run.record_of(site.cluster_file, ["gpu01", "ctl1"], write=True)
    with pytest.raises(BmcError, match="changed during this run"):
        record("gpu01", "ab" * 32, "cd" * 32)
    assert site.recorded["gpu01"]["bmc_fingerprint"] == site.bmcs["gpu01"].state()["fingerprint"]
