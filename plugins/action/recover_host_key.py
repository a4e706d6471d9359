# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judge the SSH host key of a machine before any login, and write a proved one; documented in plugins/modules/recover_host_key.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover import (
    key_sources,
    key_verdict,
    known_hosts_files,
    recover_variables,
    ssh_target,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.host_keys import HostKeyError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.key_verdict import KNOWN, NEW, KeyVerdict


class ActionModule(ActionBase):  # type: ignore[misc]
    """The action; it runs on the control node, with the options of the host's connection, and connects by ssh alone."""

    _requires_connection = False
    _VALID_ARGS = frozenset(("verdict",))

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Compare the key, or with a verdict write it."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        if "verdict" in self._task.args:
            return {**result, **self._written(self._task.args["verdict"])}
        try:
            verdict = self._verdict()
        except ValueError as error:
            verdict = key_verdict.refused(error)
        return {**result, "changed": False, **verdict.facts()}

    def _verdict(self) -> KeyVerdict:
        if getattr(self._connection, "transport", "") != "ssh":
            return KeyVerdict(KNOWN, "not reached by SSH")
        option = self._connection.get_option
        host = str(option("host") or self._task_vars.get("ansible_host") or self._task_vars["inventory_hostname"])
        machine = ssh_target.target(ssh_target.command_of(option), host)
        node = str(self._task_vars["inventory_hostname"])
        aliases = machine.aliases(node)
        names = list(dict.fromkeys([machine.name, *aliases, node]))
        source = key_sources.stated(self._choices(), node, names)
        return key_verdict.Judge(machine, aliases, key_verdict.lines_for(machine), source).verdict()

    def _choices(self) -> dict[str, Any]:
        named = {name: self._task_vars[name] for name in recover_variables.VARIABLES if name in self._task_vars}
        return recover_variables.choices({name: self._templar.template(value) for name, value in named.items()})

    def _written(self, verdict: dict[str, Any]) -> dict[str, Any]:
        """Write the key of a verdict; nothing for a known one."""
        if verdict.get("state") != NEW or not verdict.get("key"):
            return {"changed": False, "files": []}
        key = verdict["key"]
        try:
            files = [Path(str(one)) for one in key["files"]]
            changed = known_hosts_files.write(files, key_verdict.replacement(key), self._task.check_mode)
        except HostKeyError as error:
            raise AnsibleActionFail(str(error)) from None
        result: dict[str, Any] = {"changed": bool(changed), "files": changed}
        if not files:
            result["warnings"] = ["Ansible's SSH keeps no host keys (UserKnownHostsFile none): the key is not written"]
        return result
