#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of Slurm under the names and relations of SchedMD's, with the binaries of Debian's, in a signed repository.

    repack.py apt|dnf DEBIAN OUT

DEBIAN is a folder of Debian's .deb files. OUT becomes a flat repository, and OUT.asc is its key. Runs on a machine of a scenario, with
dpkg-deb and gpg; for dnf also rpmbuild, rpmsign and createrepo_c. The packages have no maintainer scripts: as SchedMD's, they make no
user. Their plugins stay where Debian's binaries look for them, in slurm-wlm.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLE = json.loads(Path(__file__).with_name("slurm.json").read_text())
WHO = "packages@stand-in.example.org"
# Debian's own: alternatives, init scripts, users, questions of pam-auth-update, a plugstack.conf, documentation.
_NOT_SCHEDMDS = ("etc/init.d", "etc/logrotate.d", "etc/slurm", "usr/lib/sysusers.d", "usr/share", "var")


@dataclass(frozen=True)
class Package:
    """A package to be built. `tree`: its files. `libraries`: Debian's packages of libraries that its binaries need."""

    name: str
    tree: Path
    libraries: tuple[str, ...]
    same: tuple[str, ...]
    needs: tuple[str, ...]
    conflicts: tuple[str, ...]


def main(manager: str, debian: str, out: str) -> None:
    """Build the repository."""
    folder = Path(out)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # A short path: the socket of gpg's agent must fit into 108 bytes.
    with tempfile.TemporaryDirectory(prefix="gpg-", dir="/tmp") as home, tempfile.TemporaryDirectory() as scratch:
        gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback"]
        _run(
            *gpg,
            "--passphrase",
            "",
            "--quick-generate-key",
            f"Stand-ins, for tests only <{WHO}>",
            "ed25519",
            "sign",
            "never",
        )
        Path(f"{out}.asc").write_text(_run(*gpg, "--armor", "--export", WHO))
        packages = [package(row, Path(debian), Path(scratch) / row["name"]) for row in TABLE[manager]]
        (_write_debs if manager == "apt" else _write_rpms)(folder, packages, gpg)


def sources(manager: str) -> list[str]:
    """Return Debian's packages that are needed."""
    return list(dict.fromkeys(name for row in TABLE[manager] for name in row["from"]))


def package(row: Mapping[str, Any], debian: Path, tree: Path) -> Package:
    """Unpack Debian's packages of a row into `tree`, as SchedMD's package has the files."""
    libraries: dict[str, None] = {}
    tree.mkdir(parents=True)
    for name in row["from"]:
        (file,) = debian.glob(f"{name}_*.deb")
        _run("dpkg-deb", "--extract", str(file), str(tree))
        depends = _run("dpkg-deb", "--field", str(file), "Depends")
        libraries |= dict.fromkeys(one for one in depends.strip().split(", ") if _is_library(one))
    for path in (*_NOT_SCHEDMDS, *row.get("without", ())):
        for found in tree.glob(path):
            shutil.rmtree(found)
    for program in tree.glob("usr/sbin/*-wlm"):
        program.rename(program.with_name(program.name.removesuffix("-wlm")))
    for old, new in row.get("moved", {}).items():
        for found in tree.glob(old):
            (tree / new).mkdir(parents=True)
            found.rename(tree / new / found.name)
    for daemon, settings in TABLE["units"].items():
        unit = tree / f"usr/lib/systemd/system/{daemon}.service"
        if unit.exists():
            unit.write_text(with_settings(unit.read_text(), settings))
    while left := _empty_folders(tree):
        for folder in left:
            (tree / folder).rmdir()
    for directory in row.get("directories", ()):
        (tree / directory).mkdir(parents=True)
    relations = (tuple(row.get(key, ())) for key in ("same", "needs", "conflicts"))
    return Package(row["name"], tree, tuple(libraries), *relations)


def _is_library(depends: str) -> bool:
    """Return True if a dependency is a library of another source than Slurm's."""
    return depends.startswith("lib") and not depends.startswith("libslurm")


def with_settings(unit: str, settings: Mapping[str, Sequence[str]]) -> str:
    """Return the text of a unit with these settings of [Service], which replace its own.

    >>> with_settings("[Service]\\nUser=a\\nType=simple\\n", {"User": ["b"]})
    '[Service]\\nUser=b\\nType=simple\\n'
    """
    lines = [line for line in unit.splitlines() if line.partition("=")[0] not in settings]
    new = [f"{key}={value}" for key, values in settings.items() for value in values]
    place = lines.index("[Service]") + 1
    return "\n".join([*lines[:place], *new, *lines[place:]]) + "\n"


