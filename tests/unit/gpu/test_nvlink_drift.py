"""What NVLink takes beside packages: IMEX's list of the nodes of a domain, its restart, and both read back from a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import nvlink_drift
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import read_units
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


def test_other_platforms_have_no_such_list(tmp_path: Path) -> None:
    text = FILE.replace("model: gb200, count: 4", "model: b200, count: 8")
    deployed = told(tmp_path, "a1", text)
    assert listed(deployed) == []
    assert deployed["expected"]["nvlink"] == {"nodes_file": "", "nodes": [], "modules": ["ib_umad"]}
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
