"""What NVLink takes beside packages: IMEX's list of the nodes of a domain, its restart, and both read back from a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import nvlink_drift
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import read_units
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.driver_part import judge
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.part_plan import software_of
from tests.kit import sentences
from tests.kit.decided import decided

SENTENCES = Path(__file__).parent / "sentences.txt"

PATH = "/etc/nvidia-imex/nodes_config.cfg"
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQENBF\n-----END PGP PUBLIC KEY BLOCK-----\n"
FILE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24, start: 10.0.0.11}}
profiles:
  tray: {gpus: {model: gb200, count: 4}, sockets: 2, cores_per_socket: 72, memory_mib: 1024}
  cpu: {sockets: 1, cores_per_socket: 2, memory_mib: 1024}
racks:
  r1:
    nvlink_domain: 2
    nodes:
      - {names: "a[1-3]", profile: tray}
      - {names: x1, profile: cpu}
      - {names: a4, profile: tray}
  r2: {nodes: "b[1-3]", profile: tray, nvlink_domain: 2}
  r3: {nodes: "c[1-2]", profile: tray}
hosts: {ctl1: {address: 10.0.0.10}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
gpu_stack: {os: ubuntu-24.04, source: nvidia, driver: "580", keys: {nvidia: nvidia.asc}}
"""


def told(tmp_path: Path, host: str, text: str = FILE) -> dict[str, Any]:
    (tmp_path / "nvidia.asc").write_text(KEY)
    path = tmp_path / "c.bedplate.yml"
    path.write_text(text)
    return decided("gpu_driver", path, host, "driver")


def listed(deployed: dict[str, Any]) -> list[str]:
    """Return the lines of IMEX's list, among the files that are brought."""
    return [line for entry in deployed["files"] if entry["path"] == PATH for line in entry["content"].splitlines()]


@pytest.mark.parametrize(
    ("host", "last"),
    [
        ("a1", [11, 12]),
        ("a2", [11, 12]),
        # The rack's node without GPUs is between them.
        ("a3", [13, 15]),
        ("a4", [13, 15]),
        # Three are not two domains: the plan of the fabric tells of it.
        ("b2", [16, 17, 18]),
        # NVLink that does not leave a node.
        ("c2", [20]),
    ],
)
def test_imex_is_told_all_addresses_of_the_domain_a_line_each(tmp_path: Path, host: str, last: list[int]) -> None:
    deployed = told(tmp_path, host)
    assert listed(deployed) == [f"10.0.0.{one}" for one in last]
    assert deployed["expected"]["nvlink"]["nodes"] == listed(deployed)
    assert deployed["expected"]["nvlink"]["nodes_file"] == PATH
    (entry,) = [one for one in deployed["files"] if one["path"] == PATH]
    assert entry["content"].endswith("\n")


def test_a_domain_over_two_racks_has_one_list(tmp_path: Path) -> None:
    racks = '  r3: {nodes: "c[1-2]", profile: tray}\n'
    text = FILE.replace(racks, '  r[3-4]: {nodes: "c[1-4]", profile: tray, nvlink_domain: 4, nvlink_domain_name: d}\n')
    assert [listed(told(tmp_path, host, text)) for host in ("c1", "c4")] == [
        [f"10.0.0.{one}" for one in range(19, 23)]
    ] * 2


def test_other_platforms_have_no_such_list(tmp_path: Path) -> None:
    text = FILE.replace("model: gb200, count: 4", "model: b200, count: 8")
    deployed = told(tmp_path, "a1", text)
    assert listed(deployed) == []
    assert deployed["expected"]["nvlink"] == {"nodes_file": "", "nodes": [], "modules": ["ib_umad"], "channel": ""}
    assert [unit["name"] for unit in deployed["units"] if PATH in unit["restart_after"]] == []
    nothing = told(tmp_path, "x1", text)
    assert ("manifest" in nothing, nothing["packages"], nothing["files"], nothing["units"]) == (False, [], [], [])


@pytest.mark.parametrize(("runs", "restarts"), [("580.126.09", [PATH]), ("570.124.06", []), (None, [])])
def test_imex_starts_again_when_its_list_changed_where_its_driver_runs(
    tmp_path: Path, runs: str | None, restarts: list[str]
) -> None:
    units, mistakes = read_units(told(tmp_path, "a1")["units"])
    assert mistakes == []
    found = {unit.name: unit.where(runs) for unit in units}
    assert list(found["nvidia-imex.service"].restart_after) == restarts
    assert PATH not in found["nvidia-persistenced.service"].restart_after


