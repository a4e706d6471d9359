# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Open a backup, check it against hosts and nodes, and plan its restore; documented in plugins/modules/slurm_restore_plan.py."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup import existing_secrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.opened_backup import OpenError, open_backup
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.restore_jobs import fates
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.restore_plan import plan, preview
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.restore_refusals import refusals
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.restore_site import MUNGE, RestoreSite
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.run_choices import private_key, restore_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import ClusterSecrets, secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import backup_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade.upgrade_arguments import slurmdbd_client_conf

_NODE, _LOOK = "__restore_node", "__restore_look"
_FOLDER = "/var/lib/bedplate/slurm-restore"


class ActionModule(ActionBase):  # type: ignore[misc]
    """Judge the backup with what every host reported; it runs on the control node."""

    _requires_connection = False
    _VALID_ARGS: frozenset[str] = frozenset()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once for all hosts of the play."""
        super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        try:
            cluster = load(str(self._task_vars["bedplate_cluster_file"]))
            chosen = restore_choices(self._task_vars, self._templar.template)
            file = Path(chosen["from"]).resolve()
            backup = open_backup(file, private_key(chosen), chosen["seconds"])
            secrets = secrets_of(self._task_vars, self._templar, self._loader)
            site = self._site(cluster, backup, secrets)
            database = backup_part.database_name(cluster) if site.database else ""
        except (KeyError, ValueError, OSError, ClusterFileError, SecretError, OpenError) as error:
            raise AnsibleActionFail(f"the restore is refused, and nothing was touched: {error}") from None
        found = fates(site.jobs(), site.on_nodes())
        next_job = site.next_job(chosen["job_gap"])
        if not site.is_finished():
            wrong = refusals(site, found, chosen["over"], bool(chosen["loses_jobs"]), next_job)
            if wrong:
                raise AnsibleActionFail("\n".join(["the restore is refused, and nothing was touched:", *wrong]))
        planned = plan(site, found, chosen["over"], next_job, existing_secrets.missing(secrets, backup.secrets))
        text = preview(site, planned, found)
        self._display.display(text)
        return {
            **planned,
            "changed": False,
            "is_preview": self._task.check_mode,
            "file": str(file),
            "folder": _FOLDER,
            "nodes": fold(site.nodes),
            "seconds": chosen["seconds"],
            "database_name": database,
            "state": backup_part.state_path(cluster),
            "slurm_conf": slurmdbd_client_conf(cluster),
            "msg": text,
        }

    def _site(self, cluster: Cluster, backup: Any, secrets: ClusterSecrets) -> RestoreSite:
        """Return the site with what each host and node reported."""
        raw = self._task_vars["hostvars"].raw_get
        looks: dict[str, Mapping[str, Any]] = {}
        nodes: dict[str, Mapping[str, Any]] = {}
        lost: dict[str, str] = {}
        core = {*cluster.services.controllers, *cluster.services.database}
        for host in dict.fromkeys([*core, *(node.name for node in cluster.nodes)]):
            result = raw(host).get(_NODE if host not in core else _LOOK)
            if isinstance(result, Mapping) and isinstance(result.get("look"), Mapping):
                looks[host] = result["look"]
            elif isinstance(result, Mapping) and isinstance(result.get("jobs"), list):
                nodes[host] = {"jobs": result["jobs"], "munge": result["munge"]}
            else:
                lost[host] = _why(result)
        for host in core:
            # A controller that is a node, too.
            both = raw(host).get(_NODE)
            if isinstance(both, Mapping) and isinstance(both.get("jobs"), list):
                nodes[host] = {"jobs": both["jobs"], "munge": ""}
        key = existing_secrets.existing(secrets, MUNGE)
        return RestoreSite(
            cluster=backup_part.slurm_name(cluster),
            release=str(cluster.slurm.version),
            controllers=list(cluster.services.controllers),
            database=list(cluster.services.database),
            backup=backup,
            looks=looks,
            nodes=nodes,
            lost=lost,
            munge=hashlib.sha256(key).hexdigest() if key else "",
        )


def _why(result: object) -> str:
    if not isinstance(result, Mapping):
        return "not in this run"
    if result.get("unreachable"):
        return "no answer by SSH"
    return str(result.get("msg") or "failed without a message")
