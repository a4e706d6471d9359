# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the source that a command names, such as csv:machines.csv or netbox:https://netbox.example.org/?site=west."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from . import csv_source, ironic_source, maas_source, netbox_source, warewulf_source
from .https_reader import HttpsReader, server_mistake
from .machine_row import Document, MachineRow, OfCluster, SourceError

KINDS = ("csv", "netbox", "maas", "warewulf", "ironic")
_LIVE = ("netbox", "maas", "ironic")
_JSON = ("netbox", "maas", "ironic")
_FORM = "Allowed: KIND:PATH, or several paths with commas, or KIND:https://SERVER; KIND is csv, netbox, maas, warewulf or ironic."
# Of an export. The machines of MAAS are 30 KB each.
_MOST_BYTES = 512 << 20
_MOST_TOKEN = 16 << 10


@dataclass(frozen=True)
class ChosenSource:
    """A source: its kind, and its files or the address of its server.

    `query` narrows the devices of NetBox. `token_file`: path of the token. `ca`: path of certificates, "" for the system's.
    `boot_interface`: patterns of names of the boot NIC, for NetBox.
    """

    kind: str
    paths: tuple[str, ...] = ()
    url: str = ""
    query: Mapping[str, list[str]] | None = None
    token_file: str = ""
    ca: str = ""
    boot_interface: tuple[str, ...] = ()


def source_of(text: str, token_file: str = "", ca: str = "", boot_interface: str = "") -> ChosenSource:
    """Return the source of a command. SourceError: all mistakes of its variables.

    >>> source_of("netbox:devices.json,interfaces.json").paths
    ('devices.json', 'interfaces.json')
    """
    kind, _colon, rest = text.strip().partition(":")
    rest = rest.strip()
    boot = tuple(filter(None, (one.strip() for one in boot_interface.split(","))))
    mistakes = []
    if not text.strip():
        raise SourceError([f"import_from: no value. {_FORM}"])
    if kind not in KINDS:
        raise SourceError([f"import_from: {kind!r} is not a kind of source.{did_you_mean(kind, KINDS)} {_FORM}"])
    if not rest:
        mistakes.append(f"import_from: no path behind {kind}:. {_FORM}")
    if boot and kind != "netbox":
        mistakes.append(f"import_boot_interface: is read with netbox alone, and import_from is {kind}. Remove it.")
    if rest.lower().startswith(("http://", "https://")):
        mistakes += _of_server(kind, rest, token_file)
        parts = urlsplit(rest) if not mistakes else urlsplit("")
        found = ChosenSource(kind, (), urlunsplit((*parts[:3], "", "")), parse_qs(parts.query), token_file, ca, boot)
    else:
        unread = filter(None, [token_file and "import_token_file", ca and "import_ca"])
        mistakes += [f"{name}: is read with the address of a server alone. Remove it." for name in unread]
        found = ChosenSource(kind, tuple(filter(None, (one.strip() for one in rest.split(",")))), boot_interface=boot)
    if mistakes:
        raise SourceError(mistakes)
    return found


def _of_server(kind: str, url: str, token_file: str) -> list[str]:
    if kind not in _LIVE:
        return [f"import_from: {kind} is read from files. Allowed with a server: {', '.join(_LIVE)}."]
    found = []
    if mistake := server_mistake(url):
        # An address with a password is not shown.
        found.append(f"import_from: {mistake}.")
    if not token_file:
        found.append(f"import_token_file: no value. Name the file with the token of {kind}, readable for you alone.")
    if kind != "netbox" and "?" in url:
        found.append(
            f"import_from: a query is allowed with netbox alone, and this is {kind}. Remove it from the address."
        )
    return found


def rows_of(source: ChosenSource, is_ours: OfCluster, pause: Callable[[float], None] | None = None) -> list[MachineRow]:
    """Return the machines of a source. SourceError: it cannot be read, or is of another kind."""
    documents = _live(source, is_ours, pause) if source.url else _documents(source)
    return rows_in(source.kind, documents, source.boot_interface)


def rows_in(kind: str, documents: list[Document], boot_interface: tuple[str, ...] = ()) -> list[MachineRow]:
    """Return the machines of the documents of one source. SourceError: they are of another kind."""
    if kind == "netbox":
        return netbox_source.rows_of(documents, boot_interface)
    read: dict[str, Any] = {
        "csv": csv_source,
        "maas": maas_source,
        "warewulf": warewulf_source,
        "ironic": ironic_source,
    }
    found: list[MachineRow] = read[kind].rows_of(documents)
    return found


def _documents(source: ChosenSource) -> list[Document]:
    found, mistakes = [], []
    for path in source.paths:
        try:
            found.append(_document(Path(path).expanduser(), source.kind))
        except SourceError as error:
            mistakes += error.mistakes
    if mistakes:
        raise SourceError(mistakes)
    return found


def _document(path: Path, kind: str) -> Document:
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
        content = data.decode("utf-8-sig")
    except OSError as error:
        remedy = "Name a file that you may read; a relative path begins in the folder of the command"
        raise SourceError([f"{path}: cannot be read: {error.strerror}. {remedy}, {Path.cwd()}."]) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SourceError([f"{path}:{line}: is not UTF-8. Export it as UTF-8."]) from None
    if len(data) > _MOST_BYTES:
        raise SourceError([f"{path}: larger than {_MOST_BYTES >> 20} MiB. Export fewer machines."])
    return document_of(str(path), content, kind)


def document_of(path: str, content: str, kind: str) -> Document:
    """Return the document of a text; messages name its `path`. SourceError: it is not JSON, where the kind has JSON."""
    name = Path(path).name
    if kind not in _JSON or (kind == "netbox" and name.lower().endswith(".csv")):
        return Document(name, content)
    try:
        return Document(name, json.loads(content))
    except json.JSONDecodeError as error:
        raise SourceError([f"{path}:{error.lineno}: is not JSON: {error.msg}. Export it again."]) from None
    except (RecursionError, ValueError) as error:
        # Too many brackets, or digits.
        raise SourceError([f"{path}:1: is not JSON that a machine has: {error}."]) from None


def _live(source: ChosenSource, is_ours: OfCluster, pause: Callable[[float], None] | None) -> list[Document]:
    token = _token(source.token_file)
    waits: dict[str, Any] = {"pause": pause} if pause else {}

    def reader(headers: Callable[[], Mapping[str, str]]) -> HttpsReader:
        return HttpsReader(source.url, headers, source.ca, **waits)

    if source.kind == "netbox":
        return netbox_source.live(reader(lambda: netbox_source.authorization(token)), is_ours, source.query or {})
    if source.kind == "maas":
        try:
            maas_source.authorization(token)
        except ValueError as error:
            raise SourceError([f"{source.token_file}: {error}."]) from None
        return maas_source.live(reader(lambda: maas_source.authorization(token)), is_ours)
    version = ironic_source.version_of(reader(lambda: ironic_source.authorization(token)))
    versioned = reader(lambda: ironic_source.authorization(token, version))
    return ironic_source.live(versioned, is_ours, ironic_source.has_inventories(version))


def _token(path: str) -> str:
    """Return the only line of a file; no message shows it."""
    try:
        with Path(path).expanduser().open("rb") as stream:
            lines = stream.read(_MOST_TOKEN).decode("ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError([f"{path}: cannot be read: {getattr(error, 'strerror', 'not a token')}."]) from None
    if len(lines) != 1:
        raise SourceError([f"{path}: {len(lines)} words. Allowed: the token alone."])
    return lines[0]
