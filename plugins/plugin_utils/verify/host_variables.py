# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of a role on a host, for a task outside of the role."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.template import trust_as_template

from ..common.rendering import Renderer, RenderError
from ..roles.host_decision import HostDecision, RunHost

ROLES = Path(__file__).parents[3] / "roles"


class RoleVariables:
    """Template variables of roles on one host, with the precedence that the roles' own tasks have."""

    def __init__(self, action: Any, variables: Mapping[str, Any]) -> None:
        self._task, loader, templar = action._task, action._loader, action._templar
        self._login_user = action._play_context.remote_user
        self._loader = loader
        self._templar = templar
        self._variables = variables

    def variables(self, role: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return all variables of a task of the role; `more` are the task's own."""
        return {**self.defaults(role), **self._variables, **self._file(role, "vars"), **(more or {})}

    def defaults(self, role: str) -> dict[str, Any]:
        """Return the defaults of the role."""
        return self._file(role, "defaults")

    def value(self, role: str, expression: str, more: Mapping[str, Any] | None = None) -> Any:
        """Return what an expression gives in a task of the role, such as a variable. AnsibleError: it cannot be evaluated.

        Of a variable that holds much only what the expression names is templated.
        """
        templar = self._templar.copy_with_new_env(available_variables=self.variables(role, more))
        return templar.template(trust_as_template("{{ " + expression + " }}"))

    def decision(self, role: str, reported: Mapping[str, Any] | None = None) -> HostDecision:
        """Return the decision of a role for the host. ValueError: variables, or a cluster file, that cannot be."""
        renderer = RoleRenderer(role, self.defaults(role), self._task, self._templar, self._loader, self._variables)
        login = str(self._login_user or "")
        host = RunHost(self._variables, self._templar.template, renderer.site_template, login, self._task.check_mode)
        return host.decision(role, reported)

    def _file(self, role: str, directory: str) -> dict[str, Any]:
        path = ROLES / role / directory / "main.yml"
        if not path.exists():
            return {}
        found: dict[str, Any] = self._loader.load_from_file(str(path), trusted_as_template=True)
        return found


class RoleRenderer(Renderer):
    """Render templates of a role for a task outside of it."""

    def __init__(self, role: str, defaults: Mapping[str, Any], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._role = role
        self._defaults = defaults

    def _find(self, directory: str, name: str) -> str:
        path = ROLES / self._role / directory / name
        if not path.exists():
            raise RenderError(f"{path} not found")
        return str(path)

    def _variables_of_all(self) -> dict[str, Any]:
        return {**self._defaults, **super()._variables_of_all()}
