# SPDX-License-Identifier: GPL-3.0-or-later
"""Run nvidia-smi only where it cannot change the machine, and keep its raw output."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..common import command
from ..common.command import Outcome
from ..common.sysfs import Root
from ..gpu.devices import nvidia_smi
from ..gpu.driver.driver_facts import VERSION_FILE

_SECRET_KEYS = re.compile(r"\s*[^:]*(?:serial|uuid|guid|pdi)[^:]*:\s*(?P<value>.*\S)?", re.IGNORECASE)
# A serial number has more letters and digits; a shorter value is a part of something else, such as a PCI address.
_SHORT = 4
_SERIAL = re.compile(r"\s*[^:]*serial[^:]*:\s*(?P<value>\S.*\S)", re.IGNORECASE)
# What runs on a GPU is the users' matter: names of programs, with paths.
_PROCESSES = re.compile(r"\s*(?:accounted\s+)?processes\b", re.IGNORECASE)


class Recorder:
    """Run commands with a deadline, and keep what each printed. After a command that did not answer, no other command runs."""

    def __init__(self, seconds: float, run: Callable[[Sequence[str], float], Outcome] = command.run) -> None:
        self.seconds = seconds
        self.outputs: list[dict[str, Any]] = []
        self.hung = False
        self._run = run

    def __call__(self, argv: Sequence[str], seconds: float = 0.0) -> Outcome:
        """Run a command; it is a `Run` of nvidia_smi.query and a `Runner`."""
        outcome = self._run(argv, min(seconds or self.seconds, self.seconds))
        name = argv[0].rpartition("/")[2]
        self.outputs.append(
            {
                "command": " ".join([name, *argv[1:]]),
                "code": outcome.code,
                "stdout": outcome.stdout,
                "stderr": outcome.stderr,
            }
        )
        self.hung = self.hung or outcome.code is None
        return outcome


def refusal(root: Root, gpus: Sequence[Mapping[str, Any]]) -> str:
    """Return why nvidia-smi must not run; "" if it may.

    As root it makes missing device files: without a driver /dev/nvidiactl, with a driver those of its GPUs as well.
    """
    if not root.text(VERSION_FILE, needed=False):
        return "no driver is loaded"
    minors = [gpu["minor"] for gpu in gpus if gpu["driver"] == "nvidia" and not gpu["excluded"]]
    if None in minors:
        return "the device file of a GPU is unknown"
    paths = ["dev/nvidiactl", *(f"dev/nvidia{minor}" for minor in minors)]
    absent = [f"/{path}" for path in paths if not _is_device(root, path)]
    return f"it would make the device files {', '.join(absent)}" if absent else ""


def _is_device(root: Root, path: str) -> bool:
    try:
        return stat.S_ISCHR(root.find(path).stat().st_mode)
    except OSError:
        return False


def read_smi(
    program: str, seconds: float, problems: list[str], recorder: Recorder
) -> tuple[nvidia_smi.SmiOutput | None, list[str]]:
    """Return the parsed query and the serial numbers of `nvidia-smi -q`; the recorder has the raw texts."""
    output = nvidia_smi.query(program, seconds, problems, recorder)
    serials: list[str] = []
    for option in ("-L", "-q"):
        if recorder.hung:
            break
        recorder([program, option], seconds)
        if option == "-q":
            row = recorder.outputs[-1]
            row["stdout"], serials = without_secrets(row["stdout"])
    return output, serials


def without_secrets(text: str) -> tuple[str, list[str]]:
    """Return the output of `nvidia-smi -q` without serial numbers, UUIDs and processes, and the serial numbers.

    >>> without_secrets("GPU 0\\n    Serial Number : 16529\\n    Processes\\n        Name : /home/a\\n    Fan : 1")
    ('GPU 0\\n    Fan : 1', ['16529'])
    """
    kept, serials, inside = [], [], -1
    for line in text.split("\n"):
        depth = len(line) - len(line.lstrip())
        if inside >= 0 and line.strip() and depth > inside:
            continue
        inside = depth if _PROCESSES.match(line) else -1
        if inside >= 0:
            continue
        if (serial := _SERIAL.match(line)) and sum(map(str.isalnum, serial["value"])) > _SHORT:
            serials.append(serial["value"])
        if not _SECRET_KEYS.match(line):
            kept.append(line)
    return "\n".join(kept), [one for one in serials if one not in ("N/A", "[N/A]")]
