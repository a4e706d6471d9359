# SPDX-License-Identifier: GPL-3.0-or-later
"""Write all files of a role in one connection: see `ansible-doc bedplate.cluster.files`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.payload import pack
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.file_entries import (
    is_sensitive,
    mistakes,
    notify_of,
    source_of,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.rendering import Renderer, RenderError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import (
    SecretError,
    SecretStore,
    directory_of,
)

_MODES = {"file": "0644", "directory": "0755", "link": "", "block": ""}


class Arguments(dict[str, Any]):
    """Arguments of the module; with ANSIBLE_DEBUG Ansible prints them as they are, no_log or not."""

    def __repr__(self) -> str:
        return repr({**self, "payload": "not shown"})


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
        """Leave of the task's handlers those whose own files changed; the worker has its own copy of the task."""
        if result.get("failed"):
            return
        names = result.get("notify") or []
        self._task.notify = [name for name in listed if name in names]
        unknown = [name for name in names if name not in listed]
        if unknown:
            text = f"files were removed whose handlers this task no longer lists, so those do not run: {', '.join(unknown)}"
            result.setdefault("warnings", []).append(text)


class _Source:
    """Where contents come from, for one task on one host."""

    def __init__(self, action: ActionModule, task_vars: dict[str, Any]) -> None:
        self.renderer = Renderer(action._task, action._templar, action._loader, task_vars)
        self._action = action
        self._vars = task_vars
        self._store: SecretStore | None = None

    def secret(self, name: str, kind: str | None, length: int | None) -> bytes:
        return self._secrets().get(name, kind, length, create=not self._action._task.check_mode)

    def guard(self, name: str) -> dict[str, Any]:
        """Return what a secret may replace on a node: with `bedplate_new_secrets` anything."""
        value = self._variable("bedplate_new_secrets")
        try:
            if value is not None and boolean(value):
                return {}
        except TypeError:
            raise SecretError(f"bedplate_new_secrets {value!r}; allowed: true, false") from None
        store = self._secrets()
        return {"refusal": store.refusal(name), "replaces": store.known(name)}

    def _secrets(self) -> SecretStore:
        if self._store is None:
            names = ("bedplate_secrets_dir", "bedplate_cluster")
            self._store = SecretStore(directory_of({name: self._variable(name) for name in names}))
        return self._store

    def _variable(self, name: str) -> Any:
        return self._action._templar.template(self._vars.get(name))


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
        **(source.guard(str(entry["secret"])) if state == "file" and source_of(entry) == ["secret"] else {}),
    )


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
    return value if isinstance(value, bytes) else str(value).encode()
