# SPDX-License-Identifier: GPL-3.0-or-later
"""Download and unpack the packages with a module's sources, separately from the machine's packages, by apt or dnf."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...common.command import Outcome
from ...primitives.packages.rpm import spec

Run = Callable[[list[str], float], Outcome]
FETCH, UNPACK, ASK = 300.0, 120.0, 60.0


class PackageError(Exception):
    """Package that cannot be downloaded or unpacked; the text is the reason."""


@dataclass(frozen=True)
class PackageManager:
    """Commands of a package manager.

    `headers` is the name of a kernel's headers; `remove` removes a kernel, and `choose` makes GRUB boot one.
    """

    headers: str
    # Command that prints whether a package is installed, and its version.
    state: tuple[str, ...]
    remove: str
    choose: str
    # Shell command with the download folder as $1, and the package as $2.
    fetch: str
    suffix: str
    # Command to which the file and the target folder are appended.
    unpack: tuple[str, ...]
    named: Callable[[str, str], str]
    # Command that reads the repository lists; None if the download does that itself.
    update: tuple[str, ...] = ()
    # Path of a kernel's headers, if the kernel package contains the link to them and is installed later; below the root.
    tree: str = ""
    # Command that installs a kernel's headers, with their name appended; None if an installation of headers triggers no build.
    install: tuple[str, ...] = ()

    def headers_state(self, kernel: str, run: Run) -> tuple[str, str]:
        """Return whether the package of a kernel's headers is "installed", and its version; "unknown" if no package has them."""
        said = run([*self.state, self.headers.format(kernel=kernel)], ASK)
        state, _unused, version = said.stdout.strip().partition(" ")
        return (state, version) if said.code == 0 and version else ("unknown", "unknown")

    def fetched(self, package: str, version: str, into: Path, run: Run) -> Path:
        """Download a package and return the folder in which it is unpacked, with those before it.

        Raises PackageError if it is missing or broken.
        """
        fetched, unpacked = into / f"fetched-{package}", into / "unpacked"
        if fetched.exists():
            return unpacked  # with another module's sources
        # It gets its name at the end, so that a second attempt does not take a failed one for the package.
        attempt = Path(tempfile.mkdtemp(prefix="attempt-", dir=into))
        unpacked.mkdir(exist_ok=True)
        wanted = self.named(package, version)
        _step(run, ["sh", "-c", self.fetch, "sh", str(attempt), wanted], FETCH, f"{wanted} cannot be fetched")
        archives = sorted(attempt.glob(f"*.{self.suffix}"))
        if len(archives) != 1:
            raise PackageError(f"{wanted}: {len(archives)} packages were fetched, and one was expected")
        _step(run, [*self.unpack, str(archives[0]), str(unpacked)], UNPACK, f"{wanted} cannot be unpacked")
        attempt.rename(fetched)
        return unpacked


def _step(run: Run, argv: list[str], timeout: float, what: str) -> None:
    outcome = run(argv, timeout)
    if outcome.code != 0:
        raise PackageError(f"{what}: {outcome.text or argv[0] + ' said nothing'}")


_UNPACK_RPM = 'rpm2cpio "$1" >"$2.cpio" && cd "$2" && exec cpio --extract --make-directories --quiet --no-absolute-filenames <"$2.cpio"'
APT = PackageManager(
    headers="linux-headers-{kernel}",
    state=("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}"),
    remove="apt-get purge linux-image-{kernel}",
    choose="GRUB_DEFAULT in /etc/default/grub, with the id of its entry in /boot/grub/grub.cfg; then update-grub",
    # Only root can write to the directory, and apt drops root privileges for downloads.
    fetch='cd "$1" && exec apt-get --quiet -o APT::Sandbox::User=root download "$2"',
    suffix="deb",
    unpack=("dpkg-deb", "--extract"),
    named=lambda package, version: f"{package}={version}",
    update=("apt-get", "--quiet", "update", "--error-on=any"),
    install=(
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "--quiet",
        "--yes",
        "--no-remove",
        "--no-install-recommends",
        "-o",
        "DPkg::Lock::Timeout=300",
        "install",
    ),
)
DNF = PackageManager(
    headers="kernel-devel-{kernel}",
    state=("rpm", "-q", "--queryformat", "installed %{VERSION}-%{RELEASE}"),
    remove="dnf remove kernel-core-{kernel}",
    choose="grubby --set-default /boot/vmlinuz-{kernel}",
    # `dnf download` checks no package signature, so it is used only with a checked repository signature, which covers every package's
    # digest. The locks and the module stream belong to the running driver until another one is proven.
    fetch='cd "$1" && exec dnf --quiet --assumeyes --disableplugin=versionlock --disablerepo="*" --enablerepo="bedplate-*" '
    '--setopt="bedplate-*.module_hotfixes=1" --setopt="bedplate-*.repo_gpgcheck=1" download "$2"',
    suffix="rpm",
    tree="usr/src/kernels/{kernel}",
    unpack=("sh", "-c", _UNPACK_RPM, "sh"),
    named=spec,
)
MANAGERS = {"apt": APT, "dnf": DNF}
