# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection, built and installed into an empty folder, as a site has it: without this repository's ansible.cfg."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks import site

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.playbooks
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Site:
    """A folder with an installed collection, an inventory of recorded nodes, an empty home and an empty working directory."""

    folder: Path

    def run(self, *command: str, more: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        environment = {
            "HOME": str(self.folder / "home"),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"),
            "ANSIBLE_CONNECTION_PLUGINS": str(ROOT / "benchmarks/recorded"),
            "BEDPLATE_ANSWERS": str(self.folder / "answers.json"),
            **(more or {}),
        }
        return subprocess.run(
            [str(BIN / command[0]), *command[1:]],
            cwd=self.folder / "work",
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def inventory(self) -> Path:
        """The folder of the cluster file."""
        return self.folder / "2"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Site:
    found = Site(tmp_path_factory.mktemp("site"))
    for name in ("home", "work"):
        (found.folder / name).mkdir()
    site.prepare(found.folder, [4])
    (found.folder / "4").rename(found.inventory)
    built = found.run("ansible-galaxy", "collection", "build", "--output-path", str(found.folder), str(ROOT))
    assert built.returncode == 0, built.stderr
    (archive,) = found.folder.glob("bedplate-cluster-*.tar.gz")
    done = found.run(
        "ansible-galaxy", "collection", "install", "--offline", "-p", str(found.folder / "collections"), str(archive)
    )
    assert done.returncode == 0, done.stderr
    return found


def test_files_of_development_are_not_installed(installed: Site) -> None:
    (archive,) = installed.folder.glob("bedplate-cluster-*.tar.gz")
    with tarfile.open(archive) as packed:
        top = {name.partition("/")[0] for name in packed.getnames()}
    pages = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md", "SUPPORT.md", "docs", "examples"}
    assert top - pages == {"FILES.json", "MANIFEST.json", "meta", "playbooks", "plugins", "roles"}


def test_the_site_runs_by_its_name(installed: Site) -> None:
    # The archives of this site are on no network here: it goes by the versions of bedplate's table, without a lock.
    without_lock = ("--extra-vars", "gpu_resolve=off")
    source = str(installed.inventory / "bench.bedplate.yml")
    done = installed.run("ansible-playbook", "-i", source, "bedplate.cluster.site", *without_lock)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-1000:]
    assert done.stdout.count("changed=0") == done.stdout.count("failed=0") == 6
    # What the inventory plugin loads before the first fork says there if it cannot; Python goes on.
    assert "Exception ignored" not in done.stderr
    assert list((installed.folder / "work").iterdir()) == []


@pytest.mark.parametrize("name", ["os", "tuning", "rdma", "interconnect", "gpu", "reboot", "scheduler", "verify"])
def test_each_phase_has_a_name(installed: Site, name: str) -> None:
    source = str(installed.inventory / "bench.bedplate.yml")
    done = installed.run("ansible-playbook", "-i", source, f"bedplate.cluster.{name}", "--list-tasks")
    assert done.returncode == 0, done.stderr
    plays = [line for line in done.stdout.splitlines() if line.startswith("  play #")]
    assert ": Check the variables\t" in plays[0]
    assert len(plays) > 1


def test_files_beside_the_cluster_file_are_not_read_as_inventories(installed: Site) -> None:
    script = installed.inventory / "scripts/prolog.sh"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\ntouch {installed.folder}/ran\n")
    script.chmod(0o755)
    done = installed.run("ansible-inventory", "-i", str(installed.inventory), "--graph")
    assert done.returncode != 0
    for text in ("reads nvidia.asc, scripts as", f"-i {installed.inventory}/bench.bedplate.yml", "ignore_patterns = "):
        assert text in done.stderr
    assert not (installed.folder / "ran").exists()
    ignored = done.stderr.partition("ignore_patterns = ")[2].strip()
    for source, more in (
        (installed.inventory, {"ANSIBLE_INVENTORY_IGNORE_REGEX": ignored}),
        (installed.inventory / "bench.bedplate.yml", {}),
    ):
        done = installed.run("ansible-inventory", "-i", str(source), "--graph", more=more)
        assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr
    assert not (installed.folder / "ran").exists()
