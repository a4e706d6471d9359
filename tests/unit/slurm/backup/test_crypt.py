# SPDX-License-Identifier: GPL-3.0-or-later
"""Streams are encrypted to a public key and opened by a private key or by their session key; errors have no key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.crypt import (
    CryptError,
    KeyFolder,
    key_mistake,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.pipes import PipeError, Program
from tests.kit.backups import PASSPHRASE, Keys

PLAIN = os.urandom(300_000)


@pytest.fixture
def encrypted(keys: Keys, tmp_path: Path) -> Path:
    with KeyFolder() as folder:
        with folder.encrypted(tmp_path / "x.gpg", keys.public, 60) as sink:
            for start in range(0, len(PLAIN), 100_000):
                sink.write(PLAIN[start : start + 100_000])
        assert sink.facts()["bytes"] == len(PLAIN)
    assert not folder.path.exists()
    return tmp_path / "x.gpg"


def test_a_private_key_opens_it_and_names_the_session_key(encrypted: Path, keys: Keys):
    assert encrypted.stat().st_mode & 0o777 == 0o600
    assert PLAIN[:64] not in encrypted.read_bytes()
    with KeyFolder() as folder:
        folder.accept(keys.private)
        found = bytearray()
        session = folder.decrypted(encrypted, PASSPHRASE, 60, found.extend)
        assert bytes(found) == PLAIN
        assert folder.session(encrypted, PASSPHRASE, 60) == session
    assert not folder.path.exists()


def test_a_session_key_opens_it_without_a_private_key(encrypted: Path, keys: Keys):
    with KeyFolder() as folder:
        folder.accept(keys.private)
        session = folder.session(encrypted, PASSPHRASE, 60)
    found = bytearray()
    with KeyFolder() as empty:
        empty.opened(encrypted, session, 60, found.extend)
    assert bytes(found) == PLAIN


def test_a_wrong_passphrase_key_or_end_is_an_error_without_a_key(encrypted: Path, keys: Keys):
    with KeyFolder() as folder:
        folder.accept(keys.private)
        session = folder.session(encrypted, PASSPHRASE, 60)
        with KeyFolder() as second:
            second.accept(keys.private)
            with pytest.raises(CryptError, match="cannot be decrypted"):
                second.decrypted(encrypted, b"wrong", 60, lambda _data: None)
        with KeyFolder() as third:
            third.accept(keys.other)
            with pytest.raises(CryptError, match="cannot be decrypted"):
                third.session(encrypted, b"", 60)
        encrypted.write_bytes(encrypted.read_bytes()[:-1000])
        with pytest.raises(CryptError) as error:
            folder.decrypted(encrypted, PASSPHRASE, 60, lambda _data: None)
    assert session.partition(":")[2] not in str(error.value)


def write(folder: KeyFolder, target: Path, recipient: Path, failing: bool = False) -> None:
    with folder.encrypted(target, recipient, 60) as sink:
        sink.write(PLAIN)
        if failing:
            raise ZeroDivisionError


def test_a_failure_leaves_no_file(keys: Keys, tmp_path: Path):
    with KeyFolder() as folder:
        with pytest.raises(ZeroDivisionError):
            write(folder, tmp_path / "x.gpg", keys.public, failing=True)
        wrong = tmp_path / "no-key"
        wrong.write_text("no key")
        with pytest.raises(CryptError, match="no-key"):
            write(folder, tmp_path / "y.gpg", wrong)
    assert [path.name for path in tmp_path.iterdir()] == ["no-key"]
    assert not folder.path.exists()


def test_the_kind_of_a_key(keys: Keys):
    public, private = keys.public.read_bytes(), keys.private.read_bytes()
    assert key_mistake(public, private=False) == key_mistake(private, private=True) == ""
    assert "OpenPGP private key" in key_mistake(private, private=False)
    assert "OpenPGP public key" in key_mistake(public, private=True)
    assert "not an OpenPGP" in key_mistake(b"age1xyz", private=False)


def read(argv: list[str], seconds: float) -> bytes:
    with Program(argv, seconds) as program:
        found = b"".join(program.chunks())
        program.succeed()
        return found


def test_a_program_that_does_not_end_is_stopped():
    with pytest.raises(PipeError, match=r"stopped after 0\.3 s"):
        read(["sleep", "60"], 0.3)


def test_a_program_that_fails_says_why():
    assert read(["echo", "x"], 5) == b"x\n"
    with pytest.raises(PipeError, match="sh: it broke"):
        read(["sh", "-c", "echo it broke >&2; exit 3"], 5)
    with pytest.raises(PipeError, match="no-such-program"):
        read(["no-such-program"], 5)
