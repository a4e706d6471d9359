"""The verdict's line and the report in Extra: what is written is read back, what is strange is refused or ignored."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.health_finding import CLASSES
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report import node_extra, verdict_line
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.node_extra import ExtraError, NodeReport
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.service_notify import WATCHDOG, notify
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.verdict_line import (
    STATUSES,
    Verdict,
    VerdictError,
)

BOOT = "5f2c1a90-0000-4000-8000-123456789abc"
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=600)


@given(st.sampled_from(STATUSES), st.sampled_from([verdict_line.NO_CLASS, *CLASSES]), st.integers(0, 10**9), TEXTS)
def test_a_verdict_is_one_line_that_is_read_back(status: str, health_class: str, written: int, text: str) -> None:
    line = Verdict(status, BOOT, written, 180, health_class, text).line()
    assert line.endswith("\n")
    assert len(line[:-1].split("\n")) == 1
    found = verdict_line.parse(line)
    assert (found.status, found.boot, found.written, found.valid) == (status, BOOT, written, 180)
    assert found.health_class == health_class
    assert found.text == " ".join(text.split())[:400].rstrip()


def test_blanks_of_a_text_are_one_blank_and_the_line_is_bounded() -> None:
    found = Verdict("ok", BOOT, 5, 180, text="two\n\nlines\t and " + "x" * 5000).line()
    assert found.startswith(f"1 ok {BOOT} 5 180 - two lines and x")
    assert len(found) < 500


@pytest.mark.parametrize(
    "line",
    [
        "",
        "1 ok\n",
        f"2 ok {BOOT} 5 180 -",
        f"1 good {BOOT} 5 180 -",
        "1 ok another-boot 5 180 -",
        f"1 ok {BOOT} -5 180 -",
        f"1 ok {BOOT} 5.5 180 -",
        f"1 ok {BOOT} \u0665 180 -",
        f"1 ok {BOOT} 5 180 fatal",
        f"1  ok {BOOT} 5 180 -",
    ],
)
def test_a_strange_line_is_no_verdict(line: str) -> None:
    with pytest.raises(VerdictError):
        verdict_line.parse(line)


def test_a_verdict_that_could_not_be_read_back_is_not_written() -> None:
    with pytest.raises(VerdictError):
        Verdict("ok", "no boot", 5, 180).line()


REPORT = NodeReport("fail", "reset", ("gpu-remap-pending@0000:3b:00.0",), 1790000000, "5f2c1a90", (4711,), "ab12cd34")


@given(st.dictionaries(st.text(string.ascii_letters, min_size=1, max_size=5).filter(lambda key: key != "bp"), TEXTS))
def test_keys_of_others_are_kept(others: dict[str, str]) -> None:
    extra = node_extra.merged(json.dumps(others), REPORT)
    assert {key: value for key, value in json.loads(extra).items() if key != "bp"} == others
    assert node_extra.report_of(extra) == REPORT


@pytest.mark.parametrize("extra", ["", "(null)", " "])
def test_a_node_without_extra_reports(extra: str) -> None:
    assert node_extra.report_of(extra) is None
    assert node_extra.report_of(node_extra.merged(extra, REPORT)) == REPORT


@pytest.mark.parametrize("extra", ["rack 5", "[1]", '"text"', "{", "[" * 100_000, '{"a":' * 100_000])
def test_a_text_of_the_site_is_not_overwritten(extra: str) -> None:
    with pytest.raises(ExtraError):
        node_extra.merged(extra, REPORT)
    assert node_extra.report_of(extra) is None


@pytest.mark.parametrize(
    "report",
    [
        None,
        [],
        {"v": 2, "s": "ok", "t": 1},
        {"v": 1, "s": "good", "t": 1},
        {"v": 1, "s": "ok", "t": "1"},
        {"v": 1, "s": "ok", "t": 1, "g": "fatal"},
        {"v": 1, "s": "ok", "t": 1, "c": "xid-79"},
        {"v": 1, "s": "ok", "t": 1, "c": [79]},
        {"v": 1, "s": "ok", "t": 1, "j": ["4711"]},
        {"v": 1, "s": "ok", "t": 1, "b": 5},
    ],
)
def test_a_malformed_report_is_none(report: object) -> None:
    assert node_extra.report_of(json.dumps({"bp": report})) is None


def test_a_report_of_many_checks_is_short() -> None:
    report = NodeReport(
        "fail", "reset", tuple(f"xid-{number}@0000:3b:00.0" for number in range(100)), 1, "5f2c1a90", (10**9,) * 100
    )
    assert len(node_extra.merged("", report)) < 600


def test_a_socket_that_is_gone_ends_no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("", "/does/not/exist", "@does-not-exist", "x" * 200):
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        assert not notify(WATCHDOG)
