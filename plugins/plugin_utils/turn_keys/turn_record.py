# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of the last turn, beside the secrets on the control node: its keys, its stage, and the machines that it left out."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import atomic_write

FILE_NAME = "turn_keys.json"
STAGING, SWITCHING, FINISHING, RETURNING, FINISHED = STAGES = (
    "staging",
    "switching",
    "finishing",
    "returning",
    "finished",
)
"""`staging`: machines get the new key beside the old one. `switching`: they make credentials with the new one, and read both. `finishing`:
the new key replaces the old one. `returning`: the turn is given up. `finished`: no turn is under way."""
_VERSION = 1


class TurnRecordError(ValueError):
    """A record that cannot be read or written, or a turn that cannot continue as requested."""


@dataclass(frozen=True)
class TurnRecord:
    """A turn. `without` are machines that keep the old key, with the reason; the next ordinary run gives them the new one.

    `since`: since when no machine makes credentials with the other key, in seconds since 1970; 0 while some may.
    """

    turn: str
    keys: tuple[str, ...]
    stage: str = STAGING
    without: dict[str, str] = field(default_factory=dict)
    since: float = 0.0

    @property
    def is_open(self) -> bool:
        """Return whether the turn is under way."""
        return self.stage != FINISHED

    def at(self, stage: str) -> TurnRecord:
        """Return the record at another stage."""
        return replace(self, stage=stage)


class TurnFile:
    """The record of a secrets directory."""

    def __init__(self, directory: Path) -> None:
        """Use the record in a secrets directory, which may not exist yet."""
        self.path = directory / FILE_NAME

    def read(self) -> TurnRecord | None:
        """Return the record, or None. Raises TurnRecordError for a file that is damaged or cannot be read."""
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            if document.pop("version") != _VERSION or document["stage"] not in STAGES:
                raise ValueError("another version or stage")
            return TurnRecord(**{**document, "keys": tuple(document["keys"])})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise TurnRecordError(
                f"{self.path}: not a record of a turn: {error}. Nothing was changed. Restore it from a backup; without one, compare "
                "the keys of all machines before you remove it"
            ) from None

    def left_out(self) -> list[str]:
        """Return the machines that the last turn left out, once no machine gets both keys any more. Raises TurnRecordError."""
        record = self.read()
        return sorted(record.without) if record is not None and record.stage in (FINISHING, FINISHED) else []

    def write(self, record: TurnRecord) -> None:
        """Replace the record."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            text = json.dumps({"version": _VERSION, **asdict(record)}, indent=1, sort_keys=True)
            atomic_write(self.path, f"{text}\n", mode=0o600)
        except OSError as error:
            raise TurnRecordError(f"{self.path}: cannot be written: {error.strerror}") from None
