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
  - With C(-v) it prints all of them.
extends_documentation_fragment: [default_callback, result_format_callback]
requirements:
  - Set C(stdout_callback = bedplate.cluster.brief) in C(ansible.cfg), or C(ANSIBLE_STDOUT_CALLBACK).
author: The bedplate authors (!UNKNOWN)
"""

from typing import Any

from ansible.plugins.callback.default import CallbackModule as Default


class CallbackModule(Default):  # type: ignore[misc]
    """The callback; a heading is printed with the first result below it."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "bedplate.cluster.brief"

    def __init__(self) -> None:
        super().__init__()
        self._silent_play: Any = None

    def get_option(self, k: str, hostvars: Any = None) -> Any:
        """Return an option; skipped hosts are hidden unless the run is verbose."""
        if k == "display_skipped_hosts" and not self._display.verbosity:
            return False
        return super().get_option(k, hostvars)

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Keep the heading of the play until a host has a result."""
        self._play = self._silent_play = play
        # A batch of the same play has the same tasks.
        self._last_task_banner = None
        if self._display.verbosity:
            self._print_play()

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
