# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Write the redacted report of a pilot run; documented in plugins/modules/pilot_report.py."""

from __future__ import annotations

import getpass
import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.registered import results_of, write_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.report.pilot_document import (
    LeakError,
    Run,
    document_of,
    pseudonyms_of,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.report.pseudonyms import DOMAIN, HOST, SECRET, USER

_USERS = ("ansible_user", "ansible_ssh_user", "ansible_become_user", "remote_user")
_SECRETS = (
    "ansible_password",
    "ansible_ssh_pass",
    "ansible_ssh_password",
    "ansible_become_password",
    "ansible_become_pass",
)


class ActionModule(ActionBase):  # type: ignore[misc]
    """Redact the results of bedplate.cluster.node_report, and write them; connects to no machine."""

    _VALID_ARGS = frozenset(("registered", "file"))
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task, once for all hosts of the play."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        file = self._task.args.get("file")
        if not file:
            raise AnsibleActionFail("file: empty; allowed: the path of the report")
        registered = results_of(self._task.args.get("registered"), variables, "node_report")
        run = Run({host: one or {} for host, one in registered.items()}, self._names(variables))
        try:
            document = document_of(run, pseudonyms_of(run))
        except LeakError as error:
            raise AnsibleActionFail(
                f"{file}: not written, because the redacted report still has: {error}. Report this as a mistake of bedplate"
            ) from None
        where = f"{file} is not written in check mode"
        if not self._task.check_mode:
            write_report(Path(str(file)), json.dumps(document, indent=1) + "\n", "pilot_file", mode=0o600)
            where = f"see {file}"
        message = (
            f"{_count(len(run.read), 'node')} of {_count(len(document['kinds']), 'kind')} read, {len(document['not_read'])} not read; "
            f"{_count(document['differences'], 'difference')} between expected and found; {where}"
        )
        counts = {
            "nodes": document["nodes"],
            "differences": document["differences"],
            "not_read": len(document["not_read"]),
        }
        return {
            **result,
            **counts,
            "changed": False,
            "failed": not run.read,
            "msg": message,
            "_ansible_verbose_always": True,
        }

    def _names(self, variables: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return the names that the inventory and the control node have, by kind."""
        every = dict(variables["hostvars"])
        control = socket.gethostname()
        names: dict[str, list[str]] = {
            HOST: [control, control.partition(".")[0], *self._hosts(variables), *every],
            DOMAIN: [],
            USER: [getpass.getuser(), str(self._play_context.remote_user or "")],
            SECRET: [],
        }
        raw = variables["hostvars"].raw_get
        for host in every:
            own = raw(host)
            names[HOST] += _texts(own, ("ansible_host",))
            names[USER] += _texts(own, _USERS)
            names[SECRET] += _texts(own, _SECRETS)
        names[DOMAIN] = [
            *_texts(variables, ("bedplate_domain",)),
            *(one.partition(".")[2] for one in names[HOST] if _is_name(one)),
        ]
        names[HOST] += [one.partition(".")[0] for one in names[HOST] if _is_name(one)]
        return names

    def _hosts(self, variables: Mapping[str, Any]) -> Iterator[str]:
        """Yield the names in the cluster file: of the site, of machines and of racks. A file with mistakes has no names here."""
        yield from _texts(variables, ("bedplate_site", "bedplate_cluster"))
        path = variables.get("bedplate_cluster_file")
        if path:
            try:
                cluster = load(str(path))
            except ClusterFileError:
                return
            yield from (*cluster.machines, *([f"x.{cluster.domain}"] if cluster.domain else []))


def _texts(variables: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    return [str(variables[name]) for name in names if isinstance(variables.get(name), str)]


def _is_name(text: str) -> bool:
    """Return whether a text is a host name with a domain, not an address."""
    return "." in text and not text.replace(".", "").isdigit()


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
