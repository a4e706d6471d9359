# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare packages with the roles' packages, and with the next actions of the package manager."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..common.command import Runner, run_quick
from ..common.finding import Finding
from ..common.sysfs import Root
from ..common.versions import matches
from . import apt

_DPKG = ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${db:Status-Status}\\n"]
_PROVIDES = ["dpkg-query", "--show", "--showformat", "${Provides}\\n"]
_RPM = ["rpm", "--query", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE} installed\\n"]


def findings(root: Root, expected: Mapping[str, Any], run: Runner = run_quick) -> Iterator[Finding]:
    """Compare the rows of `expected["packages"]`: name, version ("" is any), held, role; `manager` is apt or dnf."""
    rows = expected["packages"]
    yield from _installed(rows, expected["manager"], run)
    if expected["manager"] == "apt":
        yield from apt.findings(root, expected, run)


def _installed(rows: Sequence[Mapping[str, Any]], manager: str, run: Runner) -> Iterator[Finding]:
    names = {str(row["name"]).partition("/")[0].partition(":")[0]: row for row in rows}
    if not names:
        return
    outcome = run([*(_DPKG if manager == "apt" else _RPM), *names])
    lines = [line.split() for line in outcome.stdout.splitlines()]
    there = {line[0]: line[1] for line in lines if len(line) == 3 and line[2] == "installed"}
    virtual = _virtual(run) if manager == "apt" and set(names) - set(there) else set()
    for name, row in names.items():
        version, found = str(row.get("version", "")), there.get(name, "")
        is_right = name in virtual or (found and matches(found, version))
        if not is_right:
            remedy = f"run the playbook of {row.get('role', 'its role')} again"
            yield Finding("package", f"package {name}", version or "installed", found or "not installed", remedy)


def _virtual(run: Runner) -> set[str]:
    """Return the names that installed packages provide."""
    return {one.split()[0] for line in run(_PROVIDES).stdout.splitlines() for one in line.split(",") if one.split()}
