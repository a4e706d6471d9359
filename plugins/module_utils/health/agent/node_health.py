# SPDX-License-Identifier: GPL-3.0-or-later
"""The health agent of a node: one long-lived process that waits for the kernel's log and for the next tick.

Usage: python3 -m ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.node_health SETTINGS [--kmsg FILE] [--root DIR]
[--once]. SETTINGS is /etc/bedplate/health.json. --once writes one verdict, reports nothing to Slurm, and ends.

It ends with 78 for settings that are not valid, 75 if another agent runs, 74 if the verdict cannot be written.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...common.command import find
from ...common.files import atomic_write, temporaries_of
from ..probes.all_probes import probes
from ..probes.probe_child import RECORDS, ProbeChildren
from ..probes.probe_settings import ProbeSettings, settings_from
from ..report.service_notify import READY, STOPPING, WATCHDOG, notify
from ..tables.threshold_row import ThresholdError
from ..tables.thresholds import rows_for
from . import state_file
from .agent_lock import AgentLock, LockedError
from .agent_loop import Agent
from .agent_settings import AgentPaths, AgentSettings, SettingsError, load
from .clock import boot_id, now
from .evidence import EvidenceStore
from .kernel_reader import KernelReader
from .node_jobs import RING, NodeJobs
from .probe_schedule import ProbeSchedule
from .publisher import NodePublisher, Outputs
from .slurm_report import SlurmReporter
from .verdict_file import UnwrittenVerdictError, VerdictFiles

UNWRITTEN, LOCKED, BAD_SETTINGS = os.EX_IOERR, os.EX_TEMPFAIL, os.EX_CONFIG
KMSG = "/dev/kmsg"
_UNIT = "bedplate-health.service"
_LONGEST_WAIT = 60.0
"""Seconds: systemd expects a sign of life within WatchdogSec, which is shorter than a long tick."""
_FILE_POLL, _BATCH = 0.5, 0.05
"""Seconds between two looks at a log without a descriptor, and seconds in which records gather before they are read."""


class Waiter:
    """Wait for a record of the kernel's log, the end of a child, a signal or a time."""

    def __init__(self, log: KernelReader) -> None:
        """Receive signals through a socket, so that a signal between two waits ends the next one."""
        self.log = log
        self.is_stopped = False
        self._wake, self._signal = socket.socketpair()
        for one in (self._wake, self._signal):
            one.setblocking(False)
        signal.set_wakeup_fd(self._signal.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def wait(self, seconds: float) -> None:
        """Return after `seconds` at the latest."""
        if self._is_woken(min(seconds, _BATCH), None) or seconds <= _BATCH or self.is_stopped:
            return
        descriptor = self.log.fileno()
        self._is_woken(seconds - _BATCH if descriptor is not None else min(seconds, _FILE_POLL) - _BATCH, descriptor)

    def _is_woken(self, seconds: float, descriptor: int | None) -> bool:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
        found = poll.poll(max(0.0, seconds) * 1000)
        with suppress(BlockingIOError):
            while self._wake.recv(4096):
                pass
        return bool(found)

    def _stop(self, _number: int, _frame: object) -> None:
        self.is_stopped = True


def run(settings: AgentSettings, paths: AgentPaths, kmsg: Path, *, once: bool = False) -> int:
    """Run until SIGTERM, or for one verdict. Return the exit status. UnwrittenVerdictError: the verdict cannot be written."""
    files = VerdictFiles(paths.run)
    lock = AgentLock(paths.run / "agent.lock")
    boot = boot_id(paths.root)
    memory = state_file.load(paths.state / "state.json", boot)
    log = KernelReader(kmsg, memory.log.sequence, lost=memory.log.lost)
    waiter = Waiter(log)
    sampler = _sampler(settings, paths)
    reporter = None if once else _reporter(settings, paths, memory)
    evidence = EvidenceStore(paths.state / "evidence", settings.evidence_days, settings.evidence_bytes)
    outputs = Outputs(files, evidence, reporter, _children(paths.run / "devices"), log)
    publisher = NodePublisher(settings, paths, memory, outputs)
    agent = Agent(settings, boot, memory, log, sampler, NodeJobs(paths.root, paths.run / RING), publisher)
    is_ready = False
    try:
        while not waiter.is_stopped and not (once and agent.cycles):
            agent.step(now())
            notify(WATCHDOG, *(() if is_ready else (READY,)))
            is_ready = True
            waiter.wait(min(agent.next_step(now()), _LONGEST_WAIT))
    finally:
        notify(STOPPING)
        sampler.stop()
        outputs.children.stop()
    publisher.save()
    lock.release()
    return 0


def _sampler(settings: AgentSettings, paths: AgentPaths) -> ProbeSchedule:
    """Return the probes of the profile. Children of an earlier process are killed; a kind waits for its child to die."""
    wanted = probe_settings(settings, paths)
    file, folder = paths.run / "probes.json", paths.run / "probes"
    _remove_temporaries(file, folder / RECORDS)
    try:
        atomic_write(file, json.dumps(wanted.data()), mode=0o600, sync=False)
    except OSError as error:
        raise UnwrittenVerdictError(*error.args) from error
    children = _children(folder, _own_cgroup())
    children.adopt()
    return ProbeSchedule(children, lambda: probes(wanted, str(file), os.geteuid(), forks=True), str(paths.root))


def _remove_temporaries(*files: Path) -> None:
    """Remove what an agent that was killed left half written beside these files."""
    for file in files:
        with suppress(OSError):
            for one in temporaries_of(file):
                one.unlink()


def probe_settings(settings: AgentSettings, paths: AgentPaths) -> ProbeSettings:
    """Return the settings of the probes for a profile. TypeError: an unknown key of `probes`."""
    profile = settings.profile
    own = {
        "sysroot": str(paths.root),
        "has_gpus": profile.gpus > 0,
        "has_rails": bool(profile.rails),
        "sizes": tuple(profile.huge_pages),
        "mounts": profile.mounts,
        "checks": str(paths.below("/etc/bedplate/health/checks.d")),
    }
    return settings_from({**own, **settings.probes})


def _children(folder: Path, cgroup: Path | None = None) -> ProbeChildren:
    """Return children whose output is in a folder in memory. UnwrittenVerdictError: the folder cannot be used."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UnwrittenVerdictError(*error.args) from error
    return ProbeChildren(folder, cgroup=cgroup)


def _reporter(settings: AgentSettings, paths: AgentPaths, memory: state_file.Memory) -> SlurmReporter:
    children = _children(paths.run / "slurm")
    children.adopt()
    return SlurmReporter(settings.node, children, scontrol=find("scontrol") or "scontrol", sent=memory.report)


def _own_cgroup() -> Path | None:
    """Return the folder of this unit's cgroup; None outside the unit, where other processes share it."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
            number, name, path = line.split(":", 2)
            if path.rpartition("/")[2] == _UNIT and (number == "0" or name == "name=systemd"):
                return Path("/sys/fs/cgroup" if number == "0" else "/sys/fs/cgroup/systemd") / path.lstrip("/")
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent. Return the exit status."""
    parser = argparse.ArgumentParser(description="Judge the health of this node.")
    parser.add_argument("settings", type=Path)
    parser.add_argument("--kmsg", type=Path, default=Path(KMSG), help="file to read as the kernel's log")
    parser.add_argument("--root", type=Path, default=Path("/"), help="root of the file tree")
    parser.add_argument("--once", action="store_true", help="write one verdict, report nothing to Slurm, and end")
    options = parser.parse_args(arguments)
    try:
        settings = load(options.settings)
        rows_for(settings.profile)
        return run(settings, AgentPaths(options.root), options.kmsg, once=options.once)
    except (SettingsError, ThresholdError) as error:
        print(f"settings: {error}", file=sys.stderr)
        return BAD_SETTINGS
    except LockedError as error:
        print(error, file=sys.stderr)
        return LOCKED
    except UnwrittenVerdictError as error:
        print(f"the verdict cannot be written: {error}", file=sys.stderr)
        return UNWRITTEN


if __name__ == "__main__":
    sys.exit(main())
