# SPDX-License-Identifier: GPL-3.0-or-later
"""Trust: the pinned fingerprint, the CA and the name; nothing is sent to a BMC with another certificate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish import errors
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import BmcError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Trust, read_fingerprint
from tests.kit.bmc.connect import bmc_of

from .conftest import Made


def test_ca_and_fingerprint_open_a_session(make: Made) -> None:
    simulated, bmc = make()
    for one in (bmc, bmc_of(simulated, by_ca=True)):
        with Client(one) as client:
            assert client.get("/redfish/v1/Systems").status == 200


@pytest.mark.parametrize("certificate", ["expired", "other-name", "other-ca"])
def test_certificate_that_the_ca_does_not_prove_is_refused(make: Made, certificate: str) -> None:
    simulated, bmc = make(certificate=certificate)
    with pytest.raises(BmcError) as caught, Client(bmc_of(simulated, by_ca=True)):
        pass
    assert caught.value.kind == errors.WRONG_CERTIFICATE
    assert simulated.state()["requests"] == {}
    assert str(simulated.ca_file) in caught.value.remedy
    assert "record it as bmc_fingerprint" in caught.value.remedy
    # A pinned certificate may be expired: factory certificates are.
    with Client(bmc) as client:
        assert client.root


def test_another_fingerprint_is_refused_before_any_request(make: Made) -> None:
    simulated, bmc = make()
    with pytest.raises(BmcError) as caught, Client(replace(bmc, trust=Trust(fingerprint="ab" * 32))):
        pass
    assert caught.value.kind == errors.WRONG_CERTIFICATE
    assert (caught.value.expected, caught.value.found) == ("ab" * 32, simulated.fingerprint)
    assert simulated.state()["requests"] == {}


def test_name_in_the_certificate_can_differ_from_the_address(make: Made) -> None:
    simulated, _bmc = make(certificate="other-name")
    with Client(replace(bmc_of(simulated, by_ca=True), name="127.255.255.254")) as client:
        assert client.root


def test_first_contact_reads_the_fingerprint_and_sends_nothing(make: Made) -> None:
    simulated, bmc = make(certificate="expired")
    assert read_fingerprint(bmc.node, bmc.address, bmc.port) == simulated.fingerprint
    assert simulated.state()["requests"] == {}
    with pytest.raises(BmcError) as caught:
        read_fingerprint("gpu001", "127.1.250.1", 1)
    assert caught.value.kind == errors.UNREACHABLE


def test_fingerprint_with_colons_and_capitals(make: Made) -> None:
    simulated, bmc = make()
    text = ":".join(simulated.fingerprint[at : at + 2].upper() for at in range(0, 64, 2))
    with Client(replace(bmc, trust=Trust(fingerprint=text))) as client:
        assert client.root
