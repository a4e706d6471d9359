# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare installed packages and sources with the machine's snapshot: what waits, and what is from outside of it.

`expected`: `manager` is apt or dnf, `name` that of the snapshot, `urls` kind -> address of its repository. A package that is older than the
snapshot's waits for a roll, which is no failure. A package that no repository of the snapshot has, or that is newer than its own, is from
outside.
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
_SECURITY = "security"
_DPKG = ("dpkg-query", "--show", "--showformat", "${db:Status-Status} ${binary:Package} ${Version}\\n")
_RPM = ("dnf", "--quiet", "--cacheonly", "--disableplugin=versionlock", "repoquery")
_FORMAT = "--qf=%{name}.%{arch}\\t%{epoch}:%{version}-%{release}\\t%{repoid}\\n"
_MOST = 500  # names in one command
_ROLL = "run playbooks/roll.yml -e roll_packages=true, or playbooks/host_packages.yml for a host that is not a node"
_SHOWN = 8


@dataclass
class Package:
    """An installed package: its version, and version -> kinds of the snapshot's repositories that have it, the newest first."""

    name: str
    version: str
    offered: dict[str, list[str]] = field(default_factory=dict)


def findings(root: Root, expected: Mapping[str, Any], run: Runner = run_quick) -> Iterator[Finding]:
    """Yield a finding for each package and source from outside, and one for all packages that wait."""
    is_apt = expected["manager"] == "apt"
    yield from _sources(root, expected) if is_apt else _repositories(expected, run)
    listed, problem = (_of_apt if is_apt else _of_dnf)(expected["urls"], run)
    if problem:
        remedy = f"make {expected['manager']} work on this machine, then verify again"
        yield Finding("unread", "installed packages", "to be compared with the snapshot", problem, remedy)
        return
    waiting = []
    for one in listed:
        if one.version in one.offered:
            continue
        newest = next(iter(one.offered), "")
        if newest and _is_older(one.version, newest, expected["manager"], run):
            waiting.append((one, newest))
        else:
            yield _outside(one, newest, expected["name"])
    own = [pair for pair in waiting if matches_any(pair[0].name.partition(":")[0], OWN_UPGRADE)]
    others = [pair for pair in waiting if pair not in own]
    if others:
        yield _pending(PENDING, others, expected["name"], _ROLL)
    if own:
        # Slurm's daemons are upgraded in their order.
        yield _pending(SLURM, own, expected["name"], "run playbooks/upgrade_slurm.yml, or wait for the next release")


def _outside(one: Package, newest: str, snapshot: str) -> Finding:
    remedy = (
        f"{_ROLL}: it installs {newest}" if newest else "remove the package, or add its repository to the next snapshot"
    )
    wanted = newest or "no such package"
    return Finding(OUTSIDE, f"package {one.name}", f"{wanted} in snapshot {snapshot}", one.version, remedy)


def _pending(kind: str, waiting: Sequence[tuple[Package, str]], snapshot: str, remedy: str) -> Finding:
    urgent = [one.name for one, newest in waiting if _SECURITY in one.offered[newest]]
    names = few([f"{one.name} {one.version} -> {newest}" for one, newest in waiting], _SHOWN)
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
    said = run(_DPKG)
    rows = [line.split(" ") for line in said.stdout.splitlines()]
    there = {row[1]: Package(row[1], row[2]) for row in rows if len(row) == 3 and row[0] == "installed"}
    if said.code != 0 or not there:
        return [], f"dpkg-query: {said.error_line}"
    native = run(("dpkg", "--print-architecture")).stdout.strip()
    names = sorted(there)
    for start in range(0, len(names), _MOST):
        policy = run(("apt-cache", "policy", *names[start : start + _MOST]))
        if policy.code != 0:
            return [], f"apt-cache policy: {policy.error_line}"
        for name, offered in parsed_policy(policy.stdout, urls).items():
            # apt leaves the machine's own architecture out, with which dpkg names packages of several ones.
            one = there.get(name) or there.get(f"{name}:{native}")
            if one:
                one.offered = offered
    return [there[name] for name in names], ""


def parsed_policy(text: str, urls: Mapping[str, str]) -> dict[str, dict[str, list[str]]]:
    """Return package -> version -> kinds of these repositories that have it, in the order of `apt-cache policy`.

    apt lists a version twice if the installed package has other relations than that of the repository: another build of it.

    >>> policy = "zip:\\n  Version table:\\n *** 3.0-1 100\\n        100 /var/lib/dpkg/status\\n"
    >>> parsed_policy(policy + "     2.9-1 1001\\n       1001 http://m/s/system ./ Packages\\n", {"system": "http://m/s/system"})
    {'zip': {'2.9-1': ['system']}}
    """
    found: dict[str, dict[str, list[str]]] = {}
    name = version = installed = ""
    for line in text.splitlines():
        if line and not line[0].isspace():
            name, version, installed = line.rstrip(":"), "", ""
            found[name] = {}
        elif line.startswith("  Installed: "):
            installed = line.rpartition(" ")[2]
        elif match := re.match(r" (\*\*\*|   ) (\S+) -?\d+", line):
            is_another = match[1] != "***" and match[2] == installed
            version = f"{match[2]} of another build" if is_another else match[2]
        elif version and (match := re.match(r"\s+-?\d+ (\S+)", line)):
            for kind, url in urls.items():
                if _plain(match[1]) == _plain(url):
                    found[name].setdefault(version, []).append(kind)
    return found


def _plain(url: str) -> str:
    # apt writes file:/a for what may be file:///a in its sources.
    return re.sub(r"^file:/+", "file:/", url.rstrip("/"))


def _of_dnf(urls: Mapping[str, str], run: Runner) -> tuple[list[Package], str]:
    ids = _ids(urls)
    said = run((*_RPM, "--installed", _FORMAT))
    wanted = run((*_RPM, "--available", "--disablerepo=*", *(f"--enablerepo={one}" for one in ids), _FORMAT))
    for done in (said, wanted):
        if done.code != 0:
            return [], f"dnf repoquery: {done.error_line}"
    offered: dict[str, dict[str, list[str]]] = {}
    for name, version, repository in _rows(wanted.stdout):
        offered.setdefault(name, {}).setdefault(version, []).append(ids.get(repository, repository))
    listed = [
        # dnf lists the oldest first.
        Package(name, version, dict(reversed(list(offered.get(name, {}).items()))))
        for name, version, _repository in _rows(said.stdout)
        if not name.startswith("gpg-pubkey.")
    ]
    return listed, "" if listed else "dnf repoquery lists no installed package"


def _rows(text: str) -> list[list[str]]:
    return [row for row in (line.split("\t") for line in text.splitlines()) if len(row) == 3]


def _is_older(version: str, other: str, manager: str, run: Runner) -> bool:
    """Return whether a version is older than another one, as the package manager compares them."""
    if manager == "apt":
        return run(("dpkg", "--compare-versions", version, "lt", other)).code == 0
    said = run(("rpm", "--eval", f"%{{lua:print(rpm.vercmp('{version}', '{other}'))}}"))
    return said.stdout.strip() == "-1"
