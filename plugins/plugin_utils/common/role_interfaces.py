# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the options of this collection's roles from their argument specs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

ROLES = Path(__file__).parents[3] / "roles"
_SPEC = "{}/meta/argument_specs.yml"


def interfaces(roles: Path = ROLES) -> dict[str, set[str]]:
    """Return role -> names of its variables, over all entry points."""
    return {role: set(found) for role, found in options(roles).items()}


def options(roles: Path = ROLES) -> dict[str, dict[str, Any]]:
    """Return role -> variable -> its option in the argument spec, over all entry points."""
    return {path.parents[1].name: _options(path) for path in sorted(roles.glob(_SPEC.format("*")))}


@cache
def role_options(role: str) -> dict[str, Any]:
    """Return variable -> its option in the argument spec of one role, over all entry points."""
    return _options(ROLES / _SPEC.format(role))


@cache
def choices(role: str) -> dict[str, list[Any]]:
    """Return what is behind `<role>_` in a variable's name -> the values that its option in the argument spec allows.

    Variables without such a list are left out. Read once: every host of a run is checked with it.
    """
    found = role_options(role)
    return {name.removeprefix(f"{role}_"): option["choices"] for name, option in found.items() if "choices" in option}


def _options(path: Path) -> dict[str, Any]:
    entries = yaml_load(path.read_text())["argument_specs"].values()
    return {name: option for entry in entries for name, option in entry.get("options", {}).items()}


def has_template(value: Any) -> bool:
    """Return whether a value, or a part of it, is a template.

    >>> has_template({"a": ["{{ b }}"]}), has_template(["b"])
    (True, False)
    """
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, Mapping):
        return any(has_template(part) for part in value.values())
    return isinstance(value, list | tuple) and any(has_template(part) for part in value)


def unknown_variables(names: Iterable[str], known: Mapping[str, set[str]]) -> dict[str, str]:
    """Return the unknown names that look like a role's variable, each with the role.

    >>> unknown_variables(["slurm_rest_listn", "site"], {"slurm": {"slurm_rest_listen"}})
    {'slurm_rest_listn': 'slurm'}
    """
    return {
        name: role
        for name in sorted(set(names))
        for role, variables in known.items()
        if name.startswith(f"{role}_") and name not in variables
    }


def message(name: str, role: str, known: Mapping[str, set[str]]) -> str:
    """Return the error text for one unknown variable, with the nearest name that exists."""
    manual = f"see `ansible-doc -t role bedplate.cluster.{role}`"
    hint = did_you_mean(name, sorted(known[role]), lead="did", quoted=False, otherwise=manual)
    return f"{name} is not a variable of the role {role}; {hint}"


def misspelt_variables(names: Iterable[str], prefix: str, known: Sequence[str], owner: str) -> list[str]:
    """Return an error for each name that begins with a prefix and is not known, with the nearest known name.

    >>> misspelt_variables(["mirror_prune", "mirror_purne", "other"], "mirror_", ["mirror_prune"], "playbooks/mirror.yml")
    ['mirror_purne is not a variable of playbooks/mirror.yml; did you mean mirror_prune?']
    """
    found = []
    for name in sorted(names):
        if name.startswith(prefix) and name not in known:
            others = f"allowed: {', '.join(known)}"
            hint = did_you_mean(name, known, lead="did", quoted=False, prefix=prefix, otherwise=others)
            found.append(f"{name} is not a variable of {owner}; {hint}")
    return found


NOT_AS_TEXT = ("bool", "list", "dict")
_KINDS = {
    "str": "text",
    "path": "a path",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a mapping",
    "NoneType": "empty",
}
_WRONG_TYPE = re.compile(
    r"(?P<what>argument|Elements value for option) '(?P<name>[^']*)'(?: found in '[^']*'\.?)? is of type (?P<type>\S+)"
    r"(?: found in '[^']*'\.?)? and we were unable to convert to (?P<allowed>\w+): .*",
    re.DOTALL,
)
_UNKNOWN_KEY = re.compile(r"(?P<name>\S+)\. Supported parameters include: (?P<known>.*)\.")
# Ansible adds it to the message on the element.
_AGAIN = "dictionary requested, could not parse JSON or key=value"


