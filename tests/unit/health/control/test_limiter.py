"""The limiter's rules, one by one: who is drained, who is held and why, who is resumed, and what is never touched."""

from __future__ import annotations

import copy
import json
from time import process_time
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.control import control_status, limiter_memory
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.cluster_view import (
    ClusterView,
    node_state,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.control_settings import ControlSettings
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.limiter import (
    CLEAN_SECONDS,
    DRAIN,
    RESUME,
    REWRITE,
    Decision,
    decide,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.limiter_memory import Memory
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report import node_extra
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.node_extra import NodeReport
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import written

from .clusters import NOW, OK, ours, report, settings, view


def tick(
    found: ClusterView,
    memory: Memory | None = None,
    chosen: ControlSettings | None = None,
    *,
    now: float = NOW,
    acts: bool = True,
) -> Decision:
    given = memory or Memory()
    before = copy.deepcopy(given)
    made = decide(found, given, chosen or settings(), now, acts=acts)
    assert given == before
    return made


def names(made: Decision, kind: str) -> list[str]:
    return [one.node for one in made.of_kind(kind)]


XID = report("reset", "xid-79@0000:3b:00.0", jobs=(4711,))


def test_a_sick_node_is_drained_with_check_device_job_and_evidence() -> None:
    made = tick(view(n1=("allocated", XID, "")))
    (action,) = made.actions
    assert (action.kind, action.node) == (DRAIN, "n1")
    assert action.text == "reset xid-79@0000:3b:00.0 job=4711 ev=ab12cd34"


@pytest.mark.parametrize(
    "extra",
    [
        OK,
        "",
        "a text of the site",
        report("note", "xid-63@0000:3b:00.0", status="warn"),
        report("", "ecc-corrected", status="unknown"),
        report("reset", "xid-79", status="unknown"),
    ],
)
def test_a_node_without_a_finding_stays(extra: str) -> None:
    assert tick(view(n1=("idle", extra, ""))).actions == []


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        ("idle+drain", "fan is loud"),
        ("idle+drain", ""),
        ("idle", "fan is loud"),
        ("down", "Not responding"),
        ("idle+drain", ours("reset xid-79").replace("79", "80")),
        ("idle+maint", ""),
    ],
)
def test_a_node_of_others_is_never_touched(states: str, reason: str) -> None:
    for extra in (XID, OK):
        assert tick(view(n1=(states, extra, reason))).actions == []


def test_the_worst_class_is_first_then_the_oldest_report() -> None:
    special = {
        "n1": ("idle", report("degraded", "a"), ""),
        "n12": ("idle", report("reset", "b", time=int(NOW)), ""),
        "n23": ("idle", report("reset", "c", time=int(NOW) - 9), ""),
        "n34": ("idle", report("cannot-run", "d"), ""),
        "n45": ("idle", report("rma", "e"), ""),
        "n56": ("idle", report("transient", "f", status="warn"), ""),
    }
    assert names(tick(view(**special)), DRAIN) == ["n34", "n45", "n23", "n12", "n1", "n56"]


