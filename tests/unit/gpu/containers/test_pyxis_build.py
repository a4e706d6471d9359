"""pyxis is built for the Slurm that is there, from the archive that was named, and whatever fails leaves the old one."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.archives import (
    ArchiveError,
    unpack,
    verify,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.local_debs import (
    DebsError,
    install,
    missing_packages,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.pyxis_build import Pyxis, PyxisError
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"


def archive(path: Path, **files: str) -> str:
    """Write an archive, and return its checksum."""
    with tarfile.open(path, "w:gz") as stream:
        for name, text in files.items():
            member = tarfile.TarInfo(f"pyxis-1.0/{name}")
            member.size = len(text)
            stream.addfile(member, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Machine:
    """A machine with a Slurm, whose make does what the test says."""

    def __init__(self, slurm: str = "slurm-wlm 24.11.5", make: int = 0, makes: bytes = b"plugin") -> None:
        self.slurm, self.make, self.makes = slurm, make, makes
        self.calls: list[list[str]] = []

    def run(self, argv: list[str], timeout: float) -> Outcome:
        self.calls.append(argv)
        if argv[0] == "srun":
            return Outcome(0 if self.slurm else 127, self.slurm, "")
        if self.make:
            return Outcome(
                self.make, "", "cc -c x.c\nx.c:3:1: error: unknown type name 'spank_t'\nmake: *** [x.o] Error 1"
            )
        prefix = next(word for word in argv if word.startswith("prefix=")).removeprefix("prefix=")
        stage = next((word for word in argv if word.startswith("DESTDIR=")), "").removeprefix("DESTDIR=")
        if stage and self.makes:
            plugin = Path(f"{stage}{prefix}/lib/slurm/spank_pyxis.so")
            plugin.parent.mkdir(parents=True)
            plugin.write_bytes(self.makes)
        return Outcome(0, "", "")


def pyxis(tmp_path: Path, machine: Machine, number: str = "0x180b05") -> Pyxis:
    header = tmp_path / "slurm_version.h"
    header.write_text(f"#define SLURM_VERSION_NUMBER {number}\n")
    return Pyxis(tmp_path / "state/pyxis.json", tmp_path / "usr", header, machine.run)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    directory = tmp_path / "scratch"
    directory.mkdir()
    return directory


def test_what_was_built_is_on_record(tmp_path: Path, scratch: Path) -> None:
    digest = archive(tmp_path / "p.tar.gz", Makefile="all:")
    one = pyxis(tmp_path, Machine())
    assert not one.is_built(digest)
    sentences.check(SENTENCES, "why pyxis is built: no record", [one.why(digest)])
    one.build(tmp_path / "p.tar.gz", digest, scratch)
    assert one.plugin.read_bytes() == b"plugin"
    assert one.is_built(digest)
    assert one.slurm() == one.headers() == "24.11.5"


def test_another_slurm_another_archive_and_another_file_are_built_again(tmp_path: Path, scratch: Path) -> None:
    digest = archive(tmp_path / "p.tar.gz", Makefile="all:")
    machine = Machine()
    one = pyxis(tmp_path, machine)
    one.build(tmp_path / "p.tar.gz", digest, scratch)
    assert not one.is_built("0" * 64)
    archive_differs = one.why("0" * 64)
    machine.slurm = "slurm 25.05.1"
    assert not one.is_built(digest)
    slurm_differs = one.why(digest)
    assert all(release in slurm_differs for release in ("24.11.5", "25.05.1"))
    machine.slurm = "slurm 24.11.5"
    one.plugin.write_bytes(b"by hand")
    assert not one.is_built(digest)
    file_differs = one.why(digest)
    assert str(one.plugin) in file_differs
    said = [text.replace(str(tmp_path), "") for text in (archive_differs, slurm_differs, file_differs)]
    sentences.check(SENTENCES, "why pyxis is built: archive, Slurm, file", said)
    one.record.write_text("{")
    assert not one.is_built(digest)


@pytest.mark.parametrize(
    ("case", "machine", "number", "values"),
    [
        ("no Slurm", Machine(slurm=""), "0x180b05", "srun --version"),
        ("headers of another release", Machine(), "0x160508", r"24\.11\.5.*22\.05\.8"),
        ("no headers", Machine(), "unknown", r"24\.11\.5.*slurm_version\.h"),
        ("make fails", Machine(make=2), "0x180b05", r"24\.11\.5 \(make.* 2\).*\n.*unknown type name"),
        ("make makes nothing", Machine(makes=b""), "0x180b05", r"`make install`.*/lib/slurm/spank_pyxis\.so"),
    ],
)
def test_what_fails_leaves_the_plugin_that_was_there(
    tmp_path: Path, scratch: Path, case: str, machine: Machine, number: str, values: str
) -> None:
    digest = archive(tmp_path / "p.tar.gz", Makefile="all:")
    one = pyxis(tmp_path, machine, number)
    one.plugin.parent.mkdir(parents=True)
    one.plugin.write_bytes(b"old")
    with pytest.raises(PyxisError, match=values) as caught:
        one.build(tmp_path / "p.tar.gz", digest, scratch)
    sentences.check(
        SENTENCES, f"pyxis is not built: {case}", [str(caught.value).replace(str(tmp_path).lstrip("/"), "")]
    )
    assert one.plugin.read_bytes() == b"old"
    assert not one.is_built(digest)


def test_an_archive_of_another_checksum_is_not_unpacked(tmp_path: Path, scratch: Path) -> None:
    digest = archive(tmp_path / "p.tar.gz", Makefile="all:")
    with pytest.raises(PyxisError, match=rf"p\.tar\.gz has SHA-256 {digest}, not {'0' * 64}") as caught:
        pyxis(tmp_path, Machine()).build(tmp_path / "p.tar.gz", "0" * 64, scratch)
    assert list(scratch.iterdir()) == []
    said = str(caught.value).replace(str(tmp_path), "").replace(digest, "DIGEST")
    sentences.check(SENTENCES, "an archive of another checksum", [said])


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, link
    return found


@pytest.mark.parametrize("python", ["with-filter", "without-filter"])
@pytest.mark.parametrize(
    "one",
    [
        member("../x"),
        member("/etc/x"),
        member("a/../../x"),
        # Behind a link to a directory above, which the name does not show.
        member("a/../x"),
        member("a/link", tarfile.SYMTYPE, "../../etc"),
        member("a/link", tarfile.SYMTYPE, "/etc"),
        member("a/hard", tarfile.LNKTYPE, "../x"),
        member("a/null", tarfile.CHRTYPE),
        member("a/pipe", tarfile.FIFOTYPE),
    ],
    ids=[
        "above",
        "absolute",
        "above-later",
        "above-and-back",
        "link-above",
        "link-absolute",
        "hard-link",
        "device",
        "pipe",
    ],
)
def test_no_member_lands_elsewhere(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, one: tarfile.TarInfo, python: str
) -> None:
    if python == "without-filter":
        # Nodes may have a Python of before tarfile's own check.
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    with tarfile.open(tmp_path / "x.tar", "w") as stream:
        stream.addfile(one)
    with pytest.raises(ArchiveError, match=r"x\.tar"):
        unpack(tmp_path / "x.tar", scratch)
    assert list(scratch.iterdir()) == []


def test_sources_are_unpacked_without_their_owners(tmp_path: Path, scratch: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as stream:
        for one in (member("src/run"), member("src/link", tarfile.SYMTYPE, "run")):
            one.mode, one.uid = 0o4777, 4711
            stream.addfile(one)
    found = unpack(tmp_path / "x.tar", scratch)
    assert found == scratch / "src"
    assert (found / "run").stat().st_mode & 0o7777 == 0o755
    assert (found / "run").stat().st_uid == os.getuid()
    assert (found / "link").readlink() == Path("run")


def test_what_is_no_archive_says_so(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "x").write_text("<html>")
    with pytest.raises(ArchiveError, match="tar archive"):
        unpack(tmp_path / "x", scratch)
    with pytest.raises(ArchiveError, match="No such file"):
        verify(tmp_path / "none", "0" * 64)


class Dpkg:
    """A machine with packages, and files of packages."""

    def __init__(self, installed: str, apt: int = 0) -> None:
        self.installed, self.apt = installed, apt
        self.calls: list[list[str]] = []

    def run(self, argv: list[str], timeout: float) -> Outcome:
        self.calls.append(argv)
        if argv[0] == "dpkg-deb":
            return (
                Outcome(0, "enroot\t4.1.2-1", "")
                if argv[-1].endswith("enroot.deb")
                else Outcome(2, "", "not a package")
            )
        if argv[0] == "dpkg-query":
            return Outcome(0, self.installed, "")
        return Outcome(self.apt, "", "E: Unable to correct problems")


@pytest.mark.parametrize(
    ("installed", "lacks"),
    [
        ("installed 4.1.2-1", []),
        ("installed 4.0.0-1", ["enroot=4.1.2-1"]),
        ("config-files 4.1.2-1", ["enroot=4.1.2-1"]),
    ],
)
def test_packages_of_files_are_compared_with_those_that_are_installed(
    tmp_path: Path, installed: str, lacks: list[str]
) -> None:
    path = tmp_path / "enroot.deb"
    path.write_bytes(b"deb")
    assert missing_packages([(path, hashlib.sha256(b"deb").hexdigest())], Dpkg(installed).run) == lacks


def test_a_package_of_another_checksum_is_not_looked_into(tmp_path: Path) -> None:
    (tmp_path / "enroot.deb").write_bytes(b"deb")
    dpkg = Dpkg("")
    with pytest.raises(ArchiveError, match="has SHA-256"):
        missing_packages([(tmp_path / "enroot.deb", "0" * 64)], dpkg.run)
    assert dpkg.calls == []


def test_what_apt_or_dpkg_refuse_is_said(tmp_path: Path) -> None:
    with pytest.raises(DebsError, match=r"enroot\.deb: E: Unable") as refused:
        install([Path("/a/enroot.deb")], Dpkg("", apt=100).run)
    (tmp_path / "x.deb").write_bytes(b"deb")
    with pytest.raises(DebsError, match=r"x\.deb .*: not a package") as unread:
        missing_packages([(tmp_path / "x.deb", hashlib.sha256(b"deb").hexdigest())], Dpkg("").run)
    said = [refused.value, str(unread.value).replace(str(tmp_path), "")]
    sentences.check(SENTENCES, "packages that apt or dpkg refuse", said)
