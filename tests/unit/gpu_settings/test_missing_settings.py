"""Settings that waited for a job, or were changed by hand: a later run applies them once, and their note goes with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu_settings import apply_settings, smi_settings
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives import reboot_notes
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.systemd import UnitsError
from ansible_collections.bedplate.cluster.plugins.modules import gpu_facts, gpu_settings
from tests.kit import sentences
from tests.kit.module import Module, result_of
from tests.unit.gpu_settings.smi_machine import NOT_AVAILABLE, Card, Machine

SENTENCES = Path(__file__).parent / "sentences.txt"
DRIVER = "580.65.06"
POWER: dict[str, Any] = {"power_limit_watts": 600}
CLOCKS: dict[str, Any] = {**POWER, "graphics_clock_max_mhz": 1500}


class Node(Machine):
    """A machine whose unit has run once; `run_role` is the step of a run of the role."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(root, Card("1b"), Card("5e"))
        self.monkeypatch, self.restarts = monkeypatch, 0
        (root / "sys/module/nvidia/version").write_text(f"{DRIVER}\n")
        monkeypatch.setattr(smi_settings, "run", self.answer)
        monkeypatch.setattr(gpu_settings, "_restart", self.restart)

    def start(self, settings: dict[str, Any]) -> None:
        """Start the unit on its file."""
        assert self.run(json.dumps(settings))[0] == 0

    def restart(self) -> None:
        self.restarts += 1
        self.start(json.loads((self.root / "settings.json").read_text()))

    def run_role(self, settings: dict[str, Any], check: bool = False, driver: str = DRIVER) -> tuple[Any, list[str]]:
        """Return the result and the warnings."""
        params = {"settings": settings, "driver": driver, "machine": "gpu1", "sysroot": str(self.root)}
        module = Module(params, check)
        return result_of(self.monkeypatch, gpu_settings, module), module.warnings

    def end(self, number: int) -> None:
        """End a process."""
        (self.root / f"proc/{number}").rename(self.root / f"proc/ended-{number}")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def test_what_waited_for_a_job_is_applied_by_the_first_run_after_it_and_once(node: Node) -> None:
    node.process(4321, "slurmstepd")
    node.start(CLOCKS)
    for check in (True, False):
        result, warnings = node.run_role(CLOCKS, check)
        assert (result["changed"], len(result["waiting"]), node.restarts) == (False, 2, 0)
        assert all("slurmstepd (4321)" in line for line in result["waiting"])
        (warning,) = warnings
        sentences.check(SENTENCES, "a run while a job holds settings back", [warning])
    assert [card.power for card in node.cards] == [700, 700]
    node.end(4321)
    result, warnings = node.run_role(CLOCKS, check=True)
    assert (result["changed"], node.restarts, bool(node.note)) == (True, 0, True)
    result, warnings = node.run_role(CLOCKS)
    assert (result["changed"], result["waiting"], warnings, node.restarts) == (True, [], [], 1)
    assert [(card.power, card.graphics) for card in node.cards] == [(600, 1500)] * 2
    assert node.note == ""
    assert node.run_role(CLOCKS) == ({"changed": False, "changes": [], "waiting": []}, [])
    assert node.restarts == 1


def test_another_user_of_the_gpu_is_no_change(node: Node) -> None:
    node.process(4321, "slurmstepd")
    node.start(POWER)
    node.end(4321)
    node.process(5432, "slurmstepd")
    result, warnings = node.run_role(POWER)
    assert (result["changed"], node.restarts) == (False, 0)
    assert "slurmstepd (5432)" in warnings[0]


def test_an_unused_gpu_does_not_wait_for_one_in_use(node: Node) -> None:
    one, two = node.cards
    node.start(POWER)
    one.power = two.power = 500
    # Its minor is 0: those of the machine are not in the order of addresses.
    node.process(4321, "python", "/dev/nvidia0")
    result, warnings = node.run_role(POWER)
    assert result["changes"] == [f"GPU {one.address}: --power-limit=600"]
    assert (one.power, two.power) == (600, 500)
    assert two.address in warnings[0]
    assert one.address not in warnings[0]
    assert not node.run_role(POWER)[0]["changed"]


def test_a_driver_that_was_loaded_again_gets_its_clocks(node: Node) -> None:
    node.start(CLOCKS)
    node.reload()
    (node.root / "sys/module/nvidia/version").write_text(DRIVER)
    result, _warnings = node.run_role(CLOCKS)
    assert len(result["changes"]) == 2
    assert all("--lock-gpu-clocks=0,1500" in line for line in result["changes"])
    assert not node.run_role(CLOCKS)[0]["changed"]


