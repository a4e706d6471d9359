"""The controller's program on a real slurmctld: a wrong profile, an XID beside it, persons, prologs, and restarts of slurmctld."""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control import control_settings
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.cluster_view import (
    FOREIGN,
    OURS,
    ClusterView,
    ViewError,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.health_control import Controller
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.slurm_link import SlurmLink
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.node_extra import NodeReport, merged
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import read, written
from tests.unit.slurm.nodes.real_slurm import RealSlurm

from .clusters import CAPS, OK, report

pytestmark = [pytest.mark.daemons, pytest.mark.tools("slurmctld", "slurmd", "scontrol", "sbatch", "sinfo")]
PROGRAM = "ansible_collections.bedplate.cluster.plugins.module_utils.health.control.health_control"
ROOT = Path(__file__).parents[4]
FEW = int(os.environ.get("BEDPLATE_SLURMD", "20"))


class Link(SlurmLink):
    """slurmctld runs on this machine under the name localhost."""

    def is_acting(self) -> bool:
        return self.controllers().look().acting in ("localhost", socket.gethostname())


class Bench:
    """A real cluster of nodes in racks of ten, and its controller with a clock that a test may move."""

    def __init__(self, slurm: RealSlurm, folder: Path, **caps: int) -> None:
        self.slurm, self.folder = slurm, folder
        self.later = 0.0
        names = slurm.names
        racks = {f"r{number // 10 + 1}": ",".join(names[number : number + 10]) for number in range(0, len(names), 10)}
        every = ",".join(names)
        self.data: dict[str, Any] = {
            **{"tick": 20, "dry_run_until": "2026-01-01", "resume": "transient", "textfile": str(folder / "x.prom")},
            "caps": {**CAPS, **caps},
            "nodes": {"racks": racks, "partitions": {"gpu": every}, "profiles": {"gpu8": every}},
            "state": str(folder / "shared"),
        }

    def controller(self, **data: Any) -> Controller:
        settings = control_settings.build({**self.data, **data})
        return Controller(settings, Link(self.slurm.conf), clock=lambda: time.time() + self.later)

    def say(self, names: Sequence[str], extra: str) -> None:
        assert self.slurm.scontrol("update", f"nodename={','.join(names)}", f"extra={extra}") == ""

    def view(self) -> ClusterView:
        return Link(self.slurm.conf).view()

    def owned(self, owner: str) -> list[str]:
        return [name for name, node in self.view().nodes.items() if node.owner == owner]

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "shared/status.json").read_text())
        return found


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    with RealSlurm(tmp_path_factory.mktemp("slurm"), [f"n{number}" for number in range(1, FEW + 1)]) as found:
        yield found


@pytest.fixture
def bench(slurm: RealSlurm, tmp_path: Path) -> Bench:
    made = Bench(slurm, tmp_path)
    made.say(slurm.names, OK)
    out = [name for name, node in made.view().nodes.items() if node.states & {"DRAIN", "DOWN"}]
    if out:
        slurm.scontrol("update", f"nodename={','.join(out)}", "state=resume")
    slurm.until(lambda nodes: all(node.states == {"IDLE"} for node in nodes.values()), 30)
    return made


XID = report("reset", "xid-79@0000:3b:00.0", time=int(time.time()), jobs=(4711,))
WRONG = report("cannot-run", "gpu-count-pci", time=int(time.time()))


def test_an_xid_is_drained_at_the_next_tick_and_the_evidence_is_noted_before(bench: Bench) -> None:
    bench.say(["n3"], XID)
    assert bench.controller().tick() == []
    node = bench.view().nodes["n3"]
    assert node.owner == OURS
    found = read(node.reason)
    assert found
    assert (found.kind, found.text) == ("health", "reset xid-79@0000:3b:00.0 job=4711 ev=ab12cd34")
    (row,) = [json.loads(line) for line in (bench.folder / "shared/evidence.jsonl").read_text().splitlines()]
    assert (row["node"], row["evidence"], row["jobs"]) == ("n3", "ab12cd34", [4711])
    assert bench.controller().tick() == []
    assert bench.status()["actions"] == []


