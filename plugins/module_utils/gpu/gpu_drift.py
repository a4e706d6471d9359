# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the GPU software of a machine, on disk and running, with one part of the GPU stack of the cluster file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..common import command as node_command
from ..common.finding import Finding
from ..common.remedies import run_role_again
from ..common.sysfs import Root
from ..drift import modprobe
from ..gpu_settings import settings_drift
from ..gpu_settings.smi_settings import run_nvidia_smi
from ..primitives.packages.rpm import NONE
from . import gpu_inventory, gpu_software_drift, gpudirect_drift, mig_drift, nvlink_drift, nvswitches
from .devices.gpu_users import GpuUsers
from .driver import secure_boot_state
from .driver.next_kernel import BootError, boot_problem, next_kernel

_SECONDS = 30.0


def findings(root: str, expected: Mapping[str, Any], running: bool = True) -> Iterator[Finding]:
    """Yield every difference of one part; `expected` is that of the filters gpu_part and container_runtime.

    With `running` false, the running state is not compared, before a reboot that changes it; then it is an error if it is unknown whether a
    stated kernel boots next. Raises RpmError if rpm's records cannot be read.
    """
    wanted = dict(expected)
    if not running:
        wanted.update(driver={}, units=[], mig=[], whole=False, nvswitches={}, gpu_settings={})
    ask = gpu_inventory.nvidia_smi_query(root, bool(wanted.get("driver")))
    gpu = gpu_inventory.read_facts(root, _SECONDS, ask)
    boots = _boots(wanted.get("module") or {}, wanted["manager"], sure=not running)
    yield from _compared(wanted, gpu, boots, root)
    if ask:
        yield from gpu_software_drift.silent(gpu)
    # At the next boot, too.
    yield from modprobe.findings(Root(root), {"blacklisted": wanted.get("blacklisted", []), "role": wanted["role"]})
    yield from gpu_software_drift.not_checked(wanted.get("driver", {}), gpu, wanted["units"])
    if boots.unknown and not boots.findings:
        yield gpu_software_drift.unchecked("the kernel that boots next", boots.unknown)
    if wanted.get("signed") and gpu["secure_boot"] is None:
        yield gpu_software_drift.unchecked(
            "whether Secure Boot loads the module", "its state is unknown (`mokutil --sb-state`)"
        )


@dataclass(frozen=True)
class _Boots:
    """The kernel that boots next, or the finding that it is not the stated one; `unknown`: why it is not known."""

    kernel: str = ""
    findings: tuple[Finding, ...] = ()
    unknown: str = ""


def _boots(wanted: Mapping[str, Any], manager: str, sure: bool) -> _Boots:
    """Return the kernel that boots next; with `sure`, an unknown kernel is a finding, since after a reboot it is too late."""
    if not wanted:
        return _Boots()
    stated = str(wanted.get("kernel") or "")
    try:
        kernel = stated or next_kernel()
        unknown = boot_problem(kernel, manager, installed=True) if stated else ""
    except BootError as error:
        found = "another kernel, or unknown"
        return _Boots(
            findings=(Finding("next-kernel", "kernel", stated or "the kernel that boots next", found, str(error)),)
        )
    if unknown and sure:
        fix = f"reboot this node yourself, at its console ({unknown})"
        found = "unknown"
        return _Boots(kernel, (Finding("next-kernel", "kernel", f"{kernel} boots next", found, fix),))
    return _Boots(kernel, unknown=unknown)


def _compared(wanted: dict[str, Any], gpu: dict[str, Any], boots: _Boots, root: str = "/") -> Iterator[Finding]:
    reader = gpu_software_drift.READERS[wanted["manager"]](node_command.run)
    kernel, version = boots.kernel, ""
    if wanted.get("module") and not boots.findings:
        version = reader.module(kernel, wanted["module"]["file"])
    follow, others = wanted.get("follow") or [], wanted.get("others") or []
    pinned = {**wanted["pinned"], **dict.fromkeys(follow, "*")}
    stated = {**wanted["pinned"], **wanted["packages"]}
    seen = gpu_software_drift.InstalledState(
        packages=reader.packages({**dict.fromkeys(others, "*"), **pinned, **wanted["packages"]}),
        held=reader.held({**stated, **dict.fromkeys(wanted["none"], NONE)}, follow),
        kernel=kernel,
        module=version,
        units=reader.units(wanted["units"]),
    )
    runs = gpu["driver"]["version"] is not None
    yield from boots.findings
    yield from gpu_software_drift.packages(wanted["packages"], pinned, seen, wanted["role"], wanted["several"])
    if others:
        yield from gpu_software_drift.leftovers(others, wanted["module"]["version"], stated, seen, reader.remove)
    if not boots.findings:
        yield from gpu_software_drift.module(wanted.get("module") or {}, seen)
    yield from gpu_software_drift.units(wanted["units"], runs, seen)
    yield from nvlink_drift.findings(wanted.get("nvlink") or {}, "" if boots.findings else kernel, node_command.run)
    if kernel and not boots.findings:
        yield from gpudirect_drift.on_disk(wanted.get("gpudirect") or {}, kernel, node_command.run)
    yield from nvswitches.findings(wanted.get("nvswitches") or {}, gpu["gpus"], gpu["nvswitches"])
    yield from gpu_software_drift.driver(wanted.get("driver") or {}, gpu)
    if wanted.get("driver"):
        yield from gpu_software_drift.gpus(wanted["units"], gpu)
        yield from nvlink_drift.channel(wanted.get("nvlink") or {}, gpu)
        yield from nvlink_drift.loaded(wanted.get("nvlink") or {}, gpu)
        yield from gpudirect_drift.loaded(wanted.get("gpudirect") or {}, gpu)
    yield from _mig(wanted.get("mig") or [], gpu)
    if gpu["gpus"] and runs:
        yield from settings_drift.findings(wanted.get("gpu_settings") or {}, run_nvidia_smi, GpuUsers(Path(root)))
    if wanted.get("whole"):
        yield from mig_drift.split_gpus(gpu)
    if wanted.get("signed") and not boots.findings:
        yield from _secure_boot(wanted, seen, gpu["secure_boot"])


def _secure_boot(
    wanted: Mapping[str, Any], seen: gpu_software_drift.InstalledState, boots: str | None
) -> Iterator[Finding]:
    # A file that is missing on disk is a finding already.
    file = wanted["module"]["file"] if seen.module else ""
    if obstacle := secure_boot_state.judge(boots, node_command.run, module=file, kernel=seen.kernel):
        fix = f"do not reboot; {run_role_again(wanted['role'])}: its error lists the steps for a person"
        yield replace(obstacle, remedy=fix)


def _mig(wanted: list[list[str]], gpu: Mapping[str, Any]) -> Iterator[Finding]:
    listed = None
    if wanted and gpu["driver"]["version"] is not None:
        said = mig_drift.listing(lambda argv: node_command.run(argv, _SECONDS))
        if isinstance(said, str):
            yield Finding("mig", "MIG", "profiles by name", said, "only their number is compared")
        else:
            listed = said
    yield from mig_drift.findings(wanted, gpu, listed)
