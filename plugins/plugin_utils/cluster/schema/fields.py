# SPDX-License-Identifier: GPL-3.0-or-later
"""The language that cluster_file.py is written in: fields, and the walk that checks data against them.

The same fields give the checker, the JSON Schema for editors and the table in docs/cluster-file.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean, nearest

from ...releases.renamed_names import renamed_key

Path = tuple[str | int | None, ...]
# A key or value that nobody reads to its end in a message.
_LONG = re.compile(r"[^\s,]{121,}")


# A value in quotes, or a word, with a colon before an @: user:password@server, http://token@server.
_LOGIN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s'"]*@""")
_QUOTES = "'\""
HIDDEN = "..."
_NO_VALUE = "has no value. Give it one or delete it."


def _cut(found: re.Match[str]) -> str:
    return f"{found[0][:40]}... ({len(found[0])} characters)"


def _without_login(found: re.Match[str]) -> str:
    login, _at, server = found[0].rpartition("@")
    return f"{login[0] if login[0] in _QUOTES else ''}{HIDDEN}@{server}" if ":" in login else found[0]


def shown_text(text: str) -> str:
    """Return a text as messages show it: in one line, without logins in addresses, long words cut.

    >>> shown_text("'user:secret@server/x' is not allowed.")
    "'...@server/x' is not allowed."
    """
    return _LONG.sub(_cut, _LOGIN.sub(_without_login, text.replace("\n", "\\n")))


@dataclass(frozen=True)
class Mistake:
    """One mistake: the line, the place in the file, the error and the allowed values."""

    line: int
    where: str
    message: str


@dataclass
class Mistakes:
    """Collect every mistake of a file, so that one run reports them all."""

    lines: Mapping[Path, int]
    found: list[Mistake] = field(default_factory=list)

    def add(self, path: Path, message: str) -> None:
        """Note a mistake at a path such as ("racks", "r1", "nodes")."""
        # A path may lead into what the file leaves out, such as the list around a single element.
        while path and path not in self.lines:
            path = path[:-1]
        # A key or value with a line break must not look like a mistake more.
        mistake = Mistake(self.lines.get(path, 1), shown_text(self.place(path)), shown_text(message))
        if mistake not in self.found:
            self.found.append(mistake)

    def place(self, path: Path) -> str:
        """Return how messages name a path."""
        return dotted(path)

    def unknown(self, path: Path, what: str, name: object, known: Iterable[str], more: int = 0) -> None:
        """Note an unknown name, with the nearest or all known ones; `more` of its hostlist are unknown, too."""
        names = list(known)
        others = f", as {'is' if more == 1 else 'are'} {more} more" if more else ""
        self.add(path, f"{what} {name!r} is unknown{others}.{did_you_mean(str(name), names) or allowed(names)}")


def with_values(fields: Mapping[str, Field]) -> dict[str, Field]:
    """Return fields that need a value if they are stated: a key without one may not mean the default."""
    return {name: replace(one, needs_value=True) for name, one in fields.items()}


def dotted(path: Path) -> str:
    """Return a path as text.

    >>> dotted(("racks", "r1", "nodes", 0, "names"))
    'racks.r1.nodes[0].names'
    """
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text or "the file"


@dataclass(frozen=True)
class Field:
    """A value of the cluster file: its type, whether it must be there, and what it means."""

    description: str
    type: str = "str"
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    pattern: str | None = None
    # What else to say of a value that is not allowed.
    allowed: str = ""
    # Whether messages show a number as people write it: 0x7fff.
    hexadecimal: bool = False
    # What messages leave out of a value, as a pattern: a password, or all before an @.
    hides: str = ""
    # For type "section": its keys. For "map" and "list": what each value is.
    fields: Mapping[str, Field] = field(default_factory=dict)
    item: Field | None = None
    # For "map": what its keys look like.
    keys: Field | None = None
    # For "section": the key that is meant when only a text is given.
    short: str | None = None
    # Whether a key without a value is a mistake; otherwise it counts as left out.
    needs_value: bool = False

    def shown(self, number: int) -> str:
        """Return a number as it is written in the file."""
        return f"0x{number:04x}" if self.hexadecimal and number >= 0 else str(number)

    def written(self, value: Any) -> str:
        """Return a value as messages write it; of a list or a mapping only what it is, since it may hold a password."""
        if isinstance(value, list | dict):
            return "a list" if isinstance(value, list) else "a mapping"
        if self.hides:
            value = re.sub(self.hides, HIDDEN, str(value), count=1, flags=re.DOTALL)
        return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, date) else repr(value)


