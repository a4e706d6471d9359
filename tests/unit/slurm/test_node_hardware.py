"""What a node has against what its lines will promise."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm import node_hardware
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.replaced_controllers import Served
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.node_hardware import (
    Promise,
    UnknownError,
    by_node,
    missing_devices,
    parse_slurmd,
    smaller,
)
from ansible_collections.bedplate.cluster.plugins.modules import slurm_node_hardware
from tests.kit import sentences
from tests.kit.module import Module, result_of

SENTENCES = Path(__file__).with_name("sentences.txt")
# As slurmd 24.11.5 prints it.
SLURMD = "NodeName=gpu01 CPUs=8 Boards=1 SocketsPerBoard=2 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=24105\nUpTime=0-00:23:16\n"


def promise(**keys: Any) -> Promise:
    return Promise("sim", "site.bedplate.yml", **keys)


def fields(findings: list[Any]) -> list[tuple[str, str]]:
    return [(one.where.rpartition("profiles.sim.")[2], one.found) for one in findings]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a root with two GPUs; a plain file whose name has `nvidia` counts as a device, for only root makes one."""
    (tmp_path / "dev").mkdir()
    for number in (0, 1):
        (tmp_path / f"dev/nvidia{number}").write_text("")
        (tmp_path / f"proc/driver/nvidia/gpus/0000:0{number}:00.0").mkdir(parents=True)
    (tmp_path / "dev/plain").write_text("")
    real = os.stat

    def fake(path: Any, **keys: Any) -> os.stat_result:
        found = real(path, **keys)
        mode = stat.S_IFCHR | 0o666 if "nvidia" in Path(path).name and found.st_size == 0 else found.st_mode
        return os.stat_result((mode, *found[1:]))

    monkeypatch.setattr(Path, "stat", lambda path, **keys: fake(str(path), **keys))
    return tmp_path


@pytest.mark.parametrize(
    ("devices", "found"),
    [
        ([], []),
        (["/dev/nvidia0", "/dev/nvidia1"], []),
        (
            ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia3"],
            [("gpus.devices", "/dev/nvidia[2-3]")],
        ),
        (["/dev/plain"], [("gpus.devices", "/dev/plain")]),
    ],
)
def test_device_files(root: Path, devices: list[str], found: list[tuple[str, str]]):
    rows = list(missing_devices(promise(devices=devices), root))
    assert [(where, text.split()[0]) for where, text in fields(rows)] == found
    if devices == ["/dev/plain"]:
        sentences.check(SENTENCES, "a path that is no device", rows)


@pytest.mark.parametrize(("count", "found"), [(0, []), (1, []), (2, []), (3, [("gpus.count", "2 GPUs")])])
def test_gpus_that_slurmd_finds_by_itself(root: Path, count: int, found: list[tuple[str, str]]):
    assert fields(missing_devices(promise(gpus=count), root)) == found


def test_without_the_driver_nobody_knows_how_many_gpus_there_are(tmp_path: Path):
    with pytest.raises(UnknownError):
        missing_devices(promise(gpus=1), tmp_path)


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ((2, 2, 2, 24105), []),
        ((1, 4, 2, 24000), []),
        ((1, 1, 1, 1), []),
        ((2, 3, 2, 1), [("sockets x cores_per_socket", "4 cores")]),
        ((2, 1, 4, 1), [("threads_per_core", "2 threads a core")]),
        ((2, 2, 2, 24106), [("memory_mib less huge pages less reserved_memory_mib", "24105 MiB")]),
        ((4, 4, 4, 99999), [("sockets x cores_per_socket", "4 cores"), ("threads_per_core", "2 threads a core"),
                            ("memory_mib less huge pages less reserved_memory_mib", "24105 MiB")]),
    ],
)  # fmt: skip
def test_a_node_with_less_than_its_line_says(keys: tuple[int, int, int, int], found: list[tuple[str, str]]):
    names = ("sockets", "cores_per_socket", "threads_per_core", "memory")
    assert fields(smaller(promise(**dict(zip(names, keys, strict=True))), parse_slurmd(SLURMD))) == found


