"""A kernel module is proven before its package is installed; molecule/gpu_driver proves one with the real DKMS."""

from __future__ import annotations

import json
import platform
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver import dkms_guards, dkms_steps
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_build import (
    DkmsError,
    Prover,
    first_error,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_modules import DkmsModule
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_packages import MANAGERS
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_record import CompiledModule
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_steps import pending, work
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.next_kernel import BootError
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

PROOF = CompiledModule({"toy-dkms": "1.0-1"}, "", "1.0", "6.1.0-56-amd64", "6.1.192-2")
TOY = DkmsModule("toy", "1.0", is_driver=True)
CONF = 'PACKAGE_NAME="{name}"\nPACKAGE_VERSION="{version}"\nBUILT_MODULE_NAME[0]="{built}"\n'
RUNNING = "6.1.0-50-amd64"
LOG = """\
make[1]: Entering directory '/usr/src/linux-headers-6.1.0-56-amd64'
  CC [M]  {build}/nv-pci.o
{build}/nv-pci.c:223:9: error: too few arguments to function 'pci_resize_resource'
{build}/nv-pci.c:224:9: error: and another
make[2]: *** [nv-pci.o] Error 1
"""


def write_conf(source: Path, built: str = "nvidia", more: str = "") -> None:
    source.mkdir(parents=True, exist_ok=True)
    name, _dash, version = source.name.rpartition("-")
    (source / "dkms.conf").write_text(CONF.format(name=name, version=version, built=built) + more)


class Machine:
    """A machine whose apt, dpkg-deb and dkms do what the test says."""

    def __init__(self, *, sources: str = "toy-1.0", build: int | None = 0, makes: bool = True, fetch: int = 0) -> None:
        self.sources, self.build, self.makes, self.fetch = sources, build, makes, fetch
        self.outdated = False
        # Whether the lists have the version only after they were read again.
        self.new_version = False
        self.state, self.status, self.install, self.headers = "installed", "", 0, 0
        self.kept_still: list[str] = []
        self.broken: tuple[str, ...] = ()
        self.calls: list[list[str]] = []

    def run(self, argv: list[str], timeout: float) -> Outcome:
        self.calls.append(argv)
        if argv[0] == "sh":
            if self.fetch or (self.new_version and not any("update" in call for call in self.calls)):
                return Outcome(self.fetch, "", "E: Version '1.0-1' for 'toy-dkms' was not found")
            (Path(argv[-2]) / "toy-dkms_1.0-1_all.deb").touch()
        elif argv[0] == "dpkg-deb":
            source = Path(argv[-1]) / "usr/src" / self.sources
            source.mkdir(parents=True, exist_ok=True)
            write_conf(source)
        elif "build" in argv:
            tree, name, version, kernel = (argv[argv.index(one) + 1] for one in ("--dkmstree", "-m", "-v", "-k"))
            folder = Path(tree) / name / version
            made = folder / kernel / platform.machine() / "module"
            made.mkdir(parents=True)
            code = self.build if name not in self.broken else 10
            if self.makes and code == 0:
                (made / "toy.ko.xz").touch()
            (folder / "build").mkdir()
            (folder / "build/make.log").write_text(LOG.format(build=folder / "build"))
            return Outcome(code, "", "Error! Bad return status for module build")
        elif argv[:2] == ["dkms", "status"]:
            return Outcome(0, self.status, "")
        elif argv[:2] == ["dkms", "install"]:
            return Outcome(self.install, "", "nv.c:1:1: error: no such thing")
        elif "install" in argv:
            # As the hook of DKMS for headers: it builds what is installed, unless it is told not to.
            self.kept_still = [
                path.read_text() for path in self.build_directory.parents[3].glob("etc/dkms/no-autoinstall")
            ]
            self.build_directory.mkdir(exist_ok=True)
            return Outcome(self.headers, "", "E: nothing of that name")
        return Outcome(0, f"{self.state} 6.1.192-2", "")


def prover(tmp_path: Path, machine: Machine) -> Prover:
    machine.build_directory = tmp_path / "lib/modules" / PROOF.kernel / "build"
    machine.build_directory.mkdir(parents=True, exist_ok=True)
    return Prover(tmp_path / "state/dkms.json", machine.run, tmp_path, RUNNING, lambda: machine.outdated)


def test_apt_reads_a_repository_that_has_just_come(tmp_path: Path) -> None:
    machine = Machine()
    machine.outdated = True
    prover(tmp_path, machine).prove([PROOF], tmp_path)
    # A repository that fails is an error there, and no reason to go by its older lists.
    assert machine.calls[0] == ["apt-get", "--quiet", "update", "--error-on=any"]
    assert machine.calls[1][0] == "sh"


def test_lists_that_are_older_than_the_version_are_read_again_once(tmp_path: Path) -> None:
    machine = Machine()
    machine.new_version = True
    one = prover(tmp_path, machine)
    one.prove([PROOF], tmp_path)
    assert one.record.find(PROOF)
    assert [argv[0] for argv in machine.calls[:3]] == ["sh", "apt-get", "sh"]


def test_a_version_that_no_repository_has_is_an_error_after_one_more_look(tmp_path: Path) -> None:
    machine = Machine(fetch=100)
    with pytest.raises(DkmsError, match="cannot be fetched: E: Version"):
        prover(tmp_path, machine).prove([PROOF], tmp_path)
    assert [argv[0] for argv in machine.calls] == ["sh", "apt-get", "sh"]


@pytest.mark.parametrize(("manager", "calls"), [("apt", ["apt-get", "sh"]), ("dnf", ["sh"])])
def test_lists_that_were_just_read_are_not_read_again(tmp_path: Path, manager: str, calls: list[str]) -> None:
    machine = Machine(fetch=100)
    machine.outdated = True
    one = prover(tmp_path, machine)
    one.packages = MANAGERS[manager]
    with pytest.raises(DkmsError, match="E: Version"):
        one.prove([PROOF], tmp_path)
    assert [argv[0] for argv in machine.calls] == calls


def test_what_compiles_is_on_record_and_nothing_is_left(tmp_path: Path) -> None:
    machine = Machine()
    one = prover(tmp_path, machine)
    (tmp_path / "scratch").mkdir()
    assert not one.record.find(PROOF)
    one.prove([PROOF], tmp_path / "scratch")
    assert one.record.find(PROOF)
    assert list((tmp_path / "scratch").iterdir()) == []
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["dkms.json"]


@pytest.mark.parametrize(
    "other",
    [
        {"packages": {"toy-dkms": "1.0-2"}},
        {"packages": {"toy-dkms": "1.0-1", "toy-source": "1.0-1"}},
        {"kernel": "other"},
        {"headers": "other"},
        {"module_version": "other"},
        {"name": "other"},
    ],
)
def test_another_package_kernel_or_headers_are_another_proof(tmp_path: Path, other: dict[str, Any]) -> None:
    one = prover(tmp_path, Machine())
    one.prove([PROOF], tmp_path)
    assert one.record.find(replace(PROOF, name="toy"))
    assert not one.record.find(replace(PROOF, **other))


@pytest.mark.parametrize(("version", "expected"), [("1.0-1", True), ("1.0-2", False)])
def test_a_proof_of_release_0_1_counts(tmp_path: Path, version: str, expected: bool) -> None:
    """Otherwise an update of bedplate compiles the driver of every node again."""
    one = prover(tmp_path, Machine())
    old = {"package": "toy-dkms", "version": version, "name": "toy", "module_version": "1.0"}
    one.record.path.parent.mkdir()
    one.record.path.write_text(json.dumps([{**old, "kernel": PROOF.kernel, "headers": PROOF.headers}]))
    assert bool(one.record.find(PROOF)) == expected


def test_dkms_works_in_trees_of_its_own(tmp_path: Path) -> None:
    machine = Machine()
    prover(tmp_path, machine).prove([PROOF], tmp_path / ".")
    calls = [call for call in machine.calls if call[0] == "dkms"]
    assert [call[1] for call in calls] == ["add", "build"]
    for call in calls:
        for tree in ("--dkmstree", "--sourcetree"):
            assert call[call.index(tree) + 1].startswith(str(tmp_path))


def test_what_does_not_compile_is_told_with_the_first_error_and_is_no_proof(tmp_path: Path) -> None:
    one = prover(tmp_path, Machine(build=10, makes=False))
    with pytest.raises(DkmsError) as caught:
        one.prove([PROOF], tmp_path)
    head, error, *_advice = str(caught.value).splitlines()
    assert all(value in head for value in ("toy 1.0", PROOF.kernel, "dkms build", " 10"))
    assert error.strip() == LOG.splitlines()[2].removeprefix("{build}/")
    sentences.check(SENTENCES, "a module that does not compile", [caught.value])
    assert not one.record.find(PROOF)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("code", [0, 77])
def test_a_kernel_that_dkms_passes_over_is_no_proof(tmp_path: Path, code: int) -> None:
    with pytest.raises(DkmsError, match=r"6\.1\.0-56-amd64.*dkms\.conf \(BUILD_EXCLUSIVE\)") as caught:
        prover(tmp_path, Machine(build=code, makes=False)).prove([PROOF], tmp_path)
    sentences.check(SENTENCES, "a kernel that dkms passes over", [caught.value])


def test_a_compiler_that_does_not_end_is_no_proof(tmp_path: Path) -> None:
    one = prover(tmp_path, Machine(build=None, makes=False))
    with pytest.raises(DkmsError, match=r"toy 1\.0 .*6\.1\.0-56-amd64 \(dkms build ") as caught:
        one.prove([PROOF], tmp_path)
    assert not one.record.find(PROOF)
    sentences.check(SENTENCES, "a compiler that does not end", str(caught.value).splitlines()[:1])


def test_a_package_that_is_not_there_and_one_of_another_module_are_told(tmp_path: Path) -> None:
    with pytest.raises(DkmsError, match=r"toy-dkms=1\.0-1 .*E: Version '1\.0-1'") as missing:
        prover(tmp_path, Machine(fetch=100)).prove([PROOF], tmp_path)
    with pytest.raises(DkmsError, match=r"toy-dkms=1\.0-1: .* 1\.0 .*toy-2\.0") as other:
        prover(tmp_path, Machine(sources="toy-2.0")).prove([PROOF], tmp_path)
    sentences.check(SENTENCES, "a package that is not there and one of another module", [missing.value, other.value])


class WithTwo(Machine):
    """A machine whose package has the sources of two modules of one version."""

    def run(self, argv: list[str], timeout: float) -> Outcome:
        if argv[0] == "dpkg-deb":
            write_conf(Path(argv[-1]) / "usr/src/other-1.0", built="other")
        return super().run(argv, timeout)


def test_a_package_with_two_modules_of_the_version_proves_none(tmp_path: Path) -> None:
    machine = WithTwo()
    with pytest.raises(DkmsError, match=r"found other-1\.0, toy-1\.0"):
        prover(tmp_path, machine).prove([PROOF], tmp_path)
    assert not [call for call in machine.calls if "build" in call]


def test_headers_that_are_not_there_are_told_with_their_package(tmp_path: Path) -> None:
    one = prover(tmp_path, Machine())
    assert one.headers_of(PROOF.kernel) == "6.1.192-2"
    with pytest.raises(DkmsError, match=r"install linux-headers-6\.1\.0-50-amd64"):
        one.headers_of("6.1.0-50-amd64")


def test_a_record_that_cannot_be_read_proves_nothing_and_is_made_anew(tmp_path: Path) -> None:
    one = prover(tmp_path, Machine())
    one.record.path.parent.mkdir()
    for broken in ("", "{", "7", "{}"):
        one.record.path.write_text(broken)
        assert not one.record.find(PROOF)
    one.prove([PROOF], tmp_path)
    assert len(json.loads(one.record.path.read_text())) == 1


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("a.c:1: warning: x\nfatal error: nv.h: No such file", "fatal error: nv.h: No such file"),
        ("make: *** [all] Error 2", "make: *** [all] Error 2"),
        ("something else\nlast", "last"),
        ("", "no output"),
    ],
)
def test_the_line_that_says_most(log: str, expected: str) -> None:
    assert first_error(log) == expected


