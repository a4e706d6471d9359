# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role container_runtime brings to a machine: the toolkit of the set, engines that read CDI, enroot and pyxis."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ...common.deploy_arguments import arguments
from . import cdi_unit, container_archives
from .part_plan import GpuSoftware, deploy, expected

PART = "toolkit"
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


def deployment(wanted: GpuSoftware | None, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to bring to a machine, `deploy` as one task takes it.

    `wanted` is None where the file wants no GPU software, as on a login node: there is only pyxis then. `choices` are the
    role's variables by what is behind `container_runtime_`. ContainerError: what of it cannot be.
    """
    told = _told(wanted, choices)
    # An engine is to find its settings.
    return {**told, "deploy": arguments(told, "container_runtime", start_installed=False)}


def _told(wanted: GpuSoftware | None, choices: Mapping[str, Any]) -> dict[str, Any]:
    system = wanted.file.os if wanted and wanted.file.toolkit else ""
    problems = [*_mistakes(system, choices), *container_archives.mistakes(choices)]
    if problems:
        raise ContainerError("\n".join(problems))
    sources = container_archives.sources(choices)
    if not wanted or not wanted.file.toolkit:
        # Of a machine without GPU software the file says no system, and nothing of a toolkit either.
        return {
            **sources,
            "state": "absent" if wanted else "",
            "manager": wanted.manager if wanted else "apt",
            **{key: [] for key in ("sources", "packages", "hold", "files")},
            "units": cdi_unit.units_away(),
            "expected": {},
            "more": False,
            "asked": _asked({}, sources, ""),
        }
    names = list(choices["engines"])
    rows = {name: _row(system, name) for name in names}
    toolkit = deploy(wanted, PART)
    daemons = [
        {"name": f"{name}.service", "enabled": True, "state": "started"}
        for name in names
        if name not in ("podman", "enroot")
    ]
    return {
        **sources,
        "state": "present",
        "manager": toolkit["manager"],
        "sources": wanted.sources(PART),
        "packages": [*toolkit["packages"], *_packages(rows, choices)],
        "hold": toolkit["hold"],
        "files": cdi_unit.files(),
        "units": cdi_unit.units(),
        "settings": list(_settings(rows)),
        "daemons": daemons,
        # Whether there is more than packages, files and units.
        "more": bool(daemons or sources["enroot"]),
        "expected": expected(wanted, PART, "container_runtime", [cdi_unit.UNIT]),
        "asked": _asked(rows, sources, cdi_unit.SPEC),
    }


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
            yield f"container_runtime_packages: {name!r} is no engine; allowed: {', '.join(ENGINES)}"


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
    """Yield what bedplate.cluster.container_settings is told."""
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


def _asked(rows: Mapping[str, Mapping[str, Any]], sources: Mapping[str, Any], spec: str) -> dict[str, Any]:
    """Return what bedplate.cluster.node_state compares."""
    pyxis = {key: sources["pyxis"][key] for key in ("plugin", "entry")} if sources["pyxis"] else {}
    engines = [{"name": name, "cdi": row["cdi"], "plugin": _CRI} for name, row in rows.items()]
    return {"spec": spec, "engines": engines, "pyxis": pyxis}
