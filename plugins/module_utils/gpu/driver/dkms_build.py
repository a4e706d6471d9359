# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove that a kernel module compiles for a kernel before its package replaces a working one.

If a DKMS package is installed first and compiled afterwards, the old module is already removed when the compiler fails. So the packages
with its sources are downloaded and unpacked into a separate directory, and DKMS compiles them there, in its own trees: the machine does not
change.
"""

from __future__ import annotations

import platform
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ...common import command
from ...common.command import Outcome
from ...primitives.packages.dpkg import outdated
from .dkms_guards import NO_AUTOINSTALL, dkms_paused, header_link, is_own_file, resume_dkms
from .dkms_modules import DkmsModule, installed_for, modules_in
from .dkms_packages import ASK, FETCH, MANAGERS, PackageError, PackageManager
from .dkms_record import CompiledModule, ProofRecord

Run = Callable[[list[str], float], Outcome]
COMPILE, INSTALL = 3600.0, 900.0
_ERROR = re.compile(r"\b(?:fatal )?error:|\bError!|\*\*\* .*(?:Stop|Error \d+)")


class DkmsError(Exception):
    """Module that is not proven to compile; the text says what to do."""


def first_error(log: str) -> str:
    """Return the first error line of a compiler or make, else the last line.

    >>> first_error("  CC [M]  nv.o\\nnv-pci.c:223:9: error: too few arguments to function 'x'\\nmake: *** [all] Error 2")
    "nv-pci.c:223:9: error: too few arguments to function 'x'"
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    of_compiler = [line for line in lines if re.search(r"\berror:", line)]
    return next(iter([*of_compiler, *(line for line in lines if _ERROR.search(line)), *lines[-1:]]), "no output")


# By whether it is the driver.
_ADVICE = {
    True: "Nothing was installed and nothing is rebooted; the running driver stays. Choose another driver for this kernel, or keep a "
    "kernel for which it compiles",
    False: "This node would boot without it. Nothing was installed and nothing is rebooted. Install a version of {name} that compiles, "
    "keep the running kernel, or remove the module: dkms remove {options} --all",
}

# A module that the cluster file adds to the driver.
_OF_FURTHER = (
    "Nothing was installed and nothing is rebooted; the running driver stays. State another version of it in `gpu_stack.gpudirect`, or "
    "choose another driver or kernel"
)


def _count_as_installed(module: DkmsModule, kernel: str, tree: Path) -> None:
    """Make the link by which DKMS knows an installed module: from 3.2 on it builds no module whose BUILD_DEPENDS is not installed."""
    build = f"{module.version}/{kernel}/{platform.machine()}"
    (tree / module.name / f"kernel-{kernel}-{platform.machine()}").symlink_to(build)


