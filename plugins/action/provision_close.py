# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""End a run of provisioning, and report it; documented in plugins/modules/provision_close.py."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.progress import KNOWN
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision import outcome, slurm_gate
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.provision_action import ProvisionAction


class ActionModule(ProvisionAction):
    """Let go of the nodes, and fail if one was not installed."""

    _VALID_ARGS = frozenset(("refused", "resume", "slurm"))
    _begin = "The run is done, and its end was not recorded:"

    def _work(self) -> dict[str, Any]:
        seen = {node: one.progress for node, one in self._look.nodes.items() if one.progress}
        held = [one for one in seen.values() if one.holder and self._desk.is_free(one, self._look.now)]
        if not self._task.check_mode:
            self._desk.write(held, self._look.now, keeps=False)
        failed = {node: str(why) for node, why in (self._task.args.get("refused") or {}).items()}
        answer, resume = self._task.args.get("slurm") or {}, list(self._task.args.get("resume") or ())
        silent = slurm_gate.unresumed(resume, answer) if self._site.given.cluster.services.controllers else {}
        sworn = slurm_gate.named(str(self._site.given.choices["provision_without_slurm"]))
        waiting = {node: why for node, why in silent.items() if node in sworn}
        for node in silent.keys() - sworn:
            failed[node] = (
                f"{failed[node].rstrip('. ')}. And {silent[node]}"
                if node in failed
                else f"installed, and {silent[node]}"
            )
        known = [node for node, one in seen.items() if one.state == KNOWN and node not in failed]
        return {
            "changed": False,
            "failed": bool(failed),
            "failed_nodes": fold(failed),
            "msg": "\n".join([*outcome.summary(known, failed, answer.get("nodes") or {}), *outcome.grouped(waiting)]),
            "_ansible_verbose_always": not failed,
        }
