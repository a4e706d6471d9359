# SPDX-License-Identifier: GPL-3.0-or-later
"""Upgrade the packages of a machine to what its repositories offer, except held packages and Slurm's.

apt and dnf decide; held packages, which include those of the GPU software, stay. Nothing is removed: where an upgrade needs that, the
package stays as it is. An upgrade that needs a newer package of Slurm is an error. With a snapshot (snapshot_view.py) packages that are
newer than its own go down to its version, and dependencies that nothing needs any more and that it does not have are removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from ...common import command
from ...common.command import Outcome
from . import dpkg

OWN_UPGRADE = ("slurm*", "libslurm*", "libpam-slurm*")
"""Packages that no run of this module upgrades: Slurm's daemons are upgraded in their order."""
KERNELS = ("linux-image-*", "kernel", "kernel-core", "kernel-modules*")
_SECONDS = 1800.0
_APT = re.compile(r"^Inst (?P<name>\S+) (?:\[(?P<old>[^\]]+)\] )?\((?P<new>\S+) (?P<origin>[^)]*)")
_REMOVED = re.compile(r"^(?:Remv|Purg) (?P<name>\S+) ")
_DNF = re.compile(r"^(?P<name>\S+)\.(?P<arch>[a-z0-9_]+)\s+(?P<new>\S+)\s+\S+\s*$")
_QUERY = "%{name}\\t%{arch}\\t%{epoch}:%{version}-%{release}\\t%{repoid}\\n"
_WRAPPED = re.compile(r"\n[ \t]+")
_SIMULATION = ("apt-get", "--simulate", "--with-new-pkgs", "-o", "APT::Get::Show-User-Simulation-Note=false", "upgrade")
_INSTALL = (
    *("apt-get", "--yes", "--quiet", "--no-remove", "--only-upgrade"),
    *("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold", "install"),
)
# needrestart would restart daemons, slurmd among them.
_ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l", "NEEDRESTART_SUSPEND": "1"}

Run = Callable[[Sequence[str]], Outcome]


class UpgradeError(Exception):
    """The package manager failed."""


@dataclass(frozen=True)
class Upgrade:
    """A package and its new version; `old` is empty for a package that others need.

    `is_security`: whether a repository of security updates has the new version.
    """

    name: str
    old: str
    new: str
    is_security: bool = field(default=False, repr=False, compare=False)

    @property
    def is_kernel(self) -> bool:
        """Return whether it is a kernel, which runs after a reboot."""
        return any(fnmatchcase(self.name, pattern) for pattern in KERNELS)

    def __str__(self) -> str:
        return f"{self.name} {self.new}"


def patient(argv: Sequence[str]) -> Outcome:
    """Run apt or dnf, which may take half an hour."""
    return command.run(argv, _SECONDS, environment=_ENVIRONMENT)


def refresh(manager: str, run: Run = patient) -> None:
    """Read the lists of the repositories. Raises UpgradeError if one cannot be read."""
    _checked(
        run(("apt-get", "--quiet", "--error-on=any", "update") if manager == "apt" else ("dnf", "--quiet", "makecache"))
    )


def offered(manager: str, run: Run = patient, *, exact: bool = False) -> list[Upgrade]:
    """Return what an upgrade would install, by the lists that the machine has. Raises UpgradeError.

    `exact`: also packages that are newer than the repositories' own, which go down. For apt the priority of its pins decides that.
    """
    if manager == "apt":
        return parsed_apt(_checked(run(_SIMULATION)).stdout)
    excluded = [f"--exclude={pattern}" for pattern in OWN_UPGRADE]
    if exact:
        queries = (("--installed",), ("--available", "--latest-limit=1"))
        there, wanted = (
            _checked(run(("dnf", "--quiet", "--cacheonly", *excluded, "repoquery", *words, f"--qf={_QUERY}"))).stdout
            for words in queries
        )
        return differing_rpms(there, wanted)
    return parsed_dnf(_checked(run(("dnf", "--quiet", "--cacheonly", *excluded, "list", "--upgrades"))).stdout)


def split(offer: Sequence[Upgrade], only: Collection[str] | None) -> tuple[list[Upgrade], list[Upgrade]]:
    """Return the upgrades that are in `only` with the same version, and the others; None allows all.

    >>> split([Upgrade("zip", "3.0-13", "3.0-14")], ["zip 3.0-13+deb12u1"])
    ([], [Upgrade(name='zip', old='3.0-13', new='3.0-14')])
    """
    allowed = set(map(str, offer) if only is None else only)
    return [one for one in offer if str(one) in allowed], [one for one in offer if str(one) not in allowed]


def install(
    manager: str,
    upgrades: Sequence[Upgrade],
    run: Run = patient,
    without: Sequence[Upgrade] = (),
    *,
    exact: bool = False,
) -> None:
    """Install upgrades; changed files of /etc stay, and packages of `without` too, also as dependencies. Raises UpgradeError.

    `exact` as in `offered`.
    """
    if manager == "apt":
        _checked(run((*_INSTALL, *_apt_versions(upgrades, without))))
    else:
        excluded = [f"--exclude={pattern}" for pattern in (*OWN_UPGRADE, *(one.name for one in without))]
        verb = "distro-sync" if exact else "upgrade"
        _checked(run(("dnf", "--assumeyes", "--quiet", *excluded, verb, *(one.name for one in upgrades))))


