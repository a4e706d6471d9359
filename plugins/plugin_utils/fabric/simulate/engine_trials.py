# SPDX-License-Identifier: GPL-3.0-or-later
"""Routing engines compared: each that OpenSM has for trees and groups routes the simulated plane, and its routes are measured.

The files of a trial are the plan's own for that engine, so a fault in the deployed files shows as a better trial.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ..core.fabric_model import COMPUTE, Plan, SubnetManager
from ..opensm import opensm_files
from ..opensm.opensm_options import NOT_FOR_DRAGONFLY, Choices
from .opensm_dumps import read
from .route_quality import Metrics, measure
from .simulated_fabric import SimulationError, local_conf, simulated

# Engines, and options that change the routes of some: with `port_shifting` the ports of a switch are taken in another order for each
# adapter, with `scatter_ports` by chance from that seed. OpenSM's other engines need what a plan does not have: `dor` and `torus-2QoS`
# a torus, `file` tables.
ENGINES = ("ftree", "updn", "dnup", "minhop", "sssp", "dfsssp", "lash", "nue")
SEEDS = (1, 2, 3, 4)
VARIANTS: Mapping[str, Sequence[tuple[tuple[str, str], ...]]] = {
    engine: ((("port_shifting", "TRUE"),), *((("scatter_ports", str(seed)),) for seed in SEEDS))
    for engine in ("updn", "minhop")
}
# Engines that prevent circles by several lanes. Who has no path record, as NCCL, is on one lane all the same.
LANES = ("dfsssp", "lash")
# The tools of a trial.
TRIED_WITH = ("opensm", "ibsim", "ibsim-run")
# By what part a better engine is better at all.
MARGIN = 1.05
_IN_EFFECT = re.compile(r"ucast_mgr_process: (\S+) tables configured on all switches")


@dataclass(frozen=True)
class Trial:
    """Routes of an engine with its options: the flows on the busiest link, and these to the mean of all; or why it cannot be used."""

    engine: str
    options: tuple[tuple[str, str], ...] = ()
    most: int = 0
    imbalance: float = 0.0
    obstacle: str = ""

    @property
    def name(self) -> str:
        """Return engine and options as one word and a list."""
        return " ".join([self.engine, *(f"{name}={value}" for name, value in self.options)])

    def __str__(self) -> str:
        return f"{self.name} {self.obstacle}" if self.obstacle else f"{self.name} {self.imbalance:.2f}"

    @property
    def variables(self) -> str:
        """Return the variables of the role `opensm` that choose it."""
        options = ", ".join(f"{name}: {value!r}" for name, value in self.options)
        return f"opensm_routing_engines: [{self.engine}]" + (f" and opensm_options: {{{options}}}" if options else "")


def engine_in_effect(log: str) -> str:
    """Return the engine of the last tables that OpenSM's log reports, or ""."""
    found: list[str] = _IN_EFFECT.findall(log)
    return found[-1] if found else ""


def trials(plan: Plan, plane: str, manager: SubnetManager, choices: Choices, seconds: float) -> list[Trial]:
    """Return a trial for each engine and variant, the best first; `choices` has all other options."""
    # Its locks must be registered outside of a fork, and the inventory plugin loads what tasks need while Ansible begins one.
    from concurrent.futures import ThreadPoolExecutor

    wanted = [(engine, options) for engine in ENGINES for options in ((), *VARIANTS.get(engine, ()))]
    routes = _Routes(plan, plane, manager, choices, seconds)
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        found = list(pool.map(lambda one: routes.trial(*one), wanted))
    return sorted(found, key=lambda one: (bool(one.obstacle), one.most))


def best(found: Iterable[Trial]) -> Trial | None:
    """Return the usable trial with the fewest flows on its busiest link; the first of several."""
    usable = [one for one in found if not one.obstacle]
    return min(usable, key=lambda one: one.most, default=None)


def table(found: Iterable[Trial]) -> Iterator[str]:
    """Yield the best trial of each engine, in the order of the trials."""
    seen = set()
    for one in found:
        if one.engine not in seen:
            seen.add(one.engine)
            yield str(one)


@dataclass(frozen=True)
class _Routes:
    plan: Plan
    plane: str
    manager: SubnetManager
    choices: Choices
    seconds: float

    def trial(self, engine: str, options: tuple[tuple[str, str], ...]) -> Trial:
        """Return the outcome of one engine; nothing that goes wrong with it is an error."""
        one = Trial(engine, options)
        if self.plan.kind == "dragonfly" and engine in NOT_FOR_DRAGONFLY:
            return replace(one, obstacle="makes circles or finds no tree between groups")
        extra = {**dict(self.choices.extra), **dict(options)}
        choices = replace(self.choices, engines=(engine,), extra=tuple(extra.items()))
        try:
            files = opensm_files.files(self.plan, self.manager, choices)
            with tempfile.TemporaryDirectory(prefix="bedplate-trial-") as scratch:
                log, metrics = self._routed(Path(scratch), files)
        except (SimulationError, ValueError) as error:
            return replace(one, obstacle=f"cannot be tried: {few(str(error).splitlines(), 1)}")
        effective = engine_in_effect(log)
        if effective != engine:
            return replace(one, obstacle=f"refuses the fabric, and OpenSM takes {effective or 'none'}")
        return replace(one, most=metrics.most, imbalance=metrics.imbalance, obstacle=_obstacle(engine, metrics))

    def _routed(self, scratch: Path, files: Mapping[str, str]) -> tuple[str, Metrics]:
        for name, text in files.items():
            local = local_conf(text, files, str(scratch)) if name == opensm_files.OPTIONS else text
            (scratch / name).write_text(local)
        with simulated(self.plan, scratch, self.plane, self.manager.hca, self.seconds, tools=TRIED_WITH) as fabric:
            log, _printed = fabric.opensm()
            subnet = read(
                fabric.text("opensm-subnet.lst"), fabric.text("opensm.fdbs") or fabric.text("opensm-lfts.dump")
            )
        return log, measure(subnet, counted=counted_names(self.plan, self.plane), shifts=False)


def counted_names(plan: Plan, plane: str) -> set[str] | None:
    """Return the HCAs of a plane whose flows count: the compute ones, or None for all in a plane without compute."""
    found = {hca.name for hca in plan.hcas.values() if hca.plane == plane and hca.purpose == COMPUTE}
    return found or None


def _obstacle(engine: str, metrics: Metrics) -> str:
    if metrics.unreachable:
        return f"leaves {metrics.unreachable} pairs of HCAs without a way"
    if metrics.hosts_loop if engine in LANES else metrics.loop:
        return "makes circles of links, so packets can block for ever"
    return ""