def without_headers(tmp_path: Path, machine: Machine) -> Prover:
    one = prover(tmp_path, machine)
    machine.build_directory.rmdir()
    return one


def test_headers_come_while_dkms_builds_nothing_by_itself(tmp_path: Path) -> None:
    machine = Machine()
    machine.outdated = True
    one = without_headers(tmp_path, machine)
    assert one.lacks_headers(PROOF.kernel)
    one.install_headers(PROOF.kernel)
    assert machine.calls[0][:3] == ["apt-get", "--quiet", "update"]
    assert machine.calls[1][-2:] == ["install", "linux-headers-6.1.0-56-amd64"]
    # Removing or replacing anything is not what it is for.
    assert {"--yes", "--no-remove", "--no-install-recommends"} <= set(machine.calls[1])
    # dkms 3.0 and 3.2 look for this file before they build for a kernel whose headers came.
    assert len(machine.kept_still) == 1
    assert not (tmp_path / "etc/dkms/no-autoinstall").exists()
    assert not one.lacks_headers(PROOF.kernel)


def test_headers_that_cannot_be_had_leave_dkms_as_it_was(tmp_path: Path) -> None:
    machine = Machine()
    machine.headers = 100
    one = without_headers(tmp_path, machine)
    with pytest.raises(DkmsError, match=r"linux-headers-6\.1\.0-56-amd64.*: E: nothing") as caught:
        one.install_headers(PROOF.kernel)
    sentences.check(SENTENCES, "headers that cannot be installed", [caught.value])
    assert not (tmp_path / "etc/dkms/no-autoinstall").exists()


