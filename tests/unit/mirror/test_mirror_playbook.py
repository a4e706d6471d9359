"""playbooks/mirror.yml for a cluster file, and what the roles bring to a machine that has the mirror alone.

The packages are empty ones with the names and versions that the cluster file's set has.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.driver_part import build_packages
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.part_plan import software_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror import cluster_mirror
from tests.kit.decided import decided
from tests.kit.plays import play
from tests.unit.mirror.origins import Archive, Deb, Node, served, what_apt_reads
from tests.unit.mirror.sites import write_site

pytestmark = [pytest.mark.playbooks, pytest.mark.tools("apt-get", "gpg", "dpkg-deb")]


@dataclass
class Site:
    directory: Path
    file: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["-i", str(self.file.parent), "playbooks/mirror.yml", *arguments]
        for name in ("mirror", "cache"):
            path = self.directory / name
            command += ["-e", f"mirror_{'directory' if name == 'mirror' else name}={path}"]
        command += ["-e", f"bedplate_secrets_dir={self.directory / 'secrets'}"]
        return play(*command)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, origin_key) -> Site:
    directory = tmp_path_factory.mktemp("site")
    components = ("non-free", "main", "contrib", "non-free-firmware")
    suites = ("trixie", "trixie-updates", "trixie-security")
    archive = Archive(directory / "origin", origin_key, suites=suites, components=components)
    file = write_site(directory / "site", f"file://{archive.directory}", origin_key.public)
    needs = cluster_mirror.systems_of(load(str(file)))[0].sets[0].needs
    archive.add(*(Deb(need.name, "1" if need.version == "*" else need.version, "base" if need.part == "build" else "") for need in needs),
                Deb("base", "1"))  # fmt: skip
    return Site(directory, file)


@pytest.fixture(scope="module")
def made(site: Site) -> tuple[subprocess.CompletedProcess[str], ...]:
    check = site.run("--check", "--diff")
    assert not (site.directory / "mirror").exists()
    assert not (site.directory / "secrets").exists()
    return check, site.run("-vvv"), site.run()


def test_check_mode_says_what_a_run_fetches(made):
    check, first, _ = made
    assert check.returncode == 0, check.stdout
    assert "to fetch" in check.stdout
    assert "+file:/" in check.stdout
    assert first.returncode == 0, first.stdout
    # The mirror, and the lock of its versions.
    assert "changed=2" in first.stdout


def test_a_second_run_changes_nothing(made):
    assert made[2].returncode == 0, made[2].stdout
    assert "changed=0" in made[2].stdout


def test_the_signing_key_is_nobody_elses(site, made):
    path = site.directory / "secrets" / cluster_mirror.SECRET
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o400, 0o700)
    secret = path.read_text().splitlines()[3]
    assert not [done for done in made if secret in done.stdout + done.stderr or "PRIVATE KEY" in done.stdout]
    assert "PRIVATE" not in (site.directory / "mirror/key.asc").read_text()


def test_what_the_roles_bring_is_installed_from_the_mirror_alone(site, made):
    with served(site.directory / "mirror") as (url, _):
        name = "alone.bedplate.yml"
        inside = site.directory / "inside" / name
        write_site(inside.parent, "", "", name)
        (inside.parent / "mirror.asc").write_text((site.directory / "mirror/key.asc").read_text())
        inside.write_text(inside.read_text().replace("@mirror@", f"mirror: {{url: '{url}', key: mirror.asc}}"))
        parts = [decided("gpu_driver", inside, "gpu1", part) for part in ("prepare", "driver")]
        files = what_apt_reads(parts)
        assert [name for name in files if name.endswith(".sources")] == ["bedplate-mirror.sources"]
        node = Node(site.directory / "node", url, files=files)
        done = node.update()
        assert (done.returncode, done.stderr) == (0, "")
        wanted = software_of(load(str(inside)), "gpu1")
        assert wanted
        packages = {package for part in parts for package in part["packages"]} | set(build_packages(wanted))
        assert {"dkms", "linux-headers-amd64"} < packages
        done = node.download(*packages)
        assert done.returncode == 0, done.stderr
        assert {"base_1_all.deb"} < set(node.archives)
        assert len(node.archives) == len(packages) + 1


def test_the_list_names_every_package_with_its_parts(site, made):
    found = json.loads((site.directory / "mirror/artifacts.json").read_text())
    parts = {row["name"]: row["systems"]["debian-13"]["parts"] for row in found["packages"]}
    assert parts["base"] == ["build"]
    assert parts["dkms"] == ["build"]
    assert {tuple(value) for value in parts.values()} == {("build",), ("driver",), ("kernel",), ("support",)}
    assert {row["origin"] for row in found["keys"]} == {"debian", "debian-security"}


def test_all_mistakes_come_at_once(site):
    done = site.run("-e", "mirror_prnue=true", "-e", '{"mirror_packages": ["a b"], "mirror_files": [{"url": "x"}]}')
    assert done.returncode != 0
    text = done.stdout.replace("\n        ", " ")
    for said in (
        "did you mean mirror_prune?",
        "mirror_packages: 'a b'",
        "mirror_files[0]: url 'x'",
        "mirror_files[0]: sha256 ''",
    ):
        assert said in text, text
