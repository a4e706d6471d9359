# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that one number does not describe, each in cycles as a node lives them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import (
    KernelEvent,
    NodeProfile,
    Reading,
)
from tests.unit.health.judge.judged_node import GPU, GPU2, MOUNT, PROFILE, RAIL, JudgedNode, class_of, of_check

DAY, HOUR = 86_400.0, 3600.0
REMAPPED = ("remap-uncorrectable", GPU)
CORRECTED = ("ecc-corrected", GPU)


# Remapped rows.


def test_two_new_rows_in_a_day_are_rma_and_one_is_a_warning() -> None:
    node = JudgedNode()
    node.tick({REMAPPED: 11})
    assert (class_of(one := node.tick({REMAPPED: 12}), "remap-uncorrectable"), one.status) == ("note", "warn")
    node.tick(seconds=20 * HOUR)
    result = node.tick({REMAPPED: 13})
    assert (class_of(result, "remap-uncorrectable", GPU), result.status, result.health_class) == ("rma", "fail", "rma")


def test_two_new_rows_in_more_than_a_day_are_not_rma() -> None:
    node = JudgedNode()
    node.tick({REMAPPED: 11})
    node.tick({REMAPPED: 12})
    node.tick(seconds=25 * HOUR)
    assert class_of(node.tick({REMAPPED: 13}), "remap-uncorrectable") == "note"


def test_rows_count_across_a_reboot() -> None:
    node = JudgedNode()
    node.tick({REMAPPED: 11})
    node.tick({REMAPPED: 12})
    node.reboot(uptime=2 * HOUR)
    assert class_of(node.tick({REMAPPED: 13}), "remap-uncorrectable") == "rma"


def test_a_new_row_within_an_hour_after_a_reboot_is_rma() -> None:
    node = JudgedNode()
    node.tick({REMAPPED: 11})
    node.reboot(uptime=20.0)
    # The reset itself may activate the row that was pending before it: this alone is not a new failure.
    assert class_of(node.tick({REMAPPED: 12}), "remap-uncorrectable-after-reset") == ""
    assert class_of(node.tick({REMAPPED: 13}), "remap-uncorrectable-after-reset") == "rma"


def test_a_new_row_two_hours_after_a_reboot_is_not_rma() -> None:
    node = JudgedNode(uptime=2 * HOUR)
    node.tick({REMAPPED: 11})
    assert class_of(node.tick({REMAPPED: 12}), "remap-uncorrectable-after-reset") == ""


def test_a_new_row_soon_after_a_gpu_reset_that_a_counter_shows_is_rma() -> None:
    node = JudgedNode()
    node.tick({REMAPPED: 11, CORRECTED: 5000, ("ecc-corrected", GPU2): 5000})
    node.tick({CORRECTED: 0})
    node.tick({("remap-uncorrectable", GPU2): 1})
    result = node.tick({REMAPPED: 12})
    assert class_of(result, "remap-uncorrectable-after-reset", GPU) == "rma"
    assert class_of(result, "remap-uncorrectable-after-reset", GPU2) == ""


def test_a_new_row_soon_after_a_reset_that_a_runbook_reports_is_rma() -> None:
    node = JudgedNode()
    node.tick({REMAPPED: 11})
    node.events.append(KernelEvent("reset", None, GPU, "reset by a runbook", 1, node.uptime))
    node.tick()
    assert class_of(node.tick({REMAPPED: 12}), "remap-uncorrectable-after-reset", GPU) == "rma"


def test_rma_stays_over_reboots_and_ends_with_another_gpu() -> None:
    node = JudgedNode()
    node.tick({REMAPPED: 11})
    node.tick({REMAPPED: 13})
    node.tick(seconds=30 * HOUR)
    node.reboot()
    assert class_of(node.tick(seconds=30 * HOUR), "remap-uncorrectable", GPU) == "rma"
    assert node.tick({REMAPPED: 0}).status == "ok"


def test_a_replaced_gpu_with_more_rows_is_clean_after_forget() -> None:
    node = JudgedNode()
    node.tick({REMAPPED: 11})
    node.tick({REMAPPED: 13})
    node.history.forget("00000000:3B:00.0")
    assert node.tick({REMAPPED: 40}).status == "ok"


