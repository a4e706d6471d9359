# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a machine's GPU software with the cluster file: packages, holds, the module for the next boot, and running services."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..common.command import Outcome
from ..common.finding import NOTICE, Finding
from ..common.remedies import run_role_again
from ..common.text import few, matches_any
from ..common.versions import matches, without_epoch
from ..primitives.packages import rpm
from ..primitives.packages.dpkg import followed

Run = Callable[[list[str]], Outcome]
PERSISTENCE = "nvidia-persistenced.service"
# A GPU waits for one of these services before it uses its NVLinks.
FABRIC = frozenset({"nvidia-fabricmanager.service", "nvidia-imex.service"})
_REBOOT = "drain the node and reboot it"


@dataclass(frozen=True)
class InstalledState:
    """State of a machine: name -> versions of installed packages, held names, (kernel, version of the module or why it is missing)."""

    packages: Mapping[str, Sequence[str]]
    held: frozenset[str]
    kernel: str
    module: str
    units: Mapping[str, Mapping[str, str]]


def packages(
    wanted: Mapping[str, str], pinned: Mapping[str, str], seen: InstalledState, role: str, several: Collection[str] = ()
) -> Iterator[Finding]:
    """Compare packages: required ones are installed, no pinned one has another version, and all are held.

    Names of pinned packages may be patterns. `several` are names that may have several installed versions, as rpm has every kernel under
    one name.
    """
    remedy = run_role_again(role)
    expected = {**pinned, **wanted}
    for entry, found in followed([*expected], seen.packages).items():
        if entry in wanted and not found:
            yield Finding("package", f"package {entry}", wanted[entry], "not installed", remedy)
        for name, there in found.items():
            other = [one for one in there if not matches(one, expected[entry])]
            if name in several and len(other) < len(there):
                other = []
            if other:
                yield Finding("package", f"package {name}", expected[entry], ", ".join(other), remedy)
            elif name not in seen.held:
                yield Finding("hold", f"package {name}", "held", "not held, so the next upgrade may change it", remedy)


def leftovers(
    names: Sequence[str], version: str, stated: Collection[str], seen: InstalledState, remove: str
) -> Iterator[Finding]:
    """Yield driver packages, found by names or patterns of other branches, that are neither stated nor of this version.

    A driver with other package names does not always remove the old packages.
    """
    for found in followed(names, seen.packages).values():
        for name, there in found.items():
            if name not in stated and not all(matches(without_epoch(one), f"{version}-*") for one in there):
                fix = f"check that nothing needs it, then {remove} {name}"
                yield Finding("package", f"package {name}", f"only of driver {version}", ", ".join(there), fix)


def module(wanted: Mapping[str, str], seen: InstalledState) -> Iterator[Finding]:
    """Compare the kernel module on disk for the kernel that boots next."""
    if wanted and seen.module != wanted["version"]:
        yield Finding(
            "module",
            f"module {wanted['file']} for kernel {seen.kernel or 'that boots next'}",
            wanted["version"],
            seen.module or "none",
            "do not reboot; `dkms status` and /var/lib/dkms/*/*/build/make.log say why, then "
            + run_role_again("gpu_driver"),
        )


def units(wanted: Sequence[str], runs: bool, seen: InstalledState) -> Iterator[Finding]:
    """Compare services: enabled, and active if the driver runs."""
    for name in wanted:
        unit = seen.units.get(name, {})
        enabled, active = unit.get("UnitFileState", ""), unit.get("ActiveState", "")
        if enabled not in ("enabled", "static", "alias"):
            yield Finding("unit", f"unit {name}", "enabled", enabled or "no such unit", f"systemctl enable {name}")
        elif runs and active != "active":
            yield Finding("unit", f"unit {name}", "active", active or "unknown", f"journalctl -b -u {name}")


