# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the NVSwitches on the PCI bus of a machine with the platform of its GPUs: an HGX board, or PCIe cards."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..common.finding import Finding

# The kind of a finding that says that the platform is another one, so that other software belongs on the machine.
PLATFORM = "platform"


def findings(
    wanted: Mapping[str, Any], gpus: Collection[Mapping[str, Any]], seen: Sequence[Mapping[str, Any]]
) -> list[Finding]:
    """Compare the devices of gpu_facts with `platform`, `count` and `device` of NVSwitches, and `known`, the ids of all NVSwitches.

    At most one finding. Nothing is compared without GPUs on the bus, and with an empty `wanted`: NVSwitches of NVLink 5 are not on it.
    """
    if not wanted or not gpus:
        return []
    known = [one for one in seen if one["device"] in wanted["known"]]
    if wanted["platform"] != "hgx":
        return [_board(wanted["platform"], known)] if known else []
    if not seen:
        return [_no_board(wanted)]
    if wanted["device"] and any(one["device"] != wanted["device"] for one in seen):
        ids = ", ".join(sorted({f"{one['address']} is {one['device']}" for one in seen}))
        fix = "check that the profile's `gpus.model` names the GPUs of this machine"
        return [Finding("nvswitch", "NVSwitches", f"PCI device {wanted['device']}", ids, fix)]
    if len(seen) != wanted["count"]:
        addresses = ", ".join(one["address"] for one in seen)
        fix = (
            "the fabric manager does not start with a part of the switches: look for them with `lspci -d 10de:` and in the log of the "
            "BMC, then repair the board; if the board has fewer GPUs, correct the profile's `gpus.count`"
        )
        return [Finding("nvswitch", "NVSwitches", str(wanted["count"]), f"{len(seen)} ({addresses})", fix)]
    return []


def _no_board(wanted: Mapping[str, Any]) -> Finding:
    fix = (
        "if the GPUs are PCIe or NVL cards, or a virtual machine that does not see the switches, write `platform: pcie` into the "
        "`gpu_stack` of the profile. If they sit on an HGX board, no switch is on the PCI bus: repair the board"
    )
    return Finding(PLATFORM, "platform", f"hgx, with {wanted['count']} NVSwitches", "no NVSwitch on the PCI bus", fix)


def _board(platform: str, switches: Sequence[Mapping[str, Any]]) -> Finding:
    fix = (
        "these GPUs sit on an HGX board, and CUDA does not start there without the fabric manager: write `platform: hgx` into the "
        "`gpu_stack` of the profile, and all GPUs of the board as its `gpus.count`"
    )
    found = f"{len(switches)} NVSwitches ({', '.join(one['address'] for one in switches)})"
    return Finding(PLATFORM, "platform", f"{platform}, without NVSwitches", found, fix)
