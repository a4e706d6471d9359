# SPDX-License-Identifier: GPL-3.0-or-later
"""Write and compare kernel settings that are files and that a reboot resets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ...common.finding import Finding
from ...common.sysfs import Root

IDLE = "sys/devices/system/cpu/cpu[0-9]*/cpuidle/state[0-9]*/latency"


@dataclass(frozen=True)
class Write:
    """A value for every file that matches a path with * and [...]; `optional`: a machine may have no such file."""

    path: str
    value: str
    optional: bool = False


def writes_from(data: Sequence[Mapping[str, Any]]) -> list[Write]:
    """Return the settings of JSON objects."""
    return [Write(str(one["path"]).lstrip("/"), str(one["value"]), bool(one.get("optional"))) for one in data]


def chosen(text: str) -> str:
    """Return the value of a file that may list the allowed values.

    >>> chosen("always [madvise] never"), chosen("performance")
    ('madvise', 'performance')
    """
    marked = [word[1:-1] for word in text.split() if word.startswith("[") and word.endswith("]")]
    return marked[0] if len(marked) == 1 else text.strip()


def fitting(root: Root, pattern: str) -> list[str]:
    """Return the paths that match a pattern; links to directories are followed."""
    found = [""]
    for part in pattern.strip("/").split("/"):
        if any(sign in part for sign in "*["):
            found = [f"{one}/{name}" for one in found for name in root.names(one) if fnmatchcase(name, part)]
        else:
            found = [f"{one}/{part}" for one in found]
    return [one.lstrip("/") for one in found if root.exists(one)]


def apply(root: Root, wanted: Sequence[Write]) -> list[str]:
    """Write the values that differ; return what the kernel refused."""
    failed = []
    for one in wanted:
        paths = fitting(root, one.path)
        if not paths and not one.optional:
            failed.append(f"/{one.path}: cannot be set to {one.value}: this machine lacks the setting")
        for path in paths:
            if chosen(root.text(path) or "") == one.value:
                continue
            try:
                root.find(path).write_text(f"{one.value}\n")
            except OSError as error:
                failed.append(f"/{path}: the kernel refused {one.value}: {error.strerror}")
                continue
            if (there := chosen(root.text(path) or "")) != one.value:
                failed.append(f"/{path}: {one.value} was written, but the file reads {there or 'empty'}")
    return failed


def drift(root: Root, wanted: Sequence[Write]) -> Iterator[Finding]:
    """Compare the files; of many equal differences, the first one is reported with their number."""
    for one in wanted:
        paths = fitting(root, one.path)
        wrong = [(path, there) for path in paths if (there := chosen(root.text(path) or "")) != one.value]
        if not paths and not one.optional:
            fix = "this kernel or this machine lacks the setting: remove it from the role's variables"
            yield Finding("kernel-file", f"/{one.path}", one.value, "no such file", fix)
        if wrong:
            path, there = wrong[0]
            more = f" (and {len(wrong) - 1} more of {len(paths)})" if len(wrong) > 1 else ""
            yield Finding(
                "kernel-file",
                f"/{path}{more}",
                one.value,
                there or "empty",
                "systemctl restart bedplate-tuning; who changed it?",
            )


def idle_states(root: Root, most: int | None) -> list[Write]:
    """Return writes for the cores' idle states that disable all with an exit latency of more than `most` microseconds."""
    found = []
    for path in fitting(root, IDLE):
        latency = root.text(path) or ""
        off = most is not None and latency.isdecimal() and int(latency) > most
        found.append(Write(f"{path.rpartition('/')[0]}/disable", str(int(off))))
    return found
