# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables, nodes and CA of a run: all mistakes at once, before a BMC is contacted; and a CA that is made once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc import bmc_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.run_input import RunError, RunInput, reach_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission import bmc_authority
from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission.commission_input import order_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission.commission_order import CommissionOrder
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import ClusterSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.given_secrets import GivenSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_record import Machine
from tests.unit.stand_ins import cluster_file

RECORD = {f"gpu0{number}": Machine(serial=f"S{number}") for number in range(1, 4)}


def ordered(folder: Path, *, ca: str = "", check: bool = False, **variables: Any) -> CommissionOrder:
    path = folder / "c.bedplate.yml"
    text = cluster_file({"a": {}}, {"a": "gpu[01-04]"}).replace(
        "networks:\n", "networks:\n  bmc: {cidr: 10.1.0.0/24}\n"
    )
    path.write_text(text + (f"provision: {{host: ctl1, bmc: {{ca: {ca}}}}}\n" if ca else ""))
    cluster = load(str(path))
    choices = bmc_variables.choices({"bmc_nodes": "gpu[01-02]", **variables}, "bmc_commission")
    given = RunInput(cluster, RECORD, choices, reach_of(cluster, 443))
    secrets = ClusterSecrets(GivenSecrets({}, lambda value: value, lambda path: b""), lambda: folder / "secrets")
    return order_of(given, secrets, check=check)[1]


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({}, ["bmc_nodes is missing; allowed: names of nodes"]),
        ({"bmc_nodes": "gpu01", "bmc_ntp": "a b,c"}, ["bmc_ntp: 'a b,c'; allowed:"]),
        (
            {"bmc_nodes": "gpu01", "bmc_user": "a:b", "bmc_certificate_days": 1},
            ["bmc_certificate_days: 1", "bmc_user: 'a:b'"],
        ),
        (
            {"bmc_nodes": "gpu01", "bmc_keep_ipmi": "perhaps", "bmc_ca_kye": "x"},
            ["bmc_ca_key", "bmc_keep_ipmi: 'perhaps'"],
        ),
        ({"bmc_nodes": "gpu01", "bmc_ntp": ["10.0.0.1", "fd00::1"]}, []),
    ],
)
def test_mistakes_in_variables(variables: dict[str, object], says: list[str]) -> None:
    found = bmc_variables.mistakes(variables, "bmc_commission")
    assert len(found) == len(says)
    assert all(text in one for text, one in zip(says, found, strict=True)), found


def test_variables_become_an_order(tmp_path: Path) -> None:
    found = ordered(tmp_path, bmc_ntp="10.0.0.1, ntp2", bmc_keep_ipmi="true", bmc_user="ops")
    assert (found.user, found.ntp, found.ends_ipmi, found.authority) == ("ops", ("10.0.0.1", "ntp2"), False, None)


def test_all_mistakes_are_reported_at_once_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(RunError) as raised:
        ordered(tmp_path, bmc_nodes="gpu[03-05]", bmc_ca_key="key.pem", ca="ca.pem")
    lines = str(raised.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["bmc_nodes", "provision.bmc.ca"]
    with pytest.raises(RunError) as raised:
        ordered(tmp_path, bmc_nodes="gpu[03-04]", bmc_ca_key="make", ca="ca.pem")
    assert str(raised.value).startswith("gpu04: no serial number on record")
    assert not (tmp_path / "ca.pem").exists()
    assert not (tmp_path / "secrets").exists()


@pytest.mark.parametrize("nodes", ["all", "*", "", "ctl1"])
def test_there_is_no_word_for_all_nodes(nodes: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="bmc_nodes"):
        ordered(tmp_path, bmc_nodes=nodes)


def test_a_site_gives_its_ca(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(bmc_authority.new_key())
    key.chmod(0o400)
    (tmp_path / "ca.pem").write_bytes(bmc_authority.new_certificate(key.read_bytes(), "x", "x"))
    found = ordered(tmp_path, ca="ca.pem", bmc_ca_key=str(key))
    assert (found.authority is not None, found.may_sign, found.reach.ca_file) == (True, True, str(tmp_path / "ca.pem"))
    found = ordered(tmp_path, ca="ca.pem")
    assert (found.authority, found.may_sign) == (None, False)


@pytest.mark.parametrize(
    ("key", "mode", "ca", "says"),
    [
        ("", 0o400, "ca.pem", "no private key in PEM form"),
        ("right", 0o444, "ca.pem", "is open to others .mode 0444."),
        ("other", 0o400, "ca.pem", "with .*ca.pem: the key belongs to none of its certificates"),
        ("right", 0o400, "", "the cluster file names no CA"),
    ],
)
def test_a_key_that_cannot_be_used(key: str, mode: int, ca: str, says: str, tmp_path: Path) -> None:
    right, path = bmc_authority.new_key(), tmp_path / "key.pem"
    path.write_bytes({"right": right, "other": bmc_authority.new_key()}.get(key, b""))
    path.chmod(mode)
    (tmp_path / "ca.pem").write_bytes(bmc_authority.new_certificate(right, "x", "x"))
    with pytest.raises(RunError, match=says):
        ordered(tmp_path, ca=ca, bmc_ca_key=str(path))


@pytest.mark.parametrize(("value", "says"), [("key.pem", "an absolute path"), ("/nowhere/key", "No such file")])
def test_a_path_that_is_not_one(value: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(bmc_authority.new_certificate(bmc_authority.new_key(), "x", "x"))
    with pytest.raises(RunError, match=says):
        ordered(tmp_path, ca="ca.pem", bmc_ca_key=value)


def test_a_ca_is_made_once_its_key_first(tmp_path: Path) -> None:
    predicted = ordered(tmp_path, ca="keys/ca.pem", bmc_ca_key="make", check=True)
    assert (predicted.authority, predicted.may_sign, predicted.reach.ca_file) == (None, True, "")
    assert not (tmp_path / "secrets").exists()
    first = ordered(tmp_path, ca="keys/ca.pem", bmc_ca_key="make").authority
    key = tmp_path / "secrets/bmc_ca_key"
    assert key.stat().st_mode & 0o777 == 0o400
    assert "PRIVATE" not in (tmp_path / "keys/ca.pem").read_text()
    again = ordered(tmp_path, ca="keys/ca.pem", bmc_ca_key="make", check=True).authority
    assert first
    assert again
    assert again.certificate == first.certificate
    # A run that was killed between the two files.
    (tmp_path / "keys/ca.pem").unlink()
    assert ordered(tmp_path, ca="keys/ca.pem", bmc_ca_key="make").authority
    key.unlink()
    with pytest.raises(RunError, match="has a CA, and there is no secret bmc_ca_key"):
        ordered(tmp_path, ca="keys/ca.pem", bmc_ca_key="make")
