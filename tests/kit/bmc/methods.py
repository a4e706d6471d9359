# SPDX-License-Identifier: GPL-3.0-or-later
"""Methods that the resources of a simulated BMC obey: the Allow header shows them, and a PATCH of another resource is refused by it."""

from __future__ import annotations

from tests.kit.bmc.accounts import ACCOUNTS, RESERVED
from tests.kit.bmc.manager_services import PROTOCOLS
from tests.kit.bmc.resources import SESSIONS, SYSTEM_PATH, boot_settings, slot_named
from tests.kit.bmc.state import State


def methods_of(state: State, path: str) -> tuple[str, ...]:
    """Return the methods of a resource that exists."""
    found = ["GET", "HEAD"]
    if (path == ACCOUNTS and not state.spec.account_slots) or path == SESSIONS:
        found.append("POST")
    if _is_patched(state, path):
        found.append("PATCH")
    if path.startswith(f"{SESSIONS}/"):
        found.append("DELETE")
    return tuple(found)


def _is_patched(state: State, path: str) -> bool:
    if path.startswith(f"{ACCOUNTS}/"):
        return not (state.spec.account_slots and path == f"{ACCOUNTS}/{RESERVED}")
    if "/VirtualMedia/" in path:
        slot = slot_named(state, path.rpartition("/")[2])
        return slot is not None and state.spec.insert == "patch" and not slot.is_kvm_only
    patched = {SYSTEM_PATH, f"{SYSTEM_PATH}/Bios/Settings", PROTOCOLS}
    return path in patched or (state.spec.settings_elsewhere and path == boot_settings(state))
