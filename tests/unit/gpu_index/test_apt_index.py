"""Indexes of apt repositories, made by dpkg-scanpackages, signed by gpg: read where they are proven, refused elsewhere."""

from __future__ import annotations

import base64
import gzip
import hashlib
import lzma
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_index import apt_index, signatures
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_index.index_model import IndexReadError, PackageIndex
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.apt_repositories import PackageRepository
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.signing import Signer
from tests.unit.mirror.origins import served

pytestmark = pytest.mark.tools("gpg", "dpkg-deb", "dpkg-scanpackages")
DEBS = (("libcuda1", "580.65.06-1"), ("libcuda1", "580.126.09-1"), ("datacenter-gpu-manager-4-core", "1:4.6.0-1"))
PACKED = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


@dataclass
class Origin:
    """A repository in a directory; `folder` is where its indexes are, below `top` with the Release."""

    directory: Path
    signer: Signer
    top: str = ""
    folder: str = ""
    endings: tuple[str, ...] = ("", ".gz", ".xz")
    head: str = ""
    suites: tuple[str, ...] = ("/",)
    components: tuple[str, ...] = ()
    text: str = field(default="", init=False)

    def __post_init__(self) -> None:
        pool = self.directory / "pool"
        pool.mkdir(parents=True)
        for name, version in DEBS:
            tree = self.directory / "trees" / f"{name}_{version}"
            (tree / "DEBIAN").mkdir(parents=True)
            control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: n <n@e.org>\nDescription: x\n Version: 9\n"
            (tree / "DEBIAN/control").write_text(control)
            file = pool / f"{name}_{version.rpartition(':')[2]}_amd64.deb"
            subprocess.run(["dpkg-deb", "--build", str(tree), str(file)], check=True, capture_output=True)
        scan = ["dpkg-scanpackages", "--multiversion", "pool"]
        self.text = subprocess.run(scan, check=True, capture_output=True, text=True, cwd=self.directory).stdout
        self.publish()

    def publish(self) -> None:
        sums = ""
        place = self.directory / self.top
        (place / self.folder).mkdir(parents=True, exist_ok=True)
        for ending in self.endings:
            data = PACKED[ending](self.text.encode())
            (place / self.folder / f"Packages{ending}").write_bytes(data)
            sums += f" {hashlib.sha256(data).hexdigest()} {len(data)} {self.folder}Packages{ending}\n"
        release = f"Origin: x\n{self.head}MD5Sum:\n {'0' * 32} 1 {self.folder}Packages\nSHA256:\n{sums}"
        (place / "InRelease").write_text(self.signer.sign(release))

    def at(self, url: str) -> PackageRepository:
        return PackageRepository("x", url, self.suites, self.components, self.signer.public)

    def read(self, url: str = "") -> list[PackageIndex]:
        return list(apt_index.read(self.at(url or f"file://{self.directory}"), "amd64"))


@pytest.fixture
def origin(tmp_path: Path, signer: Signer) -> Origin:
    return Origin(tmp_path / "origin", signer)


def refusal(origin: Origin) -> str:
    with pytest.raises(IndexReadError) as caught:
        origin.read()
    return str(caught.value)


@pytest.mark.parametrize("endings", [("",), (".gz",), (".xz", ".gz"), ("", ".gz", ".xz")])
def test_versions_are_read_whatever_the_index_is_packed_with(tmp_path, signer, endings):
    origin = Origin(tmp_path / "origin", signer, endings=endings)
    (index,) = origin.read()
    assert sorted(index.packages) == sorted(DEBS)
    file = tmp_path / "origin" / index.url.rpartition("/")[2]
    assert index.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()


def test_an_archive_has_suites_and_components(tmp_path, signer):
    place = {"top": "dists/noble-updates", "folder": "restricted/binary-amd64/"}
    origin = Origin(tmp_path / "a", signer, **place, suites=("noble-updates",), components=("restricted",))
    (index,) = origin.read()
    assert (index.suite, len(index.packages)) == ("noble-updates restricted", 3)


def test_it_is_read_over_http_and_each_file_once(origin):
    with served(origin.directory) as (url, asked):
        (index,) = origin.read(url)
    assert len(index.packages) == 3
    assert asked == ["/InRelease", "/Packages.xz"]


