"""Who wants a reboot, and what it would end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import NodeFilesError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.reboot_notes import in_use, note, reasons
from ansible_collections.bedplate.cluster.plugins.modules import reboot_wanted
from tests.kit import sentences
from tests.kit.module import Module, result_of

SENTENCES = Path(__file__).with_name("sentences.txt")


def test_notes_are_told_by_who_wrote_them(tmp_path: Path) -> None:
    assert reasons(tmp_path / "none") == {}
    (tmp_path / "gpu_driver").write_text("another driver\n")
    (tmp_path / "directory").mkdir()
    (tmp_path / ".mig.0011aabb.tmp").touch()  # of a killed writer
    assert reasons(tmp_path) == {"gpu_driver": "another driver"}


@pytest.mark.parametrize(
    ("processes", "told"),
    [
        (["systemd", "sshd"], []),
        (["slurmd"], ["slurmd "]),
        (["slurmstepd", "slurmstepd", "slurmd"], ["2 steps ", "slurmd "]),
        # Another program with a like name.
        (["slurmdbd", "slurmctld"], []),
        # Of docker and of podman; a job need not be Slurm's.
        (["containerd", "dockerd", "containerd-shim", "containerd-shim"], ["2 containers (containerd-shim)"]),
        (["conmon"], ["1 containers (conmon)"]),
        (["conmonrs"], ["1 containers (conmonrs)"]),
    ],
)
def test_jobs_and_what_may_start_them_speak_against_it(tmp_path: Path, processes: list[str], told: list[str]) -> None:
    for number, name in enumerate(processes):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "comm").write_text(f"{name}\n")
    found = in_use(tmp_path)
    assert len(found) == len(told)
    assert all(part in one for parts, one in zip(told, found, strict=True) for part in parts.split())
    if len(processes) > 2:  # between them, they have each sentence
        sentences.check(SENTENCES, f"a reboot would end {' '.join(processes)}", found)


def test_whoever_has_a_gpu_open_speaks_against_it_but_not_the_drivers_own(tmp_path: Path) -> None:
    def process(number: int, name: str, *files: str) -> None:
        directory = tmp_path / str(number) / "fd"
        directory.mkdir(parents=True)
        (tmp_path / str(number) / "comm").write_text(f"{name}\n")
        for descriptor, file in enumerate(files):
            (directory / str(descriptor)).symlink_to(file)

    for number, daemon in enumerate(("nvidia-persiste", "nv-hostengine", "nv-fabricmanage"), 10):
        process(number, daemon, "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1")
    process(20, "bash", "/dev/null", "/dev/nvidiactl", "/dev/nvidia-uvm", "/tmp/nvidia0")
    process(21, "ended")
    (tmp_path / "21/fd").rmdir()
    (tmp_path / "22").mkdir()
    assert in_use(tmp_path) == []
    process(1234, "python", "/dev/null", "/dev/nvidia7")
    assert [one.partition(": ")[2] for one in in_use(tmp_path)] == ["python (1234)"]
    for number in range(2000, 2007):
        process(number, "train", "/dev/nvidia0")
    (told,) = in_use(tmp_path)
    trains = ", ".join(f"train ({number})" for number in range(2000, 2004))
    assert f"python (1234), {trains} and 3 " in told
    sentences.check(SENTENCES, "a reboot would end programs that use GPUs", [told])


def test_the_process_that_slurmd_keeps_for_cgroups_is_no_step(tmp_path: Path) -> None:
    (tmp_path / "8").mkdir()
    (tmp_path / "8/comm").write_text("slurmstepd\n")
    (tmp_path / "8/cmdline").write_bytes(b"/usr/sbin/slurmstepd\0infinity\0")
    assert in_use(tmp_path) == []
    (tmp_path / "8/cmdline").write_bytes(b"slurmstepd:\0[17.batch]\0")
    (found,) = in_use(tmp_path)
    assert found.startswith("1 steps ")


def test_check_mode_leaves_the_notes(tmp_path: Path) -> None:
    path = tmp_path / "notes/gpu_driver"
    assert note(path, "a new driver", check=True)
    assert not path.exists()
    assert note(path, "a new driver", check=False)
    assert note(path, "", check=True)
    assert path.read_text() == "a new driver\n"


def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(reboot_wanted, "in_use", lambda: ["1 steps"])
    params = {"notes": str(tmp_path / "notes"), "state_directory": str(tmp_path / "state")}
    return result_of(monkeypatch, reboot_wanted, Module(params))


def test_what_works_on_the_machine_is_in_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wanted(tmp_path, monkeypatch)["in_use"] == ["1 steps"]


def test_a_record_that_cannot_be_read_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(_directory: Path) -> set[str]:
        raise NodeFilesError(["files.json is damaged"])

    monkeypatch.setattr(reboot_wanted, "owners", unreadable)
    answer = wanted(tmp_path, monkeypatch)
    assert (answer["failed"], answer["msg"]) == (True, "files.json is damaged")