_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "text"),
    "int": ((int,), "a whole number"),
    "bool": ((bool,), "true or false"),
    "switch": ((bool, str), "true, false or a word"),
    "date": ((str, date), "a date"),
    "list": ((list,), "a list"),
    "map": ((dict,), "a mapping"),
    "section": ((dict,), "a mapping"),
    "free": ((dict,), "a mapping"),
}


def allowed(known: list[str]) -> str:
    """Return " Allowed: ..." with at most a dozen names."""
    more = f" and {len(known) - 12} more" if len(known) > 12 else ""
    return f" Allowed: {', '.join(known[:12])}{more}." if known else " This file defines no names."


def walk(value: Any, rule: Field, path: Path, mistakes: Mistakes) -> Any:
    """Check a value, note its mistakes, and return it with the defaults of absent keys filled in.

    A value of the wrong shape is returned as None, or empty: what builds on the result only has to look for that.
    """
    given = value
    if value is None:
        if rule.required:
            mistakes.add(path, f"has no value: {rule.description}")
        value = {} if rule.type in ("section", "map", "free") else rule.default
        if value is None:
            return [] if rule.type == "list" else None
    # A list may be given as its only element, and a single core or GPU as a number.
    if rule.type == "list" and not isinstance(value, list) and (rule.item or isinstance(value, str | dict)):
        value = [value]
    if rule.short and isinstance(value, str):
        value = {rule.short: value}
    if rule.type == "ranges":
        return _ranges(value, path, mistakes)
    types, name = _TYPES[rule.type]
    if not isinstance(value, types) or (rule.type == "int" and isinstance(value, bool)):
        kind = f"{name} or text" if rule.short else name
        mistakes.add(path, f"{rule.written(value)} is not {kind}.{_remedy(value, rule)}")
        return _nothing(rule)
    if rule.required and given is not None and value in ([], {}) and rule.type != "section":
        mistakes.add(path, f"is empty: {rule.description}")
    shape: Any = value
    if rule.type == "date":
        return _date(value, path, mistakes)
    if rule.type == "section":
        return _section(shape, rule, path, mistakes)
    if rule.type == "map":
        return _map(shape, rule, path, mistakes)
    if rule.type == "list" and rule.item:
        return [_element(item, rule.item, (*path, number), mistakes) for number, item in enumerate(shape)]
    return value if _scalar(value, rule, path, mistakes) else None


def _remedy(value: Any, rule: Field) -> str:
    """Return what is allowed instead of a value of the wrong type, or how to write it; "" if the type says it."""
    if rule.choices:
        return allowed([*(("true", "false") if rule.type == "switch" else ()), *rule.choices])
    if rule.type == "date":
        return f" {_DAY}"
    if rule.short and (choices := rule.fields[rule.short].choices):
        return f" Allowed: {', '.join(choices)}, or a mapping."
    if rule.type == "str" and isinstance(value, int | float | date):
        # Quotes make a name of 7, and no share of the nodes of 5.
        is_measure = rule.default and rule.pattern and not re.fullmatch(rule.pattern, str(value))
        return f" {rule.allowed}" if is_measure else " Put quotes around it."
    if rule.type == "int" and isinstance(value, str) and re.fullmatch(r"[0-9]+", value):
        return " Remove its quotes."
    if rule.type == "int" and rule.minimum is not None:
        top = f" to {rule.shown(rule.maximum)}" if rule.maximum is not None else " or more"
        return f" Allowed: {rule.shown(rule.minimum)}{top}."
    return ""


