# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove that a kernel module compiles for a kernel before its package replaces the one that works.

A DKMS package that is installed first and compiled then has removed the old module by the time that the compiler fails. So the
package is fetched and unpacked into a directory of its own, and DKMS compiles it there, with its own trees: the machine stays as it is.
"""

from __future__ import annotations

import json
import platform
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils import node_command
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.dkms_packages import (
    FETCH,
    MANAGERS,
    PackageError,
    Packages,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.node_command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.node_packages import outdated

Run = Callable[[list[str], float], Outcome]
COMPILE = 3600.0
_ERROR = re.compile(r"\b(?:fatal )?error:|\bError!|\*\*\* .*(?:Stop|Error \d+)")
# EL's image for rescue, which no release of a kernel is.
_RESCUE = "0-rescue-"
_NUMBERS = re.compile(r"(\d+)")


class DkmsError(Exception):
    """A module that is not proven; the text says what to do."""


@dataclass(frozen=True)
class Proof:
    """What was compiled: the package with its version, DKMS's name and version of the module, the kernel, its headers' version."""

    package: str
    version: str
    name: str
    module_version: str
    kernel: str
    headers: str


def kernels(boot: Path = Path("/boot")) -> list[str]:
    """Return the kernels that can boot here, the newest last, as GRUB sorts them.

    >>> sorted(["6.1.0-9-amd64", "6.1.0-56-amd64"], key=_by_number)
    ['6.1.0-9-amd64', '6.1.0-56-amd64']
    """
    found = (path.name[len("vmlinuz-") :] for path in boot.glob("vmlinuz-*"))
    return sorted((release for release in found if not release.startswith(_RESCUE)), key=_by_number)


def next_kernel(boot: Path = Path("/boot"), defaults: Path = Path("/etc/default/grub")) -> str:
    """Return the kernel that boots next: the newest one, unless somebody has told GRUB otherwise."""
    found = kernels(boot)
    if not found:
        raise DkmsError(f"there is no kernel in {boot}, so nothing says which one boots next: state `kernel`")
    text = defaults.read_text() if defaults.exists() else ""
    chosen = re.findall(r"^\s*GRUB_DEFAULT=[\"']?([^\"'\n]*)", text, re.MULTILINE)
    if chosen and chosen[-1] not in ("0", ""):
        raise DkmsError(
            f"{defaults} has GRUB_DEFAULT={chosen[-1]}, so the newest kernel need not boot next: state `kernel`, one of {', '.join(found)}"
        )
    entries = boot / "loader/entries"
    if re.search(r"^\s*GRUB_ENABLE_BLSCFG=[\"']?true", text, re.MULTILINE) or any(entries.glob("*.conf")):
        # GRUB's own memory says which of them, also where nobody has chosen one.
        raise DkmsError(
            f"GRUB boots one of the entries in {entries}, so the newest kernel need not boot next: state `kernel`, one of "
            f"{', '.join(found)}"
        )
    return found[-1]


def see_that_it_boots(
    kernel: str, boot: Path = Path("/boot"), defaults: Path = Path("/etc/default/grub"), manager: str = "apt"
) -> None:
    """DkmsError: another kernel than the stated one boots next, so a driver for the stated one would help nobody."""
    try:
        boots = next_kernel(boot, defaults)
    except DkmsError:
        return  # somebody chose one, which nothing here can tell
    if boots != kernel:
        raise DkmsError(
            f"kernel {kernel} is stated, and {boots} boots next, for which nothing is proven: state that one, or remove it "
            f"({MANAGERS[manager].remove.format(kernel=boots)})"
        )


def _by_number(release: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _NUMBERS.split(release)]


def first_error(log: str) -> str:
    """Return the first line with which a compiler or make says what is wrong, else the last line.

    >>> first_error("  CC [M]  nv.o\\nnv-pci.c:223:9: error: too few arguments to function 'x'\\nmake: *** [all] Error 2")
    "nv-pci.c:223:9: error: too few arguments to function 'x'"
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    of_compiler = [line for line in lines if re.search(r"\berror:", line)]
    return next(iter([*of_compiler, *(line for line in lines if _ERROR.search(line)), *lines[-1:]]), "nothing was said")


