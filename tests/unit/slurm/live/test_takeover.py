# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps that put a controller in charge, and each reason not to take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.acting import Controllers, View
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.pings import Ping
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.takeover import Takeover, TakeoverError
from ansible_collections.bedplate.cluster.plugins.modules import slurm_takeover
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.takeover_variables import mistakes
from tests.kit.module import Module, result_of

START = "systemctl start slurmctld.service"
TAKE = "scontrol takeover 1"


class Pair:
    """ctl1 and ctl2 as Slurm behaves: a primary that starts takes the control back, a takeover ends the primary's slurmctld."""

    def __init__(self, acting: int, *, running: Sequence[bool] = (True, True), cut_off: bool = False) -> None:
        self.acting, self.running, self.cut_off = acting, list(running), cut_off
        self.delay, self.now = 3.0, 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.commands: list[str] = []
        self.fails: dict[str, Outcome] = {}
        self.unmounted = False
        """Whether no machine can read the heartbeat."""
        self.dead = False
        """Whether what was started comes up."""

    def look_from(self, me: int) -> View:
        up = [self.running[n] and (n == me or not self.cut_off) for n in (0, 1)]
        serves = any(up[n] and n == self.acting for n in (0, 1))
        return View((Ping("ctl1", up[0], True), Ping("ctl2", up[1])), serves, None if self.unmounted else self.acting)

    def on(self, me: int, check: bool = False) -> Takeover:
        pair = self

        class Watcher:
            def look(self) -> View:
                return pair.look_from(me)

            def watched(self, view: View) -> View:
                return replace(view, beats=pair.running[pair.acting])

        def run(argv: Sequence[str], _seconds: float) -> Outcome:
            line = " ".join(argv)
            if "is-active" in argv:
                return Outcome(0 if pair.running[me] else 3, "", "")
            pair.commands.append(line)
            if line in pair.fails:
                return pair.fails[line]
            if not pair.dead:
                pair.due.append((pair.now + pair.delay, (lambda: pair.start(me)) if line == START else pair.take))
            return Outcome(0, "", "")

        return Takeover(f"ctl{me + 1}", Watcher(), 60, check, run, self.sleep, lambda: self.now)

    def start(self, me: int) -> None:
        self.running[me] = True
        self.acting = 0 if me == 0 else self.acting

    def take(self) -> None:
        self.acting, self.running[0] = 1, False

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for one in [one for one in self.due if one[0] <= self.now]:
            self.due.remove(one)
            one[1]()


def test_the_primary_is_started_and_takes_the_control_back():
    pair = Pair(1, running=(False, True))
    takeover = pair.on(0)
    before, after = takeover.take()
    assert (before.acting, after.acting, takeover.actions) == ("ctl2", "ctl1", [START])
    assert after.is_up("ctl2")
    again = pair.on(0)
    assert (again.take()[1].acting, again.actions) == ("ctl1", [])


def test_a_standby_takes_the_control_from_the_primary():
    pair = Pair(0)
    takeover = pair.on(1)
    before, after = takeover.take()
    assert (before.acting, after.acting, takeover.actions) == ("ctl1", "ctl2", [TAKE])
    again = pair.on(1)
    assert (again.take()[1].acting, again.actions) == ("ctl2", [])


def test_a_stopped_standby_is_started_before_it_takes_the_control():
    pair = Pair(0, running=(True, False))
    takeover = pair.on(1)
    assert (takeover.take()[1].acting, takeover.actions) == ("ctl2", [START, TAKE])


def test_a_standby_takes_the_control_from_a_dead_primary():
    pair = Pair(0, running=(False, True))
    takeover = pair.on(1)
    assert (takeover.take()[1].acting, takeover.actions) == ("ctl2", [TAKE])


@pytest.mark.parametrize(
    ("pair", "me", "actions"),
    [
        (Pair(1, running=(False, True)), 0, [START]),
        (Pair(0), 1, [TAKE]),
        (Pair(0, running=(True, False)), 1, [START, TAKE]),
        (Pair(0), 0, []),
    ],
)
def test_check_mode_predicts_the_commands_and_runs_none(pair: Pair, me: int, actions: list[str]):
    takeover = pair.on(me, check=True)
    takeover.take()
    assert (takeover.actions, pair.commands) == (actions, [])


@pytest.mark.parametrize(
    ("pair", "me", "other"),
    [(Pair(1, running=(False, True), cut_off=True), 0, "ctl2"), (Pair(0, cut_off=True), 1, "ctl1")],
)
@pytest.mark.parametrize("check", [True, False])
def test_a_controller_that_works_and_is_cut_off_is_never_joined_by_a_second_writer(
    pair: Pair, me: int, other: str, check: bool
):
    takeover = pair.on(me, check)
    with pytest.raises(TakeoverError, match=f"{other} does not answer .*heartbeat.*Nothing was changed"):
        takeover.take()
    assert (pair.commands, takeover.actions) == ([], [])


@pytest.mark.parametrize(
    ("pair", "me"),
    [
        (Pair(0, running=(False, False)), 1),
        (Pair(0, running=(False, True)), 1),
        (Pair(1, running=(False, True)), 0),
        (Pair(1, running=(False, True), cut_off=True), 0),
    ],
)
def test_without_the_shared_storage_no_controller_takes_the_control(pair: Pair, me: int):
    pair.unmounted = True
    with pytest.raises(TakeoverError, match=r"heartbeat in StateSaveLocation cannot be read .* Nothing was changed"):
        pair.on(me).take()
    assert pair.commands == []


