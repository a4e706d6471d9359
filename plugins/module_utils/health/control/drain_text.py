# SPDX-License-Identifier: GPL-3.0-or-later
"""Write and read the text of the limiter's drain reasons: `<class> <checks with devices> job=<ids> ev=<digest>`."""

from __future__ import annotations

from collections.abc import Sequence

from ..report.node_extra import NodeReport

LONGEST = 160
"""Characters; with kind, run and sum a reason stays below 200."""


def text_for(report: NodeReport, checks: Sequence[str]) -> str:
    """Return the text for a report; of many checks the first that fit.

    >>> text_for(NodeReport("fail", "reset", ("xid-79@0000:3b:00.0",), 1, "", (4711,), "ab12cd34"), ["xid-79@0000:3b:00.0"])
    'reset xid-79@0000:3b:00.0 job=4711 ev=ab12cd34'
    """
    tail = (f" job={','.join(map(str, report.jobs[:3]))}" if report.jobs else "") + (
        f" ev={report.evidence}" if report.evidence else ""
    )
    words = report.health_class
    for number, check in enumerate(checks):
        longer = f"{words}{',' if number else ' '}{check}"
        if len(longer) + len(tail) > LONGEST:
            break
        words = longer
    return words + tail


def class_of(text: str) -> str:
    """Return the class of a reason's text.

    >>> class_of("transient ib-link-downed@mlx5_0/1")
    'transient'
    """
    return text.split(" ", 1)[0]


def checks_of(text: str) -> tuple[str, ...]:
    """Return the checks of a reason's text without their devices; one empty id where no check fitted into the text.

    >>> checks_of("transient ib-link-downed@mlx5_0/1,clock-skew job=4711")
    ('ib-link-downed', 'clock-skew')
    >>> checks_of("transient job=4711")
    ('',)
    """
    word = [*text.split(" ", 2), ""][1]
    checks = "" if word.startswith(("job=", "ev=")) else word
    return tuple(dict.fromkeys(check_id(one) for one in checks.split(",")))


def check_id(check: str) -> str:
    """Return a check of a report without its device."""
    return check.partition("@")[0]
