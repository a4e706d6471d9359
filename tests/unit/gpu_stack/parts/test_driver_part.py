"""What the role gpu_driver is told to bring to a node, and what the cluster file may not ask for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.filter.gpu import gpu_driver_state
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.driver_part import (
    deployment,
    reboot_files,
    state,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.part_plan import software_of
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

ROOT = Path(__file__).parents[4]
FILE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24}}
profiles:
  gpu: {gpus: {model: MODEL, count: COUNT}, sockets: 1, cores_per_socket: 2, memory_mib: 1024}
  cpu: {sockets: 1, cores_per_socket: 2, memory_mib: 1024}
racks:
  r1: {nodes: gpu1, profile: gpu}
  r2: {nodes: cpu1, profile: cpu}
hosts: {ctl1: {address: 10.0.0.10}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
"""


def cluster(tmp_path: Path, stack: str, model: str = "h100", count: int = 1) -> Any:
    path = tmp_path / "c.bedplate.yml"
    path.write_text(FILE.replace("MODEL", model).replace("COUNT", str(count)) + stack)
    return load(path)


DEBIAN = 'gpu_stack: {os: debian-13, source: debian, driver: "550"}\n'


def found(cluster: Any, host: str = "gpu1") -> dict[str, Any]:
    wanted = software_of(cluster, host)
    assert wanted is not None
    return deployment(wanted)


