# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys below `slurm.packages` and `slurm.users`: who made Slurm's packages, and the numbers of its users."""

from __future__ import annotations

from typing import Any

from .fields import Field, with_values
from .text_rules import names

PACKAGINGS = ("debian", "schedmd", "openhpc", "own")
MANAGERS = ("apt", "dnf")
_PACKAGE: dict[str, Any] = {
    "pattern": r"[A-Za-z0-9][A-Za-z0-9+._-]*(=[^\s=]+)?",
    "allowed": "Allowed: the name of a package, or name=version.",
}
_PATTERN: dict[str, Any] = {
    "pattern": r"[A-Za-z0-9][A-Za-z0-9+._*?-]*",
    "allowed": "Allowed: the name of a package, or a pattern as in a shell.",
}
_PATH: dict[str, Any] = {"pattern": r"/[^\s\"#]*[^\s\"#/]", "allowed": "Allowed: an absolute path without blanks."}
_LARGEST = 4294967293

_OWN = {
    "database": names("Packages of the host of slurmdbd, with MariaDB's server.", **_PACKAGE),
    "controller": names("Packages of controllers.", **_PACKAGE),
    "compute": names("Packages of nodes, with the one of pam_slurm_adopt.so.", **_PACKAGE),
    "login": names("Packages of login hosts.", **_PACKAGE),
    "rest": names("Packages of hosts of slurmrestd.", **_PACKAGE),
    "headers": names("Packages of Slurm's headers, for pyxis.", **_PACKAGE),
    "release": names("Patterns of all packages whose version is Slurm's.", **_PATTERN),
    "makes_users": Field("Whether the packages make user slurm.", "bool"),
    "sackd": Field("Whether `login` has a package of sackd.", "bool"),
}
"""Keys that a site's own table must have, as far as the cluster uses them."""
_PATHS = {
    "state": Field("StateSaveLocation of the packages.", **_PATH),
    "spool": Field("SlurmdSpoolDir of the packages.", **_PATH),
    "log": Field("Directory of logs.", **_PATH),
}
OWN = (*_OWN, *_PATHS)
"""Keys of a site's own table."""
PACKAGES = {
    "packaging": Field(
        "Whose packages: Debian's, SchedMD's (debian/ or slurm.spec of Slurm's sources), OpenHPC's, or `own` with all keys below.",
        choices=PACKAGINGS,
    ),
    "manager": Field(
        "Package manager of the machines. By default the packaging's; for schedmd dnf if gpu_stack.os is an EL, else apt.",
        choices=MANAGERS,
    ),
    **_OWN,
    **_PATHS,
}
"""Keys of `slurm.packages`."""

_USER = {
    "uid": Field("Number of the user, the same on all machines.", "int", required=True, minimum=1, maximum=_LARGEST),
    "gid": Field("Number of its group; by default that of the user.", "int", minimum=1, maximum=_LARGEST),
}
USERS = {
    "slurm": Field(
        "User and group slurm. By default as the packages make them; where they make none, 64030.",
        "section",
        fields=with_values(_USER),
    ),
    "munge": Field(
        "User and group munge. By default as the package of munge makes them.", "section", fields=with_values(_USER)
    ),
}
"""Keys of `slurm.users`."""
