# SPDX-License-Identifier: GPL-3.0-or-later
"""The secrets of a turn on the control node: never lost, whenever a run is killed, and never open to others."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import digest
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import ClusterSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.given_secrets import GivenSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError, SecretStore
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys.turn_record import (
    FINISHED,
    FINISHING,
    STAGING,
    SWITCHING,
    TurnFile,
    TurnRecord,
    TurnRecordError,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys.turned_secrets import NEXT, OLD, TurnedSecrets


def of(directory: Path, given: dict[str, Any] | None = None) -> TurnedSecrets:
    own = GivenSecrets(given, lambda value: value, lambda path: path.read_bytes())
    return TurnedSecrets(ClusterSecrets(own, lambda: directory))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = tmp_path / "secrets"
    SecretStore(found).get("munge_key")
    return found


def test_a_turn_keeps_both_keys_until_it_is_finished(directory: Path):
    turned = of(directory)
    old, new = turned.old("munge_key"), turned.new("munge_key")
    assert len(new) == 1024
    assert old != new
    assert (directory / "munge_key").read_bytes() == old
    assert turned.promote("munge_key") is True
    assert (turned.old("munge_key"), turned.new("munge_key")) == (old, new)
    assert (directory / "munge_key").read_bytes() == new
    assert turned.promote("munge_key") is False
    modes = {stat.S_IMODE(path.stat().st_mode) for path in directory.glob("munge_key*")}
    assert modes == {0o400}
    turned.forget("munge_key", OLD)
    assert sorted(path.name for path in directory.glob("munge_key*")) == ["munge_key"]


def test_a_machine_with_the_old_key_may_be_given_the_new_one(directory: Path):
    turned = of(directory)
    old = turned.old("munge_key")
    new = turned.new("munge_key")
    turned.promote("munge_key")
    turned.forget("munge_key", OLD)
    guard = ClusterSecrets(GivenSecrets(None, str, Path.read_bytes), lambda: directory).guard("munge_key")
    assert {digest(old), digest(new)} <= set(guard["replaces"])


def test_a_promotion_that_was_killed_in_between_is_repeated(directory: Path):
    turned = of(directory)
    old, new = turned.old("munge_key"), turned.new("munge_key")
    (directory / "munge_key_old").hardlink_to(directory / "munge_key")
    again = of(directory)
    assert not again.is_promoted("munge_key")
    assert (again.old("munge_key"), again.new("munge_key")) == (old, new)
    assert again.promote("munge_key")
    assert (again.old("munge_key"), again.new("munge_key")) == (old, new)


def test_a_secret_of_the_site_is_neither_made_nor_moved(tmp_path: Path):
    given = {"munge_key": "o" * 40, "munge_key_next": "n" * 40}
    turned = of(tmp_path / "none", given)
    turned.require("munge_key")
    assert (turned.old("munge_key"), turned.new("munge_key")) == (b"o" * 40, b"n" * 40)
    assert turned.promote("munge_key") is False
    turned.forget("munge_key", NEXT)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "secret munge_key: not found"),
        ({"munge_key": "o" * 40}, "Add the new one as bedplate_secrets.munge_key_next"),
        ({"munge_key": "o" * 40, "munge_key_next": "o" * 40}, "the same as bedplate_secrets.munge_key"),
        ({"munge_key": "o" * 40, "munge_key_next": "n" * 8}, "munge_key_next: has 8 bytes"),
    ],
)
def test_what_cannot_be_turned(tmp_path: Path, given: dict[str, Any], said: str):
    with pytest.raises(SecretError) as error:
        of(tmp_path / "none", given).require("munge_key")
    assert said in str(error.value)
    assert "oooo" not in str(error.value)


def test_the_record_survives(tmp_path: Path):
    file = TurnFile(tmp_path / "secrets")
    assert file.read() is None
    record = TurnRecord("3f2a9c1b", ("munge_key",), without={"n7": "no answer by SSH"}, since=5.5)
    file.write(record)
    assert file.read() == record
    file.write(record.at(SWITCHING))
    found = file.read()
    assert found == record.at(SWITCHING)
    assert found.is_open
    assert not record.at(FINISHED).is_open
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700


def test_machines_that_were_left_out_are_known_once_the_new_key_is_the_clusters(tmp_path: Path):
    file = TurnFile(tmp_path / "secrets")
    assert file.left_out() == []
    record = TurnRecord("3f2a9c1b", ("munge_key",), without={"n7": "no answer by SSH", "n2": "no answer by SSH"})
    for stage, names in ((STAGING, []), (SWITCHING, []), (FINISHING, ["n2", "n7"]), (FINISHED, ["n2", "n7"])):
        file.write(record.at(stage))
        assert file.left_out() == names


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1, "turn": "x", "keys": [], "stage": "odd"}'])
def test_a_damaged_record_is_an_error(tmp_path: Path, text: str):
    (tmp_path / "turn_keys.json").write_text(text)
    with pytest.raises(TurnRecordError, match="not a record of a turn"):
        TurnFile(tmp_path).read()