class TestCaps:
    def test_the_cluster_counts_nodes_of_everybody(self) -> None:
        special = {f"n{number}": ("idle+drain", OK, "fan") for number in range(1, 10)}
        special |= {"n95": ("idle", XID, ""), "n85": ("idle", XID, "")}
        made = tick(view(**special), chosen=settings(rack=100, partition=100))
        assert (names(made, DRAIN), [one.node for one in made.holds]) == (["n85"], ["n95"])
        assert "cap cluster: 10 of 10" in made.holds[0].why

    def test_the_absolute_number_counts_too(self) -> None:
        special = {f"n{number}1": ("idle", report("reset", f"c{number}"), "") for number in range(1, 9)}
        made = tick(view(**special), chosen=settings(nodes=3))
        assert len(names(made, DRAIN)) == 3

    def test_a_rack(self) -> None:
        special = {f"n{number}": ("idle", report("reset", f"c{number}"), "") for number in (1, 2, 3)}
        made = tick(view(**special))
        assert names(made, DRAIN) == ["n1", "n2"]
        assert "cap rack r1" in made.holds[0].why

    def test_a_rack_of_one_node_has_one(self) -> None:
        found = settings(racks=2, each=1, keep=0)
        assert names(tick(view(2, 1, n1=("idle", XID, "")), chosen=found), DRAIN) == ["n1"]

    def test_a_partition(self) -> None:
        special = {f"n{number}1": ("idle", report("reset", f"c{number}"), "") for number in range(1, 10)}
        made = tick(view(**special), chosen=settings(cluster=100, partition=5))
        assert len(names(made, DRAIN)) == 5

    def test_the_last_nodes_of_a_partition_stay(self) -> None:
        chosen = settings(racks=2, each=2, cluster=100, partition=100, rack=100, keep=2)
        special = {f"n{number}": ("idle", report("reset", f"c{number}"), "") for number in (1, 2, 3)}
        made = tick(view(2, 2, **special), chosen=chosen)
        assert names(made, DRAIN) == ["n1", "n2"]
        assert "last 2" in made.holds[0].why

    def test_an_nvlink_domain(self) -> None:
        chosen = settings(rack=100, partition=100, cluster=100)
        domain = {"d1": tuple(f"n{number}" for number in range(1, 9))}
        of_node = {
            name: {**kinds, **({"nvlink_domains": ("d1",)} if name in domain["d1"] else {})}
            for name, kinds in chosen.of_node.items()
        }
        groups = {**chosen.groups, "nvlink_domains": domain}
        chosen = ControlSettings(chosen.caps, groups, chosen.dry_run_until, True, of_node=of_node)
        special = {f"n{number}": ("idle", report("reset", f"c{number}"), "") for number in (1, 2, 3)}
        assert names(tick(view(**special), chosen=chosen), DRAIN) == ["n1", "n2"]

    def test_the_rate(self) -> None:
        special = {f"n{number}1": ("idle", report("reset", f"c{number}"), "") for number in range(1, 9)}
        memory = Memory(drains=[NOW - 10] * 8)
        made = tick(view(**special), memory)
        assert len(names(made, DRAIN)) == 2
        later = tick(view(**special), Memory(drains=[NOW - 700] * 8))
        assert len(names(later, DRAIN)) == 8

    def test_a_node_that_slurm_does_not_know_is_unavailable(self) -> None:
        found = ClusterView(
            {name: node for name, node in view(n1=("idle", XID, "")).nodes.items() if name not in ("n2", "n3")}
        )
        assert names(tick(found), DRAIN) == []

    def test_nodes_that_power_saving_switched_off_fill_no_cap(self) -> None:
        special = {f"n{number}": ("idle+powered_down", OK, "") for number in range(2, 100)}
        made = tick(view(n1=("idle", XID, ""), n100=("idle+powered_down", XID, ""), **special))
        assert (names(made, DRAIN), made.holds) == (["n1"], [])

    def test_a_malformed_row_counts(self) -> None:
        found = ClusterView(view(n95=("idle", XID, "")).nodes, frozenset(f"x{number}" for number in range(11)))
        assert names(tick(found), DRAIN) == []


