# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that is judged in cycles: all readings that its profile needs are good, and a test changes some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.health_finding import HealthFinding
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import (
    KernelEvent,
    NodeFacts,
    NodeProfile,
    Reading,
    Value,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.crossing import resolved
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.expectations import applies
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.judgement import Judgement, judge
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.node_history import NodeHistory
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.threshold_row import ThresholdRow
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.thresholds import rows_for

GPU, GPU2, RAIL, MOUNT = "0000:3b:00.0", "0000:5e:00.0", "mlx5_0/1", "/scratch"
PROFILE = NodeProfile(
    model="h100",
    gpus=2,
    nvlink=True,
    rails=("mlx5_0", "mlx5_1"),
    mounts=(MOUNT,),
    huge_pages={"2M": 512},
    driver="580.95.05",
)
BOOTS = tuple(f"{number:08d}-1111-4222-8333-944444444444" for number in range(10, 40))
START = 1_790_000_000.0
SOURCES = {"node": "procfs", "gpu": "nvml", "rail": "sysfs", "mount": "mount", "huge_page": "sysfs", "check": "site"}
Key = tuple[str, str]


def devices(row: ThresholdRow, profile: NodeProfile) -> list[str]:
    """Return the devices of a row on a node of a profile, in the spelling of the probes."""
    return {
        "gpu": [GPU, GPU2][: profile.gpus] + [f"0000:a{number}:00.0" for number in range(profile.gpus - 2)],
        "rail": [f"{one}/1" for one in profile.rails],
        "mount": list(profile.mounts),
        "huge_page": list(profile.huge_pages),
    }.get(row.per, [""])


def good_value(row: ThresholdRow, device: str, profile: NodeProfile) -> Value:
    """Return a value inside both limits of a row; 0 where a row has no limit."""
    limits = [resolved(one, device, profile) for one in (row.warn, row.critical)]
    known = [one for one in limits if one is not None]
    if row.kind == "equals":
        return str(known[0]).split("|")[0] if known and isinstance(known[0], str) else (known or [0])[0]
    if row.kind == "at_least":
        return max((one for one in known if not isinstance(one, str)), default=0) + (
            1 if row.name == "thermal-margin" else 0
        )
    return 0


class JudgedNode:
    """A node with its history. `tick` judges one cycle a minute later, and records it as the agent does."""

    def __init__(self, profile: NodeProfile = PROFILE, uptime: float = 90_000.0) -> None:
        self.profile, self.history = profile, NodeHistory()
        self.boot, self.uptime, self.time = 0, uptime, START
        self.rows = rows_for(profile)
        self.values: dict[Key, Value] = {
            (row.reads, device): good_value(row, device, profile)
            for row in reversed(list(self.rows.values()))
            if applies(row, profile) and row.per != "check"
            for device in devices(row, profile)
        }
        self.extra: list[Reading] = []
        self.events: list[KernelEvent] = []

    def readings(self) -> tuple[Reading, ...]:
        """Return the readings of the next cycle."""
        per = {row.reads: row.per for row in self.rows.values()}
        own = [
            Reading(quantity, device, value, SOURCES[per[quantity]], "" if value is not None else "no answer")
            for (quantity, device), value in self.values.items()
        ]
        return (*own, *self.extra)

    def facts(self) -> NodeFacts:
        """Return the facts of this moment."""
        return NodeFacts(BOOTS[self.boot], self.uptime, self.time, self.readings())

    def tick(self, changes: Mapping[Key, Value] | None = None, seconds: float = 60.0, times: int = 1) -> Judgement:
        """Change values for good, and judge `times` cycles; return the last judgement."""
        self.values.update(changes or {})
        for _number in range(times):
            self.uptime += seconds
            self.time += seconds
            result = judge(self.facts(), self.history, self.events, self.profile)
            self.history.record(self.facts(), result.latches)
        return result

    def reboot(self, down: float = 300.0, uptime: float = 700.0) -> None:
        """Start another boot; the next tick is a minute after `uptime`."""
        self.boot += 1
        self.time += down + uptime
        self.uptime = uptime

    def xid(self, code: int, device: str = GPU) -> None:
        """Add a Xid as the kernel's log has it."""
        text = f"NVRM: Xid (PCI:{device[:-2]}): {code}, GPU has fallen off the bus."
        number = len(self.events) + 1
        self.events.append(KernelEvent("xid", code, device, text, number, self.uptime, {}))

    def change_profile(self, **changes: object) -> None:
        """Change fields of the profile, as a new health.json does."""
        self.profile = replace(self.profile, **changes)  # type: ignore[arg-type]
        self.rows = rows_for(self.profile)


def of_check(findings: Sequence[HealthFinding], check: str, device: str | None = None) -> HealthFinding | None:
    """Return the finding of a check that was read, None without one."""
    found = [
        one for one in findings if one.kind == check and not one.unread and (device is None or one.device == device)
    ]
    return found[0] if found else None


def class_of(judgement: Judgement, check: str, device: str | None = None) -> str:
    """Return the class of a check's finding, "" without one."""
    one = of_check(judgement.findings, check, device)
    return one.health_class if one else ""
