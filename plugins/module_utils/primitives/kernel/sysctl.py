# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply and compare sysctl settings, and find other files that set the same keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ...common.finding import WARNING, Finding
from ...common.sysfs import Root

FILE = "etc/sysctl.d/60-bedplate.conf"
# systemd-sysctl's order of preference for files with one name; only procps reads /etc/sysctl.conf, and reads it last.
DIRECTORIES = ("etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d")
_LINE = re.compile(r"\s*(-?)\s*([^\s=#;][^=]*?)\s*(?:=\s*(.*?)\s*)?\Z")
_OLD = "etc/sysctl.conf"
# Two keys for one setting: the kernel sets one to 0 when the other one is written.
_PAIRS = (("vm.dirty_bytes", "vm.dirty_ratio"), ("vm.dirty_background_bytes", "vm.dirty_background_ratio"))
_PARTNERS = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}


@dataclass(frozen=True)
class SysctlLine:
    """A line of a file: its place, the key with dots, and the value."""

    file: str
    line: int
    key: str
    value: str | None  # None: the key is excluded from patterns

    @property
    def place(self) -> str:
        """Return file and line."""
        return f"/{self.file}:{self.line}"


def dotted(key: str) -> str:
    """Return a key as sysctl writes it: the first separator (. or /) decides which of the two is the separator.

    >>> dotted("net/ipv4/conf/eth0.100/rp_filter"), dotted("vm.swappiness")
    ('net.ipv4.conf.eth0/100.rp_filter', 'vm.swappiness')
    """
    first = next((sign for sign in key if sign in "./"), ".")
    return key.translate(str.maketrans("./", "/.")) if first == "/" else key


def path_of(key: str) -> str:
    """Return the file of a key with dots.

    >>> path_of("net.ipv4.conf.eth0/100.rp_filter")
    'proc/sys/net/ipv4/conf/eth0.100/rp_filter'
    """
    return "proc/sys/" + key.translate(str.maketrans("./", "/."))


def partner(key: str) -> str:
    """Return the key that the kernel sets to 0 when this one is written; "" for most keys.

    >>> partner("vm.dirty_ratio"), partner("vm.swappiness")
    ('vm.dirty_bytes', '')
    """
    return _PARTNERS.get(key, "")


def equal(one: str, other: str) -> bool:
    """Return whether the kernel treats two values as equal: it separates numbers by tabs."""
    return one.split() == other.split()


def settings(lines: Sequence[str], file: str) -> Iterator[SysctlLine]:
    """Yield the settings of a sysctl.d file; a line with a dash and only a key excludes the key."""
    for number, line in enumerate(lines, 1):
        match = _LINE.match(line)
        if match and match[2][0] not in "#;" and (match[3] is not None or match[1]):
            yield SysctlLine(file, number, dotted(match[2].strip()), match[3])


def read_at_boot(root: Root) -> Iterator[SysctlLine]:
    """Yield the lines that systemd-sysctl reads, in its order: sorted by file name, where one file may hide another of its name."""
    files: dict[str, str] = {}
    for directory in DIRECTORIES:
        for name in root.names(directory):
            if name.endswith(".conf"):
                files.setdefault(name, f"{directory}/{name}")
    for name in sorted(files):
        yield from settings(root.lines(files[name]), files[name])


def _winner(lines: Sequence[SysctlLine], key: str) -> SysctlLine | None:
    """Return the line from which systemd-sysctl takes a key: the last line that names it, else the last pattern that matches."""
    last = pattern = None
    for one in lines:
        if one.key == key:
            last = one
        elif is_pattern(one.key) and one.value is not None and fits(one.key, key):
            pattern = one
    # A key that a line names is not set by patterns, even if the line only excludes it.
    return last or pattern


def is_pattern(key: str) -> bool:
    """Return whether a key is a pattern."""
    return any(sign in key for sign in "*?[")


def fits(pattern: str, key: str) -> bool:
    """Return whether a key matches a pattern; a star does not cross a slash of /proc/sys.

    >>> fits("net.ipv4.conf.*.rp_filter", "net.ipv4.conf.eth0.rp_filter"), fits("net.*.rp_filter", "net.ipv4.conf.eth0.rp_filter")
    (True, False)
    """
    parts, words = path_of(pattern).split("/"), path_of(key).split("/")
    return len(parts) == len(words) and all(map(fnmatchcase, words, parts))


def conflicts(root: Root, wanted: Mapping[str, str]) -> Iterator[Finding]:
    """Yield other lines that set a key of bedplate: an error if the line wins at the next boot, else a warning."""
    boot = list(read_at_boot(root))
    lines = [*boot, *_of_procps(root)]
    for key, value in wanted.items():
        other = partner(key)
        winners = [one for one in (_winner(boot, key), _winner(boot, other) if other else None) if one]
        winner = max(winners, key=boot.index, default=None)
        for one in lines:
            if one.file == FILE or not _sets(one, key, value, other):
                continue
            if one == winner:
                fix = f"remove the line, or remove {key} from node_tuning_sysctl"
                found = "not set at boot" if one.value is None else _found(one, key)
                yield Finding("sysctl", f"sysctl {key}", value, found, fix, overridden_by=one.place)
            elif one.value is not None:
                fix = "`sysctl --system` would set it; remove the line" if one.file == _OLD else "remove the line"
                yield Finding(
                    "sysctl-loser", f"sysctl {key}", value, _found(one, key), fix, WARNING, overridden_by=one.place
                )


def _sets(one: SysctlLine, key: str, value: str, other: str) -> bool:
    """Return whether a line gives a key another value, or sets its partner; 0 changes nothing in a partner, which is 0 already."""
    if one.key == key or (is_pattern(one.key) and fits(one.key, key)):
        return one.value is None or not equal(one.value, value)
    return one.key == other and one.value not in (None, "0")


def _found(one: SysctlLine, key: str) -> str:
    return one.value or "" if one.key == key or is_pattern(one.key) else f"{one.key} {one.value}"


def _of_procps(root: Root) -> Iterator[SysctlLine]:
    """Yield the lines of /etc/sysctl.conf, which systemd-sysctl reads only through a link in sysctl.d."""
    links = (root.name(root.find(f"{folder}/{name}")) for folder in DIRECTORIES for name in root.names(folder))
    if f"/{_OLD}" not in links:
        yield from settings(root.lines(_OLD), _OLD)


def drift(root: Root, wanted: Mapping[str, str]) -> Iterator[Finding]:
    """Compare the values in the kernel."""
    for key, value in wanted.items():
        there = root.text(path_of(key), needed=False)
        if there is None:
            fix = "this kernel has no such key, or its module is not loaded: set it to null in node_tuning_sysctl"
            yield Finding("sysctl", f"sysctl {key}", value, "no such key", fix)
        elif not equal(there, value):
            yield Finding(
                "sysctl",
                f"sysctl {key}",
                value,
                " ".join(there.split()),
                "systemctl restart bedplate-tuning; who changed it?",
            )


def apply(root: Root, wanted: Mapping[str, str]) -> list[str]:
    """Set the keys that differ; return what the kernel refused."""
    failed = []
    for key, value in wanted.items():
        path = path_of(key)
        there = root.text(path, needed=False)
        if there is None:
            failed.append(f"sysctl {key}: cannot be set to {value}: this kernel has no such key")
        elif not equal(there, value):
            try:
                root.find(path).write_text(f"{value}\n")
            except OSError as error:
                failed.append(f"sysctl {key}: the kernel refused {value}: {error.strerror}")
    return failed
