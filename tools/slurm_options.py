#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write plugins/plugin_utils/slurm/tables/options.json from Slurm's own parser tables and manual pages.

Run it by hand when a Slurm release is to be supported: add the release to RELEASES, then

    git clone --bare https://github.com/SchedMD/slurm slurm.git
    tools/slurm_options.py slurm.git > plugins/plugin_utils/slurm/tables/options.json

It reads the option tables (``s_p_options_t``) of the last tag of each release, and from slurm.conf(5) of the releases
before 23.11 which options take a restart. Only names, types and versions are kept: no text of Slurm's.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The oldest are only read to say since when an option is gone.
HISTORY = ["18.08", "19.05", "20.02", "20.11", "21.08"]
RELEASES = ["22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11", "26.05"]

# kind: the files that may hold its table, over the releases, and the names of the tables
_READ_CONFIG = ("src/common/read_config.c",)
_CGROUP = ("src/interfaces/cgroup.c", "src/common/cgroup.c", "src/common/xcgroup_read_config.c")
_TREE = ("src/plugins/topology/tree/switch_record.c", "src/plugins/topology/tree/topology_tree.c")
_BLOCK = ("src/plugins/topology/block/block_record.c", "src/plugins/topology/block/topology_block.c")
SOURCES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "slurm": (_READ_CONFIG, ("slurm_conf_options",)),
    "node": (_READ_CONFIG, ("_nodename_options",)),
    "partition": (_READ_CONFIG, ("_partition_options",)),
    "nodeset": (_READ_CONFIG, ("_nodeset_options",)),
    "downnodes": (_READ_CONFIG, ("_downnodes_options",)),
    "cgroup": (_CGROUP, ("options",)),
    "slurmdbd": (("src/slurmdbd/read_config.c",), ("options",)),
    "gres": (("src/interfaces/gres.c", "src/common/gres.c"), ("_gres_options", "_gres_conf_options")),
    "switch": (_TREE, ("_switch_options", "switch_options")),
    "block": (_BLOCK, ("_block_options", "block_options")),
}
# The key that begins a line belongs to the options of that line.
LINE_KEYS = {"node": "NodeName", "partition": "PartitionName", "nodeset": "NodeSet", "downnodes": "DownNodes"}

_TABLE = r"s_p_options_t\s+{name}\[\]\s*=\s*{{(.*?)\{{\s*NULL\s*\}}"
_ENTRY = re.compile(r'\{\s*(?:\.key\s*=\s*)?"(\w+)"\s*,\s*(?:\.type\s*=\s*)?S_P_(\w+)(?:\s*,\s*(\w+))?')
# An option the parser knows only to refuse it, or to ask for its removal.
_GONE = re.compile(
    r"The (\w+) option has been removed|Support for (\w+) option has been removed"
    r'|"(\w+) has been removed\.|(\w+) option is obsolete'
)
_RESTART = re.compile(
    r"A restart of (?P<who>[^.]*?)(?:is|are) required|The (?P<one>\w+) daemon must be restarted"
    r"|(?P<all>All Slurm daemons)[^.]*(?:restarted|terminated)"
)


