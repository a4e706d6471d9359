# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the one error of the BMC layer, and the messages that a BMC sends with an answer.

No error contains a password or a token: texts of a BMC pass through `hidden` before they are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

UNREACHABLE, REFUSED, BUSY, TIMEOUT, OTHER = "unreachable", "refused", "busy", "timeout", "other"
WRONG_CERTIFICATE, NOT_JSON = "wrong-certificate", "not-json"
CUT = "cut"
"""The connection ended after the request was sent, so the BMC may have obeyed it."""
TOO_LARGE = "too-large"
MISSING = "missing"
"""HTTP 404 and 410: the BMC does not have the resource."""
UNSUPPORTED = "unsupported"
"""The BMC offers no way to do what was requested."""
NOT_TAKEN = "not-taken"
"""The BMC accepted a write, and the value that was read back differs."""
READ_ONLY = "read-only"
"""The run may only read, as in check mode."""
STOPPED = "stopped"
"""The run was stopped before this request."""

_MOST_MESSAGES, _LONGEST_TEXT = 10, 500
_HIDDEN = "********"


@dataclass(frozen=True)
class Message:
    """One entry of `@Message.ExtendedInfo`: `id` such as `Base.1.8.PropertyValueNotInList`, `text`, `resolution`, `args`."""

    id: str
    text: str
    resolution: str = ""
    args: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Return the last part of the id, such as `PropertyValueNotInList`: the registry's version is not in it."""
        return self.id.rpartition(".")[2]

    def __str__(self) -> str:
        return self.text or self.id


class BmcError(Exception):
    """A request to a BMC failed, or its result differs from what was requested.

    `kind` is one of the constants of this file. `path` is the URL path of the resource, without host. `status` is the HTTP status, 0
    without an answer. `messages` are the BMC's own. `what` says what happened and `remedy` what to do. `expected` and `found` are set for
    a write that was not taken. `dropped`: the BMC ended the connection before any byte of the request, so a second attempt is safe.
    """

    def __init__(
        self,
        kind: str,
        node: str,
        what: str,
        remedy: str,
        *,
        path: str = "",
        status: int = 0,
        messages: Iterable[Message] = (),
        expected: str = "",
        found: str = "",
        dropped: bool = False,
    ) -> None:
        self.kind, self.node, self.what, self.remedy = kind, node, what, remedy
        self.path, self.status, self.messages = path, status, tuple(messages)
        self.expected, self.found, self.dropped = expected, found, dropped
        super().__init__(str(self))

    def __str__(self) -> str:
        place = f"{self.node}: BMC{f' {self.path}' if self.path else ''}"
        status = f" (HTTP {self.status})" if self.status else ""
        difference = f": expected {self.expected}, found {self.found}" if self.expected else ""
        said = f". The BMC reports: {' '.join(str(one) for one in self.messages)}" if self.messages else ""
        return f"{place}: {self.what}{difference}{status}{said}. {self.remedy}"

    def __repr__(self) -> str:
        return f"BmcError({self.kind!r}, {str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy, (self.as_data(),)

    def has(self, key: str) -> bool:
        """Return whether the BMC sent the message with this key, such as `PropertyNotWritable`."""
        return any(one.key == key for one in self.messages)

    @property
    def needs_new_password(self) -> bool:
        """Return whether the BMC refuses all requests until the account's password is changed."""
        return self.has("PasswordChangeRequired")

    def as_data(self) -> dict[str, Any]:
        """Return the fields as plain data, `messages` as a list of dicts with `id`, `text`, `resolution` and `args`."""
        messages = [
            {"id": one.id, "text": one.text, "resolution": one.resolution, "args": list(one.args)}
            for one in self.messages
        ]
        names = ("kind", "node", "what", "remedy", "path", "status", "expected", "found", "dropped")
        return {**{name: getattr(self, name) for name in names}, "messages": messages}


def _copy(data: Mapping[str, Any]) -> BmcError:
    messages = [Message(one["id"], one["text"], one["resolution"], tuple(one["args"])) for one in data["messages"]]
    return BmcError(**{**data, "messages": messages})


def messages_of(body: Any, secrets: Iterable[str] = ()) -> tuple[Message, ...]:
    """Return the messages of an answer's JSON: of `error`, of the resource, and of its properties. At most ten, without secrets."""
    if not isinstance(body, Mapping):
        return ()
    kept = tuple(secrets)
    raw: list[Any] = []
    error = body.get("error")
    if isinstance(error, Mapping):
        info = error.get("@Message.ExtendedInfo")
        raw += info if isinstance(info, list) else [info]
        if not any(isinstance(one, Mapping) for one in raw):
            raw.append({"MessageId": error.get("code"), "Message": error.get("message")})
    for key, value in body.items():
        if key.endswith("@Message.ExtendedInfo"):
            raw += value if isinstance(value, list) else [value]
    found = (_message(one, kept) for one in raw if isinstance(one, Mapping))
    return tuple(dict.fromkeys(one for one in found if one.id or one.text))[:_MOST_MESSAGES]


def _message(raw: Mapping[str, Any], secrets: tuple[str, ...]) -> Message:
    args = raw.get("MessageArgs")
    return Message(
        _text(raw.get("MessageId"), secrets),
        _text(raw.get("Message"), secrets),
        _text(raw.get("Resolution"), secrets),
        tuple(_text(one, secrets) for one in args[:_MOST_MESSAGES]) if isinstance(args, list) else (),
    )


def _text(value: Any, secrets: tuple[str, ...]) -> str:
    """Return printable text of a value; "" for null."""
    if value is None:
        return ""
    text = hidden(str(value), secrets)
    return "".join(one if one.isprintable() else " " for one in text).strip()[:_LONGEST_TEXT]


def hidden(text: str, secrets: Iterable[str]) -> str:
    """Return the text with each secret replaced. Secrets within secrets are replaced longest first."""
    for secret in sorted({one for one in secrets if one}, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return text