# Corrected errors: the rate decides, never the total.


def test_a_large_total_of_corrected_errors_is_ok() -> None:
    node = JudgedNode()
    assert node.tick({CORRECTED: 54_700_000_000}, times=6).status == "ok"


def test_a_storm_of_corrected_errors_needs_five_minutes_and_stays_until_a_reset() -> None:
    node = JudgedNode()
    classes = [class_of(node.tick({CORRECTED: 60_000 * number}), "ecc-corrected-storm") for number in range(6)]
    assert classes == ["", "", "", "", "", "reset"]
    node.tick(times=10)
    assert class_of(node.tick(seconds=2 * DAY), "ecc-corrected-storm", GPU) == "reset"
    assert node.tick({CORRECTED: 0}).status == "ok"


def test_missed_cycles_do_not_make_a_rate() -> None:
    node = JudgedNode()
    node.tick({CORRECTED: 0})
    assert class_of(node.tick({CORRECTED: 990}, seconds=600.0), "ecc-corrected") == ""
    assert class_of(node.tick({CORRECTED: 2990}, seconds=600.0), "ecc-corrected") == "note"


# Power brake and throttling.


def test_a_power_brake_never_drains() -> None:
    node = JudgedNode()
    result = node.tick({("power-brake", GPU): 1, ("power-brake", GPU2): 1}, times=600)
    assert (class_of(result, "power-brake", GPU), result.status, result.health_class) == ("note", "warn", "note")


def test_hardware_slowdown_counts_samples_in_ten_minutes() -> None:
    node = JudgedNode()
    pattern = [1, 0, 1, 1, 0, 1, 0, 1]
    assert [class_of(node.tick({("throttle-hw", GPU): one}), "throttle-hw") for one in pattern] == [""] * 8
    assert class_of(node.tick({("throttle-hw", GPU): 1}), "throttle-hw", GPU) == "degraded"
    assert class_of(node.tick({("throttle-hw", GPU): 0}, times=10), "throttle-hw") == ""


@pytest.mark.parametrize(
    ("model", "margin", "expected"),
    [
        ("h100", -2, "note"),
        ("h100", -3, "degraded"),
        ("b200", -3, "note"),
        ("b200", -4, "degraded"),
        ("l40s", -3, "degraded"),
        ("gb200", -3, "degraded"),
        ("a100", 0, "note"),
        ("a100", -1, "degraded"),
        ("h100", 3, ""),
    ],
)
def test_thermal_margin_of_models(model: str, margin: int, expected: str) -> None:
    node = JudgedNode(replace(PROFILE, model=model))
    node.tick({("thermal-margin", GPU): margin}, times=2)
    assert class_of(node.tick(), "thermal-margin") == expected


# Links and the time after boot.


@pytest.mark.parametrize(
    ("quantity", "device", "value", "check"),
    [
        ("nvlink-down", GPU, 1, "nvlink-down"),
        ("fabric-state", GPU, "in-progress", "fabric-state"),
        ("rdma-state", RAIL, "DOWN", "ib-port-state"),
        ("rdma-count", "", 1, "ib-count"),
    ],
)
def test_links_are_not_judged_soon_after_boot(quantity: str, device: str, value: int | str, check: str) -> None:
    node = JudgedNode(uptime=0.0)
    early = node.tick({(quantity, device): value}, times=9)
    assert (early.status, class_of(early, check)) == ("ok", "note")
    assert class_of(node.tick(), check) in ("reset", "cannot-run")
    assert node.tick().status == "fail"


def test_flaps_during_boot_do_not_count_later() -> None:
    node = JudgedNode(uptime=0.0)
    for number in range(9):
        node.tick({("rdma-link-downed", RAIL): number})
    assert node.tick(times=30).status == "ok"


def test_an_unread_link_is_unknown_soon_after_boot() -> None:
    assert JudgedNode(uptime=0.0).tick({("rdma-state", RAIL): None}).status == "unknown"


def test_quiet_time_is_the_profiles() -> None:
    node = JudgedNode(replace(PROFILE, quiet_after_boot=0), uptime=0.0)
    assert node.tick({("nvlink-down", GPU): 1}, times=3).status == "fail"


