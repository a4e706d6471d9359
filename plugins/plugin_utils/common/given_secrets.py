# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets that a site gives in the variable `bedplate_secrets`: from a vault, a lookup, or a mounted credential."""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError

from .secrets import NAME, SecretError, git_mistake, size_mistake, user_name

VARIABLE = "bedplate_secrets"
_FORMS = ("text", "file", "base64")
_ALLOWED = "allowed: text, {file: PATH}, {base64: TEXT}, each as an Ansible expression"
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_VAULT = b"$ANSIBLE_VAULT;"
# Where systemd, containers and Kubernetes mount credentials. Files there may be open to all users of a container.
_MOUNTS = ("/run/credentials", "/run/secrets", "/var/run/secrets")


@dataclass(frozen=True)
class GivenSecret:
    """A secret of `bedplate_secrets`. `replaces` are SHA-256 digests of earlier secrets that nodes may still have."""

    data: bytes = field(repr=False)
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class GivenSecrets:
    """The variable `bedplate_secrets` of a run.

    `template` evaluates a value, `decrypted` returns the content of a file that ansible-vault encrypted. `base` is the folder of relative
    paths, or "".
    """

    variable: Any = field(repr=False)
    template: Callable[[Any], Any]
    decrypted: Callable[[Path], bytes]
    base: str = ""

    def names(self) -> list[str]:
        """Return the names of the given secrets. SecretError: the variable is not a map."""
        return [str(name) for name in self._map()]

    def get(self, name: str) -> GivenSecret | None:
        """Return a secret, or None if the site does not give it. SecretError: its value cannot be used."""
        values = self._map()
        if name not in values:
            return None
        place = f"{VARIABLE}.{name}"
        if not NAME.match(name):
            raise SecretError(
                f"{place}: not a name of a secret; allowed: a-z, 0-9 and _, such as munge_key, or bmc/NODE"
            )
        found = self._read(place, self._evaluated(place, values[name]))
        if not found.data:
            raise SecretError(f"{place}: is empty. Check the expression, such as the name of the environment variable")
        if mistake := size_mistake(name, found.data):
            raise SecretError(f"{place}: {mistake}")
        return found

    def mistakes(self) -> list[str]:
        """Return the mistakes of the variable, one line for each secret."""
        found = []
        try:
            names = self.names()
        except SecretError as error:
            return [str(error)]
        for name in names:
            try:
                self.get(name)
            except SecretError as error:
                found.append(str(error))
        return found

    def _map(self) -> Mapping[str, Any]:
        if self.variable is None:
            return {}
        found = self.variable
        if not isinstance(found, Mapping):
            found = self._evaluated(VARIABLE, found)
        if not isinstance(found, Mapping):
            raise SecretError(f"{VARIABLE}: is {_kind(found)}; allowed: a map of secret names to values")
        return found

    def _evaluated(self, place: str, value: Any) -> Any:
        try:
            return self.template(value)
        except AnsibleError as error:
            raise SecretError(f"{place}: cannot be evaluated: {' '.join(error.message.split())}") from None

    def _read(self, place: str, value: Any) -> GivenSecret:
        if isinstance(value, str | bytes):
            return GivenSecret(_bytes(value))
        if not isinstance(value, Mapping):
            quotes = " Put quotes around it." if isinstance(value, int | float) else ""
            raise SecretError(f"{place}: is {_kind(value)}; {_ALLOWED}.{quotes}")
        forms = [form for form in _FORMS if form in value]
        if len(forms) != 1 or not set(value) <= {*_FORMS, "replaces"}:
            keys = ", ".join(sorted(map(str, value))) or "no key"
            raise SecretError(f"{place}: has {keys}; allowed: exactly one of {', '.join(_FORMS)}, and replaces")
        (form,) = forms
        if not isinstance(value[form], str):
            raise SecretError(f"{place}.{form}: is {_kind(value[form])}; allowed: text")
        replaces = tuple(_digests(f"{place}.replaces", value.get("replaces", [])))
        if form == "file":
            return GivenSecret(self._file(f"{place}.file", value["file"]), replaces)
        data = _decoded(f"{place}.base64", value["base64"]) if form == "base64" else _bytes(value["text"])
        return GivenSecret(data, replaces)

    def _file(self, place: str, text: str) -> bytes:
        if not text:
            raise SecretError(f"{place}: is empty. Check the expression, such as the name of the environment variable")
        path = _expanded(place, text)
        if not path.is_absolute():
            if not self.base:
                raise SecretError(
                    f"{place}: {text}: is relative, and there is no cluster file; allowed: an absolute path"
                )
            path = Path(self.base) / path
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise SecretError(f"{place}: {path}: not a file; allowed: the path of a file with the secret")
            data = path.read_bytes()
        except PermissionError:
            raise SecretError(
                f"{place}: {path}: {user_name()} cannot read it. Run as its owner, or make this user its owner"
            ) from None
        except OSError as error:
            raise SecretError(
                f"{place}: {path}: {error.strerror}. Put the secret there, or correct the path; a relative one starts at the "
                "folder of the cluster file"
            ) from None
        if data.startswith(_VAULT):
            return self._vaulted(place, path)
        if mistake := _exposed(path, status.st_mode) or git_mistake(path):
            raise SecretError(f"{place}: {mistake}")
        return data

    def _vaulted(self, place: str, path: Path) -> bytes:
        try:
            return self.decrypted(path)
        except AnsibleError as error:
            text = " ".join(error.message.split())
            raise SecretError(
                f"{place}: {path}: {text}. Give its password, such as --vault-password-file FILE"
            ) from None


def _exposed(path: Path, mode: int) -> str:
    """Return the mistake in the mode of a file, or "": other users may read only credentials that a container or systemd mounts."""
    if not mode & 0o077:
        return ""
    directory = os.environ.get("CREDENTIALS_DIRECTORY", "")
    mounts = [mount for mount in (*_MOUNTS, directory) if mount]
    if any(Path(os.path.normpath(path)).is_relative_to(mount) for mount in mounts):
        return ""
    return (
        f"{path}: open to others on this machine (mode {stat.S_IMODE(mode):04o}); allowed: 0400 or 0600, or a credential below "
        f"{', '.join(mounts)}. If no other user has read it: chmod 0400 {path}"
    )


def _expanded(place: str, text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise SecretError(f"{place}: {text}: this user has no home directory; allowed: an absolute path") from None


def _decoded(place: str, text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise SecretError(f"{place}: not valid base64. Write it with: base64 -w0 FILE") from None


def _digests(place: str, value: Any) -> Iterator[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple):
        raise SecretError(f"{place}: is {_kind(value)}; allowed: a list of SHA-256 digests, as sha256sum prints them")
    for one in listed:
        if not isinstance(one, str) or not _DIGEST.match(one):
            raise SecretError(f"{place}: has {_kind(one)} that is not a SHA-256 digest; sha256sum FILE prints one")
        yield one


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _kind(value: Any) -> str:
    """Return the kind of a value, which is never shown itself."""
    names = ((bool, "true or false"), (int, "a number"), (float, "a number"), (str, "text"), (Mapping, "a map"))
    listed = ((list, "a list"), (tuple, "a list"), (type(None), "empty"))
    return next((name for kind, name in (*names, *listed) if isinstance(value, kind)), f"a {type(value).__name__}")
