# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role node_tuning brings to a node: tokens for its boot loader, files, and the unit that sets what a boot forgets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.cpulists import CpulistError
from ansible_collections.bedplate.cluster.plugins.module_utils.common.cpulists import parse as cpus_of
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.kernel import sysctl
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning import limits
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_tokens import CmdlineError, parse

from ..cluster import Cluster, Node, Profile
from ..common import role_interfaces, shipped
from ..common.deploy_arguments import arguments
from . import kernel_settings
from .numa_plan import plan_of

UNIT = "bedplate-tuning.service"
SETTINGS = "/etc/bedplate/tuning.json"
DROP_IN = "/etc/systemd/system/slurmd.service.d/60-bedplate-limits.conf"
_UNIT_FILE = f"/etc/systemd/system/{UNIT}"
_ABOUT = "# Written by bedplate (role node_tuning). Changes made here are overwritten.\n"
# Its NICs are switches too, and NVIDIA wants no single value written to all of them; Grace keeps its own for the same reason.
_KEEP_ACS = ("b300",)
_KEY = re.compile(r"[a-z0-9_][A-Za-z0-9_.*/-]*\.[A-Za-z0-9_.*/-]+\Z")
_UNIT = """\
[Unit]
Description=Huge pages, kernel settings, PCI Express and interrupts of this node, as the cluster file has them
DefaultDependencies=no
Wants=systemd-udev-settle.service
After=systemd-modules-load.service systemd-sysctl.service systemd-udev-settle.service tuned.service local-fs.target
# No job and no container runs before that: pages are taken then.
Before=slurmd.service containerd.service docker.service crio.service podman-restart.service shutdown.target
Conflicts=shutdown.target
# A container's kernel is another machine's.
ConditionVirtualization=!container

[Service]
Type=oneshot
RemainAfterExit=yes
Environment=PYTHONPATH={library} PYTHONDONTWRITEBYTECODE=1
{modules}ExecStart={command} {settings}
TimeoutStartSec=300

[Install]
WantedBy=multi-user.target
"""


class TuningError(ValueError):
    """Choices that cannot be; a line for each mistake."""


def deployment(cluster: Cluster, host: str, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to bring to a host, {} to one that is no node of a rack, and where nothing is to be managed.

    `choices` are the role's variables by what is behind `node_tuning_`. TuningError: what of them cannot be.
    """
    if problems := list(mistakes(choices)):
        raise TuningError("\n".join(problems))
    machine = cluster.machine(host)
    if not isinstance(machine, Node) or not choices["manage"]:
        return {}
    profile = machine.profile
    tokens = kernel_settings.tokens(profile, choices)
    settings = _settings(cluster, profile, choices)
    library = shipped.files("tuning.apply_tuning")
    files = [*_files(settings, choices), *shipped.entries("tuning.apply_tuning")]
    units = _units(choices, [path for path, _text in library])
    return {
        "tokens": tokens,
        "huge_pages": {
            "machine": host,
            **{key: settings[key] for key in ("pages", "pending", "reserve_mib", "pages_at")},
        },
        "files": files,
        "units": units,
        "deploy": arguments({"files": files, "units": units}, "node_tuning"),
        "expected": {
            "settings": settings,
            "tokens": tokens,
            "isolated": choices["isolated_cpus"],
            "passthrough": choices["iommu"] == "passthrough",
            "limits": {name: str(value) for name, value in choices["limits"].items()},
            "modules": list(choices["modules"]),
            "numa": plan_of(profile),
        },
    }


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
            yield f"node_tuning_cmdline: {token} would add to the pages of the profile; its `hugepages` say them"
    for key in choices["sysctl"]:
        if not _KEY.match(str(key)):
            yield f"node_tuning_sysctl: {key!r} is no key; allowed: such as vm.swappiness, with a value, or null to leave it alone"
        elif key.startswith("vm.nr_hugepages"):
            yield f"node_tuning_sysctl: {key} would undo what each NUMA node has; the profile's `hugepages` say it"
    for name, limit in choices["limits"].items():
        if name not in ("memlock", "nofile"):
            yield f"node_tuning_limits: {name!r}; allowed: memlock, nofile"
        elif not str(limit).isdecimal() and (name, limit) != ("memlock", "unlimited"):
            words = "unlimited, or a number of KiB" if name == "memlock" else "a number"
            yield f"node_tuning_limits: {name}: {limit!r}; allowed: {words}"


def _settings(cluster: Cluster, profile: Profile, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return what bedplate-tuning is told."""
    model = profile.gpus.model if profile.gpus else ""
    found: dict[str, Any] = {
        "sysctl": kernel_settings.sysctl(cluster, choices["sysctl"]),
        "pages": kernel_settings.pages(profile),
        "pending": kernel_settings.page_tokens(profile),
        "reserve_mib": profile.reserved_memory_mib,
        "pages_at": choices["hugepages"],
        "writes": list(kernel_settings.writes(choices)),
        "acs_off": choices["acs"] == "off"
        or (
            choices["acs"] == "auto" and bool(model) and model not in _KEEP_ACS and not kernel_settings.is_arm(profile)
        ),
        "read_request": choices["read_request"],
    }
    if choices["idle_us"] is not None:
        found["idle_us"] = int(choices["idle_us"])
    if choices["irqs"] == "numa":
        found["irqs"] = {"cores": list(profile.kept_cores), "nics": [nic.name for nic in profile.nics]}
    return found


def _files(settings: Mapping[str, Any], choices: Mapping[str, Any]) -> list[dict[str, str]]:
    modules = " ".join(choices["modules"])
    unit = _UNIT.format(
        library=shipped.library("tuning.apply_tuning"),
        # What is not there is told by verify, with the reason.
        modules=f"ExecStartPre=-/sbin/modprobe --all {modules}\n" if modules else "",
        command=shipped.command("tuning.apply_tuning"),
        settings=SETTINGS,
    )
    # PAM's star is everybody but root.
    lines = [
        f"{domain} {kind} {item} {value}\n"
        for item, value in choices["limits"].items()
        for domain in ("*", "root")
        for kind in ("soft", "hard")
    ]
    return [
        {"path": SETTINGS, "content": json.dumps(settings, indent=1) + "\n"},
        {"path": _UNIT_FILE, "content": unit},
        {"path": f"/{sysctl.FILE}", "content": _ABOUT + _lines(settings["sysctl"])},
        {"path": f"/{limits.FILE}", "content": _ABOUT + "".join(lines)},
        {"path": DROP_IN, "content": f"{_ABOUT}[Service]\n{_of_service(choices['limits'])}"},
    ]


def _lines(values: Mapping[str, str]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in values.items())


def _of_service(wanted: Mapping[str, Any]) -> str:
    """Return the limits as systemd writes them, where memlock is in bytes."""
    found = ""
    for item, value in wanted.items():
        number = "infinity" if value == "unlimited" else str(int(value) * (1024 if item == "memlock" else 1))
        found += f"Limit{item.upper()}={number}\n"
    return found


def _units(choices: Mapping[str, Any], library: list[str]) -> list[dict[str, Any]]:
    units: list[dict[str, Any]] = [
        {
            "name": UNIT,
            "enabled": True,
            "state": "started",
            "condition": "allowed",
            "restart_after": [SETTINGS, _UNIT_FILE, *library],
        }
    ]
    if choices["irqs"] == "numa":
        # It would move the interrupts back within seconds.
        units.append({"name": "irqbalance.service", "masked": True, "state": "stopped"})
    elif choices["irqs"] == "irqbalance":
        units.append({"name": "irqbalance.service", "masked": False, "enabled": True, "state": "started"})
    return units
