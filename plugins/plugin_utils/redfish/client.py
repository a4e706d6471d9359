# SPDX-License-Identifier: GPL-3.0-or-later
"""Command one BMC by Redfish: session, ETags, retries, tasks. One request at a time.

    with Client(bmc) as client:
        system = client.get("/redfish/v1/Systems/1")
        client.patch(system.path, {"AssetTag": "gpu001"}, etag=system.etag)

A session is opened by SessionService and deleted in every way out of the `with`. Basic authentication is used only if the BMC has no
SessionService.

Retries: GET and DELETE after a connection that ended, and every method except POST after HTTP 429, 503 and a refusal during POST of the
machine. A POST is sent once. A PATCH that a BMC refuses for its ETag is sent once more after a new GET.
"""

from __future__ import annotations

import base64
import json
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from .errors import (
    BUSY,
    CUT,
    MISSING,
    NOT_JSON,
    OTHER,
    READ_ONLY,
    REFUSED,
    STOPPED,
    TIMEOUT,
    BmcError,
    Message,
    hidden,
    messages_of,
)
from .transport import Bmc, Connection, Raw, Trust

ROOT = "/redfish/v1/"
_RETRIED_STATUS = (429, 503)
IN_POST = "UnableToModifyDuringSystemPOST"
_BUSY_KEYS = (IN_POST, "ServiceTemporarilyUnavailable", "ServiceShuttingDown")
_NO_SESSIONS = (404, 405, 501)
_PATH_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:@/%?#")
_SECRET_NAMES = ("password", "token", "secret", "passphrase")
_REDIRECTS = 3


@dataclass(frozen=True)
class Answer:
    """An answer of a BMC. `body` is its JSON object, empty without one. `path` is the path that answered. `location` is a path, or ""."""

    path: str
    status: int
    body: Mapping[str, Any] = field(repr=False)
    etag: str = ""
    location: str = ""
    retry_after_s: float = 0.0
    messages: tuple[Message, ...] = ()


