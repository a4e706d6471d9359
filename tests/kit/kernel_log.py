# SPDX-License-Identifier: GPL-3.0-or-later
"""Events and findings from lines of a kernel's log, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.health_finding import HealthFinding
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import (
    KernelEvent,
    NodeFacts,
    NodeProfile,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.rules_kernel import judge_events
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_events import event_of
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_records import (
    parse,
    record_line,
)

BOOT = "5f2c1a90-0000-4000-8000-000000000001"
UPTIME = 500_000.0
TIME = 1_790_000_000.0


def event(text: str, ago: float = 3600, sequence: int = 1, **details: str) -> KernelEvent:
    """Return the event of a line that the kernel wrote `ago` seconds before UPTIME, with further details."""
    record = parse(record_line(sequence, UPTIME - ago, text))
    assert record
    assert record.text == text
    found = event_of(record)
    assert found, text
    return replace(found, details={**found.details, **details})


def findings(events: Sequence[KernelEvent], profile: NodeProfile | None = None) -> list[HealthFinding]:
    """Return what the rules find at UPTIME."""
    return judge_events(events, NodeFacts(BOOT, UPTIME, TIME), profile or NodeProfile())


def classes(events: Sequence[KernelEvent], profile: NodeProfile | None = None) -> dict[str, str]:
    """Return the class by check, for events of one device."""
    return {one.kind: one.health_class for one in findings(events, profile)}