class TestSuspects:
    def wrong_profile(self, count: int = 100, reason: str = "", states: str = "idle") -> ClusterView:
        special = {
            f"n{number}": (states, report("cannot-run", "gpu-count-pci"), reason) for number in range(1, count + 1)
        }
        return view(**special)

    def test_a_check_that_newly_fails_on_many_nodes_drains_none(self) -> None:
        made = tick(self.wrong_profile())
        assert made.actions == []
        assert [one.kind for one in made.pages] == ["suspect-check"]
        assert "gpu-count-pci" in made.pages[0].text
        assert "profile gpu8" in made.pages[0].text

    def test_three_nodes_are_no_suspicion(self) -> None:
        special = {f"n{number}1": ("idle", report("reset", "xid-79"), "") for number in (1, 2, 3)}
        assert len(names(tick(view(**special)), DRAIN)) == 3

    @pytest.mark.parametrize(("count", "is_suspect"), [(20, False), (21, True)])
    def test_it_is_more_than_two_percent(self, count: int, is_suspect: bool) -> None:
        special = {f"n{number * 10}": ("idle", report("reset", "ecc"), "") for number in range(1, count + 1)}
        made = tick(view(100, 10, **special), chosen=settings(100, 10))
        assert [one.kind for one in made.pages] == ["suspect-check"] * is_suspect

    @pytest.mark.parametrize(("profile", "is_suspect"), [("n[1-200]", True), ("n[1-400]", False), ("", False)])
    def test_two_percent_of_the_nodes_it_applies_to(self, profile: str, is_suspect: bool) -> None:
        chosen = settings(100, 10, profile=profile)
        special = {f"n{number * 10}": ("idle", report("reset", "ecc"), "") for number in range(1, 6)}
        assert bool(tick(view(100, 10, **special), chosen=chosen).pages) is is_suspect

    def test_another_check_of_a_node_still_drains_it(self) -> None:
        found = dict(self.wrong_profile().nodes)
        both = view(n7=("idle", report("cannot-run", "gpu-count-pci", "xid-79@0000:3b:00.0"), "")).nodes["n7"]
        made = tick(ClusterView({**found, "n7": both}))
        (action,) = made.actions
        assert (action.kind, action.node) == (DRAIN, "n7")
        assert "gpu-count-pci" not in action.text

    def test_it_stays_suspect_after_the_window(self) -> None:
        first = tick(self.wrong_profile())
        made = tick(self.wrong_profile(), first.memory, now=NOW + 5000)
        assert made.actions == []
        assert [one.kind for one in made.pages if one.kind == "suspect-check"]

    def test_it_ends_when_few_nodes_fail(self) -> None:
        first = tick(self.wrong_profile())
        made = tick(self.wrong_profile(2), first.memory, now=NOW + 5000)
        assert names(made, DRAIN) == ["n1", "n2"]

    def test_slow_failures_are_no_suspicion(self) -> None:
        memory, drained = Memory(), set()
        for number in range(1, 6):
            special = {
                f"n{one}1": ("idle+drain", report("reset", "ecc"), ours("reset ecc"))
                if f"n{one}1" in drained
                else ("idle", report("reset", "ecc"), "")
                for one in range(1, number + 1)
            }
            made = tick(view(**special), memory, now=NOW + number * 700)
            drained |= set(names(made, DRAIN))
            memory = made.memory
        assert len(drained) == 5

    def failed(self, extra: str | None = None, **special: tuple[str, str, str]) -> ClusterView:
        """Return 20 nodes whose prolog failed, with their own report or another one."""
        found = self.wrong_profile(20, "Prolog error", "idle+drain").nodes
        changed = {name: node_state(name, "idle+drain", extra, "Prolog error") for name in list(found)[:20] if extra}
        changed |= {name: node_state(name, *words) for name, words in special.items()}
        return ClusterView({**found, **changed})

    def test_nodes_that_it_failed_prologs_on_are_resumed_once_their_prolog_passes(self) -> None:
        memory = Memory()
        for number in range(5):
            made = tick(self.failed(), memory, now=NOW + number * 20)
            # A resume would fail the next job.
            assert (names(made, RESUME), names(made, DRAIN), names(made, REWRITE)) == ([], [], [])
            memory = made.memory
        for extra in (OK, report("note", "xid-63", status="warn"), report("degraded", "gpu-count-pci", status="warn")):
            found = self.failed(extra)
            assert len(names(tick(found, memory, now=NOW + 100), RESUME)) == 20

    def test_the_last_nodes_of_a_corrected_check_return_too(self) -> None:
        late = [f"n{number}" for number in range(1, 4)]
        wrong = ("idle+drain", report("cannot-run", "gpu-count-pci"), "Prolog error")
        made = tick(self.failed(), Memory(), now=NOW)
        made = tick(self.failed(OK, **dict.fromkeys(late, wrong)), made.memory, now=NOW + 60)
        assert (made.memory.suspects, names(made, REWRITE)) == ({}, [])
        assert (len(names(made, RESUME)), set(names(made, RESUME)) & set(late)) == (17, set())
        fine = view(n1=("idle+drain", OK, "Prolog error"), n2=wrong)
        assert names(tick(fine, made.memory, now=NOW + 120), RESUME) == ["n1"]
        # What still fails after ten minutes is a finding of its own.
        assert names(tick(fine, made.memory, now=NOW + 660), REWRITE) == ["n2"]

    def test_a_node_that_a_suspect_check_failed_is_not_resumed_with_a_finding_of_its_own(self) -> None:
        made = tick(self.failed(), Memory(), now=NOW)
        sick = ("idle+drain", report("reset", "xid-79"), "Prolog error")
        found = self.failed(None, n1=sick, n2=("idle+drain", "", "Prolog error"), n3=("idle+drain", OK, "Ann"))
        unknown = ("idle+drain", report("", status="unknown"), "Prolog error")
        found = ClusterView({**found.nodes, "n4": node_state("n4", *unknown)})
        assert names(tick(found, made.memory, now=NOW + 20), RESUME) == []

    def test_a_node_whose_prolog_failed_for_another_reason_is_not_resumed(self) -> None:
        found = dict(self.wrong_profile(20).nodes)
        special = {
            "n90": ("idle+drain", OK, "Prolog error"),
            "n91": ("idle+drain", report("cannot-run", "gpu-count-pci"), "Kill task failed"),
            "n92": ("idle+drain", report("cannot-run", "gpu-lost"), "Prolog error"),
            "n93": ("idle+drain", report("reset", "gpu-count-pci"), "Prolog error"),
            "n94": ("down+drain", report("cannot-run", "gpu-count-pci"), "Prolog error : Not responding"),
            "n95": ("idle+drain", report("cannot-run"), "Prolog error"),
            "n96": ("idle+drain", report("cannot-run", "gpu-count-pci"), "Prolog error, keep it for Ann"),
            "n97": ("idle+drain", report("cannot-run", "gpu-count-pci", status="unknown"), "Prolog error"),
        }
        others = view(**special).nodes
        made = tick(ClusterView({**others, **{name: found[name] for name in list(found)[:20]}}))
        assert names(made, RESUME) == []
        assert names(made, REWRITE) == ["n92"]