def test_a_release_with_its_signature_in_a_second_file(origin, tmp_path):
    text = (origin.directory / "InRelease").read_text()
    (origin.directory / "InRelease").unlink()
    assert "not a signed repository" in refusal(origin)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--yes"]
    subprocess.run([*gpg, "--import"], input=origin.signer.secret.encode(), check=True, capture_output=True)
    signed = text[text.index("\n\n") + 2 : text.index("-----BEGIN PGP SIGNATURE")]
    (origin.directory / "Release").write_text(signed)
    target = str(origin.directory / "Release.gpg")
    subprocess.run(
        [*gpg, "--output", target, "--detach-sign", str(origin.directory / "Release")], check=True, capture_output=True
    )
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"], check=False)
    assert len(origin.read()[0].packages) == 3
    (origin.directory / "Release").write_text(f"{signed}More: x\n")
    assert "changed after it was signed" in refusal(origin)


def test_a_bad_signature_beside_a_good_one_is_refused(origin, signer):
    def block(text: str) -> bytes:
        signed = signer.sign(text)
        armored = signed[signed.index("-----BEGIN PGP SIGNATURE") :]
        body = armored[armored.index("\n\n") + 2 : armored.rindex("\n=")]
        return base64.b64decode(body)

    text = "Origin: x\n"
    # The signature of a clear text is of its lines without the last line end.
    good, bad = block(text), block("Origin: y\n")
    data = text.rstrip("\n").encode()
    assert signatures.detached("u", data, good, signer.public) == data
    for proof in (good + bad, bad + good):
        with pytest.raises(IndexReadError, match="changed after it was signed"):
            signatures.detached("u", data, proof, signer.public)


def test_the_key_of_somebody_else_proves_nothing(origin, stranger):
    release = origin.directory / "InRelease"
    release.write_text(stranger.sign("Origin: x\n"))
    assert "another key signed it" in refusal(origin)


def test_a_release_without_signature_is_refused(origin):
    (origin.directory / "InRelease").write_text("Origin: x\nSHA256:\n")
    assert "is not signed by the key of this repository" in refusal(origin)


def test_a_changed_release_is_refused(origin):
    release = origin.directory / "InRelease"
    release.write_text(release.read_text().replace("Origin: x", "Origin: y"))
    assert "it was changed after it was signed" in refusal(origin)


@pytest.mark.parametrize("form", ["{lines}{signed}", "{signed}{lines}"])
def test_lines_around_the_signed_text_do_not_count(origin, form):
    data = lzma.compress(origin.text.replace("580.126.09", "580.999.99").encode())
    (origin.directory / "Packages.xz").write_bytes(data)
    lines = f"SHA256:\n {hashlib.sha256(data).hexdigest()} {len(data)} Packages.xz\n"
    release = origin.directory / "InRelease"
    release.write_text(form.format(lines=lines, signed=release.read_text()))
    # Whether gpg refuses the file, or its signed text the index.
    assert refusal(origin)


def test_a_changed_index_is_refused_with_both_digests(origin):
    file = origin.directory / "Packages.xz"
    expected = hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_bytes(lzma.compress(origin.text.replace("580.126.09", "580.999.99").encode()))
    text = refusal(origin)
    assert expected in text
    assert hashlib.sha256(file.read_bytes()).hexdigest() in text


def test_an_old_release_is_refused_once_it_has_expired(tmp_path, signer):
    old = Origin(tmp_path / "old", signer, head="Valid-Until: Sat, 03 Jan 2026 00:00:00 UTC\n")
    assert "was valid until Sat, 03 Jan 2026" in refusal(old)
    unreadable = Origin(tmp_path / "unreadable", signer, head="Valid-Until: next year\n")
    assert "Valid-Until 'next year' is not a date" in refusal(unreadable)
    new = Origin(tmp_path / "new", signer, head="Valid-Until: Sat, 03 Jan 2126 00:00:00 UTC\n")
    assert len(new.read()[0].packages) == 3


def test_an_index_that_the_signed_list_does_not_have_is_not_read(tmp_path, signer):
    origin = Origin(tmp_path / "a", signer, endings=())
    (origin.directory / "Packages").write_text(origin.text)
    assert "has no readable index" in refusal(origin)


def test_a_repository_that_does_not_answer(origin):
    with pytest.raises(IndexReadError, match=r"http://127\.0\.0\.1:9/InRelease: "):
        origin.read("http://127.0.0.1:9")


def test_a_keyring_that_does_not_exist(origin):
    gone = PackageRepository("x", f"file://{origin.directory}", ("/",), (), "/nowhere/archive-keyring.gpg")
    with pytest.raises(IndexReadError, match=r"/nowhere/archive-keyring\.gpg: this machine has no such keyring"):
        list(apt_index.read(gone, "amd64"))
