# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the entries of bedplate.cluster.files as a user wrote them: all mistakes at once, before anything is read."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from .secrets import shape_mistakes

_OWNED = ("owner", "group", "mode")
_COMMON = ("path", "state", "notify")
SOURCES = ("content", "template", "src", "secret")
_KEYS = {
    "file": (*_COMMON, *_OWNED, *SOURCES, "validate", "scope", "sensitive", "kind", "length", "secrets", "used_by"),
    "directory": (*_COMMON, *_OWNED),
    "link": (*_COMMON, "target"),
    "block": (*_COMMON, "content", "after", "validate"),
}
_SCOPES = ("host", "cluster")
_MODE = re.compile(r"0?[0-7]{3,4}\Z")
_MANIFEST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]*\Z")


def source_of(entry: Mapping[str, Any]) -> list[str]:
    """Return the source of a file's content; `secret: true` only marks a content from elsewhere."""
    return [
        key for key in SOURCES if entry.get(key) is not None and not (key == "secret" and isinstance(entry[key], bool))
    ]


def is_sensitive(entry: Mapping[str, Any]) -> bool:
    """Return whether the content must stay hidden."""
    return bool(entry.get("secret") or entry.get("secrets")) or entry.get("sensitive") is True


def text_with_secrets(entry: Mapping[str, Any], secret: Callable[[str], str] | None) -> str:
    """Return the content of an entry with the secrets that its `secrets` names in place of their marks."""
    names = {str(mark): str(name) for mark, name in (entry.get("secrets") or {}).items()}
    if not names:
        return str(entry["content"])
    if secret is None:
        raise AssertionError("an entry with secrets has a reader of secrets")
    values = {mark: secret(name) for mark, name in names.items()}
    # In one pass: a secret may have the text of another mark.
    return re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], str(entry["content"]))


def notify_of(entry: Mapping[str, Any]) -> list[str]:
    """Return the handlers of an entry."""
    value = entry.get("notify") or []
    return [str(value)] if isinstance(value, str) else [str(name) for name in value]


def mistakes(manifest: Any, files: Any, task_notify: Sequence[str]) -> list[str]:
    """Return everything that is wrong with the arguments of a task."""
    found = []
    if not isinstance(manifest, str) or not _MANIFEST.match(manifest):
        found.append(f"manifest: {manifest!r}; allowed: a name of the owner of these files, such as slurm_compute")
    if isinstance(files, (str, bytes, Mapping)) or not isinstance(files, Sequence):
        return [*found, f"files: is {_type(files)}; allowed: a list of entries, each with a path"]
    for number, entry in enumerate(files):
        found += [f"files[{number}] {text}" for text in _entry_mistakes(entry, task_notify)]
    paths = [entry["path"] for entry in files if isinstance(entry, Mapping) and isinstance(entry.get("path"), str)]
    return found + _double(paths) + _nested(files)


def _entry_mistakes(entry: Any, task_notify: Sequence[str]) -> list[str]:
    if not isinstance(entry, Mapping):
        return [f"is {_type(entry)}; allowed: a mapping with a path"]
    path = entry.get("path")
    named = f"{path}: " if isinstance(path, str) else ""
    state = entry.get("state", "file")
    if state not in _KEYS:
        return [f"{named}state {state!r}; allowed: {', '.join(_KEYS)}. Leave a file out of the list to remove it"]
    found = [*_path(path), *_unknown(entry, state), *_owned(entry), *_notify(entry, task_notify)]
    if state == "link" and not _is_text(entry.get("target")):
        found.append(f"target {entry.get('target')!r}; a link needs one, as target: /etc/y")
    if state == "file":
        found += _file(entry)
    if state == "block":
        found += [*_block(entry), *_validate(entry.get("validate"))]
    return [named + text for text in found]


def _path(path: Any) -> list[str]:
    if not _is_text(path):
        return [f"path {path!r}; every entry needs one, as path: /etc/foo.conf"]
    if "\0" in path or "\n" in path:
        return [f"path {path!r} holds a line end or a null; allowed: an absolute path"]
    if not path.startswith("/"):
        return ["path is relative; allowed: an absolute path"]
    if path == "/" or os.path.normpath(path) != path or path.startswith("//"):
        return [f"path is not in its plain form; write {os.path.normpath(path).replace('//', '/')}"]
    return []


def _unknown(entry: Mapping[str, Any], state: str) -> list[str]:
    found = []
    for key in entry:
        if key in _KEYS[state]:
            continue
        if any(key in keys for keys in _KEYS.values()):
            found.append(f"{key} means nothing for a {state}; allowed: {', '.join(_KEYS[state])}")
            continue
        hint = did_you_mean(str(key), _KEYS[state], lead=", did")
        found.append(f"unknown key {key!r}{hint}; allowed: {', '.join(_KEYS[state])}")
    return found


