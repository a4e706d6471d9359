# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of Slurm 22.05.8, shortened, and answers of its form for many nodes."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome

SINFO = """\
gpu|gpu001|idle+cloud+drain|fan is loud | and 'long'|
long|gpu001|idle+cloud+drain|fan is loud | and 'long'|
gpu|gpu002|mixed+cloud+drain|Prolog error|
gpu|gpu003|allocated+cloud+not_responding+powering_up|none|
gpu|gpu004|down+cloud+not_responding|Not responding|
gpu|gpu005|idle+cloud|none|
"""
SQUEUE = """\
gpu|CONFIGURING
gpu|RUNNING
gpu,long|PENDING
gpu|RUNNING
long|COMPLETING
gpu|LAUNCH_FAILED
"""
SDIAG = """\
*******************************************************
sdiag output at Sat Nov 28 07:40:06 2026 (1795851606)
Data since      Sat Nov 28 07:40:01 2026 (1795851601)
*******************************************************
Server thread count:  3
Agent queue size:     12
Agent count:          0
Agent thread count:   0
DBD Agent queue size: 0

Jobs submitted: 3
Jobs started:   3
Jobs completed: 0
Jobs canceled:  0
Jobs failed:    0

Job states ts:  Sat Nov 28 07:40:01 2026 (1795851601)
Jobs pending:   0
Jobs running:   0

Main schedule statistics (microseconds):
\tLast cycle:   8
\tMax cycle:    14
\tTotal cycles: 2
\tMean cycle:   11

Backfilling stats
\tTotal backfilled jobs (since last slurm start): 3
\tLast cycle when: Sat Nov 28 07:40:04 2026 (1795851604)
\tLast cycle: 1555
\tLast depth cycle: 3

Latency for 1000 calls to gettimeofday(): 21 microseconds

Remote Procedure Call statistics by message type
\tREQUEST_PARTITION_INFO                  ( 2009) count:5      ave_time:111    total_time:558
\tREQUEST_NODE_INFO                       ( 2007) count:5      ave_time:526    total_time:2632

Remote Procedure Call statistics by user
\troot            (       0) count:15     ave_time:546    total_time:8200

Pending RPC statistics
\tNo pending RPCs
"""


def sinfo(nodes: int, partitions: int = 2, *, drained: int = 0) -> str:
    """Return the lines of some nodes in each partition, the first ones drained, each for another reason."""
    return "".join(
        f"part{part}|gpu{node:05}|{'idle+drain|fan ' + str(node) if node < drained else 'allocated|none'}|\n"
        for node in range(nodes)
        for part in range(partitions)
    )


def answers(*texts: str) -> list[Outcome]:
    """Return what run_together returns for commands that succeeded."""
    return [Outcome(0, text, "") for text in texts]


class Slurm:
    """Answer calls as run_together does. `calls` counts sets; `outcomes` is replaced by tests."""

    def __init__(self) -> None:
        self.calls = 0
        self.outcomes = answers(SINFO, SQUEUE, SDIAG)

    def __call__(self, _commands: Sequence[Sequence[str]], _seconds: float) -> list[Outcome]:
        self.calls += 1
        return self.outcomes
