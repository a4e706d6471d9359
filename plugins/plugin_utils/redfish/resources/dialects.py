# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognise by its resources how a BMC differs from the Redfish standard. The differences are the rows of dialects.json."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from .evidence import SETTINGS_LINK, Evidence, LazyEvidence, gather, holds
from .reader import Get, link, path_of

CAPTURE, SOURCE, MANUAL = "capture", "source", "manual"
KNOWN_FROM = (CAPTURE, SOURCE, MANUAL)
TABLE = Path(__file__).with_name("dialects.json")


@dataclass(frozen=True)
class Dialect:
    """Hold how to command one BMC. The defaults are the standard; `rows` are the ids of the rows that changed them."""

    rows: tuple[str, ...] = ()
    # Property of the System with the serial number of the machine, as DMI shows it.
    serial_from: str = "SerialNumber"
    # Where Boot is written: `system`, its `settings` object, or `sd`, the System's path with /SD. It is read back in both places.
    boot_written_at: str = "system"
    # BootSourceOverrideMode may be sent.
    boot_mode_writable: bool = True
    # Where the types of a reset are: in the `action`, or in its `action_info` resource.
    reset_types_at: str = "action"
    # Repeat a power-on that answers 409.
    retry_power_conflict: bool = False
    # How a URI of HTTP boot is set: `boot` (HttpBootUri), or `bios_attribute`.
    http_boot: str = "boot"
    # How media are inserted: by `action`, or by `patch`. Which slots: `all`, or those `with_insert`; `media_slot` is the only id.
    media_insert: str = "action"
    media_slots: str = "all"
    media_slot: str = ""
    # Seconds in which a slot may still say that its medium is inserted after an eject.
    media_settle: int = 0
    # Boot target of the virtual CD. VCD-DVD is not a target: Boot cannot choose the virtual CD.
    cd_target: str = "Cd"
    # Apply time that a PATCH of BIOS settings must have; "": none.
    bios_apply_time: str = ""
    # The BMC has an inventory of firmware.
    firmware_listed: bool = True
    # How an account is created: `post` to the collection (a free slot if the BMC refuses that), or in a free one of its `slots`. Ids of
    # slots that must not be used.
    accounts_added: str = "post"
    accounts_reserved: tuple[str, ...] = ()
    # When a new certificate is served: `at_once`, or after a reset of the BMC (`bmc_reset`).
    certificate_applies: str = "at_once"


STANDARD = Dialect()
VIRTUAL_CD_ONLY_BY_ATTRIBUTES = "VCD-DVD"
BIOS_ATTRIBUTE = "bios_attribute"


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


@dataclass(frozen=True)
class Always:
    """Hold one difference that is expected of every BMC, so the client needs no evidence of it."""

    id: str
    about: str
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
                "changes": {key: tuple(one) if isinstance(one, list) else one for key, one in row["changes"].items()},
            }
        )
        for row in _table()["rows"]
    )


def always() -> tuple[Always, ...]:
    """Return the differences that are expected of every BMC."""
    return tuple(Always(**one) for one in _table()["always"])


def _table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return found


def recognise(evidence: Evidence | LazyEvidence, only: Collection[str] | None = None) -> Dialect:
    """Return the dialect that the evidence shows. `only` names fields: rows that change other fields alone are not tested."""
    dialect = STANDARD
    for row in rows():
        if only is not None and not set(only) & set(row.changes):
            continue
        if all(holds(condition, evidence) for condition in row.when):
            dialect = replace(dialect, **row.changes, rows=(*dialect.rows, row.id))
    return dialect


def read(get: Get, serial: str = "") -> tuple[Evidence, Dialect]:
    """Return evidence and dialect of a BMC, read through `get`. SystemChoiceError, LookupError: as `gather`."""
    evidence = gather(get, serial)
    return evidence, recognise(evidence)


def boot_path(dialect: Dialect, evidence: Evidence) -> str:
    """Return the path where Boot is written."""
    system = path_of(evidence.system)
    paths = {"system": system, "settings": link(evidence.system, SETTINGS_LINK), "sd": f"{system.rstrip('/')}/SD"}
    return paths[dialect.boot_written_at]


def serial_of(dialect: Dialect, evidence: Evidence) -> str:
    """Return the serial number of the machine as DMI shows it, "" if the BMC reports none."""
    return str(evidence.system.get(dialect.serial_from) or "").strip()
