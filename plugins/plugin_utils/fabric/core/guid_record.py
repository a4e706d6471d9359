# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of GUIDs, `<cluster file>.guids.json` beside the cluster file: the GUIDs of a plan's switches and HCAs, from a discovery.

    {
      "leaf-a01": {"node": "0x2c9030000000100"},
      "gpu001 mlx5_0": {"node": "0x2c9030000000200", "port": "0x2c9030000000201"}
    }

Names remain the identity. A name that left the plan is not a mistake, since nodes are removed; everything else is checked strictly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import guid_of

from .fabric_model import Hca, Plan, Switch
from .guid_files import is_guid
from .node_descriptions import natural

# Name of a switch or an HCA -> `node` and, of an HCA, `port` -> GUID in 16 hex digits.
Record = dict[str, dict[str, str]]
_ALLOWED = "at most 16 hexadecimal digits after 0x, not all 0 and not all f"
_REPAIR = "correct it, or delete the file and record again: playbooks/fabric_compare.yml -e fabric_record=true"


class RecordError(ValueError):
    """A record that cannot be used, with one reason a line."""


class _Twice(dict[str, Any]):
    """A JSON object that keeps its duplicate keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice = (
            [name for number, (name, _unused) in enumerate(pairs) if name in dict(pairs[:number])]
            if len(self) < len(pairs)
            else []
        )


def path_of(cluster_file: str, part: str = "") -> Path:
    """Return the path of a cluster file's record; `part` is the name of a fabric after the first.

    >>> str(path_of("/site/pod.bedplate.yml")), str(path_of("/site/pod.bedplate.yml", "storage"))
    ('/site/pod.guids.json', '/site/pod.storage.guids.json')
    """
    path = Path(cluster_file)
    name = path.name
    for suffix in (".bedplate.yml", ".bedplate.yaml", path.suffix):
        if suffix and name.endswith(suffix):
            name = name[: -len(suffix)]
            break
    return path.with_name(f"{name}.{part}.guids.json" if part else f"{name}.guids.json")


def read(path: Path) -> Record:
    """Return the record, empty if the file does not exist. Raises RecordError with all mistakes by line and name."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read: {error}") from error
    try:
        data = json.loads(text, object_pairs_hook=_Twice)
    except (json.JSONDecodeError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise RecordError(f"{path}:{line}: is not valid JSON: {getattr(error, 'msg', error)}; {_REPAIR}") from error
    if not isinstance(data, _Twice):
        raise RecordError(f"{path}:1: is {_type(data)}; allowed: an object, name -> {{node, port}}; {_REPAIR}")
    wrong = [f"{path}:{_line(text, name)}: {json.dumps(name)}: {what}" for name, what in _mistakes(data)]
    if wrong:
        raise RecordError("\n".join([*wrong[:-1], f"{wrong[-1]}; {_REPAIR}"]))
    return {name: {sort: guid_of(guid) for sort, guid in guids.items()} for name, guids in data.items()}


def _mistakes(data: _Twice) -> Iterator[tuple[str, str]]:
    owner: dict[str, str] = {}
    yield from ((name, "is a duplicate; allowed: each name once") for name in data.twice)
    for name, guids in data.items():
        if not isinstance(guids, _Twice):
            yield name, f'is {_type(guids)}; allowed: {{"node": GUID, "port": GUID}}'
            continue
        yield from ((name, f"{sort} is a duplicate; allowed: once") for sort in guids.twice)
        if "node" not in guids:
            yield name, "has no node; allowed: node, and port for an HCA"
        for sort, guid in guids.items():
            if sort not in ("node", "port"):
                yield name, f"has {json.dumps(sort)}; allowed: node, and port for an HCA"
            elif not isinstance(guid, str) or not is_guid(guid):
                yield name, f"{sort} is {json.dumps(guid)}; allowed: text, {_ALLOWED}"
            elif owner.setdefault(guid_of(guid), name) != name:
                yield name, f"{sort} is {guid}, which {json.dumps(owner[guid_of(guid)])} has already"


def _line(text: str, name: str) -> int:
    """Return the line of a key; JSON may write it with escapes, so return 1 if it cannot be found."""
    for spelling in (json.dumps(name), json.dumps(name, ensure_ascii=False)):
        if (place := text.find(spelling)) >= 0:
            return text.count("\n", 0, place) + 1
    return 1


def _type(value: object) -> str:
    names = {
        dict: "an object",
        _Twice: "an object",
        list: "a list",
        str: "text",
        bool: "true or false",
        type(None): "null",
    }
    return names.get(type(value), "a number")


def text_of(record: Mapping[str, Mapping[str, str]]) -> str:
    """Return the file: a line for each name, in natural order, so that changes can be reviewed."""
    lines = []
    for name in sorted(record, key=lambda name: (natural(name), name)):
        guids = {sort: f"0x{guid}" for sort in ("node", "port") if (guid := record[name].get(sort))}
        lines.append(f"  {json.dumps(name, ensure_ascii=False)}: {json.dumps(guids)}")
    return "{\n" + ",\n".join(lines) + "\n}\n" if lines else "{}\n"


def with_record(plan: Plan, record: Mapping[str, Mapping[str, str]]) -> Plan:
    """Return the plan with the recorded GUIDs."""
    full = replace(plan, switches=dict(plan.switches), hcas=dict(plan.hcas))
    for name, guids in record.items():
        if name in full.switches:
            full.switches[name] = replace(full.switches[name], guid=guids["node"])
        elif name in full.hcas:
            full.hcas[name] = replace(full.hcas[name], guid=guids["node"], port_guid=guids.get("port", ""))
    return full


def record_of(plan: Plan) -> Record:
    """Return the GUIDs of a plan as a record, without nodes that lack one."""
    things: list[Switch | Hca] = [*plan.switches.values(), *plan.hcas.values()]
    found: Record = {}
    for thing in things:
        if thing.guid:
            found[thing.name] = {"node": guid_of(thing.guid)}
            if isinstance(thing, Hca) and thing.port_guid:
                found[thing.name]["port"] = guid_of(thing.port_guid)
    return found
