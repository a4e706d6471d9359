# SPDX-License-Identifier: GPL-3.0-or-later
"""The control node's part of a backup: the cluster file with the files beside it, and the secrets directory; and the file of a backup."""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.release import RELEASE
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup import container
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.crypt import KeyFolder
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.manifest import (
    CLUSTER,
    FILE,
    SECRETS,
    SITE,
    SUFFIX,
    Manifest,
    file_name,
)

from ..slurm.backup_part import records

_FOLDERS = ("group_vars", "host_vars")


def beside(cluster_file: Path) -> list[Path]:
    """Return the cluster file, the files of its name such as <name>.gpu-lock.json, and the variables of groups and hosts."""
    found = records(str(cluster_file))
    for folder in _FOLDERS:
        found += [one for one in (cluster_file.parent / folder).rglob("*") if one.is_file()]
    return sorted(found)


def secret_files(directory: Path) -> list[Path]:
    """Return all files of the secrets directory, also the records of earlier keys; [] without the directory."""
    return sorted(one for one in directory.iterdir() if one.is_file()) if directory.is_dir() else []


def collect(
    cluster: str,
    recipient: Path,
    parts: Mapping[str, Path],
    members: Mapping[str, tuple[Path, Iterable[Path]]],
    target: Path,
    at: float | None = None,
) -> tuple[Path, dict[str, int]]:
    """Write one file with the parts of all hosts and that of the control node; return it and the files of each of its members.

    `parts`: host -> file of its backup. `members`: name of a member of the control node -> base folder and files. Raises CryptError,
    ContainerError, OSError; then no file is left.
    """
    at = time.time() if at is None else at
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".work-", dir=target))
    try:
        counts: dict[str, int] = {}
        facts = {}
        found: dict[str, Path] = {}
        with KeyFolder() as keys:
            (work / SITE).mkdir(mode=0o700)
            for name, (base, files) in members.items():
                path = work / SITE / f"{name}{SUFFIX}"
                with keys.encrypted(path, recipient, 600.0) as sink:
                    counts[name] = _archive(sink, base, files)
                facts[name] = {"files": counts[name], **sink.facts()}
                found[f"{SITE}/{path.name}"] = path
            text = Manifest(cluster, SITE, int(at), members=facts, bedplate=RELEASE).text()
            with keys.encrypted(work / SITE / FILE, recipient, 60.0) as sink:
                sink.write(text.encode())
            found[f"{SITE}/{FILE}"] = work / SITE / FILE
        for host, part in parts.items():
            for name, path in container.unpack(part, work, [host]).get(host, {}).items():
                found[f"{host}/{name}"] = path
        file = target / file_name(cluster, "", at)
        container.write(file, found)
        return file, counts
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _archive(sink: object, base: Path, files: Iterable[Path]) -> int:
    count = 0
    with tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
        for path in files:
            data = path.read_bytes()
            entry = tarfile.TarInfo(str(path.relative_to(base)))
            entry.size, entry.mode, entry.mtime = len(data), path.stat().st_mode & 0o7777, int(path.stat().st_mtime)
            tar.addfile(entry, io.BytesIO(data))
            count += 1
    return count


MEMBERS = (CLUSTER, SECRETS)
