# SPDX-License-Identifier: GPL-3.0-or-later
"""Save what the agent must know after a restart: cursor and events of the kernel's log, history of readings, the last report, counters.

All are in one file that is replaced in one step: no event is read twice or lost between two files. Nobody repairs this file by hand: one
that is torn, foreign or of another version is set aside, the agent starts without it, and the loss is reported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...common.files import atomic_write, temporaries_of
from ..judge.node_history import HistoryError, NodeHistory
from ..kernel_log.kernel_cursor import LogState, from_data, to_data
from ..report.node_extra import NodeReport

VERSION = 1
LARGEST = 8 << 20
"""Bytes of the file; a larger one is not of this agent."""
MOST_COUNTERS = 300
_FEW_EVENTS = 200


@dataclass
class Memory:
    """Hold what the agent remembers. `report`: the last report that Slurm accepted. `published`: that of the last verdict.

    `xids`: (code, GPU) -> number of events. `lost`: why the saved state was not used, "" if it was.
    """

    log: LogState
    history: NodeHistory = field(default_factory=NodeHistory)
    report: NodeReport | None = None
    published: NodeReport | None = None
    xids: dict[tuple[str, str], int] = field(default_factory=dict)
    lost: str = ""

    def count(self, code: int, gpu: str) -> None:
        """Count one Xid. Beyond MOST_COUNTERS pairs, a further pair counts for GPU "" of code "other"."""
        key = (str(code), gpu)
        if key not in self.xids and len(self.xids) >= MOST_COUNTERS:
            key = ("other", "")
        self.xids[key] = self.xids.get(key, 0) + 1


def load(path: Path, boot: str) -> Memory:
    """Return the memory for a boot; an empty one if the file is missing, torn, foreign or too large. Raises no exception."""
    for one in _leftovers(path):
        with suppress(OSError):
            one.unlink()
    try:
        with path.open("rb") as stream:
            raw = stream.read(LARGEST + 1)
    except FileNotFoundError:
        return Memory(LogState(boot))
    except OSError as error:
        return Memory(LogState(boot, lost=True), lost=f"{path}: {error.strerror or error}")
    try:
        if len(raw) > LARGEST:
            raise ValueError(f"larger than {LARGEST} bytes")
        return _memory(json.loads(raw), boot)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        with suppress(OSError):
            path.replace(path.with_name(f"{path.name}.unread"))
        return Memory(LogState(boot, lost=True), lost=f"{path}: {type(error).__name__} {error}"[:300])


def save(path: Path, memory: Memory) -> None:
    """Save the memory in one step. OSError, such as a full disk: the old file is as it was."""
    data: dict[str, Any] = {
        "version": VERSION,
        "log": to_data(memory.log),
        "history": memory.history.save(),
        "report": asdict(memory.report) if memory.report else None,
        "published": asdict(memory.published) if memory.published else None,
        "xids": [[*key, count] for key, count in memory.xids.items()],
    }
    text = _text(data)
    if len(text) > LARGEST:
        # The cursor and recent events count for more than older samples.
        data["history"] = NodeHistory().save()
        data["log"]["events"] = data["log"]["events"][-_FEW_EVENTS:]
        text = _text(data)
    atomic_write(path, text, mode=0o600)


def _text(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":")) + "\n"


def _memory(data: Any, boot: str) -> Memory:
    if data["version"] != VERSION:
        raise ValueError(f"version {data['version']!r}; expected {VERSION}")
    log = from_data(data["log"], boot)
    lost = "the cursor of the kernel's log is malformed" if log.lost else ""
    try:
        history = NodeHistory.load(data["history"])
    except HistoryError as error:
        history, lost = NodeHistory(), str(error)
    xids = {(str(code), str(gpu)): int(count) for code, gpu, count in data["xids"][:MOST_COUNTERS]}
    return Memory(log, history, _report(data["report"]), _report(data["published"]), xids, lost)


def _report(data: Any) -> NodeReport | None:
    if data is None:
        return None
    lists = {name: tuple(data[name]) for name in ("checks", "jobs")}
    return NodeReport(**{**data, **lists})


def _leftovers(path: Path) -> list[Path]:
    try:
        return temporaries_of(path)
    except OSError:
        return []
