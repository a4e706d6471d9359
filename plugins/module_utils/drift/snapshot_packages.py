# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare installed packages and sources with the machine's snapshot: what waits, and what is from outside of it.

`expected`: `manager` is apt or dnf, `name` that of the snapshot, `urls` kind -> address of its repository, `base` the address of all
snapshots. A machine that still has the sources of another snapshot is compared with that one, and waits for the new one.

A package that is older than the snapshot's waits for a roll, which is no failure; pins, holds and locks count. A package in a version that
no repository of the snapshot has is from outside, unless an upgrade would replace it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..common.command import Runner, run_quick
from ..common.finding import WARNING, Finding
from ..common.sysfs import Root
from ..common.text import few, matches_any
from ..primitives.packages.upgrades import OWN_UPGRADE
from . import apt_files

OUTSIDE, PENDING, SLURM, SOURCE = "package-outside", "packages-pending", "slurm-pending", "source-outside"
ANOTHER = "snapshot-pending"
_SECURITY = "security"
_DPKG = (
    "dpkg-query",
    "--show",
    "--showformat",
    "${db:Status-Want} ${db:Status-Status} ${binary:Package} ${Version}\\n",
)
_RPM = ("dnf", "--quiet", "--cacheonly")
_QUERY = ("repoquery", "--qf=%{name}.%{arch}\\t%{epoch}:%{version}-%{release}\\t%{repoid}\\n")
_MOST = 500  # names in one command
_ROLL = "run playbooks/roll.yml -e roll_packages=true, or playbooks/host_packages.yml for a host that is not a node"
_SHOWN = 8


@dataclass
class Package:
    """An installed package: its version, and version -> kinds of the snapshot's repositories that have it, the newest first.

    `newer` is the version that an upgrade would install, or "".
    """

    name: str
    version: str
    is_held: bool = False
    newer: str = ""
    offered: dict[str, list[str]] = field(default_factory=dict)


def findings(root: Root, expected: Mapping[str, Any], run: Runner = run_quick) -> Iterator[Finding]:
    """Yield a finding for each package and source from outside, and one for all packages that wait."""
    is_apt = expected["manager"] == "apt"
    other = _other(root, expected)
    if other:
        found = f"sources of snapshot {other}"
        yield Finding(ANOTHER, "snapshot", f"sources of snapshot {expected['name']}", found, _ROLL, severity=WARNING)
        old, new = f"{expected['base']}{expected['name']}/", f"{expected['base']}{other}/"
        urls = {kind: url.replace(old, new, 1) for kind, url in expected["urls"].items()}
        expected = {**expected, "name": other, "urls": urls}
    yield from _sources(root, expected) if is_apt else _repositories(expected, run)
    listed, problem = (_of_apt if is_apt else _of_dnf)(expected["urls"], run)
    if problem:
        remedy = f"make {expected['manager']} work on this machine, then verify again"
        yield Finding("unread", "installed packages", "to be compared with the snapshot", problem, remedy)
        return
    for one in listed:
        if not one.newer and one.version not in one.offered:
            yield _outside(one, expected["name"])
    waiting = [one for one in listed if one.newer]
    own = [one for one in waiting if matches_any(one.name.partition(":")[0], OWN_UPGRADE)]
    others = [one for one in waiting if one not in own]
    if others:
        yield _pending(PENDING, others, expected["name"], _ROLL)
    if own:
        # Slurm's daemons are upgraded in their order.
        yield _pending(SLURM, own, expected["name"], "run playbooks/upgrade_slurm.yml, or wait for the next release")


def _other(root: Root, expected: Mapping[str, Any]) -> str:
    """Return the snapshot that the sources of the machine name, or "": the expected one, none, or several."""
    if expected["manager"] == "apt":
        urls = [one.uri for one in apt_files.sources(root)]
    else:
        paths = [name for name in root.names("etc/yum.repos.d") if name.startswith("bedplate-snapshot-")]
        lines = [line for name in paths for line in root.lines(f"etc/yum.repos.d/{name}")]
        urls = [line.partition("=")[2].strip() for line in lines if line.startswith("baseurl=")]
    base = expected["base"]
    names = {url[len(base) :].partition("/")[0] for url in urls if url.startswith(base)}
    return next(iter(names)) if len(names) == 1 and expected["name"] not in names else ""


def _outside(one: Package, snapshot: str) -> Finding:
    newest = next(iter(one.offered), "")
    remedy = (
        f"{_ROLL}: it installs {newest}" if newest else "remove the package, or add its repository to the next snapshot"
    )
    wanted = newest or "no such package"
    return Finding(OUTSIDE, f"package {one.name}", f"{wanted} in snapshot {snapshot}", one.version, remedy)


def _pending(kind: str, waiting: Sequence[Package], snapshot: str, remedy: str) -> Finding:
    urgent = [one.name for one in waiting if _SECURITY in one.offered.get(one.newer, ())]
    names = few([f"{one.name} {one.version} -> {one.newer}" for one in waiting], _SHOWN)
    found = f"{len(waiting)} {'waits' if len(waiting) == 1 else 'wait'}, security updates among them: {len(urgent)}"
    more = f" ({few(urgent, _SHOWN)})" if urgent else ""
    return Finding(kind, f"packages of snapshot {snapshot}", "", f"{found}{more}: {names}", remedy, severity=WARNING)


def _sources(root: Root, expected: Mapping[str, Any]) -> Iterator[Finding]:
    bases = tuple(f"{url.rstrip('/')}/" for url in expected["urls"].values())
    for one in apt_files.sources(root):
        if not f"{one.uri.rstrip('/')}/".startswith(bases):
            found = f"{one.uri} {one.suite} in {one.place}"
            remedy = f"remove {one.place}, or run playbooks/os.yml, which sets it aside"
            yield Finding(
                SOURCE, "apt sources", f"snapshot {expected['name']} alone", found, remedy, overridden_by=one.place
            )


