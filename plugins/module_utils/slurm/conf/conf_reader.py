# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse any slurm.conf or gres.conf by the rules of Slurm's own parse_config.c.

Keys ignore case; only double quotes quote; `#` starts a comment unless written `\\#`; a backslash at the end of a line
continues it; `Include` reads another file; NodeName=DEFAULT and PartitionName=DEFAULT stand for the lines after them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...common.hostlist import HostlistError, expand

# Slurm's own pattern. In a file, blanks may surround the equals sign.
_PAIR = re.compile(r'\s*([A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:"([^"]*)"|(\S+))(?=\s|\Z)')
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)#.*", re.DOTALL)
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\s*\Z")
_INCLUDE = re.compile(r"\s*include\s+(\S+)", re.IGNORECASE)
# The keys that bedplate reads, each in one spelling; all other keys keep the file's spelling.
_SPELLING = {
    name.lower(): name
    for name in (
        *("NodeName", "NodeAddr", "NodeHostname", "BcastAddr", "Port", "Gres", "Feature", "State", "Reason"),
        *("PartitionName", "Nodes", "Default", "Hidden", "Name"),
    )
} | {"features": "Feature"}
# Options whose values Slurm pairs with the names of a NodeName line, one by one or one value for all.
_PER_NODE = ("NodeAddr", "NodeHostname", "BcastAddr", "Port")

Pairs = dict[str, str]


@dataclass
class Conf:
    """Lines of a file and its includes, each as its pairs; `unread` lists the missing includes with the reason."""

    lines: list[Pairs] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def option(self, name: str) -> str | None:
        """Return the value of a global option, None when the file does not set it."""
        for pairs in reversed(self.lines):
            if next(iter(pairs)) not in ("NodeName", "PartitionName"):
                for key, value in pairs.items():
                    if key.lower() == name.lower():
                        return value
        return None

    def records(self, key: str) -> Iterator[Pairs]:
        """Yield the lines that begin with a key, such as NodeName, completed from the DEFAULT lines before them."""
        default: Pairs = {}
        for pairs in self.lines:
            if next(iter(pairs), "") != key:
                continue
            if pairs[key].upper() == "DEFAULT":
                default = overlay(default, pairs)
            else:
                yield overlay({key: pairs[key], **default}, pairs)


def overlay(base: Mapping[str, str], changes: Mapping[str, str]) -> Pairs:
    """Return `base` updated with `changes`; keys ignore case.

    >>> overlay({"realmemory": "1", "CPUs": "2"}, {"RealMemory": "3"})
    {'realmemory': '3', 'CPUs': '2'}
    """
    spelled = {key.lower(): key for key in base}
    return {**base, **{spelled.get(key.lower(), key): value for key, value in changes.items()}}


def tokens(line: str) -> Pairs:
    """Split one whole line without comments into its pairs, up to the first word that is not a pair, as Slurm does.

    >>> tokens('nodename = n1 Reason="the fan\\'s loud"')
    {'NodeName': 'n1', 'Reason': "the fan's loud"}
    """
    pairs: Pairs = {}
    position = 0
    while match := _PAIR.match(line, position):
        quoted, plain = match[2], match[3]
        pairs[_SPELLING.get(match[1].lower(), match[1])] = plain if quoted is None else quoted
        position = match.end()
    return pairs


def whole_lines(text: str) -> Iterator[str]:
    """Yield the lines of a file as Slurm joins them: without comments and escapes, with continued lines joined."""
    begun = ""
    for line in text.split("\n"):
        line = begun + _COMMENT.sub(r"\1", line)
        joined = _CONTINUED.sub(r"\1", line)
        if joined != line:
            begun = joined
            continue
        begun = ""
        yield re.sub(r"\\(.)", r"\1", line)
    yield re.sub(r"\\(.)", r"\1", begun)


def parse(text: str, directory: Path | None = None, opened: tuple[Path, ...] = ()) -> Conf:
    """Parse the text of a file; its includes are searched in `directory`. `opened` are the files that include this one."""
    conf = Conf()
    for line in whole_lines(text):
        include = _INCLUDE.match(line)
        pairs = {} if include else tokens(line)
        if include:
            _include(conf, include[1], directory or Path(), opened)
        elif pairs:
            conf.lines.append(pairs)
    return conf


def _include(conf: Conf, name: str, directory: Path, opened: tuple[Path, ...]) -> None:
    path = directory / name.replace("%c", (conf.option("ClusterName") or "%c").lower())
    try:
        if path in opened:
            raise OSError("the files include each other in a circle")
        included = parse(_text(path), directory, (*opened, path))
    except OSError as error:
        conf.unread.append(f"Include {name}: {path}: {error.strerror or error}")
        return
    conf.lines += included.lines
    conf.unread += included.unread


def _text(path: Path) -> str:
    # A site's comments may be in any encoding; Slurm's names need only ASCII.
    return path.read_text(encoding="utf-8", errors="replace")


def read(path: Path) -> Conf:
    """Read a file and its includes; a missing file counts as empty."""
    try:
        return parse(_text(path), path.parent, (path,))
    except FileNotFoundError:
        return Conf()


def nodes_of(conf: Conf) -> dict[str, Pairs]:
    """Return every node with the pairs of its line; values for several nodes are reduced to this node's."""
    nodes: dict[str, Pairs] = {}
    for pairs in conf.records("NodeName"):
        names = expand(pairs["NodeName"])
        own = {key: _each(pairs[key], len(names)) for key in _PER_NODE if key in pairs}
        own.setdefault("NodeAddr", own.get("NodeHostname", names))
        for index, name in enumerate(names):
            nodes[name] = {**pairs, "NodeName": name, **{key: values[index] for key, values in own.items()}}
    return nodes


def _each(value: str, count: int) -> list[str]:
    """Return a value for each of `count` nodes: one hostlist, or one value for all."""
    try:
        values = expand(value)
    except HostlistError:  # an IPv6 address in brackets
        values = [value]
    return values if len(values) == count else [value] * count


def partitions_of(conf: Conf) -> dict[str, Pairs]:
    """Return every partition with the pairs of its line."""
    return {pairs["PartitionName"]: pairs for pairs in conf.records("PartitionName")}


def line_of(pairs: Mapping[str, str]) -> str:
    r"""Return pairs as a line that Slurm parses to the same pairs.

    >>> line_of({"NodeName": "n1", "Comment": "rack #3"})
    'NodeName=n1 Comment="rack \\#3"'
    """
    return " ".join(_pair(name, re.sub(r"([\\#])", r"\\\1", value)) for name, value in pairs.items())


def _pair(name: str, value: str) -> str:
    return f'{name}="{value}"' if not value or re.search(r"\s", value) else f"{name}={value}"
