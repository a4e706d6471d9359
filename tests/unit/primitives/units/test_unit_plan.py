# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided from what systemd shows and what a task wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import (
    PROPERTIES,
    Unit,
    UnitState,
    changes,
    decide_enabled,
    decide_files,
    decide_running,
    failing,
    parse_show,
    predicted,
    read_units,
)
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
RUNNING = UnitState(
    id="a.service", load="loaded", active="active", sub="running", file="enabled", type="notify", invocation="1"
)
DOWN = UnitState(id="a.service", load="loaded", active="inactive", sub="dead", file="disabled", type="notify")
FAILED = UnitState(
    id="a.service", load="loaded", active="failed", sub="failed", file="enabled", result="exit-code", type="notify"
)
WAITING = UnitState(
    id="a.service", load="loaded", active="activating", sub="auto-restart", file="enabled", result="exit-code"
)
MASKED = UnitState(id="a.service", load="masked", file="masked")
ABSENT = UnitState(id="a.service")


def seen(**changed: Any) -> UnitState:
    return UnitState(**{**vars(RUNNING), **changed})


def show(**changed: str) -> str:
    values = dict.fromkeys(PROPERTIES, "")
    values.update(Id="a.service", LoadState="loaded", ActiveState="active", SubState="running", UnitFileState="enabled")
    values.update(
        NeedDaemonReload="no", ConditionResult="yes", ConditionTimestampMonotonic="5", NRestarts="0", CanReload="no"
    )
    return "".join(f"{name}={value}\n" for name, value in {**values, **changed}.items())


def verbs(unit: Unit, now: UnitState, check: bool = False) -> list[str]:
    decisions = [decide_files([unit], {"a.service": now}, check)]
    decisions += [decide([unit], {"a.service": now}) for decide in (decide_enabled, decide_running)]
    return [verb for decision in decisions for verb in decision.verbs]


def problems(unit: Unit, now: UnitState, check: bool = False) -> list[str]:
    decisions = [decide_files([unit], {"a.service": now}, check)]
    decisions += [decide([unit], {"a.service": now}) for decide in (decide_enabled, decide_running)]
    return [problem for decision in decisions for problem in decision.problems]


def test_show_is_read_in_the_order_asked() -> None:
    text = (
        show()
        + "\n"
        + show(Id="b.service", LoadState="not-found", ActiveState="inactive", UnitFileState="", SubState="dead")
    )
    found = parse_show(text, ["a.service", "b.service"])
    assert (found["a.service"].running, found["a.service"].absent) == (True, False)
    assert (found["b.service"].running, found["b.service"].absent) == (False, True)


def test_show_of_an_alias_is_known_by_the_name_asked() -> None:
    assert parse_show(show(Id="ssh.service"), ["sshd.service"])["sshd.service"].id == "ssh.service"


def test_show_that_leaves_out_a_unit() -> None:
    with pytest.raises(ValueError, match=r" 1 .* 2: a\.service b\.service"):
        parse_show(show(), ["a.service", "b.service"])


@pytest.mark.parametrize(
    ("changed", "field", "value"),
    [
        ({"NeedDaemonReload": "yes"}, "stale", True),
        ({"CanReload": "yes"}, "can_reload", True),
        ({"ConditionResult": "no"}, "unmet", True),
        ({"ConditionResult": "no", "ConditionTimestampMonotonic": "0"}, "unmet", False),
        ({"LoadState": "masked"}, "masked", True),
        ({"UnitFileState": "masked-runtime"}, "masked", True),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, "running", False),
        ({"ActiveState": "reloading"}, "running", True),
    ],
)
def test_what_a_property_means(changed: dict[str, str], field: str, value: bool) -> None:
    assert getattr(parse_show(show(**changed), ["a.service"])["a.service"], field) is value


