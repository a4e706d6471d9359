"""The answer of sinfo as nodes: hostile reasons and reports, duplicates, and answers that are none."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.health.control import drain_text
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.cluster_view import (
    FOREIGN,
    FREE,
    OF_SLURM,
    OURS,
    ViewError,
    node_state,
    parse,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report import node_extra
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.node_extra import NodeReport
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import read, written

from .clusters import OK, ours, report


def rows(*found: tuple[str, str, str, str]) -> str:
    return "".join("\x1f".join(row) + "\x1e\n" for row in found)


def test_a_node_has_its_words() -> None:
    (node,) = parse(rows(("n1", "idle+drain", OK, "fan is | loud\nand hot"))).nodes.values()
    assert (node.name, node.states, node.reason) == ("n1", {"IDLE", "DRAIN"}, "fan is | loud\nand hot")
    assert node.report
    assert node.report.status == "ok"


@pytest.mark.parametrize("text", ["", "sinfo: error: no answer", "\n", "n1 idle"])
def test_an_answer_without_nodes_is_none(text: str) -> None:
    with pytest.raises(ViewError):
        parse(text)


def test_a_cut_answer_is_none() -> None:
    with pytest.raises(ViewError):
        parse(rows(("n1", "idle", "", "none")) + "n2\x1fidle")


@pytest.mark.parametrize("row", ["n2\x1fidle\x1f", "n2\x1fidle\x1f\x1fnone\x1fmore", " \x1fidle\x1f\x1fnone"])
def test_an_unreadable_row_counts_as_unavailable(row: str) -> None:
    found = parse(rows(("n1", "idle", OK, "none")) + row + "\x1e\n")
    assert list(found.nodes) == ["n1"]
    assert found.unavailable == found.malformed
    assert found.malformed in ({"n2"}, {"(no name)"})


@pytest.mark.parametrize(("time", "is_read"), [(0, True), (2**40 - 1, True), (2**40, False), (-1, False)])
def test_an_impossible_time_is_no_report(time: int, is_read: bool) -> None:
    assert (node_state("n1", "idle", report("reset", "c", time=time), "").report is not None) is is_read


def test_words_of_a_report_are_bounded() -> None:
    node = node_state("n1", "idle", report("reset", "a b,c@\x7f~!", "é" * 999, jobs=(-1, 0, 1, 2**32 - 1, 2**32)), "")
    assert node.report
    assert (node.report.checks, node.report.jobs) == (("a_b_c@_~!", "_" * 120), (1, 2**32 - 1))


def test_a_node_of_two_partitions_is_one_and_a_contradiction_is_malformed() -> None:
    twice = parse(rows(("n1", "idle", "", "none"), ("n1", "idle", "", "none")))
    assert list(twice.nodes) == ["n1"]
    other = parse(rows(("n1", "idle", "", "none"), ("n1", "down", "", "none")))
    assert (list(other.nodes), other.malformed) == ([], {"n1"})
    assert other.unavailable == {"n1"}


@pytest.mark.parametrize(
    ("states", "out"),
    [
        ("idle*+drain", {"DRAIN", "NOT_RESPONDING"}),
        ("allocated~", {"POWERED_DOWN"}),
        ("drained", {"DRAIN"}),
        ("mixed$", {"MAINT"}),
        ("idle+planned", set()),
    ],
)
def test_marks_of_sinfo_are_states(states: str, out: set[str]) -> None:
    node = node_state("n1", states, OK, "x")
    assert node.out_states == out
    assert node.is_only_drained is (out == {"DRAIN"})


def test_two_looks_differ_if_the_node_went_down_meanwhile() -> None:
    seen = node_state("n1", "allocated+drain", OK, ours("reset xid-79"))
    assert node_state("n1", "IDLE+DRAIN", "", ours("reset xid-79")).is_as(seen)
    for other in (("DOWN+DRAIN", ours("reset xid-79")), ("IDLE", ours("reset xid-79")), ("IDLE+DRAIN", "mine")):
        assert not node_state("n1", other[0], "", other[1]).is_as(seen)


HOSTILE = [
    "[" * 100_000,
    '{"bp":' + '{"a":' * 5000 + "1" + "}" * 5001,
    report("reset", "xid-79\x00\ud800 \x1e\x1f\n,é|[x]"),
    report("reset", "x" * 9999),
    report("reset", *(f"c{number}" for number in range(99))),
    report("reset", "xid-79", time=10**400),
    report("reset", "xid-79", time=-1),
    report("reset", "xid-79", jobs=(-1, 0, 10**30, 7)),
    '{"bp":{"v":1,"s":"fail","g":"reset","c":["xid-79"],"t":5,"b":"' + "b" * 999 + '","e":"' + "e\\u0000" * 99 + '"}}',
]


@pytest.mark.parametrize("extra", HOSTILE)
def test_no_report_makes_a_reason_that_slurm_or_a_file_cannot_have(extra: str) -> None:
    node = node_state("n1", "idle", extra, "")
    if node.report is None:
        return
    reason = ours(drain_text.text_for(node.report, node.report.checks))
    assert reason.isascii()
    assert reason.isprintable()
    assert len(reason) <= 200
    assert read(reason)


@given(st.lists(st.text(max_size=300), max_size=12), st.text(max_size=99), st.lists(st.integers(), max_size=12))
def test_any_report_makes_a_reason_of_200_characters(checks: list[str], evidence: str, jobs: list[int]) -> None:
    found = NodeReport("fail", "degraded", tuple(checks), 5, "", tuple(jobs), evidence)
    node = node_state("n1", "idle", node_extra.merged("", found), "")
    assert node.report
    text = drain_text.text_for(node.report, node.report.checks)
    reason = ours(text)
    assert (len(reason) <= 200, reason.isascii(), reason.isprintable()) == (True, True, True)
    assert drain_text.class_of(text) == "degraded"
    assert drain_text.checks_of(text)


@given(st.text(max_size=200))
def test_any_text_is_a_view_or_an_error(text: str) -> None:
    with suppress(ViewError):
        parse(text)


OTHERS = written("roll", "r1", "driver")
EDITED = ours("reset xid-79").replace("xid-79", "xid-80")


@pytest.mark.parametrize(
    ("states", "reason", "owner"),
    [
        ("idle", "", FREE),
        ("allocated", "none", FREE),
        ("mixed", "(null)", FREE),
        ("idle+drain", ours("reset xid-79"), OURS),
        ("mixed+drain", f"{ours('reset xid-79')} : Not responding", OURS),
        ("idle+drain", "Prolog error", OF_SLURM),
        ("idle+drain", "Epilog error", OF_SLURM),
        ("idle+drain", "Kill task failed", OF_SLURM),
        ("idle+drain", "Prolog error, keep it for Ann", FOREIGN),
        ("idle+drain", "Kill task failed : see ticket 4", FOREIGN),
        ("idle+drain", "Not responding", FOREIGN),
        ("idle+drain", "fan is loud", FOREIGN),
        ("idle+drain", "", FOREIGN),
        ("idle+drain", OTHERS, FOREIGN),
        ("idle+drain", EDITED, FOREIGN),
        ("idle", "fan is loud", FOREIGN),
        ("down", "", FOREIGN),
        ("idle+not_responding", "", FOREIGN),
        ("idle+maint", "", FOREIGN),
        ("allocated+maintenance", "", FOREIGN),
        # Without accounting storage Slurm keeps the reason of a node that it resumes.
        ("idle", ours("transient ib"), FREE),
        ("idle", "Prolog error", FREE),
        ("idle", OTHERS, FREE),
        ("idle", "Not responding", FREE),
        ("idle", "Node unexpectedly rebooted", FREE),
        ("idle", "Not responding, Ann looks at it", FOREIGN),
        ("down", "Node unexpectedly rebooted", FOREIGN),
    ],
)
def test_the_owner_of_a_node(states: str, reason: str, owner: str) -> None:
    node = node_state("n1", states, OK, reason)
    assert node.owner == owner
    assert node.is_unavailable is (owner != FREE)


@pytest.mark.parametrize(
    ("states", "reason", "is_unavailable"),
    [
        ("idle+powered_down", "", False),
        ("idle+powering_down", "", False),
        ("idle~", "", False),
        ("mixed+not_responding+powering_up", "", False),
        ("idle+not_responding+powered_down", "", True),
        ("idle+drain+powered_down", "", True),
        ("down+powered_down", "", True),
        ("idle+powered_down", "fan is loud", True),
    ],
)
def test_a_node_that_power_saving_switched_off_is_available_and_not_touched(
    states: str, reason: str, is_unavailable: bool
) -> None:
    node = node_state("n1", states, OK, reason)
    assert (node.owner, node.is_unavailable) == (FOREIGN, is_unavailable)
