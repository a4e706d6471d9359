# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what was expected and found on all nodes of a pilot run as one redacted document, one entry for each kind of node."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.release import RELEASE

from ..gpu_stack import stack_table
from .cmdline import redacted_cmdline
from .expected import table_findings
from .profiles import comparable
from .pseudonyms import DOMAIN, HOST, SECRET, SERIAL, USER, Pseudonyms, report_leaks
from .public_words import public_words

Result = Mapping[str, Any]
FORMAT = 1
_KEY = re.compile(r"[a-z][a-z0-9_]{0,40}\Z")
_PACKAGE = re.compile(r"(?:\d+:)?\d[\w.+~]*-[\w.+~]+\Z")
_LABELS = re.compile(r"<[a-z]+-[0-9a-f]{10}>")
_LABEL = re.compile(_LABELS.pattern + r"\Z")


class LeakError(Exception):
    """A redacted document still has values that identify a site; the text names their kinds."""


@dataclass(frozen=True)
class Run:
    """Results of a run by host; `names` are the names by kind that the control node knows."""

    results: Mapping[str, Result]
    names: Mapping[str, Sequence[str]]

    @property
    def read(self) -> dict[str, Result]:
        """Return the results of the hosts that were read."""
        return {host: one for host, one in self.results.items() if "software" in one}


def pseudonyms_of(run: Run, salt: bytes | None = None) -> Pseudonyms:
    """Return what redacts a run: with the names that the control node knows, and with the names that the nodes found."""
    names: dict[str, list[str]] = {kind: list(run.names.get(kind, ())) for kind in (SECRET, SERIAL, USER, HOST, DOMAIN)}
    names[HOST] += [*run.results, *(host.partition(".")[0] for host in run.results)]
    for one in run.read.values():
        for kind, found in one["software"]["names"].items():
            names[kind] += found
    hosts, words = _public_urls()
    return Pseudonyms(names, hosts, words, salt)


def _public_urls() -> tuple[set[str], set[str]]:
    """Return hosts and path words of the repositories in the table of GPU software."""
    hosts, words = set[str](), set(public_words("path_words"))
    for row in stack_table.default().repositories:
        words.update(row.systems.values())
        for url in (row.url, *row.urls.values()):
            _scheme, _slashes, rest = url.partition("://")
            host, *path = rest.split("/")
            hosts.add(host)
            words.update(part for part in path if part and "{" not in part)
    return hosts, {word.lower() for word in words}


def document_of(run: Run, pseudonyms: Pseudonyms) -> dict[str, Any]:
    """Return the redacted document. LeakError: it still has a value that identifies the site, so it must not be written."""
    kinds = [_kind(hosts, run.read, pseudonyms) for hosts in _kinds(run.read)]
    unread = {host: one for host, one in run.results.items() if host not in run.read}
    document = {
        "format": FORMAT,
        "bedplate": RELEASE,
        "nodes": len(run.results),
        "differences": sum(len(kind["differences"]) for kind in kinds),
        "kinds": kinds,
        "not_read": [
            {
                "node": pseudonyms.label(HOST, host),
                "unreachable": bool(one.get("unreachable")),
                "reason": pseudonyms.text(_reason(one)),
            }
            for host, one in unread.items()
        ],
    }
    if leaks := report_leaks(_texts(document), pseudonyms):
        raise LeakError("; ".join(leaks))
    return document


def _reason(result: Result) -> str:
    texts = (str(result.get(key) or "") for key in ("msg", "module_stderr", "module_stdout"))
    return "\n".join(text.strip() for text in texts if text.strip())[-4000:] or "no answer"


def _kinds(read: Mapping[str, Result]) -> list[list[str]]:
    """Return the hosts by kind: equal hardware, system, running kernel, driver and expectation."""
    kinds: dict[str, list[str]] = {}
    for host, one in read.items():
        found = one["software"]["found"]
        gpu, system = found.get("gpu") or {}, found.get("system") or {}
        key = [comparable(one["hardware"]), system.get("id"), system.get("version_id"), gpu.get("running_kernel")]
        key += [(gpu.get("driver") or {}).get("version"), one.get("expected")]
        kinds.setdefault(json.dumps(key, sort_keys=True), []).append(host)
    return sorted(kinds.values(), key=len, reverse=True)


