# SPDX-License-Identifier: GPL-3.0-or-later
"""The secrets of a cluster in a run: first `bedplate_secrets`, all others from the secrets directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from .given_secrets import VARIABLE, GivenSecrets
from .secrets import SecretError, SecretStore, directory_of, plain_text, size_mistake

DIRECTORY = "bedplate_secrets_dir"
MAKE = "bedplate_secrets_make"
REPLACE = "bedplate_new_secrets"


class ClusterSecrets:
    """Return secrets by name, wherever the site keeps them."""

    def __init__(self, given: GivenSecrets, directory: Callable[[], Path], make: bool = True) -> None:
        """`directory` returns the secrets directory; called only for a secret that is not given. Without `make` no secret is made."""
        self.given = given
        self._directory = directory
        self._may_make = make

    @cached_property
    def store(self) -> SecretStore:
        """The secrets directory. SecretError: it is not safe, or not known."""
        return SecretStore(self._directory())

    def get(self, name: str, kind: str | None = None, length: int | None = None, create: bool = True) -> bytes:
        """Return a secret as `SecretStore.get` does. SecretError: it is missing and none may be made."""
        if given := self.given.get(name):
            return given.data
        self._refuse_to_make(name)
        return self.store.get(name, kind, length, create)

    def text(self, name: str, length: int | None = None, create: bool = True) -> str:
        """Return a secret for use inside a text, without a line end after it."""
        if given := self.given.get(name):
            return plain_text(name, given.data, f"{VARIABLE}.{name}")
        self._refuse_to_make(name)
        return self.store.text(name, length, create)

    def existing_text(self, name: str) -> str:
        """Return an external secret, such as a password of a package server: a generated one would be useless."""
        if not self.has(name):
            raise SecretError(self.missing(name))
        return self.text(name, create=False)

    def has(self, name: str) -> bool:
        """Return whether a secret exists already."""
        return name in self.given.names() or self.store.has(name)

    def keep(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return a secret that only another program can make, such as a signing key."""
        if given := self.given.get(name):
            return given.data
        self._refuse_to_make(name)
        return self.store.keep(name, make)

    def guard(self, name: str) -> dict[str, Any]:
        """Return what a secret may replace on a node, as `DesiredFile` has it."""
        given = self.given.get(name)
        if given is None:
            return {"refusal": self.store.refusal(name), "replaces": self.store.known(name)}
        refusal = (
            f"bedplate wrote another {name} on this machine than {VARIABLE}.{name}. Nothing was written: the new one would cut "
            f"this machine off from the rest of a running cluster. If {VARIABLE} has the wrong one, correct it. To replace the "
            f"old one, list its digest in {VARIABLE}.{name}.replaces (sha256sum prints it on this machine), or run with "
            f"-e {REPLACE}=true"
        )
        return {"refusal": refusal, "replaces": list(given.replaces)}

    def mistake(self, name: str, foreign: bool = False) -> str:
        """Return why a run that needs a secret would fail, or "". A missing `foreign` one cannot be made."""
        try:
            if name in self.given.names():
                self.given.get(name)
                return ""
            if not self.store.has(name):
                return self.missing(name) if foreign or not self._may_make else ""
            wrong = size_mistake(name, self.store.get(name, create=False))
        except SecretError as error:
            return str(error)
        return f"{self.store.directory / name}: {wrong}" if wrong else ""

    def missing(self, name: str) -> str:
        """Return the text for a secret that is missing and cannot be made."""
        why = f", and {MAKE} is false" if not self._may_make else ""
        return (
            f"secret {name}: not found in {VARIABLE} or in {self.store.directory}{why}. Add {name} to {VARIABLE} (docs/primitives.md), "
            f"or put it into {self.store.directory / name} with mode 0400"
        )

    def _refuse_to_make(self, name: str) -> None:
        if not self._may_make and not self.store.has(name):
            raise SecretError(self.missing(name))


def secrets_of(variables: Mapping[str, Any], templar: Any, loader: Any, directory: str | None = None) -> ClusterSecrets:
    """Return the secrets of a run, by the variables of a host. SecretError: a variable has a wrong value.

    `directory` replaces bedplate_secrets_dir. Nothing is templated before it is needed.
    """

    def decrypted(path: Path) -> bytes:
        real = loader.get_real_file(str(path))
        try:
            return Path(real).read_bytes()
        finally:
            loader.cleanup_tmp_file(real)

    def where() -> Path:
        named = {name: templar.template(variables.get(name)) for name in (DIRECTORY, "bedplate_cluster")}
        return directory_of({**named, **({DIRECTORY: directory} if directory else {})})

    file = templar.template(variables.get("bedplate_cluster_file")) if VARIABLE in variables else ""
    base = str(Path(file).resolve().parent) if file else ""
    given = GivenSecrets(variables.get(VARIABLE), templar.template, decrypted, base)
    return ClusterSecrets(given, where, switch(variables, templar, MAKE, default=True))


def switch(variables: Mapping[str, Any], templar: Any, name: str, default: bool) -> bool:
    """Return a variable that must be true or false. SecretError: it is neither."""
    value = templar.template(variables.get(name))
    if value is None:
        return default
    try:
        return bool(boolean(value))
    except TypeError:
        raise SecretError(f"{name} {value!r}; allowed: true, false") from None
