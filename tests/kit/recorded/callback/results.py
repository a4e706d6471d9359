# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a line of JSON for each result: what tasks say that call no module, such as fail, assert and debug."""

from __future__ import annotations

DOCUMENTATION = r"""
name: results
type: notification
short_description: Keep the result of every task
description: Appends a JSON object for each result to results.jsonl.
options:
  folder:
    description: The folder.
    type: path
    required: true
    env:
      - name: BEDPLATE_RECORDING
"""

import json
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """The callback."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "results"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result: Any) -> None:
        """Keep a result."""
        self._keep(result, "ok")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Keep a failure."""
        self._keep(result, "ignored" if ignore_errors else "failed")

    def v2_runner_on_skipped(self, result: Any) -> None:
        """Keep a skipped task."""
        self._keep(result, "skipped")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Keep a host that was not reached."""
        self._keep(result, "unreachable")

    def _keep(self, result: Any, status: str) -> None:
        task, data = result._task, result._result
        # Of a loop, what each item says; its own message is that all are done.
        items = [one.get("msg", "") for one in data.get("results", ()) if isinstance(one, dict)]
        line = {
            "host": result._host.get_name(),
            "action": task.resolved_action or task.action,
            "place": task.get_path(),
            "status": status,
            "changed": bool(data.get("changed")),
            "msg": "\n".join(map(str, [data.get("msg", ""), *items, *data.get("warnings", ())])),
        }
        with (Path(self.get_option("folder")) / "results.jsonl").open("a") as stream:
            stream.write(json.dumps(line) + "\n")