def pins(deployed: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Return name -> (pin, priority) in the order of the file, which is apt's."""
    text = deployed["pins"][0]["content"]
    pinned: dict[str, list[tuple[str, str]]] = {}
    for stanza in text.split("\n\n")[1:]:
        fields = dict(line.split(": ", 1) for line in stanza.strip().splitlines())
        for name in fields["Package"].split():
            pinned.setdefault(name, []).append((fields["Pin"], fields["Pin-Priority"]))
    return pinned


def test_a_node_gets_one_version_pinned_held_and_proven(tmp_path: Path) -> None:
    told = found(cluster(tmp_path, DEBIAN))
    assert (told["driver"], told["module"]) == ("550.163.01", "open")
    packages = dict(entry.split("=") for entry in told["packages"])
    assert packages["nvidia-open-kernel-dkms"] == packages["libcuda1"] == "550.163.01-2"
    assert told["hold"] == list(packages)
    assert told["proof"] == {
        "manager": "apt",
        "package": "nvidia-open-kernel-dkms",
        "version": "550.163.01-2",
        "name": "nvidia-current-open",
        "module_version": "550.163.01",
    }
    asked = {"query": False, "early_file": "/etc/modprobe.d/bedplate-gpu-driver.conf", "users": True}
    assert told["ask"] == {**asked, "proof": told["proof"]}
    assert told["expected"]["packages"] == packages
    assert told["expected"]["pinned"]["libnvcuvid1"] == "550.163.01-2"
    assert told["services"] == ["nvidia-persistenced"]
    assert "libnvcuvid1=550.163.01-2" in told["follow"]
    # A kernel that came by itself would boot without the driver.
    # Whichever of them a node has: that of the cloud, of real time, of another's repository.
    assert told["follow"][-3:] == ["linux-headers-amd64", "linux-headers-[!0-9]*", "linux-image-[!0-9]*"]
    assert told["expected"]["pinned"]["linux-image-[!0-9]*"] == "*"


def test_a_copy_of_the_archive_is_where_the_file_says(tmp_path: Path) -> None:
    urls = "urls: {debian: http://mirror.example.org/debian}"
    told = found(cluster(tmp_path, DEBIAN.replace('"550"', f'"550", {urls}')))
    sources = {one["path"]: one["content"] for one in told["prepare"]["sources"]}
    main = sources["/etc/apt/sources.list.d/bedplate-debian.sources"]
    assert (
        "URIs: http://mirror.example.org/debian\nSuites: trixie trixie-updates\nComponents: contrib non-free " in main
    )
    assert "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg" in main
    assert "URIs: http://deb.debian.org/" in sources["/etc/apt/sources.list.d/bedplate-debian-security.sources"]


def test_preferences_name_every_package_with_its_version_before_anything_else_of_that_origin(tmp_path: Path) -> None:
    told = found(cluster(tmp_path, DEBIAN))
    pinned = pins(told)
    for entry in told["packages"]:
        name, _, version = entry.partition("=")
        # What NVIDIA's repository has of that name is out, whichever version it is.
        assert pinned[name] == [("release o=NVIDIA", "-1"), (f"version {version}", "1001")]
    # Only a dependency of others, and of the same set.
    assert pinned["libnvcuvid1"][-1] == ("version 550.163.01-2", "1001")
    assert pinned["cuda-drivers*"] == [("version *", "-1")]


def test_a_stated_kernel_is_the_one_that_is_proven_and_stays_the_distributions(tmp_path: Path) -> None:
    stack = DEBIAN.replace('"550"', '"550", kernel: 6.12.117+deb13-amd64')
    told = found(cluster(tmp_path, stack))
    assert told["proof"]["kernel"] == told["expected"]["module"]["kernel"] == "6.12.117+deb13-amd64"
    headers = "linux-headers-6.12.117+deb13-amd64"
    # Whatever is the newest boots at the next power cycle, so nothing of the kernel comes before the proof but what that brings.
    assert told["build"] == ["dkms"]
    assert told["packages"][-2:] == [f"{headers}=6.12.117-1", "linux-image-6.12.117+deb13-amd64"]
    assert pins(told)[headers] == [("version 6.12.117-1", "1001")]


@pytest.mark.parametrize(("stack", "host"), [(DEBIAN, "cpu1"), (DEBIAN, "ctl1"), ("", "gpu1")])
def test_others_get_nothing(tmp_path: Path, stack: str, host: str) -> None:
    assert software_of(cluster(tmp_path, stack), host) is None


@pytest.mark.parametrize(
    ("case", "stack", "model", "count", "where", "values"),
    [
        ("too old a branch", DEBIAN, "b200", 1, "gpu_stack", ["profile gpu: b200", "570"]),
        ("a fabric that a source lacks", DEBIAN, "h100", 8, "gpu_stack", ["profile gpu: h100", "hgx", "source: nvidia"]),
        ("an unknown branch", DEBIAN.replace("550", "560"), "h100", 1, "gpu_stack", ["driver 560", "debian on debian-13"]),
        ("an unknown system", DEBIAN.replace("debian-13", "debain-13"), "h100", 1, "gpu_stack", ["'debain-13'", "debian-13"]),
        ("a number", DEBIAN.replace('"550"', "550"), "h100", 1, "gpu_stack.driver", ["550"]),
        ("a word", DEBIAN.replace('"550"', '"latest"'), "h100", 1, "gpu_stack.driver", ["'latest'", '"550"']),
        ("an unknown source", DEBIAN.replace("source: debian", "source: runfile"), "h100", 1, "gpu_stack.source", ["'runfile'"]),
    ],
)  # fmt: skip
def test_a_stack_that_cannot_be_is_a_mistake_in_the_cluster_file(
    tmp_path: Path, case: str, stack: str, model: str, count: int, where: str, values: list[str]
) -> None:
    with pytest.raises(ClusterFileError) as caught:
        cluster(tmp_path, stack, model, count)
    (mistake,) = caught.value.mistakes
    assert (mistake.line, mistake.where) == (14, where)
    assert [value for value in values if value not in mistake.message] == []
    sentences.check(SENTENCES, f"a driver that cannot be: {case}", [f"{mistake.where}: {mistake.message}"])


def facts(version: str | None, flavour: str | None = "open", gpus: int = 1, nouveau: bool = False) -> dict[str, Any]:
    libraries = [{"version": version}] if version else []
    driver = {"version": version, "flavour": flavour, "libraries": libraries, "parameters": {"EnableGpuFirmware": 18}}
    return {"gpus": [{}] * gpus, "driver": driver, "nouveau": nouveau, "running_kernel": "6.12.117+deb13-amd64"}


@pytest.mark.parametrize(
    ("case", "gpu", "values", "started"),
    [
        ("", facts("550.163.01"), [], True),
        ("none runs", facts(None, None), ["550.163.01"], False),
        ("", facts(None, None, gpus=0), [], False),
        ("another one runs", facts("535.261.03"), ["550.163.01 (open)", "535.261.03 (open)"], False),
        ("another flavour runs", facts("550.163.01", "proprietary"), ["550.163.01 (open)", "550.163.01 (proprietary)"], True),
        ("nouveau runs", facts(None, None, nouveau=True), ["550.163.01", "nouveau"], False),
    ],
)  # fmt: skip
def test_the_reason_for_a_reboot(
    tmp_path: Path, case: str, gpu: dict[str, Any], values: list[str], started: bool
) -> None:
    told = state(found(cluster(tmp_path, DEBIAN)), gpu)
    reason = told["reboot"]
    assert bool(reason) == bool(values)
    assert [value for value in values if value not in reason] == []
    assert ("nouveau" in reason) == ("nouveau" in values)
    assert [("state" in unit) for unit in told["units"]] == [started]
    assert [entry["content"] for entry in reboot_files(reason)] == ([f"{reason}\n"] if reason else [])
    if reason:
        sentences.check(SENTENCES, f"why a reboot is wanted: {case}", [reason])


@pytest.mark.parametrize(
    ("more", "parameters", "values"),
    [
        ('module_options: {NVreg_X: "0"}', {"X": 0}, []),
        ('module_options: {NVreg_X: "0"}', {"X": 1}, ["module option NVreg_X", " 0, ", " 1 "]),
        # Of one that this driver does not show, or of none, nobody knows.
        ('module_options: {NVreg_X: "0"}', {"Y": 1}, []),
        ('module_options: {NVreg_X: "0"}', None, []),
        ("kernel: 6.12.117+deb13-amd64", {}, []),
        ("kernel: 6.12.116+deb13-amd64", {}, ["kernel 6.12.116+deb13-amd64", "6.12.117+deb13-amd64"]),
    ],
)  # fmt: skip
def test_an_option_or_a_kernel_that_is_not_in_force_is_a_reason(
    tmp_path: Path, more: str, parameters: dict[str, int] | None, values: list[str]
) -> None:
    gpu = facts("550.163.01")
    gpu["driver"]["parameters"] = parameters
    reason = state(found(cluster(tmp_path, DEBIAN.replace('"550"', f'"550", {more}'))), gpu)["reboot"]
    assert bool(reason) == bool(values)
    assert [value for value in values if value not in reason] == []
    if reason:
        sentences.check(SENTENCES, f"why a reboot is wanted: {more}", [reason])


BUSY = ["2 steps of jobs run (slurmstepd)", "slurmd runs"]


@pytest.mark.parametrize(
    ("loaded", "on_disk", "in_use", "refused"),
    [
        ("535.261.03", ["535.261.03"], BUSY, True),
        # Of which nobody knows.
        ("535.261.03", [None], BUSY, True),
        ("535.261.03", [], BUSY, True),
        ("535.261.03", ["535.261.03"], [], False),
        # It was installed before, so nothing more is lost.
        ("535.261.03", ["550.163.01"], BUSY, False),
        ("550.163.01", ["535.261.03"], BUSY, False),
        (None, [], BUSY, False),
    ],
)
def test_another_driver_does_not_come_while_jobs_run(
    tmp_path: Path, loaded: str | None, on_disk: list[str | None], in_use: list[str], refused: bool
) -> None:
    gpu = facts(loaded)
    gpu["driver"]["libraries"] = [{"version": one} for one in on_disk]
    deployed = found(cluster(tmp_path, DEBIAN))
    told = state(deployed, {**gpu, "in_use": in_use})["refusal"]
    # What most nodes are spared is gone into where there is a refusal, an initramfs without the file, or no proof.
    whole = {**gpu, "in_use": in_use, "secure_boot": "none"}
    assert gpu_driver_state(deployed, whole)["attention"] is bool(told)
    assert gpu_driver_state(deployed, {**whole, "initramfs_before": ["/boot/initrd.img"]})["attention"] is True
    assert gpu_driver_state(deployed, {**whole, "unproven": ["x 1.0"]})["attention"] is True
    assert bool(told) == refused
    if refused:
        assert f"driver {loaded} " in told
        assert all(use in told for use in in_use)
        sentences.check(SENTENCES, "another driver while jobs run", [told])


def test_jobs_are_looked_for_before_anything_of_the_driver_is_touched() -> None:
    tasks = yaml.safe_load((ROOT / "roles/gpu_driver/tasks/main.yml").read_text())
    used = [next(key for key in task if "." in key).rpartition(".")[2] for task in tasks]
    assert tasks[used.index("gpu_facts")]["bedplate.cluster.gpu_facts"] == "{{ __gpu_driver_wanted['ask'] }}"
    assert used.index("gpu_facts") < used.index("include_tasks")
    # Nothing but repositories and what compiles comes before.
    assert [name for name in used[: used.index("include_tasks")] if name == "deploy"] == ["deploy"]
    assert tasks[used.index("include_tasks")]["when"] == "__gpu_driver_state['attention']"
    included = yaml.safe_load((ROOT / "roles/gpu_driver/tasks/before_install.yml").read_text())
    assert [next(key for key in task if "." in key) for task in included] == [
        "ansible.builtin.fail",
        "ansible.builtin.command",
        "bedplate.cluster.dkms_proof",
    ]


def test_a_reboot_is_waited_for_as_long_as_such_a_machine_takes() -> None:
    text = (ROOT / "playbooks/reboot.yml").read_text()
    # The firmware of a board with eight GPUs takes over ten minutes, which is what Ansible waits for.
    assert [int(seconds) for seconds in re.findall(r"reboot_timeout: (\d+)", text)] == [1800]
