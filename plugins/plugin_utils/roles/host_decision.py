# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide and render parts of a role for one host of a run: what the action plugins part and node_state share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..common import shipped
from ..common.role_choices import defaults, role_choices
from ..common.role_interfaces import role_options
from ..parts.decision import Decision
from ..parts.part_files import PartError, load_templates, part_file, parts_of
from ..parts.render import SiteChanges, SiteRenderer, render_part
from ..parts.site_mistakes import site_mistakes
from ..plain.host_cluster import host_cluster
from .decisions import HostRequest, decide
from .role_mistakes import ROLES

Template = Callable[[Any], Any]
_ABSENT = "_absent"


class HostDecision:
    """The decision of a role for a host, and its parts as bedplate.cluster.deploy takes them."""

    def __init__(self, role: str, choices: Mapping[str, Any], decision: Decision, render: SiteRenderer) -> None:
        self.role = role
        self.decision = decision
        self._site = SiteChanges(
            choices.get("templates") or {}, choices.get("extra_files") or [], choices.get("drop_ins") or {}, render
        )

    def arguments(self, part: str) -> dict[str, Any] | None:
        """Return the arguments for a part; None where this host is not to have it.

        Where the role decides that a host must lose a part, those of `<part>_absent` come in its place.
        """
        for name in (part, f"{part}{_ABSENT}"):
            if name in self.decision.parts:
                return render_part(self.role, name, self.decision.parts[name], self._site)
        return None

    def deployments(self) -> list[dict[str, Any]]:
        """Return the arguments of all parts of this host, in the order of their names."""
        names = [name for name in parts_of(self.role) if name in self.decision.parts and not name.endswith(_ABSENT)]
        return [render_part(self.role, name, self.decision.parts[name], self._site) for name in names]


@dataclass(frozen=True)
class RunHost:
    """A host of a run: its variables as Ansible has them, and how values and files of the site are rendered there.

    `template` renders a value that is a template, `render` a template file of the site. `login_user` is the user as whom Ansible logs in,
    or "". `check`: whether the run installs nothing.
    """

    variables: Mapping[str, Any]
    template: Template
    render: SiteRenderer
    login_user: str = ""
    check: bool = False

    def decision(self, role: str, reported: Mapping[str, Any] | None = None) -> HostDecision:
        """Return the decision of a role for this host. KeyError, ValueError: as `decide`."""
        request = self.request(role, reported)
        if wrong := list(site_mistakes(role, request.choices)):
            raise PartError("\n".join(wrong))
        return HostDecision(role, request.choices, decide(role, request), self.render)

    def request(self, role: str, reported: Mapping[str, Any] | None = None) -> HostRequest:
        """Return what a role decides from for this host. ValueError: mistakes in the cluster file, the inventory or variables."""
        cluster = host_cluster(role, self.variables, self.template)
        return HostRequest(
            cluster=cluster,
            host=str(self.variables["inventory_hostname"]),
            choices=role_choices(role, self.variables, self.template),
            reported=reported or {},
            groups=tuple(self.variables.get("group_names") or ()),
            login_user=str(self.template(self.variables.get("ansible_user")) or self.login_user),
            check=self.check,
            # YAML reads `off` without quotes as false.
            gpu_by_table=self.template(self.variables.get("gpu_resolve")) in ("off", False),
        )


def preload() -> None:
    """Read what decisions and parts of all roles need: a fork takes over what is loaded, and would read it again for each host."""
    for role in ROLES:
        role_options(role)
        defaults(role)
        load_templates(role)
        for part in parts_of(role):
            for unit in part_file(role, part).get("units", ()):
                if "program" in unit:
                    shipped.entries(unit["program"])
