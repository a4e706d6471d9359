# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the host key that a machine offers: known already, new and proved by a stated source, or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import host_keys
from .host_keys import AUTHORITY, REVOKED, HostKey, HostKeyError, KnownLine, Replacement
from .key_sources import StatedKey
from .ssh_target import SshTarget, offered, refusal

KNOWN, NEW, REFUSED = ("known", "new", "refused")


@dataclass(frozen=True)
class KeyVerdict:
    """The verdict on a machine's key: `known`, `new` or `refused`, why, and the keys of the machine as people read them.

    `offered` are the keys that it offers, `recorded` the keys in the known_hosts files. `unconfirmed`: a stated source would decide.
    `key`, a new one's, has what is written.
    """

    state: str
    why: str = ""
    offered: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    unconfirmed: bool = False
    key: Mapping[str, Any] | None = None

    def facts(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "offered": list(self.offered), "recorded": list(self.recorded)}


@dataclass(frozen=True)
class Judge:
    """A machine, its lines in the known_hosts files of the user, and what is stated about it; `aliases` are its other names."""

    machine: SshTarget
    aliases: tuple[str, ...]
    lines: Sequence[KnownLine]
    source: StatedKey

    def verdict(self) -> KeyVerdict:
        """Scan the machine, compare its keys, and prove a new one with ssh."""
        recorded = host_keys.keys_for(self.lines, self.machine.name)
        found, silence = offered(self.machine)
        if not found:
            return KeyVerdict(REFUSED, f"offers no SSH host key: {silence}", (), _shown(recorded))
        keys = _shown(found), _shown(recorded)
        revoked = host_keys.keys_for(self.lines, self.machine.name, REVOKED)
        if bad := [key for key in found if key in revoked]:
            return KeyVerdict(REFUSED, f"offers a key that known_hosts has as revoked: {bad[0].shown}", *keys)
        if not self.source.is_stated:
            return self._unstated(found, recorded)
        if self.source.authority is not None:
            return self._signed(self.source.authority, found, recorded)
        right = self._right(found)
        if not right:
            return KeyVerdict(
                REFUSED, f"offers another key than {self.source.where} states: {self.source.shown}", *keys
            )
        if set(right) & set(recorded) and set(recorded) <= set(found):
            return KeyVerdict(KNOWN, "", *keys)
        if why := self._refusal([f"{self.machine.name} {key.text}" for key in right]):
            return KeyVerdict(REFUSED, f"ssh refuses the machine with the stated key: {why}", *keys)
        kept = [key for key in recorded if key in found]
        return KeyVerdict(NEW, "", *keys, key=self._key(right, kept))

    def _unstated(self, found: Sequence[HostKey], recorded: Sequence[HostKey]) -> KeyVerdict:
        """Judge without a stated source: what Ansible's known_hosts files have decides."""
        keys = _shown(found), _shown(recorded)
        types = {key.type for key in found}
        comparable = [key for key in recorded if key.type in types]
        if comparable and set(comparable) <= set(found):
            return KeyVerdict(KNOWN, "", *keys)
        authorities = host_keys.keys_for(self.lines, self.machine.name, AUTHORITY)
        proof = [f"{AUTHORITY} {self.machine.name} {key.text}" for key in authorities]
        if proof and not self._refusal(proof):
            if not recorded:
                return KeyVerdict(KNOWN, "", *keys)
            return KeyVerdict(NEW, "", *keys, key=self._key([], [], authorities[0]))
        why = "has another host key than known_hosts" if recorded else "has a host key that known_hosts does not have"
        return KeyVerdict(REFUSED, why, *keys, unconfirmed=True)

    def _signed(self, authority: HostKey, found: Sequence[HostKey], recorded: Sequence[HostKey]) -> KeyVerdict:
        keys = _shown(found), _shown(recorded)
        if why := self._refusal([f"{AUTHORITY} {self.machine.name} {authority.text}"]):
            text = f"offers no host certificate for {self.machine.name} of the CA {authority.fingerprint}: {why}"
            return KeyVerdict(REFUSED, text, *keys)
        is_there = authority in host_keys.keys_for(self.lines, self.machine.name, AUTHORITY)
        if is_there and set(recorded) <= set(found):
            return KeyVerdict(KNOWN, "", *keys)
        return KeyVerdict(NEW, "", *keys, key=self._key([], [key for key in recorded if key in found], authority))

    def _right(self, found: Sequence[HostKey]) -> list[HostKey]:
        """Return the offered keys that are stated; none if one of a stated type or fingerprint is not as stated."""
        if self.source.fingerprints:
            right = [key for key in found if key.fingerprint in self.source.fingerprints]
            return right if len(right) == len(set(self.source.fingerprints)) else []
        types = {key.type for key in self.source.keys}
        comparable = [key for key in found if key.type in types]
        return comparable if set(comparable) <= set(self.source.keys) else []

    def _refusal(self, lines: list[str]) -> str:
        revoked = host_keys.keys_for(self.lines, self.machine.name, REVOKED)
        return refusal(self.machine, [*lines, *(f"{REVOKED} {self.machine.name} {key.text}" for key in revoked)])

    def _key(
        self, right: Sequence[HostKey], kept: Sequence[HostKey], authority: HostKey | None = None
    ) -> dict[str, Any]:
        return {
            "name": self.machine.name,
            "aliases": list(self.aliases),
            "keys": [key.text for key in right],
            "kept": [key.text for key in kept],
            "authority": authority.text if authority is not None else "",
            "hashes": self.machine.hashes,
            "files": [str(path) for path in self.machine.user_files],
        }


def lines_for(machine: SshTarget) -> list[KnownLine]:
    """Return the lines that decide about a machine. Raises HostKeyError.

    Plain keys of the system's files count only if the user's files have none for it: a site's own file cannot be changed here.
    """
    own, others = (_lines_in(files) for files in (machine.user_files, machine.global_files))
    has_own = bool(host_keys.keys_for(own, machine.name))
    return [*own, *(line for line in others if line.marker or not has_own)]


def _lines_in(files: Sequence[Path]) -> list[KnownLine]:
    return [line for path in files for line in host_keys.lines_of(host_keys.read(path))]


def replacement(key: Mapping[str, Any]) -> Replacement:
    """Return what a verdict has written. Raises HostKeyError."""
    return Replacement(
        str(key["name"]),
        tuple(map(str, key["aliases"])),
        tuple(host_keys.public_key(str(text)) for text in key["keys"]),
        tuple(host_keys.public_key(str(text)) for text in key["kept"]),
        host_keys.public_key(str(key["authority"])) if key["authority"] else None,
        bool(key["hashes"]),
    )


def refused(error: HostKeyError | ValueError) -> KeyVerdict:
    """Return the verdict on a machine whose key cannot be judged."""
    return KeyVerdict(REFUSED, str(error))


def _shown(keys: Sequence[HostKey]) -> tuple[str, ...]:
    return tuple(key.shown for key in keys)
