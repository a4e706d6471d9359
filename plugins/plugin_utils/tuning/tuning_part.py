# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide boot tokens, kernel settings and limits of a node: the values of roles/node_tuning/parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common import cpulists
from ansible_collections.bedplate.cluster.plugins.module_utils.common.cpulists import CpulistError
from ansible_collections.bedplate.cluster.plugins.module_utils.common.cpulists import parse as cpus_of
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.kernel.sysctl import dotted, partner
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot import token_lists
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_tokens import (
    CmdlineError,
    Token,
    parse,
)

from ..cluster import Cluster, Node, Profile
from ..common import role_interfaces
from ..parts.decision import Decision, Step
from . import kernel_settings, node_defaults
from .numa_plan import plan_of

# Its NICs are switches too, and NVIDIA wants no single value written to all of them; Grace keeps its own for the same reason.
_KEEP_ACS = ("b300",)
# Without patterns: which keys a pattern means differs from node to node, and none of them could be read back.
_KEY = re.compile(r"[a-z0-9_][A-Za-z0-9_-]*([./][A-Za-z0-9_-]+)+\Z")
_VALUE = re.compile(r"[^\s#;]\S*([ \t]+[^\s#;]\S*)*\Z")
_TUNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\Z")


class TuningError(ValueError):
    """Choices that cannot be; a line for each mistake."""


def decide(cluster: Cluster, host: str, choices: Mapping[str, Any]) -> Decision | None:
    """Return the decision for a host; None for a host outside the racks, or that is not managed.

    `choices` are the role's variables by what is behind `node_tuning_`. TuningError: what of them cannot be.
    """
    if problems := list(mistakes(choices)):
        raise TuningError("\n".join(problems))
    machine = cluster.machine(host)
    if not isinstance(machine, Node) or not choices["manage"]:
        return None
    profile = machine.profile
    if problems := [*profile_mistakes(profile, choices), *_unbootable(profile, choices)]:
        raise TuningError("\n".join(problems))
    choices = node_defaults.resolved(profile, choices)
    has_tokens = profile.boot != "none"
    tokens = kernel_settings.tokens(profile, choices) if has_tokens else []
    settings = _settings(cluster, profile, choices)
    values = {
        "settings": settings,
        "modules": choices["modules"],
        "limits": list(_limits(choices["limits"])),
        "pin_interrupts": [True] if "irqs" in settings else [],
        "keep_interrupts": [] if "irqs" in settings else [True],
        "stop_tuned": [True] if choices["tuned"] == "off" else [],
        "tuned_profiles": [] if choices["tuned"] in ("keep", "off") else [choices["tuned"]],
        "run_irqbalance": [True] if choices["irqs"] == "irqbalance" else [],
    }
    expected = {
        "settings": settings,
        "tokens": tokens,
        "boot": profile.boot,
        "tuned": choices["tuned"],
        "isolated": choices["isolated_cpus"],
        "passthrough": has_tokens and choices["iommu"] == "passthrough",
        "limits": {name: str(value) for name, value in choices["limits"].items()},
        "modules": list(choices["modules"]),
        "numa": plan_of(profile),
    }
    pages = {"machine": host, **{key: settings[key] for key in ("pages", "pending", "reserve_mib", "pages_at")}}
    steps = {"huge_pages": [Step("bedplate.cluster.huge_pages", pages)]} if settings["pages"] else {}
    steps |= _boot_steps(profile.boot, tokens)
    return Decision({"node_tuning": values}, {"node_tuning": expected}, steps)


def _boot_steps(boot: str, tokens: list[str]) -> dict[str, list[Step]]:
    """Return the steps for the kernel command line: a check before any file is written, and the change."""
    if boot == "none":
        return {}
    own: dict[str, Any] = {"tokens": tokens, "boot": boot}
    steps: dict[str, dict[str, Any]] = {
        "kernel_cmdline_check": {**own, "probe": True},
        "kernel_cmdline": {**own, "note": "node_tuning"},
    }
    return {
        name: [Step("bedplate.cluster.kernel_cmdline", arguments, phases=["files"])]
        for name, arguments in steps.items()
    }


