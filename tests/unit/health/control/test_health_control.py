"""The program around the limiter: what is written before a change, what is not counted, and what stops what."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control import control_settings, shared_folder
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.cluster_view import ViewError, node_state
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.health_control import Controller, main
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.limiter import (
    DRAIN,
    RESUME,
    REWRITE,
    Action,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.limiter_memory import Memory
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.slurm_link import SlurmLink
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.acting import Controllers, View
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import read
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.pings import Ping

from .clusters import CAPS, NOW, OK, ours, report

NAMES = [f"n{number}" for number in range(1, 41)]
RESET, STOPPED = report("reset", "xid-79"), report("cannot-run", "gpu-lost")


class FakeSlurm(SlurmLink):
    """Answer sinfo and scontrol from a table of state, Extra and reason; `refuse` returns the outcome of an update, or None."""

    def __init__(self) -> None:
        super().__init__(Path("/none/slurm.conf"))
        self.nodes = {name: ["idle", OK, "none"] for name in NAMES}
        self.updates: list[list[str]] = []
        self.rows = ""
        self.acting = True
        self.before_look: Callable[[str], object] = lambda _name: None
        self.refuse: Callable[[list[str]], Outcome | None] = lambda _words: None

    def is_acting(self) -> bool:
        return self.acting

    def _run(self, argv: Any) -> Outcome:
        words = list(argv)
        if words[0] == "sinfo":
            rows = ("\x1f".join((name, words[0], words[1], words[2])) for name, words in self.nodes.items())
            return Outcome(0, "".join(f"{row}\x1e\n" for row in rows) + self.rows, "")
        if words[1] == "--oneliner":
            self.before_look(words[-1])
            state, _extra, reason = self.nodes[words[-1]]
            shown = f" Reason={reason} [root@2026-01-01T00:00:00]" if reason != "none" else ""
            return Outcome(0, f"NodeName={words[-1]} State={state.upper()}{shown}\n", "")
        refused = self.refuse(words)
        if refused is None:
            self.updates.append(words[2:])
            self._change(words[2].partition("=")[2], words[3:])
        return refused or Outcome(0, "", "")

    def _change(self, name: str, words: list[str]) -> None:
        for word in words:
            key, _equals, value = word.partition("=")
            if key == "Reason":
                self.nodes[name][2] = value
            elif value == "DRAIN":
                self.nodes[name][0] = "idle+drain"
            else:
                self.nodes[name][0], self.nodes[name][2] = "idle", "none"

    def drained(self) -> list[str]:
        return [name for name, words in self.nodes.items() if "drain" in words[0]]


class Site:
    """A controller with a clock and a timer that a test moves."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.slurm = folder / "shared", FakeSlurm()
        self.now, self.seconds = NOW, 0.0
        self.text = folder / "x.prom"
        self.controller = self.again()

    def again(self, **data: Any) -> Controller:
        every = ",".join(NAMES)
        settings = {
            **{"tick": 20, "dry_run_until": "2026-01-01", "resume": "transient", "textfile": str(self.text)},
            "caps": {**CAPS, "cluster": 50, "nodes": 30, "partition": 60, "rack": 60},
            "nodes": {"racks": {"r1": every}, "partitions": {"gpu": every}, "profiles": {"gpu8": every}},
            "state": str(self.folder),
        }
        made = control_settings.build({**settings, **data})
        self.controller = Controller(made, self.slurm, clock=lambda: self.now, timer=lambda: self.seconds)
        return self.controller

    def sick(self, *names: str, extra: str = RESET) -> None:
        for name in names:
            self.slurm.nodes[name][1] = extra

    def memory(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "memory.json").read_text())
        return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of files that cannot be written."""
    refused: list[str] = []
    real = shared_folder.atomic_write

    def write(path: Path, *words: Any, **more: Any) -> None:
        if path.name in refused:
            raise OSError(28, os.strerror(28))
        real(path, *words, **more)

    monkeypatch.setattr(shared_folder, "atomic_write", write)
    return refused


def test_a_drain_has_its_evidence_noted_first(site: Site) -> None:
    site.sick("n3")
    noted: list[str] = []
    site.slurm.refuse = lambda _words: noted.append((site.folder / "evidence.jsonl").read_text())  # type: ignore[func-returns-value]
    assert site.controller.tick() == []
    assert json.loads(noted[0])["node"] == "n3"
    assert site.memory()["drains"] == [NOW]
    found = read(site.slurm.nodes["n3"][2])
    assert found
    assert (found.kind, found.run) == ("health", "limiter")


def test_the_journal_has_actions_and_holds_once(site: Site) -> None:
    """The alerts send the people on call to the journal."""
    site.sick("n1", "n2", "n3")
    chosen = {**CAPS, "cluster": 100, "partition": 100, "rack": 5}
    controller = site.again(caps=chosen)
    assert controller.tick() == []
    assert controller.news == [
        "drain n1: reset xid-79 ev=ab12cd34",
        "drain n2: reset xid-79 ev=ab12cd34",
        "held n3 (reset): cap rack r1: 2 of 2 unavailable",
    ]
    assert controller.tick() == []
    assert controller.news == []
    site.again(caps=chosen, dry_run_until=None).tick()
    assert site.controller.news == ["dry run: held n3 (reset): cap rack r1: 2 of 2 unavailable"]


def test_a_controller_that_is_not_in_charge_does_nothing(site: Site) -> None:
    site.sick("n3")
    site.slurm.acting = False
    assert site.controller.tick() == []
    assert site.slurm.updates == []
    assert "bedplate_health_control_acting 0" in site.text.read_text()
    assert not site.folder.exists()


def test_a_second_process_does_nothing(site: Site) -> None:
    site.sick("n3")
    with site.controller.folder.alone():
        (problem,) = site.again().tick()
    assert "another process" in problem
    assert site.slurm.updates == []
    assert site.controller.tick() == []
    assert site.slurm.drained() == ["n3"]


def test_a_node_that_changed_is_left_and_costs_no_token(site: Site) -> None:
    site.sick("n3", "n4")

    def person(name: str) -> None:
        if name == "n3":
            site.slurm.nodes["n3"] = ["idle+drain", RESET, "mine"]

    site.slurm.before_look = person
    (problem,) = site.controller.tick()
    assert "n3: changed by others" in problem
    assert site.slurm.nodes["n3"][2] == "mine"
    assert site.memory()["drains"] == [NOW]


def test_a_node_that_slurm_does_not_show_starves_no_other(site: Site) -> None:
    site.sick("n3")
    site.slurm.refuse = lambda words: Outcome(1, "", "Invalid node name") if words[2] == "NodeName=n3" else None
    for _ in range(30):
        assert any("n3" in problem for problem in site.controller.tick())
        site.now += 20
    site.sick("n9")
    site.controller.tick()
    assert site.slurm.drained() == ["n9"]


@pytest.mark.parametrize(
    "outcome", [Outcome(None, "", ""), Outcome(1, "", "slurm_update error: Socket timed out on send/recv operation")]
)
def test_a_change_that_may_be_made_counts_and_ends_the_tick(site: Site, outcome: Outcome) -> None:
    site.sick("n3", "n4", "n5")
    site.slurm.refuse = lambda _words: outcome
    problems = site.controller.tick()
    assert [problem for problem in problems if "2 changes wait" in problem]
    assert site.memory()["drains"] == [NOW]


def test_a_resume_that_was_not_made_is_no_resume(site: Site) -> None:
    site.slurm.nodes["n3"] = ["idle+drain", OK, ours("transient ib")]
    site.controller.tick()
    site.slurm.refuse = lambda _words: Outcome(1, "", "no")
    for _ in range(5):
        site.now += 200
        site.controller.tick()
    assert site.memory()["resumes"] == []
    site.slurm.refuse = lambda _words: None
    site.controller.tick()
    assert site.slurm.drained() == []
    assert len(site.memory()["resumes"]) == 1


@pytest.mark.parametrize("drained", [["idle", RESET, "none"], ["idle+drain", RESET, "Kill task failed"]])
def test_a_person_who_resumes_a_node_before_the_next_tick_is_not_overruled(site: Site, drained: list[str]) -> None:
    site.slurm.nodes["n3"] = drained
    assert site.controller.tick() == []
    assert site.slurm.drained() == ["n3"]
    site.slurm.nodes["n3"] = ["idle", RESET, "none"]
    site.now += 20
    assert site.again().tick() == []
    assert site.slurm.drained() == []


def test_a_drain_that_was_not_made_is_no_decision_of_a_person(site: Site) -> None:
    site.sick("n3")
    site.slurm.refuse = lambda _words: Outcome(1, "", "no")
    site.controller.tick()
    site.slurm.refuse = lambda _words: None
    assert site.controller.tick() == []
    assert site.slurm.drained() == ["n3"]


def test_a_slow_slurmctld_ends_the_tick_in_time(site: Site) -> None:
    site.sick("n3", "n4", "n5")

    def slow(_name: str) -> None:
        site.seconds += 40

    site.slurm.before_look = slow
    assert "1 changes wait" in site.controller.tick()[0]
    assert len(site.slurm.drained()) == 2
    assert len(site.memory()["drains"]) == 2
    assert site.controller.tick() == []
    assert len(site.slurm.drained()) == 3


def test_on_a_full_disk_only_nodes_that_run_nothing_are_drained(site: Site, full_disk: list[str]) -> None:
    site.sick("n3")
    site.sick("n4", extra=STOPPED)
    site.slurm.nodes["n5"] = ["idle+drain", OK, ours("transient ib")]
    site.controller.tick()
    assert site.slurm.drained() == ["n3", "n4", "n5"]
    for name in ("n3", "n4"):
        site.slurm.nodes[name] = ["idle", OK, "none"]
    site.controller.tick()
    full_disk += ["memory.json", "evidence.jsonl", "status.json"]
    site.now += 200
    site.sick("n13")
    site.sick("n14", extra=STOPPED)
    problems = site.controller.tick()
    assert [part for part in ("memory", "n13", "n14", "status") if not any(part in one for one in problems)] == []
    assert site.slurm.drained() == ["n14"]
    assert 'bedplate_health_control_problem{part="action"} 1' in site.text.read_text()


def test_the_rate_holds_while_the_memory_cannot_be_saved(site: Site, full_disk: list[str]) -> None:
    full_disk.append("memory.json")
    for number in range(1, 41):
        site.sick(f"n{number}", extra=report("cannot-run", f"c{number}"))
    for _ in range(5):
        assert "memory" in site.controller.tick()[0]
        site.now += 20
    assert len(site.slurm.drained()) == CAPS["drains"]


def test_a_text_file_that_cannot_be_written_is_a_problem_and_stops_nothing(site: Site) -> None:
    site.sick("n3")
    site.text.touch()
    path = f"{site.text}/x.prom"
    (problem,) = site.again(textfile=path).tick()
    assert problem.startswith(f"{path}: ")
    assert site.slurm.drained() == ["n3"]


def test_a_text_file_is_written_before_node_exporter_is_installed(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "node-exporter/texts/x.prom"
    assert site.again(textfile=str(path)).tick() == []
    assert "bedplate_health_control_acting 1\n" in path.read_text()
    assert path.parent.stat().st_mode & 0o777 == 0o755


def test_unreadable_rows_are_a_problem(site: Site) -> None:
    site.slurm.rows = "n1\x1fidle\x1e\n"
    (problem,) = site.controller.tick()
    assert "n1" in problem
    assert json.loads((site.folder / "status.json").read_text())["unreadable"] == ["n1"]


def test_a_damaged_index_of_evidence_goes_on(site: Site) -> None:
    site.sick("n3")
    site.folder.mkdir()
    (site.folder / "evidence.jsonl").write_bytes(b"\xff\xfe\n" * 6000)
    assert site.controller.tick() == []
    lines = (site.folder / "evidence.jsonl").read_text().splitlines()
    assert (len(lines), json.loads(lines[-1])["node"]) == (5000, "n3")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root works as another user")
def test_files_belong_to_the_owner_of_the_state(site: Site) -> None:
    # pytest's own folders are closed to other users.
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o700)
        os.chown(name, 12345, 12345)
        site.folder = Path(name) / "bedplate-health"
        site.sick("n3")
        assert site.again().tick() == []
        owners = {path.name: path.stat().st_uid for path in (site.folder, *site.folder.iterdir())}
    assert set(owners.values()) == {12345}
    assert {"memory.json", "status.json", "evidence.jsonl", "lock"} <= set(owners)
    assert os.geteuid() == 0


@pytest.mark.parametrize("until", [None, "2099-01-01"])
def test_a_dry_run_changes_nothing(site: Site, until: str | None) -> None:
    site.sick("n3")
    site.slurm.nodes["n5"][2] = "Prolog error"
    controller = site.again(dry_run_until=until)
    for _ in range(3):
        assert controller.tick() == []
    assert site.slurm.updates == []
    assert not (site.folder / "evidence.jsonl").exists()
    assert "bedplate_health_control_dry_run 1" in site.text.read_text()


def test_the_day_of_the_date_acts(site: Site) -> None:
    site.sick("n3")
    today = date.fromtimestamp(NOW)
    controller = site.again(dry_run_until=(today + timedelta(days=1)).isoformat())
    assert controller.tick() == []
    assert site.slurm.drained() == []
    site.now += 86400
    assert controller.tick() == []
    assert site.slurm.drained() == ["n3"]


def test_figures_count_what_was_made(site: Site) -> None:
    site.sick("n3", "n4")
    site.slurm.nodes["n5"] = ["idle+drain", OK, ours("transient ib")]
    site.slurm.nodes["n6"] = ["idle+drain", STOPPED, "Prolog error"]
    site.slurm.refuse = lambda words: Outcome(1, "", "no") if words[2] == "NodeName=n4" else None
    site.controller.tick()
    site.now += 200
    site.controller.tick()
    text = site.text.read_text()
    assert 'bedplate_health_control_drains_total{class="reset"} 1' in text
    assert "bedplate_health_control_resumes_total 1" in text
    assert "cannot-run" not in text


def test_the_memory_on_disk_counts_again_once_it_can_be_saved(site: Site, full_disk: list[str]) -> None:
    full_disk.append("memory.json")
    site.controller.tick()
    full_disk.clear()
    site.controller.tick()
    (site.folder / "memory.json").write_text(Memory(drains=[NOW] * CAPS["drains"]).text())
    site.sick("n3")
    assert site.controller.tick() == []
    assert site.slurm.drained() == []


def test_a_memory_that_cannot_be_read_now_stops_the_tick(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.controller.tick()
    site.sick("n3")

    def stale(_path: Path, **_words: Any) -> str:
        raise OSError(errno.ESTALE, "Stale file handle")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", stale)
        (problem,) = site.controller.tick()
    assert "Stale file handle" in problem
    assert site.slurm.drained() == []
    assert site.controller.tick() == []
    assert site.slurm.drained() == ["n3"]


class TestLink:
    """Commands with answers that a test chooses."""

    def link(self, **outcomes: Outcome) -> SlurmLink:
        class Answering(SlurmLink):
            def _run(self, argv: Any) -> Outcome:
                return outcomes[argv[0]]

        return Answering(Path("/none/slurm.conf"))

    def test_a_failed_sinfo_is_no_cluster(self) -> None:
        for code in (1, None):
            with pytest.raises(ViewError):
                self.link(sinfo=Outcome(code, "n1\x1fidle\x1f\x1fnone\x1e\n", "slurm_load_node: timed out")).view()

    @pytest.mark.parametrize(
        "outcome",
        [
            Outcome(1, "NodeName=n1 State=IDLE\n", "no"),
            Outcome(0, "", ""),
            Outcome(0, "NodeName=n2 State=IDLE\n", ""),
            Outcome(0, "NodeName=n1 CPUs=2\n", ""),
        ],
    )
    def test_a_node_that_cannot_be_read_again_is_not_changed(self, outcome: Outcome) -> None:
        action = Action(DRAIN, node_state("n1", "idle", RESET, ""), "reset xid-79")
        result = self.link(scontrol=outcome).apply(action)
        assert (bool(result.problem), result.may_be_made) == (True, False)

    @pytest.mark.parametrize(("boot", "is_made"), [(50, True), (70, False), (-9999, True), (None, True)], ids=str)
    def test_a_report_of_an_earlier_boot_drains_no_node(self, boot: int | None, is_made: bool) -> None:
        time = datetime.fromtimestamp(NOW + boot).isoformat() if boot else None
        shown = Outcome(0, f"NodeName=n1 State=IDLE BootTime={time} Comment=x\n", "")
        action = Action(DRAIN, node_state("n1", "idle", report("reset", "xid-79", time=int(NOW)), ""), "reset xid-79")
        result = self.link(scontrol=shown).apply(action)
        assert (result.problem == "", result.may_be_made) == (is_made, is_made)

    def test_a_rewrite_changes_no_state_and_a_resume_no_reason(self) -> None:
        node = node_state("n1", "idle+drain", RESET, "Prolog error")
        link = self.link()
        assert [word.partition("=")[0] for word in link.argv(Action(REWRITE, node, "reset x"))[2:]] == [
            "NodeName",
            "Reason",
        ]
        assert link.argv(Action(RESUME, node, "x"))[2:] == ["NodeName=n1", "State=RESUME"]
        assert link.argv(Action(DRAIN, node, "reset x"))[3] == "State=DRAIN"

    @pytest.mark.parametrize(
        ("acting", "is_acting"), [("ctl1", True), ("ctl1.site", True), ("ctl2", False), ("", False)]
    )
    def test_only_the_controller_in_charge_acts(
        self, monkeypatch: pytest.MonkeyPatch, acting: str, is_acting: bool
    ) -> None:
        monkeypatch.setattr("socket.gethostname", lambda: "ctl1.site")
        monkeypatch.setattr(Controllers, "look", lambda _self: View((Ping(acting, True, True),) if acting else ()))
        assert SlurmLink(Path("/none/slurm.conf")).is_acting() is is_acting


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"caps": {"cluster": 0}}'])
def test_settings_with_a_mistake_stop_the_program(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    assert main([str(path), "--once"]) == 1
