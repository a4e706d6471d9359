# SPDX-License-Identifier: GPL-3.0-or-later
"""Read DKMS's names of modules: from the dkms.conf in their sources, and from `dkms status`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# A value is in quotes or one word; `[0]` is the index of one of several modules.
_SETTING = re.compile(
    r"^[ \t]*(?P<key>[A-Z_]+)(?:\[\d+\])?=(?:\"(?P<quoted>[^\"]*)\"|(?P<word>[^\s\"#]*))", re.MULTILINE
)
# `nvidia/580.126.09, 6.8.0-90-generic, x86_64: installed`; dkms 2 of Ubuntu 22.04 writes a comma instead of the slash.
_STATUS = re.compile(r"(?P<name>[^/,\s]+)(?:/|, )(?P<version>[^,\s]+), (?P<kernel>[^,\s]+), \S+: (?P<state>\w+)")
# A module that is in DKMS' tree and built for no kernel.
_ADDED = re.compile(r"[^/,\s]+(?:/|, )[^,\s]+: added\b")
# The kernel module that every NVIDIA driver builds, whatever the distribution calls the package and the file.
_DRIVER = "nvidia"


@dataclass(frozen=True)
class DkmsModule:
    """A module as DKMS names it. `depends` are modules that must be built before it; `is_driver`: it builds NVIDIA's driver."""

    name: str
    version: str
    depends: tuple[str, ...] = ()
    is_driver: bool = False

    @property
    def options(self) -> list[str]:
        """The options of dkms that name this module."""
        return ["-m", self.name, "-v", self.version]


def modules_in(sources: Path) -> list[DkmsModule]:
    """Return the modules with sources in a directory such as /usr/src, as their dkms.conf names them."""
    return [_module(conf) for conf in sorted(sources.glob("*/dkms.conf"))]


def _module(conf: Path) -> DkmsModule:
    settings: dict[str, list[str]] = {}
    for found in _SETTING.finditer(conf.read_text(encoding="utf-8", errors="replace")):
        settings.setdefault(found["key"], []).append(found["quoted"] if found["quoted"] is not None else found["word"])
    # DKMS itself finds the sources by the name of their directory.
    of_folder, _dash, version_of_folder = conf.parent.name.rpartition("-")
    name, version = settings.get("PACKAGE_NAME", [""])[-1], settings.get("PACKAGE_VERSION", [""])[-1]
    is_stated = f"{name}-{version}" == conf.parent.name
    return DkmsModule(
        name if is_stated else of_folder,
        version if is_stated else version_of_folder,
        tuple(word for one in settings.get("BUILD_DEPENDS", []) for word in one.split()),
        _DRIVER in settings.get("BUILT_MODULE_NAME", []),
    )


def installed_for(status: str) -> dict[str, set[tuple[str, str]]]:
    """Return kernel -> (name, version) of the modules that DKMS has installed for it, from the output of `dkms status`.

    >>> installed_for("nvidia/580.126.09, 6.8.0-90-generic, x86_64: installed\\nlustre/2.15.5: added\\n")
    {'6.8.0-90-generic': {('nvidia', '580.126.09')}}
    """
    found: dict[str, set[tuple[str, str]]] = {}
    for line in status.splitlines():
        row = _STATUS.match(line.strip())
        if row and row["state"] == "installed":
            found.setdefault(row["kernel"], set()).add((row["name"], row["version"]))
    return found


def unread_lines(status: str) -> list[str]:
    """Return the lines of `dkms status` that have another form; a module that is only added has no kernel."""
    return [
        line.strip()
        for line in status.splitlines()
        if line.strip() and not _STATUS.match(line.strip()) and not _ADDED.match(line.strip())
    ]
