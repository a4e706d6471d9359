# SPDX-License-Identifier: GPL-3.0-or-later
"""Make, read and remove the maintenance reservation of a run: backfill fills its nodes with jobs that end before it begins.

Slurm lets a reservation with MAINT overlap others, and takes its nodes out of them. So it is compared with all others before it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...common.command import run
from ..live.slurm_commands import drop_login_variables
from ..live.slurmctld_report import names_in, pairs_of
from .node_states import SlurmSilentError

_DEADLINE = 30.0  # seconds
_REPEATING = frozenset({"HOURLY", "DAILY", "WEEKDAY", "WEEKEND", "WEEKLY", "TIME_FLOAT"})


@dataclass(frozen=True)
class Reservation:
    """A reservation: its nodes, its times in UTC as text, whether it has begun, and whether it begins again after its end."""

    name: str
    nodes: tuple[str, ...] = ()
    start: str = ""
    end: str = ""
    active: bool = False
    repeats: bool = False


class ReservationError(Exception):
    """Slurm did not accept a reservation, or it must not stay."""


def read(slurm_conf: Path) -> dict[str, Reservation]:
    """Return all reservations by their names. Raises SlurmSilentError if slurmctld does not answer."""
    drop_login_variables()
    outcome = run(
        ("scontrol", "--oneliner", "--all", "show", "reservations"),
        _DEADLINE,
        environment={"SLURM_CONF": str(slurm_conf), "TZ": "UTC0"},
    )
    if outcome.code != 0:
        raise SlurmSilentError(f"`scontrol show reservations`: {outcome.error_line}")
    return parse(outcome.stdout)


def parse(text: str) -> dict[str, Reservation]:
    """Return the reservations in the output of `scontrol --oneliner show reservations` by their names.

    >>> parse("ReservationName=a StartTime=S EndTime=E Nodes=n[1-2] State=INACTIVE")["a"].nodes
    ('n1', 'n2')
    """
    lines = (pairs for pairs in map(pairs_of, text.splitlines()) if "ReservationName" in pairs)
    return {
        pairs["ReservationName"]: Reservation(
            pairs["ReservationName"],
            names_in(pairs.get("Nodes", "")),
            pairs.get("StartTime", ""),
            pairs.get("EndTime", ""),
            pairs.get("State") == "ACTIVE",
            not _REPEATING.isdisjoint(pairs.get("Flags", "").split(",")),
        )
        for pairs in lines
    }


def overlapping(own: Reservation, found: Mapping[str, Reservation]) -> dict[str, tuple[str, ...]]:
    """Return the other reservations that have nodes of this one at its time, with these nodes. If one repeats, it never ends.

    >>> own = Reservation("own", ("n1", "n2"), "2026-11-27T22:00:00", "2026-11-28T02:00:00")
    >>> overlapping(own, {"course": Reservation("course", ("n2", "n3"), "2026-11-28T01:00:00", "2026-11-28T09:00:00")})
    {'course': ('n2',)}
    """
    shared = {
        name: tuple(node for node in own.nodes if node in set(one.nodes))
        for name, one in found.items()
        if name != own.name and one.start < own.end and (one.repeats or own.start < one.end)
    }
    return {name: nodes for name, nodes in shared.items() if nodes}


def create(name: str, nodes: str, start: str, minutes: int, change: Callable[[Sequence[str]], str]) -> None:
    """Make a reservation of nodes, a hostlist, from a time that Slurm understands. Jobs that run into it continue, and are waited for.

    Raises ReservationError if Slurm refuses it.
    """
    error = change(
        [
            "scontrol",
            "create",
            "reservation",
            f"ReservationName={name}",
            f"StartTime={start}",
            f"Duration={minutes}",
            f"Nodes={nodes}",
            "Users=root",
            "Flags=MAINT,IGNORE_JOBS",
        ]
    )
    if error:
        raise ReservationError(f"reservation {name} of {nodes} from {start}: {error}")


def remove(name: str, change: Callable[[Sequence[str]], str]) -> None:
    """Remove a reservation. Raises ReservationError if Slurm refuses that."""
    if error := change(["scontrol", "delete", f"ReservationName={name}"]):
        raise ReservationError(f"reservation {name}: {error}")
