# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts, network protocols and the certificate of a BMC: written, read back, and refused with the reason of the BMC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.accounts import (
    put_administrator,
    read_accounts,
    set_password,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.certificate import (
    SUBJECT,
    read_place,
    replace_certificate,
    request_certificate,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import BmcError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.network_protocol import (
    end_ipmi,
    read_protocols,
    set_ntp,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.dialects import Dialect
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import (
    Account,
    Bmc,
    Trust,
    verify_certificate,
)

from .conftest import Made

STANDARD, SLOTS = Dialect(), Dialect(accounts_added="slots", accounts_reserved=("1",))
WANTED = Account("bedplate", "Own-canary-123")


def put(bmc: Bmc, dialect: Dialect = STANDARD) -> None:
    with Client(bmc) as client:
        put_administrator(client, read_accounts(client), WANTED, dialect)


def manager(client: Client) -> Any:
    return client.get("/redfish/v1/Managers/1").body


@pytest.mark.parametrize(
    ("spec", "dialect", "slot", "writes"),
    [
        ({}, STANDARD, "2", ["POST Accounts 201"]),
        # The first slot is reserved, which the dialect knows.
        ({"account_slots": 4}, SLOTS, "3", ["PATCH 3 204"]),
        ({"faults": {"tasks": ["account"]}}, STANDARD, "2", ["POST Accounts 202"]),
        ({"faults": {"cut": 1, "cut_after": True, "methods": ["POST"]}}, STANDARD, "2", ["POST Accounts 201"]),
    ],
)
def test_an_administrator_is_created(
    spec: dict[str, Any], dialect: Dialect, slot: str, writes: list[str], make: Made
) -> None:
    simulated, bmc = make(**spec)
    put(bmc, dialect)
    state = simulated.state()
    account = state["accounts"]["bedplate"]
    assert (account["Id"], account["RoleId"], account["Enabled"]) == (slot, "Administrator", True)
    assert account["Password"] == WANTED.password
    found = [f"{one.partition(' ')[0]} {one.rpartition('/')[2]}" for one in simulated.writes()]
    if not spec.get("faults", {}).get("cut"):
        assert found == writes


def test_a_refused_post_fills_a_free_slot_that_is_not_reserved(make: Made) -> None:
    simulated, bmc = make(account_slots=4)
    put(bmc)
    assert simulated.state()["accounts"]["bedplate"]["Id"] == "3"
    assert [one.rpartition(" ")[2] for one in simulated.writes()] == ["405", "405", "204"]


def test_a_refused_password_tries_no_further_slot(make: Made) -> None:
    simulated, bmc = make(account_slots=4, password_sign="_")
    with pytest.raises(BmcError, match="must contain _"):
        put(bmc, SLOTS)
    assert len(simulated.writes()) == 1


def test_an_existing_account_receives_password_and_role(make: Made) -> None:
    simulated, bmc = make()
    put(bmc)
    simulated.change(
        accounts={
            one["Id"]: {
                **one,
                "Enabled": one["Id"] == "1",
                "RoleId": "ReadOnly" if one["Id"] == "2" else "Administrator",
            }
            for one in simulated.state()["accounts"].values()
        }
    )
    put(bmc)
    account = simulated.state()["accounts"]["bedplate"]
    assert (account["RoleId"], account["Enabled"], account["Id"]) == ("Administrator", True, "2")


@pytest.mark.parametrize(
    ("spec", "dialect", "kind", "says"),
    [
        ({"account_slots": 2}, SLOTS, "unsupported", "no free slot among the 2 accounts"),
        (
            {"faults": {"not_taken": ["account"]}},
            STANDARD,
            "not-taken",
            "expected bedplate: Administrator, found no account",
        ),
        ({"faults": {"missing": ["AccountService"]}}, STANDARD, "unsupported", "no AccountService"),
        ({"password_shortest": 30, "faults": {"echo_secrets": True}}, STANDARD, "other", "length of the password"),
    ],
)
def test_accounts_that_cannot_be_created(
    spec: dict[str, Any], dialect: Dialect, kind: str, says: str, make: Made
) -> None:
    _simulated, bmc = make(**spec)
    with pytest.raises(BmcError) as raised:
        put(bmc, dialect)
    assert raised.value.kind == kind
    assert says in str(raised.value)
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("ends", ["none", "own", "all"])
def test_a_password_is_changed_whether_or_not_the_session_ends(ends: str, make: Made) -> None:
    simulated, bmc = make(password_ends=ends)
    with Client(bmc) as client:
        set_password(client, read_accounts(client).members[0].path, WANTED.password)
    assert not client.session_left
    assert simulated.state()["accounts"]["root"]["Password"] == WANTED.password


def test_ntp_and_ipmi_are_written_once_and_read_back(make: Made) -> None:
    simulated, bmc = make(ntp_places=4)
    servers = ("10.0.0.1", "10.0.0.2")
    with Client(bmc) as client:
        for changed in (True, False):
            simulated.forget_log()
            assert set_ntp(client, manager(client), servers).changed is changed
            assert end_ipmi(client, manager(client)).changed is changed
            assert len(simulated.writes()) == 2 * changed
        found = read_protocols(client, manager(client))
    assert (found.ntp, found.has_ntp_on, found.has_ipmi) == (servers, True, False)


def test_predicted_protocols_are_not_written(make: Made) -> None:
    simulated, bmc = make()
    with Client(bmc, read_only=True) as client:
        assert set_ntp(client, manager(client), ("10.0.0.1",)).changed
        assert end_ipmi(client, manager(client)).changed
    assert simulated.writes() == []


Write = Callable[[Client], object]


@pytest.mark.parametrize(
    ("spec", "write", "kind"),
    [
        ({"has_ntp": False}, lambda client: set_ntp(client, manager(client), ("a",)), "unsupported"),
        ({"has_ipmi": False}, lambda client: end_ipmi(client, manager(client)), "unsupported"),
        ({"faults": {"missing": ["NetworkProtocol"]}}, lambda client: end_ipmi(client, manager(client)), "unsupported"),
        ({"faults": {"not_taken": ["protocols"]}}, lambda client: end_ipmi(client, manager(client)), "not-taken"),
        (
            {"faults": {"not_taken": ["protocols"]}},
            lambda client: set_ntp(client, manager(client), ("a",)),
            "not-taken",
        ),
    ],
)
def test_protocols_that_cannot_be_written(spec: dict[str, Any], write: Write, kind: str, make: Made) -> None:
    _simulated, bmc = make(**spec)
    with Client(bmc) as client, pytest.raises(BmcError) as raised:
        write(client)
    assert raised.value.kind == kind


SUBJECT_OF = {**dict.fromkeys(SUBJECT, "x"), "Country": "XX"}


@pytest.mark.parametrize("dialect", [STANDARD, Dialect(certificate_applies="bmc_reset")])
@pytest.mark.parametrize("shape", [{}, {"certificate_service": False}])
def test_a_certificate_is_requested_where_the_bmc_offers_it(
    shape: dict[str, Any], dialect: Dialect, make: Made
) -> None:
    _simulated, bmc = make(**shape)
    with Client(bmc) as client:
        if shape or dialect != STANDARD:
            with pytest.raises(BmcError) as raised:
                read_place(client, manager(client), dialect)
            assert raised.value.kind == "unsupported"
        else:
            place = read_place(client, manager(client), dialect)
            assert "BEGIN CERTIFICATE REQUEST" in request_certificate(client, place, SUBJECT_OF)


def test_a_certificate_of_another_key_is_refused_and_the_trust_stays(make: Made) -> None:
    simulated, bmc = make()
    with Client(bmc) as client:
        place = read_place(client, manager(client), STANDARD)
        request_certificate(client, place, SUBJECT_OF)
        pem = simulated.ca_file.read_text()
        with pytest.raises(BmcError, match="not of the last request"):
            replace_certificate(client, place, pem, "ab" * 32, Trust(ca_file=str(simulated.ca_file)))
        assert client.bmc.trust == bmc.trust
    assert not client.session_left


def test_a_served_certificate_is_verified_without_a_request(make: Made) -> None:
    simulated, bmc = make()
    by_ca = Bmc(bmc.node, bmc.address, Trust(ca_file=str(simulated.ca_file)), bmc.account, bmc.port)
    assert verify_certificate(by_ca).fingerprint == simulated.fingerprint
    for spec in ({"certificate": "other-ca"}, {"certificate": "expired"}, {"certificate": "other-name"}):
        other, _bmc = make(**spec)
        with pytest.raises(BmcError) as raised:
            verify_certificate(Bmc("n", other.address, by_ca.trust, bmc.account, other.port))
        assert raised.value.kind == "wrong-certificate"
        assert other.state()["log"] == []
    assert simulated.state()["log"] == []
