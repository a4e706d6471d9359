# SPDX-License-Identifier: GPL-3.0-or-later
"""Read where the host key of a machine is stated: a file of keys, a CA, or fingerprints that a person has read on the console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .host_keys import HostKey, HostKeyError, is_fingerprint, keys_for, lines_of, public_key

FILE, AUTHORITY, CONFIRM = SOURCES = ("host_key_file", "host_key_ca", "host_key_confirm")
"""The variables without `recover_`."""


@dataclass(frozen=True)
class StatedKey:
    """Hold the stated key of a machine: `keys` of a file, `authority` that signs it, or `fingerprints`; `where` names the source."""

    keys: tuple[HostKey, ...] = ()
    authority: HostKey | None = None
    fingerprints: tuple[str, ...] = ()
    where: str = ""

    @property
    def is_stated(self) -> bool:
        """Return whether a source is stated."""
        return bool(self.keys or self.authority or self.fingerprints)

    @property
    def shown(self) -> str:
        """Return what is stated, for people."""
        if self.authority is not None:
            return f"CA {self.authority.shown}"
        return ", ".join([*(key.shown for key in self.keys), *self.fingerprints])


def stated(choices: Mapping[str, Any], node: str, names: Sequence[str]) -> StatedKey:
    """Return what the variables state for a node; `names` are its names in a known_hosts file.

    Raises HostKeyError for a file or a key that cannot be used, and for a source without this node.
    """
    if value := choices.get(CONFIRM):
        return _confirmed(value, node)
    if value := choices.get(AUTHORITY):
        return StatedKey(authority=_authority(str(value)), where="recover_host_key_ca")
    if value := choices.get(FILE):
        return _from_file(Path(str(value)).expanduser(), node, names)
    return StatedKey()


def fingerprints_of(value: object, node: str) -> list[str]:
    """Return the fingerprints of recover_host_key_confirm for a node: a text, a list, or node -> a text or a list."""
    if isinstance(value, Mapping):
        value = value.get(node) or []
    if isinstance(value, str):
        return [one for one in value.replace(",", " ").split() if one]
    return [str(one) for one in value] if isinstance(value, Sequence) else []


def confirm_mistakes(value: object, nodes: Sequence[str]) -> list[str]:
    """Return mistakes in recover_host_key_confirm for the nodes of a run."""
    named = list(value) if isinstance(value, Mapping) else []
    found = [
        f"recover_host_key_confirm: {name!r} is not a node of this run; allowed: {', '.join(nodes)}"
        for name in named
        if name not in nodes
    ]
    if value and not isinstance(value, Mapping) and len(nodes) > 1:
        found.append(
            f"recover_host_key_confirm: one text for {len(nodes)} nodes; allowed: a mapping, such as {{{nodes[0]}: SHA256:...}}"
        )
    for node in named or nodes[:1]:
        found += [
            f"recover_host_key_confirm: {text!r}; allowed: SHA256: and 43 letters, digits, + and /, as `ssh-keygen -l` prints them"
            for text in fingerprints_of(value, node)
            if not is_fingerprint(text)
        ]
    return found


def _confirmed(value: object, node: str) -> StatedKey:
    found = fingerprints_of(value, node)
    if wrong := [one for one in found if not is_fingerprint(one)]:
        raise HostKeyError(f"recover_host_key_confirm: {wrong[0]!r} is not a SHA-256 fingerprint")
    return StatedKey(fingerprints=tuple(found), where="recover_host_key_confirm" if found else "")


def _authority(value: str) -> HostKey:
    """Return the key of a CA: its text, or a file that has it."""
    try:
        text = value if " " in value.strip() else Path(value).expanduser().read_text(encoding="utf-8")
        return public_key(text.strip().removeprefix("@cert-authority"))
    except (OSError, UnicodeDecodeError) as error:
        raise HostKeyError(f"recover_host_key_ca: {value}: cannot be read: {error}") from error
    except HostKeyError as error:
        raise HostKeyError(f"recover_host_key_ca: {error}") from error


def _from_file(path: Path, node: str, names: Sequence[str]) -> StatedKey:
    where = f"recover_host_key_file {path}"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HostKeyError(
            f"{where}: cannot be read: {error}. Write a known_hosts file or the public key there"
        ) from error
    lines = lines_of(text)
    keys = list(dict.fromkeys(key for name in names for key in keys_for(lines, name)))
    if not keys and not any(line.key for line in lines):
        rest = [line.text for line in lines if line.text.strip() and not line.text.lstrip().startswith("#")]
        try:
            keys = [public_key(one) for one in rest]
        except HostKeyError as error:
            raise HostKeyError(f"{where}: {error}") from error
    if not keys:
        raise HostKeyError(f"{where}: no key of {node}; allowed names: {', '.join(names)}")
    return StatedKey(keys=tuple(keys), where=where)
