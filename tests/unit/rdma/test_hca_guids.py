# SPDX-License-Identifier: GPL-3.0-or-later
"""GUIDs of InfiniBand adapters, from sysfs as the kernel writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma.hca_guids import HcaGuids, read_guids
from ansible_collections.bedplate.cluster.plugins.modules import hca_facts
from tests.kit.module import Module, result_of


def adapter(root: Path, name: str, layer: str, gid: str) -> None:
    folder = root / "sys/class/infiniband" / name
    (folder / "ports/1/gids").mkdir(parents=True)
    (folder / "node_guid").write_text("0002:c903:0000:0200\n")
    (folder / "ports/1/link_layer").write_text(f"{layer}\n")
    (folder / "ports/1/gids/0").write_text(f"{gid}\n")
    device = root / "sys/devices/0000:3b:00.0"
    device.mkdir(parents=True, exist_ok=True)
    (folder / "device").symlink_to("../../../devices/0000:3b:00.0")


@pytest.mark.parametrize(
    ("gid", "port"),
    [
        ("fe80:0000:0000:0000:0002:c903:0000:0201", "0002c90300000201"),
        ("0000:0000:0000:0000:0000:0000:0000:0000", ""),
        ("", ""),
    ],
)
def test_guids_of_node_and_port(tmp_path: Path, gid: str, port: str):
    adapter(tmp_path, "mlx5_0", "InfiniBand", gid)
    assert read_guids(Root(str(tmp_path))) == [HcaGuids("mlx5_0", "0000:3b:00.0", "0002c90300000200", port)]


def test_ethernet_and_a_machine_without_adapters_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert read_guids(Root(str(tmp_path))) == []
    adapter(tmp_path, "mlx5_0", "Ethernet", "")
    found = result_of(monkeypatch, hca_facts, Module({"sysroot": str(tmp_path)}, True))
    assert (found["hcas"], found["changed"]) == ([], False)
