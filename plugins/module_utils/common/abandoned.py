# SPDX-License-Identifier: GPL-3.0-or-later
"""Notice that the ansible-playbook that started a module has ended."""

from __future__ import annotations

import select


def nobody_reads(descriptor: int = 1) -> bool:
    """Return whether the other end of a pipe or socket is closed, such as that of stdout after the control node's process was killed.

    A module that waits would otherwise go on for hours, and act beside the next run.
    """
    poll = select.poll()
    # These two are reported although no event is requested.
    poll.register(descriptor, 0)
    return any(found[1] & (select.POLLERR | select.POLLHUP) for found in poll.poll(0))
