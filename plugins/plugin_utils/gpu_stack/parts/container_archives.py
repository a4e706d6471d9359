# SPDX-License-Identifier: GPL-3.0-or-later
"""enroot and pyxis: archives that the site names with their checksums, because no distribution's repository has them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ARCHIVES = "/var/lib/bedplate/archives"
NAMESPACES = "/etc/sysctl.d/60-bedplate-namespaces.conf"
PLUGSTACK = "/etc/slurm/plugstack.conf.d/pyxis.conf"
_SHA256 = re.compile(r"[0-9a-fA-F]{64}\Z")
_URL = re.compile(r"https?://\S+\Z")
_KEYS = ("source", "sha256")


def mistakes(choices: Mapping[str, Any]) -> Iterator[str]:
    """Yield everything that is wrong with enroot's and pyxis' archives."""
    if "enroot" not in choices["engines"]:
        return
    if not choices["enroot"] and not choices["packages"].get("enroot"):
        yield (
            "container_runtime_enroot: the engine enroot needs an archive; allowed: a list of {source: path or URL of a "
            ".deb of enroot's release, sha256: ...}, or packages of a repository in container_runtime_packages: {enroot: [enroot]}"
        )
    for number, entry in enumerate(choices["enroot"], start=1):
        yield from _entry(f"container_runtime_enroot[{number}]", entry, ".deb")
    if choices["pyxis"]:
        yield from _entry("container_runtime_pyxis", choices["pyxis"], ".tar")
    names = [_name(entry) for entry in _all(choices) if isinstance(entry.get("source"), str)]
    yield from (f"{name}: two archives of one name" for name in sorted({one for one in names if names.count(one) > 1}))


def _entry(where: str, entry: Any, kind: str) -> Iterator[str]:
    if not isinstance(entry, Mapping) or set(entry) != set(_KEYS):
        yield f"{where}: {entry!r}; allowed: {{source: path on the control node or URL, sha256: its SHA-256}}"
        return
    source, sha256 = str(entry["source"]), str(entry["sha256"])
    if not _SHA256.match(sha256):
        yield f"{where}: sha256 {sha256!r}; allowed: 64 hexadecimal digits, as sha256sum prints them"
    if kind not in Path(source).name:
        yield f"{where}: source {source!r}; allowed: a file called *{kind}{'*' if kind == '.tar' else ''}"
    if _URL.match(source):
        return
    if not source.startswith("/"):
        yield f"{where}: source {source!r}; allowed: an absolute path on the control node, or an http or https URL"
    elif not Path(source).is_file():
        yield f"{where}: there is no file {source} on the control node"
    elif _SHA256.match(sha256) and (digest := _digest(source)) != sha256.lower():
        yield f"{where}: {source} has SHA-256 {digest}, not {sha256.lower()}: nothing is sent to any machine"


def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _all(choices: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = [*choices["enroot"], *([choices["pyxis"]] if choices["pyxis"] else [])]
    return [one for one in listed if isinstance(one, Mapping)]


@dataclass(frozen=True)
class Archives:
    """enroot's and pyxis' archives, each with path (on the machine), source, sha256 and whether that is a url; and pyxis' plugin."""

    wants_enroot: bool = False
    enroot: Sequence[Mapping[str, Any]] = ()
    pyxis: Sequence[Mapping[str, Any]] = ()
    plugin: str = ""


def decided(choices: Mapping[str, Any]) -> Archives:
    """Return the archives of the site; none where no engine is enroot."""
    if "enroot" not in choices["engines"]:
        return Archives()
    return Archives(
        wants_enroot=True,
        enroot=[_archive(one) for one in choices["enroot"]],
        pyxis=[_archive(choices["pyxis"])] if choices["pyxis"] else [],
        plugin=f"{choices['pyxis_prefix']}/lib/slurm/spank_pyxis.so" if choices["pyxis"] else "",
    )


def _archive(entry: Mapping[str, Any]) -> dict[str, Any]:
    source = str(entry["source"])
    return {
        "path": f"{ARCHIVES}/{_name(entry)}",
        "source": source,
        "sha256": str(entry["sha256"]).lower(),
        "url": bool(_URL.match(source)),
    }


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry["source"]).rsplit("/", 1)[-1].partition("?")[0]
