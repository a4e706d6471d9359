# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one function for many BMCs in threads: bounded, one at a time per BMC, and each failure is its own.

After SIGTERM, SIGINT or an exception no further BMC begins, requests in progress end, and each session is deleted.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Generic, TypeVar

from .client import Client
from .errors import OTHER, STOPPED, BmcError
from .transport import Bmc

A = TypeVar("A")
T = TypeVar("T")
AT_ONCE = 256
_GRACE_S = 15.0
"""Seconds for the ends of sessions after the run was stopped."""


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """Result of one node: `value`, or the error."""

    node: str
    value: T | None = None
    error: BmcError | None = None


class Clients:
    """The sessions of a run. `stop`, once set, ends waiting in all of them; `interrupt` then ends requests in progress."""

    def __init__(self, *, read_only: bool = False) -> None:
        self.read_only, self.stop = read_only, threading.Event()
        self._open: set[Client] = set()
        self._guard = threading.Lock()

    @contextmanager
    def session(self, bmc: Bmc) -> Iterator[Client]:
        """Open a session with a BMC, and delete it at the end. An unexpected exception becomes a BmcError without its text."""
        client = Client(bmc, read_only=self.read_only, stop=self.stop)
        with self._guard:
            self._open.add(client)
        try:
            with client:
                try:
                    yield client
                except BmcError:
                    raise
                except Exception as error:
                    raise client.error(OTHER, _defect(error), _REPORT) from None
        finally:
            with self._guard:
                self._open.discard(client)

    def interrupt(self) -> None:
        """End the requests in progress."""
        with self._guard:
            for client in self._open:
                client.interrupt()


def for_each_bmc(
    bmcs: Iterable[Bmc], function: Callable[[Client], T], *, at_once: int = AT_ONCE, read_only: bool = False
) -> dict[str, Outcome[T]]:
    """Return node -> outcome of the function, which is called with an open session. Two nodes with one BMC are served in turn.

    Raises ValueError if two BMCs have the same node.
    """
    listed = list(bmcs)
    by_node = {one.node: one for one in listed}
    if len(by_node) < len(listed):
        raise ValueError("two BMCs are of the same node")
    turns = {(one.address, one.port): threading.Lock() for one in listed}
    clients = Clients(read_only=read_only)

    def run(bmc: Bmc) -> T:
        with turns[bmc.address, bmc.port], clients.session(bmc) as client:
            return function(client)

    return for_each(by_node, run, at_once=at_once, stop=clients.stop, interrupt=clients.interrupt)


def for_each(
    items: Mapping[str, A],
    function: Callable[[A], T],
    *,
    at_once: int = AT_ONCE,
    stop: threading.Event | None = None,
    interrupt: Callable[[], None] = lambda: None,
) -> dict[str, Outcome[T]]:
    """Return node -> outcome of the function for each item, in the order of the items.

    `stop` is set when the run must end; `interrupt` then ends requests in progress.
    """
    stopped = stop or threading.Event()

    def run(node: str, item: A) -> Outcome[T]:
        if stopped.is_set():
            return Outcome(node, error=BmcError(STOPPED, node, "the run was stopped before this BMC", "Run again."))
        try:
            return Outcome(node, function(item))
        except BmcError as error:
            return Outcome(node, error=error)
        except Exception as error:
            return Outcome(node, error=BmcError(OTHER, node, _defect(error), _REPORT))

    with _stopped_by_signal(stopped), ThreadPoolExecutor(max(1, min(at_once, len(items)))) as pool:
        futures = {node: pool.submit(run, node, item) for node, item in items.items()}
        try:
            _wait(list(futures.values()), stopped)
        except BaseException:
            stopped.set()
            raise
        finally:
            if stopped.is_set():
                _end(list(futures.values()), interrupt)
        return {node: future.result() for node, future in futures.items()}


def _wait(futures: Iterable[Future[Outcome[T]]], stopped: threading.Event) -> None:
    left = set(futures)
    while left and not stopped.is_set():
        _done, left = wait(left, timeout=0.25)


def _end(futures: Iterable[Future[Outcome[T]]], interrupt: Callable[[], None]) -> None:
    """Interrupt requests in progress, and wait for the ends of the sessions."""
    until, left = time.monotonic() + _GRACE_S, set(futures)
    while left and time.monotonic() < until:
        # A request that began just before the stop is met by the next turn.
        interrupt()
        _done, left = wait(left, timeout=0.5)


_REPORT = "Report this defect of bedplate."


def _defect(error: Exception) -> str:
    """Return type and place of an unexpected exception. Its text may contain secrets and is left out."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"


@contextmanager
def _stopped_by_signal(stopped: threading.Event) -> Iterator[None]:
    """Set the event at SIGTERM; at the end, let the process handle the signal as it did before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        stopped.set()

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)
        if received:
            os.kill(os.getpid(), received[0])
