# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts of a simulated BMC: a collection that grows, or fixed slots; rules for passwords; sessions that end with a password."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.kit.bmc.refused import Refused
from tests.kit.bmc.spec import Spec

if TYPE_CHECKING:
    from tests.kit.bmc.state import State

SERVICE = "/redfish/v1/AccountService"
ACCOUNTS = f"{SERVICE}/Accounts"
ROLES = ("Administrator", "Operator", "ReadOnly")
RESERVED = "1"
"""Slot that no account may use, as with iDRAC."""
Json = dict[str, Any]


def accounts_of(spec: Spec) -> dict[str, Json]:
    """Return id -> account of a new BMC. That of the spec has the id 1; with slots it is in the second one."""
    own = {"UserName": spec.user, "RoleId": "Administrator", "Enabled": True, "Locked": False}
    if not spec.account_slots:
        return {"1": own}
    free = {"UserName": "", "RoleId": "", "Enabled": False, "Locked": False}
    return {str(one): (own if one == 2 else dict(free)) for one in range(1, spec.account_slots + 1)}


def account_resource(state: State, number: str) -> Json:
    """Return the properties of an account; the password is never shown."""
    account = state.accounts[number]
    links = {"Links": {"Role": {"@odata.id": f"{SERVICE}/Roles/{account['RoleId']}"}}} if account["RoleId"] else {}
    return {
        "UserName": account["UserName"],
        "Password": None,
        "RoleId": account["RoleId"] or "None",
        "Enabled": account["Enabled"],
        "Locked": account["Locked"],
        "AccountTypes": ["Redfish"],
        "PasswordChangeRequired": state.spec.faults.password_change and number == state.first_account,
        **links,
    }


def added(state: State, body: Json) -> tuple[str, Callable[[], None]]:
    """Return the path of a new account, and the effect of a POST."""
    spec = state.spec
    if spec.account_slots:
        raise Refused(405, "OperationNotAllowed", "Accounts are slots.")
    if missing := {"UserName", "Password", "RoleId"} - set(body):
        raise Refused(400, "CreateFailedMissingReqProperties", args=sorted(missing))
    if any(one["UserName"] == body["UserName"] for one in state.accounts.values()):
        raise Refused(400, "ResourceAlreadyExists", args=["ManagerAccount", "UserName", str(body["UserName"])])
    _check(state, body)
    number = str(max(map(int, state.accounts)) + 1)

    def add() -> None:
        if state.take("account"):
            state.accounts[number] = {"RoleId": "", "Enabled": True, "Locked": False}
            _change(state, number, body)

    return f"{ACCOUNTS}/{number}", add


def changed(state: State, number: str, body: Json) -> Callable[[], None]:
    """Return the effect of a PATCH of an account."""
    if number not in state.accounts:
        raise Refused(404, "ResourceMissingAtURI")
    if state.spec.account_slots and number == RESERVED:
        raise Refused(400, "PropertyNotWritable", "This slot is reserved.")
    _check(state, body)

    def change() -> None:
        if state.take("password" if "UserName" not in body and "Password" in body else "account"):
            _change(state, number, body)

    return change


def _check(state: State, body: Json) -> None:
    if unknown := set(body) - {"UserName", "Password", "RoleId", "Enabled", "Locked"}:
        raise Refused(400, "PropertyUnknown", args=sorted(unknown))
    if body.get("RoleId", "Administrator") not in ROLES:
        raise Refused(400, "PropertyValueNotInList", args=[str(body["RoleId"]), "RoleId"])
    password, spec = body.get("Password"), state.spec
    if password is None:
        return
    if not isinstance(password, str) or not spec.password_shortest <= len(password) <= spec.password_longest:
        raise Refused(400, "PropertyValueFormatError", "The length of the password is not allowed.", args=["Password"])
    if spec.password_sign and spec.password_sign not in password:
        what = f"The password must contain {spec.password_sign}."
        raise Refused(400, "PropertyValueFormatError", what, args=["Password"])


def _change(state: State, number: str, body: Json) -> None:
    account = state.accounts[number]
    password = body.get("Password")
    account.update({key: value for key, value in body.items() if key != "Password"})
    state.bump(f"{ACCOUNTS}/{number}")
    if password is None:
        return
    if number == state.first_account:
        state.spec.password, state.spec.faults.password_change = password, False
    else:
        state.passwords[number] = password
    if state.spec.password_ends != "none":
        user = account["UserName"]
        for token in [one for one in state.sessions if state.spec.password_ends == "all" or state.users[one] == user]:
            del state.sessions[token]


def number_of(state: State, user: object, password: object) -> str:
    """Return the id of the account that may log in, "" for a refusal."""
    for number, account in state.accounts.items():
        known = state.spec.password if number == state.first_account else state.passwords.get(number)
        if account["UserName"] == user and known and known == password and account["Enabled"] and not account["Locked"]:
            return number
    return ""
