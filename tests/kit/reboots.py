# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of a scenario that stop are switched on again, as the firmware of a real one does after a reboot."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Collection

from lab.host import inspect
from lab.podman import Podman


class SwitchOn:
    """A context in which stopped machines start again after some seconds; those in `stay_off` do not."""

    def __init__(self, scenario: str, seconds: float = 3.0, stay_off: Collection[str] = ()) -> None:
        self._podman = Podman(inspect())
        self._lab, self._seconds = f"molecule-{scenario}", seconds
        self.stay_off = set(stay_off)
        self.started: list[str] = []
        """Machines that were switched on, each time."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> SwitchOn:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.stay_off.clear()
        self._switch_on()

    def _watch(self) -> None:
        while not self._over.wait(1.0):
            self._switch_on()

    def _switch_on(self) -> None:
        for container in self._podman.containers(self._lab):
            if not container.running and container.machine not in self.stay_off:
                time.sleep(self._seconds)
                self._podman("start", container.id)
                self.started.append(container.machine)


class Watch:
    """A context that notes once a second how many nodes of the cluster are out of service."""

    def __init__(self, ssh: list[str]) -> None:
        self._command = ssh
        self.out: list[set[str]] = []

    def __enter__(self) -> Watch:
        script = "while :; do sinfo --noheader --Node --format='%N %t' | sort -u | paste -sd,; sleep 1; done"
        self._process = subprocess.Popen(
            [*self._command, script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._thread.join()

    def most(self, without: Collection[str] = ()) -> int:
        """Return the greatest number of nodes that were out at once; `without` are nodes that a person takes out meanwhile."""
        assert self.out
        return max(len(out - set(without)) for out in self.out)

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            pairs = [word.split() for word in line.strip().split(",") if word.strip()]
            self.out.append({name for name, state in pairs if state.rstrip("*~#!%$@^-+") not in IN_SERVICE})


IN_SERVICE = ("idle", "alloc", "mix", "comp", "plnd", "resv")
"""Short states of sinfo in which a node takes or runs jobs."""