MODULES = "bedplate-gpu-modules.service"


@pytest.mark.parametrize(("runs", "state"), [("580.126.09", "started"), ("570.124.06", ""), (None, "")])
def test_ib_umad_is_loaded_before_the_fabric_manager_starts(tmp_path: Path, runs: str | None, state: str) -> None:
    deployed = told(tmp_path, "a1", FILE.replace("model: gb200, count: 4", "model: b200, count: 8"))
    units, mistakes = read_units(deployed["units"])
    assert mistakes == []
    names = [unit.name for unit in units]
    assert names.index(MODULES) < names.index("nvidia-fabricmanager.service")
    # Both start in the run that installs them, if this driver runs; else with the next boot.
    found = {unit.name: unit.where(runs) for unit in units}
    assert {(found[name].state or "", found[name].enabled) for name in (MODULES, "nvidia-fabricmanager.service")} == {
        (state, True)
    }
    files = {one["path"]: one["content"] for one in deployed["files"] if "content" in one}
    assert files["/etc/modules-load.d/bedplate-gpu-driver.conf"] == "ib_umad\n"
    text = files[f"/etc/systemd/system/{MODULES}"]
    assert "\nBefore=nvidia-fabricmanager.service" in text
    assert "systemd-modules-load /etc/modules-load.d/bedplate-gpu-driver.conf\n" in text
    assert MODULES in deployed["expected"]["units"]
    assert MODULES not in [unit["name"] for unit in told(tmp_path, "a1")["units"]]


@pytest.mark.parametrize(
    ("gpus", "version", "loaded", "kinds"),
    [
        (8, "580.126.09", True, []),
        (8, "580.126.09", False, ["module-loaded"]),
        # A node that awaits its reboot, and one without GPUs.
        (8, None, False, []),
        (0, "580.126.09", False, []),
    ],
)
def test_ib_umad_is_read_back(tmp_path: Path, gpus: int, version: str | None, loaded: bool, kinds: list[str]) -> None:
    if loaded:
        (tmp_path / "sys/module/ib_umad").mkdir(parents=True)
    gpu = {"gpus": [{}] * gpus, "driver": {"version": version}}
    found = list(nvlink_drift.loaded(WANTED, gpu, tmp_path))
    assert [one.kind for one in found] == kinds
    if found:
        sentences.check(SENTENCES, "a module of the fabric manager that is not loaded", found)


OPTIONS, CHANNEL = "/etc/modprobe.d/bedplate-nvidia.conf", "dev/nvidia-caps-imex-channels/channel0"
BY_SLURM = "slurm: {version: '24.11', options: {switchtype: switch/nvidia_imex}}\n"


@pytest.mark.parametrize(
    ("model", "slurm", "own", "option"),
    [
        ("gb200, count: 4", "", "", "NVreg_CreateImexChannel0=1"),
        # Slurm makes a channel for each job.
        ("gb200, count: 4", BY_SLURM, "", ""),
        ("gb200, count: 4", BY_SLURM, '"1"', "NVreg_CreateImexChannel0=1"),
        # Another program makes them.
        ("gb200, count: 4", "", '"0"', "NVreg_CreateImexChannel0=0"),
        ("b200, count: 8", "", "", ""),
        ("h100, count: 8", "", "", ""),
    ],
)
def test_a_node_of_an_nvl72_has_an_imex_channel(tmp_path: Path, model: str, slurm: str, own: str, option: str) -> None:
    text = FILE.replace("gb200, count: 4", model) + slurm
    if own:
        text = text.replace('driver: "580"', f'driver: "580", module_options: {{NVreg_CreateImexChannel0: {own}}}')
    deployed = told(tmp_path, "a1", text)
    lines = [one["content"] for one in deployed["files"] if one["path"] == OPTIONS]
    assert lines == ([f"options nvidia {option}\n"] if option else [])
    assert deployed["expected"]["driver"]["options"] == dict([option.split("=")] if option else [])
    assert deployed["expected"]["nvlink"]["channel"] == (f"/{CHANNEL}" if option.endswith("=1") else "")