def _kind(hosts: Sequence[str], read: Mapping[str, Result], pseudonyms: Pseudonyms) -> dict[str, Any]:
    first = read[hosts[0]]
    parts = {host: _redacted(_facts(read[host]), pseudonyms) for host in hosts}
    return {
        "nodes": [pseudonyms.label(HOST, host) for host in hosts],
        "expected": _redacted(first.get("expected") or {}, pseudonyms),
        "differences": _differences(hosts, read, pseudonyms),
        **parts[hosts[0]],
        # What the first node does not show.
        "varying": _varying(parts, pseudonyms),
        "raw": _redacted(first["software"]["raw"], pseudonyms),
    }


def _facts(result: Result) -> dict[str, Any]:
    return {"hardware": result["hardware"], "found": result["software"]["found"]}


def _differences(hosts: Sequence[str], read: Mapping[str, Result], pseudonyms: Pseudonyms) -> list[dict[str, Any]]:
    """Return each difference with the nodes that have it."""
    rows: dict[tuple[str, str, str, str], list[str]] = {}
    for host in hosts:
        for row in _rows(read[host]):
            where, expected, found = (pseudonyms.text(part) for part in row[1:])
            rows.setdefault((row[0], where, expected, found), []).append(pseudonyms.label(HOST, host))
    return [
        {"kind": kind, "where": where, "expected": expected, "found": found, "nodes": nodes}
        for (kind, where, expected, found), nodes in rows.items()
    ]


def _rows(result: Result) -> Iterator[tuple[str, str, str, str]]:
    for one in result.get("differences") or ():
        yield one["kind"], one["where"], one["expected"], one["found"]
    software = result["software"]
    for finding in table_findings(result.get("expected") or {}, software["found"], result["hardware"]):
        yield finding.kind, finding.where, finding.expected, finding.found
    for one in software["unread"]:
        yield "unread", one["reader"], "a text that the reader can read", one["text"]
    for problem in result["hardware"]["problems"]:
        yield "unread", "hardware", "a text that the reader can read", problem


def _redacted(value: Any, pseudonyms: Pseudonyms, key: str = "") -> Any:
    if isinstance(value, Mapping):
        return {
            name if _KEY.match(str(name)) else pseudonyms.text(str(name)): _redacted(one, pseudonyms, str(name))
            for name, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted(one, pseudonyms, key) for one in value]
    if not isinstance(value, str):
        return value
    if key == "cmdline":
        return redacted_cmdline(value, pseudonyms)
    if key == "version" and _PACKAGE.match(value):
        return pseudonyms.version(value)
    return pseudonyms.text(value)


def _varying(parts: Mapping[str, Any], pseudonyms: Pseudonyms) -> list[dict[str, Any]]:
    """Return the values that differ among the nodes of a kind, with the nodes that have each; labels alone differ by nature."""
    flat = {host: dict(_flat(part, "")) for host, part in parts.items()}
    rows = []
    for path in dict.fromkeys(path for values in flat.values() for path in values):
        values: dict[str, list[str]] = {}
        for host, one in flat.items():
            values.setdefault(json.dumps(one.get(path)), []).append(pseudonyms.label(HOST, host))
        if len(values) > 1 and not all(_is_label(json.loads(value)) for value in values):
            rows.append(
                {
                    "path": path,
                    "values": [{"value": json.loads(value), "nodes": nodes} for value, nodes in values.items()],
                }
            )
    return rows


def _is_label(value: Any) -> bool:
    return isinstance(value, str) and bool(_LABEL.match(value))


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    below = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else None
    if below is None:
        yield path, value
        return
    for key, one in below:
        yield from _flat(one, f"{path}.{key}" if path else str(key))


def _texts(value: Any, key: str = "") -> Iterator[str]:
    """Yield all texts of a document; the version of a package is not an address."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield from _texts(one, str(name))
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, key)
    elif isinstance(value, str) and not (key == "version" and _PACKAGE.match(_LABELS.sub("x", value))):
        yield value