class Prover:
    """Compile a package for a kernel, once, and record the proof."""

    def __init__(
        self,
        record: Path,
        run: Run = command.run,
        root: Path = Path("/"),
        running: str = platform.release(),
        is_outdated: Callable[[], bool] = outdated,
        packages: PackageManager = MANAGERS["apt"],
    ) -> None:
        self.record = ProofRecord(record)
        self.run = run
        self.root = root
        self.running = running
        self.modules = root / "lib/modules"
        self.no_autoinstall = root / NO_AUTOINSTALL
        self.is_outdated = is_outdated
        self.packages = packages

    def has_headers(self, kernel: str) -> bool:
        """Return whether the headers of a kernel are installed."""
        return (self.modules / kernel / "build").exists() or self._tree(kernel) is not None

    def _tree(self, kernel: str) -> Path | None:
        path = self.root / self.packages.tree.format(kernel=kernel)
        return path if self.packages.tree and path.exists() else None

    def headers_of(self, kernel: str) -> str:
        """Return the version of the kernel headers that modules are compiled against."""
        if not self.has_headers(kernel):
            name = self.packages.headers.format(kernel=kernel)
            raise DkmsError(
                f"the headers of kernel {kernel} are not installed (no {self.modules / kernel / 'build'}): install {name}, "
                "or state another kernel"
            )
        return self.packages.headers_state(kernel, self.run)[1]

    def lacks_headers(self, kernel: str) -> bool:
        """Return whether the headers of a kernel must be installed, or their installation completed."""
        return bool(self.packages.install) and (
            not self.has_headers(kernel)
            or self.packages.headers_state(kernel, self.run)[0] not in ("installed", "unknown")
        )

    def install_headers(self, kernel: str) -> None:
        """Install the headers of a kernel, and nothing else.

        DKMS is paused: it would build the installed driver for that kernel. If this is an old driver that does not compile, apt stops in
        the middle, and every later apt command fails in the same way.
        """
        name = self.packages.headers.format(kernel=kernel)
        self._read_lists()
        with dkms_paused(self.no_autoinstall):
            what = f"{name}, the headers of the kernel that boots next, cannot be installed"
            self._step([*self.packages.install, name], INSTALL, what)

    def is_kept_still(self) -> bool:
        """Return whether a killed run has left DKMS paused."""
        return is_own_file(self.no_autoinstall)

    def clean_up(self) -> None:
        """Resume DKMS if a killed run has left it paused."""
        resume_dkms(self.no_autoinstall)

    def built_as_well(self, proof: CompiledModule) -> CompiledModule | None:
        """Return the same module for the running kernel, if its package will also be built for that one."""
        if not self.packages.install or self.running == proof.kernel or self.installed_driver(proof):
            return None
        if not (self.modules / self.running / "build/include").exists():
            return None
        return replace(proof, kernel=self.running, headers=self.headers_of(self.running))

    def further_as_well(self, proof: CompiledModule, further: Sequence[CompiledModule]) -> list[CompiledModule]:
        """Return these modules for the running kernel, for which their packages build them too; without installed ones."""
        if not self.packages.install or self.running == proof.kernel:
            return []
        if not (self.modules / self.running / "build/include").exists():
            return []
        there = {one.name for one in modules_in(self.root / "usr/src")}
        headers = self.headers_of(self.running)
        return [replace(one, kernel=self.running, headers=headers) for one in further if one.name not in there]

    def prove_as_well(self, proof: CompiledModule, kernel: str, scratch: Path) -> None:
        """Compile for the running kernel a module that compiles for the kernel of the next boot."""
        try:
            self.prove([proof], scratch)
        except DkmsError as error:
            name = self.packages.headers.format(kernel=proof.kernel)
            raise DkmsError(
                f"{error}\nIt compiles for kernel {kernel}, which boots next. But its package is also built for the running kernel, and "
                f"would stop in the middle. Without its headers, that kernel is skipped: apt-get remove {name}"
            ) from None

    def installed_driver(self, proof: CompiledModule) -> DkmsModule | None:
        """Return the driver of this version whose sources are on the machine, as DKMS names it."""
        found = modules_in(self.root / "usr/src")
        return next((one for one in found if one.is_driver and one.version == proof.module_version), None)

    def others(self, proof: CompiledModule) -> list[CompiledModule]:
        """Return the other modules that DKMS has installed for the running kernel and not for the kernel of this proof.

        The node would boot without them, a file system among them perhaps. Those of another driver are replaced together with it.
        """
        if self.running == proof.kernel:
            return []
        by_kernel = installed_for(self._status())
        lost = by_kernel.get(self.running, set()) - by_kernel.get(proof.kernel, set())
        # Those that need others last.
        found = sorted(modules_in(self.root / "usr/src"), key=lambda one: len(one.depends))
        return [
            replace(proof, packages={}, name=one.name, module_version=one.version)
            for one in found
            if (one.name, one.version) in lost and not one.is_driver
        ]

    def built_against_driver(self, proofs: Sequence[CompiledModule]) -> bool:
        """Return whether one of these installed modules is built against the driver, as nvidia-fs is."""
        wanted = {(one.name, one.module_version) for one in proofs}
        found = modules_in(self.root / "usr/src")
        return any(one.depends for one in found if (one.name, one.version) in wanted)

    def _status(self) -> str:
        said = self.run(["dkms", "status"], ASK)
        if said.code != 0:
            raise DkmsError(f"dkms status fails, so it is unknown which modules this machine needs: {said.text}")
        return said.stdout

    def left_out(self, proof: CompiledModule) -> list[DkmsModule]:
        """Return the driver and other modules that are installed, but not built for an installed kernel.

        Such are those for which headers were installed while DKMS was paused.
        """
        driver = self.installed_driver(proof)
        if not (self.packages.install and (self.root / f"boot/vmlinuz-{proof.kernel}").exists()):
            return []
        built = installed_for(self._status()).get(proof.kernel, set())
        lost = [driver] if driver and (driver.name, driver.version) not in built else []
        return [*lost, *(DkmsModule(one.name, one.module_version) for one in self.others(proof))]

    def build(self, module: DkmsModule, kernel: str) -> None:
        """Let DKMS build and install an installed module for one more kernel."""
        outcome = self.run(["dkms", "install", *module.options, "-k", kernel], COMPILE)
        if outcome.code != 0:
            raise DkmsError(
                f"{module.name} {module.version} is installed, and DKMS does not build it for kernel {kernel}:\n"
                f"  {first_error(outcome.text)}\nDo not reboot into that kernel. "
                f"/var/lib/dkms/{module.name}/{module.version}/build/make.log says more"
            )

    def prove(self, proofs: Sequence[CompiledModule], scratch: Path) -> list[CompiledModule]:
        """Compile modules for one kernel in a temporary directory, and record each that compiles.

        They are in one DKMS tree, for one may need another: nvidia-fs is built against the driver.
        """
        kernel = proofs[0].kernel
        done = []
        with tempfile.TemporaryDirectory(prefix="dkms-", dir=scratch) as name:
            directory = Path(name)
            (directory / "dkms").mkdir()
            with header_link(self.modules / kernel / "build", self._tree(kernel)):
                for proof in proofs:
                    sources, module = self._sources(proof, directory)
                    self._compile(module, kernel, directory, sources, is_further=bool(proof.packages and proof.name))
                    if module.is_driver:
                        _count_as_installed(module, kernel, directory / "dkms")
                    done.append(replace(proof, name=module.name))
                    self.record.add(done[-1])
        return done

    def _sources(self, proof: CompiledModule, directory: Path) -> tuple[Path, DkmsModule]:
        """Return the directory with the sources of a module, and the module."""
        sources = self._unpack(proof, directory) if proof.packages else self.root / "usr/src"
        there = modules_in(sources)
        fits = [one for one in there if proof.module_version in ("", one.version) and proof.name in ("", one.name)]
        if len(fits) != 1:
            where = ", ".join(self.packages.named(*one) for one in proof.packages.items()) or str(sources)
            named = ", ".join(f"{one.name}-{one.version}" for one in there) or "none"
            wanted = f"of version {proof.module_version}" if proof.module_version else proof.name
            raise DkmsError(f"{where}: expected the sources of one module {wanted} for DKMS, found {named}")
        return sources, fits[0]

    def _unpack(self, proof: CompiledModule, directory: Path) -> Path:
        """Return /usr/src of the packages, unpacked together: Ubuntu has dkms.conf in one of them and the sources in another."""
        # The repository may have been added in this run, without an installation since.
        are_fresh = self._read_lists()
        try:
            for package, version in proof.packages.items():
                try:
                    unpacked = self.packages.fetched(package, version, directory, self.run)
                except PackageError:
                    if are_fresh or not self.packages.update:
                        raise
                    # The lists may be older than the version, which the lock has from a newer index.
                    are_fresh = self._read_lists(always=True)
                    unpacked = self.packages.fetched(package, version, directory, self.run)
        except PackageError as error:
            raise DkmsError(str(error)) from None
        return unpacked / "usr/src"

    def _read_lists(self, *, always: bool = False) -> bool:
        """Return whether the lists of the repositories were read now: they are if they are outdated."""
        if not self.packages.update or not (always or self.is_outdated()):
            return False
        self._step([*self.packages.update], FETCH, "apt cannot read its repositories")
        return True

    def _compile(self, module: DkmsModule, kernel: str, directory: Path, sources: Path, *, is_further: bool) -> None:
        what = f"{module.name} {module.version}"
        trees = ["--dkmstree", str(directory / "dkms"), "--sourcetree", str(sources)]
        self._step(["dkms", "add", *trees, *module.options], 120.0, f"dkms cannot add {module.name}")
        found = [] if module.is_driver else sorted(sources.rglob("nv-p2p.c"))
        # Their makefiles look for the driver in /usr/src otherwise, which has another one, or none yet.
        driver = ["env", f"NVIDIA_SRC_DIR={found[0].parent}"] if found else []
        outcome = self.run([*driver, "dkms", "build", *trees, *module.options, "-k", kernel], COMPILE)
        folder = directory / "dkms" / module.name / module.version
        if outcome.code == 0 and any((folder / kernel / platform.machine() / "module").glob("*.ko*")):
            return
        logs = sorted(folder.rglob("make.log"))
        log = logs[0].read_text(errors="replace") if logs else outcome.text
        if outcome.code in (0, 77):
            why = f"according to its dkms.conf (BUILD_EXCLUSIVE): {outcome.text}"
            raise DkmsError(f"{what} does not support kernel {kernel}, {why}")
        said = first_error(log).replace(f"{folder}/build/", "")
        ending = "did not end" if outcome.code is None else f"ended with {outcome.code}"
        advice = (_ADVICE[module.is_driver] if not is_further else _OF_FURTHER).format(
            name=module.name, options=" ".join(module.options)
        )
        raise DkmsError(f"{what} does not compile for kernel {kernel} (dkms build {ending}):\n  {said}\n{advice}")

    def _step(self, argv: list[str], timeout: float, what: str) -> None:
        outcome = self.run(argv, timeout)
        if outcome.code != 0:
            raise DkmsError(f"{what}: {outcome.text or argv[0] + ' said nothing'}")
