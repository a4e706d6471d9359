# SPDX-License-Identifier: GPL-3.0-or-later
"""Read part files, `roles/<role>/parts/<part>.yml`, and the templates, files and programs that they name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from ansible.module_utils.common.yaml import yaml_load

ROLES = Path(__file__).parents[3] / "roles"
KEYS = frozenset(
    (
        "manifest",
        "prune",
        "manager",
        "only",
        "state",
        "repositories",
        "sources",
        "foreign_sources",
        "packages",
        "hold",
        "accounts",
        "conflicts",
        "obstacle",
        "available",
        "fixed",
        "follow",
        "replaces",
        "start_installed",
        "files",
        "units",
        "touched",
        "take_back",
        "undivided",
        "site_files",
    )
)
"""Keys of a part file: arguments of bedplate.cluster.deploy, `site_files` and `undivided`."""


class PartError(ValueError):
    """A part file that cannot be read or rendered."""


@cache
def part_file(role: str, part: str) -> Mapping[str, Any]:
    """Return the document of a part. PartError: the part is missing, or has an unknown key."""
    path = ROLES / role / "parts" / f"{part}.yml"
    try:
        document = yaml_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        known = ", ".join(parts_of(role)) or "none"
        raise PartError(f"part {part!r} of role {role} not found: {error.strerror}; allowed: {known}") from None
    if not isinstance(document, dict) or not set(document) <= KEYS:
        odd = ", ".join(sorted(set(document) - KEYS)) if isinstance(document, dict) else "no mapping"
        raise PartError(f"{path}: {odd}; allowed: {', '.join(sorted(KEYS))}")
    return document


def is_owned(unit: Mapping[str, Any]) -> bool:
    """Return whether a role owns a unit of its parts: it decides whether the unit starts at boot. Others it only restarts or masks."""
    return "enabled" in unit


def parts_of(role: str) -> list[str]:
    """Return the names of the parts of a role."""
    return sorted(path.stem for path in (ROLES / role / "parts").glob("*.yml"))


def templates_of(role: str) -> list[str]:
    """Return the names of the templates of a role."""
    return sorted(path.name for path in (ROLES / role / "templates").glob("*.j2"))


def role_file(role: str, name: str) -> str:
    """Return the text of a file of a role. PartError: it cannot be read."""
    try:
        return (ROLES / role / "files" / name).read_text(encoding="utf-8")
    except OSError as error:
        raise PartError(f"file {name!r} of role {role}: {error.strerror}") from None


def rendered_template(role: str, name: str, variables: Mapping[str, Any]) -> str:
    """Return the text of a template. `name` is that of a template of the role, or `<other role>/<name>`.

    The template knows `variables` alone. PartError: it cannot be rendered.
    """
    owner, _unused, file = name.rpartition("/")
    try:
        return _environment().get_template(f"{owner or role}/templates/{file}").render(variables)
    except jinja2.TemplateNotFound:
        raise PartError(
            f"template {name!r} of role {role} not found; the role has {', '.join(templates_of(role))}"
        ) from None
    except jinja2.TemplateError as error:
        raise PartError(f"template {name!r} of role {role}: {error}") from None


def load_templates(role: str) -> None:
    """Compile the templates of a role."""
    for name in templates_of(role):
        _environment().get_template(f"{role}/templates/{name}")


@cache
def _environment() -> jinja2.Environment:
    """Return the environment of bedplate's own templates, which compiles each of them once in a process.

    The results are files of a node, never HTML.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ROLES),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.globals.clear()
    return environment