@pytest.mark.parametrize(
    ("wanted", "now", "expected"),
    [
        ({"enabled": True, "state": "started"}, RUNNING, []),
        ({"enabled": False, "state": "stopped", "masked": False}, DOWN, []),
        ({"state": "stopped"}, FAILED, []),
        ({"masked": True, "state": "stopped"}, MASKED, []),
        ({"enabled": True, "state": "started"}, DOWN, ["enable", "start"]),
        ({"enabled": False, "state": "stopped"}, RUNNING, ["disable", "stop"]),
        ({"enabled": True}, seen(file="enabled-runtime"), ["enable"]),
        ({"enabled": True}, seen(file="linked"), ["enable"]),
        ({"enabled": False}, seen(file="static"), []),
        ({"state": "started"}, FAILED, ["start"]),
        ({"state": "started"}, WAITING, ["start"]),
        ({"state": "stopped"}, WAITING, ["stop"]),
        ({"state": "restarted"}, RUNNING, ["restart"]),
        ({"state": "restarted"}, DOWN, ["restart"]),
        ({"state": "reloaded"}, seen(can_reload=True), ["reload"]),
        ({"state": "reloaded"}, DOWN, ["start"]),
        ({"masked": True, "state": "stopped"}, RUNNING, ["mask", "stop"]),
        ({"masked": False, "state": "started"}, MASKED, ["unmask", "start"]),
        ({"state": "stopped"}, seen(load="not-found"), ["stop"]),
    ],
)
def test_what_is_done(wanted: dict[str, Any], now: UnitState, expected: list[str]) -> None:
    unit = Unit("a.service", **wanted)
    assert verbs(unit, now) == expected
    assert verbs(unit, now, check=True) == expected
    assert problems(unit, now) == []


@pytest.mark.parametrize("file", ["static", "indirect", "generated", "transient", "alias"])
def test_what_has_nothing_to_enable_counts_as_enabled(file: str) -> None:
    decision = decide_enabled([Unit("a.service", enabled=True)], {"a.service": seen(file=file)})
    assert (decision.verbs, decision.problems) == ({}, [])
    (note,) = decision.notes
    assert note.startswith("a.service: ")
    assert f" {file}: " in note
    sentences.check(SENTENCES, f"nothing to enable, {file}", [note])


@pytest.mark.parametrize(
    "wanted",
    [{"state": "stopped"}, {"enabled": False}, {"enabled": False, "state": "stopped"}, {"masked": False}],
)
@pytest.mark.parametrize("check", [True, False])
def test_an_absent_unit_that_is_not_to_run_is_as_wanted(wanted: dict[str, Any], check: bool) -> None:
    unit = Unit("a.service", **wanted)
    assert (verbs(unit, ABSENT, check), problems(unit, ABSENT, check)) == ([], [])
    assert decide_files([unit], {"a.service": ABSENT}, check).notes == []


@pytest.mark.parametrize("check", [True, False])
def test_an_absent_unit_can_be_masked(check: bool) -> None:
    unit = Unit("a.service", masked=True, state="stopped")
    assert (verbs(unit, ABSENT, check), problems(unit, ABSENT, check)) == (["mask"], [])


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"enabled": True, "state": "started"}, ["enable", "start"]),
        ({"state": "restarted"}, ["restart"]),
        ({"state": "reloaded"}, ["start"]),
        ({"state": "stopped", "drop_ins": {"b.conf": "[Service]\n"}}, []),
        ({}, []),
    ],
)
def test_an_absent_unit_that_is_needed(wanted: dict[str, Any], expected: list[str]) -> None:
    unit = Unit("a.service", **wanted)
    assert verbs(unit, ABSENT, check=True) == expected
    assert problems(unit, ABSENT, check=True) == []
    (note,) = decide_files([unit], {"a.service": ABSENT}, True).notes
    (problem,) = problems(unit, ABSENT)
    assert all(one.startswith("a.service: ") for one in (note, problem))
    assert "systemctl list-unit-files 'a*'" in problem
    sentences.check(SENTENCES, "a unit that does not exist", [note, problem])


