# SPDX-License-Identifier: GPL-3.0-or-later
"""Return what bedplate expects of a machine: its profile, and the rules in the table of GPU software."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import nvswitches

from ..cluster import Node
from ..gpu_stack import driver_versions, stack_table
from ..gpu_stack.stack_model import NvSwitches, StackTable
from ..plain.host_cluster import FILE, HARDWARE, host_cluster
from ..tuning.numa_plan import plan_of
from .gpu_names import model_of

Found = Mapping[str, Any]
_PLACEHOLDER = re.compile(r"\{[^}]*\}")


def expected_of(variables: Mapping[str, Any], template: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the profile of a host as data; empty for a host without one. ValueError: mistakes in the cluster file or the variables."""
    if not variables.get(FILE) and variables.get(HARDWARE) is None:
        return {}
    cluster = host_cluster("node_tuning", variables, template)
    try:
        machine = cluster.machine(str(variables["inventory_hostname"]))
    except KeyError:
        return {}
    if not isinstance(machine, Node):
        return {}
    profile, stack = machine.profile, machine.profile.gpu_stack
    expected: dict[str, Any] = {"topology": plan_of(profile), "model": profile.gpus.model if profile.gpus else ""}
    expected["memory_mib"] = profile.memory_mib
    if stack:
        expected["gpu_stack"] = {
            key: getattr(stack, key) for key in ("os", "source", "driver", "module", "platform", "model", "kernel")
        }
    return expected


def package_patterns(table: StackTable | None = None) -> list[str]:
    """Return the names of all packages in the table, as patterns that dpkg and rpm match."""
    known = table or stack_table.default()
    names: set[str] = set(known.metapackages)
    for row in known.names:
        names.update(row.driver, row.coupled, row.support)
        for mapping in (row.kernel, row.fabric, row.sources, row.build):
            names.update(one for part in mapping.values() for one in part)
    for offer in known.cuda:
        names.update(one for version in offer.versions.values() for one in version)
    for extra in (known.dcgm, known.toolkit):
        names.update(extra.packages, extra.proprietary)
    names.update(one for part in known.nccl.packages.values() for one in part)
    for system in known.systems.values():
        names.update(system.kernel_follows, (name for name, _version in system.headers), system.kernel_pins)
    patterns = {_PLACEHOLDER.sub("*", name) for name in names}
    return sorted({*patterns, "dkms", "doca-ofed*", "mlnx-ofed-kernel*", "rdma-core"})


def table_findings(expected: Mapping[str, Any], found: Found, hardware: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield how a machine differs from the table of GPU software, and from its profile's GPU model."""
    table = stack_table.default()
    yield from _system(table, found.get("system") or {})
    gpu = found.get("gpu") or {}
    names = [one["name"] for one in hardware["gpus"]]
    models = list(dict.fromkeys(model_of(name) for name in names))
    for name in dict.fromkeys(names):
        if not model_of(name):
            what = f"{name or 'no name'}, PCI device {_devices(hardware, name)}"
            yield Finding("table-model", "GPU model", "a model of the table", what)
    wanted = str((expected.get("gpu_stack") or {}).get("model") or expected.get("model") or "").replace("_", "-")
    if wanted in table.models and models not in ([], [""], [wanted]):
        yield Finding("profile-model", "GPU model", wanted, ", ".join(model or "unknown" for model in models))
    yield from _driver(table, (gpu.get("driver") or {}).get("version"), [model for model in models if model])
    yield from _switches(table, models, hardware["gpus"], gpu.get("nvswitches") or ())


def _devices(hardware: Mapping[str, Any], name: str) -> str:
    return ", ".join(
        dict.fromkeys(f"{one['vendor']}:{one['device']}" for one in hardware["gpus"] if one["name"] == name)
    )


def _system(table: StackTable, system: Mapping[str, Any]) -> Iterator[Finding]:
    version = str(system.get("version_id", ""))
    major = version.partition(".")[0]
    family = {"debian": f"debian-{major}", "ubuntu": f"ubuntu-{version}"}
    name = family.get(str(system.get("id", "")), f"rocky-{major}" if _is_el(system) else "")
    if name not in table.systems:
        words = f"{system.get('id') or 'no ID'} {version or 'no VERSION_ID'}"
        yield Finding("table-system", "operating system", ", ".join(table.systems), words)


def _is_el(system: Mapping[str, Any]) -> bool:
    return system.get("id") in ("rocky", "almalinux", "rhel", "centos", "ol")


def _driver(table: StackTable, version: str | None, models: Iterable[str]) -> Iterator[Finding]:
    if not version:
        return
    known = {one.version for one in table.drivers}
    if version not in known:
        yield Finding("table-driver", "driver version", "a version of the table", version)
    for model in models:
        row = table.models[model]
        least = row.least or str(row.lowest)
        if driver_versions.numbers(version) < driver_versions.numbers(least):
            yield Finding("table-driver", f"lowest driver of {model}", least, version)
        if row.highest and driver_versions.numbers(version)[:1] > (row.highest,):
            yield Finding("table-driver", f"last driver branch of {model}", str(row.highest), version)


def _switches(
    table: StackTable, models: Sequence[str], gpus: Sequence[Mapping[str, Any]], seen: Sequence[Mapping[str, Any]]
) -> Iterator[Finding]:
    """Compare NVSwitches with the platform that the table gives to this number of the model."""
    rows = [table.models[model] for model in models if model]
    boards, hgx = {row.board for row in rows}, table.platforms["hgx"]
    if boards == {"hgx"} and len(gpus) >= hgx.least_gpus:
        wanted = table.switches_wanted("hgx", hgx.switches_of(rows[0].generation.name, len(gpus)))
    elif boards and "hgx" not in boards:
        wanted = table.switches_wanted(", ".join(sorted(boards)), NvSwitches(count=0))
    else:
        return
    for one in nvswitches.findings(wanted, gpus, seen):
        yield Finding("table-platform", "NVSwitches", one.expected, one.found)