def test_findings_of_like_nodes_are_one_line():
    (finding,) = smaller(promise(sockets=9, cores_per_socket=1, threads_per_core=1), parse_slurmd(SLURMD))
    text = by_node([finding.on("n1"), finding.on("n2")])
    assert text.count("\n") == 0
    for part in ("site.bedplate.yml: profiles.sim", "9 cores", "n[1-2]", "4 cores", "slurmd -C"):
        assert part in text
    assert by_node([finding]) == text.replace(" for n[1-2]", "")
    sentences.check(SENTENCES, "nodes with less than their lines", [text])
    assert finding.kind == node_hardware.KIND


def test_slurmd_that_prints_nothing():
    assert parse_slurmd("slurmd: fatal: no\n") == {}


def test_a_slurmd_that_counts_nothing_counts_no_node_as_small(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slurm_node_hardware, "find", lambda name: name)
    monkeypatch.setattr(slurm_node_hardware, "run", lambda argv, timeout: Outcome(1, "slurmd: fatal: no\n", ""))
    with pytest.raises(UnknownError, match="slurmd: fatal: no"):
        slurm_node_hardware.count(promise(sockets=1), new=False)


def module_of(fail: bool, check_mode: bool = False) -> Module:
    params: dict[str, Any] = {
        "profile": "h100", "cluster_file": "x.bedplate.yml", "devices": ["/dev/nothing"], "sockets": 1, "fail": fail,
        "conf_servers": ["10.0.0.9:6817"], "first_start": False,
        **dict.fromkeys(("gpus", "cores_per_socket", "threads_per_core", "memory"), 0),
    }  # fmt: skip
    return Module(params, check_mode)


JOBS = Finding(
    "other-controllers", "x.bedplate.yml: services.controllers", "10.0.0.9", "10.0.0.1, where Slurm knows 2 jobs"
)


@pytest.mark.parametrize(
    ("fail", "slurmd", "others", "failed", "counted"),
    [
        (True, True, (JOBS,), False, True),
        (True, True, (), True, True),
        (False, True, (), False, True),
        (False, False, (JOBS,), False, False),
        (True, False, (), True, True),
    ],
)
def test_jobs_of_other_controllers_are_said_whatever_can_be_counted(
    monkeypatch: pytest.MonkeyPatch, fail: bool, slurmd: bool, others: tuple[Finding, ...], failed: bool, counted: bool
):
    """A node that fails would not say it. Without slurmd, only a node that Slurm does not have yet can be counted."""
    monkeypatch.setattr(slurm_node_hardware, "find", lambda name: "/bin/slurmd" if slurmd else None)
    output = "NodeName=n1 CPUs=1 SocketsPerBoard=1 CoresPerSocket=1 ThreadsPerCore=1 RealMemory=1\n"
    monkeypatch.setattr(slurm_node_hardware, "run", lambda argv, timeout: Outcome(0, output, ""))
    monkeypatch.setattr(slurm_node_hardware, "jobs_of_others", lambda *_, **__: Served(others, bool(others)))
    result = result_of(monkeypatch, slurm_node_hardware, module_of(fail))
    assert (result.get("failed", False), result["counted"]) == (failed, counted)
    assert (len(result["others"]), result["silent"]) == (len(others), bool(others))


def test_check_mode_warns_of_a_node_that_has_less_and_foretells_the_rest(monkeypatch: pytest.MonkeyPatch):
    """The run that follows may load the driver or correct the profile first."""
    module = module_of(fail=True, check_mode=True)
    monkeypatch.setattr(slurm_node_hardware, "find", lambda name: None)
    monkeypatch.setattr(slurm_node_hardware, "jobs_of_others", lambda *_, **__: Served((), False))
    assert not result_of(monkeypatch, slurm_node_hardware, module).get("failed")
    (warning,) = module.warnings
    assert "/dev/nothing missing" in warning
