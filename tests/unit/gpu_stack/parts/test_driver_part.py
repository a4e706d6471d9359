"""What the role gpu_driver is told to bring to a node, and what the cluster file may not ask for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import read_units
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.driver_part import judge
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.part_plan import software_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.decision import Decision
from tests.kit import sentences
from tests.kit.decided import decision, gpu_reported, shown
from tests.kit.public_keys import ONE

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
REBOOT = "/run/bedplate/reboot-wanted/gpu_driver"


def found(cluster: Any, host: str = "gpu1", gpu: dict[str, Any] | None = None, **variables: Any) -> dict[str, Any]:
    """Return the part `driver`, with `prepare` and `refusal`; `gpu` is what bedplate.cluster.gpu_facts returned."""
    made = decision("gpu_driver", cluster.path, host, gpu_reported(gpu) if gpu else None, **variables)
    prepare = shown("gpu_driver", made, "prepare")
    return {**shown("gpu_driver", made, "driver"), "prepare": prepare, "refusal": made.refusal}


def notes(told: dict[str, Any]) -> list[str]:
    """Return what the node is noted to need a reboot for: a line, or nothing."""
    return [entry["content"] for entry in told["files"] if entry["path"] == REBOOT]


def pins(deployed: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Return name -> (pin, priority) in the order of the file, which is apt's."""
    (text,) = (one["content"] for one in deployed["sources"] if one["path"].startswith("/etc/apt/preferences.d/"))
    pinned: dict[str, list[tuple[str, str]]] = {}
    for stanza in text.split("\n\n")[1:]:
        fields = dict(line.split(": ", 1) for line in stanza.strip().splitlines())
        for name in fields["Package"].split():
            pinned.setdefault(name, []).append((fields["Pin"], fields["Pin-Priority"]))
    return pinned


def test_a_node_gets_one_version_pinned_held_and_proven(tmp_path: Path) -> None:
    told = found(cluster(tmp_path, DEBIAN))
    driver = told["expected"]["driver"]
    assert (driver["version"], driver["flavour"]) == ("550.163.01", "open")
    packages = dict(entry.split("=") for entry in told["packages"])
    assert packages["nvidia-open-kernel-dkms"] == packages["libcuda1"] == "550.163.01-2"
    assert told["hold"] == list(packages)
    proof = {
        "manager": "apt",
        "packages": {"nvidia-open-kernel-dkms": "550.163.01-2"},
        "module_version": "550.163.01",
    }
    asked = {"query": False, "early_file": "/etc/modprobe.d/bedplate-gpu-driver.conf", "users": True}
    platform = {"platform": "pcie", "count": 0, "device": "", "known": ["0x1af1", "0x22a3"]}
    assert told["steps"] == {"gpu_facts": {**asked, "proof": proof}, "gpu_platform": platform}
    unproven = found(cluster(tmp_path, DEBIAN), gpu={**facts(None, None), "unproven": ["x 1.0"]}, prove=False)
    assert unproven["steps"]["dkms_proof"] == {**proof, "compile": False}
    assert told["expected"]["packages"] == packages
    assert told["expected"]["pinned"]["libnvcuvid1"] == "550.163.01-2"
    assert [unit["name"] for unit in told["units"]] == ["nvidia-persistenced.service"]
    assert "libnvcuvid1=550.163.01-2" in told["follow"]
    # A kernel that came by itself would boot without the driver.
    # Whichever of them a node has: that of the cloud, of real time, of another's repository.
    assert told["follow"][-3:] == ["linux-headers-amd64", "linux-headers-[!0-9]*", "linux-image-[!0-9]*"]
    assert told["expected"]["pinned"]["linux-image-[!0-9]*"] == "*"


UBUNTU_OPEN = {"nvidia-dkms-{branch}-open", "nvidia-kernel-source-{branch}-open"}


