from __future__ import annotations

import ipaddress
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab import cli, host, image, machines, scenarios, shell, showcase
from lab.machines import Machine
from lab.shell import LabError

GPUS = {"ctl1": 0, "gpu01": 2, "gpu02": 2}
GOOD = """\
gpu01 CUDA_VISIBLE_DEVICES=0 /dev/nvidia0=ENXIO /dev/nvidia1=EPERM
gpu02 CUDA_VISIBLE_DEVICES=0 /dev/nvidia0=ENXIO /dev/nvidia1=EPERM
"""


def test_an_isolated_job_has_no_problems() -> None:
    assert showcase.check(GOOD, GPUS) == []


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (
            GOOD.replace("EPERM", "ENXIO"),
            "gpu01: /dev/nvidia0=ENXIO /dev/nvidia1=ENXIO; expected one ENXIO and 1 EPERM",
        ),
        (GOOD.replace("=ENXIO", "=opened"), "gpu01: /dev/nvidia0=opened"),
        (GOOD.splitlines()[0], "the job should have printed 2 lines, not 1"),
        ("", "the job should have printed 2 lines, not 0"),
    ],
)
def test_a_job_without_isolation_is_noticed(output: str, problem: str) -> None:
    assert showcase.check(output, GPUS)[0].startswith(problem)


def test_the_probe_prints_one_line_even_without_gpus() -> None:
    probe = Path(showcase.__file__).parent / "probe.py"
    done = subprocess.run([sys.executable, "-c", probe.read_text()], capture_output=True, text=True, check=True, env={})
    assert "CUDA_VISIBLE_DEVICES=" in done.stdout
    assert done.stdout.count("\n") == 1


def test_the_recipe_names_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    before = image.recipe_hash()
    assert image.recipe_hash() == before
    monkeypatch.setattr(image, "DOWNLOADED", (*image.DOWNLOADED, "tmux"))
    assert image.recipe_hash() != before


def test_the_image_keeps_the_modes_of_its_folders() -> None:
    # A folder entry in the overlay would set /etc to whatever mode it has in this checkout.
    assert all(not path.endswith("/") for path in image.node_files())
    assert image.node_files()["usr/local/sbin/lab-node"][1] == 0o755


NETWORKS = [ipaddress.ip_network("10.1.0.0/24"), ipaddress.ip_network("10.2.0.0/24"), ipaddress.ip_network("fd00::/64")]


def test_the_lab_network_is_the_one_that_holds_every_machine() -> None:
    found = machines.common_network([Machine("a", "10.2.0.1"), Machine("b", "10.2.0.2")], NETWORKS)
    assert str(found) == "10.2.0.0/24"


def test_machines_in_two_networks_are_refused() -> None:
    with pytest.raises(LabError, match="must share one IPv4 network"):
        machines.common_network([Machine("a", "10.2.0.1"), Machine("b", "10.1.0.2")], NETWORKS)


@pytest.mark.parametrize("names", [[], ["a.bedplate.yml", "b.bedplate.yml"]])
def test_an_inventory_has_exactly_one_cluster_file(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(LabError, match=f"exactly one .*{', '.join(names) or 'none'}"):
        machines.cluster_file(tmp_path)


def test_the_summary_shows_where_to_look() -> None:
    results = [scenarios.Result("slurm", 0, 61.2, Path("a.log")), scenarios.Result("files", 2, 5.0, Path("b.log"))]
    lines = scenarios.table(results).splitlines()[-2:]
    assert lines[0].split() == ["slurm", "ok", "61"]
    assert lines[1].split() == ["files", "FAILED", "5", "b.log"]


def test_a_scenario_that_is_not_there_is_named_with_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "known", lambda: ["files", "slurm"])
    with pytest.raises(LabError, match=r"no such scenario: slrum\. There are: files, slurm"):
        scenarios.run(None, ["slrum"], keep=False, verbose=False)  # type: ignore[arg-type]


def test_a_failed_command_is_explained(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LabError, match=r"(?s)The disk is full\.\ncommand: sh -c .*exit status 3:\n  oh no"):
        shell.capture(["sh", "-c", "echo oh no >&2; exit 3"], why="The disk is full.")


def test_a_missing_command_is_named() -> None:
    with pytest.raises(LabError, match="no-such-command is not installed"):
        shell.capture(["no-such-command"])


def test_streamed_output_is_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "new" / "run.log"
    assert shell.stream(["sh", "-c", "echo out; echo err >&2; exit 4"], log=log, quiet=True) == 4
    assert sorted(log.read_text().split()) == ["err", "out"]


def test_errors_are_one_message_and_a_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise LabError("no root")

    monkeypatch.setattr(host, "require_root", fail)
    assert cli.main(["down"]) == 1
    assert capsys.readouterr().err == "\nlab: no root\n"


@pytest.mark.parametrize("busy", [["bbb"], []])
def test_what_another_checkout_runs_is_kept_with_its_archive_and_said_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, podman: Any, capsys: pytest.CaptureFixture[str], busy: list[str]
) -> None:
    tags = [f"{image.REPOSITORY}:{tag}" for tag in ("aaa", "bbb")]
    monkeypatch.setattr(image, "_images", lambda _podman: tags)
    monkeypatch.setattr(image, "succeeds", lambda command: command[-1].rpartition(":")[2] not in busy)
    monkeypatch.setattr(image, "image_cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(scenarios, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(cli, "_present_podman", lambda: podman)
    (tmp_path / "cache").mkdir()
    for name in ("aaa", "bbb", "ccc"):
        (tmp_path / "cache" / f"node-{name}.tar").touch()
    assert cli.main(["down", "--all"]) == 0
    said = capsys.readouterr().out
    assert [path.name for path in tmp_path.glob("cache/*")] == [f"node-{name}.tar" for name in busy]
    assert ("node image, caches and logs removed" in said) != bool(busy)
    assert ("bedplate-node:bbb and its archive are kept: another checkout's nodes run it" in said) == bool(busy)
