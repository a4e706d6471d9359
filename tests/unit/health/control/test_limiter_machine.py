"""The limiter on a model of Slurm, in any order of reports, persons, prologs, two controllers, restarts and lost memories."""

from __future__ import annotations

import copy
from collections import Counter
from datetime import date, timedelta
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.cluster_view import (
    FREE,
    OUT,
    ClusterView,
    NodeState,
    node_state,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.control_settings import ControlSettings
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.limiter import (
    CLEAN_SECONDS,
    DRAIN,
    RESUME,
    Action,
    Decision,
    decide,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.limiter_memory import Memory, from_text
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report import node_extra
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.node_extra import NodeReport

from . import clusters
from .clusters import NOW, OK, ours, report

RACKS, EACH = 4, 6
NAMES = [f"n{number + 1}" for number in range(RACKS * EACH)]
CLASSES = ["cannot-run", "rma", "reset", "degraded", "transient", "transient"]
DAMAGED = ["", "{", '{"version":1}', '{"version":1,"ours":{"n1":true}}', "[]"]
PERSONS = ["fan is loud", "mine", "bedplate:health:limiter: reset xid [0000]", "Prolog error, see ticket"]
PERCENTS = ["cluster", "rack", "partition", "nvlink_domain"]
WIDE = {**dict.fromkeys(PERCENTS, 100), "nodes": 99, "keep": 0, "drains": 99}
SLURMS = ["Prolog error", "Epilog error", "Kill task failed"]


def some(most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(NAMES), min_size=1, max_size=most, unique=True)


# The name of a method of the machine, and its arguments. One step has several, so that most ticks have something to decide.
def change(name: str, *words: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, tuple[Any, ...]]]:
    return st.tuples(st.just(name), st.tuples(*words))


# The name of a method of the machine, and its arguments. One step has several, so that most ticks have something to decide.
CHANGE = st.one_of(
    *[change("report", some(3), st.sampled_from(CLASSES), st.integers(0, 99), st.integers(0, 99))] * 5,
    change("report_of_all", st.sampled_from(CLASSES)),
    *[change("recover", some(8)), change("recover", st.just(NAMES))] * 3,
    change("person_drains", some(2), st.sampled_from(PERSONS)),
    change("person_edits", some(4)),
    change("person_resumes", st.just(NAMES)),
    change("person_resumes", some(8)),
    change("slurm_drains", some(4), st.sampled_from(SLURMS)),
    change("stop_answering", some(3)),
    change("lose_reports", some(8)),
    change("lose_memory", st.sampled_from(DAMAGED)),
)


class Limiter(RuleBasedStateMachine):
    """Slurm as a table of states, reasons and reports; each controller decides from a view that may be some changes old."""

    seen: ClassVar[Counter[str]] = Counter()
    """What a run has done, so that a machine that does nothing is noticed."""

    @initialize(
        tight=st.sampled_from(["cluster", "rack", "partition", "nvlink_domain", "keep", "drains", "all"]),
        percent=st.integers(5, 60),
        number=st.integers(1, 5),
        days=st.sampled_from([-9, -9, 0, 1]),
    )
    def begin(self, tight: str, percent: int, number: int, days: int) -> None:
        """Begin with one cap that is tight, or all of them, and with a dry run of some days."""
        until = (date.fromtimestamp(NOW) + timedelta(days=days)).isoformat()
        narrow = {**dict.fromkeys(PERCENTS, percent), "keep": 12 - number, "drains": number}
        caps = narrow if tight == "all" else {**WIDE, tight: narrow[tight]}
        self.settings: ControlSettings = clusters.settings(RACKS, EACH, domain=4, until=until, **caps)
        self.nodes = {name: ["idle", OK, ""] for name in NAMES}
        self.now = NOW
        self.shared = Memory()
        self.views = [self.view(), self.view()]
        self.persons: dict[str, str] = {}
        self.times: list[float] = []
        self.wrong = 0

    def view(self) -> ClusterView:
        return ClusterView({name: node_state(name, *words) for name, words in self.nodes.items()})

    @rule(
        changes=st.lists(CHANGE, max_size=3),
        seconds=st.sampled_from([20.0, 20.0, 20.0, 200.0, 700.0, 90000.0]),
        which=st.integers(0, 1),
        stale=st.booleans(),
        cut=st.sampled_from([0, 1, 3, 30, 30, 30, 30]),
    )
    def step(
        self, changes: list[tuple[str, tuple[Any, ...]]], seconds: float, which: int, stale: bool, cut: int
    ) -> None:
        """Let nodes, persons and Slurm change; then one controller decides and acts, from what it sees now or saw before."""
        self.now += seconds
        self.seen["steps"] += 1
        if not stale:
            self.views[which] = self.view()
        self.wrong -= 1
        if not self.wrong:
            self.recover(NAMES)
        for name, words in changes:
            getattr(self, name)(*words)
        if not stale and not changes:
            self.tick(self.view(), cut, fresh=True)
        else:
            self.tick(self.views[which], cut, fresh=False)
            self.tick(self.view(), cut, fresh=True)

    def report(self, names: list[str], health_class: str, check: int, later: int) -> None:
        for name in names:
            # A link that flaps does so again.
            is_transient = health_class == "transient"
            words = (f"flap-{name}@x", "warn") if is_transient else (f"check-{check}@x", "fail")
            self.nodes[name][1] = report(health_class, words[0], time=int(self.now) + later, status=words[1])

    def report_of_all(self, health_class: str) -> None:
        for words in self.nodes.values():
            words[1] = report(health_class, "wrong-profile", time=int(self.now))
        self.wrong = 3

    def recover(self, names: list[str]) -> None:
        for name in names:
            self.nodes[name][1] = node_extra.merged("", NodeReport("ok", "", (), int(self.now) + 99, "5f2c1a90"))

    def lose_reports(self, names: list[str]) -> None:
        """A slurmctld that was killed has an old report again."""
        for name in names:
            self.nodes[name][1] = OK

    def person_drains(self, names: list[str], text: str) -> None:
        for name in names:
            self.nodes[name][0], self.nodes[name][2] = "idle+drain", text
            self.persons[name] = text

    def person_edits(self, names: list[str]) -> None:
        for name in names:
            if "drain" in self.nodes[name][0]:
                self.nodes[name][2] = self.persons[name] = "mine now"

    def person_resumes(self, names: list[str]) -> None:
        for name in names:
            self.nodes[name][0], self.nodes[name][2] = "idle", ""
            self.persons.pop(name, None)

    def slurm_drains(self, names: list[str], reason: str) -> None:
        for name in names:
            if self.nodes[name][0] == "idle":
                self.nodes[name][0], self.nodes[name][2] = "idle+drain", reason

    def stop_answering(self, names: list[str]) -> None:
        for name in names:
            if self.nodes[name][0] == "idle":
                self.nodes[name][0], self.nodes[name][2] = "down", "Not responding"

    def lose_memory(self, text: str) -> None:
        self.shared = from_text(text)
        self.times = []

    def tick(self, view: ClusterView, cut: int, *, fresh: bool) -> None:
        """Decide and act; the program may be killed after some of its actions."""
        acts = self.settings.acts(date.fromtimestamp(self.now))
        before = self.shared
        decision = decide(view, copy.deepcopy(before), self.settings, self.now, acts=acts)
        self.shared = from_text(decision.memory.text())
        assert self.shared == decision.memory
        self.seen.update([*(f"hold {one.cap}" for one in decision.holds), *(one.kind for one in decision.pages)])
        if not acts:
            self.seen.update(["dry run"] if decision.actions else [])
            assert (decision.memory.drains, decision.memory.resumes) == ([], [])
            return
        if fresh:
            self.check_resumes(decision, before)
        done = [one for number, one in enumerate(decision.actions) if self.make(one, decision, before, number < cut)]
        drained = [one.node for one in done if one.kind == DRAIN]
        self.seen.update("service" if one.text.startswith("service ") else one.kind for one in done)
        if fresh and drained:
            self.check_caps(drained)

    def make(self, action: Action, decision: Decision, before: Memory, is_tried: bool) -> bool:
        """Make a change as the program does. If it is not made, it is given back; where the program is killed, by chance it is not."""
        if is_tried and self.apply(action):
            return True
        if is_tried or action.node < "n15":
            decision.give_back(action, before)
            self.shared = from_text(decision.memory.text())
        return False

    def apply(self, action: Action) -> bool:
        """Do what SlurmLink.apply does: look again, and leave a node that has changed."""
        now = node_state(action.node, *self.nodes[action.node])
        if not now.is_as(action.seen):
            self.seen["changed"] += 1
            return False
        assert action.node not in self.persons, (action, self.persons[action.node])
        words = self.nodes[action.node]
        if action.kind == RESUME:
            words[0], words[2] = "idle", ""
            return True
        if action.kind == DRAIN:
            assert now.owner == FREE
            self.times.append(self.now)
            words[0] = "idle+drain"
        words[2] = ours(action.text)
        return True

    def check_caps(self, drained: list[str]) -> None:
        out, caps = self.view().unavailable, self.settings.caps
        assert len(out) <= max(1, len(NAMES) * caps.cluster // 100)
        percents = {"racks": caps.rack, "partitions": caps.partition, "nvlink_domains": caps.nvlink_domain}
        for kind, percent in percents.items():
            for members in self.settings.groups[kind].values():
                if set(members) & set(drained):
                    assert len(set(members) & out) <= max(1, len(members) * percent // 100)
                    assert kind != "partitions" or len(set(members) - out) >= caps.keep

    def check_resumes(self, decision: Decision, before: Memory) -> None:
        """No cap and no suspicion holds a resume, and no other class is resumed."""
        resumed = {one.node: one.seen for one in decision.actions if one.kind == RESUME}
        for node in resumed.values():
            assert node.out_states == {"DRAIN"}
            assert node.reason == "Prolog error" or (node.own and node.own.text.startswith("transient "))
        served = {one.node for one in decision.actions if one.text.startswith("service ")}
        for name, since in before.clean.items():
            node = node_state(name, *self.nodes[name])
            is_due = node.own and node.own.text.startswith("transient ") and self.now - since >= CLEAN_SECONDS
            if is_due and name in decision.memory.clean:
                assert name in {*resumed, *served}

    @invariant()
    def persons_keep_their_nodes(self) -> None:
        for name, text in getattr(self, "persons", {}).items():
            assert self.nodes[name][2] == text
            assert "drain" in self.nodes[name][0]

    @invariant()
    def the_rate_holds(self) -> None:
        recent = [one for one in getattr(self, "times", []) if self.now - one < 600]
        assert len(recent) <= (self.settings.caps.drains if recent else 0)


def run(examples: int, steps: int) -> None:
    Limiter.seen = Counter()
    run_state_machine_as_test(
        Limiter,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert {"drain", "resume", "rewrite", "suspect-check", "hold cluster"} <= set(Limiter.seen), Limiter.seen


def test_no_order_exceeds_a_cap_or_touches_a_person() -> None:
    run(35, 50)
    assert Limiter.seen["steps"] > 1500


@pytest.mark.full_health
def test_no_order_in_ten_thousand_steps() -> None:
    run(300, 50)
    assert Limiter.seen["steps"] > 10_000
    holds = {"rack", "partition", "nvlink_domain", "keep", "rate", "suspect", "person"}
    assert {"changed", "dry run", "held", "service", *(f"hold {name}" for name in holds)} <= set(Limiter.seen), (
        Limiter.seen
    )


def test_all_states_of_unavailable_nodes_are_known() -> None:
    assert {"DRAIN", "DOWN", "NOT_RESPONDING", "MAINT"} <= OUT
    assert isinstance(NodeState("n1", frozenset({"IDLE"})).is_unavailable, bool)
