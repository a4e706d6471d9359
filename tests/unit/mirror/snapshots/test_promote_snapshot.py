"""Promotion of a snapshot: what is refused, what differs in packages, and the way back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror import signing
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.mirror_model import MirrorError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.signing import Signer
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.snapshots import (
    installed_list,
    promote_snapshot,
    read_snapshot,
    snapshot_result,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.snapshots.promote_snapshot import Promotion
from tests.unit.mirror.origins import Archive, Deb
from tests.unit.mirror.snapshots.made import make, order_of, origin_of

pytestmark = pytest.mark.tools("apt-get", "gpg", "dpkg-deb")

BASE = (Path(__file__).parents[2] / "cluster" / "base.yml").read_text()
OLD, NEW = "2026-11-20", "2026-11-26"


@dataclass
class Site:
    """A cluster file with two snapshots."""

    folder: Path
    file: Path

    @property
    def cluster(self) -> Cluster:
        return load(self.file)

    @property
    def base(self) -> str:
        return (self.folder / "snapshots").as_uri()

    def plan(self, name: str, state: str = "promoted", **tested: str) -> Promotion:
        return promote_snapshot.plan(self.cluster, state, name, self.base, tested)

    def promote(self, name: str, state: str = "promoted", **tested: str) -> Promotion:
        found = self.plan(name, state, **tested)
        promote_snapshot.write(self.cluster, found)
        return found


def site_of(folder: Path, key: Signer, more: str = "") -> Site:
    (folder / "site").mkdir(exist_ok=True)
    (folder / "site/mirror.asc").write_text(key.public)
    file = folder / "site/away.bedplate.yml"
    file.write_text(
        f"{BASE}snapshots:\n  url: http://10.0.0.1/snapshots\n  key: mirror.asc\n{more}  repositories:\n"
        "    - {system: debian-13, kind: system, url: 'http://deb.example.org', suites: stable, components: main, key: /k.gpg}\n"
    )
    return Site(folder, file)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, origin_key: Signer, mirror_key: Signer) -> Path:
    folder = tmp_path_factory.mktemp("two")
    archive, security = Archive(folder / "system", origin_key), Archive(folder / "fixes", origin_key)
    archive.add(Deb("zip", "1.0"), Deb("gone", "1"), Deb("down", "2"), Deb("same", "1"))
    security.add(Deb("other", "1"))
    make(order_of(folder, OLD, origin_of(archive), origin_of(security, "security")), mirror_key)
    archive.debs = [deb for deb in archive.debs if deb.name == "same"]
    archive.add(Deb("zip", "1.0"), Deb("down", "1"), Deb("added", "1"))
    security.add(Deb("zip", "1.0+u1"))
    make(order_of(folder, NEW, origin_of(archive), origin_of(security, "security")), mirror_key)
    return folder


@pytest.fixture
def site(two: Path, tmp_path: Path, mirror_key: Signer) -> Site:
    (tmp_path / "snapshots").symlink_to(two / "snapshots")
    return site_of(tmp_path, mirror_key)


def test_a_promotion_names_what_differs(site: Site) -> None:
    first = site.promote(OLD)
    assert (first.changed, first.changes) == (True, [])
    second = site.plan(NEW)
    assert {str(one) for one in second.changes} == {
        "debian-13: added: added 1",
        "debian-13: removed: gone 1",
        "debian-13: older: down 2 -> 1",
        "debian-13: newer (security): zip 1.0 -> 1.0+u1",
    }
    result = snapshot_result.of_promotion(second, "promoted", NEW, check=False)
    assert "1 newer, 1 older, 1 added, 1 removed; security updates: 1" in result["msg"]


def test_a_second_promotion_changes_nothing_and_the_way_back_is_a_promotion(site: Site) -> None:
    site.promote(OLD)
    assert not site.plan(OLD).changed
    site.promote(NEW)
    back = site.promote(OLD)
    assert (back.changed, [one.name for one in back.after.former]) == (True, [NEW])
    snapshots = site.cluster.snapshots
    assert snapshots
    assert snapshots.of_machine("gpu01") == back.after.promoted


@pytest.mark.parametrize("name", ["latest", "../2026-11-20", "", "2026-12-01"])
def test_a_snapshot_that_does_not_exist_is_refused(site: Site, name: str) -> None:
    with pytest.raises(MirrorError):
        site.plan(name)


def test_a_snapshot_of_another_key_is_refused(site: Site, origin_key: Signer) -> None:
    (site.folder / "site/mirror.asc").write_text(origin_key.public)
    with pytest.raises(MirrorError):
        site.plan(OLD)


def test_a_key_with_another_fingerprint_than_the_stated_one_proves_no_snapshot(
    two: Path, tmp_path: Path, mirror_key: Signer, origin_key: Signer
) -> None:
    (tmp_path / "snapshots").symlink_to(two / "snapshots")
    site = site_of(tmp_path, mirror_key, f'  fingerprint: "{origin_key.fingerprint}"\n')
    with pytest.raises(MirrorError, match=r"snapshots\.key: .*mirror\.asc has the key"):
        site.plan(OLD)
    assert site_of(tmp_path, mirror_key, f'  fingerprint: "{mirror_key.fingerprint}"\n').plan(OLD).changed


def test_another_snapshot_under_a_known_name_is_refused(site: Site) -> None:
    site.promote(OLD)
    path = site.file.with_name("away.snapshot-lock.json")
    data = json.loads(path.read_text())
    data["promoted"]["manifest"] = "0" * 64
    path.write_text(json.dumps(data))
    with pytest.raises(MirrorError) as caught:
        site.plan(OLD)
    assert "never changes" in str(caught.value)


def test_a_snapshot_without_a_system_of_the_cluster_is_refused(site: Site) -> None:
    site.file.write_text(site.file.read_text().replace("debian-13", "debian-12"))
    with pytest.raises(MirrorError) as caught:
        site.plan(OLD)
    assert "debian-12" in str(caught.value)


def test_a_site_that_demands_a_test_gets_one(two: Path, tmp_path: Path, mirror_key: Signer) -> None:
    (tmp_path / "snapshots").symlink_to(two / "snapshots")
    site = site_of(tmp_path, mirror_key, "  test: gpu[01-02]\n")
    with pytest.raises(MirrorError) as caught:
        site.plan(OLD)
    assert "snapshot_state=testing" in str(caught.value)
    site.promote(OLD, "testing")
    for tested in ({}, {"gpu01": OLD}, {"gpu01": OLD, "gpu02": NEW}):
        with pytest.raises(MirrorError):
            site.plan(OLD, **tested)
    assert site.promote(OLD, gpu01=OLD, gpu02=OLD).after.testing is None
    site.promote(NEW, "testing")
    site.promote(NEW, gpu01=NEW, gpu02=NEW)
    # It was in use: the way back needs no test.
    assert site.plan(OLD).changed


def test_a_test_without_nodes_is_refused_and_a_test_can_end(site: Site) -> None:
    with pytest.raises(MirrorError):
        site.plan(OLD, "testing")
    assert not site.plan("", "untested").changed


@pytest.mark.parametrize(
    ("compared", "is_tested"),
    [
        ({"findings": []}, True),
        ({"findings": [{"kind": "reboot"}]}, True),
        ({"findings": [{"kind": "packages-pending"}]}, False),
        ({"failed": True, "findings": []}, False),
        ({"unreachable": True}, False),
        ({"skipped": True}, False),
    ],
)
def test_a_node_is_tested_if_nothing_differs_and_nothing_waits(compared: dict[str, object], is_tested: bool) -> None:
    assert snapshot_result.is_tested(compared) == is_tested


def test_the_lock_of_gpu_software_must_be_in_the_snapshot(site: Site) -> None:
    text = site.file.read_text()
    site.file.write_text(
        f"{text}gpu_stack: {{os: debian-13, source: debian, driver: '550', module: proprietary, platform: pcie}}\n"
    )
    with pytest.raises(MirrorError) as caught:
        site.plan(OLD)
    assert "packages that the lock of profile gpu8 has" in str(caught.value)


def test_the_spdx_list_has_its_required_fields_and_is_the_same_each_time(site: Site) -> None:
    site.file.write_text(
        f"{site.file.read_text()}gpu_stack: {{os: debian-13, source: debian, driver: '550', module: proprietary, platform: pcie}}\n"
    )
    snapshot = read_snapshot.read(site.base, OLD, signing.reader((site.folder / "site/mirror.asc").read_text()))
    found = installed_list.document(site.cluster, snapshot)
    assert installed_list.text_of(found) == installed_list.text_of(installed_list.document(site.cluster, snapshot))
    assert found["spdxVersion"] == "SPDX-2.3"
    assert {"dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo", "packages", "relationships"} <= set(
        found
    )
    assert found["creationInfo"]["created"] == snapshot.made
    ids = [one["SPDXID"] for one in found["packages"]]
    assert len(ids) == len(set(ids)) > 5
    for one in found["packages"]:
        assert {"name", "versionInfo", "downloadLocation"} <= set(one)
    assert {one["relatedSpdxElement"] for one in found["relationships"]} == set(ids)
