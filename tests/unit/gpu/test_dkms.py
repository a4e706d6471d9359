"""A kernel module is proven before its package is installed; molecule/gpu_driver proves one with the real DKMS."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.dkms import (
    DkmsError,
    Proof,
    Prover,
    first_error,
    kernels,
    next_kernel,
    see_that_it_boots,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.node_command import Outcome

PROOF = Proof("toy-dkms", "1.0-1", "toy", "1.0", "6.1.0-56-amd64", "6.1.192-2")
LOG = """\
make[1]: Entering directory '/usr/src/linux-headers-6.1.0-56-amd64'
  CC [M]  {build}/nv-pci.o
{build}/nv-pci.c:223:9: error: too few arguments to function 'pci_resize_resource'
{build}/nv-pci.c:224:9: error: and another
make[2]: *** [nv-pci.o] Error 1
"""


class Machine:
    """A machine whose apt, dpkg-deb and dkms do what the test says."""

    def __init__(self, *, sources: str = "toy-1.0", build: int | None = 0, makes: bool = True, fetch: int = 0) -> None:
        self.sources, self.build, self.makes, self.fetch = sources, build, makes, fetch
        self.outdated = False
        self.calls: list[list[str]] = []

    def run(self, argv: list[str], timeout: float) -> Outcome:
        self.calls.append(argv)
        if argv[0] == "sh":
            if self.fetch:
                return Outcome(self.fetch, "", "E: Version '1.0-1' for 'toy-dkms' was not found")
            (Path(argv[-2]) / "toy-dkms_1.0-1_all.deb").touch()
        elif argv[0] == "dpkg-deb":
            source = Path(argv[-1]) / "usr/src" / self.sources
            source.mkdir(parents=True)
            (source / "dkms.conf").touch()
        elif argv[:2] == ["dkms", "build"]:
            tree = Path(argv[argv.index("--dkmstree") + 1]) / "toy/1.0"
            made = tree / PROOF.kernel / platform.machine() / "module"
            made.mkdir(parents=True)
            if self.makes:
                (made / "toy.ko.xz").touch()
            (tree / "build").mkdir()
            (tree / "build/make.log").write_text(LOG.format(build=tree / "build"))
            return Outcome(self.build, "", "Error! Bad return status for module build")
        return Outcome(0, "6.1.192-2", "")


def prover(tmp_path: Path, machine: Machine) -> Prover:
    build = tmp_path / "modules" / PROOF.kernel / "build"
    build.mkdir(parents=True, exist_ok=True)
    return Prover(tmp_path / "state/dkms.json", machine.run, tmp_path / "modules", lambda: machine.outdated)


def test_apt_reads_a_repository_that_has_just_come(tmp_path: Path) -> None:
    machine = Machine()
    machine.outdated = True
    prover(tmp_path, machine).prove(PROOF, tmp_path)
    assert machine.calls[0][:3] == ["apt-get", "--quiet", "update"]
    assert machine.calls[1][0] == "sh"


def test_what_compiles_is_on_record_and_nothing_is_left(tmp_path: Path) -> None:
    machine = Machine()
    one = prover(tmp_path, machine)
    (tmp_path / "scratch").mkdir()
    assert not one.is_proven(PROOF)
    one.prove(PROOF, tmp_path / "scratch")
    assert one.is_proven(PROOF)
    assert list((tmp_path / "scratch").iterdir()) == []
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["dkms.json"]


@pytest.mark.parametrize("field", ["version", "kernel", "headers", "module_version", "package", "name"])
def test_another_package_kernel_or_headers_are_another_proof(tmp_path: Path, field: str) -> None:
    one = prover(tmp_path, Machine())
    one.prove(PROOF, tmp_path)
    assert not one.is_proven(Proof(**{**vars(PROOF), field: "other"}))


def test_dkms_works_in_trees_of_its_own(tmp_path: Path) -> None:
    machine = Machine()
    prover(tmp_path, machine).prove(PROOF, tmp_path / ".")
    calls = [call for call in machine.calls if call[0] == "dkms"]
    assert [call[1] for call in calls] == ["add", "build"]
    for call in calls:
        for tree in ("--dkmstree", "--sourcetree"):
            assert call[call.index(tree) + 1].startswith(str(tmp_path))


def test_what_does_not_compile_is_told_with_the_first_error_and_is_no_proof(tmp_path: Path) -> None:
    one = prover(tmp_path, Machine(build=10, makes=False))
    with pytest.raises(DkmsError) as caught:
        one.prove(PROOF, tmp_path)
    text = str(caught.value)
    assert "toy 1.0 does not compile for kernel 6.1.0-56-amd64 (dkms build ended with 10):\n" in text
    assert "\n  nv-pci.c:223:9: error: too few arguments to function 'pci_resize_resource'\n" in text
    assert "Nothing was installed and nothing is rebooted" in text
    assert not one.is_proven(PROOF)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("code", [0, 77])
def test_a_kernel_that_dkms_passes_over_is_no_proof(tmp_path: Path, code: int) -> None:
    with pytest.raises(DkmsError, match=r"is not for kernel 6.1.0-56-amd64, says its dkms.conf"):
        prover(tmp_path, Machine(build=code, makes=False)).prove(PROOF, tmp_path)


def test_a_compiler_that_does_not_end_is_no_proof(tmp_path: Path) -> None:
    with pytest.raises(DkmsError, match="did not end"):
        prover(tmp_path, Machine(build=None, makes=False)).prove(PROOF, tmp_path)


def test_a_package_that_is_not_there_and_one_of_another_module_are_told(tmp_path: Path) -> None:
    with pytest.raises(DkmsError, match=r"toy-dkms=1.0-1 cannot be fetched: E: Version '1.0-1' .* was not found"):
        prover(tmp_path, Machine(fetch=100)).prove(PROOF, tmp_path)
    with pytest.raises(DkmsError, match=r"no sources of toy-1.0 for DKMS; it has toy-2.0"):
        prover(tmp_path, Machine(sources="toy-2.0")).prove(PROOF, tmp_path)


def test_headers_that_are_not_there_are_told_with_their_package(tmp_path: Path) -> None:
    one = prover(tmp_path, Machine())
    assert one.headers_of(PROOF.kernel) == "6.1.192-2"
    with pytest.raises(DkmsError, match=r"install linux-headers-6\.1\.0-50-amd64"):
        one.headers_of("6.1.0-50-amd64")


def test_a_record_that_cannot_be_read_proves_nothing_and_is_made_anew(tmp_path: Path) -> None:
    one = prover(tmp_path, Machine())
    one.record.parent.mkdir()
    for broken in ("", "{", "7", "{}"):
        one.record.write_text(broken)
        assert not one.is_proven(PROOF)
    one.prove(PROOF, tmp_path)
    assert len(json.loads(one.record.read_text())) == 1


def test_the_next_kernel_is_the_newest_unless_grub_was_told_otherwise(tmp_path: Path) -> None:
    boot, grub = tmp_path / "boot", tmp_path / "grub"
    boot.mkdir()
    with pytest.raises(DkmsError, match="state `kernel`"):
        next_kernel(boot, grub)
    for release in ("6.1.0-9-amd64", "6.1.0-56-amd64", "6.1.0-50-amd64", "5.10.0-99-amd64"):
        (boot / f"vmlinuz-{release}").touch()
    (boot / "vmlinuz.old").touch()
    assert kernels(boot)[-2:] == ["6.1.0-50-amd64", "6.1.0-56-amd64"]
    for text in ("", "GRUB_DEFAULT=0\n", "#GRUB_DEFAULT=2\n"):
        grub.write_text(text)
        assert next_kernel(boot, grub) == "6.1.0-56-amd64"
    for chosen in ("saved", '"1>2"', "2"):
        grub.write_text(f"GRUB_TIMEOUT=1\nGRUB_DEFAULT={chosen}\n")
        with pytest.raises(DkmsError, match=r"need not boot next: state `kernel`, one of .*6.1.0-50-amd64"):
            next_kernel(boot, grub)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("a.c:1: warning: x\nfatal error: nv.h: No such file", "fatal error: nv.h: No such file"),
        ("make: *** [all] Error 2", "make: *** [all] Error 2"),
        ("something else\nlast", "last"),
        ("", "nothing was said"),
    ],
)
def test_the_line_that_says_most(log: str, expected: str) -> None:
    assert first_error(log) == expected


def test_a_stated_kernel_that_would_not_boot_is_told(tmp_path: Path) -> None:
    boot, grub = tmp_path / "boot", tmp_path / "grub"
    boot.mkdir()
    for release in ("6.1.0-55-amd64", "6.1.0-56-amd64"):
        (boot / f"vmlinuz-{release}").touch()
    see_that_it_boots("6.1.0-56-amd64", boot, grub)
    with pytest.raises(DkmsError, match=r"6\.1\.0-55-amd64 is stated, and 6\.1\.0-56-amd64 boots next"):
        see_that_it_boots("6.1.0-55-amd64", boot, grub)
    # Where somebody chose one, the statement is all that there is.
    grub.write_text("GRUB_DEFAULT=saved\n")
    see_that_it_boots("6.1.0-55-amd64", boot, grub)
