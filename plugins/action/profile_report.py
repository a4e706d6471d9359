# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Print profiles of the cluster file; documented in plugins/modules/profile_report.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.registered import results_of, write_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.report.profiles import profiles_text


class ActionModule(ActionBase):  # type: ignore[misc]
    """Print the text as it is, so that it can be pasted: a callback would indent it. Connects to no machine."""

    _VALID_ARGS = frozenset(("registered", "file"))
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task, once for all hosts of the play."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        registered = results_of(self._task.args.get("registered"), task_vars or {}, "node_report")
        results = {host: one or {} for host, one in registered.items()}
        reports = {host: one["hardware"] for host, one in results.items() if "hardware" in one}
        unread = {host: str(one.get("msg") or "no answer") for host, one in results.items() if "hardware" not in one}
        text = profiles_text(reports, unread)
        Display().display(text)
        file, check = self._task.args.get("file"), bool(self._task.check_mode)
        changed = bool(file) and write_report(Path(str(file)), text, "record_profile_file", check=check)
        failed = not reports
        message = f"{len(reports)} of {len(results)} machines were read"
        return {
            **result,
            "changed": changed,
            "failed": failed,
            "msg": message,
            "profiles": text,
            "machines": len(reports),
        }
