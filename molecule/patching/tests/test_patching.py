# SPDX-License-Identifier: GPL-3.0-or-later
"""Two snapshots of a local archive on four nodes under jobs: tested, promoted, rolled, and the way back. Nothing comes from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab import scenario_run
from lab.paths import ROOT, ssh_config_of
from tests.kit import patch_archive, rolls
from tests.kit.patch_archive import PatchArchive, PatchPackage
from tests.kit.rolls import Roll

SCENARIO = "patching"
ssh, states = partial(rolls.ssh, SCENARIO), partial(rolls.states_of, SCENARIO)
NODES = ["gpu01", "gpu02", "gpu03", "gpu04"]
CONTROLLER = "10.215.70.10"
OLD, NEW = "2026-11-20", "2026-11-26"
URL = f"http://{CONTROLLER}:8000/snapshots"
JOBS = 40
BASE = [
    PatchPackage("bedplate-lib", "1.0"),
    PatchPackage("bedplate-tool", "1.0", "bedplate-lib (= 1.0)"),
    PatchPackage("bedplate-fixed", "1.0"),
]
UPDATE = [
    PatchPackage("bedplate-lib", "1.1"),
    PatchPackage("bedplate-tool", "1.1", "bedplate-lib (= 1.1), bedplate-more"),
    PatchPackage("bedplate-more", "1"),
]
OF_OLD = {"bedplate-fixed": "1.0", "bedplate-lib": "1.0", "bedplate-tool": "1.0"}
OF_NEW = {"bedplate-fixed": "1.0+u1", "bedplate-lib": "1.1", "bedplate-more": "1", "bedplate-tool": "1.1"}


@dataclass
class Site:
    """The cluster file with `snapshots`, the archive that they copy, and the mirror."""

    folder: Path
    system: PatchArchive
    security: PatchArchive

    @property
    def file(self) -> Path:
        return self.folder / "site/patching.bedplate.yml"

    def play(self, playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        more = [f"--extra-vars=mirror_{name}={self.folder / name}" for name in ("directory", "cache")]
        done = scenario_run.run(SCENARIO, ROOT / "playbooks" / playbook, self.file, *more, *arguments)
        print(done.stdout[-6000:], done.stderr[-2000:])
        return done

    def snapshot(self, name: str) -> None:
        """Make a snapshot, and put it where machines find it."""
        self.system.publish()
        self.security.publish()
        done = self.play("mirror.yml", "-e", f"mirror_snapshot={name}")
        assert done.returncode == 0, done.stdout
        (self.folder / "site/mirror.asc").write_text((self.folder / "directory/snapshots/key.asc").read_text())
        config = ssh_config_of(f"molecule-{SCENARIO}")
        pack = ["tar", "--create", "--directory", str(self.folder / "directory"), f"snapshots/{name}"]
        unpack = [
            "ssh",
            "-F",
            str(config),
            "-l",
            "root",
            "ctl1",
            "mkdir -p /srv/site && tar --extract --directory /srv/site",
        ]
        with subprocess.Popen(pack, stdout=subprocess.PIPE) as source:
            subprocess.run(unpack, stdin=source.stdout, check=True)
        ssh(
            "ctl1",
            "systemctl is-active -q site-web || systemd-run --unit=site-web python3 -m http.server --directory /srv/site 8000",
        )

    def promote(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.play(
            "snapshot.yml", "-e", f"snapshot={name}", "-e", f"snapshot_report={self.folder / 'report'}", *arguments
        )

    def roll(self, *arguments: str) -> Roll:
        """Roll two nodes at a time, which waits for jobs for a minute."""
        choices = ("-e", "roll_packages=true", "-e", "roll_percent=50", "-e", "roll_patience=60")
        found = Roll(SCENARIO, self.file, (*choices, *arguments))
        found.status = found.run()  # type: ignore[attr-defined]
        print(found.text[-6000:])
        return found

    def roll_all(self) -> None:
        """Roll until nothing waits: a job may hold a node longer than a roll waits for it."""
        for _ in range(6):
            done = self.roll()
            assert done.report["outcome"] in ("done", "waiting"), done.text[-4000:]
            if "Nothing is pending." in done.text:
                return
        raise AssertionError("the roll does not end")

    @property
    def lock(self) -> dict[str, Any]:
        return json.loads((self.folder / "site/patching.snapshot-lock.json").read_text())  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("patching")
    key = patch_archive.new_key()
    archive, fixes = PatchArchive(folder / "system", key), PatchArchive(folder / "security", key)
    for machine in ("ctl1", *NODES):
        archive.add_installed(ssh(machine, "cat /var/lib/dpkg/status"))
    archive.packages, fixes.packages = list(BASE), [PatchPackage("bedplate-unused", "1")]
    (folder / "site").mkdir()
    (folder / "site/archive.asc").write_text(key.public)
    rows = "".join(
        f"    - {{system: debian-13, kind: {one.directory.name}, url: 'file://{one.directory}', suites: ['./'], key: archive.asc}}\n"
        for one in (archive, fixes)
    )
    text = (ROOT / "molecule/patching/patching.bedplate.yml").read_text()
    found = Site(folder, archive, fixes)
    found.file.write_text(
        f"{text}\nsnapshots:\n  url: {URL}\n  key: mirror.asc\n  test: gpu01\n  repositories:\n{rows}"
    )
    yield found
    ssh("ctl1", "systemctl stop site-web || true")


def versions(node: str) -> dict[str, str]:
    """Return the packages of the test that dpkg has installed on a node."""
    rows = ssh(
        node, "dpkg-query --show --showformat='${db:Status-Status} ${Package} ${Version}\\n' 'bedplate-*'"
    ).splitlines()
    return {row.split()[1]: row.split()[2] for row in rows if row.startswith("installed ")}


def from_elsewhere(node: str, snapshot: str) -> list[str]:
    """Return what a node has from outside of a snapshot, by dpkg and apt alone: packages, and addresses of sources."""
    names = ssh(node, "dpkg-query --show --showformat='${db:Status-Status} ${binary:Package}\\n'").splitlines()
    listed = [row.split()[1] for row in names if row.startswith("installed ")]
    assert len(listed) > 100
    policy = ssh(node, f"apt-cache policy {' '.join(listed)}")
    base = f"{URL}/{snapshot}/debian-13/"
    found = []
    for name, block in re.findall(r"^(\S+):\n((?: .*\n?)+)", policy, re.MULTILINE):
        version = re.search(r"^ \*\*\* .*\n((?: +-?\d+ (?:http|file|/var/lib).*\n?)+)", block, re.MULTILINE)
        if version is None or base not in version[1]:
            found.append(name)
    addresses = set(ssh(node, "apt-get indextargets --format '$(REPO_URI)'").split())
    return found + [one for one in addresses if not one.startswith(base)]


def submit(count: int) -> dict[str, str]:
    """Submit jobs of 5 to 30 s; return id -> the exit code that each ends with."""
    script = " ".join(
        f"sbatch --parsable --account=research --output=/dev/null --mem=50 --wrap='sleep {5 + number * 7 % 26}';"
        for number in range(count)
    )
    ids = ssh("ctl1", script).split()
    assert len(ids) == count
    return dict.fromkeys(ids, "COMPLETED 0:0 0")


def ended(jobs: dict[str, str]) -> dict[str, str]:
    """Wait until no job is left; return id -> state, exit code and restarts. A job that ran twice has two rows."""
    for _ in range(150):
        if not ssh("ctl1", "squeue --noheader --all").strip():
            break
        time.sleep(2)
    time.sleep(3)
    text = ssh("ctl1", "sacct -D --allocations --noheader --parsable2 --format=JobIDRaw,State,ExitCode,Restarts")
    rows = [row for row in (line.split("|") for line in text.splitlines()) if row[0] in jobs]
    assert sorted(row[0] for row in rows) == sorted(jobs)
    return {row[0]: " ".join(row[1:]) for row in rows}


def test_a_promoted_snapshot_is_the_only_source(site: Site) -> None:
    site.snapshot(OLD)
    # Without a test this site promotes nothing.
    assert site.promote(OLD).returncode != 0
    assert site.promote(OLD, "-e", "snapshot_state=testing").returncode == 0
    assert site.play("os.yml", "--limit", "gpu01").returncode == 0
    ssh("gpu01", "apt-get install -qy bedplate-tool bedplate-fixed")
    assert site.promote(OLD).returncode == 0
    assert site.play("os.yml").returncode == 0
    again = site.play("os.yml")
    assert {one["changed"] for one in scenario_run.recap(again.stdout).values()} == {0}
    for node in NODES:
        ssh(node, "apt-get install -qy bedplate-tool bedplate-fixed")
        assert versions(node) == OF_OLD
        assert from_elsewhere(node, OLD) == []
    assert from_elsewhere("ctl1", OLD) == []
    assert site.play("verify.yml").returncode == 0


def test_a_package_and_a_source_from_elsewhere_fail_verify(site: Site) -> None:
    ssh("gpu02", "mkdir -p /tmp/own/DEBIAN; printf 'Package: own\\nVersion: 1\\nArchitecture: all\\nMaintainer: x <x@example.org>\\n"
        "Description: x\\n' > /tmp/own/DEBIAN/control; dpkg-deb --build /tmp/own /tmp/own.deb; dpkg --install /tmp/own.deb; "
        "echo 'deb http://deb.debian.org/debian trixie main' > /etc/apt/sources.list.d/own.list")  # fmt: skip
    done = site.play("verify.yml")
    assert done.returncode != 0
    text = re.sub(r"\s+", " ", done.stdout)
    assert "gpu02: package own" in text
    assert "http://deb.debian.org/debian" in text
    ssh("gpu02", "dpkg --purge own")
    # The source is set aside by the next run.
    assert site.play("os.yml", "--limit", "gpu02").returncode == 0
    assert from_elsewhere("gpu02", OLD) == []


def test_a_snapshot_is_tested_promoted_and_rolled_under_jobs(site: Site) -> None:
    site.system.packages = [*BASE, *UPDATE]
    site.security.packages += [PatchPackage("bedplate-fixed", "1.0+u1")]
    site.snapshot(NEW)
    assert site.promote(NEW).returncode != 0
    jobs = submit(JOBS)
    assert site.promote(NEW, "-e", "snapshot_state=testing").returncode == 0
    # The node that tests does not have it yet.
    assert site.promote(NEW).returncode != 0
    for _ in range(4):
        site.roll("--limit", "gpu01")
        if versions("gpu01") == OF_NEW:
            break
    assert versions("gpu01") == OF_NEW
    assert [versions(node) for node in NODES[1:]] == [OF_OLD] * 3
    done = site.promote(NEW)
    assert done.returncode == 0
    assert "newer (security): bedplate-fixed 1.0 -> 1.0+u1" in done.stdout
    assert (site.lock["promoted"]["name"], site.lock["testing"]) == (NEW, None)
    assert [one["name"] for one in site.lock["former"]] == [OLD]
    compared = site.play("verify.yml")
    waiting = re.sub(r"\s+", " ", compared.stdout + compared.stderr)
    assert f"expected sources of snapshot {NEW}, found sources of snapshot {OLD}" in waiting
    assert "no such package in snapshot" not in waiting
    assert "bedplate-fixed 1.0+u1" in site.roll("--check", "-v").text
    site.roll_all()
    assert ended(jobs) == jobs
    for node in NODES:
        assert versions(node) == OF_NEW
        assert from_elsewhere(node, NEW) == []
    assert states() == dict.fromkeys(NODES, "idle none")


def test_a_snapshot_that_was_changed_is_refused(site: Site) -> None:
    path = site.folder / f"directory/snapshots/{OLD}/debian-13/system/Packages"
    before = path.read_bytes()
    path.unlink()
    path.write_bytes(before + b"\n")
    assert site.promote(OLD).returncode != 0
    path.write_bytes(before)
    assert site.lock["promoted"]["name"] == NEW


def test_the_way_back_is_a_promotion_and_a_roll(site: Site) -> None:
    jobs = submit(JOBS)
    done = site.promote(OLD)
    assert done.returncode == 0
    assert "older: bedplate-tool 1.1 -> 1.0" in done.stdout
    preview = site.roll("--check")
    assert "packages" in preview.text
    assert [versions(node) for node in NODES] == [OF_NEW] * 4
    site.roll_all()
    assert ended(jobs) == jobs
    for node in NODES:
        assert versions(node) == OF_OLD
        assert from_elsewhere(node, OLD) == []
    assert states() == dict.fromkeys(NODES, "idle none")
    assert site.play("host_packages.yml").returncode == 0
    assert site.play("verify.yml").returncode == 0
    found = json.loads((site.folder / f"report/patching-{OLD}.spdx.json").read_text())
    assert found["spdxVersion"] == "SPDX-2.3"
