# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove that a kernel module compiles for a kernel before its package replaces a working one.

If a DKMS package is installed first and compiled afterwards, the old module is already removed when the compiler fails. So the package is
downloaded and unpacked into a separate directory, and DKMS compiles it there, in its own trees: the machine does not change.
"""

from __future__ import annotations

import json
import platform
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ...common import command
from ...common.command import Outcome
from ...common.files import atomic_write
from ...primitives.packages.dpkg import outdated
from .dkms_guards import NO_AUTOINSTALL, dkms_paused, header_link, is_own_file, resume_dkms
from .dkms_packages import ASK, FETCH, MANAGERS, PackageError, PackageManager

Run = Callable[[list[str], float], Outcome]
COMPILE, INSTALL = 3600.0, 900.0
_ERROR = re.compile(r"\b(?:fatal )?error:|\bError!|\*\*\* .*(?:Stop|Error \d+)")


class DkmsError(Exception):
    """Module that is not proven to compile; the text says what to do."""


@dataclass(frozen=True)
class CompiledModule:
    """Compiled module: package and its version, DKMS's name and version of the module, kernel, version of the kernel headers."""

    package: str
    version: str
    name: str
    module_version: str
    kernel: str
    headers: str


def first_error(log: str) -> str:
    """Return the first error line of a compiler or make, else the last line.

    >>> first_error("  CC [M]  nv.o\\nnv-pci.c:223:9: error: too few arguments to function 'x'\\nmake: *** [all] Error 2")
    "nv-pci.c:223:9: error: too few arguments to function 'x'"
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    of_compiler = [line for line in lines if re.search(r"\berror:", line)]
    return next(iter([*of_compiler, *(line for line in lines if _ERROR.search(line)), *lines[-1:]]), "no output")


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
        self.record = record
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
        """Return the same module for the running kernel, if the package will also be built for that one."""
        if not self.packages.install or self.running == proof.kernel or self._source(proof).exists():
            return None
        if not (self.modules / self.running / "build/include").exists():
            return None
        return replace(proof, kernel=self.running, headers=self.headers_of(self.running))

    def prove_as_well(self, proof: CompiledModule, kernel: str, scratch: Path) -> None:
        """Compile for the running kernel a module that compiles for the kernel of the next boot."""
        try:
            self.prove(proof, scratch)
        except DkmsError as error:
            name = self.packages.headers.format(kernel=proof.kernel)
            raise DkmsError(
                f"{error}\nIt compiles for kernel {kernel}, which boots next. But its package is also built for the running kernel, and "
                f"would stop in the middle. Without its headers, that kernel is skipped: apt-get remove {name}"
            ) from None

    def is_left_out(self, proof: CompiledModule) -> bool:
        """Return whether driver and kernel are installed without a built module, as happens if headers are installed later."""
        if not (
            self.packages.install
            and self._source(proof).exists()
            and (self.root / f"boot/vmlinuz-{proof.kernel}").exists()
        ):
            return False
        said = self.run(["dkms", "status", *_module(proof), "-k", proof.kernel], ASK)
        return said.code == 0 and ": installed" not in said.stdout

    def _source(self, proof: CompiledModule) -> Path:
        return self.root / "usr/src" / f"{proof.name}-{proof.module_version}" / "dkms.conf"

    def build(self, proof: CompiledModule) -> None:
        """Let DKMS build and install the installed driver for one more kernel."""
        outcome = self.run(["dkms", "install", *_module(proof), "-k", proof.kernel], COMPILE)
        if outcome.code != 0:
            what = f"{proof.name} {proof.module_version}"
            raise DkmsError(
                f"{what} is installed, and DKMS does not build it for kernel {proof.kernel}:\n  {first_error(outcome.text)}\n"
                f"Do not reboot into that kernel. /var/lib/dkms/{proof.name}/{proof.module_version}/build/make.log says more"
            )

    def is_proven(self, proof: CompiledModule) -> bool:
        """Return whether exactly this module was compiled before."""
        return asdict(proof) in self._proofs()

    def prove(self, proof: CompiledModule, scratch: Path) -> None:
        """Compile the module in a temporary directory, and record the proof."""
        with tempfile.TemporaryDirectory(prefix="dkms-", dir=scratch) as name:
            directory = Path(name)
            sources = self._unpack(proof, directory)
            with header_link(self.modules / proof.kernel / "build", self._tree(proof.kernel)):
                self._compile(proof, directory, sources)
        self._remember(proof)

    def _unpack(self, proof: CompiledModule, directory: Path) -> Path:
        wanted = self.packages.named(proof.package, proof.version)
        self._read_lists()
        try:
            unpacked = self.packages.fetched(proof.package, proof.version, directory, self.run)
        except PackageError as error:
            raise DkmsError(str(error)) from None
        sources = unpacked / "usr/src" / f"{proof.name}-{proof.module_version}"
        if not (sources / "dkms.conf").exists():
            there = sorted(path.parent.name for path in (unpacked / "usr/src").glob("*/dkms.conf"))
            raise DkmsError(
                f"{wanted} has no sources of {proof.name}-{proof.module_version} for DKMS; it has {', '.join(there) or 'none'}"
            )
        return sources.parent

    def _read_lists(self) -> None:
        if self.packages.update and self.is_outdated():
            # The repository may have been added in this run, without an installation since.
            self._step([*self.packages.update], FETCH, "apt cannot read its repositories")

    def _compile(self, proof: CompiledModule, directory: Path, sources: Path) -> None:
        trees = ["--dkmstree", str(directory / "dkms"), "--sourcetree", str(sources)]
        module = _module(proof)
        (directory / "dkms").mkdir()
        self._step(["dkms", "add", *trees, *module], 120.0, f"dkms cannot add {proof.name}")
        outcome = self.run(["dkms", "build", *trees, *module, "-k", proof.kernel], COMPILE)
        built = directory / "dkms" / proof.name / proof.module_version / proof.kernel / platform.machine() / "module"
        if outcome.code == 0 and any(built.glob("*.ko*")):
            return
        logs = sorted((directory / "dkms").rglob("make.log"))
        log = logs[0].read_text(errors="replace") if logs else outcome.text
        if outcome.code in (0, 77):
            why = f"according to its dkms.conf (BUILD_EXCLUSIVE): {outcome.text}"
            raise DkmsError(f"{proof.name} {proof.module_version} does not support kernel {proof.kernel}, {why}")
        tree = f"{directory / 'dkms'}/{proof.name}/{proof.module_version}/build/"
        said = first_error(log).replace(tree, "")
        ending = "did not end" if outcome.code is None else f"ended with {outcome.code}"
        raise DkmsError(
            f"{proof.name} {proof.module_version} does not compile for kernel {proof.kernel} (dkms build {ending}):\n  {said}\n"
            "Nothing was installed and nothing is rebooted; the running driver stays. Choose another driver for this kernel, or keep a "
            "kernel for which it compiles"
        )

    def _step(self, argv: list[str], timeout: float, what: str) -> None:
        outcome = self.run(argv, timeout)
        if outcome.code != 0:
            raise DkmsError(f"{what}: {outcome.text or argv[0] + ' said nothing'}")

    def _proofs(self) -> Sequence[dict[str, str]]:
        try:
            proofs = json.loads(self.record.read_text())
        except (FileNotFoundError, ValueError):
            return []
        return proofs if isinstance(proofs, list) else []

    def _remember(self, proof: CompiledModule) -> None:
        self.record.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        # Keep a few: the deployed one, and the one to return to.
        proofs = [*self._proofs(), asdict(proof)][-8:]
        atomic_write(self.record, json.dumps(proofs, indent=1) + "\n")


def _module(proof: CompiledModule) -> list[str]:
    return ["-m", proof.name, "-v", proof.module_version]
