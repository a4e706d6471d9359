# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Write one file with the backups of all hosts; documented in plugins/modules/slurm_backup_collect.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.container import ContainerError
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.crypt import CryptError
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.manifest import CLUSTER, SECRETS
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup import site_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.run_choices import backup_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import backup_part

_TAKEN = "__backup_taken"


class ActionModule(ActionBase):  # type: ignore[misc]
    """Add the control node's part to the fetched ones; it connects to no machine."""

    _requires_connection = False
    _VALID_ARGS: frozenset[str] = frozenset()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        try:
            cluster = load(str(variables["bedplate_cluster_file"]))
            hosts = backup_part.backup_hosts(cluster)
            taken = {host: self._taken(variables, host) for host in hosts}
            if silent := [host for host, one in taken.items() if not one]:
                raise AnsibleActionFail(f"no backup was made: {', '.join(silent)} failed or was not in this run")
            chosen = backup_choices(variables, self._templar.template)
            name = backup_part.slurm_name(cluster)
            target = backup_part.target_folder(chosen["to"], cluster)
            if self._task.check_mode:
                return self._preview(target, hosts)
            secrets = secrets_of(variables, self._templar, self._loader).store.directory
            base = Path(cluster.path).resolve().parent
            members = {
                CLUSTER: (base, site_part.beside(Path(cluster.path).resolve())),
                SECRETS: (secrets, site_part.secret_files(secrets)),
            }
            parts = {host: Path(one["part"]) for host, one in taken.items()}
            file, counts = site_part.collect(name, Path(chosen["recipient"]), parts, members, target)
            for path in parts.values():
                path.unlink()
        except (KeyError, ValueError, OSError, ClusterFileError, SecretError, ContainerError, CryptError) as error:
            raise AnsibleActionFail(f"no backup was made: {error}") from None
        lines = [_line(host, one) for host, one in taken.items()]
        lines.append(f"control node: {counts[CLUSTER]} files of the cluster, {counts[SECRETS]} files of its secrets")
        text = "\n".join([f"{file}: {file.stat().st_size} bytes", *lines])
        self._display.display(text)
        return {"changed": True, "file": str(file), "hosts": taken, "msg": text}

    def _preview(self, target: Path, hosts: list[str]) -> dict[str, Any]:
        text = f"a backup of {', '.join(hosts)} and of the control node would be written to {target}"
        self._display.display(text)
        return {"changed": True, "file": "", "msg": text}

    def _taken(self, variables: Mapping[str, Any], host: str) -> dict[str, Any]:
        """Return what a host backed up, {} if it failed."""
        found = variables["hostvars"].raw_get(host).get(_TAKEN)
        if not isinstance(found, Mapping) or found.get("failed") or found.get("unreachable"):
            return {}
        names = ("at", "slurm", "rows", "tables", "files", "running", "waiting", "file", "part")
        return {name: found[name] for name in names if name in found} or {"part": ""}


def _line(host: str, taken: Mapping[str, Any]) -> str:
    files = sum(taken["files"].values())
    return (
        f"{host}: Slurm {taken['slurm']}, {taken['rows']} rows of {taken['tables']} tables, {files} files, "
        f"{taken['running']} running and {taken['waiting']} waiting jobs"
    )
