# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the GPUs by nvidia-smi where NVML cannot be used. A text that is not known never becomes a value.

Only a disposable child runs this. nvidia-smi stays in the child's process group, so that one signal ends both.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Union

from ...common.command import NOT_STARTED, Outcome
from ...gpu.devices.nvidia_smi import BUS_ID, SmiOutput, parse
from ..facts.node_facts import Reading
from .nvml import DEVICE_QUANTITIES
from .nvml_values import throttle_values
from .reading_lines import NOT_SUPPORTED, Answer, Problem, unread

SOURCE = "nvidia-smi"
Run = Callable[[Sequence[str]], Outcome]
_DECIMAL, _HEX = re.compile(r"[0-9]{1,19}\Z"), re.compile(r"0x[0-9a-fA-F]{1,16}\Z")
_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""Names of the same field in newer and in older drivers."""
_FABRIC = {"Not Supported": "not-supported", "Not Started": "not-started", "In Progress": "in-progress"}


def _number(text: str) -> Answer:
    return int(text) if _DECIMAL.match(text) else Problem(f"{text!r} is not a number")


def _word(words: Mapping[str, int]) -> Callable[[str], Answer]:
    return lambda text: words[text] if text in words else Problem(f"{text!r}; expected {' or '.join(words)}")


_ON, _YES = _word({"Disabled": 0, "Enabled": 1}), _word({"No": 0, "Yes": 1, "0": 0, "1": 1})
_GPU_FIELDS: dict[str, tuple[str, Callable[[str], Answer]]] = {
    "persistence_mode": ("persistence", _ON),
    "ecc.mode.current": ("ecc-mode", _ON),
    "ecc.errors.uncorrected.volatile.total": ("ecc-uncorrected-volatile", _number),
    "ecc.errors.corrected.volatile.total": ("ecc-corrected", _number),
    "pcie.link.width.current": ("pcie-width", _number),
}
_ROW_FIELDS: dict[str, tuple[str, Callable[[str], Answer]]] = {
    "remapped_rows.uncorrectable": ("remap-uncorrectable", _number),
    "remapped_rows.pending": ("remap-pending", _YES),
    "remapped_rows.failure": ("remap-failure", _YES),
}
_THROTTLE = ("throttle-hw", "throttle-software-thermal", "power-brake")
GPU_QUERY = (BUS_ID, *_GPU_FIELDS, *_REASONS, "fabric.state", "fabric.status")
ROW_QUERY = ("gpu_bus_id", "remapped_rows.correctable", *_ROW_FIELDS)
Cells = Mapping[str, Union[str, None]]


def run_here(argv: Sequence[str]) -> Outcome:
    """Run a command in this process group, and wait for it: the agent kills the group at the deadline."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        return Outcome(NOT_STARTED, "", f"{argv[0]}: {error.strerror or error}")
    return Outcome(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def read_gpus(program: str, run: Run = run_here) -> Iterator[Reading]:
    """Yield the readings of all GPUs; quantities that nvidia-smi does not print are unread."""
    gpus, problem = _query(program, "--query-gpu", GPU_QUERY, run)
    if not gpus.rows:
        yield from (unread(name, "", SOURCE, problem or f"{program} printed no GPU") for name in DEVICE_QUANTITIES)
        return
    if problem:
        yield unread("gpu-count-driver", "", SOURCE, problem)
    else:
        yield Reading("gpu-count-driver", "", len(gpus.rows), SOURCE)
    rows, rows_problem = _query(program, "--query-remapped-rows", ROW_QUERY, run)
    for address, cells in gpus.rows.items():
        answers = {**_gpu(cells, gpus, address), **_remapped(rows, address, rows_problem)}
        failure = gpus.failures.get(address) or rows.failures.get(address)
        answers["gpu-lost"], answers["reset-required"] = _states(failure, answers)
        for name in DEVICE_QUANTITIES:
            answer = answers.get(name, Problem("nvidia-smi is the source, and it is not queried for this"))
            if isinstance(answer, Problem):
                yield unread(name, address, SOURCE, answer)
            else:
                yield Reading(name, address, answer, SOURCE)


def _query(program: str, option: str, fields: Sequence[str], run: Run) -> tuple[SmiOutput, str]:
    """Return the rows, without the fields that this nvidia-smi does not know, and a problem; "" if every line was read."""
    known = list(fields)
    while True:
        outcome = run([program, f"{option}={','.join(known)}", "--format=csv,noheader,nounits"])
        told = parse(outcome.stdout, [BUS_ID, *known[1:]])
        rest = [name for name in known[1:] if name not in told.lacking]
        if len(rest) == len(known) - 1 or not rest:
            break
        known = [known[0], *rest]
    if told.unread:
        return told, f"{program}: {told.unread[0][0]!r}"
    return told, "" if outcome.code == 0 else f"{program}: {outcome.error_line}"


def _states(failure: str | None, answers: Mapping[str, Answer]) -> tuple[Answer, Answer]:
    """Return gpu-lost and reset-required; a GPU with a value in its row is neither."""
    if failure is not None:
        return int("lost" in failure), int("reset" in failure)
    if any(not isinstance(one, Problem) for one in answers.values()):
        return 0, 0
    return Problem("no cell of the GPU has a value"), Problem("no cell of the GPU has a value")


def _gpu(cells: Cells, told: SmiOutput, address: str) -> dict[str, Answer]:
    found = {name: _answer(cells, field, told, address, read) for field, (name, read) in _GPU_FIELDS.items()}
    reasons = next((field for field in _REASONS if cells.get(field)), _REASONS[0])
    bits = _answer(cells, reasons, told, address, _bits)
    values = throttle_values(bits) if isinstance(bits, int) else (bits,) * len(_THROTTLE)
    return {**found, **dict(zip(_THROTTLE, values)), "fabric-state": _fabric(cells, told, address)}


def _bits(text: str) -> Answer:
    return int(text, 16) if _HEX.match(text) else Problem(f"{text!r} is not a hexadecimal number")


def _fabric(cells: Cells, told: SmiOutput, address: str) -> Answer:
    state = _answer(cells, "fabric.state", told, address, lambda text: text)
    if isinstance(state, Problem) or state in _FABRIC:
        return state if isinstance(state, Problem) else _FABRIC[str(state)]
    status = cells.get("fabric.status")
    if state != "Completed" or status is None:
        return Problem(f"fabric state {state!r}, status {status!r}")
    return "completed" if status == "Success" else f"failed-{status.lower().replace(' ', '-')}"


def _remapped(told: SmiOutput, address: str, problem: str) -> dict[str, Answer]:
    cells = told.rows.get(address)
    if cells is None:
        why = Problem(problem or "nvidia-smi printed no remapped rows of this GPU")
        return {name: why for name, _read in _ROW_FIELDS.values()}
    return {name: _answer(cells, field, told, address, read) for field, (name, read) in _ROW_FIELDS.items()}


def _answer(cells: Cells, field: str, told: SmiOutput, address: str, read: Callable[[str], Answer]) -> Answer:
    """Return the value of a cell. A cell without a value is not supported, unless the parser reports a trouble with it."""
    text = cells.get(field)
    if text is not None:
        return read(text)
    trouble = next((one for one in told.troubles if one.startswith(f"{address}: nvidia-smi reports {field} ")), "")
    return Problem(trouble or f"{NOT_SUPPORTED}: nvidia-smi has no {field}")
