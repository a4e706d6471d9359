# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of a node's kernel: at boot on its command line, later by sysctl and by files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.kernel.sysctl import dotted, partner
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_tokens import Token

from ..cluster import Cluster, Profile
from .node_defaults import is_arm

_SIZES = ("1G", "2M")
# Its first kernel, 5.15, reads `hugepages=0:16` as 0: Linux has pages of a NUMA node on the command line since 5.16.
_WITHOUT_NODES = "ubuntu-22.04"
_THP = "/sys/kernel/mm/transparent_hugepage"
_GOVERNOR = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("sysctl.json").read_text(encoding="utf-8"))
    return found


def default_sysctl() -> dict[str, str]:
    """Return key -> value of what every node gets where no variable says otherwise."""
    return {row["key"]: row["value"] for row in _table()["settings"]}


def sysctl(cluster: Cluster, profile: Profile, wishes: Mapping[str, Any]) -> dict[str, str]:
    """Return key -> value of the kernel's settings: bedplate's, overridden by the site's; null leaves a key alone.

    A key of the site also takes the place of its partner, which the kernel sets to 0.
    """
    own = {dotted(key): value if value is None else str(value) for key, value in wishes.items()}
    values = {
        key: value
        for key, value in {**default_sysctl(), **_shares(profile), **_neighbours(cluster)}.items()
        if partner(key) not in own
    }
    return {key: value for key, value in {**values, **own}.items() if value is not None}


def _shares(profile: Profile) -> dict[str, str]:
    """Return the settings that are a part of a node's memory. The kernel keeps its own value where the part is smaller than `least_mib`."""
    architecture = "arm64" if is_arm(profile) else "x86_64"
    found = {}
    for row in _table()["shares"]["settings"]:
        share = min(int(profile.memory_mib * row["percent"] / 100), row["most_mib"])
        if share >= row.get("least_mib", 0) and row.get("architecture", architecture) == architecture:
            found[row["key"]] = str(share << (10 if row["unit"] == "KiB" else 20))
    return found


def _neighbours(cluster: Cluster) -> dict[str, str]:
    """Return the thresholds of the neighbour table, which has an entry for each machine on each rail and on management."""
    table = _table()["neighbours"]
    rails = max((sum(nic.rail is not None for nic in profile.nics) for profile in cluster.profiles.values()), default=0)
    most = max(table["least"], table["factor"] * (len(cluster.nodes) + len(cluster.hosts)) * (rails + 1))
    return {row["key"]: str(most // row["divisor"]) for row in table["settings"]}


def pages(profile: Profile) -> list[dict[str, Any]]:
    """Return the huge pages of each NUMA node, as bedplate-tuning takes them; 0 where other nodes of the profile have some."""
    return [
        {"node": node, "size": size, "count": counts[node]}
        for size, counts in ((size, profile.node_pages(size)) for size in _SIZES)
        if any(counts)
        for node in range(len(counts))
    ]


def page_tokens(profile: Profile) -> list[str]:
    """Return the tokens that have the kernel take the pages before anything else has the memory."""
    counts = {size: profile.node_pages(size) for size in _SIZES}
    wanted = {size: each for size, each in counts.items() if any(each)}
    # With one size it is also that of /dev/hugepages; with two, the kernel's own choice stays.
    tokens = [f"default_hugepagesz={size}" for size in wanted if len(wanted) == 1]
    if profile.gpu_stack and profile.gpu_stack.os == _WITHOUT_NODES and not is_arm(profile):
        # The kernel splits a total evenly. Uneven pages are taken by bedplate-tuning alone, at every boot.
        even = {size: each for size, each in wanted.items() if len(set(each)) == 1}
        if even != wanted:
            return []
        return [
            *tokens,
            *(token for size, each in even.items() for token in (f"hugepagesz={size}", f"hugepages={sum(each)}")),
        ]
    for size, each in wanted.items():
        by_node = ",".join(f"{node}:{count}" for node, count in enumerate(each) if count)
        tokens += [f"hugepagesz={size}", f"hugepages={by_node}"]
    return tokens


def tokens(profile: Profile, choices: Mapping[str, Any]) -> list[str]:
    """Return the tokens of the kernel's command line, in their order. `choices` are resolved by `node_defaults`."""
    found = []
    if choices["iommu"] == "passthrough":
        found.append("iommu.passthrough=1" if is_arm(profile) else "iommu=pt")
    if choices["intel_iommu"]:
        found.append("intel_iommu=on")
    found += page_tokens(profile)
    if choices["thp"]:
        found.append(f"transparent_hugepage={choices['thp']}")
    if not choices["init_on_alloc"]:
        found.append("init_on_alloc=0")
    if cpus := choices["isolated_cpus"]:
        found += [f"isolcpus=managed_irq,domain,{cpus}", f"nohz_full={cpus}", f"rcu_nocbs={cpus}"]
    return [*found, *choices["cmdline"]]


def own_conflicts(choices: Mapping[str, Any], own: Iterable[Token]) -> Iterator[tuple[Token, str]]:
    """Yield the site's tokens whose key a variable of the role sets, too, with the variable: both would be on the command line."""
    variables = {
        "iommu": ("iommu", "iommu.passthrough") if choices["iommu"] != "keep" else (),
        "thp": ("transparent_hugepage",) if choices["thp"] else (),
        "init_on_alloc": ("init_on_alloc",) if choices["init_on_alloc"] is False else (),
        "isolated_cpus": ("isolcpus", "nohz_full", "rcu_nocbs") if choices["isolated_cpus"] else (),
    }
    for token in own:
        yield from ((token, name) for name, families in variables.items() if token.family in families)


def writes(choices: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what is written to files of the kernel at every boot."""
    if choices["thp"]:
        yield {"path": f"{_THP}/enabled", "value": choices["thp"]}
    if choices["thp_defrag"]:
        yield {"path": f"{_THP}/defrag", "value": choices["thp_defrag"]}
    if choices["governor"]:
        # A virtual machine has none, and some firmware keeps it to itself.
        yield {"path": _GOVERNOR, "value": choices["governor"], "optional": True}
