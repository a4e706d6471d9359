# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the container toolkit, engines, enroot and pyxis of a machine: the values of roles/container_runtime/parts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from ...parts.decision import Decision, Step
from . import container_archives
from .container_archives import Archives
from .part_plan import GpuSoftware, expected, packages

PART = "toolkit"
CDI_SPEC = "/var/run/cdi/nvidia.yaml"
CDI_UNIT = "bedplate-cdi.service"
ENGINES = ("podman", "docker", "containerd", "crio", "enroot")
CRIO = "/etc/crio/crio.conf.d/60-bedplate-cdi.conf"
_RUNTIME = "/etc/nvidia-container-runtime/config.toml"
_CRI = "io.containerd.grpc.v1.cri"


class ContainerError(ValueError):
    """Choices that cannot be; a line for each mistake."""


@cache
def _table() -> dict[str, Any]:
    text = Path(__file__).with_name("container_engines.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@dataclass(frozen=True)
class PyxisHeaders:
    """Packages that compile pyxis, with the package manager of Slurm's hosts.

    `follow`: Slurm's packages, whose version the headers have, as bedplate.cluster.deploy takes them.
    """

    packages: Sequence[str] = ()
    follow: Sequence[str] = ()
    manager: str = "apt"


def decide(
    wanted: GpuSoftware | None, choices: Mapping[str, Any], headers: PyxisHeaders, reported: Mapping[str, Any]
) -> Decision:
    """Return the decision for a machine.

    `wanted` is None where the file wants no GPU software, as on a login node: there is only pyxis then. `choices` are the role's
    variables by what is behind `container_runtime_`.
    `reported`: what bedplate.cluster.container_pyxis returned, before pyxis is named to Slurm. ContainerError: choices that cannot be.
    """
    system = wanted.file.os if wanted and wanted.file.toolkit else ""
    problems = [*_mistakes(system, choices), *container_archives.mistakes(choices)]
    if problems:
        raise ContainerError("\n".join(problems))
    archives = container_archives.decided(choices)
    manager = wanted.manager if wanted else headers.manager
    pyxis = _pyxis(archives, choices, replace(headers, manager=manager), reported)
    if wanted and wanted.file.toolkit:
        return _with_toolkit(wanted, choices, archives, pyxis)
    # Of a machine without GPU software the file says no system, and nothing of a toolkit either.
    return replace(pyxis, parts={**pyxis.parts, "container_runtime_absent": {"manager": manager}}) if wanted else pyxis


def _with_toolkit(wanted: GpuSoftware, choices: Mapping[str, Any], archives: Archives, pyxis: Decision) -> Decision:
    names = list(choices["engines"])
    rows = {name: _row(wanted.file.os, name) for name in names}
    found = packages(wanted, PART)
    parts = dict(pyxis.parts)
    parts["container_runtime"] = {
        **wanted.sources(PART),
        "manager": found["manager"],
        "obstacle": found["obstacle"],
        "foreign_sources": found["foreign_sources"],
        "packages": [*found["packages"], *_packages(rows, choices)],
        "hold": found["hold"],
    }
    if archives.wants_enroot:
        parts["enroot"] = {"namespaces": int(choices["namespaces"]), "settings": dict(choices["enroot_settings"])}
    daemons = [name for name in names if name not in ("podman", "enroot")]
    units = [{"name": f"{name}.service", "enabled": True, "state": "started"} for name in daemons]
    steps: dict[str, list[Step]] = {}
    if daemons:
        steps["settings"] = [
            Step(
                "bedplate.cluster.container_settings", {"settings": list(_settings(rows))}, phases=["files", "services"]
            )
        ]
        steps["daemons"] = [Step("bedplate.cluster.units", {"units": units}, phases=["services"])]
    if archives.wants_enroot:
        steps["namespaces"] = [_namespaces()]
        steps["archives"] = [_archive(one) for one in archives.enroot]
    if archives.enroot:
        debs = [{"path": one["path"], "sha256": one["sha256"]} for one in archives.enroot]
        steps["debs"] = [Step("bedplate.cluster.container_debs", {"archives": debs}, phases=["packages"])]
    compared = {
        "container_toolkit": expected(wanted, PART, "container_runtime", [CDI_UNIT]),
        "containers": _compared(rows, archives),
    }
    return Decision(parts, compared, {**steps, **pyxis.steps})


def _pyxis(
    archives: Archives, choices: Mapping[str, Any], headers: PyxisHeaders, reported: Mapping[str, Any]
) -> Decision:
    """Return the parts and steps of pyxis; `reported` is the result of the task that ran the step pyxis_build."""
    if not archives.pyxis:
        return Decision()
    (archive,) = archives.pyxis
    built = (reported.get("steps") or {}).get("pyxis_build", {})
    parts: dict[str, Mapping[str, Any]] = {
        "pyxis_build": {
            "manager": headers.manager,
            "packages": list(headers.packages),
            "follow": list(headers.follow),
        },
        "pyxis": {
            "plugin": archives.plugin,
            # On a login node slurmd does not run.
            "slurmd": [True] if built.get("slurmd") else [],
            "touched": [archives.plugin] if built.get("changed") else [],
        },
    }
    build = {"archive": archive["path"], "sha256": archive["sha256"], "prefix": choices["pyxis_prefix"]}
    steps = {"pyxis_archive": [_archive(archive)], "pyxis_build": [Step("bedplate.cluster.container_pyxis", build)]}
    return Decision(parts, {}, steps)


def _archive(archive: Mapping[str, Any]) -> Step:
    """Return the step that puts an archive on the machine.

    It stays there, so that the machine needs neither the control node nor the network to see that nothing changed.
    """
    if archive["url"]:
        told = {"path": archive["path"], "url": archive["source"], "sha256": archive["sha256"]}
        return Step("bedplate.cluster.container_archive", told)
    copied = {"src": archive["source"], "dest": archive["path"], "mode": "0644"}
    # The text of an archive is no diff that somebody reads.
    return Step("ansible.builtin.copy", copied, hide_diff=True)


def _namespaces() -> Step:
    """Return the step that applies the limits of namespaces to the running kernel.

    procps' own sysctl fails for a name that this kernel does not have, also where a dash before it allows that.
    """
    program = "/usr/lib/systemd/systemd-sysctl"
    command = {"argv": [program, container_archives.NAMESPACES], "removes": program}
    return Step("ansible.builtin.command", command, after_change=container_archives.NAMESPACES)


def _mistakes(system: str, choices: Mapping[str, Any]) -> Iterator[str]:
    named = choices["packages"]
    for name in choices["engines"]:
        if name not in ENGINES:
            yield f"container_runtime_engines: {name!r}; allowed: {', '.join(ENGINES)}"
        elif system and name != "enroot" and name not in _systems(system) and not named.get(name):
            there = ", ".join([*_systems(system), "enroot"])
            yield (
                f"container_runtime_engines: {name} is in no repository of {system} that bedplate knows; allowed: {there}. Or name "
                f"its packages, from a repository that the machine has: container_runtime_packages: {{{name}: [...]}}"
            )
    doubled = sorted({name for name in choices["engines"] if list(choices["engines"]).count(name) > 1})
    yield from (f"container_runtime_engines: {name} is named more than once" for name in doubled)
    for name in named:
        if name not in ENGINES:
            yield f"container_runtime_packages: {name!r} is not an engine; allowed: {', '.join(ENGINES)}"


def _systems(system: str) -> dict[str, Any]:
    found: dict[str, Any] = _table()["systems"].get(system, {})
    return found


def _row(system: str, name: str) -> dict[str, Any]:
    # Packages that somebody names are of a release that nobody here knows: a recent one, most likely.
    row: dict[str, Any] = _systems(system).get(name) or {"packages": [], "cdi": True, **_table().get(name, {})}
    return row


def _packages(rows: Mapping[str, Mapping[str, Any]], choices: Mapping[str, Any]) -> list[str]:
    found = [one for name, row in rows.items() for one in choices["packages"].get(name) or row["packages"]]
    return list(dict.fromkeys(found))


def _settings(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the settings for bedplate.cluster.container_settings."""
    if "docker" in rows:
        row = rows["docker"]
        runtime = {"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime", "runtimeArgs": []}}}
        yield {
            "path": "/etc/docker/daemon.json",
            "format": "json",
            "values": {"features": {"cdi": True}} if row["cdi"] else runtime,
            "validate": ["dockerd", "--validate", "--config-file", "%s"] if row.get("validate") else [],
            "unit": "docker.service",
            "engine": "docker",
        }
    if "containerd" in rows:
        yield {
            "path": "/etc/containerd/config.toml",
            "format": "toml",
            "values": {"plugins": {_CRI: {"enable_cdi": True} if rows["containerd"]["cdi"] else _runtimes()}},
            "validate": ["containerd", "--config", "%s", "config", "dump"],
            "unit": "containerd.service",
            "engine": "containerd",
        }
    if any(not row["cdi"] for row in rows.values()):
        # Not the way by a hook that opens devices behind the engine's back: a daemon-reload closes them again.
        yield {"path": _RUNTIME, "format": "toml", "values": {"nvidia-container-runtime": {"mode": "cdi"}}}
    if "crio" in rows:
        yield {
            "path": CRIO,
            "format": "toml",
            "values": {"crio": {"runtime": {"cdi_spec_dirs": ["/etc/cdi", "/var/run/cdi"]}}},
            "unit": "crio.service",
            "engine": "crio",
        }


def _runtimes() -> dict[str, Any]:
    # containerd forgets its own runc as soon as a file names any runtime.
    runc = {"runtime_type": "io.containerd.runc.v2"}
    nvidia = {**runc, "options": {"BinaryName": "/usr/bin/nvidia-container-runtime"}}
    return {"containerd": {"runtimes": {"runc": runc, "nvidia": nvidia}}}


def _compared(rows: Mapping[str, Mapping[str, Any]], archives: Archives) -> dict[str, Any]:
    """Return what bedplate.cluster.node_state compares."""
    pyxis = {"plugin": archives.plugin, "entry": container_archives.PLUGSTACK} if archives.pyxis else {}
    engines = [{"name": name, "cdi": row["cdi"], "plugin": _CRI} for name, row in rows.items()]
    return {"spec": CDI_SPEC, "engines": engines, "pyxis": pyxis}
