# SPDX-License-Identifier: GPL-3.0-or-later
"""Check signatures of repositories with gpg and one key, in a temporary directory: no keyring of this machine counts."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command

from .index_model import IndexReadError

_SECONDS = 60.0


def clear_signed(url: str, data: bytes, key: str) -> str:
    """Return the text that a key has signed, of a file with its signature around it. IndexReadError: the key did not sign it.

    `key` is an armored public key, or the path of a keyring on this machine.
    """
    with _home(key) as home:
        signed, text = home / "signed", home / "text"
        signed.write_bytes(data)
        done = _gpg(home, ["--status-fd", "1", "--output", str(text), "--decrypt", str(signed)])
        _require(url, done)
        return text.read_text(encoding="utf-8")


def detached(url: str, data: bytes, signature: bytes, key: str) -> bytes:
    """Return a file that a key has signed in a second file. IndexReadError: the key did not sign it."""
    with _home(key) as home:
        signed, proof = home / "data", home / "proof"
        signed.write_bytes(data)
        proof.write_bytes(signature)
        _require(url, _gpg(home, ["--status-fd", "1", "--verify", str(proof), str(signed)]))
        return data


def _require(url: str, done: command.Outcome) -> None:
    """Accept one good signature: an archive may have further ones, by keys that are not in its keyring yet."""
    words = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("[GNUPG:] ")]
    if "GOODSIG" in words and "VALIDSIG" in words and "BADSIG" not in words:
        return
    why = next((one for one in ("BADSIG", "EXPKEYSIG", "REVKEYSIG", "EXPSIG", "NO_PUBKEY") if one in words), "")
    meaning = {
        "BADSIG": "it was changed after it was signed",
        "EXPKEYSIG": "its key has expired",
        "REVKEYSIG": "its key was revoked",
        "EXPSIG": "its signature has expired",
        "NO_PUBKEY": "another key signed it",
    }.get(why, done.error_line)
    raise IndexReadError([f"{url}: is not signed by the key of this repository: {meaning}. Nothing is read from it"])


@contextlib.contextmanager
def _home(key: str) -> Iterator[Path]:
    if not command.find("gpg"):
        raise IndexReadError(["this machine has no program gpg, which checks signatures. Install the package gnupg"])
    # The agent's socket would be here, and its path may have 107 characters at most.
    with tempfile.TemporaryDirectory(prefix="bedplate-gpg-") as name:
        home = Path(name)
        if key.startswith("/"):
            path = Path(key)
            if not path.exists():
                raise IndexReadError([_no_keyring(path)])
        else:
            path = home / "key"
            path.write_text(key)
        done = _gpg(home, ["--import", str(path)])
        if done.code != 0:
            raise IndexReadError(
                [f"{path if key.startswith('/') else 'the key'}: cannot be read: gpg: {done.error_line}"]
            )
        yield home


def _no_keyring(path: Path) -> str:
    package = f"{path.name.partition('-')[0]}-keyring" if path.name.startswith("ubuntu-") else "debian-archive-keyring"
    return (
        f"{path}: this machine has no such keyring. Install the package {package} here, or name a file with the key as this "
        "repository's in `keys` of gpu_stack"
    )


def _gpg(home: Path, arguments: list[str]) -> command.Outcome:
    quiet = ["--batch", "--no-tty", "--quiet", "--yes", "--no-autostart", "--no-auto-key-locate"]
    return command.run(["gpg", "--homedir", str(home), *quiet, *arguments], _SECONDS)
