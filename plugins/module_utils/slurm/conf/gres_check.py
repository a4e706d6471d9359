# SPDX-License-Identifier: GPL-3.0-or-later
"""Find mistakes in GRES that slurmctld accepts without an error and that keep the nodes out of service."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...common.hostlist import HostlistError, expand, fold

_PAIR = re.compile(r'([A-Za-z0-9]+)\s*=\s*("[^"]*"|\S+)')
_COUNT = re.compile(r"[0-9]+[kKmMgGtTpP]?\Z")


def check_gres(files: Mapping[str, str]) -> list[str]:
    """Compare the Gres of the NodeName lines with GresTypes and gres.conf."""
    types: set[str] = set()
    problems: list[str] = []
    nodes: dict[str, dict[tuple[str, str], int]] = {}
    for pairs in _lines(files.get("slurm.conf", "")):
        types.update(name for name in pairs.get("grestypes", "").split(",") if name)
        if "nodename" in pairs and pairs.get("gres"):
            wanted, wrong = _wanted(pairs["gres"])
            problems += [f"NodeName={pairs['nodename']} Gres={pairs['gres']}: {what}" for what in wrong]
            nodes.update(dict.fromkeys(_names(pairs["nodename"]), wanted))
    for name in sorted({name for wanted in nodes.values() for name, _type in wanted} - types):
        problems.append(f"Gres {name!r} of the NodeName lines is not in GresTypes={','.join(sorted(types))}")
    return problems + _compare(nodes, files.get("gres.conf"))


def _lines(text: str) -> Iterator[dict[str, str]]:
    for line in re.sub(r"\\\n", " ", text).splitlines():
        pairs = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line.partition("#")[0])}
        if pairs:
            yield pairs


def _names(text: str) -> list[str]:
    try:
        return expand(text)
    except HostlistError:
        return []  # slurmctld reports this itself


def _wanted(gres: str) -> tuple[dict[tuple[str, str], int], list[str]]:
    """Parse a Gres value such as gpu:h100:8,shard:4; return the counts, and the parts that cannot be parsed."""
    wanted: dict[tuple[str, str], int] = {}
    wrong = []
    for item in re.sub(r"\([^)]*\)", "", gres).split(","):
        name, *rest = [part for part in item.split(":") if part != "no_consume"]
        count = rest.pop() if rest and _COUNT.match(rest[-1]) else ""
        if len(rest) > 1 or (rest and not count):
            wrong.append(f"{item!r} has no count. Allowed: name, name:count or name:type:count")
        elif not name:
            wrong.append("a name is missing. Allowed: name:type:count")
        elif count.isdigit() or not count:
            key = (name, rest[0] if rest else "")
            wanted[key] = wanted.get(key, 0) + int(count or 1)
    return wanted, wrong


def _compare(nodes: Mapping[str, Mapping[tuple[str, str], int]], text: str | None) -> list[str]:
    """Find nodes for which gres.conf has fewer devices than slurm.conf, or another type."""
    if text is None or re.search(r"^[^#]*AutoDetect\s*=\s*(?!off\b)", text, re.MULTILINE | re.IGNORECASE):
        return []  # the nodes find their devices themselves
    found: dict[str, dict[tuple[str, str], int]] = {name: {} for name in nodes}
    for pairs in _lines(text):
        key = (pairs.get("name", ""), pairs.get("type", ""))
        paths = pairs.get("file") or pairs.get("files") or pairs.get("multiplefiles")
        number = pairs.get("count") or str(len(_names(paths)) if paths else 1)
        if not key[0] or not number.isdigit():
            continue
        for node in _names(pairs["nodename"]) if "nodename" in pairs else found:
            if node in found:
                found[node][key] = found[node].get(key, 0) + int(number)
    short: dict[tuple[str, str, int, int], list[str]] = {}
    for node, wanted in nodes.items():
        for (name, type_), count in wanted.items():
            have = sum(devices for (n, t), devices in found[node].items() if n == name and type_ in ("", t))
            if have < count:
                short.setdefault((name, type_, count, have), []).append(node)
    return [
        f"gres.conf has {have} {':'.join(filter(None, (name, type_)))} for {fold(names)}, slurm.conf has {count}: "
        "slurmd would not register"
        for (name, type_, count, have), names in short.items()
    ]