def driver(wanted: Mapping[str, Any], gpu: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare the running driver, if the machine has GPUs."""
    if not wanted or not gpu["gpus"]:
        return
    runs, flavour = gpu["driver"]["version"], gpu["driver"]["flavour"]
    want = f"{wanted['version']} ({wanted['flavour']})"
    if (runs, flavour) != (wanted["version"], wanted["flavour"]):
        found = f"{runs} ({flavour or 'flavour unknown'})" if runs else "none loaded"
        yield Finding("driver", "running driver", want, found, _REBOOT, reboot=True)
    elif gpu["driver"]["mismatch"]:
        libraries = ", ".join(sorted({str(one["version"]) for one in gpu["driver"]["libraries"]}))
        fix = "drain the node and reboot it; programs that start now fail"
        yield Finding("driver-libraries", "libraries of the driver", wanted["version"], libraries, fix, reboot=True)
    if gpu["nouveau"]:
        yield Finding("nouveau", "nouveau", "not loaded", "loaded", _REBOOT, reboot=True)
    if runs:
        for name, value, found in mismatched_options(wanted.get("options") or {}, gpu["driver"]["parameters"]):
            yield Finding("module-option", f"module option {name}", value, found, _REBOOT, reboot=True)
    kernel = wanted.get("kernel") or ""
    if kernel and gpu["running_kernel"] not in (None, kernel):
        yield Finding("running-kernel", "running kernel", kernel, gpu["running_kernel"], _REBOOT, reboot=True)


def mismatched_options(options: Mapping[str, str], parameters: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """Return name, expected and found value of each module option that is not in force; options without a report are left out.

    >>> mismatched_options({"NVreg_EnableGpuFirmware": "0x12", "NVreg_A": "1"}, {"EnableGpuFirmware": 18, "A": 0})
    [('NVreg_A', '1', '0')]
    """
    found = []
    for name, value in options.items():
        there = (parameters or {}).get(name.removeprefix("NVreg_"))
        if there is not None and _number(there) != _number(value):
            found.append((name, str(value), str(there)))
    return found


def _number(value: object) -> object:
    text = str(value).strip("\"'")
    try:
        # The driver shows all of them as unsigned 32-bit numbers.
        return int(text, 0) & 0xFFFFFFFF
    except ValueError:
        return text


def gpus(services: Collection[str], gpu: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare the effect of the driver's services on each GPU, if nvidia-smi reports it."""
    for one in gpu["gpus"]:
        if one["failure"]:
            fix = (
                "drain the node and reboot it, and switch its power off and on if the GPU is still missing; `journalctl -k | grep -i xid` "
                "shows the reason. A GPU that fails again needs service"
            )
            yield Finding(
                "gpu-failure", f"GPU {one['address']}", "a GPU that answers", one["failure"], fix, reboot=True
            )
            continue
        if PERSISTENCE in services and one["persistence"] is False:
            yield Finding(
                "gpu-persistence",
                f"persistence of GPU {one['address']}",
                "on",
                "off",
                f"systemctl restart {PERSISTENCE}; journalctl -b -u {PERSISTENCE}",
            )
        told = [text for text in (one["fabric_state"], one["fabric_status"]) if text]
        if FABRIC & set(services) and told not in ([], ["Completed"], ["Completed", "Success"]):
            (name, *_unused) = sorted(FABRIC & set(services))
            fix = f"no job with NVLink starts on it; journalctl -b -u {name}, and reboot the drained node where that names no reason"
            yield Finding("gpu-fabric", f"fabric of GPU {one['address']}", "Completed, Success", ", ".join(told), fix)


def silent(gpu: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the error that nvidia-smi was queried without an answer: the state of the running GPUs is unknown."""
    driver = gpu["driver"]
    # With libraries of another version it cannot answer, and that is a finding already.
    if not gpu["gpus"] or driver["version"] is None or driver["mismatch"] or gpu["queried"]:
        return
    reasons = [text for text in gpu["problems"] if "nvidia-smi" in text or "abandoned" in text]
    fix = "drain the node and reboot it if the driver hangs or fails; `journalctl -k | grep -i -e xid -e nvrm` shows the reason"
    yield Finding("unread", "nvidia-smi", "an answer of each GPU", few(reasons, 3) or "no answer", fix)


def not_checked(wanted: Mapping[str, Any], gpu: Mapping[str, Any], services: Collection[str] = ()) -> Iterator[Finding]:
    """Yield a notice for every part that could not be compared, so that it does not pass for correct."""
    if not wanted:
        return
    if not gpu["gpus"]:
        yield unchecked("the running driver and its services", "no GPU is on the PCI bus of this machine")
        return
    asked = {"persistence": PERSISTENCE in services, "fabric_state": bool(FABRIC & set(services))}
    for fact in (fact for fact, wants in asked.items() if wants):
        addresses = [one["address"] for one in gpu["gpus"] if one[fact] is None and not one["failure"]]
        if addresses and gpu["driver"]["version"] is not None:
            yield unchecked(f"{fact.partition('_')[0]} of {len(addresses)} GPUs", "nvidia-smi does not report it")


def unchecked(where: str, why: str) -> Finding:
    """Return the notice that a part could not be compared."""
    return Finding("not-checked", where, "to be compared", why, severity=NOTICE)


class Reader:
    """Reader of a machine's state, with one command per kind of object. `remove` is the command that removes a package."""

    remove = "apt-get purge"

    def __init__(self, run: Run) -> None:
        self.run = run

    def packages(self, wanted: Mapping[str, str]) -> dict[str, list[str]]:
        """Return name -> installed versions (of each architecture) for `wanted`, name or pattern -> version."""
        names = list(wanted)
        if not names:
            return {}
        shown = "${Package}\\t${db:Status-Status}\\t${Version}\\n"
        said = self.run(["dpkg-query", "--show", f"--showformat={shown}", "--", *names])
        found: dict[str, list[str]] = {}
        for line in said.stdout.splitlines():
            name, status, version = line.split("\t")
            if status == "installed":
                found.setdefault(name, []).append(version)
        return found

    def held(self, wanted: Mapping[str, str], follow: Sequence[str] = ()) -> frozenset[str]:
        """Return the held packages among `wanted` (name or pattern -> version), and among the ones free to stay at any version."""
        names = (word.partition(":")[0] for word in self.run(["apt-mark", "showhold"]).stdout.split())
        return frozenset(name for name in names if matches_any(name, (*wanted, *follow)))

    def module(self, kernel: str, file: str) -> str:
        """Return the version of a module file for a kernel, "" if it is missing."""
        name = file.removesuffix(".ko")
        said = self.run(["modinfo", "--set-version", kernel, "--field", "version", name])
        return said.stdout.strip() if said.code == 0 else ""

    def units(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the state of units by name."""
        found = {}
        for name in names:
            said = self.run(["systemctl", "show", "--property=UnitFileState,ActiveState", name])
            found[name] = dict(line.partition("=")[::2] for line in said.stdout.splitlines())
        return found


class RpmReader(Reader):
    """Reader of a machine with rpm."""

    remove = "dnf remove"

    def packages(self, wanted: Mapping[str, str]) -> dict[str, list[str]]:
        """As Reader.packages; versions have an epoch only if the expected one has. Raises RpmError if the records cannot be read."""
        return {
            name: [one if ":" in wanted.get(name, "") else without_epoch(one) for one in there]
            for name, there in rpm.installed([*wanted], self.run).items()
        }

    def held(self, wanted: Mapping[str, str], follow: Sequence[str] = ()) -> frozenset[str]:
        """Return the packages that dnf's versionlock keeps at the stated version, or at the installed one."""
        lines = rpm.locks()
        return rpm.held(wanted, lines) | rpm.kept(follow, lines, self.run)


READERS = {"apt": Reader, "dnf": RpmReader}
