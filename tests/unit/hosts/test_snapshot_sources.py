"""Sources of machines with a promoted snapshot: all of them of the snapshot, and none before the first promotion."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.apt_sources import parse
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts import snapshot_sources
from ansible_collections.bedplate.cluster.plugins.plugin_utils.snapshots import snapshot_lock
from ansible_collections.bedplate.cluster.plugins.plugin_utils.snapshots.snapshot_lock import (
    ChosenSnapshot,
    SnapshotLock,
)
from tests.kit.decided import decided, decision
from tests.kit.public_keys import ONE

BASE = (Path(__file__).parents[1] / "cluster" / "base.yml").read_text()
SECTION = """\
snapshots:
  url: http://10.0.0.1/snapshots
  key: mirror.asc
  test: gpu01
  repositories:
    - {system: SYSTEM, kind: system, url: 'http://o.example.org', SUITES key: /k.gpg}
"""


def site_of(folder: Path, system: str = "debian-13") -> Path:
    file = folder / "site.bedplate.yml"
    suites = "suites: trixie, components: main," if system.startswith("debian") else ""
    file.write_text(BASE + SECTION.replace("SYSTEM", system).replace("SUITES", suites))
    (folder / "mirror.asc").write_text(ONE)
    return file


def chosen(name: str, system: str = "debian-13") -> ChosenSnapshot:
    return ChosenSnapshot(name, "a" * 64, {system: ("security", "system")})


def test_before_the_first_promotion_nothing_is_written(tmp_path: Path) -> None:
    file = site_of(tmp_path)
    assert set(decision("node_os", file, "ctl1").parts) == {"node_os"}
    assert snapshot_sources.view_files(load(file), "ctl1") is None


def test_every_source_is_of_the_promoted_snapshot(tmp_path: Path) -> None:
    file = site_of(tmp_path)
    snapshot_lock.write(file, SnapshotLock(chosen("2026-11-20"), chosen("2026-11-26")))
    for host, name in (("ctl1", "2026-11-20"), ("gpu01", "2026-11-26"), ("gpu02", "2026-11-20")):
        part = decided("node_os", file, host, "snapshot")
        assert part["foreign_sources"] == {"policy": "take_over", "alone": True}
        sources = [entry for entry in part["sources"] if entry["path"].endswith(".sources")]
        entries = [one for entry in sources for one in parse(entry["path"], entry["content"])]
        assert [one.uri for one in entries] == [
            f"http://10.0.0.1/snapshots/{name}/debian-13/{kind}/" for kind in ("security", "system")
        ]
        assert all("BEGIN PGP PUBLIC KEY" in one.signed_by for one in entries)
        (pins,) = [entry["content"] for entry in part["sources"] if entry["path"].endswith(".pref")]
        assert "Pin: release l=bedplate-snapshot\nPin-Priority: 1001" in pins
        view = snapshot_sources.view_files(load(file), host)
        assert view
        assert {text for path, text in view.items() if path.startswith("sources.d/")} == {
            one["content"] for one in sources
        }
        expected = decision("node_os", file, host).expected["snapshot"]
        assert (expected["name"], list(expected["urls"])) == (name, ["security", "system"])


def test_dnf_checks_the_index_with_the_mirrors_key(tmp_path: Path) -> None:
    file = site_of(tmp_path, "rocky-9")
    snapshot_lock.write(file, SnapshotLock(chosen("2026-11-20", "rocky-9")))
    part = decided("node_os", file, "gpu02", "snapshot")
    files = {entry["path"]: entry["content"] for entry in part["sources"]}
    text = files["/etc/yum.repos.d/bedplate-snapshot-system.repo"]
    assert {"repo_gpgcheck=1", "gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-bedplate-snapshot"} <= set(text.splitlines())
    assert "BEGIN PGP PUBLIC KEY" in files["/etc/pki/rpm-gpg/RPM-GPG-KEY-bedplate-snapshot"]
    assert part["manager"] == "dnf"


def test_a_snapshot_without_the_machines_system_is_refused(tmp_path: Path) -> None:
    file = site_of(tmp_path)
    snapshot_lock.write(file, SnapshotLock(chosen("2026-11-20", "debian-12")))
    assert "debian-13" in decision("node_os", file, "ctl1").refusal


def test_another_key_than_the_stated_one_is_refused(tmp_path: Path) -> None:
    file = site_of(tmp_path)
    file.write_text(file.read_text().replace("key: mirror.asc", f"key: mirror.asc\n  fingerprint: '{'A' * 40}'"))
    snapshot_lock.write(file, SnapshotLock(chosen("2026-11-20")))
    with pytest.raises(ValueError, match="fingerprint"):
        decision("node_os", file, "ctl1")


def test_gpu_software_has_no_sources_beside_the_snapshot(tmp_path: Path) -> None:
    file = site_of(tmp_path)
    file.write_text(
        f"{file.read_text()}gpu_stack: {{os: debian-13, source: debian, driver: '550', module: proprietary, platform: pcie}}\n"
    )
    before = [entry["path"] for entry in decided("gpu_driver", file, "gpu02", "prepare")["sources"]]
    assert [path for path in before if path.endswith(".sources")]
    snapshot_lock.write(file, SnapshotLock(chosen("2026-11-20")))
    after = [entry["path"] for entry in decided("gpu_driver", file, "gpu02", "prepare")["sources"]]
    assert [path for path in after if path.endswith(".sources")] == []
