# SPDX-License-Identifier: GPL-3.0-or-later
"""enroot and pyxis: archives that the site names with their checksums, for they are in no distribution's repository."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ARCHIVES = "/var/lib/bedplate/archives"
NAMESPACES = "/etc/sysctl.d/60-bedplate-namespaces.conf"
PLUGSTACK = "/etc/slurm/plugstack.conf.d/pyxis.conf"
_SETTINGS = "/etc/enroot/enroot.conf.d/60-bedplate.conf"
_TMPFILES = "/etc/tmpfiles.d/bedplate-enroot.conf"
_SHARED = ("/run/enroot", "/var/lib/enroot")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}\Z")
_URL = re.compile(r"https?://\S+\Z")
_KEYS = ("source", "sha256")


def mistakes(choices: Mapping[str, Any]) -> Iterator[str]:
    """Yield everything that is wrong with enroot's and pyxis' archives."""
    if "enroot" not in choices["engines"]:
        return
    if not choices["enroot"] and not choices["packages"].get("enroot"):
        yield (
            "container_runtime_enroot: engine enroot is wanted, and no archive is named; allowed: a list of {source: path or URL of a "
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


def sources(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return `enroot` (archives, and files as bedplate.cluster.deploy takes them) and `pyxis` (archive and files), {} where not wanted.

    An archive has path (on the machine), source, sha256, and whether that is a url.
    """
    if "enroot" not in choices["engines"]:
        return {"enroot": {}, "pyxis": {}}
    archives = [_archive(one) for one in choices["enroot"]]
    enroot = {
        "archives": archives,
        "debs": [{"path": one["path"], "sha256": one["sha256"]} for one in archives],
        "files": _enroot_files(choices),
    }
    return {"enroot": enroot, "pyxis": _pyxis(choices) if choices["pyxis"] else {}}


def _pyxis(choices: Mapping[str, Any]) -> dict[str, Any]:
    plugin = f"{choices['pyxis_prefix']}/lib/slurm/spank_pyxis.so"
    # Optional would be worse: a job whose option nobody knows on its node runs there outside of any container.
    return {
        "archives": [_archive(choices["pyxis"])],
        "plugin": plugin,
        "entry": PLUGSTACK,
        "files": [{"path": PLUGSTACK, "content": f"required {plugin}\n"}],
    }


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


def _enroot_files(choices: Mapping[str, Any]) -> list[dict[str, str]]:
    settings = "".join(f"{name} {value}\n" for name, value in choices["enroot_settings"].items())
    return [
        {"path": ARCHIVES, "state": "directory"},
        {"path": NAMESPACES, "content": _namespaces(int(choices["namespaces"]))},
        # Jobs have no session, so none of the directories that a session has.
        *({"path": path, "state": "directory", "mode": "1777"} for path in _SHARED),
        {"path": _TMPFILES, "content": "".join(f"d {path} 1777 root root -\n" for path in _SHARED)},
        {"path": _SETTINGS, "content": settings},
    ]


def _namespaces(count: int) -> str:
    # A name with a dash before it is no mistake where a kernel has none of it.
    about = "# Containers of users: enroot makes a user and a mount namespace for each."
    lines = [about, "-kernel.unprivileged_userns_clone = 1", "-kernel.apparmor_restrict_unprivileged_userns = 0"]
    if count:
        lines += [f"user.max_user_namespaces = {count}", f"user.max_mnt_namespaces = {count}"]
    return "\n".join(lines) + "\n"
