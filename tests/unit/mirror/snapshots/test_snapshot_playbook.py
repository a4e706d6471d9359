"""playbooks/mirror.yml with mirror_snapshot, and playbooks/snapshot.yml, for a cluster file and a local archive."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.signing import Signer
from tests.kit.plays import play
from tests.unit.mirror.origins import Archive, Deb

ROOT = Path(__file__).parents[4]
BASE = (ROOT / "tests/unit/cluster/base.yml").read_text()
OLD, NEW = "2026-11-20", "2026-11-26"

pytestmark = [pytest.mark.playbooks, pytest.mark.tools("apt-get", "gpg", "dpkg-deb")]


@dataclass
class Site:
    directory: Path
    file: Path

    def run(self, playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["-i", str(self.file.parent), f"playbooks/{playbook}", *arguments]
        for name in ("directory", "cache"):
            command += ["-e", f"mirror_{name}={self.directory / name}"]
        command += ["-e", f"bedplate_secrets_dir={self.directory / 'secrets'}"]
        return play(*command)

    def promote(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(
            "snapshot.yml", "-e", f"snapshot={name}", "-e", f"snapshot_report={self.directory / 'report'}", *arguments
        )

    @property
    def lock(self) -> Path:
        return self.file.with_name("site.snapshot-lock.json")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, origin_key: Signer) -> Site:
    directory = tmp_path_factory.mktemp("site")
    archive = Archive(directory / "origin", origin_key)
    archive.add(Deb("zip", "1"))
    (directory / "site").mkdir()
    (directory / "site/origin.asc").write_text(origin_key.public)
    file = directory / "site/site.bedplate.yml"
    file.write_text(
        f"{BASE}snapshots:\n  url: http://10.0.0.1/snapshots\n  key: mirror.asc\n  repositories:\n"
        f"    - {{system: debian-13, kind: system, url: 'file://{archive.directory}', suites: stable, components: main, key: origin.asc}}\n"
    )
    found = Site(directory, file)
    check = found.run("mirror.yml", "-e", f"mirror_snapshot={OLD}", "--check", "--diff")
    assert check.returncode == 0, check.stdout
    assert "zip_1_all.deb" in check.stdout
    assert not (directory / "directory").exists()
    first = found.run("mirror.yml", "-e", f"mirror_snapshot={OLD}", "-v")
    assert first.returncode == 0, first.stdout
    assert "changed=1" in first.stdout
    (directory / "site/mirror.asc").write_text((directory / "directory/snapshots/key.asc").read_text())
    archive.add(Deb("zip", "2"))
    assert found.run("mirror.yml", "-e", f"mirror_snapshot={NEW}").returncode == 0
    return found


def test_a_snapshot_that_exists_is_no_change(site: Site) -> None:
    again = site.run("mirror.yml", "-e", f"mirror_snapshot={OLD}")
    assert again.returncode == 0, again.stdout
    assert "changed=0" in again.stdout


def test_a_promotion_is_one_change_and_shows_what_differs(site: Site) -> None:
    predicted = site.promote(OLD, "--check")
    assert predicted.returncode == 0, predicted.stdout
    assert "changed=1" in predicted.stdout
    assert not site.lock.exists()
    assert "changed=1" in site.promote(OLD).stdout
    assert "changed=0" in site.promote(OLD).stdout
    done = site.promote(NEW, "--diff")
    assert done.returncode == 0, done.stdout
    assert "debian-13: newer: zip 1 -> 2" in done.stdout
    assert json.loads(site.lock.read_text())["promoted"]["name"] == NEW
    assert json.loads((site.directory / f"report/lab-{NEW}.spdx.json").read_text())["spdxVersion"] == "SPDX-2.3"
    back = site.promote(OLD)
    assert back.returncode == 0, back.stdout
    assert "debian-13: older: zip 2 -> 1" in back.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["-e", "snapshot=2026-12-24"],
        ["-e", "snapshot="],
        ["-e", f"snapshot={NEW}", "-e", "snapshot_sate=testing"],
        ["-e", f"snapshot={NEW}", "-e", "snapshot_state=tested"],
        ["-e", f"snapshot={NEW}", "-e", "snapshot_state=testing"],
    ],
)
def test_what_is_wrong_is_refused_and_the_lock_stays(site: Site, arguments: list[str]) -> None:
    site.promote(OLD)
    before = site.lock.read_text()
    done = site.run("snapshot.yml", *arguments)
    assert done.returncode != 0, done.stdout
    assert site.lock.read_text() == before


def test_a_node_that_tests_and_does_not_answer_ends_the_run(site: Site) -> None:
    text = site.file.read_text()
    site.promote(OLD)
    before = site.lock.read_text()
    try:
        site.file.write_text(text.replace("  key: mirror.asc\n", "  key: mirror.asc\n  test: gpu01\n"))
        assert site.promote(NEW, "-e", "snapshot_state=testing").returncode == 0
        tested = site.lock.read_text()
        done = site.promote(
            NEW,
            "-e",
            "ansible_ssh_common_args='-o ConnectTimeout=1'",
            "-e",
            "ansible_host=127.0.0.1",
            "-e",
            "ansible_port=9",
        )
        assert done.returncode != 0, done.stdout
        assert site.lock.read_text() == tested
    finally:
        site.file.write_text(text)
        site.lock.write_text(before)
