# SPDX-License-Identifier: GPL-3.0-or-later
"""All facts of a machine's GPUs and their driver, put together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import devices, smi, software
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.reading import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.node_command import find

Facts = dict[str, Any]
Asked = Callable[[float, "list[str]"], "smi.Told | None"]


def ask_this_machine(seconds: float, problems: list[str]) -> smi.Told | None:
    """Ask this machine's nvidia-smi."""
    program = find("nvidia-smi")
    if program is None:
        problems.append("nvidia-smi: not installed, though a driver is loaded")
        return None
    return smi.ask(program, seconds, problems)


def asker(sysroot: str, query: bool) -> Asked | None:
    """Return who is to ask nvidia-smi; None for another machine's tree, of which this one's nvidia-smi knows nothing."""
    return ask_this_machine if query and Path(sysroot).resolve() == Path("/") else None


def gather(sysroot: str, seconds: float, ask: Asked | None, early_file: str = "") -> Facts:
    """Return the facts of the machine whose root is `sysroot`; what is not known is None, and `problems` says why.

    The driver has `seconds` to answer, once for its files and once for nvidia-smi. Only where a driver is loaded and
    its files have answered, `ask` asks nvidia-smi; it takes the seconds and the list of problems to add to.
    `early_file` is one that every initramfs should have.
    """
    root = Root(sysroot)
    gpus, nvswitches = devices.read_devices(root)
    version = root.text(software.VERSION_FILE, needed=False) or None
    texts, hung = _driver_files(root, version, seconds)
    informations = {_address(path): text for path, text in texts.items() if path.startswith(devices.GPUS)}
    silent = [_address(path) for path in hung if path.startswith(devices.GPUS)]
    devices.add_driver_facts(root, gpus, informations, silent, version is not None)
    told = None
    if ask and version and not hung:
        told = ask(seconds, root.problems)
    smi.add_rows(gpus, told, root.problems)
    running, kernels = software.read_kernels(root)
    return {
        "gpus": gpus,
        "nvswitches": nvswitches,
        "driver": _driver(root, version, texts),
        "nouveau": root.exists("sys/module/nouveau"),
        "running_kernel": running,
        "kernels": kernels,
        "initramfs_before": software.initramfs_before(root, early_file) if early_file else [],
        "secure_boot": software.secure_boot(root),
        "queried": told is not None,
        "problems": root.problems,
    }


def _driver_files(root: Root, version: str | None, seconds: float) -> tuple[dict[str, str], list[str]]:
    """Return the texts of the driver's files by path, and the paths that did not answer; none without a driver."""
    if version is None:
        return {}, []
    informations = [f"{devices.GPUS}/{name}/information" for name in root.names(devices.GPUS)]
    return root.texts([software.FLAVOUR_FILE, software.PARAMETERS_FILE, *informations], seconds)


def _address(path: str) -> str:
    name = path.split("/")[-2]
    return devices.address_of(name) or name


def _driver(root: Root, version: str | None, texts: dict[str, str]) -> Facts:
    libraries = software.read_libraries(root)
    flavour = None
    if software.FLAVOUR_FILE in texts:
        flavour = software.parse_flavour(texts[software.FLAVOUR_FILE])
        if flavour is None:
            root.problems.append(f"/{software.FLAVOUR_FILE}: no line of the NVRM version, so the flavour is unknown")
    parameters = None
    if software.PARAMETERS_FILE in texts:
        parameters = software.parse_parameters(texts[software.PARAMETERS_FILE], root.problems)
    return {
        "version": version,
        "flavour": flavour,
        "parameters": parameters,
        "libraries": libraries,
        "mismatch": software.mismatch(version, libraries),
    }