def spec_mistakes(name: str, option: Mapping[str, Any], value: Any) -> list[str]:
    """Return the mistakes of a value by its option in the argument spec, in words of YAML."""
    # Ansible would write a list or a mapping as text.
    if wrong := _not_text(option.get("type"), value) or _element_not_text(option, value):
        return [wrong]
    messages = ArgumentSpecValidator({name: dict(option)}).validate({name: value}).error_messages
    return [_in_words(name, text) for text in messages if text != _AGAIN]


def _not_text(kind: Any, value: Any) -> str:
    if kind not in (None, "str", "path") or not isinstance(value, list | dict):
        return ""
    return f"is {_KINDS['list' if isinstance(value, list) else 'dict']}; allowed: {_KINDS[kind or 'str']}"


def _element_not_text(option: Mapping[str, Any], value: Any) -> str:
    elements = value if isinstance(value, list) and "elements" in option else ()
    wrong = next(filter(None, (_not_text(option["elements"], one) for one in elements)), "")
    return wrong and f"has an element that {wrong}"


def _in_words(name: str, text: str) -> str:
    """Return a message of Ansible on a type or a key without types of Python; any other as it is.

    >>> _in_words("a", "argument 'a' is of type NoneType and we were unable to convert to list: <class 'NoneType'> cannot be converted")
    'is empty; allowed: a list'
    >>> _in_words("a", "a.b. Supported parameters include: c, d.")
    "key 'b' is unknown; allowed: c, d"
    """
    if found := _UNKNOWN_KEY.fullmatch(text):
        return f"key {found['name'].removeprefix(f'{name}.')!r} is unknown; allowed: {found['known']}"
    found = _WRONG_TYPE.fullmatch(text)
    if found is None:
        return text
    place = "" if found["name"] == name else f"key {found['name']!r} "
    what = "is" if found["what"] == "argument" else "has an element that is"
    return f"{place}{what} {_KINDS.get(found['type'], found['type'])}; allowed: {_KINDS.get(found['allowed'], found['allowed'])}"


def not_as_text(name: str, value: str, kind: str) -> str:
    """Return the error text for a text where a truth value, a list or a mapping is meant, with how to write it.

    >>> print(not_as_text("slurm_compute_restrict_ssh", "false", "bool"))
    'false' is text; allowed: true or false. Write slurm_compute_restrict_ssh: false, or -e '{"slurm_compute_restrict_ssh": false}'
    """
    example = {
        "bool": str(value.lower() in ("true", "yes", "on", "1")).lower(),
        "list": f'["{value}"]',
        "dict": "{...}",
    }[kind]
    return f"{value!r} is text; allowed: {_KINDS[kind]}. Write {name}: {example}, or -e '{{\"{name}\": {example}}}'"


def summary(places: Sequence[str]) -> str:
    """Return where a variable is set, short even when it is set on every host.

    >>> summary(["host gpu01", "host gpu02", "host gpu03"])
    'host gpu01 and 2 more'
    """
    return places[0] if len(places) == 1 else f"{places[0]} and {len(places) - 1} more"


def hosts_to_read(directories: Iterable[Path], prefixes: Sequence[str]) -> set[str]:
    """Return the hosts whose files in host_vars may set a variable that begins like this.

    Ansible's own look for the files of ten thousand hosts takes half a second, and a millisecond more for each file.
    """
    words = [b"$ANSIBLE_VAULT", *(prefix.encode() for prefix in prefixes)]
    found: set[str] = set()
    for directory in directories:
        for path in directory.glob("host_vars/*"):
            if path.is_dir() or (path.is_file() and any(word in path.read_bytes() for word in words)):
                found |= {path.name, path.stem}
    return found
