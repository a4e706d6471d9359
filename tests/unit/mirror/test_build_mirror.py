"""A mirror made by real apt and gpg from small signed origins, and machines that have nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror import build_mirror
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.apt_root import AptRoot
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.build_mirror import Order
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.mirror_model import (
    File,
    MirrorError,
    MirrorOrigin,
    MirrorReport,
    MirrorSystem,
    Need,
    PackageSet,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.signing import Signer
from tests.unit.mirror.origins import Archive, Deb, Node, served

# apt, dozens of times: not in make test-fast.
pytestmark = [pytest.mark.playbooks, pytest.mark.tools("apt-get", "gpg", "dpkg-deb")]

NEEDS = (Need("driver", "1:2.0-*", "driver"), Need("toolkit", "1.18.2-1", "toolkit"))
Make = Callable[..., MirrorReport]


def order(tmp_path: Path, archive: Archive, url: str, *needs: Need, **more: object) -> Order:
    pins = "Package: library\nPin: version 2.0-1\nPin-Priority: 1001\n"
    system = MirrorSystem("debian-13", (PackageSet("profile h100", needs or NEEDS, (archive.origin(url),), pins),))
    plain = Order("alpha", tmp_path / "mirror", tmp_path / "cache", (system,))
    return replace(plain, **more)  # type: ignore[arg-type]


def with_origins(plain: Order, *origins: MirrorOrigin) -> Order:
    system = plain.systems[0]
    return replace(plain, systems=(replace(system, sets=(replace(system.sets[0], origins=origins),)),))


def files(directory: Path) -> dict[str, tuple[int, bytes]]:
    paths = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


@pytest.fixture
def from_files(tmp_path: Path, archive: Archive, mirror_key: Signer) -> Make:
    def make(*needs: Need, **more: object) -> MirrorReport:
        wanted = order(tmp_path, archive, f"file://{archive.directory}", *needs, **more)
        return build_mirror.make(wanted, lambda: mirror_key)[0]

    return make


def test_a_machine_with_the_mirror_alone_gets_the_set(tmp_path, archive, mirror_key):
    with served(archive.directory) as (url, asked):
        report, _ = build_mirror.make(order(tmp_path, archive, url), lambda: mirror_key)
        assert (report.changed, report.listed, len(report.fetched)) == (True, 5, 5)
        assert sum(path.endswith(".deb") for path in asked) == 5
    with served(tmp_path / "mirror") as (url, asked):
        node = Node(tmp_path / "node", f"{url}/debian-13", (tmp_path / "mirror/key.asc").read_text())
        done = node.update()
        assert (done.returncode, done.stderr) == (0, "")
        assert any("/by-hash/SHA256/" in path for path in asked)
        done = node.download("driver=1:2.0-1", "toolkit")
        assert done.returncode == 0, done.stderr
        assert node.archives == [
            "driver_1%3a2.0-1_all.deb",
            "helper_1_all.deb",
            "library_2.0-1_all.deb",
            "real-libtool_3+x~1_all.deb",
            "toolkit_1.18.2-1_all.deb",
        ]


def test_a_machine_without_a_route_fails_when_the_mirror_lacks_a_file(tmp_path, from_files):
    from_files()
    next((tmp_path / "mirror/debian-13/pool").glob("helper_*")).unlink()
    with served(tmp_path / "mirror") as (url, _):
        node = Node(tmp_path / "node", f"{url}/debian-13", (tmp_path / "mirror/key.asc").read_text())
        assert node.update().returncode == 0
        done = node.download("driver=1:2.0-1")
        assert done.returncode == 100
        assert "helper" in done.stderr
        assert "404" in done.stderr
    report = from_files()
    assert [Path(url).name for url in report.fetched] == ["helper_1_all.deb"]
    assert report.published == []


@pytest.mark.parametrize("spoilt", ["InRelease", "index"])
def test_a_machine_refuses_an_index_that_was_changed(tmp_path, from_files, spoilt):
    from_files()
    directory = tmp_path / "mirror/debian-13"
    if spoilt == "InRelease":
        path = directory / "InRelease"
        path.write_text(path.read_text().replace("Label: bedplate", "Label: badplate"))
    else:
        for path in [directory / "Packages", directory / "Packages.gz", *(directory / "by-hash/SHA256").iterdir()]:
            path.write_bytes(path.read_bytes()[:-1] + b"?")
    with served(tmp_path / "mirror") as (url, _):
        node = Node(tmp_path / "node", f"{url}/debian-13", (tmp_path / "mirror/key.asc").read_text())
        done = node.update()
        assert done.returncode == 100
        assert {"InRelease": "BADSIG", "index": "Hash Sum mismatch"}[spoilt] in done.stderr


def test_a_web_server_may_read_it_whatever_the_umask_is(tmp_path, from_files):
    before = os.umask(0o077)
    try:
        from_files()
    finally:
        os.umask(before)
    found = [path for path in (tmp_path / "mirror").rglob("*") if path.name != ".incoming"]
    assert len(found) > 10
    assert [path for path in found if path.stat().st_mode & 0o777 not in (0o755, 0o644)] == []


def test_a_second_run_changes_and_fetches_nothing(tmp_path, from_files):
    from_files()
    before = files(tmp_path / "mirror")
    report = from_files()
    assert (report.changed, report.fetched, report.published) == (False, [], [])
    assert files(tmp_path / "mirror") == before


def test_the_list_says_who_needs_what_and_is_the_same_for_another_directory(tmp_path, archive, mirror_key, from_files):
    from_files()
    text = (tmp_path / "mirror/artifacts.json").read_text()
    packages = {row["name"]: row for row in json.loads(text)["packages"]}
    parts = {name: row["systems"]["debian-13"]["parts"] for name, row in packages.items()}
    assert parts == {
        "driver": ["driver"],
        "helper": ["driver"],
        "library": ["driver"],
        "real-libtool": ["toolkit"],
        "toolkit": ["toolkit"],
    }
    assert [name for name, row in packages.items() if row["systems"]["debian-13"]["asked"]] == ["driver", "toolkit"]
    assert packages["driver"]["origin"] == f"file://{archive.directory}"
    key = json.loads(text)["keys"][0]
    assert key["fingerprints"] == [archive.signer.fingerprint]
    from_files(directory=tmp_path / "other", cache=tmp_path / "cache2", list_only=True)
    assert (tmp_path / "other/artifacts.json").read_text() == text
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == ["artifacts.csv", "artifacts.json"]


def test_two_systems_and_two_sets_are_fetched_once_and_resolved_apart(tmp_path, archive, mirror_key):
    newer = (Need("driver", "1:2.1-1", "driver"),)
    with served(archive.directory) as (url, asked):
        one = order(tmp_path, archive, url)
        first = one.systems[0]
        # Another profile's set: another driver, its own pins, and its origin under another name.
        other = PackageSet("profile l40s", newer, (archive.origin(url, name="b"),))
        systems = (replace(first, sets=(*first.sets, other)), replace(first, name="debian-12"))
        report, found = build_mirror.make(replace(one, systems=systems), lambda: mirror_key)
        assert len([path for path in asked if path.endswith(".deb")]) == 7
    assert report.published == ["debian-13", "debian-12"]
    assert (report.listed, len(report.fetched)) == (7, 7)
    rows = {(row["name"], row["version"]): sorted(row["systems"]) for row in found["packages"]}
    assert rows["driver", "1:2.0-1"] == rows["helper", "1"] == ["debian-12", "debian-13"]
    assert rows["driver", "1:2.1-1"] == rows["library", "2.1-1"] == ["debian-13"]
    assert len(list((tmp_path / "mirror/debian-12/pool").iterdir())) == 5


def test_check_mode_says_what_it_would_fetch_and_writes_nothing(tmp_path, from_files):
    report = from_files(check=True)
    assert (report.changed, len(report.fetched), report.published) == (True, 5, ["debian-13"])
    assert report.fetched_bytes == report.listed_bytes > 0
    assert not (tmp_path / "mirror").exists()


def test_older_versions_stay_until_they_are_pruned(tmp_path, from_files):
    from_files()
    newer = (Need("driver", "1:2.0-1", "driver"), Need("unneeded", "1", "dcgm"))
    report = from_files(*newer)
    assert report.kept == ["debian-13: real-libtool 3+x~1 all", "debian-13: toolkit 1.18.2-1 all"]
    assert "toolkit" in (tmp_path / "mirror/debian-13/Packages").read_text()
    assert not from_files(*newer).changed
    assert len(from_files(*newer, prune=True, check=True).removed) == 2
    assert len(from_files(*newer, prune=True).removed) == 2
    assert "toolkit" not in (tmp_path / "mirror/debian-13/Packages").read_text()
    assert not from_files(*newer, prune=True).changed
    # The index and the one before it.
    assert len(list((tmp_path / "mirror/debian-13/by-hash/SHA256").iterdir())) == 4


def test_an_index_that_somebody_changed_is_not_built_upon(tmp_path, from_files):
    from_files()
    path = tmp_path / "mirror/debian-13/InRelease"
    path.write_text(path.read_text().replace("Label: bedplate", "Label: badplate"))
    with pytest.raises(MirrorError, match=r"changed by hand.*mirror_prune=true"):
        from_files()
    from_files(prune=True)
    assert "Label: bedplate" in path.read_text()


def test_all_versions_that_no_origin_has_are_named_with_those_there(from_files):
    with pytest.raises(MirrorError) as caught:
        from_files(Need("driver", "1:9-*", "driver"), Need("nothing", "*", "dcgm"), Need("helper", "1", "driver"))
    first, second = caught.value.mistakes
    assert first.startswith("debian-13, profile h100: ")
    assert [value for value in ("driver", "1:9-*", "(part driver)", ": 1:2.1-1, 1:2.0-1") if value not in first] == []
    assert [value for value in (" nothing ", "(part dcgm)") if value not in second] == []


def test_what_does_not_go_together_is_said_in_the_words_of_apt(from_files):
    with pytest.raises(MirrorError, match=r"apt .*:\n[\s\S]*library"):
        from_files(Need("driver", "1:2.1-1", "driver"))


def test_an_origin_that_is_not_reached_is_named(tmp_path, archive, mirror_key, monkeypatch):
    wanted = order(tmp_path, archive, "http://127.0.0.1:9/gone")
    monkeypatch.setattr(AptRoot, "_carried", lambda _self: 'Acquire::Retries "0";\n')
    with pytest.raises(MirrorError, match=r"debian-13: .*http://127\.0\.0\.1:9/gone.*refused"):
        build_mirror.make(wanted, lambda: mirror_key)


def test_an_origin_signed_by_another_key_is_refused(tmp_path, archive, mirror_key):
    plain = order(tmp_path, archive, f"file://{archive.directory}")
    wanted = with_origins(plain, replace(plain.systems[0].origins[0], key=mirror_key.public))
    with pytest.raises(MirrorError, match=r"NO_PUBKEY|not signed|Missing key"):
        build_mirror.make(wanted, lambda: mirror_key)


def test_keys_that_are_missing_are_all_named(tmp_path, archive, mirror_key):
    plain = order(tmp_path, archive, f"file://{archive.directory}")
    one = plain.systems[0].origins[0]
    origins = (
        replace(one, name="x", key=""),
        replace(one, name="y", key="/no/key.gpg", hint="apt-get install keyring"),
    )
    wanted = with_origins(plain, *origins)
    with pytest.raises(MirrorError) as caught:
        build_mirror.make(wanted, lambda: mirror_key)
    assert len(caught.value.mistakes) == 2
    assert all(value in caught.value.mistakes[1] for value in ("/no/key.gpg", "apt-get install keyring"))


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_files_that_vanished_or_changed_are_all_named_and_nothing_is_published(tmp_path, archive, mirror_key, scheme):
    (archive.directory / "pool/helper_1_all.deb").unlink()
    changed = archive.directory / "pool/library_2.0-1_all.deb"
    changed.write_bytes(changed.read_bytes().replace(b"two", b"bad"))
    with served(archive.directory) as (url, _):
        wanted = order(tmp_path, archive, url if scheme == "http" else f"file://{archive.directory}")
        with pytest.raises(MirrorError) as caught:
            build_mirror.make(wanted, lambda: mirror_key)
        text = "\n".join(caught.value.mistakes)
        assert "library_2.0-1_all.deb: " in text
        assert f"got {changed.stat().st_size} bytes with SHA256 " in text
        assert "helper_1_all.deb: 404" in text or "helper_1_all.deb: No such file" in text
        assert not (tmp_path / "mirror/debian-13/InRelease").exists()
        archive.debs = [deb for deb in archive.debs if deb.name not in ("helper", "library")]
        archive.add(Deb("helper", "1"), Deb("library", "2.0-1", content="two"))
        report, _ = build_mirror.make(wanted, lambda: mirror_key)
        assert len(report.fetched) == 2
        assert not list((tmp_path / "mirror/.incoming").iterdir())


def test_other_files_come_by_their_checksum(tmp_path, from_files):
    source = tmp_path / "archive.tgz"
    source.write_bytes(b"archive")
    good = File("archive.tgz", f"file://{source}", "3be2b9eba8bb67e2a2b2ce3ffcdf7d7f1af0ec0cd9f2c5ebe0e4e5ddb4a2c5ab")
    with pytest.raises(MirrorError, match=r"archive\.tgz: .* SHA256 3be2"):
        from_files(files=(good,))


def test_a_file_that_broke_off_is_gone_on_with(tmp_path, archive, mirror_key):
    archive.add(Deb("big", "1", content="".join(f"{number}\n" for number in range(200000))))
    data = (archive.directory / "pool/big_1_all.deb").read_bytes()
    with served(archive.directory) as (url, _):
        wanted = order(tmp_path, archive, url, Need("big", "1", "cuda"))
        _, found = build_mirror.make(replace(wanted, list_only=True), lambda: None)
        incoming = tmp_path / "mirror/.incoming"
        incoming.mkdir()
        (incoming / found["packages"][0]["sha256"]).write_bytes(data[:1000])
        build_mirror.make(wanted, lambda: mirror_key)
    assert next((tmp_path / "mirror/debian-13/pool").glob("big*")).read_bytes() == data


def test_tools_that_are_missing_are_named_with_their_packages(monkeypatch):
    monkeypatch.setattr(
        "ansible_collections.bedplate.cluster.plugins.module_utils.common.command.find", lambda tool: None
    )
    with pytest.raises(MirrorError, match="apt-get install apt gnupg"):
        build_mirror.check_tools()