class TestResume:
    CHECK = "ib-link-downed"
    DRAINED = ("idle+drain", OK, ours("transient ib-link-downed@mlx5_0/1"))

    def test_a_transient_finding_that_is_over_after_clean_cycles(self) -> None:
        memory = Memory(clean={"n1": NOW - CLEAN_SECONDS})
        assert names(tick(view(n1=self.DRAINED), memory), RESUME) == ["n1"]
        early = Memory(clean={"n1": NOW - CLEAN_SECONDS + 1})
        assert tick(view(n1=self.DRAINED), early).actions == []

    def test_no_memory_waits(self) -> None:
        made = tick(view(n1=self.DRAINED))
        assert made.actions == []
        assert names(tick(view(n1=self.DRAINED), made.memory, now=NOW + CLEAN_SECONDS), RESUME) == ["n1"]

    @pytest.mark.parametrize("health_class", ["cannot-run", "rma", "reset", "degraded"])
    def test_no_other_class(self, health_class: str) -> None:
        memory = Memory(clean={"n1": NOW - 9999})
        assert tick(view(n1=("idle+drain", OK, ours(f"{health_class} xid-79"))), memory).actions == []

    def test_none_where_the_site_says_so(self) -> None:
        chosen = settings()
        chosen = ControlSettings(chosen.caps, chosen.groups, chosen.dry_run_until, False, of_node=chosen.of_node)
        assert tick(view(n1=self.DRAINED), Memory(clean={"n1": 0}), chosen).actions == []

    @pytest.mark.parametrize(
        "states",
        [
            "down+drain",
            "idle*+drain",
            "idle+drain+not_responding",
            "idle+drain+maint",
            "idle+drain+reboot_issued",
            "fail",
        ],
    )
    def test_a_node_that_is_more_than_drained_is_not_resumed(self, states: str) -> None:
        found = view(n1=(states, OK, self.DRAINED[2]))
        assert tick(found, Memory(clean={"n1": 0})).actions == []

    def test_it_is_never_held(self) -> None:
        special = {f"n{number}": ("idle+drain", OK, "fan") for number in range(2, 60)}
        memory = Memory(clean={"n1": 0}, drains=[NOW] * 50)
        assert names(tick(view(n1=self.DRAINED, **special), memory), RESUME) == ["n1"]

    def test_it_makes_room_once_it_is_made(self) -> None:
        special = {f"n{number}": ("idle+drain", OK, "fan") for number in range(2, 11)}
        chosen = settings(rack=100, partition=100)
        first = tick(view(n1=self.DRAINED, n95=("idle", XID, ""), **special), Memory(clean={"n1": 0}), chosen)
        assert [(one.kind, one.node) for one in first.actions] == [(RESUME, "n1")]
        made = tick(view(n95=("idle", XID, ""), **special), first.memory, chosen)
        assert [(one.kind, one.node) for one in made.actions] == [(DRAIN, "n95")]

    def test_a_node_that_returns_too_often_needs_service(self) -> None:
        memory = Memory(clean={"n1": 0}, resumes=[[NOW - 9, "n1", self.CHECK], [NOW - 5, "n1", self.CHECK]])
        (action,) = tick(view(n1=self.DRAINED), memory).actions
        assert (action.kind, action.text.split()[:2]) == (REWRITE, ["service", self.CHECK])
        in_service = view(n1=("idle+drain", OK, ours(action.text)))
        assert tick(in_service, memory).actions == []

    @pytest.mark.parametrize(
        "rows",
        [
            [[NOW - 9, "n1", CHECK]],
            [[NOW - 9, "n2", CHECK], [NOW - 5, "n1", CHECK]],
            [[NOW - 9, "n1", "clock-skew"], [NOW - 5, "n1", CHECK]],
            [[NOW - 7 * 86400, "n1", CHECK], [NOW - 5, "n1", CHECK]],
        ],
    )
    def test_resumes_count_per_node_check_and_week(self, rows: list[list[Any]]) -> None:
        made = tick(view(n1=self.DRAINED), Memory(clean={"n1": 0}, resumes=rows))
        assert names(made, RESUME) == ["n1"]
        assert made.memory.resumes[-1] == [NOW, "n1", self.CHECK]

    def test_a_report_from_before_the_drain_is_no_clean_cycle(self) -> None:
        older = node_extra.merged("", NodeReport("ok", "", (), int(NOW) - 50, "5f2c1a90"))
        sick = view(n1=("idle+drain", report("transient", "ib", status="warn"), self.DRAINED[2]))
        memory = tick(sick).memory
        found = view(n1=("idle+drain", older, self.DRAINED[2]))
        assert tick(found, tick(found, memory).memory, now=NOW + 9999).actions == []
        assert names(tick(view(n1=self.DRAINED), Memory(**{**vars(memory), "clean": {"n1": 0}})), RESUME) == ["n1"]

    def test_a_finding_in_between_begins_again(self) -> None:
        sick = view(n1=("idle+drain", report("transient", "ib", status="warn"), self.DRAINED[2]))
        for unclean in (sick, view(n1=("idle+drain", report("", "ib", status="unknown"), self.DRAINED[2]))):
            memory = tick(unclean, tick(view(n1=self.DRAINED)).memory, now=NOW + 100).memory
            assert tick(view(n1=self.DRAINED), memory, now=NOW + CLEAN_SECONDS).actions == []

    def test_a_drain_that_failed_is_tried_again(self) -> None:
        found = view(n1=("idle", XID, ""))
        assert names(tick(found, tick(found).memory), DRAIN) == ["n1"]

    def test_a_persons_resume_holds_until_the_report_changes(self) -> None:
        first = tick(view(n1=("idle", XID, "")))
        drained = tick(view(n1=("idle+drain", XID, ours("reset xid-79"))), first.memory)
        resumed = tick(view(n1=("idle", XID, "")), drained.memory)
        assert resumed.actions == []
        assert "person" in resumed.holds[0].why
        newer = view(n1=("idle", report("reset", "xid-48", time=int(NOW) + 50), ""))
        assert names(tick(newer, resumed.memory), DRAIN) == ["n1"]

    def test_a_person_overrules_the_newest_report(self) -> None:
        newer = report("reset", "xid-79", "xid-48", time=int(NOW) + 50)
        memory = tick(view(n1=("idle+drain", XID, ours("reset xid-79")))).memory
        memory = tick(view(n1=("idle+drain", newer, ours("reset xid-79"))), memory).memory
        resumed = tick(view(n1=("idle", newer, "")), memory)
        assert (resumed.actions, resumed.memory.overruled) == ([], {"n1": NOW + 50})
        assert tick(view(n1=("idle", OK, "")), resumed.memory).memory.overruled == {}

    def test_a_person_overrules_a_report_that_is_lost_and_returns(self) -> None:
        """The site writes Extra, or slurmctld loses its state; the agent writes the same report within an hour."""
        memory = tick(view(n1=("idle", XID, "")), Memory(ours={"n1": NOW})).memory
        for extra in ("", '{"asset": 4711}', XID):
            made = tick(view(n1=("idle", extra, "")), memory)
            assert made.actions == []
            memory = made.memory

    def test_a_node_is_drained_again_after_a_slurmctld_without_state(self) -> None:
        memory = tick(view(n1=("idle+drain", XID, ours("reset xid-79")))).memory
        lost = tick(view(n1=("idle", "", "")), memory)
        assert (lost.memory.ours, lost.memory.overruled) == ({}, {})
        assert names(tick(view(n1=("idle", XID, "")), lost.memory), DRAIN) == ["n1"]

    def test_a_node_whose_clock_was_ahead_returns_after_its_finding(self) -> None:
        ahead = report("transient", "clock-skew", status="warn", time=int(NOW) + 86400)
        reason = ours("transient clock-skew")
        memory = tick(view(n1=("idle+drain", ahead, reason))).memory
        for later in (20, 40 + CLEAN_SECONDS):
            made = tick(view(n1=("idle+drain", OK, reason)), memory, now=NOW + later)
            memory = made.memory
        assert names(made, RESUME) == ["n1"]

    def test_a_person_overrules_the_report_of_a_clock_that_was_set(self) -> None:
        ahead = report("reset", "xid-79", time=int(NOW) + 86400)
        memory = tick(view(n1=("idle+drain", ahead, ours("reset xid-79")))).memory
        memory = tick(view(n1=("idle+drain", XID, ours("reset xid-79"))), memory, now=NOW + 20).memory
        assert tick(view(n1=("idle", XID, "")), memory, now=NOW + 40).actions == []

    def test_no_time_of_a_report_damages_the_memory(self) -> None:
        memory = tick(view(n1=("idle+drain", report("reset", "xid-79", time=2**40 - 1), ours("reset xid-79")))).memory
        assert memory.ours == {"n1": 2**40 - 1}
        assert limiter_memory.from_text(memory.text()) == memory

    def test_a_person_who_edits_and_resumes_a_silent_node_overrules_its_report(self) -> None:
        memory = tick(view(n1=("idle+drain", XID, ours("reset xid-79")))).memory
        for words in (("idle+drain", XID, "mine"), ("idle+not_responding", XID, "")):
            memory = tick(view(n1=words), memory).memory
        assert tick(view(n1=("idle", XID, "")), memory).actions == []
        later = report("reset", "xid-48", time=int(NOW) + 50)
        assert names(tick(view(n1=("idle", later, "")), memory), DRAIN) == ["n1"]

    def test_a_person_who_drained_it_for_another_cause_overrules_nothing(self) -> None:
        memory = tick(view(n1=("idle+drain", XID, "fan is loud"))).memory
        assert names(tick(view(n1=("idle", XID, "")), memory), DRAIN) == ["n1"]

    @pytest.mark.parametrize(
        "extra", ["", report("reset", "xid-79", status="ok"), report("note", "xid-63", status="warn")]
    )
    def test_only_a_report_without_a_finding_is_clean(self, extra: str) -> None:
        found = view(n1=("idle+drain", extra, self.DRAINED[2]))
        assert tick(found, Memory(clean={"n1": 0}, ours={"n1": 0})).actions == []

    def test_a_node_that_slurm_has_no_more_is_left(self) -> None:
        found = ClusterView({name: node for name, node in view().nodes.items() if name != "n1"})
        memory = Memory(clean={"n1": 0}, ours={"n1": 0}, overruled={"n1": 5}, held={"n1": 5})
        assert tick(found, memory).actions == []

    def test_a_resume_of_the_limiter_overrules_nothing(self) -> None:
        made = tick(view(n1=self.DRAINED), Memory(clean={"n1": 0}))
        assert names(made, RESUME) == ["n1"]
        assert made.memory.ours == {}
        again = view(n1=("idle", report("transient", "ib-link-downed", status="warn"), ""))
        assert names(tick(again, made.memory), DRAIN) == ["n1"]

    def test_a_persons_resume_holds_the_report_that_changed_while_the_node_was_drained(self) -> None:
        worse = report("rma", "xid-64", "xid-79", time=int(NOW) + 50)
        drained = tick(view(n1=("idle+drain", XID, ours("reset xid-79"))))
        later = tick(view(n1=("idle+drain", worse, ours("rma xid-64"))), drained.memory)
        made = tick(view(n1=("idle", worse, "")), later.memory)
        assert (made.actions, [one.cap for one in made.holds]) == ([], ["person"])

    def test_a_person_who_edits_the_reason_and_then_resumes_is_not_overruled(self) -> None:
        drained = tick(view(n1=("idle+drain", XID, ours("reset xid-79"))))
        edited = tick(view(n1=("idle+drain", XID, "mine, see ticket 7")), drained.memory)
        made = tick(view(n1=("idle", XID, "")), edited.memory)
        assert (made.actions, [one.cap for one in made.holds]) == ([], ["person"])

    def test_a_person_who_resumes_is_no_alarm(self) -> None:
        memory = Memory(held={"n1": NOW - 9999}, overruled={"n1": NOW})
        made = tick(view(n1=("idle", XID, "")), memory)
        assert ([one.cap for one in made.holds], made.pages) == (["person"], [])
        assert control_status.acting_state(settings(), view(), made, {}, [], NOW).held_longest == 0

    def test_a_roll_that_resumes_a_sick_node_is_no_person(self) -> None:
        rolls = written("roll", "r1", "driver")
        rolled = tick(view(n1=("idle+drain", XID, rolls)))
        # Without accounting storage the reason stays.
        for reason in ("", rolls):
            assert names(tick(view(n1=("idle", XID, reason)), rolled.memory), DRAIN) == ["n1"]

    @pytest.mark.parametrize(
        "state", ["reboot_issued", "reboot_requested", "maintenance", "not_responding", "powering_down"]
    )
    def test_a_node_in_a_reboot_or_maintenance_is_not_resumed(self, state: str) -> None:
        found = view(n1=(f"idle+drain+{state}", OK, self.DRAINED[2]))
        assert tick(found, Memory(clean={"n1": 0})).actions == []


