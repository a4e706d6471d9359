# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the ports of the HCAs from sysfs. Only a disposable child runs this: a port's state makes the driver query its firmware."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

from ...common.sysfs import Root
from ..facts.node_facts import Reading
from .reading_lines import NOT_SUPPORTED, Answer, Problem, unread

SOURCE = "sysfs"
CLASS = "sys/class/infiniband"
COUNTERS = {
    "rdma-link-downed": "counters/link_downed",
    "rdma-link-recovery": "counters/link_error_recovery",
    "rdma-symbol-errors": "counters/symbol_error",
    "rdma-local-integrity": "counters/local_link_integrity_errors",
    "rdma-buffer-overrun": "counters/excessive_buffer_overrun_errors",
    "rdma-receive-errors": "counters/port_rcv_errors",
    "rdma-rnr-retries": "hw_counters/rnr_nak_retry_err",
}
QUANTITIES = ("rdma-count", "rdma-state", "rdma-physical", "rdma-rate", *COUNTERS)
_STATE = re.compile(r"[0-9]{1,2}: ([A-Za-z_]{2,20})\Z")
_RATE = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) Gb/sec")
_COUNT = re.compile(r"[0-9]{1,19}\Z")
Read = Callable[[str], Answer]


def read_ports(root: Root, exclude: Collection[str] = ()) -> Iterator[Reading]:
    """Yield the readings of all ports. `exclude`: HCAs that are restricted to the host's management, and not for jobs.

    The device of a reading is HCA and port, such as `mlx5_0/1`. A rate is in Gbit/s.
    """
    if not root.exists(CLASS):
        yield Reading("rdma-count", "", 0, SOURCE)
        return
    before = len(root.problems)
    names = [name for name in root.names(CLASS) if name not in exclude]
    if len(root.problems) > before:
        yield unread("rdma-count", "", SOURCE, root.problems[-1])
        return
    yield Reading("rdma-count", "", len(names), SOURCE)
    for name in names:
        ports = [port for port in root.names(f"{CLASS}/{name}/ports") if port.isascii() and port.isdecimal()]
        if not ports:
            yield unread("rdma-state", f"{name}/1", SOURCE, f"/{CLASS}/{name}/ports has no port")
        for port in ports:
            yield from _port(root, f"{CLASS}/{name}/ports/{port}", f"{name}/{port}")


def _port(root: Root, base: str, device: str) -> Iterator[Reading]:
    yield _read(root, f"{base}/state", "rdma-state", device, _state)
    yield _read(root, f"{base}/phys_state", "rdma-physical", device, _state)
    yield _read(root, f"{base}/rate", "rdma-rate", device, _rate)
    for quantity, path in COUNTERS.items():
        if root.exists(f"{base}/{path}"):
            yield _read(root, f"{base}/{path}", quantity, device, _count)
        else:
            yield unread(quantity, device, SOURCE, f"{NOT_SUPPORTED}: /{base}/{path} does not exist")


def _read(root: Root, path: str, quantity: str, device: str, convert: Read) -> Reading:
    text = root.text(path)
    if text is None:
        return unread(quantity, device, SOURCE, root.problems[-1])
    answer = convert(text)
    if isinstance(answer, Problem):
        return unread(quantity, device, SOURCE, f"/{path}: {answer}")
    return Reading(quantity, device, answer, SOURCE)


def _state(text: str) -> Answer:
    """Return the word of `4: ACTIVE`."""
    match = _STATE.match(text)
    return match[1] if match else Problem(f"{text[:40]!r} is not a state")


def _rate(text: str) -> Answer:
    match = _RATE.match(text)
    return float(match[1]) if match else Problem(f"{text[:40]!r} is not a rate")


def _count(text: str) -> Answer:
    return int(text) if _COUNT.match(text) else Problem(f"{text[:40]!r} is not a number")