def test_a_driver_that_was_loaded_without_the_channel_needs_a_reboot(tmp_path: Path) -> None:
    (tmp_path / "nvidia.asc").write_text(KEY)
    path = tmp_path / "c.bedplate.yml"
    path.write_text(FILE)
    wanted = software_of(load(path), "a1")
    assert wanted
    gpu: dict[str, Any] = {
        "gpus": [{}],
        "driver": {"version": wanted.stack.driver, "flavour": "open", "parameters": {"CreateImexChannel0": 0}, "libraries": []},
        "nouveau": False, "running_kernel": "6.8.0", "in_use": [],
    }  # fmt: skip
    assert "NVreg_CreateImexChannel0: expected 1, found 0" in judge(wanted, gpu).reboot
    gpu["driver"]["parameters"] = {"CreateImexChannel0": 1}
    assert judge(wanted, gpu).reboot == ""


@pytest.mark.parametrize(
    ("gpus", "parameters", "device", "kinds"),
    [
        (1, {"CreateImexChannel0": 1}, True, []),
        (1, {"CreateImexChannel0": 1}, False, ["imex-channel"]),
        # A plain file is no channel.
        (1, {"CreateImexChannel0": 1}, None, ["imex-channel"]),
        # The option is a finding of its own.
        (1, {"CreateImexChannel0": 0}, False, []),
        (1, None, False, []),
        (0, {"CreateImexChannel0": 1}, False, []),
    ],
)
def test_the_channel_is_read_back(
    tmp_path: Path, gpus: int, parameters: dict[str, int] | None, device: bool | None, kinds: list[str]
) -> None:
    at = tmp_path / CHANNEL
    at.parent.mkdir(parents=True)
    if device:
        at.symlink_to("/dev/null")
    elif device is None:
        at.write_text("")
    gpu = {"gpus": [{}] * gpus, "driver": {"parameters": parameters}}
    found = list(nvlink_drift.channel({"channel": f"/{CHANNEL}"}, gpu, tmp_path))
    assert [one.kind for one in found] == kinds
    assert list(nvlink_drift.channel({"channel": ""}, gpu, tmp_path)) == []
    if found:
        assert found[0].reboot
        sentences.check(SENTENCES, "an IMEX channel that is missing", found)


WANTED = {"nodes_file": PATH, "nodes": ["10.0.0.11", "10.0.0.12"], "modules": ["ib_umad"]}


def run(code: int) -> Any:
    def answer(command: list[str]) -> Outcome:
        assert command == ["modinfo", "--set-version", "6.8.0-90-generic", "--field", "filename", "ib_umad"]
        return Outcome(code, "", "")

    return answer


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10.0.0.11\n10.0.0.12\n", None),
        (None, "No such file"),
        ("10.0.0.11\n", "none of 10.0.0.12"),
        ("10.0.0.11\n10.0.0.12\n10.0.0.13\n", "also 10.0.0.13"),
        ("10.0.0.1\n10.0.0.12\n", "none of 10.0.0.11; also 10.0.0.1"),
        ("10.0.0.12\n10.0.0.11\n", "another order"),
        ("", "none of 10.0.0.11, 10.0.0.12"),
    ],
)
def test_the_list_is_read_back(tmp_path: Path, text: str | None, said: str | None) -> None:
    place = tmp_path / PATH.lstrip("/")
    place.parent.mkdir(parents=True)
    if text is not None:
        place.write_text(text)
    found = list(nvlink_drift.findings(WANTED, "6.8.0-90-generic", run(0), tmp_path))
    if said is None:
        assert found == []
    else:
        assert [(one.kind, one.where) for one in found] == [("imex-nodes", PATH)]
        assert said in found[0].found
        assert "2 nodes" in found[0].expected
    if said in ("No such file", "another order", "none of 10.0.0.11; also 10.0.0.1"):
        sentences.check(SENTENCES, f"the list of the nodes of an NVLink domain: {said}", found)


def test_a_kernel_without_the_fabric_managers_module_is_a_finding(tmp_path: Path) -> None:
    wanted = {**WANTED, "nodes_file": "", "nodes": []}
    (found,) = nvlink_drift.findings(wanted, "6.8.0-90-generic", run(1), tmp_path)
    assert (found.kind, found.where, found.found) == ("module", "module ib_umad for kernel 6.8.0-90-generic", "none")
    assert "linux-modules-extra-6.8.0-90-generic" in found.remedy
    sentences.check(SENTENCES, "the module of the fabric manager", [found])
    # Which kernel boots next is not known: that is a finding of its own.
    assert list(nvlink_drift.findings(wanted, "", run(1), tmp_path)) == []
