# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of Warewulf 4: its nodes.conf, or what `wwctl node export` prints.

Warewulf knows the MAC of the primary network device. Its tags may have more, under the names in columns.json. Passwords
of `ipmi` are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from .columns import tagged
from .machine_row import Document, MachineRow, SourceError, filled, mapping, text

# Every scalar is text with it: a MAC such as 10:11:12:13:14:15 is a number in YAML 1.1.
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_DEVICES, _PRIMARY = "network devices", "primary network"


def rows_of(documents: Sequence[Document]) -> list[MachineRow]:
    """Return a row for each node of the files. SourceError: a file is not of Warewulf."""
    return [row for document in documents for row in _rows(document)]


def _rows(document: Document) -> list[MachineRow]:
    try:
        data = yaml.load(str(document.content), Loader=_Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise SourceError([f"{document.name}: is not YAML: {' '.join(str(error).split())}."]) from None
    whole = mapping(data)
    # The export is the mapping of the nodes alone; the key of profiles was renamed with 4.6.
    profiles = mapping(whole.get("nodeprofiles") or whole.get("profiles"))
    nodes = mapping(whole.get("nodes")) if "nodes" in whole else whole
    named = {name: one for name, one in nodes.items() if isinstance(one, Mapping)}
    if not named:
        allowed = "Allowed: nodes.conf, or the output of `wwctl node export`."
        raise SourceError([f"{document.name}: no node with keys in it. {allowed}"])
    return [_row(f"{document.name} {name}", str(name), one, profiles) for name, one in named.items()]


def _row(where: str, name: str, node: Mapping[str, Any], profiles: Mapping[str, Any]) -> MachineRow:
    listed = node.get("profiles")
    own = [mapping(profiles.get(one)) for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    primary = next((one for one in (text(part.get(_PRIMARY)) for part in (node, *reversed(own))) if one), "")
    devices = {key: mapping(one) for key, one in mapping(node.get(_DEVICES)).items()}
    macs = {key: text(one.get("hwaddr")) for key, one in devices.items() if text(one.get("hwaddr"))}
    primary = primary or next((key for key, one in devices.items() if text(one.get("primary")) == "true"), "")
    found, notes = "", {}
    if primary in macs:
        found = macs[primary]
    elif len(macs) == 1:
        found = next(iter(macs.values()))
    elif macs:
        notes = {"boot_mac": f"{len(macs)} network devices have a MAC, and no `{_PRIMARY}` names one"}
    return MachineRow(where, name, {**filled(boot_mac=found), **tagged(mapping(node.get("tags")))}, notes)
