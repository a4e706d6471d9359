# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of what one call of the module does, what it tells about it, and that check mode tells the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.systemd import Systemd, UnitsError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import PROPERTIES, Unit

DOWN = {"LoadState": "loaded", "ActiveState": "inactive", "SubState": "dead", "UnitFileState": "disabled"}
UP = {"LoadState": "loaded", "ActiveState": "active", "SubState": "running", "UnitFileState": "enabled"}
GONE = {"LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead"}


class Machine:
    """Units that follow systemctl, except one that hangs when it is started."""

    def __init__(self, units: dict[str, dict[str, str]], hangs: str = "") -> None:
        self.units = {name: dict(unit) for name, unit in units.items()}
        self.hangs = hangs
        self.calls: list[str] = []

    @property
    def writes(self) -> list[str]:
        return [
            call
            for call in self.calls
            if not call.startswith(("systemctl show", "systemctl status", "systemd-analyze", "journalctl"))
        ]

    def run(self, argv: list[str], timeout: float) -> Outcome:
        words = [word for word in argv if word not in ("--", "--no-ask-password")]
        self.calls.append(" ".join(words))
        if words[0] != "systemctl":
            return Outcome(0, "", "")
        verb, names = words[1], [word for word in words[2:] if not word.startswith("-")]
        if verb == "show":
            return Outcome(0, "\n".join(self._show(name) for name in names), "")
        return self._change(verb, names, timeout)

    def _show(self, name: str) -> str:
        return "".join(f"{key}={self.units[name].get(key, '')}\n" for key in PROPERTIES)

    def _change(self, verb: str, names: list[str], timeout: float) -> Outcome:
        for name in names:
            unit = self.units[name]
            if verb in ("enable", "disable"):
                unit["UnitFileState"] = f"{verb}d"
            elif verb == "stop":
                unit.update(ActiveState="inactive", SubState="dead")
            elif verb in ("start", "restart") and name == self.hangs:
                unit.update(ActiveState="activating", SubState="start")
                return Outcome(None, "", f"stopped after {timeout:.0f} s")
            elif verb in ("start", "restart"):
                unit.update(ActiveState="active", SubState="running")
        return Outcome(0, "", "")


def apply(machine: Machine, *units: Unit, check: bool = False, state: Path = Path("/nonexistent")) -> dict[str, Any]:
    systemd = Systemd(check, True, settle=0, timeout=7, run=machine.run)
    return systemd.apply(units, state)


def started(*names: str) -> list[Unit]:
    return [Unit(name, enabled=True, state="started") for name in names]


def test_one_call_for_each_kind_of_change_in_the_order_given() -> None:
    machine = Machine({"c.service": DOWN, "a.service": DOWN, "b.service": DOWN, "z.service": UP})
    off = Unit("z.service", enabled=False, state="stopped")
    result = apply(machine, *started("c.service", "a.service", "b.service"), off)
    assert machine.writes == [
        "systemctl enable c.service a.service b.service",
        "systemctl disable z.service",
        "systemctl stop z.service",
        "systemctl start c.service a.service b.service",
    ]
    assert result["changes"] == [
        "c.service: enabled, started",
        "a.service: enabled, started",
        "b.service: enabled, started",
        "z.service: disabled, stopped",
    ]
    again = apply(machine, *started("c.service", "a.service", "b.service"), off)
    assert again["changed"] is False


def test_check_mode_predicts_what_apply_then_does_and_only_reads() -> None:
    units = {"a.service": DOWN, "b.service": UP}
    wanted = [*started("a.service"), Unit("b.service", state="restarted")]
    machine = Machine(units)
    predicted = apply(machine, *wanted, check=True)
    assert machine.writes == []
    done = apply(Machine(units), *wanted)
    assert predicted == done
    assert done["diff"][0]["before"] == "a.service: disabled, inactive (dead)\nb.service: enabled, active (running)\n"
    assert done["diff"][0]["after"] == "a.service: enabled, active\nb.service: enabled, active (restarted)\n"


def test_check_mode_on_a_fresh_node() -> None:
    machine = Machine({"a.service": GONE})
    result = apply(machine, *started("a.service"), check=True)
    assert result["changes"] == ["a.service: enabled, started"]
    assert [note.partition(":")[0] for note in result["notes"]] == ["a.service"]
    assert machine.writes == []


def test_systemd_reads_its_files_again_only_when_it_says_so() -> None:
    machine = Machine({"a.service": {**UP, "NeedDaemonReload": "yes"}, "b.service": UP})
    result = apply(machine, *started("a.service", "b.service"))
    assert machine.writes == ["systemctl daemon-reload"]
    assert (result["changed"], result["changes"]) == (True, ["systemd: configuration reloaded"])


def test_a_start_that_takes_too_long() -> None:
    machine = Machine({"a.service": DOWN}, hangs="a.service")
    with pytest.raises(UnitsError) as error:
        apply(machine, *started("a.service"))
    first, last = str(error.value).splitlines()[0], str(error.value).splitlines()[-1]
    assert first.startswith("a.service: ")
    assert {"started,", "activating"} <= set(first.split())
    assert last.startswith("systemctl start a.service: ")
    assert " 7 s" in last
