# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a line for each task that gave units to a machine: the files after which each of them is restarted, and what changed."""

from __future__ import annotations

DOCUMENTATION = r"""
name: units
type: notification
short_description: Keep the units of every task of a run
description: Appends a JSON object for each result with units or changed files to the file that the environment names.
options:
  path:
    description: The file.
    type: path
    required: true
    env:
      - name: BEDPLATE_UNITS
"""

import json
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """The callback."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "units"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result: Any) -> None:
        """Keep a result."""
        data = result._result
        arguments = (data.get("invocation") or {}).get("module_args") or {}
        units = {str(unit["name"]): unit.get("restart_after") or [] for unit in arguments.get("units") or ()}
        changed = [*data.get("changed_files", []), *data.get("removed", [])]
        if units or data.get("changed"):
            line = {"host": result._host.get_name(), "task": result._task.get_name(), "units": units, "files": changed}
            line["changes"] = data.get("changes") or []
            with Path(self.get_option("path")).open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
