# SPDX-License-Identifier: GPL-3.0-or-later
"""The accounts of BMCs: secrets of the cluster, `USER:PASSWORD` on one line. A machine's own is bmc/NODE, the factory's is bmc_factory."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ..common.cluster_secrets import ClusterSecrets
from ..common.secrets import BMC_FOLDER, SecretError
from ..redfish.errors import REFUSED, BmcError
from ..redfish.transport import Account

FACTORY = "bmc_factory"
_FORM = "write USER:PASSWORD on one line"


@dataclass(frozen=True)
class Accounts:
    """Node -> account, and node -> error of the nodes without a usable one. `factory` are the nodes with the factory's account."""

    accounts: dict[str, Account]
    errors: dict[str, BmcError]
    factory: tuple[str, ...] = ()


def accounts_of(secrets: ClusterSecrets, nodes: Iterable[str]) -> Accounts:
    """Return the accounts of nodes. A node with an unusable secret has an error and does not stop the others.

    Raises SecretError if the place of all secrets is not safe, or not known.
    """
    accounts, errors, factory = dict[str, Account](), dict[str, BmcError](), list[str]()
    # A variable that is an expression, such as a lookup, is evaluated at each use.
    given = frozenset(secrets.given.names())
    shared = stored(secrets, given, FACTORY)
    for node in nodes:
        try:
            if own := stored(secrets, given, own_name(node)):
                accounts[node] = own
            elif shared:
                accounts[node] = shared
                factory.append(node)
            else:
                missing = secrets.missing(own_name(node))
                raise SecretError(f"{missing}, or the factory's account into {FACTORY}: {_FORM}")
        except SecretError as error:
            errors[node] = BmcError(REFUSED, node, "no account", f"{error}.")
    return Accounts(accounts, errors, tuple(factory))


def stored(secrets: ClusterSecrets, given: Collection[str], name: str) -> Account | None:
    """Return the account of a secret, None without the secret. Raises SecretError."""
    if name in given:
        return account_of(name, secrets.text(name, create=False))
    return account_of(name, secrets.store.text(name, create=False)) if secrets.store.has(name) else None


def own_name(node: str) -> str:
    """Return the name of the secret with a machine's own account.

    >>> own_name("gpu001")
    'bmc/gpu001'
    """
    return f"{BMC_FOLDER}{node}"


def account_of(name: str, text: str) -> Account:
    """Return the account of a secret's text. The error of a wrong text does not contain it.

    >>> account_of("bmc_factory", "root:a:b").user
    'root'
    """
    user, colon, password = text.partition(":")
    if not colon or not user or not password or not text.isprintable():
        raise SecretError(f"secret {name}: not an account; {_FORM}")
    return Account(user, password)
