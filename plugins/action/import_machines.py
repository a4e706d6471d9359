# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Import machines from another system into the record; documented in plugins/modules/import_machines.py."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import run_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_interfaces import misspelt_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_record import RecordError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.sources import chosen_source, import_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.sources.machine_row import SourceError

_OPTIONS: dict[str, dict[str, Any]] = {
    "cluster_file": {"type": "path", "required": True},
    "source": {"type": "str", "required": True},
    "token_file": {"type": "str", "default": ""},
    "ca": {"type": "str", "default": ""},
    "boot_interface": {"type": "str", "default": ""},
    "replace": {"type": "str", "default": ""},
}
_VARIABLES = ("import_boot_interface", "import_ca", "import_from", "import_replace", "import_token_file")


class ActionModule(ActionBase):  # type: ignore[misc]
    """The action; it runs on the control node alone and connects to no machine of the cluster."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Import; one error has all mistakes, and then nothing is written."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(_OPTIONS)
        given = self._task.get_variable_manager().extra_vars
        mistakes = misspelt_variables(given, "import_", _VARIABLES, "playbooks/import_machines.yml")
        others = [name for name in given if not name.startswith("import_")]
        if mistakes := [*mistakes, *run_variables.slips(others, (), _VARIABLES, (), "import_machines")]:
            raise AnsibleActionFail("\n".join(mistakes))
        try:
            cluster = load(arguments["cluster_file"])
            texts = {key: arguments[key] for key in ("token_file", "ca", "boot_interface")}
            source = chosen_source.source_of(arguments["source"], **texts)
            replaced = import_report.replaced_of(arguments["replace"], cluster)
            report = import_report.import_machines(cluster, source, replaced, write=not self._task.check_mode)
        except (SourceError, RecordError, ClusterFileError) as error:
            raise AnsibleActionFail(f"nothing was imported.\n{error}") from None
        except OSError as error:
            raise AnsibleActionFail(f"nothing was imported: {error.filename}: {error.strerror}") from None
        diff = {"diff": [report.diff]} if self._task.diff and report.changed else {}
        return {**result, **import_report.as_result(report), **diff}
