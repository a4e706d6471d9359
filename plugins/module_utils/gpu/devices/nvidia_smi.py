# SPDX-License-Identifier: GPL-3.0-or-later
"""Query nvidia-smi with a deadline, and parse its output so that an unknown text never becomes a value."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ...common import command
from ...common.command import Outcome
from .gpu_devices import address_of

Facts = dict[str, Any]

BUS_ID, UUID, NAME = "pci.bus_id", "uuid", "name"
# Fields of nvidia-smi to the names of the facts. The first is the one that no driver lacks.
SWITCHES = {
    "persistence_mode": "persistence",
    "mig.mode.current": "mig",
    "mig.mode.pending": "mig_pending",
    "ecc.mode.current": "ecc",
    "ecc.mode.pending": "ecc_pending",
}
TEXTS = {"fabric.state": "fabric_state", "fabric.status": "fabric_status"}
FIELDS = (BUS_ID, UUID, NAME, *SWITCHES, *TEXTS)
# Words for "this GPU does not have it". Any other word in brackets is reported as a problem.
_NOT_THERE = ("[N/A]", "N/A", "[Not Supported]", "Not Supported", "[Not Found]")
# Cells of a GPU that has fallen off the bus or must be reset. nvidia-smi ends with 0 there, and its -L lists the GPU.
FAILURES = ("[GPU is lost]", "[GPU requires reset]")
_TROUBLE = re.compile(r"\[.*\]\Z|ERR!\Z|Unknown\Z|Unknown Error\Z|\Z")
# Drivers up to 570 print `state  Completed`, `status Success` and `state  N/A`, those from 590 on the words alone; 580 printed `N/A`.
_LABEL = re.compile(r"\A(?:state|status) +")
# Both messages are from the program of driver 535.
_NO_FIELD = re.compile(r'(?:Field "([^"]+)" is|([^\s"]+) :) not a valid field to query\.?\s*\Z')


@dataclass
class SmiOutput:
    """Parsed output of nvidia-smi; each line that is not blank is in exactly one of these.

    Attributes:
        rows: PCI address to the values by field; None for unknown values.
        lacking: fields that this nvidia-smi does not know.
        unread: all other lines, with the reason.
        troubles: values of `rows` that became None and were not simply missing.
        failures: PCI address to the failure in its row, such as `GPU is lost`.
    """

    rows: dict[str, dict[str, str | None]] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


def parse(text: str, fields: Iterable[str]) -> SmiOutput:
    """Return the parsed output of `nvidia-smi --query-gpu=FIELDS --format=csv,noheader`. Raises no exception."""
    names, told = list(fields), SmiOutput()
    for raw in text.split("\n"):
        line = raw.strip()
        if not line:
            continue
        if match := _NO_FIELD.match(line):
            told.lacking.append(match[1] or match[2])
            continue
        values = [value.strip() for value in line.split(",")]
        row = dict(zip(names, values))
        address = address_of(row.get(BUS_ID, ""))
        if len(values) != len(names):
            told.unread.append((line, f"{len(values)} values for {len(names)} fields" if address else ""))
        elif address is None:
            told.unread.append((line, f"{row.get(BUS_ID)!r} is not a PCI address"))
        elif address in told.rows:
            told.unread.append((line, f"{address} a second time"))
        else:
            told.failures.update((address, one.strip("[]")) for one in FAILURES if one in values)
            told.rows[address] = {name: _value(address, name, row[name], told.troubles) for name in names}
    return told


def _value(address: str, name: str, value: str, troubles: list[str]) -> str | None:
    if name in TEXTS:
        value = _LABEL.sub("", value)
    if value in _NOT_THERE:
        return None
    if _TROUBLE.match(value):
        troubles.append(f"{address}: nvidia-smi reports {name} as {value!r}")
        return None
    return value


Run = Callable[[list[str], float], Outcome]


def query(program: str, seconds: float, problems: list[str], run: Run = command.run) -> SmiOutput | None:
    """Query nvidia-smi, without the fields that it does not know; None if it does not answer within `seconds`."""
    fields, end, lacking = list(FIELDS), time.monotonic() + seconds, list[str]()
    while True:
        argv = [program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
        outcome = run(argv, max(end - time.monotonic(), 0.1))
        if outcome.code is None:
            problems.append(
                f"{program}: no answer within {seconds:g} s, abandoned; a GPU or the driver hangs (`dmesg | grep -i -e xid -e nvrm`). "
                f"Do not query it again before a reboot"
            )
            return None
        told = parse(outcome.stdout, fields)
        known = [name for name in fields if name not in told.lacking]
        if len(known) == len(fields) or BUS_ID not in known:
            break
        lacking += [name for name in told.lacking if name in fields]
        fields = known
    problems += [f"{program}: the version of this driver has no field {name}" for name in lacking]
    problems += told.troubles
    problems += [f"{program}: {line!r}" + (f": {why}" if why else "") for line, why in told.unread]
    problems += [f"{program}: does not know the field {name!r}" for name in told.lacking]
    problems += [f"{program}: {line.strip()!r}" for line in outcome.stderr.split("\n") if line.strip()]
    if outcome.code != 0:
        problems.append(f"{program}: ended with {outcome.code}")
    return told if outcome.code == 0 or told.rows else None


def add_rows(gpus: list[Facts], told: SmiOutput | None, problems: list[str]) -> None:
    """Add to each GPU, by its PCI address, the values of nvidia-smi; None for values that are unknown or were not queried."""
    for gpu in gpus:
        gpu.update(dict.fromkeys((*SWITCHES.values(), *TEXTS.values(), "failure")))
    if told is None:
        return
    known = {gpu["address"]: gpu for gpu in gpus}
    problems += [
        f"{address}: nvidia-smi lists this GPU, but sysfs does not" for address in told.rows if address not in known
    ]
    for address, gpu in known.items():
        if address in told.rows:
            gpu["failure"] = told.failures.get(address)
            _add_row(gpu, told.rows[address], problems)
        elif gpu["driver"] == "nvidia" and not gpu["excluded"]:
            gpu["failure"] = "nvidia-smi does not list it"
            problems.append(
                f"{address}: the driver is bound to this GPU, but nvidia-smi does not list it. It may have fallen off the bus"
            )


def _add_row(gpu: Facts, row: dict[str, str | None], problems: list[str]) -> None:
    address, uuid = gpu["address"], row.get(UUID)
    if uuid and gpu["uuid"] and uuid != gpu["uuid"]:
        problems.append(f"{address}: its UUID is {gpu['uuid']} in /proc and {uuid} in nvidia-smi")
    gpu["uuid"], gpu["model"] = gpu["uuid"] or uuid, gpu["model"] or row.get(NAME)
    for name, fact in TEXTS.items():
        gpu[fact] = row.get(name)
    for name, fact in SWITCHES.items():
        value = row.get(name)
        gpu[fact] = {"Enabled": True, "Disabled": False}.get(value or "")
        if value is not None and gpu[fact] is None:
            problems.append(f"{address}: nvidia-smi reports {name} as {value!r}, neither Enabled nor Disabled")
