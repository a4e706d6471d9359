# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what bedplate's readers find on a machine, beside the raw text that they read; nothing on the machine changes."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..common.command import find
from ..common.sysfs import Root
from ..drift import apt_files
from ..gpu.devices import nvidia_smi
from ..gpu.devices.gpu_devices import PCI, pci_facts
from ..gpu.driver import dkms_modules
from ..gpu.driver.next_kernel import BootError, Grub, kernels, next_kernel
from ..gpu.gpu_inventory import read_facts
from ..primitives.packages import rpm
from ..rdma.rdma_devices import CLASS
from ..tuning.boot import bootloader
from ..tuning.boot.cmdline_tokens import CmdlineError
from .known_names import known_names
from .smi_raw import Recorder, read_smi, refusal

Facts = dict[str, Any]
# Storage, network, display and accelerators; NVSwitches are bridges of another kind.
_CLASSES = ("0x0108", "0x02", "0x03", "0x12", "0x0680", "0x0b40")
_APT, _YUM = "etc/apt/sources.list.d", "etc/yum.repos.d"
_FORMAT = "${Package}\\t${Version}\\t${db:Status-Status}\\n"
_RELEASE = ("ID", "VERSION_ID", "PRETTY_NAME")


class SoftwareReader:
    """Reads a machine part by part; a part that fails is a row of `unread`, and the other parts are read."""

    def __init__(self, sysroot: str, packages: Sequence[str], seconds: float, recorder: Recorder | None = None) -> None:
        """`packages` are names or patterns; `seconds` is the deadline of each command. Commands run with `sysroot` / alone."""
        self.root = Root(sysroot)
        self.packages = packages
        self.seconds = seconds
        self.is_live = Path(sysroot).resolve() == Path("/")
        self.recorder = recorder or Recorder(seconds)
        self.unread: list[dict[str, str]] = []
        self.names = known_names(self.root)

    def read(self) -> Facts:
        """Return `found` by part, `raw` texts, `unread` rows, and the `names` that a report must not have."""
        before = self._device_files()
        parts: dict[str, Callable[[], Any]] = {
            "system": self._system,
            "gpu": self._gpu,
            "pci": self._pci,
            "dkms": self._dkms,
            "rdma": self._rdma,
            "boot": self._boot,
            "packages": self._packages,
            "sources": self._sources,
        }
        found: Facts = {}
        for part, read in parts.items():
            try:
                found[part] = read()
            except Exception as error:
                self._note(part, f"{type(error).__name__}: {error}")
        if (after := self._device_files()) != before:
            self._note("nvidia-smi", f"device files before: {' '.join(before)}; after: {' '.join(after)}")
        for problem in dict.fromkeys(self.root.problems):
            self._note("files", problem)
        return {"found": found, "raw": self.recorder.outputs, "unread": self.unread, "names": self.names}

    def _note(self, reader: str, text: str) -> None:
        self.unread.append({"reader": reader, "text": text})

    def _device_files(self) -> list[str]:
        return [name for name in self.root.names("dev") if name.startswith("nvidia")]

    def _system(self) -> Facts:
        words = dict(line.partition("=")[::2] for line in self.root.lines("etc/os-release"))
        release = {key.lower(): words.get(key, "").strip("\"'") for key in _RELEASE}
        machine = platform.machine() if self.is_live else ""
        cmdline = self.root.text("proc/cmdline", needed=False) or ""
        return {
            **release,
            "machine": machine,
            "cmdline": cmdline,
            "container": self.root.exists("run/systemd/container"),
        }

    def _gpu(self) -> Facts:
        answered: list[bool] = []

        def ask(_seconds: float, _problems: list[str]) -> None:
            answered.append(True)  # a driver is loaded, and its files answered

        facts = read_facts(str(self.root.top), self.seconds, ask)
        why = refusal(self.root, facts["gpus"]) if answered else "no driver is loaded, or its files do not answer"
        program = find("nvidia-smi") if self.is_live else None
        if not why and program:
            # The problem of a query that was not made is no problem here.
            output, serials = read_smi(program, self.seconds, facts["problems"], self.recorder)
            nvidia_smi.add_rows(facts["gpus"], output, facts["problems"])
            self.names["serial"] += serials
        for problem in facts.pop("problems"):
            self._note("gpu_facts", problem)
        driver = facts["driver"]
        parameters = [f"{key}: {value}" for key, value in (driver["parameters"] or {}).items()]
        return {
            **facts,
            "driver": {**driver, "parameters": parameters},
            "nvidia_smi": why or program or "not installed",
        }

    def _pci(self) -> list[Facts]:
        rows = []
        for address in self.root.names(PCI):
            base = f"{PCI}/{address}"
            kind = self.root.text(f"{base}/class", needed=False) or ""
            if kind.startswith(_CLASSES) and not self.root.exists(f"{base}/physfn"):
                vendor = self.root.text(f"{base}/vendor", needed=False)
                rows.append({"class": kind, "vendor": vendor, **pci_facts(Root(str(self.root.top)), address)})
        return rows

    def _dkms(self) -> list[str]:
        program = find("dkms") if self.is_live else None
        if program is None:
            return []
        outcome = self.recorder([program, "status"])
        if outcome.code != 0:
            self._note("dkms", outcome.error_line)
        for line in dkms_modules.unread_lines(outcome.stdout):
            self._note("dkms", line)
        return [f"{name} {version} {kernel}" for kernel, built in sorted(dkms_modules.installed_for(outcome.stdout).items())
                for name, version in sorted(built)]  # fmt: skip

    def _rdma(self) -> list[Facts]:
        return [self._device(name) for name in self.root.names(CLASS)]

    def _device(self, name: str) -> Facts:
        base = f"{CLASS}/{name}"
        values = {key: self._text(f"{base}/{key}") for key in ("fw_ver", "board_id", "hca_type", "node_guid")}
        ports = [
            {"port": port, **{key: self._text(f"{base}/ports/{port}/{key}") for key in _PORT}}
            for port in self.root.names(f"{base}/ports")
        ]
        pci, driver = self.root.link(f"{base}/device"), self.root.link(f"{base}/device/driver")
        return {"name": name, "address": pci, "driver": driver, **values, "ports": ports}

    def _text(self, path: str) -> str | None:
        """Return a file of a driver, which a device in a bad state refuses."""
        try:
            return self.root.find(path).read_text(errors="replace").strip()
        except OSError as error:
            return f"unreadable: {error.strerror}"

    def _boot(self) -> Facts:
        top = self.root.top
        loader = ""
        try:
            loader = bootloader.find(top)
        except CmdlineError as error:
            self._note("boot loader", "; ".join(error.problems))
        grub = Grub(top / "boot", top / "etc/default/grub", self.recorder)
        kernel = ""
        if kernels(grub.boot):
            try:
                kernel = next_kernel(grub)
            except BootError as error:
                self._note("kernel that boots next", str(error))
        return {"loader": loader, "next_kernel": kernel}

    def _packages(self) -> list[Facts]:
        if not self.is_live or not self.packages:
            return []
        if find("dpkg-query"):
            outcome = self.recorder(
                [find("dpkg-query") or "", "--show", f"--showformat={_FORMAT}", "--", *self.packages]
            )
            self.recorder.outputs.pop()  # the rows below are the whole text
            rows = [line.split("\t") for line in outcome.stdout.splitlines()]
            if outcome.code is None:
                self._note("packages", outcome.error_line)
            return [{"name": row[0], "version": row[1]} for row in rows if len(row) == 3 and row[2] == "installed"]
        if not find("rpm"):
            return []
        count = len(self.recorder.outputs)
        there = rpm.installed(self.packages, self.recorder)
        del self.recorder.outputs[count:]
        return [{"name": name, "version": one} for name, versions in sorted(there.items()) for one in versions]

    def _sources(self) -> list[Facts]:
        """Return the lines of files with package sources, without comments and keys."""
        lists = ["etc/apt/sources.list", *(f"{_APT}/{name}" for name in self.root.names(_APT))]
        files = [*lists, *(f"{_YUM}/{name}" for name in self.root.names(_YUM))]
        known = {(one.path, one.line) for one in apt_files.sources(self.root)}
        rows = []
        for path in files:
            if not path.endswith((".list", ".sources", ".repo")):
                continue
            lines = list(_without_keys(self.root.lines(path)))
            if path.endswith(".list"):
                for number, line in enumerate(self.root.lines(path), 1):
                    if line.split()[:1] in (["deb"], ["deb-src"]) and (f"/{path}", number) not in known:
                        self._note("apt sources", f"/{path}:{number}: {line.strip()}")
            if lines:
                rows.append({"path": f"/{path}", "lines": lines})
        return rows


_PORT = ("link_layer", "state", "phys_state", "rate")


def _without_keys(lines: Sequence[str]) -> list[str]:
    kept, inside = [], False
    for line in lines:
        inside = inside or "-----BEGIN" in line
        if not inside and line.strip() and not line.lstrip().startswith("#"):
            kept.append(line.rstrip())
        if "-----END" in line:
            inside = False
    return kept
