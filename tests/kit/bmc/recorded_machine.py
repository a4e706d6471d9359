# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine behind a simulated BMC that only records its commands; an example of a `Behind`.

Options: `file` receives a line of JSON for each command. A line `off` or `restart` in the FIFO `events` is an event of the machine.
"""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from pathlib import Path

from tests.kit.bmc.behind import BootSource, Events
from tests.kit.bmc.spec import Spec


class RecordedMachine:
    """Records commands in the order in which the BMC gives them."""

    def __init__(self, spec: Spec, events: Events) -> None:
        self._file, self._events = Path(spec.behind_options["file"]), events
        self._fifo = Path(spec.behind_options["events"])
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            for line in self._fifo.read_text().split():
                if line == "off":
                    self._events.went_off()
                    self._record("went off")
                else:
                    self._record("restarts", self._events.restarts())

    def _record(self, command: str, boot: BootSource | None = None, **more: str) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps({"command": command, **more, **(asdict(boot) if boot else {})}) + "\n")

    def power_on(self, boot: BootSource) -> None:
        """Record it."""
        self._record("on", boot)

    def power_off(self, graceful: bool) -> None:
        """Record it; the power button ends the machine at once."""
        self._record("button" if graceful else "off")
        if graceful:
            self._events.went_off()

    def reset(self, boot: BootSource) -> None:
        """Record it."""
        self._record("reset", boot)

    def insert(self, slot: str, image: str) -> None:
        """Record it."""
        self._record("insert", slot=slot, image=image)

    def eject(self, slot: str) -> None:
        """Record it."""
        self._record("eject", slot=slot)

    def close(self) -> None:
        """Record it."""
        self._record("close")


def machine(spec: Spec, events: Events) -> RecordedMachine:
    """Return the machine; the name for a spec is `tests.kit.bmc.recorded_machine:machine`."""
    return RecordedMachine(spec, events)