def test_a_site_that_wants_nothing_built_by_itself_keeps_that(tmp_path: Path) -> None:
    file = tmp_path / "etc/dkms/no-autoinstall"
    file.parent.mkdir(parents=True)
    file.write_text("")
    machine = Machine()
    one = without_headers(tmp_path, machine)
    one.install_headers(PROOF.kernel)
    one.clean_up()
    assert file.exists()


def test_what_a_killed_run_has_left_is_taken_away(tmp_path: Path) -> None:
    machine = Machine()
    one = without_headers(tmp_path, machine)
    one.install_headers(PROOF.kernel)
    file = tmp_path / "etc/dkms/no-autoinstall"
    file.write_text(machine.kept_still[0])
    assert one.is_kept_still()
    one.clean_up()
    assert not file.exists()
    assert not one.is_kept_still()


@pytest.mark.parametrize(("state", "lacks"), [("installed", False), ("half-configured", True), ("unpacked", True)])
def test_headers_that_are_half_there_are_installed_to_the_end(tmp_path: Path, state: str, lacks: bool) -> None:
    machine = Machine()
    machine.state = state
    assert prover(tmp_path, machine).lacks_headers(PROOF.kernel) == lacks


def test_on_rpm_headers_set_nothing_off_and_come_with_what_compiles(tmp_path: Path) -> None:
    one = Prover(tmp_path / "state/dkms.json", Machine().run, tmp_path, packages=MANAGERS["dnf"])
    assert not one.lacks_headers(PROOF.kernel)


