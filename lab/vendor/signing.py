# SPDX-License-Identifier: GPL-3.0-or-later
"""Signing keys of repositories, made where these are built, and signatures by them."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.shell import capture, succeeds


class Keys:
    """Secret keys by name, in a home of gpg."""

    def __init__(self, home: str) -> None:
        self._gpg = ("gpg", "--homedir", home, "--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback")

    def public(self, name: str) -> str:
        """Return the armored public key."""
        return capture([*self._gpg, "--armor", "--export", _address(name)])

    def clear_signed(self, name: str, text: str) -> str:
        """Return a text with its signature around it, as apt reads InRelease."""
        return capture([*self._gpg, "--local-user", _address(name), "--clearsign", "--output", "-"], stdin=text)

    def detached(self, name: str, text: str) -> str:
        """Return the signature of a text, armored."""
        return capture(
            [*self._gpg, "--local-user", _address(name), "--armor", "--detach-sign", "--output", "-"], stdin=text
        )

    def sign_rpms(self, name: str, files: Iterable[Path]) -> None:
        """Put a signature into each of these files."""
        home = self._gpg[2]
        macros = {"_gpg_name": _address(name), "_gpg_path": home, "__gpg": "/usr/bin/gpg", "_gpg_digest_algo": "sha256"}
        defined = [word for macro, value in macros.items() for word in ("--define", f"{macro} {value}")]
        capture(["rpmsign", *defined, "--addsign", *map(str, files)], why="The rpms could not be signed.", timeout=300)

    def add(self, name: str, path: Path) -> None:
        """Take the key from its file, or make it (mode 0600 in a folder of mode 0700)."""
        if path.exists():
            capture([*self._gpg, "--import", str(path)])
            return
        user = f"bedplate stand-ins, {name}: for tests only <{_address(name)}>"
        made = [*self._gpg, "--passphrase", "", "--quick-generate-key", user, "ed25519", "sign", "never"]
        capture(made, why="No key could be made for the repository of stand-ins.")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(capture([*self._gpg, "--armor", "--export-secret-keys", _address(name)]))


@contextmanager
def keys(folder: Path, names: Iterable[str]) -> Iterator[Keys]:
    """Give the keys of a folder, one <name>.asc each, made on first use."""
    # A short path: the socket of gpg's agent must fit into 108 bytes. Home and agent go afterwards.
    with tempfile.TemporaryDirectory(prefix="gpg-", dir="/tmp") as home:
        try:
            found = Keys(home)
            for name in names:
                found.add(name, folder / f"{name}.asc")
            yield found
        finally:
            succeeds(["env", f"GNUPGHOME={home}", "gpgconf", "--kill", "gpg-agent"])


def dearmored(key: str) -> bytes:
    """Return an armored key as the bytes in it."""
    body = key.partition("\n\n")[2].partition("\n=")[0].partition("\n-----END")[0]
    return base64.b64decode(body)


def _address(name: str) -> str:
    return f"{name}@stand-in.example.org"
