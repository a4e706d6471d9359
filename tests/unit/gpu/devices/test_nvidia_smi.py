"""What is read of nvidia-smi: no unknown becomes a value, no line is lost, and one that hangs is not waited for."""

from __future__ import annotations

import errno
import os
import shlex
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.devices import nvidia_smi
from tests.kit import sentences
from tests.unit.gpu.tree import Tree

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

ONE, TWO = "0000:3b:00.0", "0000:5e:00.0"
H100 = (
    "00000000:3B:00.0, GPU-0, NVIDIA H100 80GB HBM3, Enabled, Disabled, Disabled, Enabled, Enabled, Completed, Success"
)
L40 = "00000000:5E:00.0, GPU-1, NVIDIA L40S, Disabled, [N/A], [N/A], Enabled, Disabled, N/A, [Not Supported]"
NO_FIELD = 'Field "{}" is not a valid field to query.'
quickly = settings(derandomize=True, deadline=None, max_examples=100)


class Smi:
    """Stands for nvidia-smi, as a program that is really run."""

    def __init__(self, top: Path) -> None:
        self.path, self.asked = top / "nvidia-smi", top / "asked"
        self.asked.touch()

    def does(self, script: str) -> None:
        self.path.write_text(f'#!/bin/sh\necho "$@" >>{shlex.quote(str(self.asked))}\n{script}\n')
        self.path.chmod(0o755)

    def prints(self, *lines: str, code: int = 0) -> None:
        self.does(f"printf '%s\\n' {shlex.join(lines)}\nexit {code}")

    def asks(self, seconds: float = 10.0) -> tuple[nvidia_smi.SmiOutput | None, list[str]]:
        problems: list[str] = []
        told = nvidia_smi.query(str(self.path), seconds, problems)
        return told, [text.replace(f"{self.path}: ", "") for text in problems]


@pytest.fixture
def program(tmp_path: Path) -> Smi:
    return Smi(tmp_path)


def machine(top: Path) -> Tree:
    """Return a machine whose second GPU has the first minor."""
    tree = Tree(top / "root")
    tree.driver()
    tree.gpu(ONE, 0)
    tree.gpu(TWO, 1)
    return tree


def test_nvidia_smi_is_joined_with_sysfs_by_the_address(program: Smi, tmp_path: Path):
    program.prints(L40, H100)
    told = machine(tmp_path).facts(lambda seconds, problems: nvidia_smi.query(str(program.path), seconds, problems))
    names = ("address", "persistence", "mig", "mig_pending", "ecc", "ecc_pending", "fabric_state", "fabric_status")
    assert [tuple(gpu[name] for name in names) for gpu in told["gpus"]] == [
        (ONE, True, False, False, True, True, "Completed", "Success"),
        (TWO, False, None, None, True, False, None, None),
    ]
    assert (told["queried"], told["problems"]) == (True, [])
    assert program.asked.read_text() == (
        "--query-gpu=pci.bus_id,uuid,name,persistence_mode,mig.mode.current,mig.mode.pending,ecc.mode.current,"
        "ecc.mode.pending,fabric.state,fabric.status --format=csv,noheader\n"
    )


def test_without_a_driver_nobody_asks(program: Smi, tmp_path: Path):
    tree = machine(tmp_path)
    (tree.top / "sys/module/nvidia/version").unlink()
    program.prints(H100)
    told = tree.facts(lambda seconds, problems: nvidia_smi.query(str(program.path), seconds, problems))
    assert (told["queried"], told["gpus"][0]["ecc"], program.asked.read_text()) == (False, None, "")


def test_gpus_that_only_one_side_has_are_told_of(tmp_path: Path):
    tree, other = machine(tmp_path), H100.replace("3B", "AA")
    tree.information(TWO, 1, excluded="Yes")
    told = tree.facts(lambda seconds, problems: nvidia_smi.parse(other, nvidia_smi.FIELDS))
    assert [text.rpartition(": ")[0] for text in told["problems"]] == ["0000:aa:00.0", ONE]
    sentences.check(SENTENCES, "GPUs that only nvidia-smi or only the driver has", told["problems"])


