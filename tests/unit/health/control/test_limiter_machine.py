"""The limiter on a model of Slurm, in any order of reports, persons, prologs, two controllers, restarts and lost memories."""

from __future__ import annotations

import copy
from datetime import date

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
    DRAIN,
    RESUME,
    Action,
    decide,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.limiter_memory import Memory, from_text

from . import clusters
from .clusters import NOW, OK, ours, report

RACKS, EACH = 4, 6
NAMES = [f"n{number + 1}" for number in range(RACKS * EACH)]
CLASSES = ["cannot-run", "rma", "reset", "degraded", "transient"]
SOME = st.lists(st.sampled_from(NAMES), min_size=1, max_size=8, unique=True)
TEXTS = st.sampled_from(
    ["fan is loud", "mine", "bedplate:health:limiter: reset xid [0000]", "Prolog error, see ticket"]
)


class Limiter(RuleBasedStateMachine):
    """Slurm as a table of states, reasons and reports; each controller decides from a view that may be one change old."""

    @initialize(cluster=st.integers(5, 60), rack=st.integers(5, 60), keep=st.integers(0, 3), drains=st.integers(1, 9))
    def begin(self, cluster: int, rack: int, keep: int, drains: int) -> None:
        self.settings: ControlSettings = clusters.settings(
            RACKS, EACH, cluster=cluster, rack=rack, partition=70, keep=keep, drains=drains
        )
        self.nodes = {name: ["idle", OK, ""] for name in NAMES}
        self.now = NOW
        self.shared = Memory()
        self.views = [self.view(), self.view()]
        self.persons: dict[str, str] = {}
        self.times: list[float] = []
        self.until = date(2026, 1, 1)

    def view(self) -> ClusterView:
        return ClusterView({name: node_state(name, *words) for name, words in self.nodes.items()})

    @rule(names=SOME, health_class=st.sampled_from(CLASSES), check=st.integers(0, 5), later=st.integers(0, 99))
    def report(self, names: list[str], health_class: str, check: int, later: int) -> None:
        for name in names:
            self.nodes[name][1] = report(health_class, f"check-{check}@x", time=int(self.now) + later)

    @rule(health_class=st.sampled_from(CLASSES))
    def report_of_all(self, health_class: str) -> None:
        for words in self.nodes.values():
            words[1] = report(health_class, "wrong-profile", time=int(self.now))

    @rule(names=SOME)
    def recover(self, names: list[str]) -> None:
        for name in names:
            self.nodes[name][1] = OK

    @rule(names=SOME, text=TEXTS)
    def person_drains(self, names: list[str], text: str) -> None:
        for name in names:
            self.nodes[name][0], self.nodes[name][2] = "idle+drain", text
            self.persons[name] = text

    @rule(name=st.sampled_from(NAMES))
    def person_edits(self, name: str) -> None:
        if "drain" in self.nodes[name][0]:
            self.nodes[name][2] = self.persons[name] = "mine now"

    @rule(names=SOME)
    def person_resumes(self, names: list[str]) -> None:
        for name in names:
            self.nodes[name][0], self.nodes[name][2] = "idle", ""
            self.persons.pop(name, None)

    @rule(names=SOME, reason=st.sampled_from(["Prolog error", "Epilog error", "Kill task failed"]))
    def slurm_drains(self, names: list[str], reason: str) -> None:
        for name in names:
            if self.nodes[name][0] == "idle":
                self.nodes[name][0], self.nodes[name][2] = "idle+drain", reason

    @rule(names=SOME)
    def nodes_stop_answering(self, names: list[str]) -> None:
        for name in names:
            if self.nodes[name][0] == "idle":
                self.nodes[name][0], self.nodes[name][2] = "down", "Not responding"

    @rule(which=st.integers(0, 1))
    def look(self, which: int) -> None:
        """A controller reads Slurm; what it decides later may be from this view."""
        self.views[which] = self.view()

    @rule(which=st.integers(0, 1), fresh=st.booleans(), cut=st.integers(0, 30))
    def tick(self, which: int, fresh: bool, cut: int) -> None:
        """The controller in charge decides and acts; it may be killed after some of its actions."""
        view = self.view() if fresh else self.views[which]
        decision = decide(view, copy.deepcopy(self.shared), self.settings, self.now, acts=self.until is not None)
        self.shared = from_text(decision.memory.text())
        assert self.shared == decision.memory
        done = [action for action in decision.actions[:cut] if self.apply(action)]
        drained = [action.node for action in done if action.kind == DRAIN]
        if fresh and drained:
            self.check_caps(drained)
        if fresh:
            self.check_resumes([one for one in decision.actions if one.kind == RESUME])

    def apply(self, action: Action) -> bool:
        """Do what SlurmLink.apply does: look again, and leave a node that has changed."""
        now = node_state(action.node, *self.nodes[action.node])
        if (now.owner, now.reason) != (action.seen.owner, action.seen.reason):
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
        view, caps = self.view(), self.settings.caps
        out = view.unavailable
        assert len(out) <= max(1, len(NAMES) * caps.cluster // 100)
        for kind, percent in (("racks", caps.rack), ("partitions", caps.partition)):
            for members in self.settings.groups[kind].values():
                if set(members) & set(drained):
                    assert len(set(members) & out) <= max(1, len(members) * percent // 100)
        assert len(NAMES) - len(out) >= caps.keep

    def check_resumes(self, resumed: list[Action]) -> None:
        for action in resumed:
            assert action.seen.is_taken_out
            assert action.seen.reason == "Prolog error" or action.seen.own

    @rule(seconds=st.sampled_from([1.0, 20.0, 300.0, 700.0, 90000.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def memory_is_lost(self) -> None:
        self.shared = Memory()
        self.times = []

    @rule(text=st.sampled_from(["", "{", '{"version":1}', '{"version":1,"ours":{"n1":true}}', "[]"]))
    def memory_is_damaged(self, text: str) -> None:
        self.shared = from_text(text)
        self.times = []

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


def test_no_order_exceeds_a_cap_or_touches_a_person() -> None:
    run(30, 50)


@pytest.mark.full_health
def test_no_order_in_ten_thousand_steps() -> None:
    run(250, 60)


def test_all_states_of_unavailable_nodes_are_known() -> None:
    assert {"DRAIN", "DOWN", "NOT_RESPONDING", "MAINT"} <= OUT
    assert isinstance(NodeState("n1", frozenset({"IDLE"})).is_unavailable, bool)
