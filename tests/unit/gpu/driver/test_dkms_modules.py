"""DKMS's names of modules come from their sources and from `dkms status`, and other modules than the driver are proven, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver import dkms_steps
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_build import DkmsError
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_modules import (
    DkmsModule,
    installed_for,
    modules_in,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_steps import work
from tests.kit import sentences
from tests.unit.gpu.driver.test_dkms_build import ASKED, PROOF, RUNNING, Machine, prover, write_conf

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
NEXT = PROOF.kernel
# Lines of `dkms status` of dkms 3 and, without a slash, of dkms 2.8 on Ubuntu 22.04.
STATUS = f"""\
lustre-client/2.15.5, {RUNNING}, x86_64: installed
nvidia-fs, 2.28.4, {RUNNING}, x86_64: installed
nvidia/0.9, {RUNNING}, x86_64: installed (WARNING! Diff between built and installed module!)
xpmem/2.7, {RUNNING}, x86_64: built
knem/1.1: added
mlnx-ofed-kernel/24.10, {RUNNING}, x86_64: installed
mlnx-ofed-kernel/24.10, {NEXT}, x86_64: installed
"""


class Ubuntu(Machine):
    """A machine whose packages are those of Ubuntu: settings of DKMS in one, sources in another."""

    def run(self, argv: list[str], timeout: float) -> Outcome:
        if argv[0] == "sh":
            self.calls.append(argv)
            (Path(argv[-2]) / f"{argv[-1]}.deb").touch()
            return Outcome(0, "", "")
        if argv[0] == "dpkg-deb":
            self.calls.append(argv)
            source = Path(argv[-1]) / "usr/src/nvidia-1.0"
            source.mkdir(parents=True, exist_ok=True)
            if "source" in Path(argv[-2]).name:
                (source / "Makefile").touch()
            else:
                write_conf(source)
            return Outcome(0, "", "")
        if argv[:2] == ["dkms", "build"]:
            source = Path(argv[argv.index("--sourcetree") + 1]) / "nvidia-1.0"
            if not (source / "Makefile").exists():
                return Outcome(10, "", "make: *** No targets specified and no makefile found.  Stop.")
        return super().run(argv, timeout)


def installed(tmp_path: Path, *folders: str, more: str = "") -> None:
    for folder in folders:
        write_conf(tmp_path / "usr/src" / folder, "other", more)


def builds(machine: Machine) -> list[tuple[str, str]]:
    """Return (module, kernel) of each compilation, in order."""
    calls = [call for call in machine.calls if call[:2] == ["dkms", "build"]]
    return [(call[call.index("-m") + 1], call[call.index("-k") + 1]) for call in calls]


@pytest.fixture(autouse=True)
def _scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(dkms_steps, "SCRATCH", tmp_path / "scratch")


@pytest.mark.parametrize("lacking", ["nvidia-dkms", "nvidia-kernel-source", ""])
def test_settings_and_sources_of_two_packages_are_compiled_together(tmp_path: Path, lacking: str) -> None:
    packages = {"nvidia-dkms": "1.0-1", "nvidia-kernel-source": "1.0-1"}
    asked = {**ASKED, "packages": {name: one for name, one in packages.items() if name != lacking}}
    machine = Ubuntu()
    one = prover(tmp_path, machine)
    if lacking:
        with pytest.raises(DkmsError, match="found none" if lacking == "nvidia-dkms" else "no makefile found"):
            work(one, asked, NEXT, check=False)
        return
    assert work(one, asked, NEXT, check=False) == ["nvidia 1.0 compiles"]
    assert work(one, asked, NEXT, check=True) == []


@pytest.mark.parametrize("name", ["nvidia", "nvidia-open", "nvidia-current-open"])
def test_the_name_of_the_module_is_that_of_its_sources(tmp_path: Path, name: str) -> None:
    assert work(prover(tmp_path, Machine(sources=f"{name}-1.0")), ASKED, NEXT, check=False) == [f"{name} 1.0 compiles"]


@pytest.mark.parametrize(
    ("folder", "settings", "expected"),
    [
        (
            "nvidia-1.0",
            ['PACKAGE_NAME="nvidia"', 'PACKAGE_VERSION="1.0"', 'BUILT_MODULE_NAME[0]="nvidia"'],
            DkmsModule("nvidia", "1.0", (), True),
        ),
        ("a-b-1", ["PACKAGE_NAME=a-b", "PACKAGE_VERSION=1", "BUILT_MODULE_NAME=(a)"], DkmsModule("a-b", "1")),
        # What a shell would put together: the name of the directory is what DKMS goes by.
        ("lustre-2.15.5", ['PACKAGE_NAME="lustre"', 'PACKAGE_VERSION="$version"'], DkmsModule("lustre", "2.15.5")),
        (
            "nvidia-fs-2.28.4",
            ['PACKAGE_NAME="nvidia-fs"', 'PACKAGE_VERSION="2.7"', 'BUILD_DEPENDS[0]="nvidia"'],
            DkmsModule("nvidia-fs", "2.28.4", ("nvidia",)),
        ),
    ],
)
def test_a_module_is_read_from_its_settings(
    tmp_path: Path, folder: str, settings: list[str], expected: DkmsModule
) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "dkms.conf").write_text("\n".join(settings) + "\n")
    assert modules_in(tmp_path) == [expected]


def test_only_installed_modules_count() -> None:
    ofed = ("mlnx-ofed-kernel", "24.10")
    running = {("lustre-client", "2.15.5"), ("nvidia-fs", "2.28.4"), ("nvidia", "0.9"), ofed}
    assert installed_for(STATUS) == {RUNNING: running, NEXT: {ofed}}


def machine_with_modules(tmp_path: Path) -> Machine:
    machine = Machine()
    machine.status = STATUS
    installed(tmp_path, "lustre-client-2.15.5", "xpmem-2.7", "knem-1.1", "mlnx-ofed-kernel-24.10")
    installed(tmp_path, "nvidia-fs-2.28.4", more='BUILD_DEPENDS[0]="toy"\n')
    # The driver that is replaced: nothing of it must compile for the next kernel.
    write_conf(tmp_path / "usr/src/nvidia-0.9")
    return machine


def test_what_the_node_has_besides_the_driver_must_compile_for_the_next_kernel(tmp_path: Path) -> None:
    machine = machine_with_modules(tmp_path)
    one = prover(tmp_path, machine)
    expected = ["the driver 1.0", "lustre-client 2.15.5", "nvidia-fs 2.28.4"]
    assert work(one, ASKED, NEXT, check=True) == [f"{name} needs a compilation" for name in expected]
    assert builds(machine) == []
    done = work(one, ASKED, NEXT, check=False)
    assert done == ["toy 1.0 compiles", "lustre-client 2.15.5 compiles", "nvidia-fs 2.28.4 compiles"]
    assert builds(machine) == [("toy", NEXT), ("lustre-client", NEXT), ("nvidia-fs", NEXT)]
    assert work(one, ASKED, NEXT, check=False) == []


def test_a_module_that_needs_the_driver_is_compiled_beside_it(tmp_path: Path) -> None:
    """DKMS refuses to build it in a tree without the driver, also if the driver is known to compile."""
    machine = machine_with_modules(tmp_path)
    one = prover(tmp_path, machine)
    one.prove([PROOF], tmp_path)
    machine.calls.clear()
    work(one, ASKED, NEXT, check=False)
    assert builds(machine) == [("toy", NEXT), ("lustre-client", NEXT), ("nvidia-fs", NEXT)]
    trees = {call[call.index("--dkmstree") + 1] for call in machine.calls if call[:2] == ["dkms", "build"]}
    assert len(trees) == 1


def test_a_module_that_does_not_compile_stops_the_run_and_is_no_proof(tmp_path: Path) -> None:
    machine = machine_with_modules(tmp_path)
    machine.broken = ("lustre-client",)
    one = prover(tmp_path, machine)
    with pytest.raises(DkmsError, match=rf"lustre-client 2\.15\.5 .*{NEXT} .* 10") as caught:
        work(one, ASKED, NEXT, check=False)
    sentences.check(SENTENCES, "another module that does not compile", [caught.value])
    assert one.record.find(PROOF)
    texts = work(one, ASKED, NEXT, check=True)
    assert "lustre-client 2.15.5 needs a compilation" in texts


def test_on_the_running_kernel_no_other_module_is_compiled(tmp_path: Path) -> None:
    machine = machine_with_modules(tmp_path)
    one = prover(tmp_path, machine)
    (tmp_path / "lib/modules" / RUNNING / "build").mkdir(parents=True)
    assert work(one, ASKED, RUNNING, check=False) == ["toy 1.0 compiles"]


def test_other_modules_are_built_for_a_kernel_whose_headers_came_later(tmp_path: Path) -> None:
    machine = machine_with_modules(tmp_path)
    one = prover(tmp_path, machine)
    (tmp_path / "boot").mkdir()
    (tmp_path / f"boot/vmlinuz-{NEXT}").touch()
    done = work(one, {**ASKED, "compile": False}, NEXT, check=False)
    assert done == ["the installed lustre-client 2.15.5 was built", "the installed nvidia-fs 2.28.4 was built"]
    assert [call for call in machine.calls if call[:2] == ["dkms", "install"]] == [
        ["dkms", "install", "-m", name, "-v", version, "-k", NEXT]
        for name, version in (("lustre-client", "2.15.5"), ("nvidia-fs", "2.28.4"))
    ]


def test_a_dkms_that_does_not_answer_stops_the_run(tmp_path: Path) -> None:
    """It must not read as a node without other modules."""
    machine = Machine()
    one = prover(tmp_path, machine)
    run = one.run
    one.run = lambda argv, timeout: Outcome(5, "", "no") if argv[:2] == ["dkms", "status"] else run(argv, timeout)
    with pytest.raises(DkmsError, match=r"dkms status fails.*: no") as caught:
        work(one, ASKED, NEXT, check=False)
    assert builds(machine) == []
    sentences.check(SENTENCES, "dkms status fails", [caught.value])
