# SPDX-License-Identifier: GPL-3.0-or-later
"""Write to a BMC, and read back until the write shows. An accepted write that does not show is an error."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from .client import Answer, Client
from .errors import NOT_TAKEN, BmcError, Message

T = TypeVar("T")
_LONGEST_POLL_S = 10.0
TRIES = 3


@dataclass(frozen=True)
class Change:
    """Result of a comparison and of the write after it.

    `expected` is the requested state, `before` what was found, `path` the resource. `is_proven` is false if the BMC shows no evidence, as
    for a reset without LastResetTime. In check mode a change is reported and not written.
    """

    changed: bool
    expected: str
    before: str
    path: str
    is_proven: bool = True


def poll(client: Client, read: Callable[[], T], is_taken: Callable[[T], bool], seconds: float) -> T:
    """Return the first read that shows a write, or the last one after the bound. The first read is at once."""
    until, delay = time.monotonic() + seconds, client.bmc.limits.poll_s
    while True:
        found = read()
        left = until - time.monotonic()
        if is_taken(found) or left <= 0:
            return found
        client.pause(min(delay, left))
        delay = min(2 * delay, _LONGEST_POLL_S)


def write_until_taken(
    client: Client,
    write: Callable[[], Answer],
    read: Callable[[], T],
    is_taken: Callable[[T], bool],
    *,
    tries: int = TRIES,
    seconds: float = 0.0,
) -> tuple[T, tuple[Message, ...]]:
    """Write, and read back; write again if the write does not show. Return the last read, and the messages of the last write.

    `seconds` bounds the wait after each write; 0 is `settle_s` of the BMC's limits. The write must be repeatable.
    """
    for left in reversed(range(tries)):
        answer = write()
        found = poll(client, read, is_taken, seconds or client.bmc.limits.settle_s)
        if is_taken(found) or not left:
            break
    return found, answer.messages


def not_taken(
    client: Client, what: str, path: str, expected: str, found: str, messages: tuple[Message, ...] = ()
) -> BmcError:
    """Return the error for a write that the BMC accepted, and that does not show."""
    remedy = "Read the log of the BMC; restart the BMC or update its firmware if its log shows no reason."
    what = f"{what} was accepted and not taken"
    return client.error(NOT_TAKEN, what, remedy, path=path, expected=expected, found=found, messages=messages)