class TestRewrite:
    @pytest.mark.parametrize("reason", ["Prolog error", "Epilog error", "Kill task failed"])
    def test_a_transient_finding_does_not_hide_why_slurm_drained_the_node(self, reason: str) -> None:
        """With a reason of the limiter the node would be resumed when the finding ends, with the processes that nothing could end."""
        sick = view(n1=("idle+drain", report("transient", "ib-link-downed", status="warn"), reason))
        assert tick(sick).actions == []
        assert tick(view(n1=("idle+drain", OK, reason)), Memory(clean={"n1": 0})).actions == []

    @pytest.mark.parametrize(
        "reason", ["Prolog error", "Epilog error", "Kill task failed", "Prolog error : Not responding"]
    )
    def test_reasons_of_slurm_get_the_finding(self, reason: str) -> None:
        made = tick(view(n1=("idle+drain", XID, reason)))
        assert [(one.kind, one.text.split()[0]) for one in made.actions] == [(REWRITE, "reset")]

    def test_a_worse_finding_replaces_a_better_one_and_no_other(self) -> None:
        worse = view(n1=("idle+drain", XID, ours("transient ib")))
        assert names(tick(worse), REWRITE) == ["n1"]
        for text in ("reset xid-79", "rma xid-64", "service resumed 2 times"):
            assert tick(view(n1=("idle+drain", XID, ours(text)))).actions == []

    def test_a_class_of_another_release_is_replaced(self) -> None:
        assert names(tick(view(n1=("idle+drain", XID, ours("gone xid-79")))), REWRITE) == ["n1"]

    def test_a_suspect_check_makes_no_reason_worse(self) -> None:
        special = {f"n{number}": ("idle", report("cannot-run", "gpu-count-pci"), "") for number in range(2, 99)}
        both = report("cannot-run", "gpu-count-pci", "ib")
        assert tick(view(n1=("idle+drain", both, ours("transient ib")), **special)).actions == []