@pytest.mark.parametrize(
    ("system", "source", "driver", "module", "proven"),
    [
        ("ubuntu-22.04", "nvidia", "580", "open", UBUNTU_OPEN),
        ("ubuntu-24.04", "nvidia", "570", "proprietary", {"nvidia-dkms-{branch}", "nvidia-kernel-source-{branch}"}),
        ("ubuntu-24.04", "nvidia", "595", "open", {"nvidia-dkms-open", "nvidia-kernel-source-open"}),
        ("ubuntu-22.04", "canonical", "580", "open",
         {"nvidia-dkms-{branch}-server-open", "nvidia-kernel-source-{branch}-server-open"}),
        ("ubuntu-24.04", "canonical", "580", "proprietary",
         {"nvidia-dkms-{branch}-server", "nvidia-kernel-source-{branch}-server"}),
        ("debian-12", "nvidia", "580", "open", {"nvidia-kernel-open-dkms"}),
        ("debian-13", "debian", "550", "proprietary", {"nvidia-kernel-dkms"}),
        ("rocky-9", "nvidia", "580", "open", {"kmod-nvidia-open-dkms"}),
        ("rocky-10", "nvidia", "580", "proprietary", {"kmod-nvidia-latest-dkms"}),
    ],
)  # fmt: skip
def test_all_packages_with_sources_are_proven_and_dkms_name_is_not_stated(
    tmp_path: Path, system: str, source: str, driver: str, module: str, proven: set[str]
) -> None:
    (tmp_path / "n.asc").write_text(ONE)
    keys = "keys: {nvidia: n.asc}," if source == "nvidia" else ""
    kernel = {"rocky-9": "kernel: 5.14.0-503.11.1.el9_5.x86_64,", "rocky-10": "kernel: 6.12.0-55.9.1.el10_0.x86_64,"}
    stack = f'os: {system}, source: {source}, {kernel.get(system, "")} {keys} driver: "{driver}", module: {module}'
    (step,) = decision("gpu_driver", cluster(tmp_path, f"gpu_stack: {{{stack}}}\n").path, "gpu1").steps["gpu_facts"]
    proof = step.arguments["proof"]
    assert set(proof["packages"]) == {name.format(branch=driver) for name in proven}
    versions = {version.rpartition(":")[2].partition("-")[0] for version in proof["packages"].values()}
    assert versions == {proof["module_version"]}
    # The packages differ in it from release to release, so their own dkms.conf says it.
    assert "name" not in proof


@pytest.mark.parametrize(
    ("os", "major", "more", "addresses"),
    [
        ("rocky-9", "9", "", []),
        ("rocky-10", "10", 'urls: {nvidia: "http://m/x"},', ["http://m/x"]),
        ("rocky-9", "9", 'mirror: {url: "http://m/gpu", key: n.asc},', ["http://m/gpu/rocky-9"]),
        ("debian-13", "", "", []),
    ],
)
def test_what_only_an_optional_repository_of_el_has_is_looked_for_first(
    tmp_path: Path, os: str, major: str, more: str, addresses: list[str]
) -> None:
    (tmp_path / "n.asc").write_text(ONE)
    kernel = {"9": "kernel: 5.14.0-503.11.1.el9_5.x86_64,", "10": "kernel: 6.12.0-55.9.1.el10_0.x86_64,"}.get(major, "")
    stack = f'gpu_stack: {{os: {os}, source: nvidia, driver: "580", {kernel} {more} keys: {{nvidia: n.asc}}}}\n'
    available = found(cluster(tmp_path, stack))["prepare"]["available"]
    if not major:
        assert available is None
        return
    assert available["packages"] == ["dkms"]
    assert available["addresses"] == addresses
    for part in ("EPEL", "CRB", f"epel-release-latest-{major}.noarch.rpm", f"codeready-builder-for-rhel-{major}-"):
        assert part in available["advice"]


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
    proof = told["steps"]["gpu_facts"]["proof"]
    assert proof["kernel"] == told["expected"]["module"]["kernel"] == "6.12.117+deb13-amd64"
    headers = "linux-headers-6.12.117+deb13-amd64"
    # Whatever is the newest boots at the next power cycle, so nothing of the kernel comes before the proof but what that brings.
    assert told["prepare"]["packages"] == ["dkms"]
    assert told["packages"][-2:] == [f"{headers}=6.12.117-1", "linux-image-6.12.117+deb13-amd64"]
    assert pins(told)[headers] == [("version 6.12.117-1", "1001")]


@pytest.mark.parametrize(("stack", "host"), [(DEBIAN, "cpu1"), (DEBIAN, "ctl1"), ("", "gpu1")])
def test_others_get_nothing(tmp_path: Path, stack: str, host: str) -> None:
    made = cluster(tmp_path, stack)
    assert software_of(made, host) is None
    assert decision("gpu_driver", made.path, host) == Decision()


