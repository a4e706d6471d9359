# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages a machine lacks, from dpkg's own records: one read, where apt opens its whole cache to say the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils import node_command
from ansible_collections.bedplate.cluster.plugins.module_utils.node_command import Outcome

EXTENDED_STATES = Path("/var/lib/apt/extended_states")
# name, name:architecture, name=version; apt alone understands the rest, such as name=1.2* and name/release.
_PLAIN = re.compile(r"(?P<name>[a-z0-9][a-z0-9+.-]+)(?::(?P<arch>[a-z0-9-]+))?(?:=(?P<version>[^*?\[\s]+))?\Z")
_FORMAT = "${Package}\\t${Architecture}\\t${db:Status-Status}\\t${Version}\\n"


def missing(
    wanted: Sequence[str],
    run: Callable[[list[str]], Outcome] = node_command.run,
    states: Path = EXTENDED_STATES,
) -> list[str]:
    """Return those packages of which dpkg's records do not show that they are installed for good, as they were asked for.

    What is installed as a dependency of others only counts as missing, since it goes with them; so does what only apt can
    tell, a virtual package for one.
    """
    parsed = {entry: _PLAIN.match(entry) for entry in wanted}
    names = sorted({found["name"] for found in parsed.values() if found})
    if not names:
        return list(wanted)
    # dpkg itself is asked for with them, for its architecture is this machine's.
    said = run(["dpkg-query", "--show", f"--showformat={_FORMAT}", "--", "dpkg", *names])
    versions = dict(_installed(said.stdout))
    native = next((arch for name, arch in versions if name == "dpkg"), "")
    passing = _passing(states)
    return [entry for entry, found in parsed.items() if not (found and _is_settled(found, native, versions, passing))]


def _is_settled(
    found: re.Match[str], native: str, versions: Mapping[tuple[str, str], str], passing: set[tuple[str, str]]
) -> bool:
    arch = found["arch"] or native
    for installed in ((found["name"], arch), (found["name"], "all")):
        if installed in versions and found["version"] in (None, versions[installed]):
            # apt records what serves every architecture under the machine's own.
            return not passing & {installed, (found["name"], native)}
    return False


def _installed(text: str) -> Iterator[tuple[tuple[str, str], str]]:
    for line in text.splitlines():
        name, arch, status, version = line.split("\t")
        if status == "installed":
            yield (name, arch), version


def _passing(states: Path) -> set[tuple[str, str]]:
    """Return (name, architecture) of what apt would remove with the packages that need it."""
    try:
        stanzas = states.read_text().split("\n\n")
    except FileNotFoundError:
        return set()
    found = set()
    for stanza in stanzas:
        fields = dict(line.partition(": ")[::2] for line in stanza.splitlines())
        if fields.get("Auto-Installed") == "1":
            found.add((fields.get("Package", ""), fields.get("Architecture", "")))
    return found
