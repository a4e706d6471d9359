"""The program that brings GPUs to their MIG layout, against a driver that is written after NVIDIA's guide, not recorded."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common import processes
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import mig_program
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.mig_program import (
    Gpu,
    MigError,
    parse_gpus,
    parse_listing,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import shipped
from tests.kit import sentences
from tests.unit.gpu.mig_machine import OFF, ON, Card, Machine

SENTENCES = Path(__file__).parent / "sentences.txt"

# Two GPUs: the first in two halves, the second whole.
HALVES = '{"gpus": [["3g.40gb", "3g.40gb"], []]}'
A, B = "0000:0f:00.0", "0000:3b:00.0"


def machine(root: Path, first: Card | None = None, second: Card | None = None, resets: bool = True) -> Machine:
    return Machine(root, first or Card("0f"), second or Card("3b"), resets=resets)


def test_a_fresh_gpu_gets_mode_and_instances_and_the_second_run_does_nothing(tmp_path: Path) -> None:
    there = machine(tmp_path)
    assert there.run(HALVES) == (0, [f"-i {A} -mig 1", f"mig -i {A} -cgi 3g.40gb,3g.40gb -C"])
    assert there.run(HALVES) == (0, [])
    assert there.note == ""


def test_the_layout_goes_by_pci_address_whatever_the_minors_and_indices_are(tmp_path: Path) -> None:
    there = machine(tmp_path)
    assert there.minors == {A: 1, B: 0}
    there.run('{"gpus": [[], ["7g.80gb"]]}')
    assert [card.instances for card in there.cards] == [[], ["7g.80gb"]]


def test_other_instances_are_destroyed_first(tmp_path: Path) -> None:
    there = machine(tmp_path, Card("0f", ON, instances=["7g.80gb"]))
    assert there.run(HALVES) == (0, [f"mig -i {A} -dci", f"mig -i {A} -dgi", f"mig -i {A} -cgi 3g.40gb,3g.40gb -C"])


def test_what_an_interrupted_run_left_is_destroyed(tmp_path: Path) -> None:
    there = machine(tmp_path, Card("0f", ON, bare=["3g.40gb", "3g.40gb"]))
    assert there.run(HALVES) == (0, [f"mig -i {A} -dgi", f"mig -i {A} -cgi 3g.40gb,3g.40gb -C"])
    there.cards[0].bare = ["1g.10gb"]
    there._write()
    assert there.run(HALVES)[1][:2] == [f"mig -i {A} -dci", f"mig -i {A} -dgi"]


def test_a_whole_gpu_loses_its_instances_and_its_mode(tmp_path: Path) -> None:
    there = machine(tmp_path, second=Card("3b", ON, instances=["7g.80gb"]))
    there.run('{"gpus": [[], []]}')
    assert there.changes == [f"mig -i {B} -dci", f"mig -i {B} -dgi", f"-i {B} -mig 0"]
    assert (there.cards[1].mode, there.cards[1].instances) == (OFF, [])


def test_a_mode_that_needs_a_reset_leaves_a_note_and_the_next_boot_goes_on(tmp_path: Path) -> None:
    there = machine(tmp_path, resets=False)
    assert there.run(HALVES) == (0, [f"-i {A} -mig 1"])
    (note,) = there.note.splitlines()
    assert f"GPU {A} " in note
    sentences.check(SENTENCES, "the note on a MIG mode that waits for a reboot", [note])
    there.cards[0].mode = ON
    assert there.run(HALVES) == (0, [f"mig -i {A} -cgi 3g.40gb,3g.40gb -C"])
    assert there.note == ""


def test_a_daemon_that_holds_the_gpu_is_a_reason_for_a_reboot_and_another_failure_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = machine(tmp_path)
    there.fails = {"-mig": "nvidia-smi -mig ended with 3: Unable to enable MIG Mode: In use by another client"}
    assert there.run(HALVES)[0] == 0
    assert f"GPU {A} " in there.note
    there.fails = {"-mig": "nvidia-smi -mig ended with 4: Insufficient Permissions"}
    assert there.run(HALVES)[0] == 1
    assert capsys.readouterr().err == f"GPU {A}: nvidia-smi -mig ended with 4: Insufficient Permissions\n"


def test_a_mode_that_would_go_at_the_next_reset_is_kept_without_touching_instances(tmp_path: Path) -> None:
    there = machine(tmp_path, Card("0f", ON, OFF, instances=["3g.40gb", "3g.40gb"]))
    assert there.run(HALVES) == (0, [f"-i {A} -mig 1"])


def test_a_gpu_that_a_process_uses_is_left_alone_and_the_others_are_not(tmp_path: Path) -> None:
    there = machine(tmp_path, Card("0f", ON, instances=["7g.80gb"]))
    there.process(4711, "python", "/dev/null", "/dev/nvidia1")
    code, changes = there.run('{"gpus": [["3g.40gb", "3g.40gb"], ["7g.80gb"]]}')
    assert (code, changes) == (0, [f"-i {B} -mig 1", f"mig -i {B} -cgi 7g.80gb -C"])
    (note,) = there.note.splitlines()
    assert all(value in note for value in (f"GPU {A} ", "2 x 3g.40gb", "1 x 7g.80gb", "python (4711)"))
    sentences.check(SENTENCES, "the note on a GPU that a process uses", [note])


def test_a_job_anywhere_on_the_node_outranks_every_change(tmp_path: Path) -> None:
    there = machine(tmp_path)
    there.process(99, "slurmstepd")
    assert there.run(HALVES) == (0, [])
    assert "slurmstepd (99)" in there.note


def test_the_process_that_slurmd_keeps_for_cgroups_is_no_job(tmp_path: Path) -> None:
    there = machine(tmp_path)
    there.process(99, "slurmstepd")
    (tmp_path / "proc/99/cmdline").write_bytes(b"/usr/sbin/slurmstepd\0infinity\0")
    assert len(there.run(HALVES)[1]) == 2


def test_the_drivers_own_daemons_use_no_gpu(tmp_path: Path) -> None:
    there = machine(tmp_path)
    for number, name in enumerate(processes.DAEMONS, 10):
        assert len(name) <= 15, "a process's name as the kernel keeps it"
        there.process(number, name, "/dev/nvidia0", "/dev/nvidia1")
    assert len(there.run(HALVES)[1]) == 2


@pytest.mark.parametrize(
    ("layout", "told"),
    [
        ('{"gpus": [[]]}', "2 (0000:0f:00.0, 0000:3b:00.0)"),
        ('{"gpus": 7}', "playbooks/gpu.yml"),
        ("{", "playbooks/gpu.yml"),
    ],
)
def test_a_layout_for_other_gpus_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], layout: str, told: str
) -> None:
    there = machine(tmp_path)
    assert there.run(layout) == (1, [])
    said = capsys.readouterr().err
    assert told in said
    if told.startswith("2 "):
        sentences.check(SENTENCES, "a layout of MIG for other GPUs", [said.strip()])


def test_one_gpu_that_fails_does_not_keep_the_others_from_theirs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = machine(tmp_path, Card("0f", "[N/A]"))
    code, changes = there.run('{"gpus": [["7g.80gb"], ["7g.80gb"]]}')
    assert (code, len(changes)) == (1, 2)
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"GPU {A}: ")
    sentences.check(SENTENCES, "a layout of MIG on a GPU that has no MIG mode", [said])


def test_an_nvidia_smi_that_says_done_and_does_nothing_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = machine(tmp_path, Card("0f", ON))
    path = tmp_path / "l.json"
    path.write_text(HALVES)
    real = there.smi
    code = mig_program.main(
        [str(path)], lambda words: "All done.\n" if "-cgi" in words else real(words), mig_program.ProcFiles(tmp_path)
    )
    assert code == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"GPU {A}: nvidia-smi ")
    assert "2 x 3g.40gb" in said
    sentences.check(SENTENCES, "an nvidia-smi that says done and does nothing", [said])


def test_a_gpu_whose_minor_is_unknown_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = machine(tmp_path)
    (tmp_path / f"proc/driver/nvidia/gpus/{A}/information").write_text("Model: x\n")
    assert there.run(HALVES) == (1, [])
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"GPU {A}: ")
    assert "/proc/driver/nvidia/gpus" in said
    sentences.check(SENTENCES, "a GPU whose minor is unknown", [said])


def test_the_guides_own_listing_is_read() -> None:
    text = (
        "GPU 0: A100-SXM4-40GB (UUID: GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0)\n"
        "  MIG 3g.20gb Device 0: (UUID: MIG-c7384736-a75d-5afc-978f-d2f1294409fd)\n"
        "  MIG 1c.3g.20gb     Device  1: (UUID: MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d)\n"
    )
    assert parse_listing(text) == {"GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0": ("3g.20gb", "1c.3g.20gb")}
    with pytest.raises(MigError, match="neither a GPU nor a MIG device"):
        parse_listing("No devices were found\n")


def test_gpus_are_read_in_the_order_of_addresses() -> None:
    text = "00000000:3B:00.0, GPU-b, Enabled, Disabled\n00000000:0F:00.0, GPU-a, [N/A], [N/A]\n"
    assert parse_gpus(text) == [Gpu(A, "GPU-a", None, None), Gpu(B, "GPU-b", True, False)]
    with pytest.raises(MigError, match="is not pci"):
        parse_gpus("Unable to determine the device handle for GPU0000:0F:00.0: Unknown Error\n")
    for mode in ("[Unknown Error]", "ERR!"):
        with pytest.raises(MigError, match="is not a MIG mode"):
            parse_gpus(f"00000000:0F:00.0, GPU-a, {mode}, {mode}\n")


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="has an nvidia-smi")
def test_a_node_runs_what_is_shipped_with_nothing_else_of_ours(tmp_path: Path) -> None:
    entries = shipped.files("gpu.mig_program")
    assert 3 <= len(entries) < 10
    for path, text in entries:
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "l.json").write_text('{"gpus": []}')
    module = shipped.command("gpu.mig_program").split()[-1]
    library = tmp_path / shipped.library("gpu.mig_program").lstrip("/")
    done = subprocess.run(
        [sys.executable, "-S", "-m", module, str(tmp_path / "l.json")], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={"PATH": os.defpath, "PYTHONPATH": str(library), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    # Here is no nvidia-smi, which is told instead of a traceback.
    query = f"nvidia-smi --query-gpu={','.join(mig_program.QUERY)} --format=csv,noheader"
    why = f"ended with 127: nvidia-smi: {os.strerror(errno.ENOENT)}"
    assert (done.returncode, done.stderr.strip().splitlines()[-1]) == (1, f"{query} {why}")
