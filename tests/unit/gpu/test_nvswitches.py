"""NVSwitches on the PCI bus against the platform: cards are not an HGX board, and a board is no set of cards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command as node_command
from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import gpu_drift, nvswitches
from ansible_collections.bedplate.cluster.plugins.modules import gpu_platform
from tests.kit import sentences
from tests.kit.decided import decided
from tests.kit.module import Module, result_of
from tests.unit.gpu.test_gpu_drift import WANTED
from tests.unit.gpu.tree import Tree

SENTENCES = Path(__file__).parent / "sentences.txt"
BRIDGE, H100, A100 = "0x068000", "0x22a3", "0x1af1"
HGX = {"platform": "hgx", "count": 4, "device": H100, "known": [A100, H100]}
CARDS = {"platform": "pcie", "count": 0, "device": "", "known": [A100, H100]}
FILE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24, start: 10.0.0.11}}
profiles:
  gpu: {gpus: {model: MODEL, count: COUNT}, sockets: 2, cores_per_socket: 8, memory_mib: 1024}
racks: {r1: {nodes: gpu1, profile: gpu}}
hosts: {ctl1: {address: 10.0.0.10}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
gpu_stack: {os: ubuntu-24.04, source: nvidia, driver: "580", keys: {nvidia: nvidia.asc}, platform: PLATFORM}
"""


def machine(root: Path, gpus: int, switches: int, device: str = H100) -> Tree:
    tree = Tree(root)
    for number in range(gpus):
        tree.pci(f"0000:{0x10 + number:02x}:00.0")
    for number in range(switches):
        tree.pci(f"0000:{0xA0 + number:02x}:00.0", BRIDGE, "nvidia-nvswitch", device=device)
    return tree


@pytest.mark.parametrize(
    ("name", "wanted", "seen", "found"),
    [
        ("a board with its switches", HGX, (8, 4, H100), None),
        ("cards", CARDS, (8, 0, H100), None),
        ("no GPU on the bus", HGX, (0, 0, H100), None),
        ("not known, as with NVLink 5", {}, (8, 0, H100), None),
        ("the id of Volta's switches is not known", {**HGX, "count": 12, "device": ""}, (16, 12, "0x1ac0"), None),
        # Another bridge of NVIDIA's is no switch.
        ("a card beside an old chipset", CARDS, (1, 1, "0x0752"), None),
        ("cards taken for a board", HGX, (8, 0, H100), ("platform", "no NVSwitch on the PCI bus")),
        ("a board taken for cards", CARDS, (8, 4, H100), ("platform", "4 NVSwitches (0000:a0:00.0, 0000:a1:00.0, ")),
        ("a switch that fell off the bus", HGX, (8, 3, H100), ("nvswitch", "3 (0000:a0:00.0, 0000:a1:00.0, 0000:a2:00.0)")),
        ("switches of another generation", HGX, (8, 6, A100), ("nvswitch", "0000:a0:00.0 is 0x1af1")),
    ],
)  # fmt: skip
def test_switches_are_compared_with_the_platform(
    tmp_path: Path, name: str, wanted: dict[str, Any], seen: tuple[int, int, str], found: tuple[str, str] | None
) -> None:
    facts = machine(tmp_path, *seen).facts()
    findings = nvswitches.findings(wanted, facts["gpus"], facts["nvswitches"])
    if found is None:
        assert findings == []
        return
    assert [one.kind for one in findings] == [found[0]]
    assert found[1] in findings[0].found
    sentences.check(SENTENCES, f"NVSwitches: {name}", findings)


def test_verify_compares_them(tmp_path: Path) -> None:
    facts = machine(tmp_path, 8, 0).facts()
    wanted = {**WANTED, "signed": False, "mig": [], "module": {}, "nvswitches": HGX}
    found = list(gpu_drift._compared(wanted, facts, gpu_drift._Boots()))
    assert [one.kind for one in found] == ["platform"]


def test_a_board_with_a_lost_switch_may_be_rebooted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = machine(tmp_path, 8, 3)
    monkeypatch.setattr(node_command, "run", lambda *_: Outcome(0, "", ""))
    wanted = {**WANTED, "signed": False, "mig": [], "module": {}, "nvswitches": HGX}
    assert [one.kind for one in gpu_drift.findings(str(tree.top), wanted)] == ["nvswitch"]
    assert list(gpu_drift.findings(str(tree.top), wanted, running=False)) == []


@pytest.mark.parametrize(("gpus", "switches", "fails"), [(8, 0, True), (8, 3, False), (8, 4, False), (0, 0, False)])
def test_the_role_stops_at_another_platform_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, switches: int, fails: bool
) -> None:
    machine(tmp_path, gpus, switches)
    result = result_of(monkeypatch, gpu_platform, Module({**HGX, "sysroot": str(tmp_path)}))
    assert bool(result.get("failed")) is fails
    if fails:
        assert "`platform: pcie`" in result["msg"]
        assert "Nothing was changed" in result["msg"]
    else:
        assert (result["gpus"], result["nvswitches"]) == (gpus, switches)


@pytest.mark.parametrize(
    ("model", "count", "platform", "switches"),
    [
        ("h100", 8, "null", (4, H100)),
        ("h200", 8, "null", (4, H100)),
        ("a100", 8, "null", (6, A100)),
        ("a100", 16, "null", (12, A100)),
        ("v100", 16, "hgx", (12, "")),
        ("v100", 8, "null", (0, "")),
        ("h100", 8, "pcie", (0, "")),
        ("h100", 4, "null", (0, "")),
        ("h100-nvl", 8, "null", (0, "")),
        # Their switches are no devices of the PCI bus.
        ("b200", 8, "null", None),
        ("gb200", 4, "null", None),
    ],
)
def test_the_table_says_which_switches_a_node_has(
    tmp_path: Path, model: str, count: int, platform: str, switches: tuple[int, str] | None
) -> None:
    (tmp_path / "nvidia.asc").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n")
    text = (
        FILE.replace("MODEL", "card" if "-" in model else model)
        .replace("COUNT", str(count))
        .replace(", platform: PLATFORM", "")
    )
    if platform != "null":
        text = text.replace('driver: "580"', f'driver: "580", platform: {platform}')
    if "-" in model:
        text = text.replace('driver: "580"', f'driver: "580", model: {model}')
    path = tmp_path / "c.bedplate.yml"
    path.write_text(text)
    found = decided("gpu_driver", path, "gpu1", "driver")
    wanted = found["expected"]["nvswitches"]
    assert found["steps"].get("gpu_platform", {}) == wanted
    if switches is None:
        assert wanted == {}
    else:
        assert (wanted["count"], wanted["device"]) == switches
        assert set(wanted) == {"platform", "count", "device", "known"}
    # A board has a fabric manager, and cards have none; of a tray the switches have it.
    manager = any(unit["name"] == "nvidia-fabricmanager.service" for unit in found["units"])
    assert manager is (model == "b200" or bool(switches and switches[0]))
