# SPDX-License-Identifier: GPL-3.0-or-later
"""Random sets of readings, and the properties that each judgement of them must have."""

from __future__ import annotations

import json
import random
from dataclasses import replace

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.health_finding import CLASSES
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import (
    NodeFacts,
    NodeProfile,
    Reading,
    Value,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.expectations import applies, is_expected
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.judgement import Judgement, judge
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.node_history import NodeHistory
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.thresholds import default, rows_for
from tests.unit.health.judge.judged_node import BOOTS, GPU, GPU2, MOUNT, START

PROFILES = (
    NodeProfile(),
    NodeProfile(mounts=(MOUNT,), huge_pages={"2M": 512}),
    NodeProfile(model="l40s", gpus=1, driver="580.*"),
    NodeProfile(model="h100", gpus=2, nvlink=True, rails=("mlx5_0",), ignore=("xid-94", "power-brake")),
    NodeProfile(model="unknown", gpus=1, nvlink=True, quiet_after_boot=0, thresholds={"ib-rate": {"critical": 400}}),
)
QUANTITIES = (*sorted(default().quantities), "foreign/site", "advice/dcgm", "no-such-quantity")
DEVICES = ("", GPU, GPU2, "00000000:3B:00.0", "mlx5_0/1", "mlx5_9/1", MOUNT, "2M", "PCI:0000:3b:00", "x\ny", "é" * 40)
SOURCES = ("nvml", "nvidia-smi", "procfs", "sysfs", "mount", "dcgm", "gpud", "validation", "site", "")
VALUES: tuple[Value, ...] = (
    *(None, None, 0, 1, 1, 2, 3, -1, 5, 16, 99, 511, 512, 100_000, 1 << 64, -(1 << 70), 0.1, 1e308, -0.0, True),
    *(
        float("nan"),
        float("inf"),
        "",
        "ok",
        "warn",
        "fail",
        "none",
        "completed",
        "ACTIVE",
        "570.133.20",
        "[N/A]",
        "\x00" * 200,
    ),
)


class FuzzedNode:
    """A node that lives through random cycles; `cycle` judges one and checks the properties."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.profile = self.chance.choice(PROFILES)
        self.history = NodeHistory()
        self.boot, self.uptime, self.time = 0, self.chance.choice((0.0, 590.0, 1e5)), START

    def cycle(self) -> None:
        """Judge random readings at a random time."""
        chance = self.chance
        self.uptime += chance.choice((0.0, 1.0, 60.0, 60.0, 60.0, 4000.0))
        self.time += chance.choice((60.0, 60.0, 60.0, -1e9, 1e9))
        if chance.random() < 0.05:
            self.boot, self.uptime = min(self.boot + 1, len(BOOTS) - 1), chance.choice((0.0, 700.0))
        readings = tuple(
            Reading(
                chance.choice(QUANTITIES),
                chance.choice(DEVICES),
                chance.choice(VALUES),
                chance.choice(SOURCES),
                chance.choice(("", "", "not supported: old", "timeout")),
            )
            for _number in range(chance.randrange(12))
        )
        facts = NodeFacts(BOOTS[self.boot], self.uptime, self.time, readings)
        result = judge(facts, self.history, (), self.profile)
        check(facts, self.history, self.profile, result)
        if chance.random() < 0.02:
            check_more_is_not_better(facts, self.history, self.profile, result)
        self.history.record(facts, result.latches)
        if chance.random() < 0.02:
            self.history = NodeHistory.load(json.loads(json.dumps(self.history.save())))


def check(facts: NodeFacts, history: NodeHistory, profile: NodeProfile, result: Judgement) -> None:
    """Check a judgement: never ok for a value that was not read, classes and status agree, one line of text, one source is not enough."""
    if is_blind(facts, profile):
        assert result.status != "ok", (facts, profile)
    classes = {one.health_class for one in result.findings}
    assert (result.status == "fail") == bool(classes & set(CLASSES[:4]))
    assert result.health_class == min(classes, key=CLASSES.index, default="")
    assert "\n" not in result.text
    assert len(result.text) <= 300
    assert all(
        len(one.sources) > 1 or len({other.sources for other in result.findings}) > 1
        for one in result.findings
        if one.health_class == "cannot-run"
    )
    keys = [(one.kind, one.device, one.unread) for one in result.findings]
    assert len(keys) == len(set(keys))


def check_more_is_not_better(facts: NodeFacts, history: NodeHistory, profile: NodeProfile, result: Judgement) -> None:
    """Check that a worse reading more does not improve a status."""
    for quantity, device in (("remap-failure", GPU), ("no-such-quantity", ""), ("mount-hung", MOUNT)):
        more = replace(facts, readings=(*facts.readings, Reading(quantity, device, 9, "sysfs")))
        assert rank(judge(more, history, (), profile)) >= rank(result)


def rank(result: Judgement) -> int:
    """Return how bad a status is."""
    return ("ok", "unknown", "warn", "fail").index(result.status)


def is_blind(facts: NodeFacts, profile: NodeProfile) -> bool:
    """Return whether a value that the profile needs was not read: a reading without a value, or no reading at all."""
    rows = list(rows_for(profile).values())
    for reading in facts.readings:
        name = reading.quantity.partition("/")[0]
        judged = [
            row for row in rows if row.reads in (reading.quantity, name) and is_expected(row, reading.device, profile)
        ]
        if reading.value is None and any(
            not row.optional or not reading.problem.startswith("not supported") for row in judged
        ):
            return True
    read = {reading.quantity for reading in facts.readings}
    return any(
        not row.optional and row.per != "check" and applies(row, profile) and row.reads not in read for row in rows
    )