def _unbootable(profile: Profile, choices: Mapping[str, Any]) -> Iterator[str]:
    """Yield variables that need tokens, for a profile whose nodes get none."""
    needs = {
        "isolated_cpus": bool(choices["isolated_cpus"]),
        "init_on_alloc": choices["init_on_alloc"] is False,
        "cmdline": bool(choices["cmdline"]),
    }
    for name in (name for name, is_set in needs.items() if profile.boot == "none" and is_set):
        yield (
            f"node_tuning_{name}: {choices[name]!r} needs the kernel command line, and profiles.{profile.name}.boot says `none`; allowed: "
            "boot: loader, boot: network, or the variable's default"
        )


def profile_mistakes(profile: Profile, choices: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a variable of the role names that the nodes of a profile do not have. A text that `mistakes` refuses yields nothing."""
    try:
        isolated = set(cpus_of(choices["isolated_cpus"]))
    except CpulistError:
        return
    own = set(range(profile.cpus))
    where = f"node_tuning_isolated_cpus: {choices['isolated_cpus']!r}"
    has = f"profiles.{profile.name} has CPUs {cpulists.fold(own)}: sockets * cores_per_socket * threads_per_core"
    if outside := isolated - own:
        yield f"{where} has CPUs {cpulists.fold(outside)}, and {has}; allowed: CPUs of the profile, but not all of them"
    elif isolated == own:
        yield f"{where} leaves the scheduler no CPU, because {has}; allowed: CPUs of the profile, but not all of them"


def mistakes(choices: Mapping[str, Any]) -> Iterator[str]:
    """Yield everything that is wrong with the role's variables."""
    # Ansible checks them too, but for a value that is a template, which only the hosts themselves have.
    for name, allowed in role_interfaces.choices("node_tuning").items():
        if choices[name] not in allowed:
            yield f"node_tuning_{name}: {choices[name]!r}; allowed: {', '.join(map(repr, allowed))}"
    try:
        cpus_of(choices["isolated_cpus"])
    except CpulistError as error:
        yield f"node_tuning_isolated_cpus: {error}; allowed: a list such as 2-15,34-47"
    try:
        own = parse(choices["cmdline"])
    except CmdlineError as error:
        own = []
        yield from (f"node_tuning_cmdline: {problem}" for problem in error.problems)
    for token in own:
        if token.family == "hugepages":
            yield f"node_tuning_cmdline: {token} would add to the pages of the profile; set `hugepages` of the profile instead"
    yield from _contradictions(own)
    for token, name in kernel_settings.own_conflicts(choices, own):
        left = {"iommu": "keep", "init_on_alloc": True}.get(name, "")
        yield (
            f"node_tuning_cmdline: {token} is beside node_tuning_{name}, {choices[name]!r}, which sets this key; allowed: one of both, so "
            f"remove the token, or set node_tuning_{name} to {left!r}"
        )
    yield from _sysctl_mistakes(choices["sysctl"])
    # Empty is keep: 0.1.0 had null for it, which Ansible makes an empty text of.
    if not re.fullmatch(r"auto|keep|None|[0-9]*", str(choices["idle_us"])):
        yield f"node_tuning_idle_us: {choices['idle_us']!r}; allowed: auto, keep, or whole microseconds from 0"
    # Without quotes YAML reads off as false, which Ansible writes as False.
    if not _TUNED.match(str(choices["tuned"])) or str(choices["tuned"]) in ("False", "True", "None"):
        yield f"node_tuning_tuned: {choices['tuned']!r}; allowed: keep, off (in quotes), or the name of one profile"
    for name in choices["modules"]:
        if not _MODULE.match(str(name)):
            yield f"node_tuning_modules: {name!r} is not the name of a kernel module; allowed: such as nvidia_peermem"
    for name, limit in choices["limits"].items():
        if name not in ("memlock", "nofile"):
            yield f"node_tuning_limits: {name!r}; allowed: memlock, nofile"
        elif not str(limit).isdecimal() and (name, limit) != ("memlock", "unlimited"):
            words = "unlimited, or a number of KiB" if name == "memlock" else "a number"
            yield f"node_tuning_limits: {name}: {limit!r}; allowed: {words}"


def _contradictions(own: Sequence[Token]) -> Iterator[str]:
    """Yield options of one key with a list that exclude each other: pci=nocrs and pci=use_crs."""
    by_family: dict[str, list[str]] = {}
    for token in own:
        if token.key in token_lists.KEYS and str(token) not in by_family.setdefault(token.family, []):
            by_family[token.family].append(str(token))
    for together in by_family.values():
        if len(together) > 1:
            yield f"node_tuning_cmdline: {' and '.join(together)} exclude each other; allowed: one of them"


def _sysctl_mistakes(wishes: Mapping[Any, Any]) -> Iterator[str]:
    """Yield keys and values that a line of sysctl.d cannot have, and pairs of keys that exclude each other."""
    where = "node_tuning_sysctl"
    for key, value in wishes.items():
        if not isinstance(key, str) or not _KEY.match(key):
            yield f"{where}: {key!r} is not a key; allowed: the whole name of one key, such as vm.swappiness, without patterns"
        elif dotted(key).startswith("vm.nr_hugepages"):
            yield f"{where}: {key} would change the pages of each NUMA node; set `hugepages` of the profile instead"
        elif not (value is None or _is_number(value) or (isinstance(value, str) and _VALUE.match(value))):
            yield (
                f"{where}: {key}: {value!r}; allowed: a number, a word or several with blanks between them, in one line and without a "
                "comment; or null to leave the key alone"
            )
    # sysctl.d takes vm/dirty_bytes for vm.dirty_bytes, so both forms are compared.
    written = {dotted(key): key for key, value in wishes.items() if isinstance(key, str) and value is not None}
    for name, key in written.items():
        other = partner(name)
        if other in written and name < other:
            yield (
                f"{where}: {key} and {written[other]} are one setting: the kernel sets one to 0 when the other is written. "
                "Remove one"
            )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _settings(cluster: Cluster, profile: Profile, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for bedplate-tuning. `choices` are resolved by `node_defaults`."""
    model = profile.gpus.model if profile.gpus else ""
    found: dict[str, Any] = {
        "sysctl": kernel_settings.sysctl(cluster, profile, choices["sysctl"]),
        "pages": kernel_settings.pages(profile),
        "pending": kernel_settings.page_tokens(profile),
        "reserve_mib": profile.reserved_memory_mib,
        "pages_at": choices["hugepages"],
        "writes": list(kernel_settings.writes(choices)),
        "acs_off": choices["acs"] == "off"
        or (choices["acs"] == "auto" and bool(model) and model not in _KEEP_ACS and not node_defaults.is_arm(profile)),
        "read_request": choices["read_request"],
        "relaxed_ordering": choices["relaxed_ordering"],
        "bridge_power": bool(choices["bridge_power"]),
    }
    # What tuned undoes when it stops or gets another profile is set again: a change of this file restarts the unit.
    if choices["tuned"] != "keep":
        found["tuned"] = choices["tuned"]
    if choices["idle_us"] is not None:
        found["idle_us"] = choices["idle_us"]
    if _pins_interrupts(profile, choices["irqs"]):
        nics = [{"name": nic.name, "pci": nic.pci} for nic in profile.nics]
        found["irqs"] = {"cores": list(profile.kept_cores), "nics": nics}
    return found


def _pins_interrupts(profile: Profile, choice: str) -> bool:
    """Return whether interrupts of a profile's NICs get CPUs; without NICs there is nothing to move, and irqbalance stays."""
    return bool(profile.nics) and (choice == "numa" or (choice == "auto" and bool(profile.system_cores)))


def _limits(wanted: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield name and value of limits, with the value as systemd writes it: there memlock is in bytes."""
    for name, value in wanted.items():
        number = "infinity" if value == "unlimited" else str(int(value) * (1024 if name == "memlock" else 1))
        yield {"name": name, "value": str(value), "systemd": number}