def test_a_wrong_profile_on_all_nodes_drains_none_and_an_xid_beside_it_is_drained(bench: Bench) -> None:
    assert bench.slurm.scontrol("update", "nodename=n2", "state=drain", "reason=fan is loud") == ""
    bench.say(bench.slurm.names, WRONG)
    controller = bench.controller()
    assert controller.tick() == []
    assert bench.owned(OURS) == []
    assert [one["kind"] for one in bench.status()["pages"]] == ["suspect-check"]
    both = report("cannot-run", "gpu-count-pci", "xid-79@0000:3b:00.0", time=int(time.time()))
    bench.say(["n7"], both)
    start = time.monotonic()
    assert controller.tick() == []
    assert time.monotonic() - start < 60
    assert bench.owned(OURS) == ["n7"]
    bench.later = 5000
    assert controller.tick() == []
    assert bench.owned(OURS) == ["n7"]
    assert bench.view().nodes["n2"].reason == "fan is loud"


def test_a_person_who_drains_and_edits_keeps_the_node(bench: Bench) -> None:
    bench.say(["n3", "n14"], XID)
    assert bench.slurm.scontrol("update", "nodename=n14", "state=drain", "reason=mine") == ""
    controller = bench.controller(caps={**CAPS, "cluster": 50})
    assert controller.tick() == []
    assert bench.owned(OURS) == ["n3"]
    assert bench.slurm.scontrol("update", "nodename=n3", "reason=mine, see ticket 7") == ""
    bench.say(["n3", "n14"], OK)
    bench.later = 5000
    assert controller.tick() == []
    assert sorted(bench.owned(FOREIGN)) == ["n14", "n3"]
    assert {bench.view().nodes[name].reason for name in ("n3", "n14")} == {"mine", "mine, see ticket 7"}


def test_a_node_in_maintenance_is_left_and_counts(bench: Bench) -> None:
    slurm = bench.slurm
    flags = ("starttime=now", "duration=60", "users=root", "flags=maint,ignore_jobs", "reservationname=repair")
    assert "created" in slurm.scontrol("create", "reservation", "nodes=n3,n14", *flags)
    try:
        slurm.until(lambda nodes: all("MAINTENANCE" in nodes[name].states for name in ("n3", "n14")), 30)
        bench.say(["n3"], XID)
        assert bench.controller().tick() == []
        assert sorted(bench.owned(FOREIGN)) == ["n14", "n3"]
        assert bench.status()["unavailable"] == 2
    finally:
        slurm.scontrol("delete", "reservationname=repair")
        slurm.until(lambda nodes: all("MAINTENANCE" not in node.states for node in nodes.values()), 30)


def test_a_node_that_a_roll_has_resumed_is_drained_for_its_finding(bench: Bench) -> None:
    """Without accounting storage the reason of the roll may stay on the node in service."""
    reason = f"reason={written('roll', 'r1', 'driver')}"
    assert bench.slurm.scontrol("update", "nodename=n3", "state=drain", reason) == ""
    bench.say(["n3"], XID)
    controller = bench.controller()
    assert controller.tick() == []
    assert bench.owned(OURS) == []
    assert bench.slurm.scontrol("update", "nodename=n3", "state=resume") == ""
    bench.slurm.until(lambda nodes: nodes["n3"].states == {"IDLE"}, 30)
    assert controller.tick() == []
    assert bench.owned(OURS) == ["n3"]


def test_a_node_that_changes_between_look_and_act_is_left(bench: Bench) -> None:
    bench.say(["n3"], XID)
    controller = bench.controller()
    _view, decision = controller.plan()
    (action,) = decision.actions
    assert bench.slurm.scontrol("update", "nodename=n3", "state=drain", "reason=mine") == ""
    assert "changed by others" in controller.link.apply(action).problem
    assert bench.view().nodes["n3"].reason == "mine"