def test_another_uuid_and_an_odd_switch_are_told_of(tmp_path: Path):
    row = H100.replace("GPU-0", "GPU-7").replace("Enabled, Disabled", "Sometimes, Disabled")
    told = machine(tmp_path).facts(lambda seconds, problems: nvidia_smi.parse(f"{row}\n{L40}", nvidia_smi.FIELDS))
    assert told["gpus"][0]["persistence"] is None
    uuid, switch = told["problems"]
    assert all(value in uuid for value in (ONE, "UUID", "GPU-0", "GPU-7"))
    assert all(value in switch for value in (ONE, "persistence_mode", "'Sometimes'", "Enabled", "Disabled"))
    sentences.check(SENTENCES, "another UUID and an odd switch", told["problems"])


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        # 570.158.01 on GB200, 535 on a T4, 590.48.01 on H100, 595.58.03 on GB300.
        ("state  Completed, status Success", ("Completed", "Success")),
        ("state  N/A, status N/A", (None, None)),
        ("Completed, Success", ("Completed", "Success")),
        ("In Progress, N/A", ("In Progress", None)),
        ("state  Not Started, status Insufficient Resources", ("Not Started", "Insufficient Resources")),
    ],
)
def test_fabric_cells_of_old_and_new_drivers_are_the_same_words(cells: str, expected: tuple[str | None, str | None]):
    told = nvidia_smi.parse(f"00000000:3B:00.0, {cells}", (nvidia_smi.BUS_ID, "fabric.state", "fabric.status"))
    assert (told.rows[ONE]["fabric.state"], told.rows[ONE]["fabric.status"]) == expected
    assert told.troubles == []


@pytest.mark.parametrize("word", ["[Unknown Error]", "[GPU requires reset]", "[GPU is lost]", "ERR!", "Unknown", ""])
def test_a_trouble_is_null_and_told_of(word: str):
    told = nvidia_smi.parse(f"00000000:3B:00.0, {word}", (nvidia_smi.BUS_ID, "fabric.state"))
    assert told.rows == {ONE: {nvidia_smi.BUS_ID: "00000000:3B:00.0", "fabric.state": None}}
    assert told.troubles == [f"{ONE}: nvidia-smi reports fabric.state as {word!r}"]


@pytest.mark.parametrize("word", ["GPU is lost", "GPU requires reset"])
def test_a_gpu_that_fails_is_told_of_though_nvidia_smi_succeeds(program: Smi, tmp_path: Path, word: str):
    # The driver still knows its address, UUID and name.
    program.prints(", ".join([*H100.split(", ")[:3], *[f"[{word}]"] * 7]), L40, code=0)
    told = machine(tmp_path).facts(lambda seconds, problems: nvidia_smi.query(str(program.path), seconds, problems))
    assert [gpu["failure"] for gpu in told["gpus"]] == [word, None]
    assert {told["gpus"][0][name] for name in ("persistence", "mig", "ecc", "fabric_state")} == {None}
    assert len(told["problems"]) == 7


@pytest.mark.parametrize("word", ["[N/A]", "N/A", "[Not Supported]"])
def test_what_a_gpu_does_not_have_is_null_and_no_trouble(word: str):
    told = nvidia_smi.parse(f"00000000:3B:00.0, {word}", (nvidia_smi.BUS_ID, "fabric.state"))
    assert (told.rows[ONE]["fabric.state"], told.troubles) == (None, [])


def test_fields_that_an_old_driver_lacks_are_left_out_and_the_rest_is_asked(program: Smi):
    # As nvidia-smi does, one field at a time, and with an exit status of its own.
    program.does(
        'case "$1" in *fabric.state*) echo \'Field "fabric.state" is not a valid field to query.\'; exit 2;;\n'
        "*fabric.status*) echo 'fabric.status : not a valid field to query.'; exit 6;; esac\n"
        f"echo '{H100.rsplit(', ', 2)[0]}'"
    )
    told, problems = program.asks()
    assert told is not None
    assert told.rows[ONE]["ecc.mode.pending"] == "Enabled"
    assert told.rows[ONE].get("fabric.state") is None
    assert [text.split()[-1] for text in problems] == ["fabric.state", "fabric.status"]
    sentences.check(SENTENCES, "fields that a driver lacks", problems)
    assert len(program.asked.read_text().splitlines()) == 3