def test_a_dry_run_decides_the_same_and_spends_no_resume() -> None:
    made = tick(view(n1=("idle", XID, "")), acts=False)
    assert (made.acts, names(made, DRAIN)) == (False, ["n1"])
    assert made.memory.ours == {}


def test_a_dry_run_shows_the_same_drains_in_each_tick() -> None:
    found = view(**{f"n{number}1": ("idle", report("reset", f"c{number}"), "") for number in range(1, 8)})
    memory = Memory()
    for number in range(60):
        made = tick(found, memory, settings(drains=5), now=NOW + 20 * number, acts=False)
        assert (len(names(made, DRAIN)), len(made.holds)) == (5, 2)
        memory = made.memory
    assert memory.drains == []


def test_a_dry_run_counts_no_resume() -> None:
    made = tick(view(n1=TestResume.DRAINED), Memory(clean={"n1": 0}), acts=False)
    assert (names(made, RESUME), made.memory.resumes) == (["n1"], [])


def test_a_sick_node_in_service_with_a_reason_of_others_is_shown() -> None:
    special = {
        "n1": ("idle", XID, "fan is loud"),
        "n2": ("idle", OK, "fan is loud"),
        "n3": ("idle+drain", XID, "fan is loud"),
        "n4": ("idle+maint", XID, ""),
        "n5": ("down", XID, "Not responding"),
    }
    assert [(one.node, one.cap) for one in tick(view(**special)).holds] == [("n1", "reason")]


