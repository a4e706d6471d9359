# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and change known_hosts files: lines with plain, hashed and pattern names, and the markers @cert-authority and @revoked."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

AUTHORITY, REVOKED = "@cert-authority", "@revoked"
_TYPE = re.compile(r"(ssh|ecdsa|sk-ssh|sk-ecdsa|rsa)-[a-z0-9@.-]+\Z")
_PREFERRED = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}\Z")
_HASHED = re.compile(r"\|1\|([A-Za-z0-9+/=]+)\|([A-Za-z0-9+/=]+)\Z")


class HostKeyError(ValueError):
    """A key or a file of keys that cannot be used."""


@dataclass(frozen=True, order=True)
class HostKey:
    """A public key: its type, such as ssh-ed25519, and its base64 text."""

    type: str
    blob: str

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint as ssh-keygen and sshd print it, such as SHA256:Wc5w..."""
        digest = hashlib.sha256(base64.b64decode(self.blob)).digest()
        return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"

    @property
    def shown(self) -> str:
        """Return type and fingerprint, for people."""
        return f"{self.type} {self.fingerprint}"

    @property
    def text(self) -> str:
        """Return the key as in a file."""
        return f"{self.type} {self.blob}"


@dataclass(frozen=True)
class KnownLine:
    """A line of a known_hosts file; a comment, and a line that ssh ignores, has no `key`."""

    text: str
    marker: str = ""
    names: str = ""
    key: HostKey | None = None

    def fits(self, name: str) -> bool:
        """Return whether ssh uses the line for a name."""
        if self.key is None:
            return False
        if found := _HASHED.match(self.names):
            return _is_hash_of(found, name)
        matched = False
        for pattern in self.names.lower().split(","):
            if fnmatchcase(name.lower(), _without_classes(pattern.removeprefix("!"))):
                if pattern.startswith("!"):
                    return False
                matched = True
        return matched

    def exact(self, names: Iterable[str]) -> list[str]:
        """Return which of the names the line has as they are, not by a pattern."""
        if self.key is None:
            return []
        if found := _HASHED.match(self.names):
            return [name for name in names if _is_hash_of(found, name)]
        own = self.names.lower().split(",")
        return [name for name in names if name.lower() in own]


def key_of(kind: str, blob: str) -> HostKey:
    """Return a key. Raises HostKeyError if the text is not a public key of this type."""
    try:
        data = base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    size = int.from_bytes(data[:4], "big")
    if not _TYPE.match(kind) or data[4 : 4 + size] != kind.encode():
        raise HostKeyError(f"{kind[:40]!r} {blob[:20]!r}... is not a public key")
    return HostKey(kind, blob)


def public_key(text: str) -> HostKey:
    """Return the key of the text of a .pub file: type, base64 and perhaps a comment. Raises HostKeyError."""
    words = text.split()
    if len(words) < 2:
        raise HostKeyError(
            f"{text[:40]!r} is not a public key; allowed: a type and base64, such as ssh-ed25519 AAAA..."
        )
    return key_of(words[0], words[1])


def is_fingerprint(text: object) -> bool:
    """Return whether a text is a SHA-256 fingerprint.

    >>> is_fingerprint("SHA256:" + "a" * 43), is_fingerprint("MD5:aa:bb")
    (True, False)
    """
    return isinstance(text, str) and _FINGERPRINT.match(text) is not None


def lines_of(text: str) -> list[KnownLine]:
    """Return the lines of a known_hosts file."""
    return [_line(line) for line in text.splitlines()]


def keys_for(lines: Iterable[KnownLine], name: str, marker: str = "") -> list[HostKey]:
    """Return the different keys that lines with this marker have for a name."""
    found = (line.key for line in lines if line.key is not None and line.marker == marker and line.fits(name))
    return list(dict.fromkeys(found))


def scanned(text: str) -> list[HostKey]:
    """Return the different keys in the output of ssh-keyscan, in the order in which ssh prefers them: it prints them as they arrive."""
    found = dict.fromkeys(line.key for line in lines_of(text) if line.key is not None and not line.marker)
    return sorted(found, key=lambda key: (_PREFERRED.index(key.type) if key.type in _PREFERRED else -1, key))


def hashed(name: str, salt: bytes | None = None) -> str:
    """Return a name as HashKnownHosts has ssh write it.

    >>> hashed("n2", b"0" * 20)
    '|1|MDAwMDAwMDAwMDAwMDAwMDAwMDA=|cU+B10xXTPog/n22tsTCjme2/pA='
    """
    salt = os.urandom(20) if salt is None else salt
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


@dataclass(frozen=True)
class Replacement:
    """The keys of one machine: ssh looks them up under `name`; `aliases` are other names of the same machine.

    `keys` are the right ones, `kept` other keys of the machine that may stay, `authority` the CA that signs its key. `hashes` writes names
    as HashKnownHosts does.
    """

    name: str
    aliases: tuple[str, ...]
    keys: tuple[HostKey, ...] = ()
    kept: tuple[HostKey, ...] = ()
    authority: HostKey | None = None
    hashes: bool = False

    def applied(self, text: str, adds: bool = True) -> str:
        """Return the text of a known_hosts file without other keys of the machine, and with `adds` with the right ones."""
        lines, had = [], dict[str, None]({self.name: None})
        right = {*self.keys, *self.kept}
        for line in lines_of(text):
            names = line.exact([self.name, *self.aliases]) if not line.marker else []
            if names and line.key not in right:
                had.update(dict.fromkeys(names))
                if rest := _without(line, names):
                    lines.append(rest)
            else:
                lines.append(line.text)
        return _text([*lines, *(self._missing(lines_of("\n".join(lines)), had) if adds else ())], text)

    def _missing(self, lines: Sequence[KnownLine], names: Iterable[str]) -> Iterator[str]:
        for name in names:
            for key in self.keys:
                if key not in keys_for(lines, name):
                    yield f"{hashed(name) if self.hashes else name} {key.text}"
        if self.authority is not None and self.authority not in keys_for(lines, self.name, AUTHORITY):
            yield f"{AUTHORITY} {hashed(self.name) if self.hashes else self.name} {self.authority.text}"


def read(path: Path) -> str:
    """Return the text of a known_hosts file, "" without one. Raises HostKeyError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise HostKeyError(f"{path}: cannot be read: {error.strerror}") from error


