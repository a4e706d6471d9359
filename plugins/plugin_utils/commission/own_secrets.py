# SPDX-License-Identifier: GPL-3.0-or-later
"""The own account of each BMC in the secrets directory, written before the BMC has it, and kept under another name until it is proved.

bmc/NODE.pending has the account while a run gives it to the BMC. Once a login proves it, it becomes bmc/NODE. bmc/.NODE.issued has the
SHA-256 of each certificate that was signed for the BMC and is not on record yet. A run that was killed leaves these files, and the next one
reads them.
"""

from __future__ import annotations

import os
import secrets
import string
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...module_utils.common.files import sync_directory
from ..bmc.bmc_accounts import FACTORY, account_of, own_name, stored
from ..common.cluster_secrets import ClusterSecrets
from ..common.secrets import SecretError
from ..redfish.errors import OTHER, BmcError
from ..redfish.transport import Account

PENDING = ".pending"
_LENGTH = 20
"""The longest password that IPMI 2.0 and many BMCs take."""
_SHORTEST = 12
_SIGN = "-"


@dataclass(frozen=True)
class NodeSecrets:
    """The accounts of a BMC before the run: `own` is saved or given, `pending` is of a killed run, `factory` is of new BMCs."""

    own: Account | None = None
    pending: Account | None = None
    factory: Account | None = None

    @property
    def wanted(self) -> Account | None:
        """Return the account that the BMC gets; None if it must be made."""
        return self.own or self.pending

    @property
    def candidates(self) -> tuple[Account, ...]:
        """Return the accounts that the BMC may have, the likely first. The factory's account may have the own password."""
        found = [self.own, self.pending]
        if self.factory:
            found += [Account(self.factory.user, one.password) for one in (self.own, self.pending) if one]
            found.append(self.factory)
        return tuple(dict.fromkeys(one for one in found if one))


class OwnSecrets:
    """The accounts of the BMCs of a run. Secrets are read at the beginning, in one thread; files are written by each BMC's thread."""

    def __init__(self, known: ClusterSecrets) -> None:
        """Use the secrets of a run. Nothing is read yet."""
        self._known = known

    def read(self, nodes: Iterable[str]) -> tuple[dict[str, NodeSecrets], dict[str, BmcError]]:
        """Return node -> its secrets, and node -> error of the nodes whose secrets cannot be used. SecretError: all cannot."""
        given = frozenset(self._known.given.names())
        factory = stored(self._known, given, FACTORY)
        found, errors = dict[str, NodeSecrets](), dict[str, BmcError]()
        for node in nodes:
            try:
                own, pending = (stored(self._known, given, one) for one in (own_name(node), own_name(node) + PENDING))
                found[node] = NodeSecrets(own, pending, factory)
            except SecretError as error:
                errors[node] = BmcError(OTHER, node, "no account", f"{error}.")
        return found, errors

    def prepare(self, node: str, user: str, shortest: int, longest: int) -> Account:
        """Return a new account, which is on the disk before this returns. SecretError: it cannot be written, or no secret may be made."""
        text = f"{user}:{new_password(shortest, longest)}".encode()
        name = own_name(node) + PENDING
        return account_of(name, self._known.keep(name, lambda: text).decode())

    def promote(self, node: str, account: Account) -> None:
        """Save an account that a login has proved as that of the node. SecretError, OSError: it cannot be written."""
        name = own_name(node)
        if name not in self._known.given.names():
            self._known.keep(name, f"{account.user}:{account.password}".encode)
            self._forget(self._path(name + PENDING))

    def issued(self, node: str) -> tuple[str, ...]:
        """Return the SHA-256 of certificates that were signed for the BMC and are not on record."""
        try:
            return tuple(self._issued(node).read_text(encoding="ascii").split())
        except FileNotFoundError:
            return ()

    def note_issued(self, node: str, fingerprint: str) -> None:
        """Write the SHA-256 of a signed certificate to the disk, before the BMC receives it."""
        path = self._issued(node)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, f"{fingerprint}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_directory(path.parent)

    def forget_issued(self, node: str) -> None:
        """Remove the note of signed certificates, once the served one is on record."""
        with suppress(FileNotFoundError):
            self._issued(node).unlink()

    def _path(self, name: str) -> Path:
        return self._known.store.directory / name

    def _issued(self, node: str) -> Path:
        path = self._path(own_name(node))
        return path.with_name(f".{path.name}.issued")

    def _forget(self, path: Path) -> None:
        for one in (path, path.with_name(f".{path.name}.known")):
            with suppress(FileNotFoundError):
                one.unlink()


def new_password(shortest: int = 0, longest: int = 0) -> str:
    """Return a random password with capital and small letters, digits and a sign. Bounds of the BMC, in characters; 0: not stated.

    Raises SecretError if the BMC takes only passwords that are too short.
    """
    length = max(_LENGTH, shortest) if not longest else min(max(_LENGTH, shortest), longest)
    if length < _SHORTEST:
        raise SecretError(
            f"the BMC takes passwords of at most {longest} characters; allowed: {_SHORTEST} or more. Update its firmware"
        )
    kinds = (string.ascii_uppercase, string.ascii_lowercase, string.digits)
    every = "".join(kinds)
    middle = [*(secrets.choice(one) for one in kinds), _SIGN, *(secrets.choice(every) for _ in range(length - 6))]
    secrets.SystemRandom().shuffle(middle)
    # A sign at either end is refused by some programs.
    ends = [secrets.choice(string.ascii_letters) for _ in range(2)]
    return "".join([ends[0], *middle, ends[1]])