def test_a_class_without_a_check_is_held() -> None:
    made = tick(view(n1=("idle", report("reset"), "")))
    assert (made.actions, [one.cap for one in made.holds]) == ([], ["report"])


def test_a_clock_that_is_set_back_loses_no_drain_and_ends_no_wait() -> None:
    special = {f"n{number}1": ("idle", report("reset", f"c{number}"), "") for number in range(1, 9)}
    made = tick(view(**special), Memory(drains=[NOW + 5000] * 8))
    assert len(names(made, DRAIN)) == 2
    waits = tick(view(n1=TestResume.DRAINED), Memory(clean={"n1": NOW + 5000}))
    assert names(tick(view(n1=TestResume.DRAINED), waits.memory, now=NOW + CLEAN_SECONDS), RESUME) == ["n1"]


def test_a_held_node_is_paged_after_a_quarter_of_an_hour() -> None:
    found = view(**{f"n{number}": ("idle", report("reset", f"c{number}"), "") for number in (1, 2, 3)})
    first = tick(found)
    assert [one.kind for one in first.pages] == []
    drained = {name: ("idle+drain", report("reset", "c"), ours("reset c")) for name in ("n1", "n2")}
    made = tick(view(n3=("idle", report("reset", "c3"), ""), **drained), first.memory, now=NOW + 901)
    assert [one.kind for one in made.pages] == ["held"]
    assert made.holds[0].since == NOW


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", "[" * 9999, '{"version": 2}'),
        *(
            '{"version": 1, "drains": {"a": 1}}',
            '{"version": 1, "ours": [1]}',
            '{"version": 1, "resumes": [["a", "n1", "c"]]}',
        ),
        *('{"version": 1, "ours": {"n1": NaN}}', '{"version": 1, "drains": [1e400]}', '{"version": 1, "failing": 7}'),
    ],
)
def test_a_damaged_memory_is_empty(text: str) -> None:
    assert limiter_memory.from_text(text) == Memory()