def _nothing(rule: Field) -> Any:
    """Return the replacement for a value that is missing or of the wrong type."""
    return [] if rule.type == "list" else {} if rule.type in ("map", "free") else None


def _element(value: Any, rule: Field, path: Path, mistakes: Mistakes) -> Any:
    if value is None and rule.type != "section":
        mistakes.add(path, _NO_VALUE)
        return None
    return walk(value, rule, path, mistakes)


def _section(value: dict[Any, Any], rule: Field, path: Path, mistakes: Mistakes) -> dict[str, Any]:
    known = list(rule.fields)
    # A required key that is only misspelt, or has its old name, is one mistake, not two.
    misspelt: set[str] = set()
    for key in value:
        if key in rule.fields:
            continue
        if renamed := renamed_key((*path, key)):
            mistakes.add((*path, key), f"key {key!r} {renamed.message(new_is_set=renamed.new in value)}")
            misspelt.add(renamed.new.rpartition(".")[2])
        else:
            mistakes.unknown((*path, key), "key", key, known)
            misspelt.add(nearest(str(key), known))
    checked: dict[str, Any] = {}
    for key, below in rule.fields.items():
        if below.required and key not in value:
            if key not in misspelt:
                mistakes.add(path, f"{key!r} is missing: {below.description}")
            checked[key] = _nothing(below)
        elif below.type == "section" and value.get(key) is None and below.default is None:
            # A profile without GPUs has none; a section with a default is one of defaults. Only a key that is left out is meant so.
            if key in value:
                mistakes.add((*path, key), _NO_VALUE)
            checked[key] = None
        else:
            if below.needs_value and not below.required and key in value and value[key] is None:
                mistakes.add((*path, key), f"{_NO_VALUE}{_remedy(None, below)}")
            checked[key] = walk(value.get(key), below, (*path, key), mistakes)
    return checked


def _map(value: dict[Any, Any], rule: Field, path: Path, mistakes: Mistakes) -> dict[str, Any]:
    checked = {}
    key_rule = rule.keys or Field("a name")
    for key, below in value.items():
        if key is None:
            mistakes.add((*path, key), "null is not a name. Put quotes around it, or choose another.")
        elif walk(key, key_rule, (*path, key), mistakes) is not None and rule.item:
            checked[key] = _element(below, rule.item, (*path, key), mistakes)
    return {key: below for key, below in checked.items() if below is not None}


_DAY = "Allowed: year-month-day, such as 2027-01-31."
_RANGES = r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*"


def _ranges(value: Any, path: Path, mistakes: Mistakes) -> str | None:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if re.fullmatch(_RANGES, text):
        return text
    mistakes.add(path, f"{value!r} is not a range of numbers. Allowed: such as 0-27 or 0-27,56-83.")
    return None


def _date(value: Any, path: Path, mistakes: Mistakes) -> str | None:
    """Return a date as text; YAML reads it without quotes as a date, and with a time of day as another type."""
    try:
        found = date.fromisoformat(value) if isinstance(value, str) else value
        # From Python 3.11 on, fromisoformat takes weeks and days without hyphens, too.
        if type(found) is date and str(value) == found.isoformat():
            return found.isoformat()
    except ValueError:
        pass
    mistakes.add(path, f"{str(value)!r} is not a date. {_DAY}")
    return None


