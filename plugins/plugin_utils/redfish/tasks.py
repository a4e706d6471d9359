# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until a task of a BMC ends."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .client import Answer, Client
from .errors import BUSY, MISSING, OTHER, TIMEOUT, BmcError, messages_of

_RUNNING = {"New", "Starting", "Running", "Pending", "Suspended", "Stopping", "Cancelling", "Interrupted", "Service"}
_FAILED = {"Exception", "Killed", "Cancelled"}


def finished(client: Client, answer: Answer, seconds: float = 0.0) -> Answer:
    """Return the last answer of the task that an answer began; without a task (other than HTTP 202), the answer itself.

    `seconds` bounds the wait; 0 is the bound of the BMC's limits. Raises BmcError: kind timeout, or other with the task's messages.
    """
    if answer.status != 202:
        return answer
    monitor = answer.location or _text(answer.body, "TaskMonitor")
    task = _text(answer.body, "@odata.id")
    watched = monitor or task
    if not watched:
        return answer
    until = time.monotonic() + (seconds or client.bmc.limits.task_s)
    last = answer
    while time.monotonic() < until:
        client.pause(min(last.retry_after_s or client.bmc.limits.poll_s, max(0.0, until - time.monotonic())))
        try:
            last = client.get(watched)
        except BmcError as error:
            # A monitor is deleted once the task ended, and one without a body answers 204.
            if error.kind == "not-json" and error.status < 300:
                return Answer(watched, error.status, {})
            if error.kind == BUSY:
                continue
            if error.kind == MISSING and watched == monitor and task and task != monitor:
                watched = task
                continue
            raise
        state = _text(last.body, "TaskState")
        if state in _FAILED or (state == "Completed" and _text(last.body, "TaskStatus") == "Critical"):
            raise _failure(client, watched, last, state)
        if last.status != 202 and state not in _RUNNING:
            return last
    what = f"a task that did not end within {seconds or client.bmc.limits.task_s:g} s"
    raise client.error(TIMEOUT, what, "Read the task at the BMC, then run again.", path=watched)


def _failure(client: Client, path: str, answer: Answer, state: str) -> BmcError:
    raw = answer.body.get("Messages")
    wrapped = {"error": {"@Message.ExtendedInfo": raw if isinstance(raw, list) else []}}
    messages = messages_of(wrapped, client.secrets)
    what = f"a task ended as {state}"
    return client.error(
        OTHER, what, "Act on the messages of the task.", path=path, status=answer.status, messages=messages
    )


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""