@pytest.mark.parametrize(
    ("status", "kernel", "source", "expected"),
    [
        ("", True, True, True),
        ("toy/1.0: added", True, True, True),
        ("toy/1.0, 6.1.0-56-amd64, x86_64: installed", True, True, False),
        # Whoever brings the kernel or the driver builds it.
        ("", False, True, False),
        ("", True, False, False),
    ],
)
def test_an_installed_driver_is_built_for_a_kernel_that_it_was_not_built_for(
    tmp_path: Path, status: str, kernel: bool, source: bool, expected: bool
) -> None:
    machine = Machine()
    machine.status = status
    one = prover(tmp_path, machine)
    for path, there in (("boot/vmlinuz-6.1.0-56-amd64", kernel), ("usr/src/toy-1.0/dkms.conf", source)):
        if there:
            (tmp_path / path).parent.mkdir(parents=True)
            (tmp_path / path).touch()
    if source:
        write_conf(tmp_path / "usr/src/toy-1.0")
    assert one.left_out(PROOF) == ([TOY] if expected else [])
    one.build(TOY, PROOF.kernel)
    assert machine.calls[-1] == ["dkms", "install", "-m", "toy", "-v", "1.0", "-k", "6.1.0-56-amd64"]
    machine.install = 10
    with pytest.raises(
        DkmsError, match=r"(?s)toy 1\.0.*6\.1\.0-56-amd64:.*nv\.c:1:1: error: .*/toy/1\.0/build/make\.log"
    ) as caught:
        one.build(TOY, PROOF.kernel)
    sentences.check(SENTENCES, "an installed driver that DKMS does not build", [caught.value])