def test_a_transient_finding_ends_and_the_node_returns(bench: Bench) -> None:
    bench.say(["n3"], report("transient", "ib-link-downed@mlx5_0/1", status="warn", time=int(time.time())))
    controller = bench.controller()
    controller.tick()
    assert bench.owned(OURS) == ["n3"]
    bench.say(["n3"], merged("", NodeReport("ok", "", (), int(time.time()), "5f2c1a90")))
    controller.tick()
    assert bench.owned(OURS) == ["n3"]
    bench.later = 200
    assert controller.tick() == []
    assert bench.owned(OURS) == []
    assert "DRAIN" not in bench.view().nodes["n3"].states


def test_a_failed_prolog_gets_the_reason_of_its_finding(bench: Bench) -> None:
    assert bench.slurm.scontrol("update", "nodename=n3", "state=drain", "reason=Prolog error") == ""
    bench.say(["n3"], report("cannot-run", "gpu-lost@0000:3b:00.0", time=int(time.time())))
    assert bench.controller().tick() == []
    assert bench.owned(OURS) == ["n3"]


@pytest.mark.parametrize("until", [None, "2099-01-01"])
def test_a_dry_run_changes_nothing_and_shows_all(bench: Bench, until: str | None) -> None:
    bench.say(["n3"], XID)
    before = bench.view()
    assert bench.controller(dry_run_until=until).tick() == []
    assert bench.view() == before
    assert [one["node"] for one in bench.status()["actions"]] == ["n3"]
    assert bench.status()["acts"] is False
    assert "bedplate_health_control_dry_run 1" in (bench.folder / "x.prom").read_text()


def test_two_controllers_drain_a_node_once(bench: Bench) -> None:
    bench.say(["n3", "n14"], XID)
    one, two = bench.controller(), bench.controller()
    with one.folder.alone() as first, two.folder.alone() as second:
        assert (first, second) == (True, False)
    assert one.tick() == []
    assert two.tick() == []
    assert two.totals == {}
    assert len(bench.owned(OURS)) == 2


def program(bench: Bench, *words: str, until: str | None = "2026-01-01", **variables: str) -> command.Daemon:
    """Start the program as the unit does. Its machine has the name that slurm.conf gives the controller."""
    settings = bench.folder / "settings.json"
    settings.write_text(json.dumps({**bench.data, "tick": 1, "dry_run_until": until}))
    root = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    argv = (
        *("unshare", *root, "--uts", "sh", "-c", 'hostname localhost && exec "$@"', "sh"),
        *(sys.executable, "-S", "-m", PROGRAM, str(settings), "--conf", str(bench.slurm.conf), *words),
    )
    environment = {**variables, "PYTHONPATH": f"{ROOT}/collections", "SINFO_PARTITION": "none", "SINFO_FORMAT": "%N"}
    return command.Daemon(argv, bench.folder / "out", cwd=bench.folder, environment=environment)


def test_the_program_reports_its_ticks_drains_and_ends(bench: Bench) -> None:
    bench.say(["n3"], XID)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(bench.folder / "notify"))
        notified.settimeout(30)
        with program(bench, NOTIFY_SOCKET=str(bench.folder / "notify")) as started:
            for _ in range(2):
                assert notified.recv(99) == b"READY=1\nWATCHDOG=1"
            assert bench.owned(OURS) == ["n3"]
            started.process.terminate()
            assert started.process.wait(10) == 0
    assert (bench.folder / "out").read_text() == "drain n3: reset xid-79@0000:3b:00.0 job=4711 ev=ab12cd34\n"
    assert "bedplate_health_control_acting 1" in (bench.folder / "x.prom").read_text()


def test_a_plan_changes_nothing_and_one_tick_acts(bench: Bench) -> None:
    bench.say(["n3"], XID)
    before = bench.view()
    with program(bench, "--plan") as started:
        assert started.process.wait(30) == 0
    assert [one["node"] for one in json.loads((bench.folder / "out").read_text())["actions"]] == ["n3"]
    assert bench.view() == before
    assert not (bench.folder / "shared").exists()
    with program(bench, "--once") as started:
        assert started.process.wait(30) == 0
    assert bench.owned(OURS) == ["n3"]


