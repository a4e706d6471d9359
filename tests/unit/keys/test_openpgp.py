"""Fingerprints of armored keys, compared with those that gpg prints."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.plugin_utils.keys import openpgp
from tests.kit.public_keys import ONE, ONE_FINGERPRINT, TWO, TWO_FINGERPRINT


def gpg(home: Path, *arguments: str, stdin: str = "") -> str:
    command = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback"]
    done = subprocess.run([*command, *arguments], input=stdin, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


def of_gpg(listing: str) -> list[str]:
    """Return the fingerprints of primary keys in what --with-colons prints."""
    found, primary = [], False
    for row in (line.split(":") for line in listing.splitlines()):
        if row[0] == "fpr" and primary:
            found.append(row[9])
        primary = row[0] == "pub"
    return found


@pytest.mark.parametrize("subkeys", [False, True])
def test_gpg_prints_the_same_fingerprints(tmp_path: Path, subkeys: bool) -> None:
    home = tmp_path / "g"
    home.mkdir(mode=0o700)
    try:
        for name, kind in (("a", "ed25519"), ("b", "rsa2048")):
            gpg(home, "--passphrase", "", "--quick-generate-key", f"{name}@example.org", kind, "sign", "never")
        if subkeys:
            main = of_gpg(gpg(home, "--with-colons", "--list-keys", "b@example.org"))[0]
            gpg(home, "--passphrase", "", "--quick-add-key", main, "rsa2048", "sign", "never")
        text = gpg(home, "--armor", "--export")
        expected = of_gpg(gpg(home, "--with-colons", "--list-keys"))
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"], check=False, timeout=60)
    assert len(expected) == 2
    assert sorted(openpgp.fingerprints(text)) == sorted(expected)


def test_every_block_and_every_way_to_write_it_counts() -> None:
    both = (ONE_FINGERPRINT, TWO_FINGERPRINT)
    assert openpgp.fingerprints(ONE + TWO) == both
    assert openpgp.fingerprints((ONE + ONE + TWO).replace("\n", "\r\n")) == both
    headed = ONE.replace("BLOCK-----\n", "BLOCK-----\nVersion: GnuPG v2.0.22 (GNU/Linux)\nComment: x\n", 1)
    assert openpgp.fingerprints(headed) == (ONE_FINGERPRINT,)


def cut(text: str, lines: int) -> str:
    """Return a key without its checksum and the last lines before it."""
    kept = text.splitlines()
    end = next(number for number, line in enumerate(kept) if line.startswith("="))
    return "\n".join([*kept[: end - lines], kept[-1], ""])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no public key"),
        (ONE.replace("PUBLIC KEY", "MESSAGE"), "no public key"),
        (ONE.replace("O84z", "O85z"), "checksum"),
        (ONE.replace("mDME", "m!ME"), "base64"),
        (cut(ONE, 1), "cut off"),
        (cut(ONE, 5), "cut off"),
        ("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nQUFB\n-----END PGP PUBLIC KEY BLOCK-----\n", "not OpenPGP packets"),
        # Version 3, whose fingerprint is MD5.
        ("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmAEDAA==\n-----END PGP PUBLIC KEY BLOCK-----\n", "version 3"),
    ],
)
def test_what_is_no_whole_key_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        openpgp.fingerprints(text)


@given(st.binary(max_size=300))
def test_any_bytes_are_fingerprints_or_an_error(data: bytes) -> None:
    body = base64.encodebytes(data).decode()
    text = f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{body}-----END PGP PUBLIC KEY BLOCK-----\n"
    try:
        found = openpgp.fingerprints(text)
    except ValueError:
        return
    assert found
    assert {len(one) for one in found} <= {40, 64}


@pytest.mark.parametrize(
    "text",
    [
        ONE_FINGERPRINT,
        ONE_FINGERPRINT.lower(),
        openpgp.written(ONE_FINGERPRINT),
        f"0x{ONE_FINGERPRINT}",
        ":".join([ONE_FINGERPRINT[:20], ONE_FINGERPRINT[20:]]),
    ],
)
def test_a_fingerprint_is_one_however_it_is_written(text: str) -> None:
    assert openpgp.normalised(text) == ONE_FINGERPRINT
