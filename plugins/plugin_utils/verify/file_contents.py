# SPDX-License-Identifier: GPL-3.0-or-later
"""Expected contents of the roles' files, as digests, so that no content, and no secret, travels for the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import digest

from ..common.cluster_secrets import ClusterSecrets
from ..common.file_entries import is_sensitive, source_of, text_with_secrets
from ..common.secrets import SecretError
from .host_variables import RoleRenderer, RoleVariables

_MODES = {"file": "0644", "directory": "0755"}


class Contents:
    """Make rows of the part `files` from entries of bedplate.cluster.files."""

    def __init__(self, action: Any, variables: RoleVariables, secrets: ClusterSecrets | None) -> None:
        self._action = action
        self._variables = variables
        self._secrets = secrets

    def row(self, role: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row of an entry. RenderError, SecretError, AnsibleError: its content cannot be made."""
        state = str(entry.get("state", "file"))
        row: dict[str, Any] = {
            "path": str(entry["path"]),
            "state": state,
            "owner": str(entry.get("owner", "")),
            "group": str(entry.get("group", "")),
            "mode": str(entry.get("mode", "0600" if is_sensitive(entry) else _MODES.get(state, ""))),
            "target": str(entry.get("target", "")),
        }
        if state == "block":
            row["content"] = str(entry["content"])
        if state == "file":
            content = self._content(role, entry)
            row["sha256"] = None if content is None else digest(content)
        return row

    def _content(self, role: str, entry: Mapping[str, Any]) -> bytes | None:
        (kind,) = source_of(entry)
        value = entry[kind]
        if kind == "secret":
            # One that this control node does not have is not made only to be compared.
            if self._secrets is None or not self._has(self._secrets, [str(value)]):
                return None
            return self._secrets.get(str(value), entry.get("kind"), entry.get("length"), create=False)
        if kind in ("template", "src"):
            renderer = self._renderer(role)
            if kind == "src":
                return renderer.file(str(value))
            scope = entry.get("scope") == "cluster"
            return renderer.cluster_template(str(value)) if scope else renderer.template(str(value), str(entry["path"]))
        if isinstance(value, bytes):
            return value
        if names := [str(name) for name in (entry.get("secrets") or {}).values()]:
            if self._secrets is None or not self._has(self._secrets, names):
                return None
            return text_with_secrets(entry, self._secrets.existing_text).encode()
        return str(value).encode()

    @staticmethod
    def _has(secrets: ClusterSecrets, names: Iterable[str]) -> bool:
        """Return whether this control node has all of these secrets; from an unsafe directory it reads none."""
        try:
            return all(secrets.has(name) for name in names)
        except SecretError:
            return False

    def _renderer(self, role: str) -> RoleRenderer:
        action, variables = self._action, self._variables.variables(role)
        defaults = self._variables.defaults(role)
        return RoleRenderer(role, defaults, action._task, action._templar, action._loader, variables)
