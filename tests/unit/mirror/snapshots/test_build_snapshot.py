"""Snapshots of a signed archive: whole or not there, never changed, and cheap the second time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.mirror_model import MirrorError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.signing import Signer, reader
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.snapshots import build_snapshot, read_snapshot
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.snapshots.snapshot_model import parsed_packages
from tests.unit.mirror.origins import Archive, Deb, Node, served
from tests.unit.mirror.snapshots.made import make, order_of, origin_of

pytestmark = pytest.mark.tools("apt-get", "gpg", "dpkg-deb")

FIRST, SECOND = "2026-11-20", "2026-11-26"


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_second_snapshot_costs_only_what_is_new(tmp_path: Path, archive: Archive, mirror_key: Signer) -> None:
    first = make(order_of(tmp_path, FIRST, origin_of(archive)), mirror_key)
    assert (first.changed, first.packages, len(first.fetched)) == (True, len(archive.debs), len(archive.debs))
    before = tree(tmp_path / "snapshots" / FIRST)
    archive.add(Deb("helper", "2"))
    second = make(order_of(tmp_path, SECOND, origin_of(archive)), mirror_key)
    assert [url.rpartition("/")[2] for url in second.fetched] == ["helper_2_all.deb"]
    assert tree(tmp_path / "snapshots" / FIRST) == before
    old, new = (next((tmp_path / "snapshots" / name).rglob("helper_1_all.*.deb")) for name in (FIRST, SECOND))
    assert old.stat().st_ino == new.stat().st_ino
    assert old.stat().st_nlink == 3  # and that of the pool


def test_a_snapshot_that_exists_is_left_as_it_is(tmp_path: Path, archive: Archive, mirror_key: Signer) -> None:
    make(order_of(tmp_path, FIRST, origin_of(archive)), mirror_key)
    before = tree(tmp_path / "snapshots")
    archive.add(Deb("helper", "2"))
    again = make(order_of(tmp_path, FIRST, origin_of(archive)), mirror_key)
    assert (again.changed, again.fetched) == (False, [])
    assert tree(tmp_path / "snapshots") == before


def test_check_mode_writes_nothing(tmp_path: Path, archive: Archive, mirror_key: Signer) -> None:
    found = make(order_of(tmp_path, FIRST, origin_of(archive), check=True), mirror_key)
    assert found.changed
    assert len(found.fetched) == len(archive.debs)
    assert not (tmp_path / "snapshots").exists()


def test_a_run_that_breaks_off_leaves_no_snapshot(
    tmp_path: Path, archive: Archive, mirror_key: Signer, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = order_of(tmp_path, FIRST, origin_of(archive))

    def broken(*_arguments: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build_snapshot, "_manifest", broken)
        with pytest.raises(KeyboardInterrupt):
            make(order, mirror_key)
    assert not order.place.exists()
    again = make(order, mirror_key)
    # The packages are in the pool.
    assert (again.changed, again.fetched) == (True, [])
    assert read_snapshot.read(order.directory.as_uri(), FIRST, mirror_key).name == FIRST
    assert [path.name for path in order.directory.glob(".*.part")] == []


def test_a_disk_that_would_be_full_gets_no_package(
    tmp_path: Path, archive: Archive, mirror_key: Signer, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = order_of(tmp_path, FIRST, origin_of(archive))
    with monkeypatch.context() as patch:
        patch.setattr(build_snapshot.shutil, "disk_usage", lambda _path: SimpleNamespace(free=(64 << 20)))
        with pytest.raises(MirrorError) as caught:
            make(order, mirror_key)
    assert "64 MiB are free" in str(caught.value)
    assert [path for path in order.directory.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("file", ["../../zip.deb", "/etc/zip.deb", "packages/../../../zip.deb"])
def test_a_package_that_would_leave_the_folder_is_no_package(file: str) -> None:
    row = ["zip", "1", "all", "0" * 64, "5"]
    assert parsed_packages("\t".join([*row, "packages/zip.deb"]))[0].file == "packages/zip.deb"
    with pytest.raises(ValueError, match="line 1 is not a package"):
        parsed_packages("\t".join([*row, file]))


def test_an_origin_of_another_key_is_refused(tmp_path: Path, archive: Archive, mirror_key: Signer) -> None:
    with pytest.raises(MirrorError):
        make(order_of(tmp_path, FIRST, origin_of(archive, key=mirror_key)), mirror_key)
    assert not (tmp_path / "snapshots" / FIRST).exists()


def test_all_origins_that_fail_are_named(tmp_path: Path, archive: Archive, mirror_key: Signer) -> None:
    away = Archive(tmp_path / "nowhere", archive.signer)
    missing = origin_of(away, "slurm")
    lost = missing.__class__("debian-13", "gpu", "file:///x", ("./",), (), "x86_64", "/no/key.gpg")
    with pytest.raises(MirrorError) as caught:
        make(order_of(tmp_path, FIRST, origin_of(archive), missing, lost), mirror_key)
    assert "nowhere" in str(caught.value)
    assert "/no/key.gpg" in str(caught.value)


def test_one_version_with_two_contents_is_refused(
    tmp_path: Path, archive: Archive, origin_key: Signer, mirror_key: Signer
) -> None:
    other = Archive(tmp_path / "other", origin_key)
    other.add(Deb("helper", "1", content="another"))
    with pytest.raises(MirrorError) as caught:
        make(order_of(tmp_path, FIRST, origin_of(archive), origin_of(other)), mirror_key)
    assert "helper 1 all has two contents" in str(caught.value)
    # In repositories of two kinds both may be there.
    assert make(order_of(tmp_path, FIRST, origin_of(archive), origin_of(other, "site")), mirror_key).changed


@pytest.mark.parametrize(
    "spoil",
    [
        lambda place: (place / "debian-13/system/Packages").write_text(""),
        lambda place: (place / "debian-13/system/InRelease").unlink(),
        lambda place: next(place.rglob("*.deb")).unlink(),
        lambda place: (place / "debian-13/system/packages.txt").write_text("x\n"),
        lambda place: (place / "manifest.asc").unlink(),
        lambda place: (place / "manifest.asc").write_text(
            (place / "manifest.asc").read_text().replace('"cluster": "away"', '"cluster": "home"')
        ),
    ],
)
def test_a_damaged_snapshot_is_refused(tmp_path: Path, archive: Archive, mirror_key: Signer, spoil) -> None:
    order = order_of(tmp_path, FIRST, origin_of(archive))
    make(order, mirror_key)
    public = reader(mirror_key.public)
    assert read_snapshot.read(order.directory.as_uri(), FIRST, public).systems == {"debian-13": ("system",)}
    spoil(order.place)
    with pytest.raises(MirrorError):
        read_snapshot.read(order.directory.as_uri(), FIRST, public)
    # A run that would make it again does not pass over the damage.
    with pytest.raises(MirrorError):
        make(order, mirror_key)


def test_a_snapshot_of_another_name_or_key_is_refused(
    tmp_path: Path, archive: Archive, origin_key: Signer, mirror_key: Signer
) -> None:
    order = order_of(tmp_path, FIRST, origin_of(archive))
    make(order, mirror_key)
    order.place.rename(order.directory / SECOND)
    for name, key in ((SECOND, mirror_key), (SECOND, origin_key), (FIRST, mirror_key)):
        with pytest.raises(MirrorError):
            read_snapshot.read(order.directory.as_uri(), name, key)


def test_apt_installs_from_a_snapshot_that_is_served(tmp_path: Path, archive: Archive, mirror_key: Signer) -> None:
    make(order_of(tmp_path, FIRST, origin_of(archive)), mirror_key)
    with served(tmp_path / "snapshots") as (url, _asked):
        assert len(read_snapshot.read(url, FIRST, mirror_key).repositories[0].packages) == len(archive.debs)
        node = Node(tmp_path / "node", f"{url}/{FIRST}/debian-13/system", mirror_key.public)
        done = node.update()
        assert (done.returncode, done.stderr) == (0, "")
        assert node.download("driver").returncode == 0
    assert node.archives == ["driver_1%3a2.1-1_all.deb", "helper_1_all.deb", "library_2.1-1_all.deb"]
