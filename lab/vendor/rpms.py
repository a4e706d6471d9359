# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins as signed rpms in repositories with module streams. For dnf to resolve and verify: their scripts are Debian's alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from lab.shell import capture
from lab.vendor import debs
from lab.vendor.signing import Keys
from lab.vendor.standins import StandIn

_RELATION = re.compile(r"(\S+) \((\S+) (\S+)\)")
_PLAIN = r"\1 \2 \3"
_MACROS = {
    "_build_id_links": "none",
    "__os_install_post": "%{nil}",
    "_binary_payload": "w1.gzdio",
    "_buildhost": "localhost",
    "use_source_date_epoch_as_buildtime": "1",
    "clamp_mtime_to_source_date_epoch": "1",
}
_HEAD = """\
Name: stand-ins
Version: 1
Release: 1
Summary: Stand-ins for tests
License: GPL-3.0-or-later
AutoReqProv: no
%description
Stand-ins for tests
%install
cp -a {stage}/. %{{buildroot}}
"""


def write(directory: Path, packages: Sequence[StandIn]) -> None:
    """Write the packages as rpms, unsigned, into a folder."""
    with tempfile.TemporaryDirectory(prefix="rpms-") as scratch:
        for number, group in enumerate(_groups(packages)):
            top = Path(scratch) / str(number)
            _build(top, group)
            for path in sorted((top / "RPMS").rglob("*.rpm")):
                shutil.copy(path, directory / path.name)


def file_name(package: StandIn) -> str:
    """Return the name of a package's file; without the epoch, as everywhere."""
    return f"{nevra(replace(package, version=package.version.rpartition(':')[2])).replace('-0:', '-', 1)}.rpm"


def nevra(package: StandIn) -> str:
    """Return name, epoch, version, release and architecture as dnf writes them."""
    epoch, _colon, version = package.version.rpartition(":")
    version = version if "-" in version else f"{version}-1"
    return f"{package.name}-{epoch or 0}:{version}.{os.uname().machine}"


def _groups(packages: Iterable[StandIn]) -> list[list[StandIn]]:
    """Return what one spec can have: a name and a file once each. A spec for each package would be hundreds of processes."""
    groups: list[tuple[set[str], list[StandIn]]] = []
    for package in packages:
        taken = {package.name, *(f"/{path}" for path in package.files)}
        fits = next((group for group in groups if not group[0] & taken), None)
        if fits is None:
            fits = (set(), [])
            groups.append(fits)
        fits[0].update(taken)
        fits[1].append(package)
    return [members for _taken, members in groups]


def _build(top: Path, packages: Iterable[StandIn]) -> None:
    stage = top / "stage"
    stage.mkdir(parents=True)
    text = _HEAD.format(stage=stage)
    for package in packages:
        for path, content in package.files.items():
            target = stage / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if content.link:
                target.symlink_to(content.text)
            else:
                target.write_text(content.text)
                target.chmod(content.mode)
        text += _package(package)
    (top / "stand-ins.spec").write_text(text)
    macros = {**_MACROS, "_topdir": str(top)}
    defined = [word for name, value in macros.items() for word in ("--define", f"{name} {value}")]
    command = ["env", f"SOURCE_DATE_EPOCH={debs.WHEN}", "rpmbuild", "-bb", "--quiet", "--nodeps", *defined]
    capture([*command, str(top / "stand-ins.spec")], why="The rpms of stand-ins could not be built.", timeout=300)


def _package(package: StandIn) -> str:
    epoch, _colon, version = package.version.rpartition(":")
    version, _dash, release = version.partition("-")
    said = f"{package.name}: stand-in for tests, not NVIDIA's software"
    lines = [f"%package -n {package.name}", f"Version: {version}", f"Release: {release or 1}", f"Summary: {said}"]
    if epoch:
        lines.append(f"Epoch: {epoch}")
    relations = (
        ("Requires", package.depends),
        ("Recommends", package.recommends),
        ("Provides", package.provides),
        ("Conflicts", package.conflicts),
        ("Obsoletes", package.replaces),
    )
    for tag, names in relations:
        lines += [f"{tag}: {_RELATION.sub(_PLAIN, name)}" for name in names]
    lines += ["AutoReqProv: no", f"%description -n {package.name}", said, f"%files -n {package.name}"]
    return "\n".join(["", *lines, *(f'"/{path}"' for path in package.files)]) + "\n"


def modules(packages: Iterable[StandIn]) -> str:
    """Return the module streams of these packages as modules.yaml; YAML takes JSON."""
    streams: dict[tuple[str, str], list[StandIn]] = {}
    for package in packages:
        for stream in package.streams:
            name, _colon, kind = stream.partition(":")
            streams.setdefault((name, kind), []).append(package)
    documents = []
    for (name, kind), members in streams.items():
        data = {
            "name": name,
            "stream": kind,
            "version": 20260101000000,
            "context": "bed91a7e",
            "arch": os.uname().machine,
            "summary": f"{name} {kind}: stand-ins for tests",
            "description": "Stand-ins for tests, not NVIDIA's software",
            "license": {"module": ["GPL-3.0-or-later"]},
            "profiles": {"default": {"rpms": sorted({one.name for one in members})}},
            "artifacts": {"rpms": sorted(nevra(one) for one in members)},
        }
        documents.append(f"---\n{json.dumps({'document': 'modulemd', 'version': 2, 'data': data}, indent=1)}\n...\n")
    return "".join(documents)


def index(folder: Path, packages: Sequence[StandIn], keys: Keys, name: str) -> None:
    """Write and sign what lists the rpms of a folder."""
    capture(
        ["createrepo_c", "--quiet", "--compatibility", str(folder)], why="The rpms could not be listed.", timeout=300
    )
    if text := modules(packages):
        (folder / "modules.yaml").write_text(text)
        capture(["modifyrepo_c", "--mdtype=modules", str(folder / "modules.yaml"), str(folder / "repodata")])
        (folder / "modules.yaml").unlink()
    repomd = folder / "repodata" / "repomd.xml"
    repomd.with_suffix(".xml.asc").write_text(keys.detached(name, repomd.read_text()))