@pytest.mark.parametrize("wanted", [{"state": "started"}, {"state": "restarted"}, {"enabled": True}])
def test_a_masked_unit_is_not_unmasked_unasked(wanted: dict[str, Any]) -> None:
    (problem,) = decide_files([Unit("a.service", **wanted)], {"a.service": MASKED}, False).problems
    assert problem.startswith("a.service: ")
    assert "masked: false" in problem
    sentences.check(SENTENCES, "a unit that is masked", [problem])
    assert "masked: false" in problem


def test_a_unit_that_cannot_reload() -> None:
    (problem,) = problems(Unit("a.service", state="reloaded"), RUNNING)
    assert "state: restarted" in problem
    sentences.check(SENTENCES, "a unit that cannot reload", [problem])


@pytest.mark.parametrize(
    ("unit", "now"),
    [
        (Unit("a.service", state="reloaded", drop_ins={"b.conf": "[Service]\nExecReload=/bin/true\n"}), RUNNING),
        (Unit("a.service", state="reloaded"), seen(stale=True)),
    ],
)
def test_a_unit_that_may_learn_to_reload(unit: Unit, now: UnitState) -> None:
    assert (verbs(unit, now), problems(unit, now)) == (["reload"], [])


def test_the_order_of_the_task_is_kept() -> None:
    units = [Unit(f"{name}.service", enabled=True, state="started") for name in ("munge", "mariadb", "slurmdbd")]
    now = dict.fromkeys([unit.name for unit in units], DOWN)
    assert decide_running(units, now).verbs == {"start": ["munge.service", "mariadb.service", "slurmdbd.service"]}
    assert decide_enabled(units, now).verbs == {"enable": ["munge.service", "mariadb.service", "slurmdbd.service"]}


ONESHOT = UnitState(load="loaded", active="inactive", sub="dead", result="success", type="oneshot")


@pytest.mark.parametrize(
    ("first", "last", "unmet", "expected"),
    [
        (RUNNING, RUNNING, "", None),
        (RUNNING, FAILED, "", ["failed", "exit-code"]),
        (RUNNING, WAITING, "", ["activating", "auto-restart", "exit-code"]),
        (RUNNING, seen(invocation="2"), "", []),
        (RUNNING, seen(restarts="1"), "", []),
        (ONESHOT, ONESHOT, "", None),
        (DOWN, DOWN, "", ["inactive", "dead"]),
        (DOWN, DOWN, "ConditionPathExists=/x", ["ConditionPathExists=/x", "condition: allowed"]),
        (ONESHOT, ONESHOT, "ConditionPathExists=/x", ["ConditionPathExists=/x", "condition: allowed"]),
    ],
)
def test_what_is_wrong_after_a_start(first: UnitState, last: UnitState, unmet: str, expected: list[str] | None) -> None:
    text = failing(Unit("a.service", state="started"), first, last, unmet)
    assert bool(text) == (expected is not None)
    if expected is not None:
        assert all(value in text for value in expected)
        sentences.check(SENTENCES, f"after a start: {' '.join(expected) or 'another process'}", [text])


def test_a_condition_that_may_fail() -> None:
    unit = Unit("a.service", state="started", condition="allowed")
    assert failing(unit, DOWN, DOWN, "ConditionPathExists=/x") == ""
    assert failing(unit, RUNNING, FAILED, "") != ""


def test_one_line_for_each_changed_unit() -> None:
    units = [Unit("a.service"), Unit("b.service"), Unit("c.socket"), Unit("d.service")]
    done = {"daemon-reload": [], "enable": ["a.service"], "start": ["a.service", "c.socket"], "mask": ["d.service"]}
    assert changes(units, done, ["/etc/systemd/system/c.socket.d/x.conf"]) == [
        "a.service: enabled, started",
        "c.socket: drop-ins changed, started",
        "d.service: masked",
        "systemd: configuration reloaded",
    ]
    assert changes(units, {}, []) == []