def _scalar(value: Any, rule: Field, path: Path, mistakes: Mistakes) -> bool:
    if rule.type == "switch" and isinstance(value, bool):
        return True
    if rule.choices and value not in rule.choices:
        hint = did_you_mean(str(value), rule.choices)
        names = ["true", "false", *rule.choices] if rule.type == "switch" else rule.choices
        mistakes.add(path, f"{rule.written(value)} is not allowed.{hint} Allowed: {', '.join(names)}.")
    elif rule.minimum is not None and value < rule.minimum:
        mistakes.add(path, f"{rule.shown(value)} is too small. The least is {rule.shown(rule.minimum)}.")
    elif rule.maximum is not None and value > rule.maximum:
        more = f" {rule.allowed}" if rule.allowed else ""
        mistakes.add(path, f"{rule.shown(value)} is too large. The most is {rule.shown(rule.maximum)}.{more}")
    elif rule.pattern and not re.fullmatch(rule.pattern, value):
        small = str(value).lower()
        hint = did_you_mean(value, [small], fold=True) if small != value and re.fullmatch(rule.pattern, small) else ""
        mistakes.add(path, f"{rule.written(value)} is not allowed.{hint} {rule.allowed}")
    else:
        return True
    return False


def json_schema(rule: Field) -> dict[str, Any]:
    """Return the JSON Schema of a field."""
    schema: dict[str, Any] = {"description": rule.description}
    if rule.type in ("section", "map", "free"):
        schema["type"] = "object"
    elif rule.type == "ranges":
        schema |= {"type": ["string", "integer"], "pattern": _anchored(_RANGES), "minimum": 0}
    elif rule.type == "switch":
        return schema | {
            "enum": [True, False, *rule.choices],
            **({} if rule.default is None else {"default": rule.default}),
        }
    elif rule.type == "date":
        schema |= {"type": "string", "format": "date"}
    else:
        schema["type"] = {"str": "string", "int": "integer", "bool": "boolean", "list": "array"}[rule.type]
    if rule.type == "section":
        schema["properties"] = {name: json_schema(below) for name, below in rule.fields.items()}
        schema["additionalProperties"] = False
        if required := [name for name, below in rule.fields.items() if below.required]:
            schema["required"] = required
        if rule.short:
            choices = rule.fields[rule.short].choices
            text = {"enum": list(choices)} if choices else {"type": "string"}
            return {"description": schema.pop("description"), "anyOf": [schema, text]}
    if rule.type == "map" and rule.item:
        schema["additionalProperties"] = json_schema(rule.item)
        if rule.keys and (rule.keys.pattern or rule.keys.choices):
            pattern = rule.keys.pattern
            schema["propertyNames"] = {"pattern": _anchored(pattern)} if pattern else {"enum": list(rule.keys.choices)}
    if rule.type == "list" and rule.item:
        item = json_schema(rule.item)
        description = schema.pop("description")
        return {"description": description, "anyOf": [{**schema, "items": item}, item]}
    if rule.choices:
        schema["enum"] = list(rule.choices)
    limits = {"minimum": rule.minimum, "maximum": rule.maximum, "default": rule.default}
    schema |= {key: value for key, value in limits.items() if value is not None}
    if rule.pattern:
        schema["pattern"] = _anchored(rule.pattern)
    return schema


def _anchored(pattern: str) -> str:
    return f"^(?:{pattern})$"


def rows(rule: Field, path: str = "") -> list[tuple[str, str, str, str]]:
    """Return (key, type, default, description) of every field below, for the reference table."""
    found = []
    for name, below in rule.fields.items():
        key = f"{path}.{name}" if path else name
        none = below.default is None or below.type == "section"
        default = "required" if below.required else "" if none else f"`{_yaml(below.default)}`"
        words = ("true", "false", *below.choices) if below.type == "switch" else below.choices
        choices = f" One of {', '.join(words)}." if len(words) > 1 else ""
        found.append((key, _type_of(below), default, below.description + choices))
        inner = below.item if below.type in ("map", "list") and below.item else below
        found += rows(inner, f"{key}.<name>" if below.type == "map" else key)
    return found


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type_of(rule: Field) -> str:
    if rule.type in ("map", "list") and rule.item:
        return f"{rule.type} of {_type_of(rule.item)}"
    names = {
        "section": "section or text" if rule.short else "section",
        "free": "map",
        "str": "text",
        "int": "number",
        "switch": "true, false or a word",
    }
    return names.get(rule.type, rule.type)