class Prover:
    """Compiles a package for a kernel, once; what was proven is on record."""

    def __init__(
        self,
        record: Path,
        run: Run = node_command.run,
        modules: Path = Path("/lib/modules"),
        is_outdated: Callable[[], bool] = outdated,
        packages: Packages = MANAGERS["apt"],
    ) -> None:
        self.record = record
        self.run = run
        self.modules = modules
        self.is_outdated = is_outdated
        self.packages = packages

    def has_headers(self, kernel: str) -> bool:
        """Whether the headers of a kernel are installed."""
        return (self.modules / kernel / "build").exists()

    def headers_of(self, kernel: str) -> str:
        """Return the version of the headers of a kernel, against which everything is compiled."""
        if not self.has_headers(kernel):
            name = self.packages.headers.format(kernel=kernel)
            raise DkmsError(
                f"the headers of kernel {kernel} are not installed (no {self.modules / kernel / 'build'}): install {name}, "
                "or state another kernel"
            )
        return self.packages.headers_version(kernel, self.run)

    def is_proven(self, proof: Proof) -> bool:
        """Whether exactly this was compiled before."""
        return asdict(proof) in self._proofs()

    def prove(self, proof: Proof, scratch: Path) -> None:
        """Compile the module in a directory that goes afterwards, and record that it worked."""
        with tempfile.TemporaryDirectory(prefix="dkms-", dir=scratch) as name:
            directory = Path(name)
            sources = self._unpack(proof, directory)
            self._compile(proof, directory, sources)
        self._remember(proof)

    def _unpack(self, proof: Proof, directory: Path) -> Path:
        wanted = self.packages.named(proof.package, proof.version)
        if self.packages.update and self.is_outdated():
            # The repository may have come in this run, and nothing has had to be installed since.
            self._step([*self.packages.update], FETCH, "apt cannot read its repositories")
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

    def _compile(self, proof: Proof, directory: Path, sources: Path) -> None:
        trees = ["--dkmstree", str(directory / "dkms"), "--sourcetree", str(sources)]
        module = ["-m", proof.name, "-v", proof.module_version]
        (directory / "dkms").mkdir()
        self._step(["dkms", "add", *trees, *module], 120.0, f"dkms does not know what to do with {proof.name}")
        outcome = self.run(["dkms", "build", *trees, *module, "-k", proof.kernel], COMPILE)
        built = directory / "dkms" / proof.name / proof.module_version / proof.kernel / platform.machine() / "module"
        if outcome.code == 0 and any(built.glob("*.ko*")):
            return
        logs = sorted((directory / "dkms").rglob("make.log"))
        log = logs[0].read_text(errors="replace") if logs else outcome.text
        if outcome.code in (0, 77):
            why = f"says its dkms.conf (BUILD_EXCLUSIVE): {outcome.text}"
            raise DkmsError(f"{proof.name} {proof.module_version} is not for kernel {proof.kernel}, {why}")
        tree = f"{directory / 'dkms'}/{proof.name}/{proof.module_version}/build/"
        said = first_error(log).replace(tree, "")
        ending = "did not end" if outcome.code is None else f"ended with {outcome.code}"
        raise DkmsError(
            f"{proof.name} {proof.module_version} does not compile for kernel {proof.kernel} (dkms build {ending}):\n  {said}\n"
            "Nothing was installed and nothing is rebooted; the driver that runs stays. Take another driver for this kernel, or keep the "
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

    def _remember(self, proof: Proof) -> None:
        self.record.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        # A few: the one that is deployed, and the one to go back to.
        proofs = [*self._proofs(), asdict(proof)][-8:]
        beside = self.record.with_suffix(".new")
        beside.write_text(json.dumps(proofs, indent=1) + "\n")
        beside.replace(self.record)