def _files(tree: Path) -> list[Path]:
    return sorted(path.relative_to(tree) for path in tree.rglob("*") if path.is_symlink() or not path.is_dir())


def _empty_folders(tree: Path) -> list[Path]:
    return sorted(path.relative_to(tree) for path in tree.rglob("*") if path.is_dir() and not any(path.iterdir()))


def _write_debs(folder: Path, packages: Iterable[Package], gpg: Sequence[str]) -> None:
    version, architecture = TABLE["version"], _run("dpkg", "--print-architecture").strip()
    stanzas = []
    for one in packages:
        depends = [*one.libraries, *(f"{name} (= {version})" for name in one.same), *one.needs]
        lines = [
            f"Package: {one.name}",
            f"Version: {version}",
            f"Architecture: {architecture}",
            "Maintainer: The bedplate authors <bedplate@example.org>",
            *([f"Depends: {', '.join(depends)}"] if depends else []),
            *([f"Conflicts: {', '.join(one.conflicts)}"] if one.conflicts else []),
            f"Description: {one.name}: Debian's binaries under SchedMD's names, for tests",
        ]
        control = "\n".join(lines) + "\n"
        meta = one.tree / "DEBIAN"
        meta.mkdir()
        (meta / "control").write_text(control)
        if conffiles := [f"/{path}\n" for path in _files(one.tree) if path.parts[0] == "etc"]:
            (meta / "conffiles").write_text("".join(conffiles))
        name = f"{one.name}_{version}_{architecture}.deb"
        _run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(one.tree), str(folder / name))
        data = (folder / name).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        stanzas.append(f"{control}Filename: ./{name}\nSize: {len(data)}\nSHA256: {digest}\n")
    index = "\n".join(stanzas).encode()
    (folder / "Packages").write_bytes(index)
    release = f"Origin: Stand-ins\nArchitectures: {architecture}\nDate: {_run('date', '--utc', '--rfc-email').strip()}\nSHA256:\n"
    release += f" {hashlib.sha256(index).hexdigest()} {len(index)} Packages\n"
    (folder / "InRelease").write_text(_run(*gpg, "--clearsign", "--output", "-", stdin=release))


def _write_rpms(folder: Path, packages: Sequence[Package], gpg: Sequence[str]) -> None:
    version, _dash, release = TABLE["version"].partition("-")
    release = f"{release}.el9"
    exactly = f"= {version}-{release}"
    top = packages[0].tree.parent
    text = "Name: stand-ins\nVersion: 1\nRelease: 1\nSummary: Stand-ins\nLicense: GPL-3.0-or-later\nAutoReqProv: no\n"
    text += "%description\nStand-ins for tests\n%install\nmkdir -p %{buildroot}\n"
    text += "".join(f"cp -a {one.tree}/. %{{buildroot}}\n" for one in packages)
    for one in packages:
        text += f"%package -n {one.name}\nVersion: {version}\nRelease: {release}\nAutoReqProv: no\n"
        text += "Summary: Debian's binaries under SchedMD's names, for tests\n"
        text += "".join(f"Requires: {name} {exactly}\n" for name in one.same)
        text += "".join(f"Requires: {name}\n" for name in one.needs)
        text += f"%description -n {one.name}\n{one.name}, for tests\n%files -n {one.name}\n"
        text += "".join(f"/{path}\n" for path in _files(one.tree))
        text += "".join(f"%dir /{path}\n" for path in _empty_folders(one.tree))
    spec = top / "slurm.spec"
    spec.write_text(text)
    macros = {
        "_topdir": str(top), "_build_id_links": "none", "__os_install_post": "%{nil}", "_binary_payload": "w1.gzdio",
        "_gpg_name": WHO, "_gpg_path": gpg[2], "__gpg": "/usr/bin/gpg", "_gpg_digest_algo": "sha256",
    }  # fmt: skip
    defined = [word for name, value in macros.items() for word in ("--define", f"{name} {value}")]
    _run("rpmbuild", "-bb", "--quiet", "--nodeps", *defined, str(spec))
    files = [shutil.copy(path, folder) for path in sorted((top / "RPMS").rglob("*.rpm"))]
    _run("rpmsign", *defined, "--addsign", *map(str, files))
    _run("createrepo_c", "--quiet", str(folder))
    repomd = folder / "repodata/repomd.xml"
    _run(*gpg, "--armor", "--detach-sign", str(repomd))


def _run(*command: str, stdin: str = "") -> str:
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    if sys.argv[1:2] == ["sources"]:
        print("\n".join(sources(sys.argv[2])))
    else:
        main(*sys.argv[1:])
