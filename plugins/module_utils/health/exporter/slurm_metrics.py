# SPDX-License-Identifier: GPL-3.0-or-later
"""Return what the exporter of Slurm shows, as metrics of Prometheus.

Series: one for each unavailable node, 20 for each partition, and at most 130 for the cluster. No job, user or reason has a series.
The label `node` names a node of Slurm, so a target of this exporter must not have a label of that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..report.prometheus_text import COUNTER, GAUGE, Metric
from .slurm_answers import JOB_STATES, STATES, UNAVAILABLE, Diagnosis, Nodes, Rpc

MOST_RPCS = 40
"""RPC types with series, those with the most time; all are in the sums."""
_MICROSECONDS = 1e-6
# Words of sdiag -> metric, kind, help, unit of sdiag's figure in units of the metric.
_FIGURES = {
    "Server thread count": ("server_threads", GAUGE, "Threads of slurmctld that answer calls.", 1.0),
    "Agent queue size": ("agent_queue", GAUGE, "Messages to nodes that wait in slurmctld.", 1.0),
    "Agent thread count": ("agent_threads", GAUGE, "Threads of slurmctld that send messages to nodes.", 1.0),
    "DBD Agent queue size": ("dbd_agent_queue", GAUGE, "Records that wait for slurmdbd.", 1.0),
    "Jobs submitted": ("jobs_submitted_total", COUNTER, "Jobs submitted since the statistics began.", 1.0),
    "Jobs started": ("jobs_started_total", COUNTER, "Jobs started since the statistics began.", 1.0),
    "Jobs completed": ("jobs_completed_total", COUNTER, "Jobs completed since the statistics began.", 1.0),
    "Jobs canceled": ("jobs_cancelled_total", COUNTER, "Jobs cancelled since the statistics began.", 1.0),
    "Jobs failed": ("jobs_failed_total", COUNTER, "Jobs failed since the statistics began.", 1.0),
    "Main schedule statistics/Last cycle": (
        "schedule_cycle_seconds",
        GAUGE,
        "Time of the scheduler's last cycle.",
        _MICROSECONDS,
    ),
    "Backfilling stats/Last cycle": (
        "backfill_cycle_seconds",
        GAUGE,
        "Time of the last cycle of the backfill scheduler.",
        _MICROSECONDS,
    ),
    "Backfilling stats/Last depth cycle": (
        "backfill_depth",
        GAUGE,
        "Jobs that the last cycle of the backfill scheduler looked at.",
        1.0,
    ),
}


@dataclass(frozen=True)
class CallState:
    """Describe the last run of the calls: whether each succeeded, when it last did (seconds since 1970), and how long all took."""

    succeeded: Mapping[str, bool]
    last_success: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def is_up(self) -> bool:
        """Return whether all calls succeeded."""
        return bool(self.succeeded) and all(self.succeeded.values())


def call_metrics(state: CallState) -> list[Metric]:
    """Return the metrics about the calls themselves: these are never stale."""
    return [
        Metric("bedplate_slurm_up", GAUGE, "1 if slurmctld answered all calls.", [({}, int(state.is_up))]),
        Metric(
            "bedplate_slurm_call_success",
            GAUGE,
            "1 if the last call of a command succeeded.",
            [({"call": name}, int(done)) for name, done in state.succeeded.items()],
        ),
        Metric(
            "bedplate_slurm_last_success_timestamp",
            GAUGE,
            "Time of the figures of a command in seconds since 1970; a failed command keeps the figures of its last success.",
            [({"call": name}, round(time)) for name, time in state.last_success.items()],
        ),
        Metric("bedplate_slurm_refresh_seconds", GAUGE, "Time that all calls took.", [({}, round(state.seconds, 3))]),
    ]


def node_metrics(found: Nodes) -> list[Metric]:
    """Return the metrics of nodes and partitions."""
    unavailable: Iterable[tuple[dict[str, str], float]] = (
        ({"node": name, "state": one.state, "kind": one.kind}, 1)
        for name, one in found.nodes.items()
        if one.state in UNAVAILABLE
    )
    return [
        Metric(
            "bedplate_slurm_nodes",
            GAUGE,
            "Nodes of a partition by state.",
            [
                ({"partition": name, "state": state}, counts.get(state, 0))
                for name, counts in found.partitions.items()
                for state in STATES
            ],
        ),
        Metric(
            "bedplate_slurm_node_unavailable",
            GAUGE,
            "1 for each node that takes no job although it should, with the kind of its reason.",
            list(unavailable),
        ),
        Metric("bedplate_slurm_unread_lines", GAUGE, "Lines of sinfo that could not be read.", [({}, found.unread)]),
    ]


def job_metrics(found: Mapping[str, Mapping[str, int]]) -> list[Metric]:
    """Return the metrics of jobs."""
    samples = [
        ({"partition": name, "state": state}, counts.get(state, 0))
        for name, counts in found.items()
        for state in JOB_STATES
    ]
    return [Metric("bedplate_slurm_jobs", GAUGE, "Jobs of a partition by state; a waiting array is one job.", samples)]


def diagnosis_metrics(found: Diagnosis) -> list[Metric]:
    """Return the metrics of slurmctld itself. Its counters begin again each midnight."""
    figures = [
        Metric(f"bedplate_slurm_{name}", kind, text, [({}, found.figures[words] * unit)])
        for words, (name, kind, text, unit) in _FIGURES.items()
        if words in found.figures
    ]
    most = sorted(found.rpcs.items(), key=lambda one: (-one[1].seconds, one[0]))[:MOST_RPCS]
    whole = Rpc(sum(one.calls for one in found.rpcs.values()), sum(one.seconds for one in found.rpcs.values()))
    return [
        *figures,
        Metric("bedplate_slurm_rpc_calls_total", COUNTER, "Calls that slurmctld answered.", [({}, whole.calls)]),
        Metric("bedplate_slurm_rpc_seconds_total", COUNTER, "Time of these calls.", [({}, round(whole.seconds, 6))]),
        Metric(
            "bedplate_slurm_rpc_type_calls_total",
            COUNTER,
            "Calls that slurmctld answered, by type.",
            [({"rpc": kind}, one.calls) for kind, one in most],
        ),
        Metric(
            "bedplate_slurm_rpc_type_seconds_total",
            COUNTER,
            "Time of these calls, by type.",
            [({"rpc": kind}, round(one.seconds, 6)) for kind, one in most],
        ),
    ]
