"""What bedplate.cluster.units does, against a systemd of our own making."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.systemd import Systemd, UnitsError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import (
    UnitState,
    read_units,
)
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
# What the journal of every unit has.
LAST_WORDS = "the last words of the daemon"
UP = UnitState(
    id="u",
    load="loaded",
    active="active",
    sub="running",
    file="enabled",
    type="simple",
    invocation="1",
    can_reload=True,
)
DOWN = replace(UP, active="inactive", sub="dead", file="disabled", invocation="")


@dataclass
class Machine:
    """Units with what becomes of them when they are started; remembers the commands that were run."""

    units: dict[str, UnitState]
    starts: dict[str, UnitState] = field(default_factory=dict)
    later: dict[str, UnitState] = field(default_factory=dict)
    unmet: str = ""
    refuses: str = ""
    commands: list[str] = field(default_factory=list)

    def run(self, argv: list[str], _timeout: float) -> Outcome:
        words = [word for word in argv if not word.startswith("--")]
        self.commands.append(" ".join(words))
        if self.refuses and words[0] == self.refuses:
            return Outcome(1, "", "no answer")
        if words[:2] == ["systemctl", "show"]:
            text = self._show(words[2:])
            self.units.update(self.later)
            return Outcome(0, text, "")
        if words[0] == "systemctl" and words[1] in ("start", "restart"):
            for name in words[2:]:
                self.units[name] = self.starts.get(name, replace(UP, invocation="2", file=self.units[name].file))
        elif words[:2] == ["systemctl", "enable"]:
            for name in words[2:]:
                self.units[name] = replace(self.units[name], file="enabled")
        elif words[:2] == ["systemctl", "stop"]:
            for name in words[2:]:
                self.units[name] = replace(self.units[name], active="inactive")
        elif words[0] == "systemd-analyze":
            return Outcome(1, "", f"{self.unmet} failed.\nConditions failed.") if self.unmet else Outcome(0, "", "")
        elif words[0] == "journalctl":
            return Outcome(0, f"{LAST_WORDS}\n", "")
        return Outcome(0, "", "")

    def _show(self, names: list[str]) -> str:
        blocks = []
        for name in names:
            seen = self.units.get(name, UnitState(id=name))
            rows = {
                "Id": name,
                "LoadState": seen.load,
                "ActiveState": seen.active,
                "SubState": seen.sub,
                "UnitFileState": seen.file,
                "NeedDaemonReload": "yes" if seen.stale else "no",
                "Result": seen.result or "success",
                "Type": seen.type,
                "InvocationID": seen.invocation,
                "NRestarts": seen.restarts,
                "CanReload": "yes" if seen.can_reload else "no",
                "ActiveEnterTimestampMonotonic": str(int(seen.started * 1e6)),
            }
            blocks.append("".join(f"{key}={value}\n" for key, value in rows.items()))
        return "\n".join(blocks)

    @property
    def writes(self) -> list[str]:
        reads = ("systemctl show", "systemctl status", "systemd-analyze", "journalctl")
        return [command.removeprefix("systemctl ") for command in self.commands if not command.startswith(reads)]


def apply(machine: Machine, tmp_path: Path, *entries: dict, check: bool = False, touched: tuple[str, ...] = ()) -> dict:
    units, mistakes = read_units(entries)
    assert mistakes == []
    systemd = Systemd(check, True, settle=0.01, run=machine.run, touched=touched)
    return systemd.apply(units, tmp_path / "state", str(tmp_path / "system"))


def test_a_run_that_changes_nothing_only_reads_once(tmp_path: Path):
    machine = Machine({"a.service": UP, "b.service": UP})
    result = apply(machine, tmp_path, *({"name": name, "enabled": True, "state": "started"} for name in machine.units))
    assert result["changed"] is False
    assert machine.commands == ["systemctl show a.service b.service"]
    assert result["diff"] == []


def test_one_call_for_each_kind_of_change(tmp_path: Path):
    machine = Machine({"a.service": DOWN, "b.service": DOWN, "c.service": UP})
    wanted = [{"name": name, "enabled": True, "state": "started"} for name in ("a.service", "b.service")]
    result = apply(machine, tmp_path, *wanted, {"name": "c.service", "state": "stopped"})
    assert machine.writes == ["enable a.service b.service", "stop c.service", "start a.service b.service"]
    assert result["actions"] == machine.writes
    assert result["diff"][0]["before"].splitlines()[0] == "a.service: disabled, inactive (dead)"
    assert result["diff"][0]["after"].splitlines()[0] == "a.service: enabled, active"


@pytest.mark.parametrize(("now", "done"), [(UP, "reload a.service"), (DOWN, "start a.service")])
def test_reloaded_starts_what_is_down(tmp_path: Path, now: UnitState, done: str):
    machine = Machine({"a.service": now})
    apply(machine, tmp_path, {"name": "a.service", "state": "reloaded"})
    assert machine.writes == [done]


@pytest.mark.parametrize("check", [True, False])
def test_a_state_may_hold_where_a_file_says_so_and_nowhere_else(tmp_path: Path, check: bool):
    version, engine = tmp_path / "version", tmp_path / "engine"
    entry = {
        "name": "a.service",
        "enabled": True,
        "state": "started",
        "state_where": {"path": str(version), "content": "580.65.06"},
        "restart_after": [str(engine)],
    }
    engine.touch()
    for text in (None, "570.1.2\n", ""):
        if text is not None:
            version.write_text(text)
        for now in (DOWN, UP):
            machine = Machine({"a.service": replace(now, file="enabled")})
            assert apply(machine, tmp_path, entry, check=check, touched=(str(engine),))["actions"] == []
    version.write_text("580.65.06\n")
    machine = Machine({"a.service": DOWN})
    assert apply(machine, tmp_path, entry, check=check)["actions"] == ["enable a.service", "start a.service"]


def test_restarted_clears_the_limit_of_a_failed_unit(tmp_path: Path):
    machine = Machine({"a.service": replace(DOWN, active="failed")})
    apply(machine, tmp_path, {"name": "a.service", "state": "restarted"})
    assert machine.writes == ["reset-failed a.service", "restart a.service"]


def test_a_drop_in_reloads_systemd_and_goes_again(tmp_path: Path):
    machine = Machine({"a.service": UP})
    entry = {"name": "a.service", "drop_ins": {"bedplate.conf": "[Service]\nNice=1\n"}}
    path = tmp_path / "system/a.service.d/bedplate.conf"
    assert apply(machine, tmp_path, entry, check=True)["changed_files"][-1] == str(path)
    assert not path.exists()
    assert apply(machine, tmp_path, entry)["actions"] == ["daemon-reload"]
    assert path.read_text() == "[Service]\nNice=1\n"
    assert apply(machine, tmp_path, entry)["changed"] is False
    assert apply(machine, tmp_path, {"name": "a.service"})["changed"] is False
    assert apply(machine, tmp_path, {"name": "a.service", "drop_ins": {}})["removed"][:2] == [
        str(path),
        str(path.parent),
    ]


@pytest.mark.parametrize("check", [True, False])
def test_a_changed_or_removed_drop_in_restarts_a_unit_that_is_to_run(tmp_path: Path, check: bool):
    machine = Machine({"a.service": UP, "b.service": UP})

    def entries(text: str | None) -> list[dict]:
        drop_ins = {} if text is None else {"site.conf": f"[Service]\nNice={text}\n"}
        return [
            {"name": "a.service", "state": "started", "drop_ins": drop_ins},
            {"name": "b.service", "state": "started"},
        ]

    for text in ("1", "2", None):
        if check:
            assert apply(machine, tmp_path, *entries(text), check=True)["actions"] == [
                "daemon-reload",
                "restart a.service",
            ]
            assert machine.writes == []
        assert apply(machine, tmp_path, *entries(text))["actions"] == ["daemon-reload", "restart a.service"]
        machine.units["a.service"] = replace(UP, started=time.monotonic())
        machine.commands.clear()
        assert apply(machine, tmp_path, *entries(text))["changed"] is False
        machine.commands.clear()


def test_a_drop_in_of_a_run_that_ended_before_the_restart_restarts_the_unit(tmp_path: Path):
    machine = Machine({"a.service": replace(UP, started=time.monotonic() - 60)})
    entry = {"name": "a.service", "drop_ins": {"site.conf": "[Service]\n"}}
    apply(machine, tmp_path, entry)
    assert apply(machine, tmp_path, {**entry, "state": "started"})["actions"] == ["restart a.service"]
    assert apply(machine, tmp_path, {**entry, "state": "stopped"})["actions"] == ["stop a.service"]


def test_systemd_is_reloaded_when_it_says_that_files_changed(tmp_path: Path):
    machine = Machine({"a.service": UP, "b.service": replace(UP, stale=True)})
    apply(machine, tmp_path, {"name": "a.service"}, {"name": "b.service"})
    assert machine.writes == ["daemon-reload"]


def test_a_unit_that_is_not_there_yet(tmp_path: Path):
    machine = Machine({"a.service": UP})
    entry = {"name": "new.service", "enabled": True, "state": "restarted"}
    result = apply(machine, tmp_path, entry, check=True)
    assert result["changed"] is True
    assert [one.partition(":")[0] for one in result["notes"]] == ["new.service"]
    assert machine.writes == []
    with pytest.raises(UnitsError, match=r"^new\.service: .*list-unit-files 'new\*'"):
        apply(machine, tmp_path, entry)
    assert machine.writes == ["daemon-reload"]


def test_a_unit_that_is_not_there_can_be_masked(tmp_path: Path):
    machine = Machine({})
    apply(machine, tmp_path, {"name": "x.service", "masked": True})
    assert machine.writes == ["mask x.service"]


@pytest.mark.parametrize(
    ("start", "later", "said"),
    [
        (
            replace(DOWN, active="failed", sub="failed", result="exit-code"),
            None,
            r" failed .*exit-code",
        ),
        (UP, replace(DOWN, active="failed", sub="failed", result="signal"), r" failed .*signal"),
        (UP, replace(UP, invocation="9"), ""),
        (UP, replace(UP, restarts="1"), ""),
        (
            replace(DOWN, active="activating", sub="auto-restart", result="exit-code"),
            None,
            r" activating .*auto-restart",
        ),
    ],
)
def test_a_unit_that_does_not_stay_up_is_an_error_with_its_journal(
    tmp_path: Path, start: UnitState, later: UnitState | None, said: str
):
    machine = Machine({"a.service": DOWN}, starts={"a.service": start})
    real = machine.run

    def run(argv: list[str], timeout: float) -> Outcome:
        outcome = real(argv, timeout)
        if later and len([c for c in machine.commands if c.startswith("systemctl show")]) == 2:
            machine.units["a.service"] = later
        return outcome

    units, _ = read_units([{"name": "a.service", "state": "started"}])
    with pytest.raises(UnitsError, match=rf"^a\.service: .*started.*{said}") as error:
        Systemd(False, False, settle=0.01, run=run).apply(units, tmp_path)
    assert LAST_WORDS in str(error.value)
    assert "systemctl status a.service" in str(error.value)


def test_a_condition_that_does_not_hold(tmp_path: Path):
    machine = Machine({"a.service": DOWN}, starts={"a.service": DOWN}, unmet="ConditionPathExists=/etc/x")
    entry = {"name": "a.service", "state": "started"}
    with pytest.raises(UnitsError, match=r"^a\.service: .*ConditionPathExists=/etc/x .*condition: allowed"):
        apply(machine, tmp_path, entry)
    machine.commands.clear()
    assert apply(machine, tmp_path, {**entry, "condition": "allowed"})["changed"] is False
    assert machine.writes == []


def test_a_oneshot_that_ended_well_is_no_error(tmp_path: Path):
    machine = Machine({"a.service": DOWN}, starts={"a.service": replace(DOWN, type="oneshot", result="success")})
    assert apply(machine, tmp_path, {"name": "a.service", "state": "started"})["changed"] is True


def test_nothing_is_done_when_a_unit_cannot_be_as_wanted(tmp_path: Path):
    machine = Machine(
        {
            "a.service": DOWN,
            "masked.service": replace(DOWN, load="masked", file="masked"),
            "plain.service": replace(UP, can_reload=False),
        }
    )
    wanted = [{"name": name, "enabled": True} for name in ("a.service", "masked.service")]
    with pytest.raises(UnitsError) as error:
        apply(machine, tmp_path, *wanted, {"name": "plain.service", "state": "reloaded"})
    for said in ("masked.service: is masked", "plain.service: cannot be reloaded"):
        assert said in str(error.value)
    assert machine.writes == ["daemon-reload"]


def test_a_call_that_systemd_refuses_is_an_error(tmp_path: Path):
    machine = Machine({"a.service": DOWN})
    real = machine.run

    def refuse(argv: list[str], timeout: float) -> Outcome:
        return Outcome(1, "", "Failed to enable unit: no") if "enable" in argv else real(argv, timeout)

    units, _ = read_units([{"name": "a.service", "enabled": True, "state": "started"}])
    with pytest.raises(UnitsError, match=r"systemctl enable a\.service: Failed to enable"):
        Systemd(False, False, settle=0.01, run=refuse).apply(units, tmp_path)


def test_no_systemd_is_an_error_that_says_so(tmp_path: Path):
    units, _ = read_units([{"name": "a.service", "state": "started"}])
    with pytest.raises(
        UnitsError, match=r"systemd .*: System has not been booted.*systemctl is-system-running"
    ) as caught:
        Systemd(False, False, run=lambda argv, timeout: Outcome(1, "", "System has not been booted")).apply(
            units, tmp_path
        )
    sentences.check(SENTENCES, "no systemd", [caught.value])


def test_what_runs_since_before_its_files_changed_is_restarted_once(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("new")
    entry = {"name": "u.service", "state": "started", "restart_after": [str(tmp_path / "absent"), str(key)]}
    before, after = time.monotonic() - 60, time.monotonic() + 1
    machine = Machine({"u.service": replace(UP, started=before)}, starts={"u.service": replace(UP, started=after)})
    predicted = apply(machine, tmp_path, entry, check=True)
    assert (predicted["changes"], machine.writes) == (["u.service: restarted"], [])
    done = apply(machine, tmp_path, entry)
    assert done["changes"] == ["u.service: restarted"]
    (note,) = done["notes"]
    assert note.startswith("u.service: ")
    assert note.endswith(f": {key}")
    sentences.check(SENTENCES, "a unit that has not read a file", [note.replace(str(tmp_path), "")])
    assert apply(machine, tmp_path, entry)["changed"] is False
    assert machine.writes == ["restart u.service"]


def test_the_time_of_the_inode_counts_and_not_the_date_that_a_package_gives_a_file(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("new")
    os.utime(program, (1, 1))
    entry = {"name": "u.service", "state": "started", "restart_after": [str(program)]}
    machine = Machine({"u.service": replace(UP, started=time.monotonic() - 60)})
    assert apply(machine, tmp_path, entry)["changes"] == ["u.service: restarted"]


def test_what_is_down_is_started_and_not_restarted(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("new")
    machine = Machine({"u.service": DOWN})
    entry = {"name": "u.service", "state": "started", "restart_after": [str(key)]}
    assert apply(machine, tmp_path, entry, check=True)["changes"] == ["u.service: started"]
    assert apply(machine, tmp_path, entry)["actions"] == ["start u.service"]


def test_what_can_be_read_again_is_until_it_was(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.write_text("one")
    machine = Machine({"u.service": replace(UP, started=time.monotonic() + 1)})
    entry = {"name": "u.service", "state": "started", "reload_after": [str(conf)], "reload_command": ["tool", "again"]}
    assert apply(machine, tmp_path, entry, check=True)["changes"] == ["u.service: reloaded"]
    machine.refuses = "tool"
    with pytest.raises(UnitsError, match="tool again: no "):
        apply(machine, tmp_path, entry)
    machine.refuses = ""
    assert apply(machine, tmp_path, entry)["changes"] == ["u.service: reloaded"]
    assert apply(machine, tmp_path, entry)["changed"] is False
    conf.write_text("two")
    assert apply(machine, tmp_path, entry)["changes"] == ["u.service: reloaded"]
    assert machine.commands.count("tool again") == 3


def test_a_unit_that_was_down_is_started_and_told_to_read(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.write_text("one")
    machine = Machine({"u.service": DOWN})
    entry = {"name": "u.service", "state": "started", "reload_after": [str(conf)], "reload_command": ["tool", "again"]}
    assert apply(machine, tmp_path, entry)["changes"] == ["u.service: reloaded, started"]


def test_after_the_clock_was_set_back_there_is_one_restart_and_no_second(tmp_path: Path, monkeypatch) -> None:
    key = tmp_path / "key"
    key.write_text("from the future")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 8 * 3600)
    monkeypatch.setattr(time, "time_ns", lambda: int((now - 8 * 3600) * 1e9))
    entry = {"name": "u.service", "state": "started", "restart_after": [str(key)]}
    machine = Machine({"u.service": replace(UP, started=time.monotonic() - 60)})
    machine.starts["u.service"] = replace(UP, started=time.monotonic())
    assert apply(machine, tmp_path, entry)["changes"] == ["u.service: restarted"]
    assert apply(machine, tmp_path, entry)["changed"] is False
    assert machine.writes == ["restart u.service"]


def test_check_mode_predicts_by_what_the_run_will_change(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("old")
    machine = Machine({"u.service": replace(UP, started=time.monotonic() + 1)})
    entry = {"name": "u.service", "state": "started", "restart_after": [str(key)]}
    assert apply(machine, tmp_path, entry, check=True)["changed"] is False
    assert apply(machine, tmp_path, entry, check=True, touched=(str(key),))["changes"] == ["u.service: restarted"]
    # Outside check mode the file itself tells.
    assert apply(machine, tmp_path, entry, touched=(str(key),))["changed"] is False
