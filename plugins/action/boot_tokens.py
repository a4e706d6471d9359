# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Print the tokens of nodes that boot from the network; documented in plugins/modules/boot_tokens.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.template import Templar
from ansible.utils.display import Display

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Node
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.registered import write_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.decisions import decide
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.host_decision import RunHost
from ansible_collections.bedplate.cluster.plugins.plugin_utils.tuning import boot_tokens

_ROLE = "node_tuning"


class ActionModule(ActionBase):  # type: ignore[misc]
    """Decide for all hosts of the play, and print the text as it is. Connects to no machine."""

    _VALID_ARGS = frozenset(("file",))
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task, once for all hosts of the play."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        rows = boot_tokens.grouped(self._nodes((task_vars or {})["ansible_play_hosts_all"]))
        file, check = self._task.args.get("file"), bool(self._task.check_mode)
        changed, message = False, f"{len(rows)} groups of nodes boot from the network"
        if not rows:
            # A boot server that reads the file keeps what it has: most often a limit leaves the nodes out.
            message = "no node of this run has a profile with `boot: network`" + (
                f"; {file} is not written" if file else ""
            )
        elif file:
            changed = write_report(Path(str(file)), boot_tokens.to_json(rows), "boot_tokens_file", check=check)
        Display().display(boot_tokens.text(rows) if rows else message)
        return {**result, "changed": changed, "msg": message, "groups": [vars(row) for row in rows]}

    def _nodes(self, hosts: Sequence[str]) -> Iterator[tuple[str, str, Sequence[str]]]:
        """Yield name, profile and tokens of the nodes that boot from the network."""
        manager = self._task.get_variable_manager()
        for name in hosts:
            variables = manager.get_vars(host=manager._inventory.hosts[name], include_hostvars=False)
            host = RunHost(variables, Templar(self._loader, variables).template, lambda *_: "")
            try:
                request = host.request(_ROLE)
                tokens = boot_tokens.tokens_of(decide(_ROLE, request).expected)
            except (KeyError, ValueError, AnsibleError) as error:
                raise AnsibleActionFail(f"{name}: {error.args[0] if error.args else error}") from None
            machine = request.cluster.machine(name)
            if tokens is not None and isinstance(machine, Node):
                yield name, machine.profile.name, tokens
