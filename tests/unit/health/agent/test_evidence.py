# SPDX-License-Identifier: GPL-3.0-or-later
"""Bundles of evidence: whole, with an index, in a bounded size; a full disk is a problem and no more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.clock import Moment
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.device_evidence import read_devices
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.evidence import (
    KEPT_ALWAYS,
    EvidenceStore,
    digest_of,
)

from .agent_kit import NOON

DAY = 86400
FILES = {"kernel.log": b"4,1,5,-;line\n", "jobs.txt": b""}


def folders(store: EvidenceStore) -> list[str]:
    return sorted(one.name for one in store.folder.iterdir() if one.is_dir())


def index(store: EvidenceStore) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads((store.folder / "index.json").read_bytes())
    return rows


def test_bundle_has_its_files_and_a_row_of_the_index(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path / "evidence", 30, 1 << 20)
    bundle = store.keep("xid-79", Moment(500.0, NOON), FILES, {"class": "cannot-run", "jobs": [4711]})
    assert bundle is not None
    assert bundle.folder.name == "20260921T141320Z-xid-79"
    assert bundle.digest == digest_of(FILES)
    assert len(bundle.digest) == 8
    assert (bundle.folder / "kernel.log").read_bytes() == FILES["kernel.log"]
    [row] = index(store)
    assert (row["check"], row["jobs"], row["digest"]) == ("xid-79", [4711], bundle.digest)
    store.add(bundle.folder, "devices.json", b"{}")
    assert (bundle.folder / "devices.json").exists()


@pytest.mark.parametrize("check", ["../../etc", "a/b", "Ä b", ""])
def test_name_of_a_check_stays_in_the_folder(tmp_path: Path, check: str) -> None:
    store = EvidenceStore(tmp_path / "evidence", 30, 1 << 20)
    bundle = store.keep(check, Moment(1.0, NOON), FILES, {})
    assert bundle is not None
    assert bundle.folder.parent == store.folder


def test_two_bundles_of_one_second(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path, 30, 1 << 20)
    for number in range(3):
        assert store.keep("xid-79", Moment(1.0, NOON), {"a": b"%d" % number}, {})
    assert len(folders(store)) == len(index(store)) == 3


def test_oldest_bundles_go_beyond_the_size(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path, 30, 10_000)
    for number in range(10):
        store.keep("xid-79", Moment(1.0, NOON + number), {"a": b"x" * 3000 + b"%d" % number}, {})
    assert 1 <= len(folders(store)) <= 3
    assert folders(store)[-1].startswith("20260921T141329Z")


def test_one_bundle_larger_than_the_size_is_kept(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path, 30, 100)
    assert store.keep("xid-79", Moment(1.0, NOON), {"a": b"x" * 3000}, {})
    assert len(folders(store)) == 1


def test_age_removes_bundles_but_a_jump_of_the_clock_leaves_the_newest(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path, 30, 1 << 30)
    for number in range(30):
        store.keep("xid-79", Moment(1.0, NOON + number * DAY), {"a": b"%d" % number}, {})
    assert len(folders(store)) == 30
    store.prune(NOON + 35 * DAY)
    assert len(folders(store)) == 25
    store.prune(NOON + 5000 * DAY)
    assert len(folders(store)) == KEPT_ALWAYS
    store.prune(float("inf"))
    assert len(folders(store)) >= 1


def test_no_space_is_a_problem_and_leaves_no_part(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    store = EvidenceStore(blocked / "evidence", 30, 1 << 20)
    assert store.keep("xid-79", Moment(1.0, NOON), FILES, {}) is None
    assert "xid-79" in store.problem
    store.folder = tmp_path / "evidence"
    assert store.keep("xid-79", Moment(1.0, NOON), FILES, {})
    assert store.problem == ""


def test_no_space_for_a_file_of_a_bundle_is_a_problem(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path / "evidence", 30, 1 << 20)
    bundle = store.keep("xid-79", Moment(1.0, NOON), FILES, {})
    assert bundle
    (bundle.folder / "devices.json").mkdir()
    store.add(bundle.folder, "devices.json", b"{}")
    assert "devices.json" in store.problem


@pytest.mark.parametrize("text", ["", "{", "[1]", "5"])
def test_torn_head_of_a_bundle_leaves_the_others_in_the_index(tmp_path: Path, text: str) -> None:
    store = EvidenceStore(tmp_path, 30, 1 << 20)
    first = store.keep("xid-79", Moment(1.0, NOON), FILES, {})
    assert first
    (first.folder / "bundle.json").write_text(text)
    second = store.keep("xid-48", Moment(1.0, NOON + 1), {"a": b"1"}, {})
    assert second
    assert [row["folder"] for row in index(store)] == [second.folder.name]


def test_part_of_a_killed_agent_is_removed(tmp_path: Path) -> None:
    (tmp_path / "0123abcd.part").mkdir(parents=True)
    store = EvidenceStore(tmp_path, 30, 1 << 20)
    assert folders(store) == []


def test_devices_of_a_path(tmp_path: Path) -> None:
    real = tmp_path / "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
    real.mkdir(parents=True)
    for folder, config in ((real.parent, b"\x01\x02"), (real, b"\xff" * 64)):
        (folder / "config").write_bytes(config)
        (folder / "current_link_width").write_text("16\n")
    links = tmp_path / "sys/bus/pci/devices"
    links.mkdir(parents=True)
    (links / "0000:3b:00.0").symlink_to("../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0")
    (links / "0000:3a:00.0").symlink_to("../../../devices/pci0000:3a/0000:3a:00.0")
    counters = tmp_path / "sys/class/infiniband/mlx5_0/ports/1/counters"
    counters.mkdir(parents=True)
    (counters / "link_downed").write_text("3\n")
    (counters / "symbol_error").mkdir()
    found = read_devices(Root(str(tmp_path)), ["0000:3b:00.0", "/scratch", "../x"])
    assert list(found["pci"]) == ["0000:3a:00.0", "0000:3b:00.0"]
    assert found["pci"]["0000:3a:00.0"] == {"config": "0102", "current_link_width": "16"}
    assert found["hca"]["mlx5_0/1"]["counters/link_downed"] == "3"
    assert found["hca"]["mlx5_0/1"]["counters/symbol_error"] == "Is a directory"