def test_a_flapping_link_is_transient_and_ends_after_twelve_hours() -> None:
    node = JudgedNode()
    node.tick({("rdma-link-downed", RAIL): 7})
    assert node.tick({("rdma-link-downed", RAIL): 8}).status == "warn"
    assert class_of(node.tick({("rdma-link-downed", RAIL): 10}), "ib-link-downed", RAIL) == "transient"
    assert class_of(node.tick(seconds=11 * HOUR), "ib-link-downed") == "transient"
    assert node.tick(seconds=1.1 * HOUR).status == "ok"


def test_a_link_error_stays_until_the_counter_is_cleared() -> None:
    node = JudgedNode()
    node.tick({("rdma-local-integrity", RAIL): 4})
    node.tick({("rdma-local-integrity", RAIL): 5})
    assert class_of(node.tick(seconds=2 * DAY), "ib-local-link-integrity", RAIL) == "degraded"
    assert node.tick({("rdma-local-integrity", RAIL): 0}).status == "ok"


# The profile decides what applies.


def test_nvlink_is_not_judged_without_nvlink_in_the_profile() -> None:
    node = JudgedNode(replace(PROFILE, nvlink=False))
    node.extra = [
        Reading("fabric-state", GPU, "not-supported", "nvml"),
        Reading("nvlink-down", GPU, None, "nvml", "no"),
    ]
    assert node.tick(times=4).status == "ok"


def test_hcas_and_mounts_that_the_profile_does_not_name_are_not_judged() -> None:
    node = JudgedNode()
    node.extra = [
        Reading("rdma-state", "mlx5_9/1", "DOWN", "sysfs"),
        Reading("rdma-state", "mlx5_10/1", None, "sysfs", "no"),
        Reading("mount-hung", "/other", 9, "mount"),
        Reading("huge-pages", "1G", 0, "sysfs"),
    ]
    assert node.tick(times=4).status == "ok"


def test_a_rail_is_not_the_start_of_another_name() -> None:
    profile = NodeProfile(rails=("mlx5_1",))
    node = JudgedNode(profile)
    node.values = {
        (quantity, "mlx5_10/1" if device else ""): value for (quantity, device), value in node.values.items()
    }
    result = node.tick()
    assert result.status == "unknown"
    assert {(one.kind, one.device) for one in result.findings} >= {("rdma-state", "mlx5_1")}


def test_an_expected_gpu_without_readings_is_unread() -> None:
    node = JudgedNode()
    node.values = {key: value for key, value in node.values.items() if key[1] != GPU2}
    result = node.tick()
    assert result.status == "unknown"
    assert {one.kind for one in result.findings if one.unread} >= {"gpu-lost", "remap-pending", "ecc-corrected"}


def test_not_supported_is_accepted_only_where_the_row_is_optional() -> None:
    node = JudgedNode()
    node.values = {
        key: value for key, value in node.values.items() if key[0] not in ("recovery-action", "ecc-corrected")
    }
    both = [("recovery-action", one) for one in (GPU, GPU2)]
    node.extra = [Reading(quantity, device, None, "nvml", "not supported: old driver") for quantity, device in both]
    node.extra += [Reading("ecc-corrected", one, 0, "nvml") for one in (GPU, GPU2)]
    assert node.tick().status == "ok"
    node.extra[-1] = Reading("ecc-corrected", GPU2, None, "nvml", "not supported: old driver")
    assert node.tick().status == "unknown"
    node.extra = [Reading("recovery-action", GPU, None, "nvml", "timeout"), *node.extra[1:3]]
    assert node.tick().status == "unknown"


@pytest.mark.parametrize(
    "reading",
    [
        Reading("gpu-temperament", GPU, 0, "nvml"),
        Reading("probe-output", "", None, "nvml", "line 3 is not a reading"),
        Reading("ecc-corrected", GPU, "many", "nvml"),
        Reading("ecc-corrected", GPU, -1, "nvml"),
        Reading("thermal-margin", GPU, float("nan"), "nvml"),
        Reading("thermal-margin", GPU, float("inf"), "nvml"),
    ],
)
def test_a_value_that_cannot_be_judged_is_unread(reading: Reading) -> None:
    node = JudgedNode()
    node.extra = [reading]
    assert node.tick().status == "unknown"


