# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role gpu_driver brings to a node: the stack that the resolver found, as packages, files and units."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.stack import Stack
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, GpuStack, Node
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.gpu_stack import stack_of

PREFERENCES = "/etc/apt/preferences.d/bedplate-gpu-driver.pref"
BLACKLIST = "/etc/modprobe.d/bedplate-gpu-driver.conf"
MODULES = "/etc/modules-load.d/bedplate-gpu-driver.conf"
# In memory: a reboot is what takes it away.
REBOOT = "/run/bedplate/reboot-wanted/gpu_driver"
_CODENAMES = {"debian-12": "bookworm", "debian-13": "trixie"}
_PERSISTENCED = "nvidia-persistenced.service"


def deployment(cluster: Cluster, host: str, mirror: str) -> dict[str, Any]:
    """Return what to bring to a host; an empty mapping for one without GPUs, or where the file wants no stack.

    `mirror` is the address above Debian's `debian` and `debian-security`.
    """
    machine = cluster.machine(host)
    wanted = cluster.gpu_stack
    if wanted is None or not isinstance(machine, Node) or not machine.profile.gpus:
        return {}
    stack = stack_of(wanted, machine.profile)
    return {
        "driver": stack.driver,
        "module": stack.module,
        "repositories": repositories(wanted, mirror),
        "build": _build(wanted, stack),
        "proof": _proof(wanted, stack),
        "packages": [f"{package.name}={package.version}" for package in stack.packages],
        "hold": [package.name for package in stack.packages],
        "files": [
            {"path": PREFERENCES, "content": preferences(stack)},
            {"path": BLACKLIST, "content": "# nouveau would take the GPUs first.\nblacklist nouveau\noptions nouveau modeset=0\n"},
            *([{"path": MODULES, "content": "".join(f"{name}\n" for name in stack.modules_load)}] if stack.modules_load else []),
        ],
    }  # fmt: skip


def preferences(stack: Stack) -> str:
    """Return apt's preferences: no other version of what belongs together, whoever asks for it and in whichever direction."""
    by_version = groupby(sorted(stack.pinned, key=lambda row: row[1]), key=lambda row: row[1])
    stanzas = [
        f"Package: {' '.join(sorted(name for name, _version in rows))}\nPin: version {version}\nPin-Priority: 1001\n"
        for version, rows in by_version
    ]
    return f"# Driver {stack.driver}: one set, which changes as a whole.\n\n" + "\n".join(stanzas)


def repositories(wanted: GpuStack, mirror: str) -> list[dict[str, Any]]:
    """Return the distribution's repositories that have the driver, as ansible.builtin.deb822_repository takes them."""
    codename = _CODENAMES.get(wanted.os)
    if wanted.source != "debian" or codename is None or not mirror:
        return []
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    common = {"types": "deb", "components": ["contrib", "non-free", "non-free-firmware"], "signed_by": keyring}
    base = mirror.rstrip("/")
    return [
        {"name": "bedplate-debian", "uris": f"{base}/debian", "suites": [codename, f"{codename}-updates"], **common},
        {"name": "bedplate-debian-security", "uris": f"{base}/debian-security", "suites": [f"{codename}-security"], **common},
    ]  # fmt: skip


def state(deployed: Mapping[str, Any], gpu: Mapping[str, Any]) -> dict[str, Any]:
    """Return what depends on what the machine runs: `units`, and `reboot`, the reason why it has to be rebooted ("": none).

    `gpu` is what bedplate.cluster.gpu_facts returns.
    """
    loaded = gpu["driver"]["version"]
    flavour = gpu["driver"]["flavour"]
    reason = ""
    if gpu["gpus"]:
        if loaded is None:
            reason = f"driver {deployed['driver']} is installed and not loaded"
        elif (loaded, flavour) != (deployed["driver"], deployed["module"]):
            reason = f"driver {deployed['driver']} ({deployed['module']}) is installed, and {loaded} ({flavour}) runs"
        if gpu["nouveau"]:
            reason += f"{', and ' if reason else ''}nouveau is loaded"
    unit: dict[str, Any] = {"name": _PERSISTENCED, "enabled": True}
    if loaded is not None:
        unit["state"] = "started"
    return {"units": [unit], "reboot": reason}


def reboot_files(reason: str) -> list[dict[str, str]]:
    """Return the note on the machine that it has to be rebooted and why, as entries of bedplate.cluster.files."""
    return [{"path": REBOOT, "content": f"{reason}\n"}] if reason else []


def _build(wanted: GpuStack, stack: Stack) -> list[str]:
    if not stack.dkms:
        return []
    return ["dkms", f"linux-headers-{wanted.kernel or 'amd64'}"]


def _proof(wanted: GpuStack, stack: Stack) -> dict[str, str]:
    if not stack.dkms:
        return {}
    package = next(one for one in stack.packages if one.part == "kernel" and one.name.endswith("-dkms"))
    proof = {"package": package.name, "version": package.version, "name": stack.dkms, "module_version": stack.driver}
    return {**proof, "kernel": wanted.kernel} if wanted.kernel else proof
