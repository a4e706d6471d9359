# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the files that a site names for a role on the control node: its templates, and sources of its extra files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jinja2

from .part_files import templates_of

# As Ansible's own environment has them, so that their statements are no mistakes.
_STATEMENTS = ("jinja2.ext.do", "jinja2.ext.loopcontrols")
_FOLDERS = {"template": "templates", "src": "files"}

Reader = Callable[[str, str, str], str]
"""Return the text of a file, by role, folder of Ansible's search, and name. ValueError: why it cannot be read."""


def source_mistakes(role: str, choices: Mapping[str, Any], read: Reader) -> Iterator[str]:
    """Yield the mistakes of a site's files. `choices` are the role's variables by their name after `<role>_`."""
    for name, path in (choices.get("templates") or {}).items():
        if name in templates_of(role):
            yield from _mistakes(f"{role}_templates: {name}", role, "template", path, read)
    for number, entry in enumerate(choices.get("extra_files") or ()):
        for key in _FOLDERS:
            if isinstance(entry, Mapping) and entry.get(key):
                place = f"{role}_extra_files[{number}] {entry.get('path')}: {key}"
                yield from _mistakes(place, role, key, entry[key], read)


def _mistakes(place: str, role: str, key: str, name: Any, read: Reader) -> Iterator[str]:
    if not isinstance(name, str) or not name:
        return  # the check of the variable reports it
    try:
        text = read(role, _FOLDERS[key], name)
        if key == "template":
            jinja2.Environment(extensions=_STATEMENTS).parse(text)  # nosec: nothing is rendered
    except jinja2.TemplateSyntaxError as error:
        yield f"{place}: {name}:{error.lineno}: not a valid template: {error.message}"
    except ValueError as error:
        yield f"{place}: {error}"
