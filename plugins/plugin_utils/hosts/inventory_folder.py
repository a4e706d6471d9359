# SPDX-License-Identifier: GPL-3.0-or-later
"""Find files beside a cluster file that Ansible would read as inventories."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

NEIGHBOURS = (
    "^fabric$",
    r"\.guids\.json$",
    r"\.machines\.json$",
    r"\.gpu-lock\.json$",
    r"\.snapshot-lock\.json$",
    r"\.gpu-table\.yml$",
    r"\.asc$",
    "^keys$",
    "^bios$",
    "^firmware$",
    "^images$",
    "^scripts$",
    "^files$",
    "^templates$",
    r"^vendor\.json$",
    r"\.csv$",
)
"""Patterns of names beside a cluster file that are not inventories; those of `ignore_patterns` in ansible.cfg."""


def mistakes(cluster_file: Path, sources: Iterable[str], ignored: Iterable[str]) -> Iterator[str]:
    """Yield a text if Ansible reads the whole folder of a cluster file, and with it files that are not inventories.

    `sources` are the inventories of the command, `ignored` is Ansible's setting `ignore_patterns`.
    """
    folder = cluster_file.resolve().parent
    if not any(Path(source).is_dir() and Path(source).resolve() == folder for source in sources):
        return
    own, skipped = re.compile("|".join(NEIGHBOURS)), re.compile("|".join(ignored) or "(?!)")
    found = sorted(path.name for path in folder.iterdir() if own.search(path.name) and not skipped.search(path.name))
    if found:
        yield (
            f"{folder}: Ansible reads {', '.join(found)} as inventories, and runs files there that are executable. "
            f"Name the cluster file instead of its folder: -i {cluster_file}. Or set in ansible.cfg, section [inventory]: "
            f"ignore_patterns = {', '.join(NEIGHBOURS)}"
        )
