"""The answer of sinfo as nodes: hostile reasons and reports, duplicates, and answers that are none."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.cluster_view import (
    FOREIGN,
    FREE,
    OF_SLURM,
    OURS,
    ViewError,
    node_state,
    parse,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import written

from .clusters import OK, ours


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


def test_a_node_of_two_partitions_is_one_and_a_contradiction_is_malformed() -> None:
    twice = parse(rows(("n1", "idle", "", "none"), ("n1", "idle", "", "none")))
    assert list(twice.nodes) == ["n1"]
    other = parse(rows(("n1", "idle", "", "none"), ("n1", "down", "", "none")))
    assert (list(other.nodes), other.malformed) == ([], {"n1"})
    assert other.unavailable == {"n1"}


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
        ("idle", OTHERS, FOREIGN),
        ("down", "", FOREIGN),
        ("idle+not_responding", "", FOREIGN),
        ("idle+maint", "", FOREIGN),
        ("idle+powered_down", "", FOREIGN),
        # Without accounting storage Slurm keeps the reason of a node that it resumes.
        ("idle", ours("transient ib"), FREE),
        ("idle", "Prolog error", FREE),
    ],
)
def test_the_owner_of_a_node(states: str, reason: str, owner: str) -> None:
    node = node_state("n1", states, OK, reason)
    assert node.owner == owner
    assert node.is_unavailable is (owner != FREE)
