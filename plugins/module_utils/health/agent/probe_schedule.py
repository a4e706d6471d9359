# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the probes that are due, and keep the last readings of each kind.

A kind with a longer interval than a tick is read again at each tick after its readings changed, until three samples are equal: a judgement
needs three samples, and one reading that is repeated is one sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...common.sysfs import Root
from ..facts.node_facts import Reading
from ..probes.all_probes import Probe, begin, readings_of
from ..probes.probe_child import ProbeChildren

SAMPLES = 3
Listing = Callable[[], "tuple[Sequence[Probe], Sequence[Reading]]"]
"""Return the probes of the node, and the readings of foreign checks that must not run."""


@dataclass
class _Kind:
    """Hold the last answer of a kind: uptime, readings, and how many answers in a row were equal."""

    answered: float
    readings: tuple[Reading, ...]
    alike: int = 1


class ProbeSchedule:
    """Start probes in children, one of a kind at a time, and collect what they read. No method blocks."""

    def __init__(self, children: ProbeChildren, listing: Listing, root: str) -> None:
        """Run the probes of `listing`, which is called at each tick, because foreign checks can be added."""
        self.children, self.listing, self.root = children, listing, root
        self._probes: dict[str, Probe] = {}
        self._refused: tuple[Reading, ...] = ()
        self._kinds: dict[str, _Kind] = {}
        self._started: dict[str, float] = {}
        self._fresh: set[str] = set()
        self._is_begun = False

    @property
    def is_running(self) -> bool:
        """Return whether a probe runs or was not collected."""
        return bool(self.children.running)

    @property
    def is_answered(self) -> bool:
        """Return whether each kind was read, or missed its deadline, at least once."""
        return self._is_begun and all(kind in self._kinds for kind in self._probes)

    def begin(self, uptime: float, interval: float) -> None:
        """Start the probes that are due at a tick of `interval` seconds."""
        self._is_begun = True
        found, refused = self.listing()
        self._probes, self._refused = {one.kind: one for one in found}, tuple(refused)
        self._kinds = {kind: one for kind, one in self._kinds.items() if kind in self._probes}
        for probe in found:
            if self._is_due(probe, uptime, interval) and probe.kind not in self.children.running:
                self._started[probe.kind] = uptime
                readings = begin(self.children, [probe], Root(self.root))
                if readings:
                    self._keep(probe.kind, readings, uptime)

    def collect(self, uptime: float) -> bool:
        """Keep the readings of probes that ended. Return whether one ended."""
        ended = self.children.poll()
        for one in ended:
            probe = self._probes.get(one.kind)
            if probe is not None:
                readings = readings_of(probe, one, self.children, Root(self.root))
                self._keep(one.kind, readings, uptime)
        return bool(ended)

    def readings(self) -> tuple[Reading, ...]:
        """Return the last readings of all kinds."""
        return (*(one for kind in self._kinds.values() for one in kind.readings), *self._refused)

    def fresh(self) -> tuple[Reading, ...]:
        """Return the readings of the kinds that answered since the last call."""
        fresh, self._fresh = self._fresh, set()
        return tuple(one for name, kind in self._kinds.items() if name in fresh for one in kind.readings)

    def ages(self, uptime: float) -> Mapping[str, float]:
        """Return kind -> seconds since its last answer."""
        return {name: max(0.0, uptime - kind.answered) for name, kind in self._kinds.items()}

    def stop(self) -> None:
        """Kill the probes, and wait for none."""
        self.children.stop()

    def _is_due(self, probe: Probe, uptime: float, interval: float) -> bool:
        kind, started = self._kinds.get(probe.kind), self._started.get(probe.kind)
        if kind is None or started is None or kind.alike < SAMPLES:
            return True
        # Half a tick: a tick that is a little early must not wait for the next one.
        return uptime - started >= probe.every - interval / 2

    def _keep(self, name: str, readings: Sequence[Reading], uptime: float) -> None:
        self._fresh.add(name)
        before = self._kinds.get(name)
        same = before is not None and before.readings == tuple(readings)
        self._kinds[name] = _Kind(uptime, tuple(readings), before.alike + 1 if before is not None and same else 1)
