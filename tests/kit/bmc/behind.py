# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine behind a simulated BMC: nothing, or a real one, such as QEMU by QMP.

The spec's `behind` names a function `module:function` that is called with (spec, events) and returns a `Behind`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from tests.kit.bmc.spec import Spec


@dataclass(frozen=True)
class BootSource:
    """Source of a boot: `target` as of BootSourceOverrideTarget ("None" is the machine's own order), `mode` UEFI or Legacy.

    `media` are slot -> image URL, as inserted at this moment.
    """

    target: str
    mode: str
    http_boot_uri: str
    media: dict[str, str]


class Behind(Protocol):
    """Commands to the machine. Each is called in a thread of its BMC, one after the other, and may block."""

    def power_on(self, boot: BootSource) -> None:
        """Start the machine, and boot it from the source."""

    def power_off(self, graceful: bool) -> None:
        """End the machine at once, or press its power button."""

    def reset(self, boot: BootSource) -> None:
        """Reset the running machine, and boot it from the source."""

    def insert(self, slot: str, image: str) -> None:
        """Put a medium into a slot."""

    def eject(self, slot: str) -> None:
        """Remove the medium of a slot."""

    def close(self) -> None:
        """End everything; the simulator ends."""


@dataclass(frozen=True)
class Events:
    """Calls by which the machine reports to its BMC, from any thread.

    `went_off`: the operating system powered off. `restarts`: the operating system resets; it returns the source of the next boot, with the
    override used up.
    """

    went_off: Callable[[], None]
    restarts: Callable[[], BootSource]


class Nothing:
    """No machine: its power is only a word."""

    def power_on(self, boot: BootSource) -> None:
        """Do nothing."""

    def power_off(self, graceful: bool) -> None:
        """Do nothing."""

    def reset(self, boot: BootSource) -> None:
        """Do nothing."""

    def insert(self, slot: str, image: str) -> None:
        """Do nothing."""

    def eject(self, slot: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def behind_of(spec: Spec, events: Events) -> Behind:
    """Return the machine that a spec names. Raises ImportError or AttributeError for a wrong name."""
    if not spec.behind:
        return Nothing()
    module, _, function = spec.behind.partition(":")
    make = cast(Callable[[Spec, Events], Behind], getattr(importlib.import_module(module), function))
    return make(spec, events)