def test_a_clock_above_its_lock_is_locked_again(node: Node) -> None:
    node.start(CLOCKS)
    node.cards[1].graphics = 1980
    result, warnings = node.run_role(CLOCKS)
    assert (result["changes"], warnings) == ([f"GPU {node.cards[1].address}: --lock-gpu-clocks=0,1500"], [])
    assert node.cards[1].graphics == 1500
    # A step above the lock is the nearest clock of the GPU.
    node.cards[1].graphics = 1515
    assert not node.run_role(CLOCKS)[0]["changed"]


def test_ecc_that_waits_for_a_reboot_is_shown_by_each_run_and_not_set_again(node: Node) -> None:
    node.start({"ecc": False})
    result, warnings = node.run_role({"ecc": False})
    assert (result["changed"], node.restarts, len(result["waiting"])) == (False, 0, 2)
    assert "until a reboot" in warnings[0]
    assert node.note.count("ECC off") == 2


@pytest.mark.parametrize("check", [True, False])
def test_the_note_goes_with_the_settings_it_belongs_to(node: Node, check: bool) -> None:
    node.process(4321, "slurmstepd")
    node.start(POWER)
    assert node.note != ""
    # The job still runs: nothing is changed for it.
    result, warnings = node.run_role({}, check, driver="another")
    assert (result["changed"], warnings, node.restarts, bool(node.note)) == (True, [], 0, check)
    if not check:
        assert not node.run_role({})[0]["changed"]


@pytest.mark.parametrize("users", [True, False])
def test_the_facts_of_a_machine_have_its_notes(node: Node, users: bool) -> None:
    """The role reads them before it decides, so that other machines are spared the module."""
    params = {
        "sysroot": str(node.root),
        "query": False,
        "timeout": 10,
        "early_file": None,
        "users": users,
        "proof": None,
    }
    for expected in ([], ["gpu_settings"]):
        gpu = result_of(node.monkeypatch, gpu_facts, Module(params))["gpu"]
        assert gpu["reboot_notes"] == (expected if users else None)
        reboot_notes.note(node.root / apply_settings.NOTE, "waits", check=False)


def test_a_note_is_kept_while_nobody_can_see_what_waits(node: Node) -> None:
    reboot_notes.note(node.root / apply_settings.NOTE, "waits", check=False)
    node.hangs = True
    result, warnings = node.run_role(POWER)
    assert (result["changed"], node.note) == (False, "waits\n")
    assert "no answer" in warnings[0]


def test_a_gpu_without_a_setting_or_a_minor_is_not_restarted_for(node: Node) -> None:
    one, two = node.cards
    one.ecc = one.pending = NOT_AVAILABLE
    (node.root / f"proc/driver/nvidia/gpus/{two.address}/information").unlink()
    result, warnings = node.run_role({"ecc": False})
    assert (result["changed"], node.restarts) == (False, 0)
    assert "'[N/A]' as its ecc.mode.pending" in warnings[0]
    assert "its users are unknown" in warnings[0]


def test_a_lost_gpu_is_left_to_verify(node: Node) -> None:
    node.start(POWER)
    node.cards[0].lost = True
    assert node.run_role(POWER) == ({"changed": False, "changes": [], "waiting": []}, [])


@pytest.mark.parametrize("driver", ["", "570.86.15"])
def test_another_driver_is_not_queried(node: Node, driver: str) -> None:
    (node.root / "sys/module/nvidia/version").write_text(driver)
    node.hangs = True
    assert node.run_role(POWER) == ({"changed": False, "changes": [], "waiting": []}, [])
    (node.root / "sys/module/nvidia/version").unlink()
    assert node.run_role(POWER)[1] == []


def test_a_restart_that_fails_or_sets_nothing_is_shown(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_settings, "_restart", lambda: None)
    _result, warnings = node.run_role(POWER)
    assert warnings[0].count("still missing after a restart") == 2

    def fails() -> None:
        raise UnitsError("bedplate-gpu-settings.service: is failed")

    monkeypatch.setattr(gpu_settings, "_restart", fails)
    assert node.run_role(POWER)[0] == {"failed": True, "msg": "bedplate-gpu-settings.service: is failed"}


def test_the_unit_is_restarted_by_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[float, Any]] = []
    monkeypatch.setattr(
        gpu_settings.Systemd, "apply", lambda self, units, directory: calls.append((self.timeout, units))
    )
    gpu_settings._restart()
    ((seconds, (unit,)),) = calls
    assert (unit.name, unit.state, seconds) == ("bedplate-gpu-settings.service", "restarted", 900)
