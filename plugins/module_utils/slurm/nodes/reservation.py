# SPDX-License-Identifier: GPL-3.0-or-later
"""Make, read and remove the maintenance reservation of a run: backfill fills its nodes with jobs that end before it begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...common.command import run
from ..live.slurmctld_report import names_in, pairs_of
from .node_states import SlurmSilentError

_DEADLINE = 30.0  # seconds
_PREFIX = "bedplate_"


@dataclass(frozen=True)
class Reservation:
    """A reservation: its nodes, its times in UTC as text, and whether it has begun."""

    name: str
    nodes: tuple[str, ...] = ()
    start: str = ""
    end: str = ""
    active: bool = False


class ReservationError(Exception):
    """Slurm did not accept a reservation."""


def name_of(kind: str, run_name: str) -> str:
    """Return the name of a run's reservation.

    >>> name_of("roll", "3f2a9c1b")
    'bedplate_roll_3f2a9c1b'
    """
    return f"{_PREFIX}{kind}_{run_name}"


def read(name: str, slurm_conf: Path) -> Reservation | None:
    """Return a reservation, None if it does not exist. Raises SlurmSilentError if slurmctld does not answer."""
    outcome = run(
        ("scontrol", "--oneliner", "--all", "show", "reservations"),
        _DEADLINE,
        environment={"SLURM_CONF": str(slurm_conf), "TZ": "UTC0"},
    )
    if outcome.code != 0:
        raise SlurmSilentError(f"`scontrol show reservations`: {outcome.error_line}")
    return parse(outcome.stdout, name)


def parse(text: str, name: str) -> Reservation | None:
    """Return the reservation of this name in the output of `scontrol --oneliner show reservations`.

    >>> parse("ReservationName=a StartTime=S EndTime=E Nodes=n[1-2] State=INACTIVE", "a").nodes
    ('n1', 'n2')
    """
    for pairs in map(pairs_of, text.splitlines()):
        if pairs.get("ReservationName") == name:
            return Reservation(
                name,
                names_in(pairs.get("Nodes", "")),
                pairs.get("StartTime", ""),
                pairs.get("EndTime", ""),
                pairs.get("State") == "ACTIVE",
            )
    return None


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
