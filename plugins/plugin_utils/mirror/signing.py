# SPDX-License-Identifier: GPL-3.0-or-later
"""The mirror's signature: its own key, and gpg in a temporary directory, which touches no user's keyring."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command

from .mirror_model import Key, MirrorError

# Which every gpgv and sqv reads, that of a FIPS kernel too.
ALGORITHM = "rsa3072"
_SECONDS = 120.0


@dataclass(frozen=True)
class Signer:
    """The mirror's key: the secret half is left out of the repr."""

    secret: str
    public: str
    fingerprint: str

    def __repr__(self) -> str:
        return f"Signer({self.fingerprint})"

    def sign(self, text: str) -> str:
        """Return a text with its signature around it, as InRelease is."""
        with _home() as home:
            _import(home, self.secret)
            source, signed = home / "text", home / "signed"
            source.write_text(text)
            arguments = ["--digest-algo", "SHA512", "--output", str(signed), "--clearsign", str(source)]
            _gpg(home, arguments, "the index cannot be signed")
            return signed.read_text()

    def detached(self, data: bytes) -> str:
        """Return the armored signature of a file, apart from it."""
        with _home() as home:
            _import(home, self.secret)
            source, signed = home / "data", home / "signed"
            source.write_bytes(data)
            arguments = ["--digest-algo", "SHA512", "--armor", "--output", str(signed), "--detach-sign", str(source)]
            _gpg(home, arguments, "the index cannot be signed")
            return signed.read_text()

    def verified(self, signed: str) -> str | None:
        """Return what was signed, and None for what this key did not sign, or not so."""
        with _home() as home:
            _import(home, self.public)
            source, text = home / "signed", home / "text"
            source.write_text(signed)
            done = _run(home, ["--status-fd", "1", "--output", str(text), "--decrypt", str(source)])
            good = f"[GNUPG:] VALIDSIG {self.fingerprint} " in done.stdout
            return text.read_text() if done.code == 0 and good and text.exists() else None


def generate(cluster: str) -> str:
    """Return a new secret key, armored and without a passphrase: who may read the secrets directory may sign."""
    with _home() as home:
        name = f"bedplate mirror of {cluster}"
        made = [
            "--pinentry-mode",
            "loopback",
            "--passphrase",
            "",
            "--quick-generate-key",
            name,
            ALGORITHM,
            "sign",
            "never",
        ]
        _gpg(home, made, "no key can be made for the mirror")
        secret = home / "secret"
        _gpg(home, ["--output", str(secret), "--armor", "--export-secret-keys"], "the mirror's key cannot be read back")
        return secret.read_text()


def signer(secret: str) -> Signer:
    """Return what signs with a secret key."""
    with _home() as home:
        _import(home, secret)
        public = home / "public"
        _gpg(home, ["--output", str(public), "--armor", "--export"], "the mirror's public key cannot be read")
        text = public.read_text()
        return Signer(secret, text, _fingerprints(home, public)[0])


def reader(public: str) -> Signer:
    """Return what verifies with a public key, and signs nothing. MirrorError: the text has not exactly one key."""
    with _home() as home:
        path = home / "public"
        path.write_text(public)
        found = _fingerprints(home, path)
    if len(found) != 1:
        raise MirrorError([f"the key of the snapshots has {len(found)} primary keys; allowed: one"])
    return Signer("", public, found[0])


def key_of(origin: str, path: Path) -> Key:
    """Return fingerprints and checksum of a public key or of a keyring."""
    with _home() as home:
        found = _fingerprints(home, path)
    return Key(origin, tuple(sorted(found)), hashlib.sha256(path.read_bytes()).hexdigest())


def _fingerprints(home: Path, path: Path) -> list[str]:
    """Return the fingerprints of the primary keys in a file."""
    done = _gpg(home, ["--with-colons", "--show-keys", str(path)], f"{path} has no public key")
    found, primary = [], False
    for row in (line.split(":") for line in done.stdout.splitlines()):
        if row[0] == "fpr" and primary:
            found.append(row[9])
        primary = row[0] in ("pub", "sec")
    if not found:
        raise MirrorError([f"{path} has no public key"])
    return found


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    # Not in the secrets directory: the agent's socket lies here, and its path may have 107 characters at most.
    with tempfile.TemporaryDirectory(prefix="bedplate-gpg-") as name:
        try:
            yield Path(name)
        finally:
            # Only where a secret key was used there is an agent, which would stay for a while.
            if (Path(name) / "private-keys-v1.d").exists():
                command.run(["gpgconf", "--homedir", name, "--kill", "gpg-agent"], _SECONDS)


def _import(home: Path, key: str) -> None:
    path = home / "key"
    path.touch(mode=0o600)
    path.write_text(key)
    _gpg(home, ["--import", str(path)], "the mirror's key cannot be read")
    path.unlink()


def _gpg(home: Path, arguments: list[str], what: str) -> command.Outcome:
    done = _run(home, arguments)
    if done.code != 0:
        raise MirrorError([f"{what}: gpg: {done.stderr.strip() or 'said nothing'}"])
    return done


def _run(home: Path, arguments: list[str]) -> command.Outcome:
    return command.run(["gpg", "--homedir", str(home), "--batch", "--no-tty", "--quiet", "--yes", *arguments], _SECONDS)
