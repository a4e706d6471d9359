# SPDX-License-Identifier: GPL-3.0-or-later
"""Render the templates of a task on the control node, for each host or once for all hosts of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.inventory.host import Host
from ansible.template import trust_as_template

from .shared_results import once_a_run

# As ansible.builtin.template does.
_OVERRIDES = {"trim_blocks": True}
# A host in no group but all: what it is given is what every host is given.
_NOBODY = "bedplate-no-host"
# Of the rest these still depend on the host, on --limit, or on who has failed so far.
_OF_A_HOST = (
    "inventory_hostname",
    "inventory_hostname_short",
    "inventory_file",
    "inventory_dir",
    "group_names",
    "ansible_facts",
    "ansible_local",
    "ansible_host",
    "ansible_limit",
    "ansible_play_batch",
    "ansible_play_hosts",
    "ansible_play_hosts_all",
    "play_hosts",
    "hostvars",
    "vars",
)


class RenderError(ValueError):
    """A template that cannot be rendered."""


class Renderer:
    """Render templates and read files in the name of one task on one host."""

    def __init__(self, task: Any, templar: Any, loader: Any, task_vars: dict[str, Any]) -> None:
        self._task = task
        self._templar = templar
        self._loader = loader
        self._task_vars = task_vars
        self._cluster_vars: dict[str, Any] | None = None

    def template(self, name: str, destination: str) -> bytes:
        """Return a template rendered for this host."""
        source = self._find("templates", name)
        return self._render(source, name, {"template_destpath": destination, **self._task_vars}).encode()

    def site_template(self, name: str, destination: str, variables: Mapping[str, Any]) -> str:
        """Return a template of the site rendered for this host, which also knows `variables`."""
        source = self._find("templates", name)
        return self._render(source, name, {"template_destpath": destination, **self._task_vars, **variables})

    def cluster_template(self, name: str) -> bytes:
        """Return a template rendered once in this run, by the first host, without variables of any host."""
        source = self._find("templates", name)
        return once_a_run(self._key(source), lambda: self._render_for_all(source, name).encode())

    def file(self, name: str) -> bytes:
        """Return a file of the role as it is; one encrypted with ansible-vault decrypted."""
        path = Path(self._find("files", name))
        if not path.is_file():
            raise RenderError(f"src {name}: {path} is not a file; allowed: one file for each entry")
        return Path(self._loader.get_real_file(str(path))).read_bytes()

    def _find(self, directory: str, name: str) -> str:
        try:
            return str(self._loader.path_dwim_relative_stack(self._task.get_search_path(), directory, name))
        except AnsibleError as error:
            raise RenderError(str(error)) from error

    def _render_for_all(self, source: str, name: str) -> str:
        try:
            return self._render(source, name, self._variables_of_all())
        except RenderError as error:
            raise RenderError(
                f"{error}\nscope: cluster renders it once for all hosts, so no variable of a host or of a group other than all is "
                "there, nor a fact or a registered result. Take what you need from the cluster file, or use scope: host"
            ) from error

    def _variables_of_all(self) -> dict[str, Any]:
        if self._cluster_vars is None:
            manager = self._task.get_variable_manager()
            variables = manager.get_vars(
                play=self._task.get_play(), host=Host(_NOBODY), task=self._task, include_hostvars=False
            )
            self._cluster_vars = {key: value for key, value in variables.items() if key not in _OF_A_HOST}
        return self._cluster_vars

    def _render(self, source: str, name: str, variables: dict[str, Any]) -> str:
        path = Path(source)
        search = []
        for base in [*self._task.get_search_path(), self._loader.get_basedir(), str(path.parent)]:
            search += [str(Path(base) / "templates"), base]
        ours = {
            "template_path": name,
            "template_fullpath": source,
            "ansible_managed": f"Written by bedplate from {path.name}. The next run overwrites what is changed here.",
        }
        templar = self._templar.copy_with_new_env(searchpath=search, available_variables={**ours, **variables})
        try:
            text = trust_as_template(self._loader.get_text_file_contents(source))
            result = templar.template(text, escape_backslashes=False, overrides=_OVERRIDES)
        except AnsibleError as error:
            raise RenderError(f"template {source}: {error}") from error
        if isinstance(result, (int, float, str)) and not isinstance(result, bool):
            return str(result)
        if result is None:
            return ""
        # Ansible's own types have names that nobody knows.
        kinds = ((bool, "true or false"), (Mapping, "a mapping"), (list | tuple, "a list"))
        kind = next((words for one, words in kinds if isinstance(result, one)), f"a {type(result).__name__}")
        raise RenderError(f"template {source}: gives {kind}, not text; use a filter, as to_nice_json")

    def _key(self, source: str) -> str:
        """Key of a rendered template: the same template with other variables of its task or role is a different one."""
        task = self._task
        role = task._role.get_name() if task._role else ""
        parameters = task._role.get_role_params(task.get_dep_chain()) if task._role else {}
        told = repr(
            (
                source,
                role,
                sorted(parameters.items()),
                str(task.get_play()._uuid),
                sorted(task.get_vars().items()),
                task.get_include_params(),
            )
        )
        return hashlib.sha256(told.encode()).hexdigest()
