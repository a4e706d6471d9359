# SPDX-License-Identifier: GPL-3.0-or-later
"""Open a backup on the control node with the private key, and prove it whole: every digest, row and file. Nothing in plain is written."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup import container, manifest
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.container import ContainerError
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.crypt import CryptError, KeyFolder
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.dump_rows import DumpRows
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.job_header import HeaderError, read
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.live_copy import JOB_STATE
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.manifest import (
    DATABASE,
    FILE,
    FILES,
    SECRETS,
    STATE,
    SUFFIX,
    Manifest,
    ManifestError,
)

# Files of a host that are secrets of the control node, by their names there.
KEYS = {"etc/munge/munge.key": "munge_key", "etc/slurm/jwt_hs256.key": "jwt_key"}
_MEGA = 1 << 20


class OpenError(Exception):
    """A file is not a whole backup that this key opens; the text has every mistake, one a line."""


@dataclass
class OpenedBackup:
    """A whole backup: its digest, the manifest of each host, and the secrets in it, of the control node's directory first."""

    digest: str
    manifests: dict[str, Manifest]
    secrets: dict[str, bytes] = field(default_factory=dict, repr=False)

    def host_of(self, member: str) -> str:
        """Return the host with this member, "" without one."""
        return next((host for host, one in self.manifests.items() if member in one.members), "")


@dataclass(frozen=True)
class PrivateKey:
    """The file of the private key, and its passphrase, empty without one."""

    path: Path
    passphrase: bytes = field(default=b"", repr=False)


@contextmanager
def unpacked(path: Path, key: PrivateKey) -> Iterator[tuple[KeyFolder, dict[str, dict[str, Path]]]]:
    """Unpack the encrypted members beside the backup, and import the key. Raises OpenError."""
    try:
        work = Path(tempfile.mkdtemp(prefix=".work-", dir=path.parent))
    except OSError as error:
        raise OpenError(f"{path.parent}: {error.strerror}") from error
    try:
        members = container.unpack(path, work)
        with KeyFolder() as keys:
            keys.accept(key.path)
            yield keys, members
    except (ContainerError, CryptError) as error:
        raise OpenError(str(error)) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def open_backup(path: Path, key: PrivateKey, seconds: float) -> OpenedBackup:
    """Return a backup that was decrypted to its end and compared with its manifests. Raises OpenError."""
    with unpacked(path, key) as (keys, members):
        opened = OpenedBackup(digest_of(path), {})
        wrong: list[str] = []
        of_hosts: dict[str, bytes] = {}
        for host, files in members.items():
            found = _manifest(keys, files[FILE], key, seconds)
            opened.manifests[host] = found
            if found.host != host:
                wrong.append(f"{host}: the manifest is of host {found.host}")
            named = {f"{name}{SUFFIX}" for name in found.members} | {FILE}
            wrong += [f"{host}: {name} is missing" for name in sorted(named - set(files))]
            wrong += [f"{host}: {name} is not in the manifest" for name in sorted(set(files) - named)]
            for name in sorted(found.members):
                if f"{name}{SUFFIX}" in files:
                    proof = _Proof(keys, files[f"{name}{SUFFIX}"], key, seconds)
                    wrong += [f"{host}: {name}: {text}" for text in proof.mistakes(name, found.members[name])]
                    (opened.secrets if name == SECRETS else of_hosts).update(proof.secrets)
        opened.secrets = {**of_hosts, **opened.secrets}
        if wrong:
            raise OpenError("\n".join([f"{path} is not a whole backup:", *wrong]))
        return opened


def session_key(path: Path, key: PrivateKey, host: str, member: str, seconds: float) -> str:
    """Return the session key of a member: it opens this member alone. Raises OpenError."""
    with unpacked(path, key) as (keys, members):
        return keys.session(members[host][f"{member}{SUFFIX}"], key.passphrase, seconds)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while data := stream.read(_MEGA):
            digest.update(data)
    return digest.hexdigest()


class _Proof:
    """The comparison of one member with its manifest."""

    def __init__(self, keys: KeyFolder, path: Path, key: PrivateKey, seconds: float) -> None:
        self._keys, self._path, self._key, self._seconds = keys, path, key, seconds
        self.secrets: dict[str, bytes] = {}

    def mistakes(self, name: str, facts: Mapping[str, Any]) -> list[str]:
        digest = hashlib.sha256()
        rows = DumpRows()
        # In memory: keys are in some members.
        with os.fdopen(os.memfd_create("member", os.MFD_CLOEXEC), "w+b") as stream:
            keep: Callable[[bytes], object] = rows.feed if name == DATABASE else stream.write

            def each(data: bytes) -> None:
                digest.update(data)
                keep(data)

            self._keys.decrypted(self._path, self._key.passphrase, self._seconds, each)
            if digest.hexdigest() != facts["sha256"]:
                return ["its content has another digest than the manifest says"]
            if name == DATABASE:
                return _row_mistakes(rows, facts)
            stream.seek(0)
            return self._tar_mistakes(name, stream, facts)

    def _tar_mistakes(self, name: str, stream: IO[bytes], facts: Mapping[str, Any]) -> list[str]:
        count = 0
        wrong = []
        try:
            with tarfile.open(fileobj=stream, mode="r:") as tar:
                for entry in tar:
                    count += 1
                    source = tar.extractfile(entry)
                    if source and name == STATE and entry.name == JOB_STATE:
                        header = read(source.read(64))
                        if header.next_id != facts["next_job"]:
                            wrong.append(
                                f"job_state has next id {header.next_id}, and the manifest {facts['next_job']}"
                            )
                    if source and name == SECRETS and "/" not in entry.name:
                        self.secrets[entry.name] = source.read()
                    if source and name == FILES and entry.name in KEYS:
                        self.secrets[KEYS[entry.name]] = source.read()
        except (tarfile.TarError, HeaderError) as error:
            return [str(error)]
        if count != facts["files"]:
            wrong.append(f"{count} files, and the manifest has {facts['files']}")
        return wrong


def _row_mistakes(rows: DumpRows, facts: Mapping[str, Any]) -> list[str]:
    end = rows.finish()
    if not rows.is_complete():
        return [f"the dump is cut short: it ends with {end[:80]!r}"]
    names = sorted({*rows.rows, *facts["rows"]})
    return [
        f"table {name}: {rows.rows.get(name, 'no')} rows, and the manifest has {facts['rows'].get(name, 'no')}"
        for name in names
        if rows.rows.get(name) != facts["rows"].get(name)
    ]


def _manifest(keys: KeyFolder, path: Path, key: PrivateKey, seconds: float) -> Manifest:
    text = bytearray()
    keys.decrypted(path, key.passphrase, seconds, text.extend)
    try:
        return manifest.parse(text.decode("utf-8", "replace"))
    except ManifestError as error:
        raise OpenError(f"{path.parent.name}/{path.name}: {error}") from error