@pytest.mark.parametrize("build", [0, 10])
def test_on_rpm_headers_are_found_before_the_kernel_has_come(tmp_path: Path, build: int) -> None:
    seen: list[bool] = []

    class Compiling(Machine):
        def run(self, argv: list[str], timeout: float) -> Outcome:
            if argv[:2] == ["dkms", "build"]:
                seen.append((tmp_path / f"lib/modules/{PROOF.kernel}/build/Makefile").exists())
            if argv[0] == "sh" and argv[-1] == "toy-dkms-1.0-1":
                (Path(argv[-2]) / "toy.rpm").touch()
                return Outcome(0, "", "")
            if argv[0] == "sh":
                argv = ["dpkg-deb", argv[-1]]
            return super().run(argv, timeout)

    one = Prover(
        tmp_path / "state/dkms.json", Compiling(build=build, makes=not build).run, tmp_path, packages=MANAGERS["dnf"]
    )
    assert not one.has_headers(PROOF.kernel)
    (tmp_path / f"usr/src/kernels/{PROOF.kernel}").mkdir(parents=True)
    (tmp_path / f"usr/src/kernels/{PROOF.kernel}/Makefile").touch()
    if build:
        with pytest.raises(DkmsError):
            one.prove([PROOF], tmp_path)
    else:
        one.prove([PROOF], tmp_path)
    assert seen == [True]
    # The kernel's own package brings it.
    assert not (tmp_path / f"lib/modules/{PROOF.kernel}").exists()


def test_the_kernel_that_runs_has_to_go_with_it_where_the_package_builds_for_that_as_well(tmp_path: Path) -> None:
    one = prover(tmp_path, Machine())
    # Without headers the package leaves it out.
    assert one.built_as_well(PROOF) is None
    (tmp_path / f"lib/modules/{RUNNING}/build/include").mkdir(parents=True)
    also = one.built_as_well(PROOF)
    assert also == replace(PROOF, kernel=RUNNING)
    assert one.built_as_well(replace(PROOF, kernel=RUNNING)) is None
    with pytest.raises(
        DkmsError,
        match=r"(?s)6\.1\.0-50-amd64 .*kernel 6\.1\.0-56-amd64, .*apt-get remove linux-headers-6\.1\.0-50-amd64",
    ) as caught:
        prover(tmp_path, Machine(build=10, makes=False)).prove_as_well(also, PROOF.kernel, tmp_path)
    sentences.check(
        SENTENCES, "a driver that does not compile for the kernel that runs", str(caught.value).splitlines()[-1:]
    )
    # It is installed, and nothing more is built for that one.
    write_conf(tmp_path / "usr/src/toy-1.0")
    assert one.built_as_well(PROOF) is None


