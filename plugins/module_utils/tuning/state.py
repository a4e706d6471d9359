# SPDX-License-Identifier: GPL-3.0-or-later
"""All that node_tuning manages on a machine, read back and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.remedies import again
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.reading import Root, Runner, run
from ansible_collections.bedplate.cluster.plugins.module_utils.node_reboot import jobs
from ansible_collections.bedplate.cluster.plugins.module_utils.state import modprobe
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning import (
    apply,
    boot_sources,
    irq_plan,
    isolation,
    limits,
    login,
    numa_map,
    pages,
    pci,
    sysctl,
    tuned,
    writes,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.cmdline import known, of_families, tokens
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.floor import pages_from
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.machine import read_machine


def drift(root: Root, expected: Mapping[str, Any], run: Runner = run) -> Iterator[Finding]:
    """Yield every difference. `expected` is that of the filter node_tuning: what is in effect, then what the next boot will bring."""
    settings = expected["settings"]
    yield from _tokens(root, expected["tokens"])
    yield from pages.drift(root, pages_from(settings["pages"]), lambda: jobs(root.find("proc")))
    yield from isolation.drift_of_cpus(root, expected["isolated"])
    if expected["passthrough"]:
        yield from isolation.drift_of_iommu(root)
    yield from writes.drift(root, [*writes.writes_from(settings["writes"]), *apply.idle(root, settings)])
    yield from sysctl.drift(root, settings["sysctl"])
    yield from sysctl.conflicts(root, settings["sysctl"])
    yield from tuned.findings(root, expected)
    yield from limits.drift_of_pam(root, expected["limits"])
    yield from login.findings(root, expected["limits"], run)
    yield from limits.drift_of_slurmd(root, expected["limits"])
    yield from _modules(root, expected["modules"])
    yield from modprobe.findings(root, {"modules": expected["modules"]}, run)
    yield from pci.drift(root, settings["acs_off"], settings["read_request"])
    if expected["numa"]["numa"]:
        yield from numa_map.compare(numa_map.plan_from(expected["numa"]), read_machine(str(root.top)))
    if "irqs" in settings:
        yield from irq_plan.compare(root, apply.interrupts(root, settings))
    yield from boot_sources.drift_of_loader(root, expected["tokens"])
    yield from boot_sources.findings(root, expected["tokens"])


def _tokens(root: Root, wanted: list[str]) -> Iterator[Finding]:
    """Compare the command line of the kernel that runs, one row for each key."""
    running, own = tokens(root.text("proc/cmdline") or ""), known(wanted)
    for family in dict.fromkeys(token.family for token in own):
        want, there = of_families(own, {family}), of_families(running, {family})
        if [token.same for token in want] != [token.same for token in there]:
            words = [" ".join(map(str, one)) for one in (want, there)]
            fix = f"reboot; if the next boot brings it neither, {again('node_tuning')} and look at the boot loader's files"
            yield Finding(
                "kernel-cmdline", f"kernel command line, {family}", words[0], words[1] or "nothing", fix, reboot=True
            )


def _modules(root: Root, wanted: list[str]) -> Iterator[Finding]:
    for name in wanted:
        if not root.exists(f"sys/module/{name.replace('-', '_')}"):
            fix = f"modprobe {name}; journalctl -b -u systemd-modules-load says why it was not loaded"
            yield Finding("module", f"kernel module {name}", "loaded", "not loaded", fix)