class Slurm:
    """A bare clone of Slurm's repository."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tags = self.git("tag", "--list", "slurm-*").split()

    def git(self, *arguments: str) -> str:
        """Run git and return what it prints, or nothing when it fails."""
        done = subprocess.run(["git", "-C", str(self.path), *arguments], capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""

    def tag(self, release: str) -> str:
        """Return the last tag of a release."""
        numbered = {
            tuple(int(number) for number in re.findall(r"\d+", tag)): tag
            for tag in self.tags
            if re.fullmatch(rf"slurm-{release.replace('.', '-')}(-\d+)+", tag)
        }
        return numbered[max(numbered)]

    def text(self, release: str, paths: tuple[str, ...]) -> str:
        """Return the first of the files that the release has."""
        tag = self.tag(release)
        return next((text for path in paths if (text := self.git("show", f"{tag}:{path}"))), "")


def entries(text: str, tables: tuple[str, ...]) -> Iterator[tuple[str, str, bool]]:
    """Yield name, type and whether it is defunct, of all options in the tables."""
    gone = {name for match in _GONE.finditer(re.sub(r'"\s*\n\s*"', "", text)) for name in match.groups() if name}
    for table in tables:
        for body in re.findall(_TABLE.format(name=table), text, re.DOTALL):
            for name, kind, handler in _ENTRY.findall(body):
                yield name, kind.lower(), handler == "_defunct_option" or name in gone


def kind_table(slurm: Slurm, kind: str) -> dict[str, dict[str, Any]]:
    """Return the options of one kind with the releases that know them."""
    paths, tables = SOURCES[kind]
    options: dict[str, dict[str, Any]] = {}
    for release in [*HISTORY, *RELEASES]:
        found = {name: (type_, defunct) for name, type_, defunct in entries(slurm.text(release, paths), tables)}
        if kind in LINE_KEYS and found:
            found[LINE_KEYS[kind]] = ("string", False)
        for name, (type_, defunct) in found.items():
            option = options.setdefault(name, {"since": release, "types": {}})
            option.pop("removed", None)
            if type_ not in list(option["types"].values())[-1:]:
                option["types"][release] = type_
            if defunct:
                option.setdefault("defunct", release)
        for name, option in options.items():
            if name not in found and found:
                option.setdefault("removed", release)
    return {name: shorten(options[name]) for name in sorted(options, key=str.lower)}


def shorten(option: dict[str, Any]) -> dict[str, Any]:
    """Leave out what holds for all supported releases."""
    if option["since"] in [*HISTORY, RELEASES[0]]:
        del option["since"]
    types = list(option.pop("types").items())
    option["type"] = types[-1][1] if len(types) == 1 or types[-1][0] in [*HISTORY, RELEASES[0]] else dict(types)
    return dict(sorted(option.items()))


def restarts(slurm: Slurm, release: str) -> dict[str, list[str]]:
    """Return the options whose change needs a restart by slurm.conf(5), with the daemons."""
    page = slurm.text(release, ("doc/man/man5/slurm.conf.5",)).replace("\\-", "-")
    found: dict[str, list[str]] = {}
    for section in re.split(r"^\.TP\n(?=\\fB[A-Z]\w+\\fR)", page, flags=re.MULTILINE)[1:]:
        name = re.match(r"\\fB(\w+)\\fR", section)
        match = _RESTART.search(re.sub(r"\s+", " ", re.sub(r"\\f.", "", section)).split(".SH")[0])
        if name and match:
            who = match["who"] or match["one"] or "slurmctld slurmd"
            found.setdefault(name[1], [daemon for daemon in ("slurmctld", "slurmd") if daemon in who])
    return dict(sorted(found.items()))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("repository", type=Path, help="bare clone of github.com/SchedMD/slurm")
    slurm = Slurm(parser.parse_args().repository)
    table: dict[str, Any] = {
        "releases": RELEASES,
        "tags": {release: slurm.tag(release) for release in RELEASES},
        "options": {kind: kind_table(slurm, kind) for kind in SOURCES},
        "restart": {},
    }
    for release in [name for name in RELEASES if name < "23.11"]:  # later ones re-execute themselves on reconfigure
        known = table["options"]["slurm"]
        table["restart"][release] = {name: who for name, who in restarts(slurm, release).items() if name in known}
    print(render(table))
    return 0


def render(table: dict[str, Any]) -> str:
    """Write one option a line, so that a new release is a readable diff."""
    lines = ["{"]
    for section, content in table.items():
        lines.append(f'  "{section}": ' + ("{" if isinstance(content, dict) else json.dumps(content) + ","))
        if isinstance(content, dict):
            for key, value in content.items():
                lines += [f'    "{key}": ' + (json.dumps(value) + "," if not isinstance(value, dict) else "{")]
                if isinstance(value, dict):
                    lines += [f'      "{name}": {json.dumps(option)},' for name, option in value.items()]
                    lines += ["    },"]
            lines.append("  },")
    text = "\n".join([*lines, "}"])
    return re.sub(r",(\n\s*[}\]])", r"\1", text)


if __name__ == "__main__":
    sys.exit(main())
