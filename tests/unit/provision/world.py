"""A provision host, simulated BMCs, and machines behind them that install as the real installer does towards the real order server."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision.progress import NodeStates, Progress
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_accounts import Accounts
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_targets import Reach, Target
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_record import Machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision import bmc_steps
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.bmc_fleet import Fleet
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.desk import Desk, DeskSettings
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.machine_run import MachineRun, job_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.next_step import Bounds
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.planning import Plan, hold, plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.wanted import Wanted
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Account
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import run_holder
from tests.kit.bmc.connect import FAST
from tests.kit.bmc.simulation import Simulated, Simulation
from tests.kit.provision import host
from tests.unit.provision.site import BEHIND, services

PORT = 20000 + os.getpid() % 10000
"""Tests in other processes have the same addresses."""
CANARY = "canary"
QUICK = Bounds(install=20, off=1.0, ssh=1.5, poll=0.05)


class FakeSsh:
    """SSH by files: a node answers with the key of the system that its machine has booted last."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def remember(self, node: str, key: str) -> None:
        """Keep the key."""
        (self.folder / f"{node}.known").write_text(key)

    def refusal(self, node: str, key: str) -> str:
        """Return why it does not answer."""
        if (self.folder / f"{node}.deaf").exists():
            return "no answer"
        lines = [line for line in events(self.folder, node) if line.startswith("system ")]
        own = " ".join(key.split()[:2])
        known = (self.folder / f"{node}.known").read_text()
        return "" if lines and lines[-1] == f"system {own}" and known == key else "no answer"


def events(folder: Path, node: str) -> list[str]:
    """Return the lines of a machine's log."""
    path = folder / f"{node}.log"
    return path.read_text().splitlines() if path.exists() else []