@pytest.mark.parametrize(
    ("unit", "now", "done", "expected"),
    [
        (Unit("a.service", enabled=True, state="started"), DOWN, ("enable", "start"), "enabled, active"),
        (Unit("a.service", enabled=True, state="started"), ABSENT, ("enable", "start"), "enabled, active"),
        (Unit("a.service", state="restarted"), RUNNING, ("restart",), "enabled, active (restarted)"),
        (Unit("a.service", masked=False), MASKED, ("unmask",), "unmasked, inactive"),
        (Unit("a.service", masked=False, enabled=True), MASKED, ("unmask", "enable"), "enabled, inactive"),
        (Unit("a.service", masked=True, state="stopped"), RUNNING, ("mask", "stop"), "masked, inactive"),
        (Unit("a.service", state="started"), RUNNING, (), "enabled, active (running)"),
    ],
)
def test_what_the_diff_shows(unit: Unit, now: UnitState, done: tuple[str, ...], expected: str) -> None:
    assert predicted(unit, now, {verb: ["a.service"] for verb in done}) == expected


def test_values_of_a_task() -> None:
    units, found = read_units(
        [{"name": "a.service", "enabled": None, "state": "started", "masked": None, "drop_ins": {"b.conf": ""}}]
    )
    assert found == []
    assert units == [Unit("a.service", state="started", drop_ins={"b.conf": ""})]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"name": "a"}, "name 'a'; "),
        ({"name": "-a b.service"}, "name '-a b.service'; "),
        ({}, "name None; "),
        ({"name": "a.service", "enabeld": True}, "'enabeld' 'enabled'?"),
        ({"name": "a.service", "enabled": "yes"}, "enabled 'yes'; true, false"),
        ({"name": "a.service", "state": "running"}, "state 'running'; started, stopped"),
        ({"name": "a.service", "condition": "no"}, "condition 'no'; required, allowed"),
        (
            {"name": "a.service", "state": "started", "restart_after": "/etc/a"},
            "restart_after '/etc/a'; ",
        ),
        ({"name": "a.service", "state": "started", "restart_after": ["a"]}, "restart_after ['a']; "),
        (
            {"name": "a.service", "restart_after": ["/etc/a"]},
            "restart_after None state: started",
        ),
        ({"name": "a.service", "masked": True, "state": "started"}, "masked"),
        ({"name": "a.service", "state_where": {"path": "/x", "content": "1"}}, "state_where state"),
        (
            {"name": "a.service", "state": "started", "state_where": {"path": "/x", "content": "1 "}},
            "state_where {'path': '/x', 'content': '1 '}; ",
        ),
        (
            {"name": "a.service", "state": "started", "state_where": "/sys/x"},
            "state_where '/sys/x'; ",
        ),
        (
            {"name": "a.service", "state": "started", "state_where": {"path": "x", "content": "1"}},
            "state_where {'path': 'x', 'content': '1'}; ",
        ),
        (
            {"name": "a.service", "state": "started", "state_where": {"path": "/x", "content": 1}},
            "state_where {'path': '/x', 'content': 1}; ",
        ),
        ({"name": "a.service", "drop_ins": {"../b.conf": ""}}, "drop_ins '../b.conf'; "),
        ({"name": "a.service", "drop_ins": {"b": ""}}, "drop_ins 'b'; .conf"),
        ({"name": "a.service", "drop_ins": {"b.conf": 1}}, "drop_ins b.conf: "),
        ({"name": "a.service", "drop_ins": ["b.conf"]}, "drop_ins ['b.conf']; "),
    ],
)
def test_mistakes_of_a_task(entry: dict[str, Any], expected: str) -> None:
    units, found = read_units([entry])
    assert units == []
    assert len(found) == 1
    assert found[0].startswith("units[0]")
    assert all(part in found[0] for part in expected.split())
    sentences.check(SENTENCES, f"a task with {entry}", found)


def test_all_mistakes_at_once() -> None:
    _, found = read_units(
        [{"name": "a"}, {"name": "b.service", "state": "up", "on": 1}, {"name": "c.service"}, {"name": "c.service"}]
    )
    assert len(found) == 4
    assert found[-1].startswith("c.service: ")
    sentences.check(SENTENCES, "a unit that is listed twice", found[-1:])
