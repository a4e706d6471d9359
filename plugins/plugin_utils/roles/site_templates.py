# SPDX-License-Identifier: GPL-3.0-or-later
"""Render a site's templates with the variables of a host, to find undefined variables before any node is touched.

`values` and `item` of a role's template are those that the role decides. Three kinds of variables are not judged:

* values that a task must read on the node first (`UNREAD` of parts/part_paths.py), and all of them where a mistake of another variable
  prevents the decision: an `Unread` replaces them, which any template can use.
* variables whose names begin with `__`: results and facts that tasks of the roles set.
* what depends on other hosts than the one for which the template is rendered: of hosts that are alike, the first is.

No playbook gathers facts, so a template that needs one fails on the node too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError, AnsibleFileNotFound, AnsibleTemplateSyntaxError, AnsibleUndefinedVariable

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from ..common.rendering import Renderer, RenderError
from ..common.role_interfaces import ROLES as FOLDER
from ..parts.part_files import parts_of, templates_of
from ..parts.part_paths import UNREAD, template_uses, templates_used
from .role_mistakes import RUNS_ON
from .site_host import SiteHost, UndecidedError
from .unread import Unread

_NAME = re.compile(r"'(\w+)' is undefined")
_LAST_NAME = re.compile(r"'(\w+)'(?: is undefined)?\Z")


class _RoleTask:
    """A task, with the directories in which a task of a role looks for templates."""

    def __init__(self, task: Any, role: str) -> None:
        self._task = task
        self._directory = str(FOLDER / role)

    def get_search_path(self) -> list[str]:
        """Return the directories."""
        return [self._directory, *self._task.get_search_path()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)


class TemplateCheck(Renderer):
    """Render the site's templates of one role with the variables of a host, where only the mistake matters."""

    def __init__(self, task: Any, templar: Any, loader: Any, variables: Mapping[str, Any], role: str) -> None:
        self._defaults = role_variables(role, loader)
        # A lookup of a secret must not make one.
        known = {**self._defaults, **variables, "ansible_check_mode": True}
        super().__init__(_RoleTask(task, role), templar, loader, known)

    def role_template(self, name: str, destination: str, variables: Mapping[str, Any]) -> str:
        """Return why a template that replaces one of the role cannot be rendered, or ""; it also knows `variables`."""
        return self._mistake(lambda: self.site_template(name, destination, variables), name, variables)

    def file_template(self, name: str, destination: str, of_cluster: bool) -> str:
        """Return why the template of an extra file cannot be rendered, or "". `of_cluster`: it is rendered without variables of a host."""
        if of_cluster:
            return self._mistake(lambda: self._render_for_all(self._find("templates", name), name), name, {})
        return self._mistake(lambda: self.template(name, destination), name, {})

    def _variables_of_all(self) -> dict[str, Any]:
        return {**self._defaults, **super()._variables_of_all()}

    def _mistake(self, render: Callable[[], object], name: str, variables: Mapping[str, Any]) -> str:
        unread = [one for value in variables.values() for one in (value, *_members(value)) if isinstance(one, Unread)]
        before = sum(one.uses for one in unread)
        try:
            render()
        except RenderError as error:
            cause = _cause(error)
            if isinstance(cause, AnsibleUndefinedVariable):
                return self._undefined(name, cause, variables)
            # A missing file and wrong syntax are found when the variables are checked; the rest may be for want of the unread value.
            is_known = isinstance(cause, AnsibleFileNotFound | AnsibleTemplateSyntaxError)
            if is_known or sum(one.uses for one in unread) != before:
                return ""
            text = cause.message if isinstance(cause, AnsibleError) else str(cause)
            source = self._find("templates", name)
            return f"{name}: {text.removeprefix(f'template {source}: ')}"
        return ""

    def _undefined(self, name: str, error: AnsibleUndefinedVariable, variables: Mapping[str, Any]) -> str:
        named = _LAST_NAME.search(error.message)
        if named and named[1].startswith("__"):
            return ""
        place = f"{name}{self._line(name, named[1] if named else '')}: {error.message}"
        found = _NAME.fullmatch(error.message)
        if found is None:
            return f"{place}. Correct the name, or use it with `| default(...)`"
        known = {*self._task_vars, *variables}
        if found[1] in known:
            return f"{place}, since with scope: cluster a template has only the variables of the group all. Use scope: host"
        return f"{place}.{did_you_mean(found[1], sorted(known), otherwise=' Set it, or correct its name.')}"

    def _line(self, name: str, word: str) -> str:
        """Return the first line with a word in a statement, such as `:3`; "" if no line has it, as for a word of an included file."""
        text = Path(self._find("templates", name)).read_text(encoding="utf-8", errors="replace")
        statement = re.compile(rf"\{{[{{%].*\b{word}\b")
        found = (f":{number}" for number, line in enumerate(text.split("\n"), 1) if word and statement.search(line))
        return next(found, "")