def _repositories(expected: Mapping[str, Any], run: Runner) -> Iterator[Finding]:
    """Yield a finding for each repository of dnf that is enabled and not of the snapshot."""
    own = set(_ids(expected["urls"]))
    for line in run(("dnf", "--quiet", "repolist", "--enabled")).stdout.splitlines()[1:]:
        name = line.split()[0] if line.split() else ""
        if name and name not in own:
            remedy = f"disable {name}, or run playbooks/os.yml, which does"
            yield Finding(
                SOURCE, "dnf repositories", f"snapshot {expected['name']} alone", f"{name} is enabled", remedy
            )


def _ids(urls: Mapping[str, str]) -> dict[str, str]:
    return {f"bedplate-snapshot-{kind}": kind for kind in urls}


def _of_apt(urls: Mapping[str, str], run: Runner) -> tuple[list[Package], str]:
    """Return the installed packages, and why they cannot be read, or ""."""
    said = run(_DPKG)
    rows = [line.split(" ") for line in said.stdout.splitlines()]
    there = {
        row[2]: Package(row[2], row[3], row[0] == "hold") for row in rows if len(row) == 4 and row[1] == "installed"
    }
    if said.code != 0 or not there:
        return [], f"dpkg-query: {said.error_line}"
    native = run(("dpkg", "--print-architecture")).stdout.strip()
    names = sorted(there)
    for start in range(0, len(names), _MOST):
        policy = run(("apt-cache", "policy", *names[start : start + _MOST]))
        if policy.code != 0:
            return [], f"apt-cache policy: {policy.error_line}"
        for name, (candidate, offered) in parsed_policy(policy.stdout, urls).items():
            # apt leaves the machine's own architecture out, with which dpkg names packages of several ones.
            one = there.get(name) or there.get(f"{name}:{native}")
            if one:
                one.offered = offered
                one.newer = candidate if candidate in offered and _waits(one, candidate, run) else ""
    return [there[name] for name in names], ""


def _waits(one: Package, candidate: str, run: Runner) -> bool:
    """Return whether an upgrade would install the candidate; a held package in a version of the snapshot stays."""
    if candidate == one.version or (one.is_held and one.version in one.offered):
        return False
    return run(("dpkg", "--compare-versions", one.version, "lt", candidate)).code == 0


def parsed_policy(text: str, urls: Mapping[str, str]) -> dict[str, tuple[str, dict[str, list[str]]]]:
    """Return package -> candidate, and version -> kinds of these repositories that have it, in the order of `apt-cache policy`.

    apt lists a version twice if the installed package has other relations than that of the repository: another build of it.

    >>> policy = "zip:\\n  Candidate: 2.9-1\\n  Version table:\\n *** 3.0-1 100\\n        100 /var/lib/dpkg/status\\n"
    >>> parsed_policy(policy + "     2.9-1 1001\\n       1001 http://m/s/system ./ Packages\\n", {"system": "http://m/s/system"})
    {'zip': ('2.9-1', {'2.9-1': ['system']})}
    """
    found: dict[str, tuple[str, dict[str, list[str]]]] = {}
    name = version = installed = ""
    for line in text.splitlines():
        if line and not line[0].isspace():
            name, version, installed = line.rstrip(":"), "", ""
            found[name] = "", {}
        elif match := re.match(r"  (Installed|Candidate): (\S+)", line):
            if match[1] == "Installed":
                installed = match[2]
            else:
                found[name] = match[2], {}
        elif match := re.match(r" (\*\*\*|   ) (\S+) -?\d+", line):
            is_another = match[1] != "***" and match[2] == installed
            version = f"{match[2]} of another build" if is_another else match[2]
        elif version and (match := re.match(r"\s+-?\d+ (\S+)", line)):
            for kind, url in urls.items():
                if _plain(match[1]) == _plain(url):
                    found[name][1].setdefault(version, []).append(kind)
    return found


def _plain(url: str) -> str:
    # apt writes file:/a for what may be file:///a in its sources.
    return re.sub(r"^file:/+", "file:/", url.rstrip("/"))


def _of_dnf(urls: Mapping[str, str], run: Runner) -> tuple[list[Package], str]:
    """Return the installed packages, and why they cannot be read, or ""."""
    ids = _ids(urls)
    alone = ("--disablerepo=*", *(f"--enablerepo={one}" for one in ids))
    commands = (
        (*_RPM, *_QUERY, "--installed"),
        # All versions, also those that a lock excludes.
        (*_RPM, "--disableplugin=versionlock", *alone, *_QUERY, "--available"),
        (*_RPM, *alone, *_QUERY, "--upgrades", "--latest-limit=1"),
    )
    outcomes = [run(words) for words in commands]
    for done in outcomes:
        if done.code != 0:
            return [], f"dnf repoquery: {done.error_line}"
    there, wanted, upgrades = (_rows(done.stdout) for done in outcomes)
    offered: dict[str, dict[str, list[str]]] = {}
    for name, version, repository in wanted:
        offered.setdefault(name, {}).setdefault(version, []).append(ids.get(repository, repository))
    newer = {name: version for name, version, _repository in upgrades}
    listed = [
        # dnf lists the oldest first.
        Package(name, version, False, newer.get(name, ""), dict(reversed(list(offered.get(name, {}).items()))))
        for name, version, _repository in there
        if not name.startswith("gpg-pubkey.")
    ]
    return listed, "" if listed else "dnf repoquery lists no installed package"


def _rows(text: str) -> list[list[str]]:
    return [row for row in (line.split("\t") for line in text.splitlines()) if len(row) == 3]
