# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the text of the last calls of Slurm's commands. A reader never waits for a call, and never starts one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ...common.command import Outcome, run_together
from ..report.prometheus_text import Metric, text_of
from .slurm_answers import SDIAG, SINFO, SQUEUE, AnswerError, diagnosis_of, jobs_of, nodes_of
from .slurm_metrics import CallState, call_metrics, diagnosis_metrics, job_metrics, node_metrics

DEADLINE = 30.0
"""Seconds for all calls together. A command of Slurm itself waits for slurmctld for MessageTimeout, 10 s, or for a multiple of it."""
OLDEST = 900.0
"""Seconds after which figures of an earlier success are no longer shown."""
Together = Callable[[Sequence[Sequence[str]], float], "list[Outcome]"]
_CALLS: dict[str, tuple[Sequence[str], Callable[[str], list[Metric]]]] = {
    "sinfo": (SINFO, lambda text: node_metrics(nodes_of(text))),
    "squeue": (SQUEUE, lambda text: job_metrics(jobs_of(text))),
    "sdiag": (SDIAG, lambda text: diagnosis_metrics(diagnosis_of(text))),
}


class SlurmCache:
    """Hold the figures of each command since its last success. One thread calls `refresh`; any number reads `text`."""

    def __init__(
        self,
        run: Together = run_together,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
        report: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """Begin without figures. `report` gets a line when a call begins to fail, and when it succeeds again."""
        self._run, self._clock, self._timer, self._report = run, clock, timer, report
        self._parts: dict[str, tuple[float, float, str]] = {}  # call -> clock, timer, text
        self._failed: dict[str, str] = {}
        self._text = text_of(call_metrics(CallState(dict.fromkeys(_CALLS, False))))

    @property
    def text(self) -> str:
        """Return the metrics of the last refresh, never a half-written set."""
        return self._text

    def refresh(self) -> bool:
        """Run all calls once, in parallel, for at most DEADLINE seconds. Return whether all succeeded."""
        start = self._timer()
        outcomes = self._run([argv for argv, _metrics in _CALLS.values()], DEADLINE)
        end = self._timer()
        succeeded = {}
        for (name, (_argv, metrics)), outcome in zip(_CALLS.items(), outcomes):
            problem = self._take(name, metrics, outcome, end)
            self._note(name, problem)
            succeeded[name] = not problem
        shown = {name: part for name, part in self._parts.items() if end - part[1] <= OLDEST}
        state = CallState(succeeded, {name: part[0] for name, part in self._parts.items()}, end - start)
        self._text = text_of(call_metrics(state)) + "".join(part[2] for part in shown.values())
        return state.is_up

    def _take(self, name: str, metrics: Callable[[str], list[Metric]], outcome: Outcome, now: float) -> str:
        """Keep the figures of a call. Return the problem, "" without one; then the last figures stay."""
        if outcome.code != 0:
            return f"{name}: {outcome.error_line}"
        try:
            text = text_of(metrics(outcome.stdout))
        except AnswerError as error:
            return str(error)
        self._parts[name] = (self._clock(), now, text)
        return ""

    def _note(self, name: str, problem: str) -> None:
        """Report a problem once, not in each minute of an outage."""
        before = self._failed.pop(name, "")
        if problem:
            self._failed[name] = problem
        if bool(problem) != bool(before):
            self._report(problem or f"{name}: answers again")
