# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest of one host's part of a backup: its members with counts and digests, its cluster and release."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .job_list import BackedUpJobs

FORMAT = 1
FILE, SUFFIX = "manifest.json.gpg", ".gpg"
STATE, DATABASE, FILES = "state.tar", "database.sql", "files.tar"
"""Members of a host: StateSaveLocation, the dump, and keys and configuration."""
CLUSTER, SECRETS = "cluster.tar", "secrets.tar"
"""Members of the control node: the cluster file with the files beside it, and the secrets directory."""
SITE = "site"
"""Name of the control node's part."""
_STAMP = "%Y%m%dT%H%M%SZ"
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


class ManifestError(ValueError):
    """A text is not a manifest of this format."""


@dataclass(frozen=True)
class Manifest:
    """Hold the content of a host's part. `members`: name -> bytes, sha256, and counts such as `files` or `rows`, table -> rows."""

    cluster: str
    host: str
    at: int
    slurm: str = ""
    jobs: BackedUpJobs | None = None
    members: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    bedplate: str = ""

    def text(self) -> str:
        """Return it as JSON."""
        found = {**asdict(self), "format": FORMAT, "jobs": self.jobs.facts() if self.jobs else None}
        return json.dumps(found, indent=1, sort_keys=True) + "\n"

    def rows(self) -> dict[str, int]:
        """Return table -> rows of the dump, {} without one."""
        return {str(name): int(count) for name, count in self.members.get(DATABASE, {}).get("rows", {}).items()}


def parse(text: str) -> Manifest:
    """Return a manifest. Raises ManifestError."""
    try:
        found = json.loads(text)
        if found["format"] != FORMAT:
            raise ManifestError(
                f"format {found['format']}; allowed: {FORMAT}. Use the release of bedplate that wrote it"
            )
        for name, one in found["members"].items():
            if not _DIGEST.match(one["sha256"]) or not isinstance(one["bytes"], int):
                raise ManifestError(f"{name} has no digest")
        jobs = BackedUpJobs.of(found["jobs"]) if found["jobs"] else None
        names = ("cluster", "host", "slurm", "bedplate")
        return Manifest(
            at=int(found["at"]), jobs=jobs, members=found["members"], **{name: str(found[name]) for name in names}
        )
    except ManifestError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ManifestError(f"not a manifest of a backup: {error!r}") from error


def stamp(at: float) -> str:
    """Return a time as part of a file's name.

    >>> stamp(0)
    '19700101T000000Z'
    """
    return time.strftime(_STAMP, time.gmtime(at))


def file_name(cluster: str, host: str, at: float) -> str:
    """Return the name of the file of a backup; `host` is "" for one of all hosts.

    >>> file_name("lab", "ctl1", 0), file_name("lab", "", 0)
    ('lab-ctl1-19700101T000000Z.backup', 'lab-19700101T000000Z.backup')
    """
    return "-".join([cluster, *([host] if host else []), stamp(at)]) + ".backup"
