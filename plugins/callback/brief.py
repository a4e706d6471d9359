# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Print Ansible's own output without the plays, tasks and hosts on which nothing ran."""

from __future__ import annotations

DOCUMENTATION = r"""
name: brief
type: stdout
short_description: Ansible's own output without plays, tasks and hosts on which nothing ran
version_added: 0.2.0
description:
  - Prints what P(ansible.builtin.default#callback) prints, without the heading of a play that has no hosts, without the heading of a
    task that no host ran, and without the lines of skipped hosts. The recap counts them.
  - In a play of more than 20 hosts it prints only hosts with a change, a failure, a warning or a text to read, and the recap has one line
    for all others.
  - With C(-v) it prints all of them.
extends_documentation_fragment: [default_callback, result_format_callback]
requirements:
  - Set C(stdout_callback = bedplate.cluster.brief) in C(ansible.cfg), or C(ANSIBLE_STDOUT_CALLBACK).
author: The bedplate authors (!UNKNOWN)
"""

from typing import Any

from ansible.plugins.callback.default import CallbackModule as Default

_MANY = 20
_HAPPENED = ("changed", "unreachable", "failures", "rescued", "ignored")


class CallbackModule(Default):  # type: ignore[misc]
    """The callback; a heading is printed with the first result below it."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "bedplate.cluster.brief"

    def __init__(self) -> None:
        super().__init__()
        self._silent_play: Any = None
        self._hosts = 0

    @property
    def _folds(self) -> bool:
        """Return whether hosts on which nothing happens are not worth a line each."""
        return self._hosts > _MANY and not self._display.verbosity

    def get_option(self, k: str, hostvars: Any = None) -> Any:
        """Return an option; skipped hosts are hidden unless the run is verbose."""
        if k == "display_skipped_hosts" and not self._display.verbosity:
            return False
        return super().get_option(k, hostvars)

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Keep the heading of the play until a host has a result."""
        self._play = self._silent_play = play
        variables = play.get_variable_manager()
        self._hosts = len(variables._inventory.get_hosts(play.hosts)) if variables else 0
        # A batch of the same play has the same tasks.
        self._last_task_banner = None
        if self._display.verbosity:
            self._print_play()

    def v2_runner_on_ok(self, result: Any) -> None:
        """Print a result; of many hosts only one with a change, a warning or a text to be read."""
        data = result.result
        said = (
            data.get("changed")
            or data.get("warnings")
            or data.get("deprecations")
            or data.get("_ansible_verbose_always")
        )
        if said or not self._folds:
            super().v2_runner_on_ok(result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Print the recap; of many hosts only hosts with a change or a failure."""
        quiet = [host for host in stats.processed if not any(stats.summarize(host)[key] for key in _HAPPENED)]
        if self._display.verbosity or len(stats.processed) <= _MANY:
            super().v2_playbook_on_stats(stats)
            return
        for host in quiet:
            del stats.processed[host]
        super().v2_playbook_on_stats(stats)
        stats.processed.update(dict.fromkeys(quiet, 1))
        self._display.display(f"{len(quiet)} other hosts: nothing changed, nothing failed")

    def v2_playbook_on_no_hosts_matched(self) -> None:
        """Print nothing for a play without hosts."""
        if self._display.verbosity:
            super().v2_playbook_on_no_hosts_matched()

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        """Print the play that ends here, and that it ends."""
        self._print_play()
        super().v2_playbook_on_no_hosts_remaining()

    def _print_task_banner(self, task: Any) -> None:
        self._print_play()
        super()._print_task_banner(task)

    def _print_play(self) -> None:
        play, self._silent_play = self._silent_play, None
        if play is not None:
            super().v2_playbook_on_play_start(play)
