# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check and plan an upgrade of Slurm over all hosts, and begin it; documented in plugins/modules/slurm_upgrade_plan.py."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import ROLL
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import controller_call, run_holder
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import backup_part, job_guard
from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade import upgrade_arguments, upgrade_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade.upgrade_plan import plan, preview
from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade.upgrade_refusals import refusals
from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade.upgrade_site import NO_ANSWER, Site, site_of

_LOOK = "__upgrade_look"
_MARGIN = 14400  # seconds for what a step takes beyond its deadline


class ActionModule(controller_call.ControllerAction):
    """Judge what was found on all hosts, and take the record of the run on a controller."""

    _VALID_ARGS: frozenset[str] = frozenset()
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once for all hosts of the play."""
        super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        chosen = self._choices()
        cluster = self._cluster()
        site = self._site(cluster)
        found = plan(site, chosen, self._task.check_mode)
        is_whole = all(host in site.looks for host in site.core)
        if (found["pending"] or not is_whole) and (wrong := refusals(site, chosen["without_return"])):
            raise AnsibleActionFail("\n".join(["the upgrade is refused, and nothing was touched:", *wrong]))
        record: dict[str, Any] = {"run": "", "holder": ""}
        if found["pending"]:
            record = self._begun(chosen)
            if controller_call.is_lost(record):
                return record
        text = preview(found)
        self._display.display(text)
        return {
            **found,
            "changed": False,
            "run": record["run"],
            "holder": run_holder.holder() if found["pending"] else "",
            "controller": self._controller(),
            "record_seconds": _record_seconds(chosen),
            "database_name": backup_part.database_name(cluster),
            "state": backup_part.state_path(cluster),
            "slurm_conf": upgrade_arguments.slurmdbd_client_conf(cluster),
            "logs": upgrade_arguments.logs(cluster),
            "msg": text,
        }

    def _site(self, cluster: Cluster) -> Site:
        """Return the site with what every host of the play reported."""
        raw = self._task_vars["hostvars"].raw_get
        looks: dict[str, Mapping[str, Any]] = {}
        lost: dict[str, str] = {}
        for host in self._task_vars["ansible_play_hosts_all"]:
            result = raw(host).get(_LOOK)
            if isinstance(result, Mapping) and isinstance(result.get("look"), Mapping):
                looks[host] = result["look"]
            elif isinstance(result, Mapping) and not result.get("unreachable"):
                lost[host] = str(result.get("msg") or "failed without a message")
            else:
                lost[host] = NO_ANSWER
        builds = [host for host in looks if self._builds_pyxis(raw(host))]
        return site_of(
            cluster, looks, lost, builds, self._refusal(cluster, raw, self._task_vars["ansible_play_hosts_all"])
        )

    def _builds_pyxis(self, variables: Mapping[str, Any]) -> bool:
        return bool(variables.get("container_runtime_pyxis"))

    @staticmethod
    def _refusal(cluster: Cluster, raw: Any, hosts: Iterable[str]) -> str:
        """Return why the controllers' files must not change now: jobs would be lost, or could start on a changing line meanwhile."""
        names = list(cluster.services.controllers)
        # Of nodes, too: the guard judges what was read of their jobs, and what was not.
        variables = {name: raw(name) for name in dict.fromkeys([*names, *hosts])}
        if text := job_guard.refusal(variables, names):
            return text
        answers = job_guard.answers(variables, names, "__slurm_in_use").values()
        if any(one.get("exposed") for one in answers):
            return (
                "the cluster file changes lines of nodes or partitions that may get a job while slurmctld is stopped. Apply that first, "
                "with the installed release in slurm.version, or drain these nodes: playbooks/scheduler.yml --check --diff names them"
            )
        return ""

    def _begun(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Take the record of the run; another upgrade or a roll that holds its own is an error, in check mode too."""
        record = self._module("run_record", kind=upgrade_variables.KIND)
        if controller_call.is_lost(record):
            return record
        dead = self._dead(record, chosen["ended"])
        if record["held"] and not dead:
            raise AnsibleActionFail(run_holder.busy("another upgrade", record, f"-e upgrade_ended={record['run']}"))
        run = str(record["run"] or secrets.token_hex(4))
        if self._task.check_mode:
            taken: dict[str, Any] = {"run": run}
        else:
            arguments = {
                "state": "taken",
                "run": run,
                "holder": run_holder.holder(),
                "dead": dead,
                "seconds": _record_seconds(chosen),
            }
            taken = self._module("run_record", kind=upgrade_variables.KIND, **arguments)
        # After its own record is taken: of two that begin at once, at least one sees the other.
        roll = self._module("run_record", kind=ROLL)
        if controller_call.is_lost(taken) or controller_call.is_lost(roll):
            return taken if controller_call.is_lost(taken) else roll
        if roll["held"] and not self._dead(roll, ""):
            if not self._task.check_mode:
                self._module(
                    "run_record",
                    kind=upgrade_variables.KIND,
                    state="released",
                    holder=run_holder.holder(),
                    finished=True,
                )
            remedy = f"playbooks/roll.yml -e roll_ended={roll['run']} continues it"
            raise AnsibleActionFail(run_holder.busy("a roll", roll, remedy))
        return taken

    @staticmethod
    def _dead(record: Mapping[str, Any], ended: str) -> str:
        has_ended = run_holder.is_gone(str(record["holder"])) or (bool(ended) and ended == record["run"])
        return str(record["holder"]) if has_ended else ""

    def _choices(self) -> dict[str, Any]:
        named = {name: self._task_vars[name] for name in upgrade_variables.VARIABLES if name in self._task_vars}
        try:
            return upgrade_variables.choices({name: self._templar.template(value) for name, value in named.items()})
        except (KeyError, ValueError, AnsibleError) as error:
            raise AnsibleActionFail(f"a variable of the upgrade has a wrong value: {error}. Run validate.yml") from None

    def _controller(self) -> str:
        delegated = self._task_vars.get("ansible_delegated_vars") or ()
        return str(next(iter(delegated), self._task_vars["inventory_hostname"]))

    def _cluster(self) -> Cluster:
        try:
            return load(str(self._task_vars["bedplate_cluster_file"]))
        except (KeyError, ClusterFileError) as error:
            raise AnsibleActionFail(f"slurm_upgrade_plan needs a cluster file: {error}") from None


def _record_seconds(chosen: Mapping[str, Any]) -> int:
    """Return until when the record is held at the latest: the dump, its proof, its restore, and the starts may each take their time."""
    return 4 * int(chosen["seconds"]) + _MARGIN