def test_a_field_that_was_not_asked_for_ends_the_asking(program: Smi):
    program.prints(NO_FIELD.format("temper"), code=2)
    told, problems = program.asks()
    assert told is None
    assert [text.split()[-1] for text in problems] == ["'temper'", "2"]
    program.prints(NO_FIELD.format("pci.bus_id"), code=2)
    told, of_address = program.asks()
    assert (told, [text.split()[-1] for text in of_address]) == (None, ["'pci.bus_id'", "2"])
    sentences.check(SENTENCES, "fields that were not asked for, or that every driver has", [*problems, *of_address])


# Both as Debian's nvidia-smi 535.261.03 gave them on a machine without a driver, without and with its library.
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running."
)
NO_LIBRARY = (
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. "
    "Please make sure that the NVIDIA Display Driver is properly installed and present in your system.",
    "Please also try adding directory that contains libnvidia-ml.so to your system PATH.",
)


@pytest.mark.parametrize(("lines", "code"), [((NO_DRIVER,), 9), (NO_LIBRARY, 12)])
def test_a_refusal_is_told_word_by_word(program: Smi, lines: tuple[str, ...], code: int):
    program.prints(*lines, code=code)
    assert program.asks() == (None, [*(repr(line) for line in lines), f"ended with {code}"])


def test_what_is_said_beside_the_rows_is_told_of(program: Smi):
    lost = "Unable to determine the device handle for GPU0000:5E:00.0: Unknown Error"
    program.does(f"echo '{H100}'; echo '{lost}'; echo '{H100}'; echo '{L40}, 3'; echo Oh >&2; exit 15")
    told, problems = program.asks()
    assert told is not None
    assert list(told.rows) == [ONE]
    assert problems == [
        repr(lost),
        f"{H100!r}: {ONE} a second time",
        f"{L40 + ', 3'!r}: 11 values for 10 fields",
        "'Oh'",
        "ended with 15",
    ]


def test_a_program_that_cannot_be_run_is_told_of(program: Smi):
    told, problems = program.asks()
    assert (told, problems[0], problems[1].split()[-1]) == (None, repr(os.strerror(errno.ENOENT)), "127")
    sentences.check(SENTENCES, "no nvidia-smi", problems)


def test_one_that_hangs_is_left_behind(program: Smi):
    program.does("sleep 60")
    start = time.monotonic()
    told, problems = program.asks(0.3)
    assert (told, len(problems)) == (None, 1)
    assert "0.3 s" in problems[0]
    sentences.check(SENTENCES, "an nvidia-smi that hangs", problems)
    assert time.monotonic() - start < 5


CELLS = st.sampled_from([*H100.split(", "), *L40.split(", "), "[Unknown Error]", "", '"', "0"])
LINES = st.one_of(
    st.lists(CELLS, max_size=11).map(", ".join),
    st.text(max_size=60),
    st.sampled_from([H100, L40, NO_FIELD.format("uuid")]),
)


@given(st.lists(LINES, max_size=8).map("\n".join))
@quickly
def test_no_text_breaks_the_reader_and_each_line_is_read_or_told_of(text: str):
    told = nvidia_smi.parse(text, nvidia_smi.FIELDS)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    assert len(told.rows) + len(told.lacking) + len(told.unread) == len(lines)
    assert all(line in lines for line, _why in told.unread)
    for row in told.rows.values():
        assert set(row) == set(nvidia_smi.FIELDS)
        assert not {"[N/A]", "[Unknown Error]", "[Not Supported]", "N/A", ""} & set(row.values())
    assert all(any(line.startswith(str(row[nvidia_smi.BUS_ID])) for line in lines) for row in told.rows.values())
