# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof of a plane's files: real OpenSM routes a simulated fabric with them, and what it does is compared with the plan.

OpenSM says SUBNET UP whatever its files say. So every effect (engine, routes, P_Keys) is told together with what is odd in the plan and
in the cables, which is mostly its cause.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import guid_of

from ..core.fabric_model import COMPUTE, Plan, SubnetManager
from ..core.node_descriptions import is_aggregation
from ..core.places import counted, place
from ..opensm import opensm_files
from ..opensm.opensm_options import DEFAULTS, engines_of, opensm_conf, options
from ..opensm.partitions import planned_pkeys
from . import port_readback
from .engine_trials import LANES as WITH_LANES
from .engine_trials import MARGIN, Trial, best, counted_names, engine_in_effect, table, trials
from .ideal_routes import Ideal
from .opensm_dumps import Subnet, ca_order, read
from .route_quality import Metrics, broken, measure, uneven
from .simulated_fabric import (
    Simulation,
    SimulationError,
    execute,
    local_conf,
    missing_tools,
    simulated,
    simulated_plan,
)

# `Finding.kind`: what differs in cables, and what OpenSM made of it.
CABLE = "cable"
TOOLS, SUBNET, ENGINE, LOG, ROUTES, LOOPS, PKEYS = "tools", "subnet", "engine", "log", "routes", "loops", "pkeys"
LANES = "lanes"
EFFECTS = (SUBNET, ENGINE, LOG, ROUTES, LOOPS, PKEYS, LANES)
_ERR = re.compile(r"\bERR \w+: .*")


@dataclass
class RoutingProof:
    """Result of the proof; without findings the files do what the plan says. `engine` and `metrics` are OpenSM's.

    `allowances` are the reasons why links cannot all carry the same on this plan; none for a regular one. `bound` is the least number of
    flows that the busiest link can have; `trials` are other engines, the best first, where the routes are not within 5 % of it.
    """

    findings: list[Finding] = field(default_factory=list)
    engine: str = ""
    metrics: Metrics | None = None
    log: str = ""
    allowances: list[str] = field(default_factory=list)
    bound: int = 0
    trials: list[Trial] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """Return the outcome in a line."""
        if self.findings:
            return f"{counted(len(self.findings), 'finding')}: {self.findings[0]}"
        if not self.metrics:
            return "nothing was simulated"
        done = f"{self.engine} routes {self.metrics.hcas} HCAs over {self.metrics.switches} switches"
        return f"proved: {done}, busiest link {self.metrics.imbalance:.2f} times the mean{self._comparison()}"

    def _comparison(self) -> str:
        """Return how good that is: as good as the cables allow, or the best of the engines, which are listed."""
        if not self.metrics:
            return ""
        idle = len(self.metrics.idle)
        carry = "carries" if idle == 1 else "carry"
        notes = [*([few(self.allowances, 2)] if self.allowances else [])]
        notes += [f"{counted(idle, 'link')} {carry} nothing"] if idle else []
        why = f" ({'; '.join(notes)})" if notes else ""
        if self.trials:
            return f", and no engine is better by 5 %: {', '.join(table(self.trials))}{why}"
        return f", within 5 % of the best that its cables allow{why}" if self.allowances else why


def prove(
    plan: Plan,
    plane: str,
    files: Mapping[str, str],
    *,
    actual: Plan | None = None,
    seconds: float = 120,
    compare: bool = True,
) -> RoutingProof:
    """Return the proof of OpenSM's files for a plane, which are derived from the plan as `simulated_plan` returns it.

    `actual` is the fabric that is simulated, where it is not as planned. An opensm.conf that is not among the files, as before there is a
    subnet manager, is made. `seconds` is the time that ibsim and each tool have. Without `compare` no other engine is tried.
    """
    if missing := missing_tools():
        return RoutingProof([Finding(TOOLS, "this host", "", missing)])
    planned, found = simulated_plan(plan), RoutingProof()
    manager = _manager(planned, plane)
    if manager is None:
        return RoutingProof(
            [Finding(CABLE, f"plane {plane}", "", "no HCA has a cable, so there is nothing to simulate")]
        )
    try:
        if opensm_files.OPTIONS not in files:
            files = {**files, opensm_files.OPTIONS: opensm_conf(options(planned, manager, DEFAULTS))}
        with tempfile.TemporaryDirectory(prefix="bedplate-fabric-") as scratch:
            run = _Run(planned, plane, files, Path(scratch), found)
            run.go(simulated_plan(actual) if actual else planned, manager, seconds)
            if compare and run.questionable:
                run.compare(manager, seconds)
    except (SimulationError, ValueError) as error:
        found.findings.append(Finding(SUBNET, f"plane {plane or plan.name}", "", str(error)))
    return found


