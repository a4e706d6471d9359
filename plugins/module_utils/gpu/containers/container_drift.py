# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the containers' access to GPUs, as engines, Slurm and the kernel report it, with the cluster file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...common import command
from ...common.command import Outcome
from ...common.finding import Finding
from ...common.remedies import run_role_again
from ..gpu_software_drift import unchecked
from .toml_editor import value_of

Run = Callable[[list[str], float], Outcome]

_SECONDS = 30.0
_AGAIN = run_role_again("container_runtime")
_DEVICE = re.compile(r"nvidia[0-9]+\Z")

# Sysctls that users need for namespaces: name, allowed values, and their text.
_LIMITS = (
    ("user/max_user_namespaces", range(2, 2**63), "at least 2"),
    ("user/max_mnt_namespaces", range(2, 2**63), "at least 2"),
    ("kernel/unprivileged_userns_clone", range(1, 2), "1"),
    ("kernel/apparmor_restrict_unprivileged_userns", range(1), "0"),
)


class ContainerReader:
    """Reader of one machine. `root` is its file system."""

    def __init__(self, root: Path = Path("/"), run: Run = command.run) -> None:
        self.root = root
        self.run = run

    def findings(self, wanted: Mapping[str, Any]) -> list[Finding]:
        """Return every difference. `wanted` is `asked` in the result of the filter container_runtime."""
        found = [*self.cdi(wanted["spec"])] if wanted.get("spec") else []
        for engine in wanted["engines"]:
            check = getattr(self, engine["name"])
            found += check(engine)
        if wanted.get("pyxis"):
            found += self.pyxis(wanted["pyxis"])
        return found

    def cdi(self, path: str) -> Iterator[Finding]:
        """Compare the CDI specification with the GPUs that have a device file."""
        if not (self.root / "proc/driver/nvidia/version").exists():
            yield unchecked(
                "the CDI specification", "no driver is loaded, and without a driver no specification is made"
            )
            return
        again = "journalctl -b -u bedplate-cdi; systemctl restart bedplate-cdi"
        try:
            text = (self.root / path.lstrip("/")).read_text(encoding="utf-8")
        except OSError as error:
            yield Finding("cdi", f"CDI specification {path}", "written at boot", str(error.strerror), again)
            return
        listed = set(re.findall(r"/dev/(nvidia[0-9]+)\b", text))
        there = {one.name for one in (self.root / "dev").glob("nvidia*") if _DEVICE.match(one.name)}
        if missing := sorted(there - listed):
            yield Finding("cdi", f"CDI specification {path}", f"a device for {', '.join(missing)}", "none", again)
        if gone := sorted(listed - there):
            yield Finding(
                "cdi", f"CDI specification {path}", "only devices of present GPUs", f"also {', '.join(gone)}", again
            )

    def podman(self, _engine: Mapping[str, Any]) -> Iterator[Finding]:
        """Check that podman works; it reads the specification for each container."""
        outcome = self.run(["podman", "info", "--format", "{{.Version.Version}}"], _SECONDS)
        if outcome.code != 0:
            yield Finding("container-engine", "podman", "works", outcome.text or "says nothing", "podman info")

    def docker(self, engine: Mapping[str, Any]) -> Iterator[Finding]:
        """Compare the settings of docker's running daemon."""
        outcome = self.run(["docker", "info", "--format", "{{json .}}"], _SECONDS)
        try:
            told = json.loads(outcome.stdout)
        except ValueError:
            told = {}
        if outcome.code != 0 or not isinstance(told, dict) or not told.get("ServerVersion"):
            yield Finding(
                "container-engine",
                "docker",
                "a daemon that answers",
                outcome.text or "nothing",
                "journalctl -b -u docker",
            )
        elif engine["cdi"] and not told.get("CDISpecDirs"):
            yield Finding(
                "container-engine",
                "docker",
                "reads CDI specifications",
                "no directories of them",
                self._restart("docker"),
            )
        elif not engine["cdi"] and "nvidia" not in (told.get("Runtimes") or {}):
            known = ", ".join(sorted(told.get("Runtimes") or {})) or "none"
            yield Finding("container-engine", "docker", "a runtime nvidia", known, self._restart("docker"))

    def containerd(self, engine: Mapping[str, Any]) -> Iterator[Finding]:
        """Compare containerd's view of its files; its daemon read them when it started."""
        outcome = self.run(["containerd", "config", "dump"], _SECONDS)
        if outcome.code != 0:
            yield Finding("container-engine", "containerd", "readable settings", outcome.text, "containerd config dump")
            return
        cri = ("plugins", engine["plugin"])
        if engine["cdi"]:
            value = value_of(outcome.stdout, cri, "enable_cdi")
            if value != "true":
                yield Finding("container-engine", "containerd", "enable_cdi = true", value or "nothing", _AGAIN)
        else:
            for name in ("runc", "nvidia"):
                if not value_of(outcome.stdout, (*cri, "containerd", "runtimes", name), "runtime_type"):
                    yield Finding("container-engine", "containerd", f"a runtime {name}", "none", _AGAIN)
        yield from self._active("containerd")

    def crio(self, _engine: Mapping[str, Any]) -> Iterator[Finding]:
        """Compare CRI-O's view of its files."""
        outcome = self.run(["crio", "config"], _SECONDS)
        value = value_of(outcome.stdout, ("crio", "runtime"), "cdi_spec_dirs")
        if outcome.code != 0 or "/var/run/cdi" not in value:
            yield Finding(
                "container-engine",
                "crio",
                "cdi_spec_dirs with /var/run/cdi",
                value or outcome.text or "nothing",
                _AGAIN,
            )
        yield from self._active("crio")

    def enroot(self, _engine: Mapping[str, Any]) -> Iterator[Finding]:
        """Check enroot, and whether the kernel allows users to create namespaces."""
        outcome = self.run(["enroot", "version"], _SECONDS)
        if outcome.code != 0:
            yield Finding("container-engine", "enroot", "works", outcome.text or "says nothing", _AGAIN)
        for name, allowed, wanted in _LIMITS:
            value = self._sysctl(name)
            # A kernel may lack some of them.
            if value is not None and value not in allowed:
                fix = "sysctl --system; check which later file in /etc/sysctl.d overrides bedplate's"
                yield Finding("sysctl", f"sysctl {name.replace('/', '.')}", wanted, str(value), fix)

    def pyxis(self, wanted: Mapping[str, Any]) -> Iterator[Finding]:
        """Check that srun has loaded pyxis and shows its options."""
        outcome = self.run(["srun", "--help"], _SECONDS)
        if "--container-image" in outcome.stdout:
            return
        said = next((line for line in outcome.stderr.splitlines() if "spank" in line or "plugin" in line), "")
        fix = (
            f"check that {wanted['plugin']} exists, that {wanted['entry']} names it, and that slurm.conf has "
            f"PlugStackConfig=/etc/slurm/plugstack.conf. srun -vvv --help shows what is loaded"
        )
        yield Finding("pyxis", "srun", "the option --container-image", said or "no such option", fix)

    def _active(self, name: str) -> Iterator[Finding]:
        state = self.run(["systemctl", "is-active", f"{name}.service"], _SECONDS).stdout.strip()
        if state != "active":
            yield Finding("unit", f"unit {name}.service", "active", state or "unknown", f"journalctl -b -u {name}")

    def _restart(self, name: str) -> str:
        return f"`systemctl restart {name}` when no container runs; if that does not help, {_AGAIN}"

    def _sysctl(self, name: str) -> int | None:
        try:
            return int((self.root / "proc/sys" / name).read_text())
        except (OSError, ValueError):
            return None