class World:
    """Machines with their BMCs, and runs over them."""

    def __init__(self, folder: Path, provision_host: host.Host, simulation: Simulation) -> None:
        self.folder, self.host, self.simulation = folder, provision_host, simulation
        self.bmcs: dict[str, Simulated] = {}
        self.said: list[str] = []
        self._methods: dict[str, str] = {}

    def machine(
        self, behaviour: str = "install", *, data: bool = False, method: str = "media", seconds: float = 0, **spec: Any
    ) -> str:
        """Add a machine that is off, and return its node."""
        number = len(list(self.folder.glob("*.json"))) + 1
        node = f"gpu{number:03d}"
        own = {"serial": f"SN{number:04d}", "nics": [f"02:00:00:00:01:{number:02x}"]}
        facts = {"ca": str(self.host.ca), "mac": own["nics"][0], "disk": f"D{number}", "data": data}
        facts |= {"serial": own["serial"], "behaviour": behaviour, "seconds": seconds}
        (self.folder / f"{node}.json").write_text(json.dumps(facts))
        self.bmcs[node] = self.simulation.add(node, **{"power": "Off", "behind": BEHIND, **own, "port": PORT, **spec})
        self._methods[node] = method
        return node

    def change(self, node: str, **facts: Any) -> None:
        """Change how a machine is."""
        path = self.folder / f"{node}.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))

    def events(self, node: str, start: str = "") -> list[str]:
        """Return the events of a machine that begin with a text."""
        return [line for line in events(self.folder, node) if line.startswith(start)]

    def wanted(self, node: str, wipe: bool = False, **machine: str) -> Wanted:
        """Return the order that a node needs."""
        facts, bmc = json.loads((self.folder / f"{node}.json").read_text()), self.bmcs[node]
        recorded = Machine(facts["serial"], "", facts["mac"], facts["disk"], bmc.fingerprint)
        values = {key: facts[key] for key in ("serial", "mac", "disk")}
        values |= {
            "node": node,
            "wipe": "yes" if wipe else "no",
            # With PXE only the order's own address may claim it.
            "address": "127.0.0.1/8" if self._methods[node] == "pxe" else "10.0.0.1/24",
            "gateway": "none",
            **machine,
        }
        target = Target(node, bmc.address, recorded=recorded)
        network = ("10.0.0.1/24", "none")
        return Wanted(
            target,
            host.IMAGE,
            self.host.image,
            self._methods[node],
            "UEFI",
            values,
            network,
            "hosts\n",
            "ssh-ed25519 A a\n",
        )

    def desk(self, call: Callable[..., Any] | None = None, **settings: Any) -> Desk:
        """Return the provision host as this process sees it."""
        values = {"window": 60, **settings}
        holder = run_holder.holder(os.getpid())
        return Desk(call or self.host.call, DeskSettings(str(self.host.folder), self.host.url, holder, **values))

    def fleet(self) -> Fleet:
        """Return the BMCs."""
        accounts = {node: Account("root", "factory-canary") for node in self.bmcs}
        return Fleet(Accounts(accounts, {}), Reach(PORT, limits=FAST))

    def plan(self, nodes: Mapping[str, Wanted], desk: Desk) -> Plan:
        """Return the plan of a run, with the machines verified."""
        wiped = [node for node, one in nodes.items() if one.wipes]
        look = desk.look(nodes)
        plan = hold(plan_of(nodes, look, wiped, desk.is_free), nodes, wiped, desk, look)
        jobs = {node: job_of(nodes[node]) for node in plan.new}
        on = {*wiped, *plan.began}
        found = self.fleet().each(
            jobs, lambda client, job: bmc_steps.verify(client, job, job.target.node in on), read_only=True
        )
        for node, one in found.items():
            if why := one.error or " ".join(one.value or ()):
                del plan.work[node]
                plan.refused[node] = why
        return plan

    def machine_run(
        self, wanted: Mapping[str, Wanted], desk: Desk, bounds: Bounds = QUICK, power_at_once: int = 0
    ) -> MachineRun:
        """Return a run that was not begun."""
        said = self.said
        return MachineRun(
            wanted,
            desk,
            self.fleet(),
            FakeSsh(self.folder),
            bounds,
            lambda node, text: said.append(f"{node}: {text}"),
            power_at_once=power_at_once,
        )

    def run(
        self,
        *nodes: str,
        wipe: Collection[str] = (),
        refused: Mapping[str, str] | None = None,
        call: Callable[..., Any] | None = None,
        bounds: Bounds = QUICK,
        closes: bool = True,
        power_at_once: int = 0,
        **settings: Any,
    ) -> MachineRun:
        """Do what provision.yml does: plan, install, close. `stopped` of the result has the nodes that the plan refuses, too."""
        wanted = {node: self.wanted(node, node in wipe) for node in nodes}
        desk = self.desk(call, **settings)
        plan = self.plan(wanted, desk)
        run = self.machine_run(wanted, desk, bounds, power_at_once)
        first = {node: plan.work[node] for node in plan.unclaimed}
        run.run(first, refused, only_arms=True)
        armed = run.progress
        ended = {node for node, one in armed.items() if node in run.stopped or one.state == "refused"}
        run.run({node: armed.get(node, one) for node, one in plan.work.items() if node not in ended})
        run.progress.update((node, armed[node]) for node in ended)
        run.stopped.update(plan.refused)
        run.progress.update(plan.known)
        if closes:
            look = desk.look(nodes)
            rows = [one.progress for one in look.nodes.values() if one.progress and one.progress.holder]
            desk.write([one for one in rows if desk.is_free(one, look.now)], look.now, keeps=False)
        return run

    def killed(self, *nodes: str, state: str, before: bool, wipe: Collection[str] = ()) -> None:
        """Run in a child that is killed before or after it writes a state of a node."""

        def call(name: str, arguments: Mapping[str, Any]) -> Any:
            hit = name == "provision_states" and any(row["state"] == state for row in arguments.get("write", ()))
            if hit and before:
                os.kill(os.getpid(), signal.SIGKILL)
            found = self.host.call(name, arguments)
            if hit or (name == "provision_orders" and state == "order" and arguments.get("arm")):
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        child = os.fork()
        if not child:
            try:
                self.run(*nodes, wipe=wipe, call=call)
            finally:
                os._exit(1)
        _pid, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"the run was not killed at {state}"

    def states(self, *nodes: str) -> dict[str, Progress | None]:
        """Return the progress on the provision host."""
        files = NodeStates(self.host.folder / "states")
        return {node: files.read(node) for node in nodes}

    def state(self, node: str) -> str:
        """Return the state of a node."""
        found = self.states(node)[node]
        return found.state if found else ""

    def is_clean(self, node: str) -> bool:
        """Return whether neither medium nor override, neither ISO nor token are left of a node's orders."""
        state = self.bmcs[node].state()
        bmc = not any(state["media"].values()) and state["boot"]["BootSourceOverrideEnabled"] == "Disabled"
        return bmc and not self.desk().look([node]).nodes[node].open and not self.files_of(node)

    def files_of(self, node: str) -> list[Path]:
        """Return what a machine could boot of its orders: media, and files for the network."""
        mac = json.loads((self.folder / f"{node}.json").read_text())["mac"]
        network = self.host.folder / "network"
        lines = [path for path in (network / "hosts").iterdir() if mac in path.read_text()]
        return [*self.media_of(node), *lines, *(network / "tftp").glob(f"{mac.replace(':', '-')}*")]

    def media_of(self, node: str) -> list[Path]:
        """Return the media of a node's orders that exist."""
        found = []
        for note in (self.host.folder / "orders/orders").glob("*/note-medium"):
            if json.loads((note.parent / "order.json").read_text())["node"] == node:
                path = self.host.folder / "served" / note.read_text()[1:]
                found += [path] if path.exists() else []
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One world for the tests of a file; each test has machines of its own."""
    with services(tmp_path_factory.mktemp("world")) as given:
        yield World(given.machines, given.host, given.simulation)
