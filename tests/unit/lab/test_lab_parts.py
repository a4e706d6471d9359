from __future__ import annotations

import ipaddress
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lab import cli, host, image, machines, scenarios, shell, showcase
from lab.machines import Machine
from lab.shell import LabError
from tests.kit import sentences

SENTENCES = Path(__file__).parent / "sentences.txt"

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
            "gpu01: /dev/nvidia0=ENXIO /dev/nvidia1=ENXIO; ",
        ),
        (GOOD.replace("=ENXIO", "=opened"), "gpu01: /dev/nvidia0=opened"),
        (GOOD.splitlines()[0], "2 1"),
        ("", "2 0"),
    ],
)
def test_a_job_without_isolation_is_noticed(output: str, problem: str) -> None:
    first = showcase.check(output, GPUS)[0]
    assert first.startswith(problem) if ":" in problem else re.findall(r"\d+", first) == problem.split()
    if "ENXIO" in problem or not output:
        sentences.check(SENTENCES, f"a job without isolation that printed {len(output.splitlines())} lines", [first])


def test_the_probe_prints_one_line_even_without_gpus() -> None:
    probe = Path(showcase.__file__).parent / "probe.py"
    done = subprocess.run([sys.executable, "-c", probe.read_text()], capture_output=True, text=True, check=True, env={})
    assert "CUDA_VISIBLE_DEVICES=" in done.stdout
    assert done.stdout.count("\n") == 1


def test_the_recipe_names_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    before = image.recipe_hash("trixie")
    assert image.recipe_hash("trixie") == before
    other = image.recipe_hash("bookworm")
    assert other != before
    more = {**image.DOWNLOADED, "trixie": (*image.DOWNLOADED["trixie"], "tmux")}
    monkeypatch.setattr(image, "DOWNLOADED", more)
    assert image.recipe_hash("trixie") != before
    assert image.recipe_hash("bookworm") == other


def test_every_release_that_a_machine_can_have_has_a_recipe() -> None:
    assert set(machines.RELEASES.values()) == set(image.DOWNLOADED)
    assert [line.split()[2] for line in image.sources("bookworm", "http://a/debian", "http://a/security")] == [
        "bookworm", "bookworm-updates", "bookworm-security",
    ]  # fmt: skip


def test_an_image_goes_when_another_of_its_release_comes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, podman: Any
) -> None:
    """Two releases are used side by side: neither takes the other's image away."""
    tags = ["bookworm-aaaaaaaaaaaa", "bbbbbbbbbbbb", image.tag("trixie")]
    removed = []
    monkeypatch.undo()
    monkeypatch.setattr(image, "_images", lambda _podman: [f"{image.REPOSITORY}:{tag}" for tag in tags])
    monkeypatch.setattr(image, "succeeds", lambda command: removed.append(command[-1]) or True)
    monkeypatch.setattr(image, "image_cache", lambda: tmp_path)
    monkeypatch.setattr(podman, "has_image", lambda _reference: False)
    (tmp_path / f"node-{image.tag('trixie')}.tar").touch()
    assert image.ensure(podman, "trixie") == f"{image.REPOSITORY}:{image.tag('trixie')}"
    assert removed == [f"{image.REPOSITORY}:bbbbbbbbbbbb"]


CLUSTER = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24, start: 10.0.0.11}}
profiles:
  new: {gpus: {model: h100, count: 2}, sockets: 1, cores_per_socket: 2, memory_mib: 1024}
  cpu: {sockets: 1, cores_per_socket: 2, memory_mib: 1024}
racks:
  r1: {nodes: gpu1, profile: new}
  r2: {nodes: cpu1, profile: cpu}