def test_a_hostile_report_of_one_node_stops_no_drain_of_another(bench: Bench) -> None:
    bench.say(["n3"], report("cannot-run", "xid-79\\x00 \ud800|\n[x], " * 9, time=int(time.time())))
    bench.say(["n4"], '{"bp":' + '{"a":' * 300 + "1" + "}" * 301)
    bench.say(["n14"], XID)
    assert bench.controller().tick() == []
    assert bench.owned(OURS) == ["n3", "n14"]
    assert bench.controller().tick() == []
    assert bench.status()["actions"] == []


def test_a_slurmctld_that_does_not_answer_is_no_empty_cluster(bench: Bench) -> None:
    bench.slurm.kill("slurmctld")
    try:
        with pytest.raises(ViewError):
            bench.view()
        assert bench.controller().tick() == []
    finally:
        bench.slurm.start_controller()
        bench.slurm.until(lambda nodes: all(node.answers for node in nodes.values()), 60)
    assert not (bench.folder / "shared/status.json").exists()


LOOSE = {**CAPS, "drains": 999, "cluster": 30, "nodes": 999, "partition": 40, "rack": 50}


def steps(bench: Bench, count: int, seed: int) -> int:
    """Let nodes, persons and restarts change the cluster at random; return how many drains were made. Caps hold after each tick."""
    chance = random.Random(seed)
    names, mine, drains = bench.slurm.names, dict[str, str](), 0
    controller = bench.controller(caps=LOOSE)
    most = max(1, len(names) * LOOSE["cluster"] // 100)
    for _ in range(count):
        change(bench, chance, mine)
        if chance.random() < 0.1:
            controller = bench.controller(caps=LOOSE)
        bench.later += chance.choice([20, 20, 20, 300, 4000])
        before = bench.view()
        # slurmd answers at any time: a node that has changed since it was judged is decided in the next tick.
        assert [
            one for one in controller.tick() if not one.endswith("changed by others since it was judged; skipped")
        ] == []
        after = bench.view()
        new = [one for one, node in after.nodes.items() if node.owner == OURS and not before.nodes[one].is_unavailable]
        assert not new or len(after.unavailable) <= most, (new, after.unavailable)
        assert {one: after.nodes[one].reason for one in mine} == mine
        drains += len(new)
    return drains


def change(bench: Bench, chance: random.Random, mine: dict[str, str]) -> None:
    """Make one change by chance: some nodes report, a person drains or resumes one, slurmctld restarts. `mine`: reasons of persons."""
    some, name, what = chance.sample(bench.slurm.names, 3), chance.choice(bench.slurm.names), chance.random()
    if what < 0.45:
        health_class, check = (
            chance.choice(["cannot-run", "rma", "reset", "degraded", "transient"]),
            chance.randrange(9),
        )
        bench.say(some, report(health_class, f"check-{check}", time=int(time.time()) + chance.randrange(9999)))
    elif what < 0.65:
        bench.say(some, OK)
    elif what < 0.75:
        mine[name] = f"mine {chance.randrange(99)}"
        bench.slurm.scontrol("update", f"nodename={name}", "state=drain", f"reason={mine[name]}")
    elif what < 0.95:
        for one in (name, *mine):
            bench.slurm.scontrol("update", f"nodename={one}", "state=resume")
        mine.clear()
    else:
        bench.slurm.kill("slurmctld")
        bench.slurm.start_controller()
        every = len(bench.slurm.names)
        bench.slurm.until(lambda nodes: len(nodes) == every and all(one.answers for one in nodes.values()), 60)
        # A slurmctld that is killed loses what it has not saved yet.
        now = bench.view().nodes
        for one in [one for one, reason in mine.items() if now[one].reason != reason]:
            del mine[one]


def test_any_order_of_reports_persons_and_restarts(bench: Bench) -> None:
    assert steps(bench, 25, seed=7) > 0


@pytest.mark.full_health
@pytest.mark.parametrize("seed", range(4))
def test_two_hundred_steps(bench: Bench, seed: int) -> None:
    assert steps(bench, 50, seed) > 0