# States.


@pytest.mark.parametrize(
    ("quantity", "device", "value", "check", "expected"),
    [
        ("mount-present", MOUNT, 0, "mount-absent", "reset"),
        ("mount-hung", MOUNT, 3, "mount-hung", "transient"),
        ("huge-pages", "2M", 511, "huge-pages", "reset"),
        ("recovery-action", GPU, "gpu-reset", "recovery-action", "reset"),
        ("recovery-action", GPU, "drain-p2p", "recovery-action", "reset"),
        ("ecc-mode", GPU, 0, "ecc-mode", "reset"),
        ("persistence", GPU, 0, "persistence", "note"),
        ("driver-version", "", "580.65.06", "driver-version", "note"),
        ("driver-match", "", 0, "driver-match", "reset"),
        ("remap-failure", GPU, 1, "remap-failure", "rma"),
        ("remap-pending", GPU, 1, "remap-pending", "reset"),
        ("remap-uncorrectable", GPU, 512, "remap-uncorrectable-total", "rma"),
        ("remap-bank-none", GPU, 1, "remap-bank-none", "note"),
        ("sram-threshold", GPU, 1, "sram-threshold", "rma"),
        ("pcie-width", GPU, 8, "pcie-width", "degraded"),
        ("rdma-rate", RAIL, 200, "ib-rate", "note"),
    ],
)
def test_states(quantity: str, device: str, value: int | str, check: str, expected: str) -> None:
    node = JudgedNode()
    node.tick()
    assert class_of(node.tick({(quantity, device): value}, times=3), check, device) == expected


def test_a_wide_link_is_judged_at_once() -> None:
    assert class_of(JudgedNode().tick({("pcie-width", GPU): 8}), "pcie-width") == "degraded"


@pytest.mark.parametrize(("model", "width", "expected"), [("a2", 8, ""), ("a2", 4, "degraded"), ("gb200", 1, "")])
def test_width_of_models(model: str, width: int, expected: str) -> None:
    node = JudgedNode(replace(PROFILE, model=model))
    assert class_of(node.tick({("pcie-width", GPU): width}), "pcie-width", GPU) == expected


def test_a_driver_version_may_be_a_pattern() -> None:
    node = JudgedNode(replace(PROFILE, driver="580.*"))
    assert node.tick({("driver-version", ""): "580.65.06"}).status == "ok"


@pytest.mark.parametrize(
    ("version", "days", "expected"),
    [
        ("570.133.20", 1.0, "note"),
        ("570.133.20", 63.4, "note"),
        ("570.133.20", 63.6, "degraded"),
        ("570.133.07", 90.0, ""),
        ("570.148.08", 90.0, "note"),
    ],
)
def test_a_driver_with_a_known_defect(version: str, days: float, expected: str) -> None:
    node = JudgedNode(replace(PROFILE, driver=version), uptime=days * DAY)
    result = node.tick({("driver-version", ""): version})
    assert class_of(result, "driver-known-defect") == expected
    if expected:
        assert of_check(result.findings, "driver-known-defect") is not None
        assert result.status != "ok"


def test_a_lost_gpu_stays_until_a_reset_or_reboot() -> None:
    node = JudgedNode()
    node.tick({("gpu-lost", GPU): 1}, times=3)
    assert class_of(node.tick({("gpu-lost", GPU): 0}, times=100), "gpu-lost", GPU) == "reset"
    node.reboot()
    assert class_of(node.tick({("gpu-lost", GPU): None}), "gpu-lost", GPU) == "reset"
    assert node.tick({("gpu-lost", GPU): 0}).status == "ok"


def test_a_fatal_error_of_pcie_needs_a_reboot_not_a_reset() -> None:
    node = JudgedNode()
    node.values.update({("aer-fatal", GPU): 0, ("aer-fatal", GPU2): 0})
    node.tick({CORRECTED: 9})
    node.tick({("aer-fatal", GPU): 1})
    assert class_of(node.tick({CORRECTED: 0, ("aer-fatal", GPU): 0}, seconds=2 * DAY), "pcie-aer-fatal") == "reset"
    node.reboot()
    assert node.tick().status == "ok"
