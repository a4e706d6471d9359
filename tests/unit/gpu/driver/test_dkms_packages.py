"""dnf fetches and unpacks the package of a module; test_dkms_build.py has apt, molecule/gpu_dnf the real dnf."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome, run
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_build import DkmsError, Prover
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_packages import DNF, PackageError
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_record import CompiledModule
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

KERNEL = "5.14.0-1.el9.x86_64"
PROOF = CompiledModule({"kmod-toy": "3:1.0-*"}, "", "1.0", KERNEL, "5.14.0-1.el9")


class Fetching:
    """A dnf that fetches as many files as the test says, and an rpm."""

    def __init__(self, files: int = 1, code: int = 0) -> None:
        self.files, self.code = files, code
        self.calls: list[list[str]] = []

    def run(self, argv: list[str], timeout: float) -> Outcome:
        self.calls.append(argv)
        if argv[0] == "rpm":
            return (
                Outcome(0, "installed 5.14.0-1.el9", "") if argv[-1] == f"kernel-devel-{KERNEL}" else Outcome(1, "", "")
            )
        if "dnf" in argv[2]:
            for number in range(self.files):
                (Path(argv[-2]) / f"toy-{number}.rpm").touch()
            return Outcome(self.code, "", "No package kmod-toy-3:1.0-* available.")
        return Outcome(self.code, "", "argument is not an RPM package")


def test_only_repositories_whose_list_is_signed_are_asked_and_no_lock_counts(tmp_path: Path) -> None:
    machine = Fetching()
    assert DNF.fetched("kmod-toy", "3:1.0-*", tmp_path, machine.run) == tmp_path / "unpacked"
    fetch = machine.calls[0]
    assert fetch[-1] == "kmod-toy-3:1.0-*"
    for words in ('--disablerepo="*" --enablerepo="bedplate-*"', "repo_gpgcheck=1", "--disableplugin=versionlock"):
        assert words in fetch[2]


@pytest.mark.parametrize(
    ("case", "machine", "values"),
    [
        ("dnf fails", Fetching(code=1), r"kmod-toy-3:1\.0-\* .*: No package"),
        ("two packages", Fetching(files=2), r"kmod-toy-3:1\.0-\*: 2 "),
        ("no package", Fetching(files=0), r"kmod-toy-3:1\.0-\*: 0 "),
    ],
)
def test_a_package_that_is_not_had_is_told(tmp_path: Path, case: str, machine: Fetching, values: str) -> None:
    with pytest.raises(PackageError, match=values) as caught:
        DNF.fetched("kmod-toy", "3:1.0-*", tmp_path, machine.run)
    sentences.check(SENTENCES, f"a kmod that is not fetched: {case}", [caught.value])
    record = Prover(tmp_path / "dkms.json", machine.run, packages=DNF)
    with pytest.raises(DkmsError, match=values):
        record.prove([PROOF], tmp_path)
    assert not record.record.find(PROOF)


def test_headers_are_those_of_the_kernels_own_package(tmp_path: Path) -> None:
    (tmp_path / "lib/modules" / KERNEL / "build").mkdir(parents=True)
    prover = Prover(tmp_path / "dkms.json", Fetching().run, tmp_path, packages=DNF)
    assert prover.headers_of(KERNEL) == "5.14.0-1.el9"
    with pytest.raises(DkmsError, match=r"install kernel-devel-5\.14\.0-2\.el9\.x86_64") as caught:
        prover.headers_of("5.14.0-2.el9.x86_64")
    sentences.check(SENTENCES, "no headers on EL", [str(caught.value).replace(str(tmp_path), "")])


@pytest.mark.tools("rpmbuild", "rpm2cpio", "cpio")
def test_a_real_rpm_is_unpacked_and_a_broken_one_is_told(tmp_path: Path) -> None:
    (tmp_path / "toy.spec").write_text(
        "Name: toy\nVersion: 1\nRelease: 1\nSummary: toy\nLicense: GPL\n%description\ntoy\n%install\n"
        "mkdir -p %{buildroot}/usr/src/toy-1\ntouch %{buildroot}/usr/src/toy-1/dkms.conf\n%files\n/usr/src/toy-1\n"
    )
    build = ["rpmbuild", "-bb", "--quiet", "--nodeps", "--define", f"_topdir {tmp_path}", str(tmp_path / "toy.spec")]
    subprocess.run(build, check=True, capture_output=True, timeout=60)
    (built,) = tmp_path.rglob("*.rpm")
    into = tmp_path / "into"
    into.mkdir()
    assert run([*DNF.unpack, str(built), str(into)]).code == 0
    assert (into / "usr/src/toy-1/dkms.conf").exists()
    built.write_bytes(built.read_bytes()[:-40])
    assert run([*DNF.unpack, str(built), str(into)]).code != 0
