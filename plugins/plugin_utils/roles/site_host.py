# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what roles deploy on a host before any task has read it, as far as that can be decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible.errors import AnsibleError

from ..parts.decision import Decision, Values
from ..parts.part_files import part_file
from ..parts.part_paths import (
    PartPath,
    PartUnit,
    host_paths,
    host_units,
    literal_paths,
    literal_units,
    matches,
)
from .decisions import decide
from .host_decision import RunHost

# On a login node the playbooks run nothing else of the role container_runtime, which is not among its roles.
_PYXIS = ("pyxis", "pyxis_build")


class UndecidedError(Exception):
    """A decision that cannot be made here: variables or the cluster file have mistakes, which other checks report."""


@dataclass
class SiteHost:
    """A host of a run, with the roles that the playbooks run there."""

    run: RunHost
    roles: Sequence[str]
    _decisions: dict[str, Decision | None] = field(default_factory=dict)

    def variable(self, role: str, name: str) -> Any:
        """Return the value of a role's variable; None where it is not set, or is a template that cannot be rendered here."""
        try:
            return self.run.template(self.run.variables.get(f"{role}_{name}"))
        except AnsibleError:
            return None

    def parts(self, role: str) -> list[str]:
        """Return the names of a role's parts on this host. UndecidedError: unknown."""
        if role not in self._decisions:
            self._decisions[role] = self._decided(role)
        decision = self._decisions[role]
        if decision is None:
            raise UndecidedError
        return [name for name in decision.parts if role in self.roles or name in _PYXIS]

    def values(self, role: str, part: str) -> Values:
        """Return the values of a part of this host. UndecidedError: unknown."""
        decision = self._decisions[role]
        try:
            if decision is not None:
                return decision.parts[part]
        except ValueError:
            pass
        raise UndecidedError

    def paths(self, role: str, part: str) -> Sequence[PartPath]:
        """Return the paths of a part on this host; as the part file has them, where its values are unknown."""
        try:
            return list(host_paths(role, part, self.values(role, part))) if part in self.parts(role) else []
        except UndecidedError:
            return literal_paths(role, part) if role in self.roles else []

    def units(self, role: str, name: str) -> list[PartUnit]:
        """Return what the role's parts on this host have of a unit. UndecidedError: unknown."""
        parts = [part for part in self.parts(role) if any(matches(one, name) for one in literal_units(role, part))]
        found = [unit for part in parts for unit in host_units(role, part, self.values(role, part))]
        return [unit for unit in found if unit.name == name]

    def writes_site_files(self, role: str) -> bool:
        """Return whether the role writes a site's own files on this host, as far as that is known."""
        if role not in self.roles:
            return False
        try:
            return any(part_file(role, part).get("site_files") for part in self.parts(role))
        except UndecidedError:
            return True

    def _decided(self, role: str) -> Decision | None:
        try:
            return decide(role, self.run.request(role))
        except (AnsibleError, KeyError, ValueError):
            return None
