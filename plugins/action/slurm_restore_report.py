# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Report a restore of Slurm host by host; documented in plugins/modules/slurm_restore_report.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.restore_plan import PLAN, report


class ActionModule(ActionBase):  # type: ignore[misc]
    """Compare slurmctld's running jobs with the plan; it connects to no machine."""

    _requires_connection = False
    _VALID_ARGS: frozenset[str] = frozenset()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        plan = variables[PLAN]
        raw = variables["hostvars"].raw_get
        restored: dict[str, list[str]] = {}
        for host in plan["core"]:
            for name, text in (
                ("__restore_database", "database: {rows} rows of {tables} tables"),
                ("__restore_state", "state: {files} files, next job id {next_job}"),
                ("__restore_dbd", "slurmdbd answered after {seconds} s"),
                ("__restore_ctld", "slurmctld answered after {seconds} s"),
            ):
                found = raw(host).get(name)
                facts = {**found, **(found.get("restored") or {})} if isinstance(found, Mapping) else {}
                if not facts.get("skipped") and (facts.get("restored") or facts.get("up")):
                    restored.setdefault(host, []).append(text.format(**facts))
        running = (raw(plan["primary"]).get("__restore_jobs") or {}).get("jobs") or []
        text, unknown = report(plan, running, {host: "; ".join(one) for host, one in restored.items()})
        self._display.display(text)
        result: dict[str, Any] = {"changed": False, "msg": text, "unknown": unknown}
        if unknown:
            result["warnings"] = [
                f"jobs that ran at the restore, and that slurmctld does not have as running: {unknown}"
            ]
        return result
