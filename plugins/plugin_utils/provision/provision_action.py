# SPDX-License-Identifier: GPL-3.0-or-later
"""Share between the actions of provision.yml their input, the provision host to which they are delegated, the BMCs, and SSH to nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.loader import connection_loader
from ansible.utils.display import Display

from ...module_utils.common.hostlist import fold
from ..bmc.bmc_accounts import accounts_of
from ..bmc.bmc_targets import NameMistakesError
from ..bmc.run_input import RunError
from ..common.cluster_secrets import secrets_of
from ..common.secrets import SecretError
from ..roll import run_holder
from ..roll.controller_call import ControllerAction
from .bmc_fleet import Fleet
from .desk import Desk, DeskError, Look
from .planning import Plan, plan_of
from .site_input import Site, site_of
from .ssh_keys import AnsibleSsh
from .wanted import Wanted, image_mistakes, wanted_of

_SSH = "ansible.builtin.ssh"
NOTHING = "Nothing was changed:"
ERRORS = (RunError, SecretError, NameMistakesError, DeskError)


class ProvisionAction(ControllerAction):
    """An action that is delegated to the provision host. `_prepare` reads everything; each action makes `_plan` again."""

    _requires_connection = True
    _site: Site
    _desk: Desk
    _wanted: Mapping[str, Wanted]
    _look: Look
    _plan: Plan

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once for all nodes."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        try:
            self._prepare()
            return {**result, **self._work()}
        except ERRORS as error:
            raise AnsibleActionFail(f"{self._begin} {error}") from None

    _begin = NOTHING

    def _work(self) -> dict[str, Any]:
        """Return the result of the task."""
        raise NotImplementedError

    def _prepare(self) -> None:
        extra = self._task.get_variable_manager().extra_vars
        self._site = site_of(self._task_vars, extra, self._templar.template)
        self._desk = Desk(self._on_host, self._site.desk(run_holder.holder()))
        given, confirmed = self._site.given, self._site.confirmed
        images = list(dict.fromkeys(node.image for node in confirmed.nodes))
        self._look = self._desk.look([node.name for node in confirmed.nodes], images)
        if found := image_mistakes(confirmed, given.cluster, self._look.images, self._look.image_errors):
            raise RunError("\n".join([*found, *_open_orders(self._look)]))
        self._wanted, found = wanted_of(confirmed, given.cluster, given.record, self._look.images, self._site.keys)
        if found:
            raise RunError("\n".join([*found, *_open_orders(self._look)]))
        self._plan = plan_of(self._wanted, self._look, confirmed.wiped, self._desk.is_free)

    def _on_host(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        # Paths of media are secrets, and with -vvv Ansible's SSH shows what a module prints.
        context = self._connection._play_context
        before, context.no_log = context.no_log, True
        try:
            return self._module(name, **arguments)
        finally:
            context.no_log = before

    def _fleet(self) -> Fleet:
        secrets = secrets_of(self._task_vars, self._templar, self._loader)
        return Fleet(accounts_of(secrets, self._wanted), self._site.given.reach)

    def _ssh(self) -> AnsibleSsh:
        return AnsibleSsh(self._option_of, lambda node: str(self._hostvars(node).get("ansible_host") or node))

    def _hostvars(self, node: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._task_vars["hostvars"][node]
        return found

    def _option_of(self, node: str) -> Callable[[str], object]:
        """Return the options of a node's SSH connection, as its own tasks would have them."""
        connection = connection_loader.get(_SSH, self._play_context)
        own = self._hostvars(node)
        names = constants.config.get_plugin_vars("connection", connection._load_name)
        values = {name: self._templar.template(own[name]) for name in names if name in own}
        connection.set_options(var_options=values)
        return partial(_option, connection)

    def _say(self, node: str, text: str) -> None:
        Display().display(f"{node}: {text}")


def _open_orders(look: Look) -> list[str]:
    """Return a line for all nodes that an earlier run has left with an open order."""
    nodes = [node for node, one in look.nodes.items() if one.open]
    what = "an earlier run has left an open order, with which a reset of the machine may still install it"
    return [f"{fold(nodes)}: {what}. Correct the mistake and run again, which continues or closes it."] if nodes else []


def _option(connection: Any, name: str) -> object:
    try:
        return connection.get_option(name)
    except KeyError:
        return None