def _manager(plan: Plan, plane: str) -> SubnetManager | None:
    """Return the master of a plane; without one, the first HCA with a cable, and None if all HCAs lack one."""
    for one in plan.managers:
        if plan.hcas[one.hca].plane == plane:
            return one
    return next((SubnetManager(hca.name, 15) for hca in opensm_files.leaf_major(plan, plane)), None)


class _Run:
    """One plane's run, in its scratch directory."""

    def __init__(self, plan: Plan, plane: str, files: Mapping[str, str], scratch: Path, found: RoutingProof) -> None:
        self.plan, self.plane, self.files, self.scratch, self.found = plan, plane, files, scratch, found
        self.where = f"plane {plane}" if plane else plan.name
        self.causes: list[str] = []
        # Whether another engine might route better.
        self.questionable = False

    def go(self, actual: Plan, manager: SubnetManager, seconds: float) -> None:
        """Simulate, and collect what is found."""
        for name, text in self.files.items():
            local = local_conf(text, self.files, str(self.scratch)) if name == opensm_files.OPTIONS else text
            (self.scratch / name).write_text(local)
        self._above()
        with simulated(actual, self.scratch, self.plane, manager.hca, seconds) as fabric:
            self.found.log, printed = fabric.opensm()
            subnet = self._read(fabric)
            if subnet:
                self._cables(subnet)
            self._log(printed)
            if not subnet and not self.found.findings:
                self.effect(SUBNET, "OpenSM leaves no forwarding tables, so nothing was measured")
            self._engine()
            if subnet:
                self._routes(subnet, fabric)
                self._checked(fabric, seconds)
                self._held(subnet, fabric, manager)

    def cause(self, kind: str, where: str, text: str) -> None:
        """Note what differs from the plan."""
        self.causes.append(f"{where}: {text}")
        self.found.findings.append(Finding(kind, where, "", text))

    def effect(self, kind: str, found: str, expected: str = "", remedy: str = "") -> None:
        """Note what OpenSM does that is not planned, with its causes, or with a remedy that does not depend on them."""
        why = f"cause: {few(self.causes, 3)}" if self.causes else "cables are as planned: look at OpenSM's log"
        self.found.findings.append(Finding(kind, self.where, expected, found, remedy or why))

    def _above(self) -> None:
        """Note peculiarities of the plan that explain uneven routes: compute HCAs above leaves, cables left out, too few uplinks."""
        lowest = min((one.tier for one in opensm_files.switches(self.plan, self.plane)), default=0)
        for name, (switch, port) in self.plan.leaf_of().items():
            hca = self.plan.hcas[name]
            if hca.plane == self.plane and hca.purpose == COMPUTE and self.plan.switches[switch].tier > lowest:
                where = place((switch, port), self.plan)
                self.causes.append(f"{where}: {name} is on a switch of tier {self.plan.switches[switch].tier}")
        for link in self.plan.links:
            known = self.plan.switches.get(link.a)
            if link.missing and known and known.plane == self.plane:
                self.causes.append(f"{place(link.ends[0], self.plan)}: the plan leaves out the cable to {link.b}")

    def _read(self, fabric: Simulation) -> Subnet | None:
        lst, tables = fabric.text("opensm-subnet.lst"), fabric.text("opensm.fdbs") or fabric.text("opensm-lfts.dump")
        return read(lst, tables) if lst and tables else None

    def _cables(self, subnet: Subnet) -> None:
        """Report unplanned cables, and missing ones."""
        things = {guid_of(one.guid): one.name for one in opensm_files.switches(self.plan, self.plane)}
        things |= {guid_of(one.port_guid): one.name for one in self.plan.hcas.values() if one.plane == self.plane}
        names = {lid: things.get(node.guid, node.name) for lid, node in subnet.nodes.items()}
        inside = {lid for lid, node in subnet.nodes.items() if is_aggregation(node.name)}
        seen = {
            frozenset(((names[a], p), (names[b], q)))
            for (a, p), (b, q) in subnet.cables.items()
            if a not in inside and b not in inside
        }
        known = set(things.values())
        planned = {frozenset(link.ends) for link in self.plan.present if {link.a, link.b} <= known}
        for text, ends in (("missing", planned - seen), ("there and not planned", seen - planned)):
            for pair in sorted(sorted(end) for end in ends):
                # From the switch, where there is one: that is where to go.
                near, far = sorted((pair[0], pair[-1]), key=lambda end: end[0] not in self.plan.switches)
                what = f"the cable to {place(far, self.plan)} is {text}"
                switch = self.plan.switches.get(near[0])
                if switch and switch.tier > 1 and far[0] not in self.plan.switches:
                    what += f", and it puts an HCA on a switch of tier {switch.tier}"
                self.cause(CABLE, place(near, self.plan), what)

    def _log(self, printed: str) -> None:
        log = self.found.log
        if "SUBNET UP" not in log:
            self.effect(SUBNET, f"OpenSM does not say SUBNET UP: {_last(log or printed)}")
        said = list(dict.fromkeys(match[0].replace(f"{self.scratch}/", "") for match in _ERR.finditer(log)))
        if said:
            self.effect(LOG, f"OpenSM reports {counted(len(said), 'error')}: {few(said, 3)}")
        if "retrying with default config" in log:
            self.effect(LOG, f"OpenSM drops {opensm_files.PARTITIONS}: every port reaches every other")
        for token in dict.fromkeys(re.findall(r'Unrecognized token: "(.*)"', printed)):
            self.cause(LOG, opensm_files.OPTIONS, f"OpenSM does not know the option {token}, and ignores it")

    def _engine(self) -> None:
        """Compare the engine in effect with the first requested one."""
        given = re.search(r"^routing_engine\s+(\S+)", self.files[opensm_files.OPTIONS], re.MULTILINE)
        asked = given[1].split(",")[0] if given else engines_of(self.plan, self.plane)[0]
        self.found.engine = engine_in_effect(self.found.log)
        if self.found.engine != asked:
            self.effect(ENGINE, self.found.engine or "none", f"the routing engine {asked}")

    def _routes(self, subnet: Subnet, fabric: Simulation) -> None:
        """Measure the routes, and note whether they might not be the best."""
        counted = counted_names(self.plan, self.plane)
        names = [node.name for node in subnet.nodes.values() if not node.is_switch]
        text = fabric.text("opensm-ftree-ca-order.dump") if self.found.engine == "ftree" else ""
        orders = {"ca": ca_order(text)} if text else {}
        use = counted if counted and any(name in counted for name in names) else None
        self.found.metrics = metrics = measure(subnet, counted=use, orders=orders)
        ideal = Ideal(self.plan, self.plane)
        self.found.allowances, self.found.bound = ideal.irregular(), ideal.bound()
        for one in ideal.short():
            self.effect(ROUTES, one)
        lost = broken(metrics, [] if self.found.engine in WITH_LANES else metrics.loop)
        for one in lost:
            self.effect(ROUTES, one)
        if lost:
            return
        wrong = [] if self.found.allowances else self._uneven(metrics, ideal, bool(text))
        if metrics.most <= MARGIN * self.found.bound:
            for one in wrong:
                self.effect(ROUTES, one)
        else:
            self.questionable = bool(wrong or self.found.allowances)

    def _uneven(self, metrics: Metrics, ideal: Ideal, ordered: bool) -> list[str]:
        """Return where routes of a regular plan are not even; on three tiers only ftree keeps shifts apart."""
        order = "ca" if ordered else "leaf" if ideal.tiers < 3 else ""
        allowed = math.ceil(self.plan.oversubscription)
        return uneven(metrics, tiers=ideal.tiers, oversubscription=allowed, order=order)

    def compare(self, manager: SubnetManager, seconds: float) -> None:
        """Let all engines route the plan, and report a better one."""
        self.found.trials = trials(self.plan, self.plane, manager, DEFAULTS, seconds)
        better, metrics = best(self.found.trials), self.found.metrics
        if not better or not metrics or metrics.most <= MARGIN * better.most:
            return
        idle = (
            f"{len(metrics.idle)} of {metrics.links} directed links carry nothing: {few(metrics.idle)}; "
            if metrics.idle
            else ""
        )
        text = (
            f"the busiest link carries {metrics.most} flows, {metrics.imbalance:.2f} times the mean load: {metrics.busiest}; {idle}"
            f"{better.name} makes it {better.most} flows, {better.imbalance:.2f} times the mean ({', '.join(table(self.found.trials))})"
        )
        same = better.engine == self.found.engine and not better.options
        self.effect(ROUTES, text, remedy="" if same else f"set {better.variables}")

    def _checked(self, fabric: Simulation, seconds: float) -> None:
        """Run ibdmchk, whose verdict is its text: it dies at its end, always.

        It sees no aggregation nodes: tree engines give those of two switches of the top tier no way to each other, which they do not
        need, and ibdmchk stops at that. `Metrics.loop` has circles with them.
        """
        lines = fabric.text("opensm-subnet.lst").split("\n")
        (self.scratch / "hosts.lst").write_text("\n".join(line for line in lines if not is_aggregation(line)))
        (self.scratch / "opensm.mcfdbs").touch()
        command = ["ibdmchk", "-s", "hosts.lst", "-f", "opensm.fdbs", "-m", "opensm.mcfdbs"]
        said = execute(command, self.scratch, fabric.environment, seconds)
        dead = re.findall(r"Unassigned LFT.*|Dead end.*", said)
        if dead:
            self.effect(LOOPS, f"ibdmchk finds {counted(len(dead), 'dead end')}: {few(dead, 2)}")
        if "credit loops in routing" in said and self.found.engine not in WITH_LANES:
            self.effect(LOOPS, "ibdmchk finds credit loops, so packets can block for ever")
        elif "no credit loops found" not in said and not dead and self.found.engine not in WITH_LANES:
            self.effect(LOOPS, f"ibdmchk gives no verdict: {_last(said)}")

    def _held(self, subnet: Subnet, fabric: Simulation, manager: SubnetManager) -> None:
        """Read P_Keys and lanes of ports back."""
        lids = {node.guid: lid for lid, node in subnet.nodes.items() if not node.is_switch}
        named = {guid_of(one.port_guid): one.name for one in self.plan.hcas.values() if one.plane == self.plane}
        ports = {guid: (name, lids[guid]) for guid, name in named.items() if guid in lids}
        query = partial(fabric.run, "smpquery")
        if self.plan.partitions:
            planned = planned_pkeys(self.plan, self.plane, self.plan.hcas[manager.hca].port_guid)
            if wrong := list(port_readback.pkey_differences(query, planned, ports)):
                self.effect(PKEYS, f"P_Keys are not as planned: {few(wrong, 3)}")
        conf = dict(re.findall(r"^(\w+)[ \t]+(.*\S)", self.files[opensm_files.OPTIONS], re.MULTILINE))
        if wrong := list(port_readback.lane_differences(query, conf, ports)):
            self.effect(LANES, f"lanes are not as {opensm_files.OPTIONS} has them: {few(wrong, 3)}")


def _last(text: str) -> str:
    lines = [line for line in text.strip().split("\n") if line.strip()]
    return lines[-1].strip() if lines else "it says nothing"