def surplus(manager: str, upgrades: Sequence[Upgrade], run: Run = patient) -> list[str]:
    """Return dependencies that nothing needs after these upgrades, and that no repository has. Raises UpgradeError.

    Such a package came with a newer snapshot. Kernels and packages of Slurm stay. dnf knows them only after its upgrades.
    """
    if manager == "apt":
        wanted = [word for word in _INSTALL if word != "--no-remove"]
        command = [*wanted, *_apt_versions(upgrades, ())] if upgrades else ["apt-get", "autoremove"]
        text = _checked(run((command[0], "--simulate", "--auto-remove", *command[1:]))).stdout
        names = [match["name"] for match in map(_REMOVED.match, text.splitlines()) if match]
        offer = dpkg.offered(names, run) if names else {}
        names = [name for name in names if not offer.get(name)]
    else:
        query = ("dnf", "--quiet", "--cacheonly", "repoquery", "--qf=%{name}\\n")
        extras, unneeded = (set(_checked(run((*query, word))).stdout.split()) for word in ("--extras", "--unneeded"))
        names = sorted(extras & unneeded)
    return [name for name in names if not _has_own_upgrade(name) and not Upgrade(name, "", "").is_kernel]


def remove(manager: str, names: Sequence[str], run: Run = patient) -> None:
    """Remove these packages and no others. Raises UpgradeError."""
    if not names:
        return
    if manager == "apt":
        text = _checked(run(("apt-get", "--simulate", "purge", *names))).stdout
        others = {match["name"] for match in map(_REMOVED.match, text.splitlines()) if match} - set(names)
        if others:
            raise UpgradeError(
                f"{', '.join(sorted(others))} would be removed with {', '.join(names)}; nothing was removed"
            )
        _checked(run(("apt-get", "--yes", "--quiet", "purge", *names)))
    else:
        _checked(run(("dnf", "--assumeyes", "--quiet", "--noautoremove", "remove", *names)))


def refuse_own_upgrades(
    manager: str, upgrades: Sequence[Upgrade], run: Run = patient, without: Sequence[Upgrade] = ()
) -> None:
    """Raise UpgradeError if upgrades would also install a package that no run of this module upgrades. dnf excludes these itself."""
    if manager != "apt" or not upgrades:
        return
    command = (_INSTALL[0], "--simulate", *_INSTALL[1:], *_apt_versions(upgrades, without))
    found = [str(one) for one in _simulated(_checked(run(command)).stdout) if _has_own_upgrade(one.name)]
    if found:
        raise UpgradeError(
            f"the upgrades would also install {', '.join(found)}. Upgrade Slurm first, or hold the packages that need it"
        )


def _apt_versions(upgrades: Sequence[Upgrade], without: Sequence[Upgrade]) -> list[str]:
    """Return what apt-get installs by name; new packages are dependencies of these.

    apt has no option that excludes a package: the version that is installed, or `-` after the name of a new package.
    """
    stay = (f"{one.name}={one.old}" if one.old else f"{one.name}-" for one in without)
    return [*(f"{one.name}={one.new}" for one in upgrades if one.old), *stay]


def parsed_apt(text: str) -> list[Upgrade]:
    """Parse `apt-get --simulate upgrade`.

    >>> parsed_apt("Inst zip [3.0-13] (3.0-13+deb12u1 Debian-Security:12 [amd64])\\nInst slurmd [24] (25 Debian:13 [amd64])")
    [Upgrade(name='zip', old='3.0-13', new='3.0-13+deb12u1')]
    """
    return [one for one in _simulated(text) if not _has_own_upgrade(one.name)]


def _simulated(text: str) -> list[Upgrade]:
    """Return all that a simulation of apt-get would install."""
    matches = (match for match in map(_APT.match, text.splitlines()) if match)
    return [
        Upgrade(match["name"], match["old"] or "", match["new"], "security" in match["origin"].lower())
        for match in matches
    ]


def parsed_dnf(text: str) -> list[Upgrade]:
    """Parse `dnf list --upgrades`. Without a terminal dnf wraps after 80 columns: the next column is on the next line, after blanks.

    `dnf repoquery --upgrades` would not wrap, and ignores the priorities of repositories: it lists what `dnf upgrade` never installs.

    >>> parsed_dnf("Available Upgrades\\nkernel-core.x86_64    5.14.0-611.el9    baseos\\n")
    [Upgrade(name='kernel-core', old='installed', new='5.14.0-611.el9')]
    """
    matches = (match for match in map(_DNF.match, _WRAPPED.sub("  ", text).splitlines()) if match)
    return [
        Upgrade(match["name"], "installed", match["new"]) for match in matches if not _has_own_upgrade(match["name"])
    ]


def differing_rpms(installed: str, available: str) -> list[Upgrade]:
    """Return the packages whose newest installed version is not the newest of the repositories: lines of `dnf repoquery`.

    A package that no repository has stays out: verify reports it.

    >>> differing_rpms("zip\\tx86_64\\t0:3.0-2\\t@System\\n", "zip\\tx86_64\\t0:3.0-1\\tsnapshot-security\\n")
    [Upgrade(name='zip', old='0:3.0-2', new='0:3.0-1')]
    """
    wanted = {(name, arch): (version, repository) for name, arch, version, repository in _rpms(available)}
    there: dict[tuple[str, str], list[str]] = {}
    for name, arch, version, _repository in _rpms(installed):
        there.setdefault((name, arch), []).append(version)
    return [
        Upgrade(key[0], versions[-1], wanted[key][0], "security" in wanted[key][1])
        for key, versions in sorted(there.items())
        if key in wanted and wanted[key][0] not in versions and not _has_own_upgrade(key[0])
    ]


def _rpms(text: str) -> list[list[str]]:
    return [row for row in (line.split("\t") for line in text.splitlines()) if len(row) == 4]


def _has_own_upgrade(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in OWN_UPGRADE)


def _checked(outcome: Outcome) -> Outcome:
    if outcome.code != 0:
        raise UpgradeError(outcome.error_line)
    return outcome
