# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement of a node: two sources for cannot-run, status, ignored checks, advice, foreign checks, text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.health_finding import CLASSES, finding
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import (
    KernelEvent,
    NodeProfile,
    Reading,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.judgement import Judgement, judge, status_of
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.rules_readings import merged
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.verdict_line import STATUSES, Verdict
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.thresholds import default
from tests.unit.health.judge.judged_node import BOOTS, GPU, GPU2, PROFILE, JudgedNode, class_of, of_check


def lost(node: JudgedNode, device: str = GPU) -> None:
    node.values[("gpu-lost", device)] = 1


def test_a_good_node_is_ok_and_has_no_text() -> None:
    result = JudgedNode().tick()
    assert result == Judgement((), "ok", "", "")


# Two independent sources.


def test_one_source_is_reset_and_two_are_cannot_run() -> None:
    node = JudgedNode()
    lost(node)
    one = node.tick(times=3)
    assert (class_of(one, "gpu-lost"), one.status, one.health_class) == ("reset", "fail", "reset")
    node.xid(79)
    two = node.tick()
    assert (class_of(two, "gpu-lost"), class_of(two, "xid-79"), two.health_class) == (
        "cannot-run",
        "cannot-run",
        "cannot-run",
    )


def test_a_xid_alone_is_reset_at_once() -> None:
    node = JudgedNode()
    node.xid(79)
    result = node.tick()
    assert (class_of(result, "xid-79"), result.status) == ("reset", "fail")


def test_sources_about_different_gpus_do_not_confirm_each_other() -> None:
    node = JudgedNode()
    lost(node, GPU2)
    node.tick(times=3)
    node.xid(79, GPU)
    assert node.tick().health_class == "reset"


def test_nvml_and_nvidia_smi_are_one_source() -> None:
    node = JudgedNode()
    lost(node)
    node.extra = [Reading("gpu-lost", GPU, 1, "nvidia-smi")]
    assert node.tick(times=3).health_class == "reset"


@pytest.mark.parametrize("source", ["dcgm", "gpud", "validation", "site-check"])
def test_advice_and_foreign_checks_are_not_a_second_source(source: str) -> None:
    node = JudgedNode()
    lost(node)
    node.extra = [Reading("gpu-lost", GPU, 1, source), Reading("gpu-count-pci", "", 0, source)]
    result = node.tick(times=3)
    assert (class_of(result, "gpu-lost"), class_of(result, "gpu-count-pci")) == ("reset", "degraded")


def test_the_bus_is_a_second_source_for_a_lost_gpu() -> None:
    node = JudgedNode()
    lost(node)
    node.extra = [Reading("gpu-lost", "00000000:3B:00.0", 1, "sysfs")]
    assert class_of(node.tick(times=3), "gpu-lost") == "cannot-run"


def test_a_missing_gpu_on_the_bus_and_in_the_driver_is_cannot_run() -> None:
    node = JudgedNode()
    result = node.tick({("gpu-count-pci", ""): 1}, times=3)
    assert result.health_class == "reset"
    node.extra = [Reading("gpu-count-driver", "", 1, "nvml")]
    assert node.tick(times=3).health_class == "cannot-run"


def test_a_driver_that_hangs_for_two_probes_is_cannot_run() -> None:
    node = JudgedNode()
    assert node.tick({("driver-hang", ""): 2}).health_class == "reset"
    node.extra = [Reading("driver-hang", "", 1, "nvml")]
    assert node.tick().health_class == "reset"
    node.extra = [Reading("driver-hang", "", 2, "nvml")]
    result = node.tick()
    assert result.health_class == "cannot-run"
    assert set(of_check(result.findings, "driver-hang").sources) == {"procfs", "nvml"}  # type: ignore[union-attr]


def test_findings_about_different_subjects_do_not_confirm_each_other() -> None:
    node = JudgedNode()
    lost(node)
    result = node.tick({("huge-pages", "2M"): 0, ("rdma-count", ""): 0}, times=3)
    assert result.health_class == "reset"


def test_an_ignored_finding_is_not_a_second_source() -> None:
    node = JudgedNode(replace(PROFILE, ignore=("xid-79",)))
    lost(node)
    node.tick(times=3)
    node.xid(79)
    result = node.tick()
    assert (class_of(result, "gpu-lost"), class_of(result, "xid-79")) == ("reset", "note")


# Status.


@pytest.mark.parametrize("health_class", CLASSES)
def test_status_of_classes(health_class: str) -> None:
    expected = {"transient": "warn", "note": "ok"}.get(health_class, "fail")
    assert status_of([finding("check", health_class, "found")]) == expected


def test_unread_is_unknown_unless_a_finding_is_worse() -> None:
    blind = finding("check", "note", "not read", unread=True)
    assert status_of([blind]) == "unknown"
    assert status_of([blind, finding("other", "transient", "found")]) == "warn"
    assert status_of([blind, finding("other", "degraded", "found")]) == "fail"


def test_statuses_are_the_verdicts() -> None:
    assert {"ok", "warn", "fail", "unknown"} == set(STATUSES)


# What a site sets.


def test_an_ignored_check_is_a_note_and_does_not_change_the_status() -> None:
    node = JudgedNode(replace(PROFILE, ignore=("nvlink-down",)))
    result = node.tick({("nvlink-down", GPU): 2}, times=3)
    assert (result.status, class_of(result, "nvlink-down")) == ("ok", "note")


def test_an_ignored_check_that_is_unread_is_unknown() -> None:
    node = JudgedNode(replace(PROFILE, ignore=("nvlink-down",)))
    assert node.tick({("nvlink-down", GPU): None}).status == "unknown"


def test_a_finding_that_stayed_returns_when_it_is_no_longer_ignored() -> None:
    node = JudgedNode(replace(PROFILE, ignore=("sram-threshold",)))
    assert node.tick({("sram-threshold", GPU): 1}).status == "ok"
    node.change_profile(ignore=())
    assert node.tick().health_class == "rma"


def test_a_latch_of_hardware_that_the_profile_lost_ends() -> None:
    node = JudgedNode()
    lost(node)
    node.tick(times=3)
    node.change_profile(gpus=0)
    node.values = {key: value for key, value in node.values.items() if key[1] not in (GPU, GPU2)}
    assert node.tick().status == "ok"


def test_thresholds_of_a_site_decide() -> None:
    site = {"ib-rate": {"critical": 400}, "power-brake": {"applies": "never"}}
    node = JudgedNode(replace(PROFILE, thresholds=site))
    result = node.tick({("rdma-rate", "mlx5_0/1"): 200, ("power-brake", GPU): 1}, times=3)
    assert (class_of(result, "ib-rate"), class_of(result, "power-brake")) == ("degraded", "")


# Advice and foreign checks.


def test_advice_alone_is_a_note_and_beside_a_finding_degraded() -> None:
    node = JudgedNode()
    node.extra = [Reading("advice/dcgm", GPU, "fail", "dcgm", "PCIe replays")]
    alone = node.tick()
    assert (class_of(alone, "advice-dcgm"), alone.status) == ("note", "warn")
    beside = node.tick({("pcie-width", GPU): 8})
    assert class_of(beside, "advice-dcgm") == "degraded"
    other = node.tick({("pcie-width", GPU): 16, ("pcie-width", GPU2): 8})
    assert class_of(other, "advice-dcgm") == "note"


def test_a_note_does_not_support_advice() -> None:
    node = JudgedNode()
    node.extra = [Reading("advice/dcgm", GPU, "fail", "dcgm"), Reading("foreign/site-raid", GPU, "warn", "site-raid")]
    result = node.tick()
    assert {one.kind: one.health_class for one in result.findings} == {
        "advice-dcgm": "note",
        "foreign-site-raid": "note",
    }


def test_two_advisors_do_not_support_each_other() -> None:
    node = JudgedNode()
    node.extra = [Reading("advice/dcgm", GPU, "fail", "dcgm"), Reading("advice/gpud", GPU, "fail", "gpud")]
    assert {one.health_class for one in node.tick().findings} == {"note"}


@pytest.mark.parametrize(
    ("value", "expected", "status"),
    [("ok", "", "ok"), ("warn", "note", "warn"), ("fail", "degraded", "fail"), ("bad", "degraded", "fail")],
)
def test_a_foreign_check_is_degraded_at_most(value: str, expected: str, status: str) -> None:
    node = JudgedNode()
    node.extra = [Reading("foreign/site-raid", "md0", value, "site-raid", "" if value == "ok" else "one disk of four")]
    result = node.tick()
    assert (class_of(result, "foreign-site-raid"), result.status) == (expected, status)


def test_a_foreign_check_cannot_name_itself_after_a_source_to_be_worse() -> None:
    node = JudgedNode()
    node.extra = [Reading("foreign/nvml", GPU, "fail", "nvml")]
    assert node.tick().health_class == "degraded"


def test_a_foreign_check_that_did_not_end_is_unknown() -> None:
    node = JudgedNode()
    node.extra = [Reading("foreign/site-raid", "", None, "site-raid", "no answer within 30 s")]
    result = node.tick()
    assert (result.status, result.findings[0].kind) == ("unknown", "foreign-site-raid")


# Text.


def test_the_text_has_the_worst_check_first_and_fits_a_verdict() -> None:
    node = JudgedNode()
    lost(node)
    node.values[("pcie-width", GPU)] = 8
    node.values[("remap-failure", GPU2)] = 1
    result = node.tick({("mount-hung", "/scratch"): None}, times=3)
    words = result.text.split(": ")[0].split(" ")
    assert words == [f"remap-failure@{GPU2}", f"gpu-lost@{GPU}", f"pcie-width@{GPU}", "unread:mount-hung@/scratch"]
    assert result.checks == (f"remap-failure@{GPU2}", f"gpu-lost@{GPU}", f"pcie-width@{GPU}")
    verdict = Verdict(result.status, BOOTS[0], 1000, 180, result.health_class, result.text)
    assert verdict.line().startswith(f"1 fail {BOOTS[0]} 1000 180 rma remap-failure@{GPU2} ")


def test_the_text_of_many_checks_is_bounded_and_one_line() -> None:
    node = JudgedNode(replace(PROFILE, gpus=16))
    node.extra = [Reading("foreign/x", "md\n0", "fail", "x", "a\nb")]
    result = node.tick({key: 8 for key in node.values if key[0] == "pcie-width"})
    assert "\n" not in result.text
    assert "and 9 more" in result.text
    assert len(result.text) <= 300


def test_the_kernel_rules_are_an_argument() -> None:
    node = JudgedNode(NodeProfile())
    found = finding("made-up", "degraded", "found", sources=("kernel-log",))
    result = judge(node.facts(), node.history, (), node.profile, lambda *_arguments: [found])
    assert (result.findings, result.status, result.checks) == ((found,), "fail", ("made-up",))


def test_judging_does_not_change_the_history() -> None:
    node = JudgedNode()
    node.tick({("nvlink-down", GPU): 1}, times=2)
    before = node.history.save()
    results = [judge(node.facts(), node.history, (), node.profile) for _number in range(5)]
    assert node.history.save() == before
    assert len(set(map(repr, results))) == 1


def test_a_probe_that_read_no_port_says_why() -> None:
    node = JudgedNode()
    for key in [key for key in node.values if key[0] == "rdma-state"]:
        del node.values[key]
    node.extra = [Reading("rdma-state", "", None, "sysfs", "rdma did not answer within 70 s")]
    result = node.tick()
    assert result.status == "unknown"
    assert any("did not answer within 70 s" in one.found for one in result.findings)


def test_a_counter_below_zero_is_unread() -> None:
    result = JudgedNode().tick({("pcie-replay", GPU): -1})
    assert result.status == "unknown"
    assert any("not a counter" in one.found for one in result.findings)


def test_a_source_that_was_not_read_stays_beside_a_source_that_was() -> None:
    node = JudgedNode()
    node.extra = [Reading("nvlink-down", GPU, None, "nvidia-smi", "no answer")]
    result = node.tick({("nvlink-down", GPU): 1})
    assert class_of(result, "nvlink-down") == "note"
    assert result.status == "unknown"


def test_links_that_count_while_the_node_boots_are_notes() -> None:
    node = JudgedNode(uptime=200.0)
    result = node.tick({("rdma-link-downed", "mlx5_0/1"): 500}, times=3)
    assert {one.health_class for one in result.findings} <= {"note"}
    assert result.status != "fail"


def test_a_source_whose_group_was_read_in_the_same_moment_counts() -> None:
    node = JudgedNode()
    node.tick()
    facts = node.facts()
    other = Reading("gpu-lost", GPU, 1, "nvidia-smi")
    assert node.history.series(other, facts).runs[-1].value == 1


def test_a_driver_with_a_known_defect_is_a_note_until_three_days_before_it_shows() -> None:
    row = default().known_bad_drivers[0]
    version = row.version.split("|")[0].replace("*", "1").lstrip("<>=~")
    for days, expected in ((row.after_days - 4, "note"), (row.after_days - 2, row.health_class)):
        node = JudgedNode(uptime=days * 86400.0)
        node.extra = [Reading("driver-version", "", version, "procfs")]
        assert class_of(node.tick(), "driver-known-defect") == expected


def test_a_word_where_a_number_is_needed_is_unread() -> None:
    result = JudgedNode().tick({("pcie-width", GPU): "wide"})
    assert result.status == "unknown"
    assert any("is not a number" in one.found for one in result.findings)


def test_only_an_optional_quantity_may_be_missing_on_the_hardware() -> None:
    node = JudgedNode()
    known = {(row.reads, row.optional) for row in node.rows.values() if row.per == "gpu" and row.applies == "gpus"}
    assert {optional for _name, optional in known} == {True, False}
    for name, optional in known:
        one = JudgedNode()
        del one.values[name, GPU]
        one.extra = [Reading(name, GPU, None, "nvml", "not supported: by this driver")]
        assert one.tick().status == ("ok" if optional else "unknown"), name
        one.extra = [Reading(name, GPU, None, "nvml", "the driver did not answer")]
        assert one.tick().status == "unknown", name


def test_a_reading_before_links_are_judged_does_not_stay() -> None:
    profile = replace(PROFILE, thresholds={"nvlink-down": {"quiet": True, "debounce": 1}})
    node = JudgedNode(profile, uptime=100.0)
    assert class_of(node.tick({("nvlink-down", GPU): 1}), "nvlink-down") == "note"
    node.uptime = 700.0
    assert class_of(node.tick({("nvlink-down", GPU): 0}), "nvlink-down") == ""


def test_a_source_of_a_milder_finding_does_not_confirm_a_worse_one() -> None:
    worse = finding("gpu-lost", "cannot-run", "lost", device=GPU, sources=("nvml",))
    milder = finding("gpu-lost", "note", "once", device=GPU, sources=("sysfs",))
    assert [one.sources for one in merged([worse, milder])] == [("nvml",)]


def test_a_reset_before_a_finding_does_not_end_it() -> None:
    node = JudgedNode()
    node.tick()
    node.events.append(KernelEvent("reset", None, GPU, "reset done", 1, node.uptime, {}))
    node.tick()
    assert class_of(node.tick({("gpu-lost", GPU): 1}, times=3), "gpu-lost") == "reset"
    assert class_of(node.tick({("gpu-lost", GPU): 0}, times=3), "gpu-lost") == "reset"
    later = KernelEvent(
        "reset", None, GPU, "reset done", 9, node.uptime, {"boot": BOOTS[7], "time": f"{node.time:.0f}"}
    )
    node.events.append(later)
    assert class_of(node.tick(times=2), "gpu-lost") == "reset"
    node.events.append(KernelEvent("reset", None, GPU, "reset done", 2, node.uptime, {}))
    assert class_of(node.tick(times=2), "gpu-lost") == ""


def test_errors_of_the_boot_are_not_judged_after_it() -> None:
    node = JudgedNode(uptime=60.0)
    node.tick()
    node.tick({("rdma-link-downed", "mlx5_0/1"): 500})
    node.uptime = node.profile.quiet_after_boot - 30.0
    later = [node.tick() for _number in range(3)]
    assert [one.status for one in later] == ["ok"] * 3


def test_gpus_without_nvlink_need_no_readings_of_it() -> None:
    node = JudgedNode()
    quantities = {row.reads for row in node.rows.values() if row.applies == "nvlink"}
    node.change_profile(nvlink=False)
    node.values = {key: value for key, value in node.values.items() if key[0] not in quantities}
    assert (len(quantities) > 2, node.tick().status) == (True, "ok")


def test_a_port_that_is_no_rail_is_not_judged() -> None:
    node = JudgedNode()
    node.extra = [Reading("rdma-state", "mlx5_9/1", "DOWN", "sysfs")]
    assert node.tick(times=3).status == "ok"
