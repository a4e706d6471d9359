# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse `scontrol ping` and the heartbeat file, which show the controllers of a cluster and the writer of its state."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...common.as_user import AsUser, uid_of

# Slurm 22.05 to 26.05: `Slurmctld(backup1) at ctl2 is UP`. Root also gets an advertisement of three lines when a controller is down.
_PING = re.compile(r"^Slurmctld\((primary|backup\d*)\) at (\S+) is (UP|DOWN)\s*$", re.MULTILINE)
# heartbeat.c: the time of the writer's clock and its index in SlurmctldHost, both in network order.
_HEARTBEAT = struct.Struct(">QQ")


@dataclass(frozen=True)
class Ping:
    """One line of `scontrol ping`: a name of SlurmctldHost, and whether its slurmctld answers. A standby answers, too."""

    host: str
    up: bool
    is_primary: bool = False

    def __str__(self) -> str:
        return f"{self.host} is {'UP' if self.up else 'DOWN'}"


@dataclass(frozen=True)
class Heartbeat:
    """Content of the heartbeat file: seconds since 1970 by the clock of its writer, and the index of the writer in SlurmctldHost."""

    time: int
    index: int


def parse_pings(text: str) -> tuple[Ping, ...]:
    """Parse the output of `scontrol ping`, or of `scontrol show config`, which ends with the same lines.

    >>> parse_pings("Slurmctld(primary) at ctl1 is DOWN\\nSlurmctld(backup) at ctl2 is UP")[1]
    Ping(host='ctl2', up=True, is_primary=False)
    """
    return tuple(Ping(host, state == "UP", role == "primary") for role, host, state in _PING.findall(text))


def parse_heartbeat(content: bytes) -> Heartbeat | None:
    """Parse a heartbeat file; None if it is not whole."""
    return Heartbeat(*_HEARTBEAT.unpack(content)) if len(content) == _HEARTBEAT.size else None


def read_heartbeat(state: Path, user: str = "slurm") -> Heartbeat | None:
    """Read the heartbeat file in StateSaveLocation as the user of slurmctld; None if it is missing or cannot be read."""
    with AsUser(uid_of(user)):
        try:
            return parse_heartbeat((state / "heartbeat").read_bytes())
        except OSError:
            return None


def shown(pings: Sequence[Ping]) -> str:
    """Return pings for an operator: `ctl1 is DOWN, ctl2 is UP`."""
    return ", ".join(map(str, pings)) or "no controller"
