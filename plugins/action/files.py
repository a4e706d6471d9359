# SPDX-License-Identifier: GPL-3.0-or-later
"""Write all files of a role in one connection: see `ansible-doc bedplate.cluster.files`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.payload import pack
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import (
    REPLACE,
    ClusterSecrets,
    secrets_of,
    switch,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.file_entries import (
    is_sensitive,
    mistakes,
    notify_of,
    source_of,
    text_with_secrets,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.rendering import Renderer, RenderError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError

_MODES = {"file": "0644", "directory": "0755", "link": "", "block": ""}


class Arguments(dict[str, Any]):
    """Arguments of the module; with ANSIBLE_DEBUG Ansible prints them as they are, no_log or not."""

    def __repr__(self) -> str:
        hidden = {key: "not shown" for key in self if key.endswith("payload")}
        return repr({**self, **hidden})


class ActionModule(ActionBase):  # type: ignore[misc]
    """Render on the control node, send one payload, notify the handlers of what changed."""

    _VALID_ARGS = frozenset(("manifest", "files", "state_directory"))
    _requires_connection = True
    _module = "bedplate.cluster.files"

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task on one host."""
        super().run(tmp, task_vars)
        task_vars = task_vars or {}
        arguments = self._task.args
        listed = [str(name) for name in self._task.notify or []]
        found = mistakes(arguments.get("manifest"), arguments.get("files"), listed)
        self._refuse("wrong arguments", found)
        told = self._told(arguments["files"], task_vars)
        result: dict[str, Any] = self._execute_module(module_name=self._module, module_args=told, task_vars=task_vars)
        self._narrow(result, listed)
        return result

    def _told(self, files: list[Mapping[str, Any]], task_vars: dict[str, Any]) -> Arguments:
        """Return the arguments of the module: the files are rendered, and go as one opaque string."""
        told = Arguments(
            manifest=self._task.args.get("manifest"), files=[], payload=pack(self._wanted(files, task_vars))
        )
        if self._task.args.get("state_directory"):
            told["state_directory"] = self._task.args["state_directory"]
        return told

    def _refuse(self, what: str, found: list[str]) -> None:
        if found:
            listed = "\n".join(f"- {text}" for text in found)
            raise AnsibleActionFail(f"{what} of {self._module}; nothing was sent:\n{listed}")

    def _wanted(self, files: list[Mapping[str, Any]], task_vars: dict[str, Any]) -> list[DesiredFile]:
        source = _Source(self, task_vars)
        wanted, found = [], []
        for number, entry in enumerate(files):
            try:
                wanted.append(_wanted(entry, source))
            except (RenderError, SecretError) as error:
                found.append(f"files[{number}] {entry['path']}: {error}")
            except AnsibleError as error:
                found.append(f"files[{number}] {entry['path']}: {error.message}")
        self._refuse("the files cannot be made", found)
        return wanted

    def _narrow(self, result: dict[str, Any], listed: list[str]) -> None:
        """Keep the task's handlers for changed files; the worker has its own copy of the task."""
        if result.get("failed"):
            return
        names = result.get("notify") or []
        self._task.notify = [name for name in listed if name in names]
        unknown = [name for name in names if name not in listed]
        if unknown:
            text = f"files were removed whose handlers this task no longer lists, so those do not run: {', '.join(unknown)}"
            result.setdefault("warnings", []).append(text)


class _Source:
    """Sources of contents, for one task on one host."""

    def __init__(self, action: ActionModule, task_vars: dict[str, Any]) -> None:
        self.renderer = Renderer(action._task, action._templar, action._loader, task_vars)
        self._action = action
        self._vars = task_vars
        self._secrets: ClusterSecrets | None = None

    def secret(self, name: str, kind: str | None, length: int | None) -> bytes:
        return self.secrets().get(name, kind, length, create=not self._action._task.check_mode)

    def guard(self, name: str, used_by: list[str]) -> dict[str, Any]:
        """Return what a secret may replace on a node: with `bedplate_new_secrets` anything."""
        if switch(self._vars, self._action._templar, REPLACE, default=False):
            return {}
        return {**self.secrets().guard(name), "used_by": used_by}

    def secrets(self) -> ClusterSecrets:
        if self._secrets is None:
            self._secrets = secrets_of(self._vars, self._action._templar, self._action._loader)
        return self._secrets


def _wanted(entry: Mapping[str, Any], source: _Source) -> DesiredFile:
    state = str(entry.get("state", "file"))
    sensitive = is_sensitive(entry)
    return DesiredFile(
        path=str(entry["path"]),
        state=state,
        content=_content(entry, source) if state in ("file", "block") else b"",
        target=str(entry.get("target", "")),
        owner=str(entry.get("owner", "")),
        group=str(entry.get("group", "")),
        mode=str(entry.get("mode", "0600" if sensitive else _MODES[state])),
        validate=str(entry.get("validate") or ""),
        sensitive=sensitive,
        notify=sorted(set(notify_of(entry))),
        after=str(entry.get("after", "")),
        **(_guard(entry, source) if state == "file" and source_of(entry) == ["secret"] else {}),
    )


def _guard(entry: Mapping[str, Any], source: _Source) -> dict[str, Any]:
    return source.guard(str(entry["secret"]), [str(unit) for unit in entry.get("used_by", [])])


def _content(entry: Mapping[str, Any], source: _Source) -> bytes:
    (kind,) = source_of(entry)
    value, path = entry[kind], str(entry["path"])
    if kind == "template":
        if entry.get("scope") == "cluster":
            return source.renderer.cluster_template(str(value))
        return source.renderer.template(str(value), path)
    if kind == "src":
        return source.renderer.file(str(value))
    if kind == "secret":
        return source.secret(str(value), entry.get("kind"), entry.get("length"))
    if isinstance(value, bytes):
        return value
    return text_with_secrets(entry, source.secrets().existing_text if entry.get("secrets") else None).encode()