def test_a_heartbeat_that_is_replaced_at_the_moment_is_read_again():
    pair = Pair(1, running=(False, True))
    pair.unmounted = True
    pair.due.append((2, lambda: setattr(pair, "unmounted", False)))
    assert pair.on(0).take()[1].acting == "ctl1"


def test_a_primary_that_does_not_come_up_is_an_error_with_what_was_seen():
    pair = Pair(1, running=(False, True))
    pair.dead = True
    with pytest.raises(TakeoverError) as error:
        pair.on(0).take()
    assert str(error.value).startswith(
        "ctl1: it is not in charge after 60 s. `scontrol ping` on ctl1: ctl1 is DOWN, ctl2 is UP; ctl2 has"
    )
    assert pair.now >= 60


def test_a_standby_that_does_not_come_up_ends_no_primary():
    """`scontrol takeover` would end the slurmctld that works, and none would take its place."""
    pair = Pair(0, running=(True, False))
    pair.dead = True
    with pytest.raises(TakeoverError, match="ctl2: its slurmctld does not answer after 60 s"):
        pair.on(1).take()
    assert (pair.commands, pair.running[0]) == ([START], True)


def test_a_takeover_that_changes_nothing_is_an_error():
    pair = Pair(0)
    pair.dead = True
    with pytest.raises(TakeoverError, match="ctl2: it is not in charge"):
        pair.on(1).take()


@pytest.mark.parametrize(("pair", "me", "line"), [(Pair(1, running=(False, True)), 0, START), (Pair(0), 1, TAKE)])
def test_a_command_that_fails_is_an_error_at_once(pair: Pair, me: int, line: str):
    pair.fails = {line: Outcome(1, "", "Job for slurmctld.service failed.\n")}
    with pytest.raises(TakeoverError, match=f"`{line}`: Job for slurmctld.service failed"):
        pair.on(me).take()
    assert pair.now == 0


def test_a_controller_that_slurm_conf_does_not_name_is_an_error():
    takeover = replace(Pair(0).on(0), name="ctl9")
    with pytest.raises(TakeoverError, match=r"ctl9: slurm.conf there names ctl1, ctl2"):
        takeover.take()


def test_a_primary_up_whose_heartbeat_is_not_written_yet_is_not_in_charge():
    pair = Pair(1)
    pair.due.append((5, lambda: pair.start(0)))
    takeover = pair.on(0)
    takeover.take()
    assert (takeover.actions, pair.now >= 5) == ([], True)


def test_a_primary_that_answers_no_query_yet_is_not_in_charge():
    pair = Pair(0)
    look = pair.look_from
    pair.look_from = lambda me: replace(look(me), serves=pair.now >= 5)  # type: ignore[method-assign]
    takeover = pair.on(0)
    takeover.take()
    assert (takeover.actions, pair.now >= 5) == ([], True)


def params(folder: Path, **more: Any) -> dict[str, Any]:
    return {"name": "ctl1", "deadline": 1, "user": "nobody", "directory": str(folder), **more}


def test_the_module_without_slurm_conf_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    result = result_of(monkeypatch, slurm_takeover, Module(params(tmp_path)))
    assert result["failed"]
    assert "playbooks/scheduler.yml" in result["msg"]


@pytest.mark.parametrize("check", [True, False])
def test_the_module_reports_a_controller_that_is_in_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: bool
):
    (tmp_path / "slurm.conf").write_text("SlurmctldTimeout=20\n")
    monkeypatch.setattr(Controllers, "look", lambda _self: Pair(0).look_from(0))
    result = result_of(monkeypatch, slurm_takeover, Module(params(tmp_path, deadline=0), check))
    assert (result["changed"], result["acting"], result["before"], result["up"]) == (
        False,
        "ctl1",
        "ctl1",
        ["ctl1", "ctl2"],
    )


@pytest.mark.parametrize(
    ("variables", "needed", "found"),
    [
        ({"takeover_by": "ctl2"}, True, []),
        ({"takeover_by": "ctl2"}, False, []),
        ({}, False, []),
        ({}, True, ["takeover_by is not set; allowed: ctl1, ctl2"]),
        ({"takeover_by": None}, True, ["takeover_by is not set; allowed: ctl1, ctl2"]),
        ({"takeover_by": "gpu01"}, True, ["takeover_by: 'gpu01' is not a controller; allowed: ctl1, ctl2"]),
        ({"takeover_by": ["ctl1"]}, True, ["takeover_by: ['ctl1'] is not a controller; allowed: ctl1, ctl2"]),
        (
            {"takeover_bye": "ctl1"},
            False,
            ["takeover_bye is not a variable of playbooks/takeover.yml; did you mean takeover_by?"],
        ),
        (
            {"takeover_of": "ctl1"},
            True,
            ["takeover_of is not a variable of playbooks/takeover.yml", "takeover_by is not set; allowed: ctl1, ctl2"],
        ),
    ],
)
def test_mistakes_in_the_variable(variables: dict[str, object], needed: bool, found: list[str]):
    given = mistakes(variables, ["ctl1", "ctl2"], needed)
    assert len(given) == len(found)
    assert all(one.startswith(start) for one, start in zip(given, found, strict=True)), given


@pytest.mark.parametrize(("controllers", "has"), [([], "has none"), (["ctl1"], "has ctl1")])
def test_a_cluster_with_one_controller_has_nobody_to_take_over(controllers: list[str], has: str):
    (found,) = mistakes({"takeover_by": "ctl1"}, controllers, needed=True)
    assert has in found
    assert mistakes({"takeover_by": "ctl1"}, controllers, needed=False) == []