hosts: {ctl1: {address: 10.0.0.10}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
"""


@pytest.mark.parametrize(
    ("stack", "release"),
    [
        ("", "trixie"),
        ('gpu_stack: {os: debian-12, source: debian, driver: "535"}', "bookworm"),
        ('gpu_stack: {os: debian-13, source: debian, driver: "550"}', "trixie"),
    ],
)
def test_a_gpu_node_boots_the_release_of_its_stack_and_others_the_usual_one(
    tmp_path: Path, stack: str, release: str
) -> None:
    (tmp_path / "c.bedplate.yml").write_text(f"{CLUSTER}{stack}\n")
    plan = machines.read(tmp_path, tmp_path / "shared")
    assert {one.name: one.release for one in plan.machines} == {"ctl1": "trixie", "gpu1": release, "cpu1": "trixie"}
    assert {one.name: one.serves for one in plan.machines} == {"ctl1": True, "gpu1": False, "cpu1": False}
    assert {one.shared for one in plan.machines} == {str(tmp_path / "shared")}
    assert {one.shared for one in machines.read(tmp_path).machines} == {""}


def test_a_profiles_stack_is_before_the_clusters(tmp_path: Path) -> None:
    text = CLUSTER.replace("sockets: 1", "gpu_stack: {os: debian-12}, sockets: 1", 1)
    path = tmp_path / "c.bedplate.yml"
    path.write_text(f"{text}gpu_stack: {{os: debian-13, source: nvidia}}\n")
    assert machines.gpu_sections(path) == {"new": {"os": "debian-12", "source": "nvidia"}}
    path.write_text("profiles: [not, a, mapping]")
    assert machines.gpu_sections(path) == {}


def test_the_image_keeps_the_modes_of_its_folders() -> None:
    # A folder entry in the overlay would set /etc to whatever mode it has in this checkout.
    assert all(not path.endswith("/") for path in image.node_files())
    assert image.node_files()["usr/local/sbin/lab-node"][1] == 0o755


NETWORKS = [ipaddress.ip_network("10.1.0.0/24"), ipaddress.ip_network("10.2.0.0/24"), ipaddress.ip_network("fd00::/64")]


def test_the_lab_network_is_the_one_that_holds_every_machine() -> None:
    found = machines.common_network([Machine("a", "10.2.0.1"), Machine("b", "10.2.0.2")], NETWORKS)
    assert str(found) == "10.2.0.0/24"


def test_machines_in_two_networks_are_refused() -> None:
    with pytest.raises(LabError, match="IPv4") as caught:
        machines.common_network([Machine("a", "10.2.0.1"), Machine("b", "10.1.0.2")], NETWORKS)
    sentences.check(SENTENCES, "machines in two networks", [caught.value])


@pytest.mark.parametrize("names", [[], ["a.bedplate.yml", "b.bedplate.yml"]])
def test_an_inventory_has_exactly_one_cluster_file(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(LabError, match=f"{tmp_path}.*{', '.join(names) or 'none'}") as caught:
        machines.cluster_file(tmp_path)
    if names:
        sentences.check(SENTENCES, "two cluster files", [str(caught.value).replace(str(tmp_path), "/site")])


def test_the_summary_shows_where_to_look() -> None:
    results = [scenarios.Result("slurm", 0, 61.2, Path("a.log")), scenarios.Result("files", 2, 5.0, Path("b.log"))]
    lines = scenarios.table(results).splitlines()[-2:]
    assert lines[0].split() == ["slurm", "ok", "61"]
    assert lines[1].split() == ["files", "FAILED", "5", "b.log"]


def test_a_scenario_that_is_not_there_is_named_with_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "known", lambda: ["files", "slurm"])
    with pytest.raises(LabError, match=r": slrum\. .*: files, slurm") as caught:
        scenarios.run(None, ["slrum"], keep=False, verbose=False)  # type: ignore[arg-type]
    sentences.check(SENTENCES, "a scenario that is not there", [caught.value])


def test_two_scenarios_run_at_a_time_and_the_longest_begin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    both = threading.Barrier(2, timeout=10)

    def one(_podman: object, name: str, **_: bool) -> scenarios.Result:
        both.wait()
        return scenarios.Result(name, int(name == "opensm"), 1.0, Path("a.log"))

    monkeypatch.setattr(scenarios, "known", lambda: ["air_gap", "files", "gpu_stack", "opensm", "slurm"])
    monkeypatch.setattr(scenarios, "_run_one", one)
    assert scenarios.run(None, [], keep=False, verbose=False, jobs=2) == 1  # type: ignore[arg-type]
    table = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[:2] for line in table] == [
        ["slurm", "ok"], ["gpu_stack", "ok"], ["opensm", "FAILED"], ["files", "ok"],
    ]  # fmt: skip


def test_a_failed_command_is_explained(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LabError, match=r"(?s)^Why\.\n.*sh -c .* 3:\n  oh no") as caught:
        shell.capture(["sh", "-c", "echo oh no >&2; exit 3"], why="Why.")
    sentences.check(SENTENCES, "a command that fails", [caught.value])


def test_a_missing_command_is_named() -> None:
    with pytest.raises(LabError, match="no-such-command") as caught:
        shell.capture(["no-such-command"])
    sentences.check(SENTENCES, "a command that is not there", [caught.value])


def test_streamed_output_is_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "new" / "run.log"
    command = ["sh", "-c", "echo out; echo err >&2; exit 4"]
    assert shell.stream(command, log=log, quiet=True) == 4
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
    tags = [f"{image.REPOSITORY}:{tag}" for tag in ("aaa", "bbb", "bookworm-ccc")]
    monkeypatch.setattr(image, "_images", lambda _podman: tags)
    monkeypatch.setattr(image, "succeeds", lambda command: command[-1].rpartition(":")[2] not in busy)
    monkeypatch.setattr(image, "image_cache", lambda: tmp_path / "cache")
    # Guests and their disks of this machine stay.
    guests: list[str] = []
    monkeypatch.setattr(cli.guest_image, "image_cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(cli.guests, "remove_every", lambda: guests.append("removed"))
    monkeypatch.setattr(scenarios, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(cli, "_present_podman", lambda: podman)
    (tmp_path / "cache").mkdir()
    for name in ("aaa", "bbb", "bookworm-ccc"):
        (tmp_path / "cache" / f"node-{name}.tar").touch()
        (tmp_path / "cache" / f"archives-{name}").mkdir()
    (tmp_path / "cache" / "guest-aaa.img").touch()
    assert cli.main(["down", "--all"]) == 0
    assert guests == ["removed"]
    said = capsys.readouterr().out
    assert {path.name for path in tmp_path.glob("cache/*")} == {
        name for tag in busy for name in (f"node-{tag}.tar", f"archives-{tag}")
    }
    assert (f"{image.REPOSITORY}:bbb" in said) == bool(busy)
    sentences.check(
        SENTENCES, f"all goes but {', '.join(busy) or 'nothing'}", [re.sub(r"^\[.*\] \w+ +", "", said.strip())]
    )


def test_the_programs_beside_this_python_are_found_without_an_activated_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    cli.own_programs_first()
    for name in ("molecule", "ansible-playbook"):
        assert shutil.which(name) == str(Path(sys.executable).with_name(name))
