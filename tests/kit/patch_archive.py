# SPDX-License-Identifier: GPL-3.0-or-later
"""A signed archive that has everything that machines have installed, and packages of a test with real content.

What is installed already is never fetched, so its file is a stand-in; its paragraph is dpkg's, by which apt takes both for one version.
"""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror import signing
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.signing import Signer

# Of dpkg's records alone.
_OWN = ("Status", "Conffiles", "Config-Version")


@dataclass(frozen=True)
class PatchPackage:
    """A package of a test."""

    name: str
    version: str
    depends: str = ""


@dataclass
class PatchArchive:
    """A flat repository in a directory: `installed` are paragraphs of dpkg, `packages` those of the test."""

    directory: Path
    signer: Signer
    installed: dict[tuple[str, str, str], str] = field(default_factory=dict)
    packages: list[PatchPackage] = field(default_factory=list)

    def add_installed(self, status: str) -> None:
        """Take what a machine has, as its /var/lib/dpkg/status says."""
        for block in status.strip().split("\n\n"):
            fields = _fields(block)
            if fields.get("Status", "").endswith(" installed"):
                text = "".join(f"{name}: {value}\n" for name, value in fields.items() if name not in _OWN)
                self.installed[fields["Package"], fields["Version"], fields["Architecture"]] = text

    def publish(self) -> None:
        """Write files and index, and sign them."""
        (self.directory / "pool").mkdir(parents=True, exist_ok=True)
        rows = [self._stand_in(*identity, text) for identity, text in sorted(self.installed.items())]
        rows += [self._built(package) for package in self.packages]
        index = "\n".join(rows).encode()
        (self.directory / "Packages").write_bytes(index)
        digest = f" {hashlib.sha256(index).hexdigest()} {len(index)} Packages\n"
        release = f"Suite: test\nCodename: test\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n{digest}"
        (self.directory / "InRelease").write_text(self.signer.sign(release))

    def _stand_in(self, name: str, version: str, architecture: str, text: str) -> str:
        path = self.directory / f"pool/{name}_{version.replace(':', '%3a')}_{architecture}.deb"
        if not path.exists():
            path.write_text(f"stand-in of {name} {version} {architecture}\n")
        return f"{text}{self._located(path)}"

    def _built(self, package: PatchPackage) -> str:
        depends = f"Depends: {package.depends}\n" if package.depends else ""
        control = (
            f"Package: {package.name}\nVersion: {package.version}\nArchitecture: all\nMaintainer: tests <tests@example.org>\n{depends}"
            "Description: a package of a test\n"
        )
        path = self.directory / f"pool/{package.name}_{package.version}_all.deb"
        if not path.exists():
            tree = self.directory / "trees" / f"{package.name}_{package.version}"
            (tree / "DEBIAN").mkdir(parents=True)
            (tree / "usr/share" / package.name).mkdir(parents=True)
            (tree / "usr/share" / package.name / "version").write_text(f"{package.version}\n")
            (tree / "DEBIAN/control").write_text(control)
            words = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(path)]
            subprocess.run(words, check=True, capture_output=True)
        return f"{control}{self._located(path)}"

    def _located(self, path: Path) -> str:
        data = path.read_bytes()
        # In an index a % of a file's name is a % of its address.
        name = path.relative_to(self.directory)
        return f"Filename: {name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"


def new_key() -> Signer:
    """Return a key for an archive."""
    return signing.signer(signing.generate("a local archive"))


def _fields(block: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in block.splitlines():
        if line[:1] in (" ", "\t") and name:
            fields[name] += f"\n{line}"
        else:
            name, _colon, value = line.partition(":")
            fields[name] = value.strip()
    return fields