def test_modules_beside_the_driver_compile_for_the_running_kernel_where_their_packages_build_for_it(
    tmp_path: Path,
) -> None:
    one = prover(tmp_path, Machine())
    further = [replace(PROOF, packages={f"{name}-dkms": "2"}, name=name, module_version="2") for name in ("fs", "peer")]
    assert one.further_as_well(PROOF, further) == []
    (tmp_path / f"lib/modules/{RUNNING}/build/include").mkdir(parents=True)
    assert one.further_as_well(PROOF, further) == [replace(each, kernel=RUNNING) for each in further]
    assert one.further_as_well(replace(PROOF, kernel=RUNNING), further) == []
    write_conf(tmp_path / "usr/src/fs-1", built="fs")
    assert [each.name for each in one.further_as_well(PROOF, further)] == ["peer"]
    # dnf installs no headers, and DKMS builds for the next kernel when that boots.
    one.packages = MANAGERS["dnf"]
    assert one.further_as_well(PROOF, further) == []


def test_other_modules_of_the_running_kernel_are_not_read_where_it_boots_next(tmp_path: Path) -> None:
    machine = Machine()
    assert prover(tmp_path, machine).others(replace(PROOF, kernel=RUNNING)) == []
    assert machine.calls == []


ASKED = {"packages": PROOF.packages, "module_version": "1.0", "compile": True}


def reads(machine: Machine) -> bool:
    """Tell whether nothing but questions were asked."""
    return all(call[0] == "dpkg-query" or call[:2] == ["dkms", "status"] for call in machine.calls)


def test_a_run_compiles_for_the_running_kernel_and_check_mode_predicts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dkms_steps, "SCRATCH", tmp_path)
    machine = Machine()
    one = prover(tmp_path, machine)
    (tmp_path / f"lib/modules/{RUNNING}/build/include").mkdir(parents=True)
    also = replace(PROOF, kernel=RUNNING)
    predicted = work(one, ASKED, PROOF.kernel, check=True)
    assert [RUNNING in text for text in predicted] == [False, True]
    assert (one.record.find(also), reads(machine)) == (None, True)
    assert len(work(one, ASKED, PROOF.kernel, check=False)) == 2
    assert one.record.find(also)
    assert [call[call.index("-k") + 1] for call in machine.calls if "build" in call] == [PROOF.kernel, RUNNING]


@pytest.mark.parametrize("check", [True, False])
def test_a_run_resumes_dkms_that_a_killed_one_has_paused_and_check_mode_does_not(tmp_path: Path, check: bool) -> None:
    one = prover(tmp_path, Machine())
    one.no_autoinstall.parent.mkdir(parents=True)
    one.no_autoinstall.write_text(dkms_guards._OURS)
    work(one, {**ASKED, "compile": False}, PROOF.kernel, check=check)
    assert one.no_autoinstall.exists() is check


def test_check_mode_predicts_headers_that_dnf_installs_with_the_kernel(tmp_path: Path) -> None:
    machine = Machine()
    one = Prover(tmp_path / "state/dkms.json", machine.run, tmp_path, RUNNING, packages=MANAGERS["dnf"])
    (text,) = work(one, ASKED, PROOF.kernel, check=True)
    assert "headers are not installed yet" in text
    assert machine.calls == []
    with pytest.raises(DkmsError, match="install kernel-devel"):
        work(one, ASKED, PROOF.kernel, check=False)


