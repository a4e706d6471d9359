# SPDX-License-Identifier: GPL-3.0-or-later
"""sysctl settings: what the kernel has, and who else on the machine wants to set the same ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.reading import Root

FILE = "etc/sysctl.d/60-bedplate.conf"
# In the order in which systemd-sysctl prefers one of several files of a name; /etc/sysctl.conf is read by procps alone, last of all.
DIRECTORIES = ("etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d")
_LINE = re.compile(r"\s*(-?)\s*([^\s=#;][^=]*?)\s*(?:=\s*(.*?)\s*)?\Z")
_PROFILES = ("etc/tuned", "etc/tuned/profiles", "usr/lib/tuned", "usr/lib/tuned/profiles")


@dataclass(frozen=True)
class Setting:
    """A line of a file: where it stands, the key with dots, and the value."""

    file: str
    line: int
    key: str
    value: str

    @property
    def place(self) -> str:
        """File and line, as a person looks for them."""
        return f"/{self.file}:{self.line}"


def dotted(key: str) -> str:
    """Return a key as sysctl writes it: the first sign that parts it says which of the two signs does.

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


def same(one: str, other: str) -> bool:
    """Return whether two values are the same to the kernel, which parts numbers by tabs."""
    return one.split() == other.split()


def settings(text: str, file: str) -> Iterator[Setting]:
    """Yield what a file of sysctl.d sets."""
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.match(line)
        if match and match[3] is not None and match[2][0] not in "#;":
            yield Setting(file, number, dotted(match[2].strip()), match[3])


def others(root: Root, own: str = FILE) -> Iterator[Setting]:
    """Yield what the machine's other files set: those that count, as one directory's file hides another's of the same name."""
    files: dict[str, str] = {}
    for directory in DIRECTORIES:
        for name in root.names(directory):
            if name.endswith(".conf"):
                files.setdefault(name, f"{directory}/{name}")
    for path in (*(files[name] for name in sorted(files)), "etc/sysctl.conf"):
        # Debian's 99-sysctl.conf is a link to the old file.
        if path != own and (path == "etc/sysctl.conf" or root.name(root.find(path)) != "/etc/sysctl.conf"):
            yield from settings(root.text(path, needed=False) or "", path)


def tuned(root: Root) -> Iterator[Setting]:
    """Yield what the active profile of tuned sets, with those that it includes; nothing without tuned."""
    names = (root.text("etc/tuned/active_profile", needed=False) or "").split()
    seen: set[str] = set()
    while names:
        name = names.pop(0)
        path = next((f"{one}/{name}/tuned.conf" for one in _PROFILES if root.exists(f"{one}/{name}/tuned.conf")), "")
        if not path or path in seen:
            continue
        seen.add(path)
        section = ""
        for number, line in enumerate((root.text(path) or "").splitlines(), 1):
            if head := re.match(r"\s*\[(.+)\]", line):
                section = head[1]
            elif pair := re.match(r"\s*([^#;=\s]+)\s*=\s*(.*?)\s*\Z", line):
                if section == "sysctl":
                    # tuned's own sign: only where the value is lower.
                    yield Setting(path, number, dotted(pair[1]), pair[2].lstrip(">"))
                elif (section, pair[1]) == ("main", "include"):
                    names += re.split(r"[\s,;]+", pair[2])


def conflicts(root: Root, wanted: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the lines of others that say something else of a key that is ours: one key has one owner."""
    for one in (*others(root), *tuned(root)):
        if one.key in wanted and not same(one.value, wanted[one.key]):
            fix = f"take it out there, or {one.key} out of node_tuning_sysctl"
            yield Finding("sysctl", f"sysctl {one.key}", wanted[one.key], one.value, fix, overridden_by=one.place)


def drift(root: Root, wanted: Mapping[str, str]) -> Iterator[Finding]:
    """Compare what the kernel has."""
    for key, value in wanted.items():
        there = root.text(path_of(key), needed=False)
        if there is None:
            fix = "this kernel has no such key, or its module is not loaded: set it to null in node_tuning_sysctl"
            yield Finding("sysctl", f"sysctl {key}", value, "no such key", fix)
        elif not same(there, value):
            yield Finding(
                "sysctl",
                f"sysctl {key}",
                value,
                " ".join(there.split()),
                "systemctl restart bedplate-tuning; who changed it?",
            )


def bring(root: Root, wanted: Mapping[str, str]) -> list[str]:
    """Set what differs; return what the kernel did not take."""
    failed = []
    for key, value in wanted.items():
        path = path_of(key)
        there = root.text(path, needed=False)
        if there is None:
            failed.append(f"sysctl {key}: this kernel has no such key, and {value} is wanted")
        elif not same(there, value):
            try:
                root.find(path).write_text(f"{value}\n")
            except OSError as error:
                failed.append(f"sysctl {key}: the kernel does not take {value}: {error.strerror}")
    return failed
