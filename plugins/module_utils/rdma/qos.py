# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and set the lossless traffic of a RoCE NIC: trust in DSCP, its priorities, and PFC; by mlnx_qos, or by dcb of iproute2."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..common.command import Runner
from ..common.sysfs import Root

_TOOLS = {
    "mlnx_qos": ("usr/bin/mlnx_qos", "usr/sbin/mlnx_qos"),
    "dcb": ("usr/sbin/dcb", "sbin/dcb", "usr/bin/dcb"),
}


@dataclass(frozen=True)
class QosSettings:
    """The DSCP of RDMA and its lossless priority, and the same of congestion notifications."""

    dscp: int
    priority: int
    cnp_dscp: int
    cnp_priority: int

    @property
    def mapping(self) -> dict[int, int]:
        """Return DSCP -> priority."""
        return {self.dscp: self.priority, self.cnp_dscp: self.cnp_priority}

    @property
    def pfc(self) -> tuple[bool, ...]:
        """Return for each of the eight priorities whether it is lossless."""
        return tuple(number == self.priority for number in range(8))


@dataclass(frozen=True)
class Qos:
    """Settings of an interface. `firmware`: its firmware negotiates all of them with the switch (DCBX) and accepts no settings."""

    trust: str
    pfc: tuple[bool, ...]
    mapping: Mapping[int, int]
    firmware: bool = False


class QosError(Exception):
    """Output of a tool that cannot be parsed."""


def settings_of(data: Mapping[str, Any]) -> QosSettings:
    """Return the desired settings, from those under `roce`."""
    return QosSettings(data["dscp"], data["priority"], data["cnp_dscp"], data["cnp_priority"])


def qos_tool(root: Root) -> str:
    """Return the tool of this machine: mlnx_qos, dcb, or "" if it has neither."""
    return next((name for name, paths in _TOOLS.items() if any(map(root.exists, paths))), "")


def read(name: str, interface: str, run: Runner) -> Qos:
    """Return the settings of an interface. Raises QosError if the tool does not show them."""
    if name == "mlnx_qos":
        return parse_mlnx_qos(_answer(run, ["mlnx_qos", "-i", interface]))
    applications = _answer(run, ["dcb", "-N", "app", "show", "dev", interface, "dscp-prio"])
    return parse_dcb(applications, _answer(run, ["dcb", "pfc", "show", "dev", interface, "prio-pfc"]))


def parse_mlnx_qos(text: str) -> Qos:
    """Parse the output of `mlnx_qos -i INTERFACE`."""
    trust = re.search(r"^Priority trust state:\s*(\w+)", text, re.MULTILINE)
    pfc = re.search(r"^\s*enabled((?:\s+[01]){8})\s*$", text, re.MULTILINE)
    if not trust or not pfc:
        raise QosError(f"mlnx_qos prints no trust state or no PFC configuration: {' '.join(text.split())[:200]!r}")
    mapping = {
        int(dscp): int(priority)
        for priority, dscps in re.findall(r"prio:([0-7]) dscp:([\d,]+)", text)
        for dscp in dscps.split(",")
        if dscp
    }
    firmware = re.search(r"^DCBX mode:\s*Firmware", text, re.MULTILINE) is not None
    return Qos(trust[1], tuple(one == "1" for one in pfc[1].split()), mapping, firmware)


def parse_dcb(applications: str, pfc: str) -> Qos:
    """Parse the output of `dcb -N app show` and `dcb pfc show`, which is empty if no DSCP has a priority."""
    found = dict(re.findall(r"\b([0-7]):(on|off)\b", pfc))
    if len(found) != 8:
        raise QosError(f"dcb prints no PFC of eight priorities: {' '.join(pfc.split())[:200]!r}")
    pairs = re.findall(r"\b(\d+):([0-7])\b", applications.partition("dscp-prio")[2])
    mapping = {int(dscp): int(priority) for dscp, priority in pairs}
    # The driver trusts DSCP from the first such entry until the last one is removed.
    return Qos("dscp" if mapping else "pcp", tuple(found[str(one)] == "on" for one in range(8)), mapping)


def differences(wanted: QosSettings, there: Qos) -> Iterator[tuple[str, str, str]]:
    """Yield (name, desired, found) of each setting that differs."""
    if there.trust != "dscp":
        yield "trust", "dscp", there.trust
    if there.pfc != wanted.pfc:
        yield "PFC of priorities 0 to 7", _bits(wanted.pfc), _bits(there.pfc)
    for dscp, priority in wanted.mapping.items():
        if there.trust == "dscp" and there.mapping.get(dscp) != priority:
            found = there.mapping.get(dscp)
            yield f"priority of DSCP {dscp}", str(priority), "none" if found is None else str(found)


def commands(name: str, interface: str, wanted: QosSettings, there: Qos) -> Iterator[list[str]]:
    """Yield the commands that change an interface to the desired settings."""
    pfc = there.pfc != wanted.pfc
    if name == "mlnx_qos":
        if there.firmware:
            yield ["mlnx_qos", "-i", interface, "--dcbx=os"]
        if there.trust != "dscp":
            yield ["mlnx_qos", "-i", interface, "--trust=dscp"]
        # mlnx_qos refuses both in one call. Without a mapping, trust installs the NIC's own: eight DSCPs per priority.
        known = there.mapping if there.trust == "dscp" else {dscp: dscp // 8 for dscp in range(64)}
        for dscp, priority in wanted.mapping.items():
            if known.get(dscp) != priority:
                yield ["mlnx_qos", "-i", interface, f"--dscp2prio=set,{dscp},{priority}"]
        if pfc:
            yield ["mlnx_qos", "-i", interface, "--pfc=" + ",".join(str(int(one)) for one in wanted.pfc)]
        return
    pairs = [f"{dscp}:{priority}" for dscp, priority in wanted.mapping.items() if there.mapping.get(dscp) != priority]
    if pairs:
        yield ["dcb", "app", "replace", "dev", interface, "dscp-prio", *pairs]
    if pfc:
        yield ["dcb", "pfc", "set", "dev", interface, "prio-pfc", "all:off", f"{wanted.priority}:on"]


def apply(name: str, interface: str, wanted: QosSettings, run: Runner) -> Iterator[str]:
    """Apply the desired settings to an interface; yield the failures, including settings that a tool accepted and the NIC did not."""
    try:
        for command in commands(name, interface, wanted, read(name, interface, run)):
            _answer(run, command)
        there = read(name, interface, run)
    except QosError as error:
        yield f"{interface}: {error}"
        return
    held = "; its firmware decides (DCBX)" if there.firmware else ""
    for what, want, found in differences(wanted, there):
        yield f"{interface}: {what}: {want} was set, but it is {found}{held}"


def _bits(values: tuple[bool, ...]) -> str:
    return " ".join(str(int(one)) for one in values)


def _answer(run: Runner, command: list[str]) -> str:
    outcome = run(command)
    if outcome.code != 0:
        raise QosError(f"{' '.join(command)}: {outcome.error_line}")
    return outcome.stdout