def test_the_memory_is_read_back() -> None:
    made = tick(view(n1=("idle", XID, "")))
    assert limiter_memory.from_text(made.memory.text()) == made.memory
    assert json.loads(made.memory.text())["drains"] == [NOW]


def test_a_dry_run_spends_no_rate() -> None:
    found, memory = view(n1=("idle", XID, ""), n12=("idle", report("reset", "b"), "")), Memory()
    for number in range(30):
        made = tick(found, memory, now=NOW + 20 * number, acts=False)
        assert (names(made, DRAIN), made.holds) == (["n1", "n12"], [])
        memory = made.memory
    assert memory.drains == []
    many = {f"n{number}1": ("idle", report("reset", f"c{number}"), "") for number in range(1, 9)}
    assert len(names(tick(view(**many), chosen=settings(drains=3), acts=False), DRAIN)) == 3


def test_a_clock_that_was_ahead_hides_no_suspect() -> None:
    special = {f"n{number}": ("idle", report("reset", "wrong"), "") for number in range(1, 6)}
    memory = Memory(failing={"wrong": {f"n{number}": NOW + 3000 for number in range(1, 6)}})
    assert tick(view(**special), memory).actions == []


def test_nodes_that_wait_for_repair_make_no_check_suspect_after_a_lost_memory() -> None:
    sick = report("rma", "xid-48")
    special = {f"n{number}1": ("idle+drain", sick, ours("rma xid-48")) for number in range(1, 6)}
    made = tick(view(n95=("idle", sick, ""), **special))
    assert (names(made, DRAIN), made.pages) == (["n95"], [])


def test_a_tick_of_ten_thousand_nodes_with_as_many_checks_takes_no_five_seconds() -> None:
    chosen, special = settings(250, 40), {f"n{one}": ("idle", report("reset", f"c{one}"), "") for one in range(10_001)}
    found = view(250, 40, **special)
    start = process_time()
    made = tick(found, chosen=chosen)
    assert process_time() - start < 5
    assert (len(made.actions), len(made.holds)) == (10, 9_990)
