# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep new jobs off nodes and partitions in the seconds between the last list of jobs and the reconfigure that changes them.

A free node whose line changes or is removed is drained with a reason of bedplate's own. A partition that is removed is closed for new jobs.
Then the list of jobs is read again: a node or partition that got a job meanwhile keeps its line and is reopened at once, all others after
the change is in force or undone. A killed run leaves the reason of the nodes and the record of the partitions. Only their age shows that
the run was killed: the next run reopens those older than ten minutes, and keeps younger ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from ...common.files import atomic_write
from ...common.hostlist import fold
from ..conf.conf_reader import Conf, partitions_of
from ..live import slurm_commands
from ..live.drain_reasons import EDIT, TAKEN_OUT, DrainReason, read, written
from ..live.slurmctld_report import Live

# What the reasons of fenced nodes begin with, for operators.
OWNER = f"bedplate:{EDIT}:"
# No run keeps nodes free of jobs for longer: the proof ends after a minute, and daemons have two to start or to read their files.
LONGEST = timedelta(minutes=10)
_VERSION = 1
_CLOSED = "DRAIN"
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass
class Fence:
    """Nodes drained by bedplate, and partitions closed by bedplate for new jobs."""

    nodes: list[str] = field(default_factory=list)
    partitions: list[str] = field(default_factory=list)

    def overlaps(self, other: Fence) -> bool:
        """Return whether both fences have a node or a partition in common."""
        return not (set(self.nodes).isdisjoint(other.nodes) and set(self.partitions).isdisjoint(other.partitions))

    def facts(self) -> dict[str, object]:
        """Return the fence as plain data."""
        return {"nodes": fold(self.nodes), "partitions": self.partitions}


class Closed:
    """Record, on the controller, of the partitions that bedplate has closed: Slurm stores no reason for a partition.

    A partition is on record from before it is closed until after it is open again.
    """

    def __init__(self, directory: Path) -> None:
        """Use the record in bedplate's state directory."""
        self.path = directory / "slurm_fence.json"

    def origin(self) -> tuple[str, datetime | None]:
        """Return the run that closed them, and its time; empty without a record, or with one of an earlier bedplate."""
        document = self._read()
        try:
            since = datetime.strptime(document["since"], _TIME).replace(tzinfo=timezone.utc)
        except (KeyError, TypeError, ValueError):
            return "", None
        return str(document.get("run", "")), since

    def names(self) -> list[str]:
        """Return the partitions. Raises OSError if the record cannot be read."""
        names: list[str] = self._read()["partitions"]
        return names

    def _read(self) -> dict[str, Any]:
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            return {**document, "partitions": list(document["partitions"])}
        except FileNotFoundError:
            return {"partitions": []}
        except (ValueError, KeyError, TypeError) as error:
            remedy = "Open the partitions that bedplate has closed (`scontrol show partitions`), and remove the file"
            raise OSError(f"{self.path} is not a record of closed partitions: {error}. {remedy}.") from error

    def add(self, partitions: Iterable[str], run: str, now: datetime) -> None:
        """Record partitions for a run. Raises OSError if they cannot be recorded."""
        self._write([*self.names(), *partitions], {"run": run, "since": now.strftime(_TIME)})

    def remove(self, partitions: Collection[str]) -> None:
        """Remove partitions from the record."""
        before = self.names()
        after = [name for name in before if name not in partitions]
        if after != before:
            self._write(after, {key: value for key, value in self._read().items() if key in ("run", "since")})

    def _write(self, partitions: Iterable[str], origin: dict[str, str]) -> None:
        names = list(dict.fromkeys(partitions))
        if not names:
            self.path.unlink(missing_ok=True)
            return
        self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        text = json.dumps({"version": _VERSION, "partitions": names, **origin}) + "\n"
        atomic_write(self.path, text, mode=0o600)


def active(live: Live, conf: Conf, closed: Iterable[str]) -> Fence:
    """Return the nodes and partitions that bedplate still keeps out of service; `closed` are the recorded partitions.

    A partition that a person has opened or set to another state is no longer bedplate's. A partition that the file closes, or no longer
    has, stays closed.
    """
    nodes = [
        name
        for name, pairs in live.nodes.items()
        if _own(pairs.get("Reason", "")) is not None and _words(pairs.get("State", "")) & TAKEN_OUT
    ]
    stated = partitions_of(conf)
    names = [name for name in closed if _state(live, name) == _CLOSED and name in stated and _is_open(stated[name])]
    return Fence(nodes, names)


def raised_by_others(live: Live, found: Fence, run: str, record: tuple[str, datetime | None], now: datetime) -> Fence:
    """Return the part of a fence that another run has set so recently that it may still be running.

    `run` is this run, `record` the run and the time of the partitions' record. A reason without a time comes from an earlier bedplate.
    """
    nodes = [name for name in found.nodes if _may_go_on(*_origin(live.nodes[name].get("Reason", "")), run, now)]
    return Fence(nodes, found.partitions if _may_go_on(*record, run, now) else [])