def test_check_mode_says_what_a_run_does_and_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dkms_steps, "SCRATCH", tmp_path)
    machine = Machine()
    one = without_headers(tmp_path, machine)
    (headers,) = work(one, ASKED, PROOF.kernel, check=True)
    assert "headers" in headers
    assert reads(machine)
    machine.build_directory.mkdir()
    (compiles,) = work(one, ASKED, PROOF.kernel, check=True)
    assert "the driver 1.0" in compiles
    assert reads(machine)
    assert work(one, ASKED, PROOF.kernel, check=False) == ["toy 1.0 compiles"]
    for check in (True, False):
        assert work(one, ASKED, PROOF.kernel, check) == []
    for path in ("boot/vmlinuz-6.1.0-56-amd64", "usr/src/toy-1.0/dkms.conf"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    write_conf(tmp_path / "usr/src/toy-1.0")
    machine.calls.clear()
    (builds,) = work(one, ASKED, PROOF.kernel, check=True)
    assert reads(machine)
    (built,) = work(one, ASKED, PROOF.kernel, check=False)
    assert all("toy 1.0" in text for text in (builds, built))
    assert machine.calls[-1][:2] == ["dkms", "install"]
    sentences.check(SENTENCES, "what check mode says of headers and modules", [headers, compiles, builds, built])


def test_who_wants_nothing_proven_gets_headers_all_the_same(tmp_path: Path) -> None:
    machine = Machine()
    one = without_headers(tmp_path, machine)
    assert work(one, {**ASKED, "compile": False}, PROOF.kernel, check=False) == ["headers installed"]
    assert work(one, {**ASKED, "compile": False}, PROOF.kernel, check=False) == []
    assert not [call for call in machine.calls if call[:2] == ["dkms", "build"]]


def test_who_only_reads_says_what_the_proof_would_do_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine()
    one = prover(tmp_path, machine)
    monkeypatch.setattr(dkms_steps, "SCRATCH", tmp_path)
    monkeypatch.setattr(dkms_steps, "prover_of", lambda asked: one)
    monkeypatch.setattr(dkms_steps, "next_kernel", lambda: PROOF.kernel)
    (compiles,) = pending(ASKED)
    assert "the driver 1.0" in compiles
    assert reads(machine)
    work(one, ASKED, PROOF.kernel, check=False)
    assert pending(ASKED) == []
    # What a killed run has left is for the proof to take away.
    one.no_autoinstall.parent.mkdir(parents=True, exist_ok=True)
    one.no_autoinstall.write_text(dkms_guards._OURS)
    (again,) = pending(ASKED)
    assert "DKMS" in again
    assert one.no_autoinstall.exists()
    sentences.check(SENTENCES, "what a proof would do", [compiles, again])
    one.clean_up()
    # Why it would refuse is no reason to leave it out: it is the proof that then ends the run.
    monkeypatch.setattr(dkms_steps, "next_kernel", nothing_tells)
    assert pending(ASKED) == [NOTHING_TELLS]
    monkeypatch.setattr(dkms_steps, "next_kernel", unreadable)
    assert pending(ASKED) == ["[Errno 13] Permission denied: '/boot/grub/grub.cfg'"]


NOTHING_TELLS = "nothing tells which kernel boots next"


def unreadable() -> str:
    raise PermissionError(13, "Permission denied", "/boot/grub/grub.cfg")


def nothing_tells() -> str:
    raise BootError(NOTHING_TELLS)


FURTHER = {"name": "fs", "packages": {"fs-dkms": "2.0-1"}}


class WithFurther(Machine):
    """A machine whose repositories have a module that is built against the driver, besides the driver."""

    def run(self, argv: list[str], timeout: float) -> Outcome:
        if argv[0] == "sh" and argv[-1] == "fs-dkms=2.0-1":
            self.calls.append(argv)
            (Path(argv[-2]) / "fs-dkms_2.0-1_all.deb").touch()
            return Outcome(0, "", "")
        if argv[0] == "dpkg-deb" and "fs-dkms" in argv[-2]:
            self.calls.append(argv)
            write_conf(Path(argv[-1]) / "usr/src/fs-2.0", built="fs", more='BUILD_DEPENDS[0]="nvidia"\n')
            return Outcome(0, "", "")
        if "build" in argv and argv[argv.index("-m") + 1] == "fs":
            # DKMS 3.2 builds no module whose BUILD_DEPENDS is not installed in its tree.
            tree, kernel = (argv[argv.index(one) + 1] for one in ("--dkmstree", "-k"))
            link = Path(tree) / f"toy/kernel-{kernel}-{platform.machine()}"
            assert link.resolve() == Path(tree) / f"toy/1.0/{kernel}/{platform.machine()}"
        done = super().run(argv, timeout)
        if argv[0] == "dpkg-deb":
            source = Path(argv[-1]) / "usr/src" / self.sources / "nvidia/nv-p2p.c"
            source.parent.mkdir(exist_ok=True)
            source.touch()
        return done

    def builds(self) -> list[tuple[str, str]]:
        """Return (module, kernel) of each build."""
        builds = [call for call in self.calls if "build" in call]
        return [(call[call.index("-m") + 1], call[call.index("-k") + 1]) for call in builds]


def test_a_further_module_is_proven_with_the_sources_of_its_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dkms_steps, "SCRATCH", tmp_path)
    machine, asked = WithFurther(), {**ASKED, "further": [FURTHER]}
    one = prover(tmp_path, machine)
    first, second = work(one, asked, PROOF.kernel, check=True)
    assert ("the driver 1.0" in first, "fs 2.0-1" in second) == (True, True)
    assert machine.builds() == []
    assert work(one, asked, PROOF.kernel, check=False) == ["toy 1.0 compiles", "fs 2.0-1 compiles"]
    assert machine.builds() == [("toy", PROOF.kernel), ("fs", PROOF.kernel)]
    # The sources of this driver, not those in /usr/src.
    of_driver, of_fs = (call for call in machine.calls if "build" in call)
    assert of_driver[0] == "dkms"
    assert of_fs[0] == "env"
    assert re.fullmatch(r"NVIDIA_SRC_DIR=.*/unpacked/usr/src/toy-1\.0/nvidia", of_fs[1])
    assert work(one, asked, PROOF.kernel, check=True) == []
    # Another driver makes it another module, and so does another kernel.
    later = {**asked, "packages": {"toy-dkms": "1.0-2"}}
    assert len(work(one, later, PROOF.kernel, check=True)) == 2


