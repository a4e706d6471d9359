# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognise by its resources how a BMC differs from the Redfish standard. The differences are the rows of dialects.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from .evidence import SETTINGS_LINK, Evidence, gather, holds
from .reader import Get, link, path_of

CAPTURE, SOURCE, MANUAL = "capture", "source", "manual"
KNOWN_FROM = (CAPTURE, SOURCE, MANUAL)
TABLE = Path(__file__).with_name("dialects.json")


@dataclass(frozen=True)
class Dialect:
    """Hold how to command one BMC. The defaults are the standard; `rows` are the ids of the rows that changed them."""

    rows: tuple[str, ...] = ()
    # More than one System: the chosen one is `system` of the evidence.
    several_systems: bool = False
    # Property of the System with the serial number of the machine, as DMI shows it.
    serial_from: str = "SerialNumber"
    # Where Boot is written, and where it is read back: `system`, its `settings` object, or `sd`, the System's path with /SD.
    boot_written_at: str = "system"
    boot_read_at: tuple[str, ...] = ("system",)
    # What each PATCH of Boot has: `changed` values alone, Target with `enabled` and mode, or the `whole` object.
    boot_sends: str = "changed"
    # BootSourceOverrideMode may be sent.
    boot_mode_writable: bool = True
    # The boot mode changes by a job of the BIOS.
    boot_mode_by_job: bool = False
    # BootSourceOverrideEnabled takes Continuous.
    continuous: bool = True
    # Where the types of a reset are: in the `action`, or in its `action_info` resource.
    reset_types_at: str = "action"
    # Repeat changes that are refused during POST, and a power-on that answers 409.
    retry_in_post: bool = False
    retry_power_conflict: bool = False
    # How a URI of HTTP boot is set: `boot` (HttpBootUri), `bios_attribute`, or `none`.
    http_boot: str = "boot"
    # How media are inserted: by `action`, by `patch`, or `none`. Which slots: `all`, or those `with_insert`; `media_slot` is the only id.
    media_insert: str = "action"
    media_slots: str = "all"
    media_slot: str = ""
    # Try the next slot after 400 and 405.
    media_try_next: bool = False
    # Seconds in which a slot may still say that its medium is inserted after an eject.
    media_settle: int = 0
    # Boot target of the virtual CD. VCD-DVD is not a target: it is set by attributes of the manager.
    cd_target: str = "Cd"
    # Apply time that a PATCH of BIOS settings must have; "": none. Settings apply by jobs, one at a time.
    bios_apply_time: str = ""
    bios_jobs: bool = False
    # How firmware is sent: the BMC fetches it (`simple`), it is sent (`multipart`), or `none`.
    update_method: str = "simple"
    # How an account is created: `post` to the collection (a free slot if the BMC refuses that), or in a free one of its `slots`. Ids of
    # slots that must not be used.
    accounts_added: str = "post"
    accounts_reserved: tuple[str, ...] = ()
    # When a new certificate is served: `at_once`, or after a reset of the BMC (`bmc_reset`).
    certificate_applies: str = "at_once"
    # The BMC mixes letter case in its paths.
    paths_any_case: bool = False


@dataclass(frozen=True)
class Row:
    """Hold one row of dialects.json: conditions on resources, and the fields of Dialect that it changes."""

    id: str
    about: str
    when: tuple[Mapping[str, Any], ...]
    changes: Mapping[str, Any]
    effect: str
    seen: str
    source: str
    known_from: str


@lru_cache(maxsize=1)
def rows() -> tuple[Row, ...]:
    """Return the rows of the table, in its order."""
    return tuple(
        Row(
            **{
                **row,
                "when": tuple(row["when"]),
                "changes": {key: _changed(one) for key, one in row["changes"].items()},
            }
        )
        for row in json.loads(TABLE.read_text(encoding="utf-8"))["rows"]
    )


def _changed(found: Any) -> Any:
    return tuple(found) if isinstance(found, list) else found


def recognise(evidence: Evidence) -> Dialect:
    """Return the dialect that the evidence shows."""
    dialect = Dialect()
    for row in rows():
        if all(holds(condition, evidence) for condition in row.when):
            dialect = replace(dialect, **row.changes, rows=(*dialect.rows, row.id))
    return dialect


def read(get: Get, serial: str = "") -> tuple[Evidence, Dialect]:
    """Return evidence and dialect of a BMC, read through `get`. SystemChoiceError, LookupError: as `gather`."""
    evidence = gather(get, serial)
    return evidence, recognise(evidence)


def boot_path(dialect: Dialect, evidence: Evidence, place: str = "") -> str:
    """Return the path where Boot is written, or the path of another place of `boot_read_at`."""
    system = path_of(evidence.system)
    paths = {"system": system, "settings": link(evidence.system, SETTINGS_LINK), "sd": f"{system.rstrip('/')}/SD"}
    return paths[place or dialect.boot_written_at]


def serial_of(dialect: Dialect, evidence: Evidence) -> str:
    """Return the serial number of the machine as DMI shows it, "" if the BMC reports none."""
    return str(evidence.system.get(dialect.serial_from) or "").strip()
