# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply the settings of this machine that a reboot resets. bedplate-tuning.service runs it early in every boot, and after each change.

Usage: python3 -m ansible_collections.bedplate.cluster.plugins.module_utils.tuning.apply_tuning SETTINGS [ROOT]. SETTINGS is JSON, as
`plugins/plugin_utils/tuning` writes it. Correct settings are not touched. Each failure is reported on a line, and the exit code is then 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..common.sysfs import Root
from ..primitives.kernel import kernel_files, settings_unit, sysctl
from ..primitives.reboot_notes import jobs
from .cpu import interrupt_placement
from .memory import huge_page_pool
from .pci import bridge_power, pci_config_space


def apply(root: Root, settings: Mapping[str, Any]) -> Iterator[str]:
    """Apply the settings to a machine; yield the failures, after everything was tried."""
    yield from sysctl.apply(root, settings["sysctl"])
    yield from _pages(root, settings)
    yield from kernel_files.apply(root, [*kernel_files.writes_from(settings["writes"]), *idle(root, settings)])
    yield from pci_config_space.apply(root, settings)
    if settings["bridge_power"]:
        yield from bridge_power.apply(root)
    yield from interrupt_placement.apply(root, settings)


def _pages(root: Root, settings: Mapping[str, Any]) -> Iterator[str]:
    outcome = huge_page_pool.apply_settings(root, settings, lambda: jobs(root.find("proc")))
    for finding in outcome.waiting:
        sys.stdout.write(f"{finding}\n")
    yield from map(str, outcome.refused)


def idle(root: Root, settings: Mapping[str, Any]) -> list[kernel_files.Write]:
    """Return the writes that disable idle states; none if the settings do not mention them."""
    return kernel_files.idle_states(root, settings["idle_us"]) if "idle_us" in settings else []


def main(arguments: Sequence[str]) -> int:
    """Apply the settings of a file to this machine."""
    return settings_unit.main(arguments, apply, "node_tuning")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
