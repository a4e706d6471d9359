# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prove the files of a fabric on a simulated one; documented in plugins/modules/fabric_simulation.py."""

from __future__ import annotations

import json
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import to_json
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.places import counted
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate import requested_proofs

_CHOICES: dict[str, dict[str, Any]] = {
    "routing_engines": {"type": "list", "elements": "str"},
    "no_fallback": {"type": "bool"},
    "options": {"type": "dict"},
}
_OPTIONS: dict[str, dict[str, Any]] = {
    "cluster_file": {"type": "path", "required": True},
    "fabric": {"type": "str"},
    "opensm": {"type": "dict", "options": _CHOICES},
    "recorded": {"type": "bool", "default": True},
    "slurm_version": {"type": "str"},
    "timeout": {"type": "int"},
}


class ActionModule(ActionBase):  # type: ignore[misc]
    """The action; it runs on the control node alone, with the cluster file and the tools, and connects to no machine."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Simulate, in check mode as well; a failure has all findings."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(_OPTIONS)
        try:
            cluster = load(arguments["cluster_file"])
            of_all = arguments["opensm"] is not None and arguments["recorded"]
            if arguments["fabric"] or not of_all:
                cluster = cluster.view(arguments["fabric"] or "")
            if of_all:
                requests = requested_proofs.of_managers(cluster, arguments["opensm"])
            else:
                requests = [requested_proofs.of_plan(cluster, arguments["slurm_version"], arguments["opensm"])]
        except (ClusterFileError, KeyError, ValueError) as error:
            raise AnsibleActionFail(str(error.args[0])) from None
        report = requested_proofs.run_all(requests, arguments["timeout"])
        result.update(changed=False, findings=to_json(report.findings), planes=report.planes)
        if report.findings:
            head = f"{counted(len(report.findings), 'finding')}:"
            return {**result, "failed": True, "msg": "\n".join([head, *map(str, report.findings)])}
        proved = json.dumps({"planes": report.planes}, indent=2, sort_keys=True) + "\n"
        return {**result, "msg": "; ".join(report.lines) or "no plane to simulate", "proved": proved}
