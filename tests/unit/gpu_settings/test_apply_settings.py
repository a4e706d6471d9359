"""Power limit, clocks, ECC and compute mode on a machine of stand-ins: what is set, what waits, and what fails."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu_settings import apply_settings, smi_settings
from tests.kit import sentences
from tests.unit.gpu_settings.smi_machine import NOT_AVAILABLE, Card, Machine

SENTENCES = Path(__file__).parent / "sentences.txt"
ALL = json.dumps(
    {
        "power_limit_watts": 600, "graphics_clock_min_mhz": 1200, "graphics_clock_max_mhz": 1800, "memory_clock_mhz": 2619,
        "ecc": True, "compute_mode": "exclusive_process",
    }
)  # fmt: skip
LOCKS = ["--lock-gpu-clocks=1200,1800", "--lock-memory-clocks=2619"]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path, Card("1b"), Card("5e"))
    monkeypatch.setattr(smi_settings, "run", made.answer)
    return made


def of(card: Card, *words: str) -> list[str]:
    return [f"{card.address} {word}" for word in words]


def test_every_gpu_gets_all_settings_and_a_second_run_locks_the_clocks_again(machine: Machine) -> None:
    one, two = machine.cards
    first = ["--power-limit=600", "--compute-mode=EXCLUSIVE_PROCESS", *LOCKS]
    assert machine.run(ALL) == (0, [*of(one, *first), *of(two, *first)])
    assert {(card.power, card.mode, card.graphics) for card in machine.cards} == {(600, "Exclusive_Process", 1800)}
    # Nobody can read whether the locks are still there.
    assert machine.run(ALL) == (0, [*of(one, *LOCKS), *of(two, *LOCKS)])
    assert machine.note == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"power_limit_watts": 700}', []),
        ('{"power_limit_watts": 650}', ["--power-limit=650"]),
        ('{"graphics_clock_max_mhz": 1500}', ["--lock-gpu-clocks=0,1500"]),
        ('{"memory_clock_mhz": 1593}', ["--lock-memory-clocks=1593"]),
        ('{"compute_mode": "default", "ecc": true}', []),
        ("{}", []),
    ],
)
def test_a_setting_that_is_not_stated_is_not_touched(machine: Machine, text: str, words: list[str]) -> None:
    one, two = machine.cards
    assert machine.run(text) == (0, [*of(one, *words), *of(two, *words)])


@pytest.mark.parametrize("process", ["python", "slurmstepd"])
def test_a_gpu_in_use_is_not_changed(machine: Machine, process: str, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = machine.cards
    machine.process(4321, process, *(["/dev/nvidia1"] if process == "python" else []))
    code, changes = machine.run('{"power_limit_watts": 600, "graphics_clock_max_mhz": 1500}')
    assert code == 0
    # A step may use any GPU.
    left = [] if process == "slurmstepd" else of(two, "--power-limit=600", "--lock-gpu-clocks=0,1500")
    assert changes == left
    assert one.power == 700
    assert f"{process} (4321)" in machine.note
    assert "the next run of playbooks/gpu.yml" in capsys.readouterr().out
    sentences.check(SENTENCES, f"a GPU that {process} uses", machine.note.splitlines())


def test_the_drivers_own_daemons_use_no_gpu(machine: Machine) -> None:
    machine.process(1, "nvidia-persiste", "/dev/nvidia0", "/dev/nvidia1")
    assert machine.run('{"power_limit_watts": 600}')[1] != []
    assert machine.note == ""


def test_a_gpu_in_use_whose_clocks_are_locked_already_waits_for_nothing(machine: Machine) -> None:
    assert machine.run(ALL)[0] == 0
    machine.process(4321, "python", "/dev/nvidia0", "/dev/nvidia1")
    assert machine.run(ALL) == (0, [])
    assert machine.note == ""
    # Another lock, or a driver that was loaded again and has forgotten them.
    assert machine.run(ALL.replace("1800", "1700")) == (0, [])
    assert "--lock-gpu-clocks=1200,1700" in machine.note
    assert machine.run(ALL) == (0, [])
    assert machine.note == ""
    machine.reload()
    assert machine.run(ALL) == (0, [])
    assert "--lock-gpu-clocks=1200,1800" in machine.note


def test_ecc_waits_for_a_reboot_and_is_in_force_then(machine: Machine) -> None:
    one, two = machine.cards
    off = '{"ecc": false, "power_limit_watts": 600}'
    assert machine.run(off)[1] == [
        f"{card.address} {word}" for card in (one, two) for word in ("--power-limit=600", "--ecc-config=0")
    ]
    assert machine.note.count("ECC off") == 2
    sentences.check(SENTENCES, "ECC that waits for a reboot", machine.note.splitlines())
    assert machine.run(off) == (0, [])
    assert machine.note.count("ECC off") == 2
    machine.boot()
    assert machine.run(off)[1] == [*of(one, "--power-limit=600"), *of(two, "--power-limit=600")]
    assert machine.note == ""


def test_a_lost_gpu_fails_and_the_others_are_set(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = machine.cards
    one.lost = True
    code, changes = machine.run(ALL)
    assert code == 1
    assert changes == of(two, "--power-limit=600", "--compute-mode=EXCLUSIVE_PROCESS", *LOCKS)
    said = capsys.readouterr().err
    assert f"GPU {one.address}: " in said
    assert "lost" in said
    sentences.check(SENTENCES, "settings of a lost GPU", said.splitlines())


@pytest.mark.parametrize("text", ['{"ecc": true}', '{"compute_mode": "default"}'])
def test_a_setting_that_the_gpu_lacks_is_a_failure(
    machine: Machine, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.cards[0].ecc = machine.cards[0].pending = machine.cards[0].mode = NOT_AVAILABLE
    assert machine.run(text) == (1, [])
    assert NOT_AVAILABLE in capsys.readouterr().err


@pytest.mark.parametrize(("lacks", "text"), [("clocks", LOCKS[1]), ("power", "power-limit")])
def test_a_warning_of_nvidia_smi_is_a_failure(
    machine: Machine, lacks: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.cards[1].lacks = lacks
    assert machine.run('{"power_limit_watts": 600, "memory_clock_mhz": 2619}')[0] == 1
    said = capsys.readouterr().err
    assert "not supported" in said
    assert text in said
    # What was not locked is not recorded as locked.
    record = json.loads((machine.root / apply_settings.RECORD).read_text())
    assert list(record["locks"]) == [machine.cards[0].address]


def test_success_is_read_back(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.cards[0].deaf = True
    assert machine.run('{"power_limit_watts": 600}')[0] == 1
    assert "--power-limit=600" in capsys.readouterr().err


def test_a_gpu_that_falls_off_the_bus_after_a_change_is_a_failure(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = machine.cards

    def falls(argv: Sequence[str], seconds: float = 0) -> Outcome:
        done = machine.answer(argv, seconds)
        if list(argv[1:3]) == ["-i", one.address]:
            machine.cards = [two]
        return done

    monkeypatch.setattr(smi_settings, "run", falls)
    # The driver does not report a lock, so no value that is read back shows the failure.
    assert machine.run('{"memory_clock_mhz": 2619}') == (1, [*of(one, LOCKS[1]), *of(two, LOCKS[1])])
    assert f"GPU {one.address}: nvidia-smi does not list it any more" in capsys.readouterr().err
    assert list(json.loads((machine.root / apply_settings.RECORD).read_text())["locks"]) == [two.address]


def test_a_value_that_nvidia_smi_refuses_is_named(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert machine.run('{"power_limit_watts": 900}')[0] == 1
    said = capsys.readouterr().err
    assert said.count("between 200.00 W and 700.00 W") == 2


@pytest.mark.parametrize("text", ["", "[1, 2]", "{"])
def test_a_file_without_settings_is_a_failure(machine: Machine, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert machine.run(text) == (1, [])
    assert "playbooks/gpu.yml" in capsys.readouterr().err


def test_a_driver_that_hangs_is_a_failure(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.hangs = True
    assert machine.run(ALL) == (1, [])
    assert "no answer" in capsys.readouterr().err


def test_a_gpu_without_a_minor_is_not_changed(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = machine.cards
    (machine.root / f"proc/driver/nvidia/gpus/{one.address}/information").unlink()
    code, changes = machine.run('{"power_limit_watts": 600}')
    assert (code, changes) == (1, of(two, "--power-limit=600"))
    assert "its users are unknown" in capsys.readouterr().err


def test_a_power_limit_that_cannot_be_read_is_not_set(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    for card in machine.cards:
        card.unknown_power = True
    assert machine.run('{"power_limit_watts": 600}') == (1, [])
    assert "'[N/A]' as its power.limit" in capsys.readouterr().err


def test_a_machine_whose_nvidia_smi_lists_no_gpu_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(tmp_path)
    monkeypatch.setattr(smi_settings, "run", machine.answer)
    assert machine.run('{"power_limit_watts": 600}') == (1, [])
    assert "lists no GPU" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line", ["No devices were found", "00000000:3B:00.0, 700.00", "x, 1, 1, Default, Enabled, Enabled, 1, 1"]
)
def test_other_output_is_not_a_gpu(line: str) -> None:
    with pytest.raises(smi_settings.SettingsError, match=r"is not pci\.bus_id"):
        smi_settings.parse(f"{line}\n")
