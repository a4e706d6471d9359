"""What a folder with vendor.json beside its cluster file gets: stand-ins for its systems, and keys where the file names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import stack_table
from lab.shell import LabError
from lab.vendor import inventory

pytestmark = pytest.mark.tools("gpg")

TOOLKIT = next(row.name for row in stack_table.default().repositories if row.part == "toolkit")
CLUSTER = """\
profiles:
  old: {gpus: {model: h100, count: 8}, gpu_stack: {os: debian-12}}
  new: {gpus: {model: h100, count: 8}}
  cpu: {gpu_stack: {os: ubuntu-24.04}}
gpu_stack:
  os: debian-13
  source: nvidia
  keys: {nvidia: keys/nvidia.asc, TOOLKIT: keys/ours.asc}
  mirror: {url: "http://10.0.0.1/x", key: keys/site.asc}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(inventory, "state_of", lambda lab: tmp_path / "state" / lab)
    made = tmp_path / "scenario"
    made.mkdir()
    (made / "scenario.bedplate.yml").write_text(CLUSTER.replace("TOOLKIT", TOOLKIT))
    return made


def test_a_folder_that_does_not_ask_gets_nothing(folder: Path) -> None:
    assert inventory.prepare(folder, "x") is None
    assert [path.name for path in folder.iterdir()] == ["scenario.bedplate.yml"]


def test_every_system_of_the_gpu_nodes_and_every_key_is_there_and_kept_until_something_changes(folder: Path) -> None:
    (folder / "vendor.json").write_text('{"drivers": ["580.65.06"]}')
    public = inventory.prepare(folder, "x")
    assert public is not None
    assert sorted(path.name for path in public.iterdir()) == ["keys", "mirror", "nvidia", "toolkit"]
    assert sorted(path.name for path in (public / "mirror").iterdir()) == ["debian-12", "debian-13"]
    assert (folder / "keys/site.asc").read_text() == (public / "keys/mirror.asc").read_text()
    assert "BEGIN PGP PUBLIC KEY" in (folder / "keys/nvidia.asc").read_text()
    assert (folder / "keys/ours.asc").read_text() == (public / "keys/toolkit.asc").read_text()
    assert (folder / "keys/toolkit.asc").read_text() != (folder / "keys/nvidia.asc").read_text()
    signed = public / "mirror/debian-13/InRelease"
    before = signed.stat().st_mtime_ns
    assert inventory.prepare(folder, "x") == public
    assert signed.stat().st_mtime_ns == before
    (folder / "vendor.json").write_text('{"drivers": ["580.65.06"], "more_drivers": ["999.10.01"]}')
    inventory.prepare(folder, "x")
    assert "999.10.01" in (public / "mirror/debian-13/Packages").read_text()
    (folder / "vendor.json").write_text('{"drivers": ["580.65.06"], "systems": ["ubuntu-24.04"]}')
    inventory.prepare(folder, "x")
    assert sorted(path.name for path in (public / "nvidia").iterdir()) == ["debian-12", "debian-13", "ubuntu-24.04"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("{", r"vendor\.json.*JSON"),
        ('{"driver": ["580"]}', r"vendor\.json.*drivers, more_drivers, broken"),
        ('{"drivers": "580.65.06"}', r"vendor\.json.*drivers, more_drivers, broken"),
        ('{"drivers": ["580.1.1"]}', r"580\.1\.1 of nvidia .*debian-12"),
    ],
)
def test_wrong_settings_are_told(folder: Path, settings: str, said: str) -> None:
    (folder / "vendor.json").write_text(settings)
    with pytest.raises(LabError, match=said):
        inventory.prepare(folder, "x")


def test_a_cluster_file_without_a_stack_is_told(folder: Path) -> None:
    (folder / "vendor.json").write_text("{}")
    (folder / "scenario.bedplate.yml").write_text("profiles: {a: {gpus: {model: h100, count: 1}}}")
    with pytest.raises(LabError, match=r"scenario\.bedplate\.yml.*gpu_stack"):
        inventory.prepare(folder, "x")
