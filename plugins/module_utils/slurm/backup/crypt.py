# SPDX-License-Identifier: GPL-3.0-or-later
"""Encrypt streams to an OpenPGP public key, and decrypt them, with gpg and a separate key folder in memory.

A machine that makes backups has the public key alone. A machine that is restored gets the session key of each stream, and no private key.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ...common import command
from .pipes import PipeError, Program, private_folder

PUBLIC, PRIVATE = b"-----BEGIN PGP PUBLIC KEY BLOCK-----", b"-----BEGIN PGP PRIVATE KEY BLOCK-----"
_SESSION = re.compile(r"session key: '([0-9]+:[0-9A-F]+)'")
_QUICK = 60.0


class CryptError(Exception):
    """A stream cannot be encrypted or decrypted; the text is complete, and has no key."""


class Sink:
    """Encrypt what is written to it into a file, and count it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        """Encrypt these bytes."""
        self._digest.update(data)
        self.size += len(data)
        return self._program.write(data)

    def facts(self) -> dict[str, object]:
        """Return bytes and digest of what was written, in plain."""
        return {"bytes": self.size, "sha256": self._digest.hexdigest()}


class KeyFolder:
    """A folder for gpg that only this user can read, removed at the end together with gpg's agent."""

    def __enter__(self) -> KeyFolder:
        self.path = Path(tempfile.mkdtemp(prefix="bp-", dir=private_folder()))
        return self

    def __exit__(self, *_error: object) -> None:
        if (self.path / "S.gpg-agent").exists():
            command.run(["gpgconf", "--homedir", str(self.path), "--kill", "all"], _QUICK)
        shutil.rmtree(self.path, ignore_errors=True)

    def gpg(self, *arguments: str) -> list[str]:
        """Return the command line of gpg in this folder."""
        return ["gpg", "--homedir", str(self.path), "--batch", "--no-tty", "--no-autostart", *arguments]

    def _with_key(self) -> list[str]:
        start = ["gpg", "--homedir", str(self.path), "--batch", "--no-tty", "--pinentry-mode", "loopback"]
        return [*start, "--passphrase-fd", "{secret}", "--show-session-key", "--decrypt"]

    @contextmanager
    def encrypted(self, target: Path, recipient: Path, seconds: float) -> Iterator[Sink]:
        """Encrypt what is written into a file of mode 0600. Raises CryptError; then the file does not exist."""
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        chosen = ["--trust-model", "always", "--compress-algo", "zlib", "--recipient-file", str(recipient)]
        try:
            with os.fdopen(descriptor, "wb") as stream:
                with Program(self.gpg("--quiet", *chosen, "--encrypt"), seconds, target=stream) as program:
                    yield Sink(program)
                    program.succeed()
                os.fsync(stream.fileno())
        except BaseException as error:
            target.unlink(missing_ok=True)
            if isinstance(error, PipeError):
                raise CryptError(f"{target.name} cannot be encrypted to {recipient}: {error}") from error
            raise

    def accept(self, key: Path) -> None:
        """Import a private key. Raises CryptError."""
        argv = [
            "gpg",
            "--homedir",
            str(self.path),
            "--batch",
            "--no-tty",
            "--pinentry-mode",
            "loopback",
            "--import",
            str(key),
        ]
        done = command.run(argv, _QUICK)
        if done.code != 0:
            raise CryptError(f"{key} cannot be read as an OpenPGP private key: {done.error_line}")

    def decrypted(self, source: Path, passphrase: bytes, seconds: float, each: Callable[[bytes], object]) -> str:
        """Decrypt a file with an imported key, give its plain text to `each`, and return its session key. Raises CryptError."""
        messages = _read(self._with_key(), source, seconds, passphrase + b"\n", each)
        found = _SESSION.search(messages)
        if not found:
            raise CryptError(f"{source.name}: gpg names no session key")
        return found[1]

    def session(self, source: Path, passphrase: bytes, seconds: float) -> str:
        """Return the session key of a file, without decrypting more than its beginning. Raises CryptError."""
        try:
            with (
                source.open("rb") as stream,
                Program(self._with_key(), seconds, source=stream, secret=passphrase + b"\n") as program,
            ):
                next(program.chunks(), b"")
                found = _SESSION.search(program.messages())
        except (OSError, PipeError) as error:
            raise CryptError(f"{source.name} cannot be decrypted: {error}") from error
        if not found:
            raise CryptError(f"{source.name} cannot be decrypted with this key")
        return found[1]

    def opened(self, source: Path, session: str, seconds: float, each: Callable[[bytes], object]) -> None:
        """Decrypt a file with its session key. Raises CryptError."""
        argv = self.gpg("--quiet", "--override-session-key-fd", "{secret}", "--decrypt")
        _read(argv, source, seconds, session.encode() + b"\n", each)


def key_mistake(data: bytes, private: bool) -> str:
    """Return the mistake in a file that must be an OpenPGP key, public or private, or "".

    >>> key_mistake(b"age1qqp", False)
    'not an OpenPGP public key; allowed: the output of `gpg --export --armor KEY`'
    """
    kind, option = ("private", "--export-secret-keys") if private else ("public", "--export")
    wrong = PUBLIC if private else PRIVATE
    if data.lstrip().startswith(wrong):
        other = "public" if private else "private"
        return f"an OpenPGP {other} key; allowed: a {kind} key, the output of `gpg {option} --armor KEY`"
    # In binary form the first byte is the tag of a packet: 6 of a public key, 5 of a private one.
    tags = {0x94, 0x95, 0xC5} if private else {0x98, 0x99, 0xC6}
    if (PRIVATE if private else PUBLIC) in data or (data and data[0] in tags):
        return ""
    return f"not an OpenPGP {kind} key; allowed: the output of `gpg {option} --armor KEY`"


def _read(argv: list[str], source: Path, seconds: float, secret: bytes, each: Callable[[bytes], object]) -> str:
    try:
        with source.open("rb") as stream, Program(argv, seconds, source=stream, secret=secret) as program:
            for data in program.chunks():
                each(data)
            done = program.finish()
    except (OSError, PipeError) as error:
        raise CryptError(f"{source.name} cannot be decrypted: {error}") from error
    if done.code != 0:
        # gpg's debug output may have the session key.
        said = [line for line in done.stderr.splitlines() if "key:" not in line or "ession" not in line]
        said = [line for line in said if "seskey" not in line]
        raise CryptError(f"{source.name} cannot be decrypted: {'; '.join(said[-3:]) or done.code}")
    return done.stderr