def _owned(entry: Mapping[str, Any]) -> list[str]:
    names = [key for key in ("owner", "group") if key in entry and not _is_text(entry[key])]
    found = [f"{key} {entry[key]!r}; allowed: a name, or a number in quotes" for key in names]
    mode = entry.get("mode", "0644")
    if not isinstance(mode, str) or not _MODE.match(mode):
        found.append(f'mode {mode!r}; allowed: octal digits in quotes, as "0644"')
    elif is_sensitive(entry) and "mode" in entry and int(mode, 8) & 0o007:
        found.append(f'mode {mode!r} opens a secret to all users of the node; allowed: no right for others, as "0640"')
    return found


def _notify(entry: Mapping[str, Any], task_notify: Sequence[str]) -> list[str]:
    value = entry.get("notify")
    if (
        value is not None
        and not isinstance(value, str)
        and not (isinstance(value, Sequence) and all(isinstance(name, str) for name in value))
    ):
        return [f"notify is {_type(value)}; allowed: the name of a handler, or a list of names"]
    return [
        f"notify names {name!r}, which the task's own notify does not list; listed there: {', '.join(task_notify) or 'none'}"
        for name in notify_of(entry)
        if name not in task_notify
    ]


def _file(entry: Mapping[str, Any]) -> list[str]:
    found = []
    sources = source_of(entry)
    if len(sources) != 1:
        having = f"has {' and '.join(sources)}" if sources else "has no content"
        found.append(f'{having}; allowed: exactly one of content, template, src, secret (an empty file: content: "")')
    for key in sources:
        value = entry[key]
        if key == "content" and not isinstance(value, (str, bytes)):
            found.append(
                f"content is {_type(value)}; allowed: text. A structure is written with a filter, as to_nice_json; a number in quotes"
            )
        elif key != "content" and not _is_text(value):
            found.append(f"{key} is {_type(value)} {value!r}; allowed: a name")
    if "sensitive" in entry and not isinstance(entry["sensitive"], bool):
        found.append(f"sensitive {entry['sensitive']!r}; allowed: true, false")
    if sources != ["secret"]:
        found += [f"{key} is allowed with secret only" for key in ("kind", "length", "used_by") if key in entry]
    if "secrets" in entry and (sources != ["content"] or not _is_text_map(entry["secrets"])):
        found.append("secrets: allowed with content only: a map of marks in the content to names of secrets")
    if "used_by" in entry and not _is_text_list(entry["used_by"]):
        found.append("used_by: allowed: a list of units")
    found += shape_mistakes(entry.get("kind"), entry.get("length"))
    return found + _scope(entry, sources) + _validate(entry.get("validate"))


def _block(entry: Mapping[str, Any]) -> list[str]:
    found = []
    if not _is_text(entry.get("content")):
        found.append(f"content {entry.get('content')!r}; a block needs its lines, as text")
    after = entry.get("after", "")
    try:
        re.compile(after)
    except (re.error, TypeError) as error:
        found.append(f"after {after!r}; allowed: a regular expression ({error})")
    return found


def _scope(entry: Mapping[str, Any], sources: list[str]) -> list[str]:
    scope = entry.get("scope", "host")
    if scope not in _SCOPES:
        return [f"scope {scope!r}; allowed: {', '.join(_SCOPES)}"]
    if scope == "cluster" and sources != ["template"]:
        return ["scope: cluster renders a template once for all hosts, so it is allowed with template only"]
    return []


def _validate(command: Any) -> list[str]:
    if command is None:
        return []
    if not _is_text(command) or "%s" not in command:
        return [f'validate {command!r}; allowed: a command with %s for the file, as "visudo -cf %s"']
    try:
        shlex.split(command)
    except ValueError as error:
        return [f"validate {command!r}: {error}"]
    return []


def _double(paths: Sequence[str]) -> list[str]:
    return [
        f"{path}: is listed {paths.count(path)} times; list a path once"
        for path in sorted(set(paths))
        if paths.count(path) > 1
    ]


def _nested(files: Iterable[Any]) -> list[str]:
    entries = {
        str(entry["path"]): entry.get("state", "file")
        for entry in files
        if isinstance(entry, Mapping) and _is_text(entry.get("path"))
    }
    found = []
    for path in entries:
        above = [
            str(parent) for parent in PurePosixPath(path).parents if entries.get(str(parent), "directory") == "file"
        ]
        found += [f"{path}: is below {parent}, which is a file of this list" for parent in above]
    return found


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_text, value))


def _is_text_map(value: Any) -> bool:
    return isinstance(value, Mapping) and _is_text_list([*value, *value.values()])


def _type(value: Any) -> str:
    names = {"NoneType": "null", "str": "text", "bool": "true or false", "int": "a number", "float": "a number"}
    for base in (bool, str, int, float, list, dict):
        if isinstance(value, base):
            return names.get(base.__name__, f"a {base.__name__}")
    return names.get(type(value).__name__, f"a {type(value).__name__}")
