"""The section `snapshots`: what it makes of a cluster file, and every mistake of it at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, Snapshots, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.snapshots import snapshot_lock
from ansible_collections.bedplate.cluster.plugins.plugin_utils.snapshots.snapshot_lock import (
    ChosenSnapshot,
    SnapshotLock,
)

BASE = (Path(__file__).parent / "base.yml").read_text()
SECTION = """\
snapshots:
  url: http://10.0.0.1/snapshots/
  key: keys/mirror.asc
  test: gpu[01-02]
  repositories:
    - {system: debian-13, kind: system, url: 'http://deb.example.org/debian', suites: trixie, components: [main], key: /k.gpg}
"""
NEW = ChosenSnapshot("2026-11-26", "b" * 64, {"debian-13": ("system",)})


def read(folder: Path, section: str = SECTION) -> Snapshots:
    file = folder / "site.bedplate.yml"
    file.write_text(BASE + section)
    found = load(file).snapshots
    assert found
    return found


def test_the_section_names_the_repositories_of_all_machines(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert (found.url, found.system, found.test) == ("http://10.0.0.1/snapshots", "debian-13", ("gpu01", "gpu02"))
    assert found.key == str(tmp_path / "keys/mirror.asc")
    (origin,) = found.repositories
    assert (origin.suites, origin.components, origin.key, origin.architecture) == (
        ("trixie",),
        ("main",),
        "/k.gpg",
        "x86_64",
    )
    assert found.of_machine("gpu01") is None


def test_a_promotion_is_seen_at_once(tmp_path: Path) -> None:
    read(tmp_path)
    snapshot_lock.write(tmp_path / "site.bedplate.yml", SnapshotLock(None, NEW))
    snapshots = load(tmp_path / "site.bedplate.yml").snapshots
    assert snapshots
    assert (snapshots.of_machine("gpu02"), snapshots.of_machine("gpu03")) == (NEW, None)


ROW = "    - {system: debian-13, kind: system, url: 'http://deb.example.org/debian', suites: trixie, components: [main], key: /k.gpg}\n"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("gpu[01-02]", "gpu[01-09]", "gpu05"),
        ("gpu[01-02]", "ctl1", "ctl1"),
        ("kind: system", "kind: os", "kind"),
        ("system: debian-13", "system: debian-99", "debian-99"),
        ("suites: trixie, ", "", "suites"),
        ("components: [main], ", "", "components"),
        ("suites: trixie", "suites: ['./']", "flat"),
        ("system: debian-13", "system: rocky-9", "no suites"),
        ("http://10.0.0.1", "http://me:hunter2@10.0.0.1", "password"),
        ("'http://deb.", "'http://me:hunter2@deb.", "password"),
        (ROW, ROW + ROW.replace("debian-13", "debian-12"), "no `system`"),
        (ROW, ROW + ROW.replace("key: /k.gpg", "key: /k.gpg, architecture: arm64"), "two architectures"),
    ],
)
def test_a_mistake_is_refused(tmp_path: Path, before: str, after: str, words: str) -> None:
    assert before in SECTION
    with pytest.raises(ClusterFileError) as caught:
        read(tmp_path, SECTION.replace(before, after))
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_damaged_lock_is_a_mistake_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "site.snapshot-lock.json").write_text("{}")
    with pytest.raises(ClusterFileError) as caught:
        read(tmp_path)
    assert "site.snapshot-lock.json" in str(caught.value)


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ClusterFileError) as caught:
        read(tmp_path, SECTION.replace("gpu[01-02]", "gpu77").replace("suites: trixie, ", ""))
    assert {"gpu77", "`suites`"} <= set(str(caught.value).replace(".", " ").replace("'", " ").split())
