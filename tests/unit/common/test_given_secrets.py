# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets that a site gives in `bedplate_secrets`: what they are, what is refused, and that no error shows one."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleError

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import ClusterSecrets, secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.given_secrets import GivenSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError, SecretStore

KEY = bytes(range(256))
SHOWN = "Xq7-secret"


def _no_vault(_path: Path) -> bytes:
    raise AnsibleError("no vault secrets were found")


def given(values: Any, base: Path | str = "") -> GivenSecrets:
    return GivenSecrets(values, lambda value: value, _no_vault, str(base))


def secrets(values: Any, directory: Path, make: bool = True) -> ClusterSecrets:
    return ClusterSecrets(given(values), lambda: directory, make)


def test_each_form_keeps_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "munge.key").write_bytes(KEY + b"\n")
    (tmp_path / "munge.key").chmod(0o400)
    found = given(
        {
            "plain": "s3cret\n",
            "text": {"text": "s3cret"},
            "munge_key": {"file": "munge.key"},
            "absolute": {"file": str(tmp_path / "munge.key")},
            "binary": {"base64": base64.encodebytes(KEY).decode()},
        },
        tmp_path,
    )
    read = {name: found.get(name) for name in found.names()}
    assert {name: one.data for name, one in read.items() if one} == {
        "plain": b"s3cret\n",
        "text": b"s3cret",
        "munge_key": KEY + b"\n",
        "absolute": KEY + b"\n",
        "binary": KEY,
    }
    assert given(None).get("munge_key") is None
    assert found.mistakes() == []


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "is empty"),
        (None, "is empty"),
        (12345678, "Put quotes around it"),
        ([SHOWN], "is a list"),
        ({}, "no key"),
        ({"text": SHOWN, "file": SHOWN}, "exactly one of"),
        ({"path": SHOWN}, "has path"),
        ({"base64": f"{SHOWN}*"}, "not valid base64"),
        # Of the right length without the character that is none of base64.
        ({"base64": "AAAAAAAA*"}, "not valid base64"),
        ({"base64": 7}, "is a number"),
        ({"file": ""}, "is empty"),
        ({"file": "/nowhere/at/all"}, "No such file"),
        ({"file": "/"}, "not a file"),
        ({"file": "relative"}, "no cluster file"),
        ({"text": SHOWN, "replaces": ["sha"]}, "SHA-256"),
        ({"text": SHOWN, "replaces": ["ab" * 33]}, "SHA-256"),
        ({"text": SHOWN, "replaces": 3}, "a list of SHA-256"),
    ],
)
def test_a_value_that_cannot_be_is_named_and_not_shown(value: Any, said: str) -> None:
    (mistake,) = given({"token": value}).mistakes()
    assert mistake.startswith("bedplate_secrets.token")
    assert said in mistake
    assert SHOWN not in mistake


@pytest.mark.parametrize("variable", [[SHOWN], SHOWN, 7])
def test_a_variable_that_is_no_map(variable: Any) -> None:
    (mistake,) = given(variable).mistakes()
    assert mistake.startswith("bedplate_secrets: is ")
    assert SHOWN not in mistake


@pytest.mark.parametrize("name", ["munge-key", "Munge", "../key"])
def test_a_name_that_is_none(name: str) -> None:
    (mistake,) = given({name: "s3cret"}).mistakes()
    assert mistake.startswith(f"bedplate_secrets.{name}: not a name")


@pytest.mark.parametrize("name", ["munge_key", "jwt_key"])
@pytest.mark.parametrize(("size", "fits"), [(31, False), (32, True)])
def test_a_short_key_is_refused(name: str, size: int, fits: bool) -> None:
    found = given({name: {"base64": base64.b64encode(KEY[:size]).decode()}}).mistakes()
    assert (found == []) is fits
    assert fits or f"{size} bytes" in found[0]


def test_an_expression_that_fails_is_named() -> None:
    def template(value: Any) -> Any:
        raise AnsibleError("'vault_munge' is undefined")

    (mistake,) = GivenSecrets({"munge_key": "{{ vault_munge }}"}, template, _no_vault).mistakes()
    assert mistake == "bedplate_secrets.munge_key: cannot be evaluated: 'vault_munge' is undefined"


def test_a_file_open_to_others_is_refused_except_a_mounted_credential(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    for path, mode in (tmp_path / "token", 0o444), (tmp_path / "group", 0o440), (credentials / "token", 0o444):
        path.write_text(SHOWN)
        path.chmod(mode)
    for place, shown in (tmp_path / "token", "0444"), (tmp_path / "group", "0440"):
        (mistake,) = given({"token": {"file": str(place)}}).mistakes()
        assert f"{place}: open to others on this machine (mode {shown})" in mistake
    (mistake,) = given({"token": {"file": f"{credentials}/../token"}}).mistakes()
    assert "open to others" in mistake
    assert given({"token": {"file": str(credentials / "token")}}).mistakes() == []


def test_a_file_that_cannot_be_read_names_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_path: Path) -> bytes:
        raise PermissionError

    (tmp_path / "token").touch(0o400)
    monkeypatch.setattr(Path, "read_bytes", refused)
    assert "cannot read it" in given({"token": {"file": str(tmp_path / "token")}}).mistakes()[0]