def without_others(found: Fence, others: Fence) -> Fence:
    """Return a fence without the parts of another run."""
    return Fence(
        [name for name in found.nodes if name not in others.nodes],
        [name for name in found.partitions if name not in others.partitions],
    )


def reason(run: str, now: datetime) -> str:
    """Return the reason with which a run drains a node.

    >>> reason("3f2a9c1b", datetime(2026, 11, 22, 22, 18, 50, tzinfo=timezone.utc))
    'bedplate:edit:3f2a9c1b: 2026-11-22T22:18:50Z the line of this node is about to change [e351]'
    """
    return written(EDIT, run, f"{now.strftime(_TIME)} the line of this node is about to change")


def _own(text: str) -> DrainReason | None:
    """Return a reason with which bedplate fenced a node, None for any other."""
    found = read(text)
    return found if found is not None and found.kind == EDIT else None


def _words(state: str) -> set[str]:
    """Return the words of a state.

    >>> sorted(_words("IDLE+DRAIN+POWERED_DOWN*"))
    ['DRAIN', 'IDLE', 'POWERED_DOWN']
    """
    return set(re.findall(r"\w+", state))


def _origin(text: str) -> tuple[str, datetime | None]:
    """Return the run and the time in a reason."""
    found = _own(text)
    if found is None:
        return "", None
    try:
        return found.run, datetime.strptime(found.text.split(" ", 1)[0], _TIME).replace(tzinfo=timezone.utc)
    except ValueError:
        return "", None


def _may_go_on(run: str, since: datetime | None, own: str, now: datetime) -> bool:
    # A clock that was set back makes the time lie in the future: that run may still be running, too.
    return run != own and since is not None and abs(now - since) < LONGEST


def settled(live: Live, conf: Conf, closed: Iterable[str]) -> list[str]:
    """Return the recorded partitions that bedplate must no longer open."""
    stated = partitions_of(conf)
    return [name for name in closed if _state(live, name) != _CLOSED or (name in stated and not _is_open(stated[name]))]


def _state(live: Live, partition: str) -> str:
    return live.partitions.get(partition, {}).get("State", "")


def _is_open(pairs: dict[str, str]) -> bool:
    return pairs.get("State", "UP").upper() == "UP"


def targets(live: Live, nodes: Iterable[str], partitions: Iterable[str]) -> Fence:
    """Return the nodes and partitions that may get a job at any moment: they have no job and are not out of service."""
    busy = live.jobs_by_node()
    used = used_partitions(live)
    return Fence(
        [name for name in nodes if name not in busy and _takes_jobs(live.nodes.get(name, {}).get("State", ""))],
        [name for name in partitions if name not in used and _state(live, name) == "UP"],
    )


def used_partitions(live: Live) -> set[str]:
    """Return the partitions in which jobs run or wait."""
    return {name for job in live.jobs for name in job.partitions}


def _takes_jobs(state: str) -> bool:
    """Return whether a node may get a job; false for a node that a person has marked FAIL, or that reboots.

    >>> [_takes_jobs(state) for state in ("IDLE+POWERED_DOWN", "DOWN+POWERED_DOWN", "DOWN*", "IDLE+POWERING_DOWN")]
    [True, False, False, False]
    """
    state = state.replace("+POWERED_DOWN", "")
    closed = ("DOWN", "FUTURE", "UNKNOWN", "DRAIN", "FAIL", "REBOOT")
    return bool(state) and not any(word in state for word in closed)


def raise_commands(fence: Fence, run: str, now: datetime) -> list[list[str]]:
    """Return the commands with which a run sets a fence."""
    drain = [
        [
            "scontrol",
            "update",
            f"NodeName={fold(fence.nodes, suffixes=False)}",
            "State=DRAIN",
            f"Reason={reason(run, now)}",
        ]
    ]
    close = [["scontrol", "update", f"PartitionName={name}", f"State={_CLOSED}"] for name in fence.partitions]
    return (drain if fence.nodes else []) + close


def lift_commands(live: Live, conf: Conf, fence: Fence) -> list[list[str]]:
    """Return the commands that reopen fenced nodes and partitions, unless a person has set another reason or state since."""
    still, asked = active(live, conf, fence.partitions), set(fence.nodes)
    own = [name for name in still.nodes if name in asked]
    resume = [["scontrol", "update", f"NodeName={fold(own, suffixes=False)}", "State=RESUME"]]
    return (resume if own else []) + [
        ["scontrol", "update", f"PartitionName={name}", "State=UP"] for name in still.partitions
    ]


def lift(slurm_conf: Path, live: Live, conf: Conf, fence: Fence, closed: Closed) -> list[str]:
    """Reopen fenced nodes and partitions; return the failures."""
    failed = {}
    for command in lift_commands(live, conf, fence):
        error = slurm_commands.change(command, slurm_conf)
        if error:
            failed[command[2]] = f"`{' '.join(command)}`: {error}"
    opened = [name for name in active(live, conf, fence.partitions).partitions if f"PartitionName={name}" not in failed]
    closed.remove([*opened, *settled(live, conf, fence.partitions)])
    return list(failed.values())
