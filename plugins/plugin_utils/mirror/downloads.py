# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch files from their origins, each under a temporary name until its checksum is right."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import atomic_place

from .mirror_model import MirrorError

HELPER = "/usr/lib/apt/apt-helper"
# apt itself gives up on a server that is silent; this is for a server that dribbles.
_BATCH, _DAY = 200, 86400.0
_THREADS = 4
_FAILED = re.compile(r"E: Failed to fetch (?P<url>\S+)  (?P<why>.+(?:\n .+)*)")
_BLOCK = 1 << 20
_SPARE = 64 << 20  # bytes for the index and the file system, beside the files


@dataclass(frozen=True)
class Download:
    """A file for the path `target`; `size` in bytes, None if unknown."""

    url: str
    target: Path
    sha256: str
    size: int | None = None


def sha256_of(path: Path) -> str:
    """Return the checksum of a file."""
    found = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def absent(jobs: Iterable[Download]) -> list[Download]:
    """Return the files that are missing or differ: every file is read."""
    with ThreadPoolExecutor(_THREADS) as pool:
        listed = list(jobs)
        return [job for job, there in zip(listed, pool.map(_is_there, listed), strict=True) if not there]


def size_of(jobs: Iterable[Download]) -> int:
    """Return how many bytes are fetched; files with one content are fetched once."""
    return sum({job.sha256: job.size or 0 for job in jobs}.values())


def fetch_all(jobs: Sequence[Download], directory: Path, config: Path, unchanged: str) -> None:
    """Fetch all files by way of `<directory>/.incoming`; `unchanged` says what a failure leaves as it is.

    MirrorError: too little space for them, or files that did not arrive whole; complete ones are kept.
    """
    make_directory(directory)
    size, free = size_of(jobs), shutil.disk_usage(directory).free
    if free < size + _SPARE:
        lack = f"{size >> 20} MiB must be fetched, and {free >> 20} MiB are free"
        raise MirrorError([f"{directory}: {lack}. Make room, or set mirror_directory"])
    if jobs and (failed := fetch(jobs, directory / ".incoming", config)):
        raise MirrorError(
            [*failed, f"Complete files are kept, {unchanged}; run it again when the origin has recovered"]
        )


def fetch(jobs: Sequence[Download], incoming: Path, config: Path) -> list[str]:
    """Fetch the files; return the errors, a text for each. Half a file stays in `incoming`, and the next run resumes it.

    `config` is apt's: it fetches, by the proxies and logins that it knows.
    """
    make_directory(incoming.parent)
    incoming.mkdir(mode=0o700, exist_ok=True)
    # The same file may be for several systems.
    by_sum = {job.sha256: job for job in jobs}
    reasons: dict[str, str] = {}
    remote = [job for job in by_sum.values() if not job.url.startswith("file:")]
    for start in range(0, len(remote), _BATCH):
        reasons.update(_remote(remote[start : start + _BATCH], incoming, config))
    for job in by_sum.values():
        if job.url.startswith("file:"):
            reasons.update(_local(job, incoming))
    wrong = {sha256: _wrong(job, incoming / sha256, reasons.get(job.url, "")) for sha256, job in by_sum.items()}
    for job in jobs:
        if not wrong[job.sha256]:
            _place(incoming / job.sha256, job.target)
    for sha256 in by_sum:
        if not wrong[sha256]:
            (incoming / sha256).unlink()
    return [text for text in wrong.values() if text]


def _remote(jobs: Sequence[Download], incoming: Path, config: Path) -> dict[str, str]:
    triples = [word for job in jobs for word in (job.url, str(incoming / job.sha256), f"SHA256:{job.sha256}")]
    done = command.run(["env", f"APT_CONFIG={config}", HELPER, "download-file", *triples], _DAY)
    found = {match["url"]: match["why"].splitlines()[0].strip() for match in _FAILED.finditer(done.stderr)}
    if done.code != 0 and not found:
        return {job.url: done.text for job in jobs}
    return found


def _local(job: Download, incoming: Path) -> dict[str, str]:
    try:
        shutil.copyfile(unquote(job.url[len("file:") :]), incoming / job.sha256)
    except OSError as error:
        return {job.url: error.strerror or str(error)}
    return {}


def _wrong(job: Download, path: Path, reason: str) -> str:
    """Return the error of a file that did not arrive whole; "": it did."""
    failed = path.with_name(f"{path.name}.FAILED")
    came = next((one for one in (path, failed) if one.is_file()), None)
    if came == path and not reason and sha256_of(path) == job.sha256:
        return ""
    got = "nothing"
    if came is not None:
        got = f"{came.stat().st_size} bytes with SHA256 {sha256_of(came)}"
    # What is whole and wrong is of no use; what broke off is what the next run goes on from.
    if came == failed or (came == path and not reason):
        came.unlink()
    size = "" if job.size is None else f"{job.size} bytes with "
    return f"{job.url}: {reason or 'another file than was expected'}; expected {size}SHA256 {job.sha256}, got {got}"


def make_directory(path: Path) -> None:
    """Make a directory and its parents, which web servers may read with any umask."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        one.chmod(0o755)


def _place(source: Path, target: Path) -> None:
    make_directory(target.parent)
    atomic_place(source, target, 0o644)


def _is_there(job: Download) -> bool:
    try:
        if job.size is not None and job.target.stat().st_size != job.size:
            return False
        return sha256_of(job.target) == job.sha256
    except OSError:
        return False
