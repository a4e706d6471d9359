# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and compare everything that node_tuning manages on a machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..common.command import Runner, run_quick
from ..common.finding import Finding
from ..common.remedies import run_role_again
from ..common.sysfs import Root
from ..drift import modprobe
from ..primitives.kernel import kernel_files, sysctl
from ..primitives.reboot_notes import jobs
from . import apply_tuning, limits, login_limits, tuned_profile
from .boot import next_cmdline
from .boot.cmdline_tokens import known, of_families, tokens
from .cpu import interrupt_placement, isolated_cpus
from .memory import huge_page_pool
from .memory.memory_floor import pages_from
from .pci import bridge_power, numa_map, pci_config_space
from .pci.machine_topology import read_machine


def drift(root: Root, expected: Mapping[str, Any], run: Runner = run_quick) -> Iterator[Finding]:
    """Yield every difference. `expected` is that of the filter node_tuning: first the state in effect, then that of the next boot."""
    settings = expected["settings"]
    boot = expected["boot"]
    yield from _tokens(root, expected["tokens"], boot)
    yield from huge_page_pool.drift(root, pages_from(settings["pages"]), lambda: jobs(root.find("proc")))
    yield from isolated_cpus.drift_of_cpus(root, expected["isolated"])
    if expected["passthrough"]:
        yield from isolated_cpus.drift_of_iommu(root)
    yield from kernel_files.drift(
        root, [*kernel_files.writes_from(settings["writes"]), *apply_tuning.idle(root, settings)]
    )
    yield from sysctl.drift(root, settings["sysctl"])
    yield from sysctl.conflicts(root, settings["sysctl"])
    yield from tuned_profile.findings(root, expected)
    yield from limits.drift_of_pam(root, expected["limits"])
    yield from login_limits.findings(root, expected["limits"], run)
    yield from limits.drift_of_slurmd(root, expected["limits"])
    yield from _modules(root, expected["modules"])
    yield from modprobe.findings(root, {"modules": expected["modules"]}, run)
    yield from pci_config_space.drift(root, settings)
    if settings["bridge_power"]:
        yield from bridge_power.drift(root)
    if expected["numa"]["numa"]:
        yield from numa_map.compare(numa_map.plan_from(expected["numa"]), read_machine(str(root.top)))
    yield from interrupt_placement.drift(root, settings)
    if boot == "loader":
        yield from next_cmdline.drift_of_loader(root, expected["tokens"])
        yield from next_cmdline.findings(root, expected["tokens"])


def _tokens(root: Root, wanted: list[str], boot: str) -> Iterator[Finding]:
    """Compare the running kernel's command line, one finding per key."""
    running, own = tokens(root.text("proc/cmdline") or ""), known(wanted)
    for family in dict.fromkeys(token.family for token in own):
        want, there = of_families(own, {family}), of_families(running, {family})
        if [token.same for token in want] != [token.same for token in there]:
            words = [" ".join(map(str, one)) for one in (want, there)]
            fix = f"reboot; if that does not help, {run_role_again('node_tuning')} and check the boot loader's files"
            if boot == "network":
                fix = "set it at the boot server (playbooks/boot_tokens.yml prints all tokens), then reboot"
            yield Finding(
                "kernel-cmdline", f"kernel command line, {family}", words[0], words[1] or "nothing", fix, reboot=True
            )


def _modules(root: Root, wanted: list[str]) -> Iterator[Finding]:
    for name in wanted:
        if not root.exists(f"sys/module/{name.replace('-', '_')}"):
            fix = f"modprobe {name}; journalctl -b -u systemd-modules-load shows why it was not loaded"
            yield Finding("module", f"kernel module {name}", "loaded", "not loaded", fix)
