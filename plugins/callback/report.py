# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Write what a run did on each host as JSON, as a page and as a table, and show its progress."""

from __future__ import annotations

DOCUMENTATION = r"""
name: report
type: notification
short_description: Report of a run as JSON, page and table, and progress while it runs
version_added: 0.2.0
description:
  - Writes C(report.json) and C(report.html), and prints a table of what needs a look at the end of the run.
  - On a terminal it shows a bar for each rack. Elsewhere, with E(CI) set, and under ansible-runner it prints a line for each play.
  - Also works under ansible-runner, where it writes beside the other artifacts.
options:
  directory:
    description: >-
      Where the files are written. Left out, the folder of artifacts under ansible-runner, else
      C(~/.local/state/bedplate-reports/<cluster>).
    type: path
    env:
      - name: BEDPLATE_REPORT
    ini:
      - section: callback_report
        key: directory
  progress:
    description: Whether progress is shown. V(auto) shows bars on a terminal, and lines elsewhere.
    type: str
    choices: [auto, bars, lines, "off"]
    default: auto
    env:
      - name: BEDPLATE_PROGRESS
    ini:
      - section: callback_report
        key: progress
requirements:
  - Set C(callbacks_enabled = bedplate.cluster.report) in C(ansible.cfg), or E(ANSIBLE_CALLBACKS_ENABLED).
  - Bars need the Python library rich; without it progress is lines.
author: The bedplate authors (!UNKNOWN)
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible import context
from ansible.plugins.callback import CallbackBase

from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import atomic_write
from ansible_collections.bedplate.cluster.plugins.plugin_utils.run_report.progress import RUNNER, Progress, progress_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.run_report.report_document import Place, document, table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.run_report.report_places import site_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.run_report.run_record import RunRecord

_PLAN = "bedplate.cluster.roll_plan"
_RECOVERY = "bedplate.cluster.recover_plan"
_CLOSE = tuple(f"bedplate.cluster.{name}" for name in ("roll_close", "recover_close"))
_NODE = "bedplate.cluster.slurm_node"
_VERIFY = tuple(f"bedplate.cluster.{name}" for name in ("verify_report", "node_state"))
_KILLED = "the run did not reach its end"


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """The callback: it counts each result, and writes at the beginning and at the end."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "bedplate.cluster.report"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._run = RunRecord()
        self._progress: Progress | None = None
        self._begun: dict[tuple[str, str], float] = {}
        self._cluster, self._places = "", dict[str, Place]()

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Begin the record."""
        self._run = RunRecord(Path(playbook._file_name).name, bool(context.CLIARGS.get("check")), time.time())

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Read the cluster file, once, and show the play."""
        if self._progress is None:
            self._cluster, self._places = site_of(play.get_variable_manager())
            self._progress = progress_of(str(self.get_option("progress")), self._places, self._display)
            # A run that is killed leaves this; the report of the run before it would deceive.
            self._run.stopped = _KILLED
            self._write(page=False)
            self._run.stopped = ""
        self._progress.play(play.get_name())

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """Note when a task began on a host."""
        self._begun[host.get_name(), task._uuid] = time.monotonic()

    def v2_runner_on_ok(self, result: Any) -> None:
        """Count a result."""
        self._add(result, "ok")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Count a failure, unless the playbook ignores it."""
        self._add(result, "ok" if ignore_errors else "failed")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Count a host that did not answer, unless the playbook ignores it."""
        task = result.task
        # Ansible ends the run for all hosts of a task that runs once, also with ignore_unreachable.
        ends = task.run_once and not task.ignore_errors
        self._add(result, "ok" if task.ignore_unreachable and not ends else "unreachable")

    def v2_runner_on_skipped(self, result: Any) -> None:
        """Count a skipped task."""
        self._add(result, "skipped")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Write the report. A task that Ansible counts as rescued is not a failure."""
        self._run.end(stats.rescued, time.time())
        report, folder = self._write(page=True)
        if self._progress is not None:
            self._progress.end(report)
        for line in [*table(report), *([f"report: {folder / 'report.html'}"] if folder else [])]:
            self._display.display(line)

    def _add(self, result: Any, kind: str) -> None:
        name, task, data = result.host.get_name(), result.task, result.result
        seconds = time.monotonic() - self._begun.pop((name, task._uuid), time.monotonic())
        # These report of other hosts: that of the task is only who carries the news.
        carries = self._news(name, task.action, data)
        self._run.add(name, "ok" if carries and kind == "failed" else kind, task.get_name(), data, seconds)
        if self._progress is not None:
            self._progress.result(name, kind, bool(data.get("changed")))

    def _news(self, name: str, action: str, data: Mapping[str, Any]) -> bool:
        """Take what a task reports of other hosts; return whether a failure of it is theirs."""
        nodes = data.get("nodes")
        if action in _CLOSE and isinstance(nodes, dict):
            self._run.add_roll(nodes, str(data.get("run", "")), str(data.get("stopped", "")))
            return True
        if action == _PLAN:
            self._run.begin_roll()
            if self._run.check:
                # A preview has no closing play, and would have these nodes as ok.
                self._run.add_roll(data.get("not_compared") or {}, "")
        if action in _VERIFY and not self._run.check:
            self._run.add_findings(data.get("findings") or (), name)
            return action == _VERIFY[0] and bool(data.get("findings"))
        if self._progress is not None and action == _NODE and isinstance(nodes, dict):
            self._progress.slurm(nodes)
        if action == _RECOVERY and "to_drain" in data:
            self._run.begin_roll()
        if self._progress is not None and action == _PLAN:
            self._progress.to_roll = sum(data.get("serial") or ())
        return False

    def _write(self, page: bool) -> tuple[dict[str, Any], Path | None]:
        """Write the report, and return it and its folder; a folder that cannot be written is a warning, for the run matters more."""
        report = document(self._run, self._cluster, self._places)
        given = self.get_option("directory") or os.environ.get(RUNNER) or ""
        folder = Path(given) if given else Path.home() / ".local/state/bedplate-reports" / (self._cluster or "none")
        try:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            atomic_write(folder / "report.json", json.dumps(report, indent=1) + "\n")
            if page:
                from ansible_collections.bedplate.cluster.plugins.plugin_utils.run_report import report_page

                atomic_write(folder / "report.html", report_page.page(report, self._places))
            else:
                (folder / "report.html").unlink(missing_ok=True)
        except OSError as error:
            self._display.warning(f"no report: {error}")
            return report, None
        return report, folder
