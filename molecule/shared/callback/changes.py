# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a line for each result of a playbook run: what check mode predicted can then be compared with what a run changed."""

from __future__ import annotations

DOCUMENTATION = r"""
name: changes
type: notification
short_description: Keep what every task of a run changed
description: Appends a JSON object for each result to the file that the environment names.
options:
  path:
    description: The file.
    type: path
    required: true
    env:
      - name: BEDPLATE_CHANGES
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from ansible.playbook.handler import Handler
from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """The callback."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "changes"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Remember which playbook runs."""
        self.run = f"{Path(playbook._file_name).stem} {time.time():.3f} {os.getpid()}"

    def v2_runner_on_skipped(self, result: Any) -> None:
        """Keep a handler that check mode cannot run, such as a command: it was notified, so it is predicted."""
        if isinstance(result._task, Handler) and result._task.check_mode:
            self._keep(result, changed=True)

    def v2_runner_on_ok(self, result: Any) -> None:
        """Keep a result."""
        self._keep(result, changed=bool(result._result.get("changed")))

    def _keep(self, result: Any, changed: bool) -> None:
        task, data = result._task, result._result
        line = {
            "run": self.run,
            "check": bool(task.check_mode),
            "host": result._host.get_name(),
            "task": task.get_name(),
            "changed": changed,
            "changes": [*data.get("changed_files", []), *data.get("removed", []), *data.get("changes", [])],
        }
        with Path(self.get_option("path")).open("a") as stream:
            stream.write(json.dumps(line) + "\n")
