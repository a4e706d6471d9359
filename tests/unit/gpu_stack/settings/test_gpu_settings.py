"""`gpus.settings` of a profile: what no GPU of the model takes is a mistake, and the rest is what its nodes get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import stack_table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.settings import gpu_settings
from tests.kit import sentences
from tests.kit.decided import decided

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
FILE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24, start: 10.0.0.11}}
profiles:
  gpu:
    gpus:
      model: MODEL
      count: 2
      settings: {SETTINGS}
    sockets: 2
    cores_per_socket: 8
    memory_mib: 1024
racks: {r1: {nodes: gpu1, profile: gpu}}
hosts: {ctl1: {address: 10.0.0.10}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
gpu_stack: {os: debian-13, source: debian, driver: "550"STACK}
"""
UNIT, FILES = "bedplate-gpu-settings.service", "/etc/bedplate/gpu-settings.json"


def node(tmp_path: Path, settings: str, model: str = "h100", stack: str = "") -> dict[str, Any]:
    path = tmp_path / "c.bedplate.yml"
    path.write_text(FILE.replace("MODEL", model).replace("SETTINGS", settings).replace("STACK", stack))
    return decided("gpu_driver", path, "gpu1", "driver")


def test_a_node_gets_its_settings_after_persistenced_and_mig_and_before_jobs(tmp_path: Path) -> None:
    told = node(tmp_path, "power_limit_watts: 600, graphics_clock_max_mhz: 1800, ecc: false")
    files = {one["path"]: one for one in told["files"]}
    settings = {"power_limit_watts": 600, "graphics_clock_max_mhz": 1800, "ecc": False}
    assert json.loads(files[FILES]["content"]) == settings
    lines = files[f"/etc/systemd/system/{UNIT}"]["content"].splitlines()
    assert {"nvidia-persistenced.service", "bedplate-mig.service"} <= {
        name for line in lines if line.startswith("After=") for name in line[6:].split()
    }
    assert {"Before=slurmd.service", "PartOf=nvidia-persistenced.service", "RemainAfterExit=yes"} <= set(lines)
    # Both at boot and where persistenced starts again. Of a drop-in systemd reports that it has not read it; of a link it does not.
    link = files[f"/etc/systemd/system/multi-user.target.wants/{UNIT}"]
    assert link["target"] == f"/etc/systemd/system/{UNIT}"
    drop_in = files["/etc/systemd/system/nvidia-persistenced.service.d/bedplate-gpu-settings.conf"]
    assert drop_in["content"] == f"[Unit]\nWants={UNIT}\n"
    assert "nvidia-persistenced.service" in [unit["name"] for unit in told["units"]]
    assert told["units"][-1]["name"] == UNIT
    assert FILES in told["units"][-1]["restart_after"]
    assert told["units"][-1]["state_where"]["content"] == "550.163.01"
    assert any(path.endswith("/gpu_settings/apply_settings.py") for path in files)
    assert UNIT in told["expected"]["units"]
    assert told["expected"]["gpu_settings"] == settings


def test_a_node_without_settings_has_neither_file_nor_unit(tmp_path: Path) -> None:
    told = node(tmp_path, "")
    assert not [one["path"] for one in told["files"] if "gpu-settings" in one["path"] or "gpu_settings" in one["path"]]
    assert UNIT not in told["expected"]["units"]
    assert told["expected"]["gpu_settings"] == {}


@pytest.mark.parametrize(
    ("settings", "model", "places"),
    [
        ("power_limit_watts: 900", "h100", ["power_limit_watts"]),
        ("power_limit_watts: 100", "h100", ["power_limit_watts"]),
        # The table has no range of these.
        ("power_limit_watts: 900", "l40s", []),
        ("graphics_clock_max_mhz: 2500, memory_clock_mhz: 5000", "a100", ["graphics_clock_max_mhz", "memory_clock_mhz"]),
        ("graphics_clock_min_mhz: 1800, graphics_clock_max_mhz: 1200", "h100", ["graphics_clock_min_mhz"]),
        ("graphics_clock_min_mhz: 1200", "h100", ["graphics_clock_min_mhz"]),
        ("power_limit_watts: 0, ecc: maybe, compute_mode: prohibited", "h100", ["power_limit_watts", "ecc", "compute_mode"]),
        ("power_limit: 600", "h100", ["power_limit"]),
    ],
)  # fmt: skip
def test_what_no_gpu_of_the_model_takes_is_a_mistake(
    tmp_path: Path, settings: str, model: str, places: list[str]
) -> None:
    if not places:
        assert node(tmp_path, settings, model)["expected"]["gpu_settings"] != {}
        return
    with pytest.raises(ClusterFileError) as error:
        node(tmp_path, settings, model)
    lines = str(error.value).replace(f"{tmp_path}/", "").splitlines()
    assert len(lines) == len(places)
    # Mistakes have the line of the file, and all of them come at once.
    assert all(line.startswith("c.bedplate.yml:10: profiles.gpu.gpus.settings") for line in lines)
    assert all(place in text for place, text in zip(places, lines, strict=True))
    sentences.check(SENTENCES, f"settings of {model}: {settings}", lines)


def test_a_name_of_the_sites_own_is_looked_up_by_its_model(tmp_path: Path) -> None:
    with pytest.raises(ClusterFileError, match=r"is not a value of h100-nvl\. Allowed: 200 to 400"):
        node(tmp_path, "power_limit_watts: 600", "card", ", model: h100-nvl")


def test_the_table_has_known_models_and_whole_ranges() -> None:
    for name, row in gpu_settings.ranges().items():
        assert name in stack_table.default().models
        assert row["from"]
        assert isinstance(row["verified"], bool)
        found = {key: value for key, value in row.items() if key not in ("from", "verified")}
        assert set(found) == {"power_limit_watts", "graphics_clock_mhz", "memory_clock_mhz"}
        assert all(0 < least < most for least, most in found.values())
