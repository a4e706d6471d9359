"""Indexes of dnf repositories, made by createrepo_c: read where they are proven, refused elsewhere."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_index import dnf_index, fetching
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_index.index_model import IndexReadError, PackageIndex
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.apt_repositories import PackageRepository

pytestmark = pytest.mark.tools("gpg", "createrepo_c")


@pytest.fixture
def folder(tmp_path: Path, stages: dict[str, Path]) -> Path:
    shutil.copytree(stages["first"] / "nvidia/rocky-9", tmp_path / "repo")
    return tmp_path / "repo"


@pytest.fixture
def key(stages: dict[str, Path]) -> str:
    return (stages["first"] / "keys/nvidia.asc").read_text()


def read(folder: Path, key: str, architecture: str = "x86_64") -> list[PackageIndex]:
    return list(dnf_index.read(PackageRepository("nvidia", f"file://{folder}", ("/",), (), key), architecture))


def refusal(folder: Path, key: str) -> str:
    with pytest.raises(IndexReadError) as caught:
        read(folder, key)
    return str(caught.value)


def test_versions_have_their_epoch_unless_it_is_zero(folder, key):
    (index,) = read(folder, key)
    assert {version for name, version in index.packages if name == "kmod-nvidia-open-dkms"} == {
        "3:580.65.06-1.el9",
        "3:590.48.01-1.el9",
    }
    assert ("nvidia-fabricmanager", "580.65.06-1.el9") in index.packages
    # The same as rpm says of the files.
    files = sorted(map(str, folder.glob("*.rpm")))
    query = ["rpm", "-qp", "--nosignature", "--queryformat", "%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\n", *files]
    said = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    assert sorted(f"{name} {one if ':' in one else f'0:{one}'}" for name, one in index.packages) == sorted(said)


def test_packages_of_another_architecture_are_left_out(folder, key):
    (index,) = read(folder, key, "aarch64")
    assert not [name for name, _version in index.packages if name == "libnvidia-ml"]


def test_without_a_good_signature_nothing_is_read(folder, key, stages):
    assert "another key signed it" in refusal(folder, (stages["first"] / "keys/toolkit.asc").read_text())
    listed = folder / "repodata/repomd.xml"
    text = listed.read_text()
    listed.write_text(f"{text}\n")
    assert "changed after it was signed" in refusal(folder, key)
    listed.write_text(text)
    (folder / "repodata/repomd.xml.asc").unlink()
    assert "repomd.xml.asc: no such file, so the repository is not signed" in refusal(folder, key)


def test_a_changed_list_is_refused(folder, key):
    (primary,) = (folder / "repodata").glob("*primary.xml.gz")
    primary.write_bytes(gzip.compress(gzip.decompress(primary.read_bytes()).replace(b"580.65.06", b"580.99.99")))
    assert "expected SHA256" in refusal(folder, key)


@pytest.mark.parametrize("packed", ["gz", "xz", "bz2"])
def test_lists_of_createrepo_in_every_compression(folder, key, packed, tmp_path, monkeypatch):
    subprocess.run(
        ["createrepo_c", "--quiet", "--no-database", f"--general-compress-type={packed}", str(folder)], check=True
    )
    (folder / "repodata/repomd.xml.asc").write_text("x")
    # Only the signature is left out: the key of the stand-ins is of the lab.
    monkeypatch.setattr(dnf_index.signatures, "detached", lambda url, data, signature, key: data)
    (index,) = read(folder, key)
    assert ("nvidia-fabricmanager", "580.65.06-1.el9") in index.packages


@pytest.mark.tools("zstd")
def test_a_list_that_is_packed_with_zstd(folder, key, monkeypatch):
    (primary,) = (folder / "repodata").glob("*primary.xml.gz")
    packed = primary.with_suffix(".zst")
    subprocess.run(["zstd", "--quiet", "-o", str(packed)], input=gzip.decompress(primary.read_bytes()), check=True)
    listed = folder / "repodata/repomd.xml"
    old, new = (hashlib.sha256(path.read_bytes()).hexdigest() for path in (primary, packed))
    listed.write_text(listed.read_text().replace(primary.name, packed.name).replace(f">{old}<", f">{new}<"))
    monkeypatch.setattr(dnf_index.signatures, "detached", lambda url, data, signature, key: data)
    assert ("nvidia-fabricmanager", "580.65.06-1.el9") in read(folder, key)[0].packages
    monkeypatch.setattr(fetching.command, "find", lambda program: None)
    assert "Install the package zstd" in refusal(folder, key)


def test_a_digest_that_proves_nothing_is_refused(folder, key, monkeypatch):
    listed = folder / "repodata/repomd.xml"
    listed.write_text(listed.read_text().replace('type="sha256"', 'type="md5"'))
    monkeypatch.setattr(dnf_index.signatures, "detached", lambda url, data, signature, key: data)
    assert "digest 'md5' of the list of packages; allowed: sha256, sha384, sha512" in refusal(folder, key)
