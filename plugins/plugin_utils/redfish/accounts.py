# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the accounts of a BMC, create an administrator, and change passwords. A password is never read back: a login proves it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .client import Answer, Client
from .errors import CUT, TIMEOUT, UNSUPPORTED, BmcError
from .fields import flag, link, links, number, text
from .read_back import Change, not_taken, write_until_taken
from .resources.dialects import Dialect
from .tasks import finished
from .transport import Account

ADMINISTRATOR = "Administrator"
_NO_CREATION = (405, 501)
_REFUSED_SLOT = (400, 403, 405)
_MOST_PAGES, _MOST_ACCOUNTS = 20, 64
_LOST = (CUT, TIMEOUT)


@dataclass(frozen=True)
class ManagerAccount:
    """An account of a BMC; `name` is its id. A slot without an account has no `user` and is not enabled."""

    path: str
    name: str
    user: str
    role: str = ""
    is_enabled: bool = True
    is_locked: bool = False
    etag: str = ""

    @property
    def is_free(self) -> bool:
        """Return whether the slot has no account."""
        return not self.user and not self.is_enabled

    @property
    def is_administrator(self) -> bool:
        """Return whether the account can command the BMC."""
        return self.role == ADMINISTRATOR and self.is_enabled and not self.is_locked

    def __str__(self) -> str:
        marks = [self.role or "no role", *(["disabled"] * (not self.is_enabled)), *(["locked"] * self.is_locked)]
        return f"{self.user}: {', '.join(marks)}"


@dataclass(frozen=True)
class AccountList:
    """All accounts of a BMC. `path` is their collection; `shortest` and `longest` bound a password, 0 if the BMC does not say."""

    path: str
    members: tuple[ManagerAccount, ...]
    shortest: int = 0
    longest: int = 0

    def named(self, user: str) -> ManagerAccount | None:
        """Return the account of a user, None without one."""
        return next((one for one in self.members if one.user == user), None)


def read_accounts(client: Client) -> AccountList:
    """Return the accounts of a BMC. Raises BmcError: kind unsupported without an AccountService."""
    root = client.root or client.get("/redfish/v1/")
    where = link(root.body, "AccountService")
    service = client.find(where)
    path = link(service.body, "Accounts") if service else ""
    if not service or not path:
        what = "no AccountService with accounts in ServiceRoot"
        raise client.error(UNSUPPORTED, what, "Create the account on the BMC's own page.", path=where or root.path)
    paths = [one for page in _pages(client, path) for one in links(page.body, "Members")][:_MOST_ACCOUNTS]
    members = tuple(_account(client.get(one)) for one in paths)
    return AccountList(
        path, members, number(service.body, "MinPasswordLength"), number(service.body, "MaxPasswordLength")
    )


def _pages(client: Client, path: str) -> Iterator[Answer]:
    for _page in range(_MOST_PAGES):
        answer = client.get(path)
        yield answer
        path = text(answer.body, "Members@odata.nextLink")
        if not path:
            return


def _account(answer: Answer) -> ManagerAccount:
    body = answer.body
    return ManagerAccount(
        text(body, "@odata.id") or answer.path,
        text(body, "Id"),
        text(body, "UserName"),
        text(body, "RoleId"),
        flag(body, "Enabled") is not False,
        flag(body, "Locked") is True,
        answer.etag,
    )


def put_administrator(client: Client, known: AccountList, wanted: Account, dialect: Dialect) -> Change:
    """Create the account, or give an account of this name the password and the role of an administrator. Read it back.

    The caller has proved that an existing account is its own, and proves the password by a login. A lost answer is decided by the list.
    Raises BmcError: kind unsupported if all slots are used, not-taken, or of the request, with the BMC's reason for a refused password.
    """
    last = known

    def write() -> Answer:
        return _write(client, last, wanted, dialect)

    def read() -> AccountList:
        nonlocal last
        last = read_accounts(client)
        return last

    def is_taken(found: AccountList) -> bool:
        account = found.named(wanted.user)
        return account is not None and account.is_administrator

    found, messages = write_until_taken(client, write, read, is_taken)
    before, after = known.named(wanted.user), found.named(wanted.user)
    expected = f"{wanted.user}: {ADMINISTRATOR}"
    if not is_taken(found):
        shown = str(after) if after else f"no account {wanted.user}"
        raise not_taken(client, "the account", after.path if after else known.path, expected, shown, messages)
    return Change(True, expected, str(before) if before else "no account", after.path if after else known.path)


def _write(client: Client, known: AccountList, wanted: Account, dialect: Dialect) -> Answer:
    body = {"UserName": wanted.user, "Password": wanted.password, "RoleId": ADMINISTRATOR, "Enabled": True}
    account = known.named(wanted.user)
    if account:
        rest = {key: value for key, value in body.items() if key != "UserName"}
        return _sent(client, account.path, rest, account.etag)
    if dialect.accounts_added == "post":
        try:
            return finished(client, client.post(known.path, body))
        except BmcError as error:
            if error.kind in _LOST:
                return Answer(known.path, 0, {})
            if error.status not in _NO_CREATION:
                raise
    return _fill_slot(client, known, body, dialect)


def _fill_slot(client: Client, known: AccountList, body: dict[str, Any], dialect: Dialect) -> Answer:
    """Fill the first free slot. Some BMCs list slots that they reserve, so after a refusal of a slot the next one is tried."""
    refusal: BmcError | None = None
    for slot in known.members:
        if not slot.is_free or slot.name in dialect.accounts_reserved:
            continue
        try:
            return _sent(client, slot.path, body, slot.etag)
        except BmcError as error:
            if error.status not in _REFUSED_SLOT or _is_of_password(error):
                raise
            refusal = error
    what = f"no free slot among the {len(known.members)} accounts"
    raise refusal or client.error(UNSUPPORTED, what, "Delete an account that is not in use.", path=known.path)


def _is_of_password(error: BmcError) -> bool:
    return any("password" in text.lower() for one in error.messages for text in (one.text, *one.args))


def _sent(client: Client, path: str, body: dict[str, Any], etag: str) -> Answer:
    """Send a PATCH; the list of accounts decides if its answer is lost."""
    try:
        return finished(client, client.patch(path, body, etag))
    except BmcError as error:
        if error.kind not in _LOST:
            raise
        return Answer(path, 0, {})


def set_password(client: Client, path: str, password: str) -> None:
    """Change the password of an account, by its path. The session may end with it, so the caller proves it by logins.

    Raises BmcError of the request, with the BMC's reason. A lost answer raises nothing.
    """
    _sent(client, path, {"Password": password}, "")
