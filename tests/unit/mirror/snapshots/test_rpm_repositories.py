"""Snapshots of a dnf repository with signed packages: made with dnf and createrepo_c, read by dnf with the mirror's key."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import SnapshotOrigin
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.mirror_model import MirrorError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.signing import Signer
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.snapshots import read_snapshot
from tests.unit.mirror.snapshots.made import make, order_of

pytestmark = pytest.mark.tools("apt-get", "gpg", "dnf", "createrepo_c", "rpm", "rpmbuild", "rpmsign")

SYSTEM = "rocky-9"
SPEC = "Name: {name}\nVersion: {version}\nRelease: 1\nSummary: x\nLicense: MIT\nBuildArch: noarch\n%description\nx\n%files\n"


class RpmOrigin:
    """A repository of rpms, signed by a key of its own."""

    def __init__(self, folder: Path, key: Signer) -> None:
        self.packages = folder / "repo"
        self.packages.mkdir(parents=True)
        self.home = folder / "gpg"
        self.home.mkdir(mode=0o700)
        self._key = key
        (folder / "key.asc").write_text(key.public)
        (folder / "secret.asc").write_text(key.secret)
        self._run("gpg", "--homedir", str(self.home), "--batch", "--quiet", "--import", str(folder / "secret.asc"))
        self.folder = folder

    def add(self, name: str, version: str, signed: bool = True) -> None:
        spec = self.folder / f"{name}.spec"
        spec.write_text(SPEC.format(name=name, version=version))
        self._run(
            "rpmbuild",
            "-bb",
            "--quiet",
            "--define",
            f"_topdir {self.folder}/build",
            "--define",
            f"_rpmdir {self.packages}",
            str(spec),
        )
        if signed:
            (path,) = self.packages.rglob(f"{name}-{version}-1.noarch.rpm")
            defines = [
                "--define",
                f"_gpg_name {self._key.fingerprint}",
                "--define",
                f"_gpg_path {self.home}",
                "--define",
                "__gpg /usr/bin/gpg",
            ]
            self._run("rpmsign", "--addsign", *defines, str(path))
        self._run("createrepo_c", "--quiet", str(self.packages))

    @property
    def origin(self) -> SnapshotOrigin:
        return SnapshotOrigin(SYSTEM, "system", self.packages.as_uri(), (), (), "x86_64", str(self.folder / "key.asc"))

    @staticmethod
    def _run(*words: str) -> None:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(autouse=True)
def reposync() -> None:
    """Skip without dnf's plugin, which has no command of its own, but fail where the tools have been promised."""
    if subprocess.run(["dnf", "reposync", "--help"], capture_output=True, check=False).returncode != 0:
        said = "dnf has no reposync: dnf-plugins-core is not installed"
        required = os.environ.get("CI") == "true" or os.environ.get("BEDPLATE_TOOLS") == "required"
        (pytest.fail if required else pytest.skip)(said)


@pytest.fixture
def origin(tmp_path: Path, mirror_key: Signer, rsa_key: Signer) -> RpmOrigin:
    found = RpmOrigin(tmp_path / "origin", rsa_key)
    found.add("zip", "1.0")
    return found


def test_a_snapshot_of_rpms_is_read_by_dnf(tmp_path: Path, origin: RpmOrigin, mirror_key: Signer) -> None:
    order = order_of(tmp_path, "2026-11-20", origin.origin)
    assert make(order, mirror_key).packages == 1
    origin.add("zip", "1.1")
    assert make(order_of(tmp_path, "2026-11-26", origin.origin), mirror_key).packages == 2
    (repository,) = read_snapshot.read(order.directory.as_uri(), "2026-11-20", mirror_key).repositories
    assert [(one.name, one.version) for one in repository.packages] == [("zip", "0:1.0-1")]
    assert repository.manager == "dnf"
    (tmp_path / "mirror.asc").write_text(mirror_key.public)
    (tmp_path / "dnf.conf").write_text("[main]\n")
    place = order.place / SYSTEM / "system"
    (tmp_path / "repos.d").mkdir()
    text = f"[s]\nname=s\nbaseurl={place.as_uri()}\nrepo_gpgcheck=1\ngpgcheck=0\ngpgkey={(tmp_path / 'mirror.asc').as_uri()}\n"
    (tmp_path / "repos.d/s.repo").write_text(text)
    settings = [
        f"--config={tmp_path}/dnf.conf",
        f"--setopt=reposdir={tmp_path}/repos.d",
        f"--setopt=cachedir={tmp_path}/dnf",
    ]
    words = [
        "dnf",
        "--quiet",
        "--assumeyes",
        *settings,
        f"--installroot={tmp_path}/root",
        "repoquery",
        "--available",
        "--qf=%{name}-%{version}",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["zip-1.0"], done.stderr


def test_a_package_that_is_not_signed_is_refused(tmp_path: Path, origin: RpmOrigin, mirror_key: Signer) -> None:
    origin.add("evil", "1.0", signed=False)
    with pytest.raises(MirrorError):
        make(order_of(tmp_path, "2026-11-20", origin.origin), mirror_key)
    assert not (tmp_path / "snapshots/2026-11-20").exists()