def test_a_file_that_could_be_committed_is_refused_unless_it_is_encrypted(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    path = tmp_path / "token"
    path.write_text(SHOWN)
    path.chmod(0o400)
    assert f"git work tree {tmp_path}" in given({"token": {"file": str(path)}}).mistakes()[0]
    path.chmod(0o600)
    path.write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    path.chmod(0o644)
    values = {"token": {"file": str(path)}}
    assert "--vault-password-file" in given(values).mistakes()[0]
    unlocked = GivenSecrets(values, lambda value: value, lambda _path: KEY).get("token")
    assert unlocked
    assert unlocked.data == KEY


def test_the_directory_is_not_looked_at_for_a_given_secret() -> None:
    def nowhere() -> Path:
        raise AssertionError

    found = ClusterSecrets(given({"token": "s3cret\n"}), nowhere, make=False)
    assert found.get("token") == b"s3cret\n"
    assert found.text("token") == "s3cret"
    assert found.has("token")
    assert found.mistake("token") == ""
    assert found.keep("token", lambda: b"other") == b"s3cret\n"


def test_a_given_secret_is_preferred_and_leaves_no_trace(tmp_path: Path) -> None:
    SecretStore(tmp_path).get("token")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert secrets({"token": "given"}, tmp_path).get("token") == b"given"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_given_secret_replaces_only_what_it_lists(tmp_path: Path) -> None:
    """What the directory had is no reason: the variable may have the wrong key."""
    SecretStore(tmp_path).get("munge_key")
    key = {"base64": base64.b64encode(KEY).decode()}
    assert secrets({"munge_key": key}, tmp_path).guard("munge_key")["replaces"] == []
    old = "ab" * 32
    guard = secrets({"munge_key": {**key, "replaces": [old]}}, tmp_path).guard("munge_key")
    assert guard["replaces"] == [old]
    assert "bedplate_new_secrets=true" in guard["refusal"]
    assert secrets({}, tmp_path).guard("munge_key")["replaces"] == SecretStore(tmp_path).known("munge_key")


@pytest.mark.parametrize("create", [True, False])
def test_with_never_make_nothing_is_made(tmp_path: Path, create: bool) -> None:
    directory = tmp_path / "state"
    found = secrets({}, directory, make=False)
    for call in (
        lambda: found.get("munge_key", create=create),
        lambda: found.text("token", create=create),
        lambda: found.keep("mirror_signing_key", lambda: b"x"),
    ):
        with pytest.raises(SecretError, match="bedplate_secrets_make is false"):
            call()
    assert not directory.exists()
    assert "bedplate_secrets_make is false" in found.mistake("munge_key")
    SecretStore(directory).get("munge_key")
    assert len(found.get("munge_key")) == 1024


def test_a_password_of_somebody_else_is_never_made(tmp_path: Path) -> None:
    found = secrets({}, tmp_path)
    assert found.mistake("mirror_password") == ""
    assert "not found" in found.mistake("mirror_password", foreign=True)
    with pytest.raises(SecretError, match="not found in bedplate_secrets"):
        found.existing_text("mirror_password")
    assert list(tmp_path.iterdir()) == []


def test_a_short_key_of_the_directory_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "munge_key").write_bytes(b"short")
    (tmp_path / "munge_key").chmod(0o400)
    assert f"{tmp_path}/munge_key: has 5 bytes" in secrets({}, tmp_path).mistake("munge_key")


def test_no_repr_shows_a_value() -> None:
    found = given({"token": SHOWN})
    assert SHOWN not in repr(found) + repr(found.get("token"))


@pytest.mark.parametrize(("value", "made"), [(None, True), (True, True), ("yes", True), (False, False), ("no", False)])
def test_the_variable_says_whether_secrets_are_made(tmp_path: Path, value: Any, made: bool) -> None:
    templar = SimpleNamespace(template=lambda value: value)
    variables = {"bedplate_secrets_dir": str(tmp_path / "state"), "bedplate_secrets_make": value}
    found = secrets_of(variables, templar, None)
    assert (found.mistake("munge_key") == "") is made
    with pytest.raises(SecretError, match="bedplate_secrets_make 'never'; allowed: true, false"):
        secrets_of({**variables, "bedplate_secrets_make": "never"}, templar, None)


def test_no_decrypted_copy_of_a_file_stays(tmp_path: Path) -> None:
    plain = tmp_path / "decrypted"
    plain.write_text(SHOWN)
    (tmp_path / "token").write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    loader = SimpleNamespace(get_real_file=lambda _path: str(plain), cleanup_tmp_file=lambda path: Path(path).unlink())
    variables = {"bedplate_secrets": {"token": {"file": str(tmp_path / "token")}}}
    assert secrets_of(variables, SimpleNamespace(template=lambda value: value), loader).get("token") == SHOWN.encode()
    assert not plain.exists()