def role_variables(role: str, loader: Any) -> dict[str, Any]:
    """Return the defaults and internal variables that a template of a role knows, from all roles of its play."""
    found: dict[str, Any] = {}
    for other in (one for one, groups in RUNS_ON.items() if groups == RUNS_ON[role]):
        for folder in ("defaults", "vars"):
            path = FOLDER / other / folder / "main.yml"
            if path.exists():
                found |= loader.load_from_file(str(path), trusted_as_template=True) or {}
    return {**found, "role_name": role, "role_path": str(FOLDER / role)}


def template_mistakes(host: SiteHost, check: Callable[[str], TemplateCheck]) -> Iterator[tuple[str, str]]:
    """Yield role and text of each template of the site that a host uses and that cannot be rendered for it."""
    for role in host.roles:
        templates = host.variable(role, "templates")
        own = {
            name: path for name, path in (templates if isinstance(templates, Mapping) else {}).items() if _is_text(path)
        }
        for name, text in _of_role(host, role, own, check) if own else ():
            yield role, f"{role}_templates: {name}: {text}"
        entries = host.variable(role, "extra_files")
        for number, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, Mapping) and _is_text(entry.get("template")) and host.writes_site_files(role):
                path, of_cluster = str(entry.get("path")), entry.get("scope") == "cluster"
                if text := check(role).file_template(entry["template"], path, of_cluster):
                    yield role, f"{role}_extra_files[{number}] {path}: template: {text}"


def _of_role(
    host: SiteHost, role: str, own: Mapping[str, str], check: Callable[[str], TemplateCheck]
) -> Iterator[tuple[str, str]]:
    """Yield the name of each template of the role, and why the site's own cannot be rendered."""
    for part in parts_of(role):
        if not templates_used(role, part) & set(own):
            continue
        for name, path, variables in _uses(host, role, part, own):
            if text := check(role).role_template(own[name], path, variables):
                yield name, text


def _uses(host: SiteHost, role: str, part: str, own: Mapping[str, str]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield name, path on the host and variables of each use of a template in a part of the host."""
    try:
        values = host.values(role, part) if part in host.parts(role) else None
        uses = [] if values is None else list(template_uses(role, part, values, own))
        yield from ((name, path, with_unread(role, part, scope.variables())) for name, path, scope in uses)
    except UndecidedError:
        for name in templates_used(role, part) & set(own) & set(templates_of(role)):
            yield name, "", {"values": Unread(), "item": Unread()}


def with_unread(role: str, part: str, variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the variables of a part's template with a stand-in for each value that needs the node."""
    names = UNREAD.get((role, part), frozenset())
    return {**variables, "values": {**variables["values"], **{name: Unread() for name in names}}}


def _members(value: Any) -> tuple[Any, ...]:
    return tuple(value.values()) if isinstance(value, dict) else ()


def _cause(error: BaseException) -> BaseException:
    """Return the error of Ansible below errors of rendering; the error itself without any."""
    while isinstance(error, RenderError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
