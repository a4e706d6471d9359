# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's packages on a node of a scenario, as dpkg and apt-mark report them."""

from __future__ import annotations

from typing import Protocol

_PATTERNS = "'*nvidia*' 'libcuda*' 'cuda*' 'datacenter-gpu-manager*' 'libnv*' 'libnccl*' 'libcublas*' nvlsm"
_OTHERS = ("cuda", "datacenter", "libnccl", "libcublas")


class Host(Protocol):
    """A machine of testinfra, or of the scenario."""

    def check_output(self, command: str) -> str: ...


def installed(host: Host) -> dict[str, str]:
    """Return package -> version of NVIDIA's installed packages."""
    shown = host.check_output(
        f"dpkg-query --show --showformat='${{Package}} ${{db:Status-Status}} ${{Version}}\\n' {_PATTERNS} | sort"
    )
    rows = [line.split() for line in shown.splitlines()]
    return {row[0]: row[2] for row in rows if row[1] == "installed"}


def of_driver(host: Host) -> dict[str, str]:
    """Return package -> version of the driver's installed packages, the fabric's too."""
    return {name: version for name, version in installed(host).items() if not name.startswith(_OTHERS)}


def held(host: Host) -> set[str]:
    """Return the packages that apt holds."""
    return set(host.check_output("apt-mark showhold").split())
