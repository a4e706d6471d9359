# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect all facts of a machine's GPUs and their driver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..common.command import find
from ..common.sysfs import Root
from .devices import gpu_devices, nvidia_smi
from .driver import driver_facts

Facts = dict[str, Any]
Asked = Callable[[float, "list[str]"], "nvidia_smi.SmiOutput | None"]


def query_this_machine(seconds: float, problems: list[str]) -> nvidia_smi.SmiOutput | None:
    """Query this machine's nvidia-smi."""
    program = find("nvidia-smi")
    if program is None:
        problems.append("nvidia-smi: not installed, though a driver is loaded")
        return None
    return nvidia_smi.query(program, seconds, problems)


def nvidia_smi_query(sysroot: str, query: bool) -> Asked | None:
    """Return the function that queries nvidia-smi; None for the file tree of another machine."""
    return query_this_machine if query and Path(sysroot).resolve() == Path("/") else None


def read_facts(sysroot: str, seconds: float, ask: Asked | None, early_file: str = "") -> Facts:
    """Return the facts of the machine whose root is `sysroot`; an unknown fact is null, and `problems` has the reason.

    The driver has `seconds` to answer, once for its files and once for nvidia-smi. `ask` queries nvidia-smi, only if a driver is loaded and
    its files have answered; it takes the seconds and a list to which it adds problems. `early_file` is a file that every initramfs must
    contain.
    """
    root = Root(sysroot)
    gpus, nvswitches = gpu_devices.read_devices(root)
    version = root.text(driver_facts.VERSION_FILE, needed=False) or None
    texts, hung = _driver_files(root, version, seconds)
    informations = {_address(path): text for path, text in texts.items() if path.startswith(gpu_devices.GPUS)}
    silent = [_address(path) for path in hung if path.startswith(gpu_devices.GPUS)]
    gpu_devices.add_driver_facts(root, gpus, informations, silent, version is not None)
    told = None
    if ask and version and not hung:
        told = ask(seconds, root.problems)
    nvidia_smi.add_rows(gpus, told, root.problems)
    running, kernels = driver_facts.read_kernels(root)
    return {
        "gpus": gpus,
        "nvswitches": nvswitches,
        "driver": _driver(root, version, texts),
        "nouveau": root.exists("sys/module/nouveau"),
        "running_kernel": running,
        "kernels": kernels,
        "initramfs_before": driver_facts.initramfs_before(root, early_file) if early_file else [],
        "secure_boot": driver_facts.secure_boot(root),
        "queried": told is not None,
        "problems": root.problems,
    }


def _driver_files(root: Root, version: str | None, seconds: float) -> tuple[dict[str, str], list[str]]:
    """Return the texts of the driver's files by path, and the paths that did not answer; none without a driver."""
    if version is None:
        return {}, []
    informations = [f"{gpu_devices.GPUS}/{name}/information" for name in root.names(gpu_devices.GPUS)]
    return root.texts([driver_facts.FLAVOUR_FILE, driver_facts.PARAMETERS_FILE, *informations], seconds)


def _address(path: str) -> str:
    name = path.split("/")[-2]
    return gpu_devices.address_of(name) or name


def _driver(root: Root, version: str | None, texts: dict[str, str]) -> Facts:
    libraries = driver_facts.read_libraries(root)
    flavour = None
    if driver_facts.FLAVOUR_FILE in texts:
        flavour = driver_facts.parse_flavour(texts[driver_facts.FLAVOUR_FILE])
        if flavour is None:
            root.problems.append(
                f"/{driver_facts.FLAVOUR_FILE}: no line of the NVRM version, so the flavour is unknown"
            )
    parameters = None
    if driver_facts.PARAMETERS_FILE in texts:
        parameters = driver_facts.parse_parameters(texts[driver_facts.PARAMETERS_FILE], root.problems)
    return {
        "version": version,
        "flavour": flavour,
        "parameters": parameters,
        "libraries": libraries,
        "mismatch": driver_facts.mismatch(version, libraries),
    }