@pytest.mark.parametrize(
    ("case", "stack", "model", "count", "where", "values"),
    [
        ("too old a branch", DEBIAN, "b200", 1, "gpu_stack", ["profile gpu: b200", "570"]),
        ("a fabric that a source lacks", DEBIAN, "h100", 8, "gpu_stack", ["profile gpu: h100", "hgx", "source: nvidia"]),
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
    made = cluster(tmp_path, DEBIAN)
    wanted = software_of(made, "gpu1")
    assert wanted is not None
    told, reason = found(made, gpu=gpu), judge(wanted, gpu).reboot
    assert bool(reason) == bool(values)
    assert [value for value in values if value not in reason] == []
    assert ("nouveau" in reason) == ("nouveau" in values)
    units = [unit.where(gpu["driver"]["version"]) for unit in read_units(told["units"])[0]]
    assert [(unit.enabled, unit.state == "started") for unit in units] == [(True, started)]
    assert notes(told) == ([f"{reason}\n"] if reason else [])
    if reason:
        sentences.check(SENTENCES, f"why a reboot is wanted: {case}", [reason])


@pytest.mark.parametrize(
    ("more", "parameters", "values"),
    [
        ('module_options: {NVreg_X: "0"}', {"X": 0}, []),
        ('module_options: {NVreg_X: "0"}', {"X": 1}, ["module option NVreg_X", "expected 0, ", "found 1"]),
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
    told = found(cluster(tmp_path, DEBIAN.replace('"550"', f'"550", {more}')), gpu=gpu)
    reason = "".join(notes(told)).removesuffix("\n")
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
    made = cluster(tmp_path, DEBIAN)
    told = found(made, gpu={**gpu, "in_use": in_use})["refusal"]
    assert found(made, gpu={**gpu, "in_use": in_use}, replace_in_use=True)["refusal"] == ""
    # Most nodes are spared both: an initramfs without the file and a module without proof need them.
    whole = {**gpu, "in_use": in_use, "secure_boot": "none"}
    for more, step in (
        ({}, []),
        ({"initramfs_before": ["/boot/initrd.img"]}, ["initramfs"]),
        ({"unproven": ["x 1.0"]}, ["dkms_proof"]),
    ):
        assert list(found(made, gpu={**whole, **more})["steps"]) == ["gpu_facts", "gpu_platform", *step]
    assert bool(told) == refused
    if refused:
        assert f"driver {loaded} " in told
        assert all(use in told for use in in_use)
        sentences.check(SENTENCES, "another driver while jobs run", [told])


def test_jobs_are_looked_for_before_anything_of_the_driver_is_touched(tmp_path: Path) -> None:
    tasks = yaml.safe_load((ROOT / "roles/gpu_driver/tasks/main.yml").read_text())
    first, second = (task["bedplate.cluster.part"] for task in tasks)
    # Nothing but repositories and what compiles comes before; tests/roles sees that a refusal comes before all of the second task.
    assert first == {"before": ["gpu_platform"], "name": "prepare", "after": ["gpu_facts"]}
    assert second["reported"] == f"{{{{ {tasks[0]['register']} }}}}"
    assert (second["before"], second["name"]) == (["initramfs", "dkms_proof"], "driver")
    # The unit has set the unused GPUs by then.
    assert second["after"] == ["secure_boot", "gpu_settings"]
    gpu = {**facts("535.261.03"), "initramfs_before": ["/boot/initrd.img"], "unproven": ["x 1.0"]}
    made = decision("gpu_driver", cluster(tmp_path, DEBIAN).path, "gpu1", gpu_reported(gpu))
    assert {name: [step.module for step in steps] for name, steps in made.steps.items()} == {
        "gpu_facts": ["bedplate.cluster.gpu_facts"],
        "gpu_platform": ["bedplate.cluster.gpu_platform"],
        "initramfs": ["ansible.builtin.command"],
        "dkms_proof": ["bedplate.cluster.dkms_proof"],
    }


@pytest.mark.parametrize(
    ("stated", "notes", "expected"),
    [
        ("{power_limit_watts: 200}", [], {"power_limit_watts": 200}),
        # Before the node was read, too: the first task decides with the same values.
        ("{power_limit_watts: 200}", None, {"power_limit_watts": 200}),
        ("{}", ["gpu_driver", "gpu_settings"], {}),
        ("{}", ["gpu_driver"], None),
        ("{}", None, None),
    ],
)
def test_settings_are_compared_after_the_driver_and_their_note_is_removed_with_them(
    tmp_path: Path, stated: str, notes: list[str] | None, expected: dict[str, Any] | None
) -> None:
    """A node without settings, and without a note of them, is spared the module."""
    path = tmp_path / "c.bedplate.yml"
    text = FILE.replace("MODEL", "h100").replace("COUNT", "1") + DEBIAN
    path.write_text(text.replace("count: 1}", f"count: 1, settings: {stated}}}"))
    gpu = None if notes is None else {**facts("550.163.01"), "reboot_notes": notes}
    steps = found(load(path), gpu=gpu)["steps"]
    arguments = {"settings": expected, "driver": "550.163.01", "machine": "gpu1"}
    assert steps.get("gpu_settings") == (None if expected is None else arguments)


def test_a_reboot_is_waited_for_as_long_as_such_a_machine_takes() -> None:
    text = (ROOT / "playbooks/phases/reboot.yml").read_text()
    # The firmware of a board with eight GPUs takes over ten minutes, which is what Ansible waits for.
    assert [int(seconds) for seconds in re.findall(r"reboot_timeout: (\d+)", text)] == [1800]