def test_a_further_module_is_proven_where_the_driver_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dkms_steps, "SCRATCH", tmp_path)
    machine = WithFurther()
    one = prover(tmp_path, machine)
    assert work(one, ASKED, PROOF.kernel, check=False) == ["toy 1.0 compiles"]
    # Its tree needs the driver.
    assert work(one, {**ASKED, "further": [FURTHER]}, PROOF.kernel, check=False) == [
        "toy 1.0 compiles",
        "fs 2.0-1 compiles",
    ]


def test_a_further_module_that_does_not_compile_is_an_error_before_anything_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dkms_steps, "SCRATCH", tmp_path)
    machine = WithFurther()
    machine.broken = ("fs",)
    with pytest.raises(DkmsError, match=r"(?s)fs 2\.0 does not compile for kernel .*gpu_stack\.gpudirect") as caught:
        work(prover(tmp_path, machine), {**ASKED, "further": [FURTHER]}, PROOF.kernel, check=False)
    assert not [call for call in machine.calls if "install" in call]
    sentences.check(SENTENCES, "a module beside the driver that does not compile", str(caught.value).splitlines()[-1:])


def test_a_further_module_has_to_compile_for_the_kernel_that_runs_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dkms_steps, "SCRATCH", tmp_path)
    machine, asked = WithFurther(), {**ASKED, "further": [FURTHER]}
    one = prover(tmp_path, machine)
    (tmp_path / f"lib/modules/{RUNNING}/build/include").mkdir(parents=True)
    assert len(work(one, asked, PROOF.kernel, check=True)) == 4
    work(one, asked, PROOF.kernel, check=False)
    assert {("fs", PROOF.kernel), ("fs", RUNNING)} <= set(machine.builds())
    assert work(one, asked, PROOF.kernel, check=False) == []