def _line(text: str) -> KnownLine:
    words = text.split()
    if not words or words[0].startswith("#"):
        return KnownLine(text)
    marker = words.pop(0) if words[0].startswith("@") else ""
    if len(words) < 3 or marker not in ("", AUTHORITY, REVOKED):
        return KnownLine(text)
    try:
        return KnownLine(text, marker, words[0], key_of(words[1], words[2]))
    except HostKeyError:
        return KnownLine(text)


def _without(line: KnownLine, names: Iterable[str]) -> str:
    """Return the line without some names, "" if no other name is left."""
    left = [one for one in line.names.split(",") if one.lower() not in {name.lower() for name in names}]
    if _HASHED.match(line.names) or not left:
        return ""
    return line.text.replace(line.names, ",".join(left), 1)


def _text(lines: Sequence[str], before: str) -> str:
    """Return the lines as a file; an unchanged file stays as it is to the byte."""
    return before if list(lines) == before.splitlines() else "".join(f"{line}\n" for line in lines)


def _is_hash_of(found: re.Match[str], name: str) -> bool:
    try:
        return hashed(name, base64.b64decode(found[1])).rpartition("|")[2] == found[2]
    except (binascii.Error, ValueError):
        return False


def _without_classes(pattern: str) -> str:
    """Return the pattern for fnmatch: ssh has only * and ?, and [ is part of a name with a port."""
    return pattern.replace("[", "[[]")