class Client:
    """A session with one BMC. `read_only` refuses every request except GET, and the session's own.

    `stop`, once set, ends waiting and refuses further requests; the session is still deleted.
    """

    def __init__(self, bmc: Bmc, *, read_only: bool = False, stop: threading.Event | None = None) -> None:
        self.bmc, self.read_only = bmc, read_only
        self.requests = 0
        """Requests that were sent, with those of the session."""
        self.session_left = False
        """A session may be left at the BMC: its end was not confirmed, or the answer of its beginning was lost."""
        self.root: Answer | None = None
        """ServiceRoot; set once the session is open."""
        self._stop = stop or threading.Event()
        self._connection = Connection(bmc)
        self._turn = threading.RLock()
        self._authorization: dict[str, str] = {}
        self._session = ""
        self._is_session_at_work = False
        self._secrets = {bmc.account.password}

    def __repr__(self) -> str:
        return f"Client({self.bmc.node!r}, {self.bmc.address!r})"

    def __enter__(self) -> Client:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Read ServiceRoot, and open a session. Raises BmcError."""
        self.root = self._request("GET", ROOT, None, needs_json=True)
        sessions = _sessions_path(self.root.body)
        if sessions:
            try:
                self._log_in(sessions)
            except BmcError as error:
                if error.status not in _NO_SESSIONS:
                    raise
                sessions = ""
        if not sessions:
            pair = f"{self.bmc.account.user}:{self.bmc.account.password}".encode()
            basic = base64.b64encode(pair).decode()
            self._secrets.add(basic)
            self._authorization = {"Authorization": f"Basic {basic}"}

    def close(self) -> None:
        """Delete the session, and close the connection. Raises nothing: `session_left` records a failure."""
        session, self._session = self._session, ""
        self._is_session_at_work = True
        try:
            if session:
                headers = self._authorization
                raw = self._send(
                    "DELETE", session, None, headers, seconds=self.bmc.limits.close_s, attempts=2, closing=True
                )
                # 401: the session expired before.
                self.session_left = raw.status >= 300 and raw.status not in (401, 404)
        except BmcError:
            self.session_left = True
        finally:
            self._authorization = {}
            self._is_session_at_work = False
            self._connection.close()

    def interrupt(self) -> None:
        """End the request that another thread waits for; that thread receives a BmcError. A session's begin and end are left alone."""
        if not self._is_session_at_work:
            self._connection.interrupt()

    def trust(self, trust: Trust) -> None:
        """End the connection; the next one proves the BMC by another trust. The session continues, if the BMC keeps it."""
        with self._turn:
            self._connection.close()
            self.bmc = replace(self.bmc, trust=trust)
            self._connection = Connection(self.bmc)

    @property
    def secrets(self) -> frozenset[str]:
        """Return the known secrets, for texts that must not contain them."""
        return frozenset(self._secrets)

    def without_secrets(self, text: str) -> str:
        """Return a text in which each known secret is replaced."""
        return hidden(text, self._secrets)

    def get(self, path: str) -> Answer:
        """Return a resource. Raises BmcError; kind `missing` if the BMC does not have it."""
        return self._request("GET", path, None, needs_json=True)

    def find(self, path: str) -> Answer | None:
        """Return a resource, or None if the BMC does not have it."""
        try:
            return self.get(path) if path else None
        except BmcError as error:
            if error.kind != MISSING:
                raise
            return None

    def patch(self, path: str, body: Mapping[str, Any], etag: str = "") -> Answer:
        """Change properties of a resource. With an `etag`, only if it did not change since.

        If the BMC refuses the ETag (412) or requires one (428), the resource is read again and the change is sent once more.
        """
        with self._change("PATCH", path, body):
            try:
                return self._request("PATCH", path, body, etag=etag)
            except BmcError as error:
                if error.status not in (412, 428):
                    raise
            current = self.get(path).etag
            if current == etag and current.startswith("W/"):
                # Such a BMC compares strongly, although it sends weak ETags.
                current = current.removeprefix("W/")
            return self._request("PATCH", path, body, etag=current)

    def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Call an action, or create a resource. It is sent once: an error of kind `cut` or `timeout` leaves open whether the BMC obeyed."""
        with self._change("POST", path, body):
            return self._request("POST", path, body)

    def delete(self, path: str) -> Answer:
        """Delete a resource. A resource that does not exist after a lost answer counts as deleted."""
        with self._change("DELETE", path, {}):
            return self._request("DELETE", path, None)

    def pause(self, seconds: float) -> None:
        """Wait. Raises BmcError of kind `stopped` once the run is stopped."""
        if self._stop.wait(seconds):
            raise self._stopped()

    def error(self, kind: str, what: str, remedy: str, **fields: Any) -> BmcError:
        """Return an error of this BMC without secrets; `fields` as of BmcError."""
        hide = self.without_secrets
        kept: dict[str, Any] = {
            name: hide(value) if isinstance(value, str) else value for name, value in fields.items()
        }
        return BmcError(kind, self.bmc.node, hide(what), remedy, **kept)

    @contextmanager
    def _change(self, method: str, path: str, body: Mapping[str, Any]) -> Iterator[None]:
        if self.read_only:
            raise self.error(
                READ_ONLY, f"{method} was not sent: this run only reads", "Run without --check.", path=path
            )
        self._secrets |= set(_secrets_in(body))
        with self._turn:
            yield

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None, etag: str = "", needs_json: bool = False
    ) -> Answer:
        headers = {"If-Match": etag} if etag else {}
        with self._turn:
            for _redirect in range(_REDIRECTS + 1):
                raw = self._send(method, path, body, {**self._authorization, **headers})
                if raw.status == 401 and self._session and method != "POST":
                    # The session expired, and the BMC did nothing.
                    self._log_in(_sessions_path(self.root.body if self.root else {}))
                    raw = self._send(method, path, body, {**self._authorization, **headers})
                target = _path_of(raw.headers.get("location", ""))
                if method != "GET" or raw.status not in (301, 302, 307, 308) or not target:
                    break
                path = target
        return self._answer(raw, path, needs_json)

    def _log_in(self, sessions: str) -> None:
        account = self.bmc.account
        self._is_session_at_work = True
        try:
            raw = self._send(
                "POST", sessions, {"UserName": account.user, "Password": account.password}, {}, repeat_busy=True
            )
        except BmcError as error:
            # The BMC may have opened a session whose token was lost.
            self.session_left = error.kind in (CUT, TIMEOUT)
            raise
        finally:
            self._is_session_at_work = False
        token = raw.headers.get("x-auth-token", "")
        self._secrets.add(token)
        answer = self._answer(raw, sessions)
        self._session = answer.location or str(answer.body.get("@odata.id") or "")
        # A session without a path cannot be deleted.
        self.session_left = self.session_left or not self._session
        if not token.isascii() or not token.isprintable() or not token:
            raise self.error(OTHER, "a session without a usable token", "Report the model of this BMC.", path=sessions)
        self._authorization = {"X-Auth-Token": token}

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        *,
        seconds: float = 0.0,
        attempts: int = 0,
        repeat_busy: bool = False,
        closing: bool = False,
    ) -> Raw:
        """Send a request until it is answered, as often as its method allows. Return the answer of any status."""
        limits = self.bmc.limits
        if not path.startswith("/") or not set(path) <= _PATH_CHARACTERS:
            raise self.error(OTHER, "the BMC sent a link that is not a path", "Report the model of this BMC.")
        data = None if body is None else json.dumps(body).encode()
        sent = {"Accept": "application/json", "OData-Version": "4.0", **headers}
        if data is not None:
            sent["Content-Type"] = "application/json"
        until = time.monotonic() + (seconds or limits.patience_s)
        was_cut = False
        for attempt in range(1, (attempts or limits.attempts) + 1):
            if self._stop.is_set() and not closing:
                raise self._stopped()
            is_last = attempt == (attempts or limits.attempts)
            try:
                self.requests += 1
                raw = self._connection.exchange(
                    method,
                    path.partition("#")[0],
                    data,
                    sent,
                    seconds or limits.answer_s,
                    repeatable=method in ("GET", "DELETE"),
                )
            except BmcError as error:
                may_repeat = error.dropped or (error.kind == CUT and method in ("GET", "DELETE"))
                was_cut = was_cut or error.kind == CUT
                delay = _back_off(attempt, limits.first_delay_s, limits.longest_delay_s)
                if is_last or not may_repeat or time.monotonic() + delay > until:
                    raise
            else:
                if method == "DELETE" and was_cut and raw.status in (404, 410):
                    return Raw(204, raw.headers, b"")
                wait = self._busy_delay(raw, attempt)
                if wait is None or is_last or (method == "POST" and not repeat_busy) or time.monotonic() + wait > until:
                    return raw
                delay = wait
            if self._stop.wait(delay) and not closing:
                raise self._stopped()
        raise AssertionError("a request has at least one attempt")

    def _busy_delay(self, raw: Raw, attempt: int) -> float | None:
        """Return the seconds until the next attempt, or None if the answer is final."""
        limits = self.bmc.limits
        if raw.status < 400:
            return None
        keys = {one.key for one in messages_of(_json_of(raw.body))}
        if "SessionLimitExceeded" in keys:
            return None
        if raw.status in _RETRIED_STATUS:
            after = _seconds(raw.headers.get("retry-after", ""))
            return (
                min(after, limits.longest_delay_s)
                if after
                else _back_off(attempt, limits.first_delay_s, limits.longest_delay_s)
            )
        if IN_POST in keys:
            return limits.post_delay_s
        return _back_off(attempt, limits.first_delay_s, limits.longest_delay_s) if keys & set(_BUSY_KEYS) else None

    def _answer(self, raw: Raw, path: str, needs_json: bool = False) -> Answer:
        body = _json_of(raw.body)
        messages = messages_of(body, self._secrets)
        if raw.status >= 300:
            raise self._refusal(raw.status, path, messages)
        if needs_json and not isinstance(body, dict):
            what = "the answer is not a JSON object"
            raise self.error(
                NOT_JSON, what, "Restart the BMC; if this remains, report its model.", path=path, status=raw.status
            )
        body = body if isinstance(body, dict) else {}
        return Answer(
            path,
            raw.status,
            body,
            raw.headers.get("etag") or str(body.get("@odata.etag") or ""),
            _path_of(raw.headers.get("location", "")),
            _seconds(raw.headers.get("retry-after", "")),
            messages,
        )

    def _refusal(self, status: int, path: str, messages: tuple[Message, ...]) -> BmcError:
        keys = {one.key for one in messages}
        kind, what, remedy = OTHER, "the request failed", "Act on the messages of the BMC."
        if "PasswordChangeRequired" in keys:
            kind, what = REFUSED, "the account needs a new password"
            remedy = "Run playbooks/bmc_commission.yml, which sets one."
        elif "SessionLimitExceeded" in keys:
            kind, what, remedy = (
                BUSY,
                "all sessions are in use",
                "Delete sessions of other programs, or restart the BMC.",
            )
        elif status in _RETRIED_STATUS or keys & set(_BUSY_KEYS):
            kind, what, remedy = BUSY, "the BMC is busy", "Wait until the machine is through POST, then run again."
        elif status in (401, 403):
            kind, what = REFUSED, "the BMC refuses the account"
            remedy = f"Check name and password of the secret of this BMC, and the role of {self.bmc.account.user}."
        elif status in (404, 410):
            kind, what, remedy = (
                MISSING,
                "the resource does not exist",
                "Update the firmware of the BMC if the resource is needed.",
            )
        elif 300 <= status < 400:
            what, remedy = "a redirect that is not followed", "Report the model of this BMC."
        return self.error(kind, what, remedy, path=path, status=status, messages=messages)

    def _stopped(self) -> BmcError:
        return self.error(STOPPED, "the run was stopped", "Run again.")


def _back_off(attempt: int, first: float, longest: float) -> float:
    """Return the delay before the next attempt: it doubles, with a quarter of jitter."""
    return float(min(longest, first * 2 ** (attempt - 1)) * random.uniform(0.75, 1.0))


def _seconds(text: str) -> float:
    """Return the seconds of Retry-After; 0 for a date or garbage."""
    return float(text) if text.isdigit() and len(text) < 7 else 0.0


def _json_of(data: bytes) -> Any:
    try:
        return json.loads(data) if data else None
    except (ValueError, RecursionError):
        return None


def _path_of(url: str) -> str:
    """Return the path of a URL or path; the host of it is never followed."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return parts.path + (f"?{parts.query}" if parts.query else "")


def _sessions_path(root: Mapping[str, Any]) -> str:
    """Return the path of the collection of sessions, "" if the BMC has no SessionService."""
    links = root.get("Links")
    sessions = links.get("Sessions") if isinstance(links, Mapping) else None
    if isinstance(sessions, Mapping) and isinstance(sessions.get("@odata.id"), str):
        return str(sessions["@odata.id"])
    service = root.get("SessionService")
    if isinstance(service, Mapping) and isinstance(service.get("@odata.id"), str):
        return f"{service['@odata.id'].rstrip('/')}/Sessions"
    return ""


def _secrets_in(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values of properties whose name is of a secret, such as `Password`."""
    for key, value in body.items():
        if isinstance(value, Mapping):
            yield from _secrets_in(value)
        elif isinstance(value, str) and value and any(one in key.lower() for one in _SECRET_NAMES):
            yield value
