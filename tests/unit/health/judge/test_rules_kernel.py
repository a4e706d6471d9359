# SPDX-License-Identifier: GPL-3.0-or-later
"""What the events of a node's kernel log mean together: repeats, followers, resets, boots, gaps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import NOTICE, WARNING
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import KernelEvent, NodeProfile
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.rules_kernel import named_checks
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_events import RESET_LINE, gap
from tests.kit.kernel_log import BOOT, TIME, UPTIME, classes, event, findings

GPU, OTHER = "0000:3b:00", "0000:5e:00"
HOUR = 3600


def xid(
    code: int, text: str = "text", *, gpu: str = GPU, ago: float = HOUR, number: int = 1, **details: str
) -> KernelEvent:
    return event(f"NVRM: Xid (PCI:{gpu}): {code}, pid=7, name=python3, {text}", ago, number, **details)


def warp(gpc: int, tpc: int, ago: float, number: int, **details: str) -> KernelEvent:
    text = f"Graphics SM Warp Exception on (GPC {gpc}, TPC {tpc}, SM 0): Out Of Range Address"
    return xid(13, text, ago=ago, number=number, **details)


def nvlink(registers: str, link: int = 14, *, ago: float = HOUR, number: int = 1) -> KernelEvent:
    text = f"NVLink: fatal error detected on link {link}({registers}, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
    return xid(74, text, ago=ago, number=number)


def test_checks_without_a_number_are_named() -> None:
    """`health.ignore` accepts these ids, and those with a number."""
    named = named_checks()
    assert {
        "xid-13-same-tpc",
        "xid-31-repeated",
        "xid-74-parity-repeated",
        "xid-jobs",
        "kernel-log-gap",
        "hca-health",
    } <= named
    assert {"xid-unread", "sxid-unread"} <= named
    assert len(named) == 21


def test_no_events_no_findings() -> None:
    assert findings([]) == []


def test_a_finding_names_device_job_and_remedy() -> None:
    (found,) = findings([xid(79, "GPU has fallen off the bus.", job="4711")])
    assert (found.kind, found.health_class, found.device, found.sources) == (
        "xid-79",
        "cannot-run",
        f"{GPU}.0",
        ("kernel-log",),
    )
    assert "4711" in found.found
    assert "reboot" in found.remedy


def test_events_of_one_check_and_device_are_one_finding() -> None:
    events = [xid(95, number=1), xid(95, number=2), xid(95, number=3, gpu=OTHER)]
    found = findings(events)
    assert [(one.kind, one.device) for one in found] == [("xid-95", f"{GPU}.0"), ("xid-95", f"{OTHER}.0")]
    assert found[0].found.startswith("2 lines; ")


def test_the_worst_class_is_first() -> None:
    events = [xid(31, number=1), xid(95, number=2), xid(79, number=3), xid(64, number=4)]
    assert list(classes(events).values()) == ["cannot-run", "rma", "reset", "note"]


def test_a_record_that_was_read_twice_counts_once() -> None:
    events = [warp(1, 2, 20 * HOUR, 5), warp(1, 2, 20 * HOUR, 5)]
    assert len(findings(events)) == 1
    assert not findings(events)[0].found.startswith("2 lines")


class TestRepeats:
    def test_13_on_one_tpc_twice_is_a_suspicion(self) -> None:
        found = findings([warp(1, 2, 20 * HOUR, 1), warp(1, 2, HOUR, 2)])
        assert [(one.kind, one.health_class) for one in found] == [("xid-13-same-tpc", "degraded"), ("xid-13", "note")]
        assert "gpc 1, tpc 2" in found[0].found

    @pytest.mark.parametrize(
        "events",
        [
            [warp(1, 2, 20 * HOUR, 1), warp(1, 3, HOUR, 2)],
            [warp(1, 2, 25 * HOUR, 1), warp(1, 2, HOUR, 2)],
            [warp(1, 2, HOUR, 1), warp(1, 2, HOUR - 170, 2), warp(1, 2, HOUR - 340, 3)],
            [warp(1, 2, 20 * HOUR, 1, job="7"), warp(1, 2, HOUR, 2, job="7")],
            [xid(13, "ESR 0x57c730=0xc04000b", number=1, ago=20 * HOUR), xid(13, "ESR 0x57c730=0xc04000b", number=2)],
        ],
        ids=[
            "other TPC",
            "more than a day apart",
            "lines of one failure",
            "one job, started again",
            "no TPC in the line",
        ],
    )
    def test_13_that_is_no_repeat(self, events: list[KernelEvent]) -> None:
        assert "xid-13-same-tpc" not in classes(events)

    def test_13_on_two_gpus_is_no_repeat(self) -> None:
        place = "Graphics SM Warp Exception on (GPC 1, TPC 2, SM 0): x"
        assert "xid-13-same-tpc" not in classes([xid(13, place, ago=20 * HOUR), xid(13, place, gpu=OTHER, number=2)])

    def test_31_on_one_gpu_twice_is_a_suspicion(self) -> None:
        assert classes([xid(31, ago=20 * HOUR), xid(31, number=2)])["xid-31-repeated"] == "degraded"
        assert "xid-31-repeated" not in classes([xid(31, ago=20 * HOUR), xid(31, number=2, gpu=OTHER)])
        assert "xid-31-repeated" not in classes([xid(31, ago=HOUR), xid(31, number=2, ago=HOUR - 5)])

    def test_three_jobs_on_one_gpu_are_a_suspicion(self) -> None:
        events = [
            xid(code, number=number, ago=number * HOUR, job=str(number)) for number, code in enumerate((11, 69, 94), 1)
        ]
        (found,) = [one for one in findings(events) if one.kind == "xid-jobs"]
        assert found.health_class == "degraded"
        assert "1, 2, 3" in found.found

    @pytest.mark.parametrize(
        ("codes", "jobs"),
        [
            ((69, 69, 69), ("1", "2", "2")),
            ((69, 69, 69), ("1", "2", "")),
            ((45, 45, 45), ("1", "2", "3")),
            ((43, 43, 43), ("1", "2", "3")),
        ],
        ids=["two jobs", "a job that is not known", "45 counts nothing", "43 is not of the bucket"],
    )
    def test_jobs_that_are_too_few(self, codes: tuple[int, ...], jobs: tuple[str, ...]) -> None:
        events = [
            xid(code, number=number, ago=number * HOUR, **({"job": job} if job else {}))
            for number, (code, job) in enumerate(zip(codes, jobs, strict=True), 1)
        ]
        assert "xid-jobs" not in classes(events)

    def test_thousands_of_45_are_a_note(self) -> None:
        events = [
            xid(45, f"Ch {number:08x}", number=number, ago=HOUR - number / 10, job=str(number % 5))
            for number in range(11_760)
        ]
        assert classes(events) == {"xid-45": "note"}


class TestFollowed:
    @pytest.mark.parametrize("code", [63, 64, 94, 95])
    @pytest.mark.parametrize("seconds", [-60, 0, 60])
    def test_48_beside_a_xid_that_decides_is_a_note(self, code: int, seconds: int) -> None:
        assert classes([xid(48), xid(code, ago=HOUR - seconds, number=2)])["xid-48"] == "note"

    def test_48_alone_is_a_reset(self) -> None:
        assert classes([xid(48)]) == {"xid-48": "reset"}

    @pytest.mark.parametrize(
        "event_beside", [xid(94, ago=HOUR - 61, number=2), xid(94, gpu=OTHER, number=2), xid(45, number=2)]
    )
    def test_48_beside_another_event_is_a_reset(self, event_beside: KernelEvent) -> None:
        assert classes([xid(48), event_beside])["xid-48"] == "reset"

    def test_48_is_unknown_until_a_follower_can_no_longer_follow(self) -> None:
        (young,) = findings([xid(48, ago=59)])
        assert (young.health_class, young.unread) == ("note", True)
        (old,) = findings([xid(48, ago=60)])
        assert (old.health_class, old.unread) == ("reset", False)

    def test_172_belongs_to_48(self) -> None:
        assert classes([xid(48), xid(172, number=2), xid(94, number=3)])["xid-172"] == "note"
        assert classes([xid(172)]) == {"xid-172": "reset"}


class TestWords:
    @pytest.mark.parametrize("code", range(144, 151))
    def test_nonfatal_is_a_note(self, code: int) -> None:
        (found,) = findings([xid(code, "UNIT Nonfatal XC0 i0 Link 01 (0x1 0x2)")])
        assert (found.health_class, found.unread) == ("note", False)

    @pytest.mark.parametrize("code", range(144, 151))
    def test_without_the_word_the_node_is_unknown(self, code: int) -> None:
        (found,) = findings([xid(code, "UNIT XC0 i0 Link 01 (0x1 0x2)")])
        assert (found.health_class, found.unread) == ("note", True)

    def test_the_last_recovery_action_counts(self) -> None:
        reset = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
        none = "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
        assert classes([xid(154, reset), xid(154, none, number=2)]) == {"xid-154": "note"}
        assert classes([xid(154, none), xid(154, reset, number=2)]) == {"xid-154": "reset"}

    def test_one_line_without_the_word_makes_the_finding_unread(self) -> None:
        lines = [xid(149, "NETIR Fatal XC0 i0 Link 02 (0x1 0x2)"), xid(149, "NETIR XC0 i0 Link 02", number=2)]
        (found,) = findings(lines)
        assert (found.health_class, found.unread) == ("reset", True)

    def test_a_recovery_action_of_another_gpu_replaces_nothing(self) -> None:
        reset = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
        none = "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
        found = findings([xid(154, reset), xid(154, none, number=2, gpu=OTHER)])
        assert {one.device: one.health_class for one in found}[f"{GPU}.0"] == "reset"

    @pytest.mark.parametrize(
        "text", ["GPU recovery action changed", "GPU recovery action changed from 0x0 (None) to 0x9 (Unknown)"]
    )
    def test_an_unknown_recovery_action_is_unknown(self, text: str) -> None:
        (found,) = findings([xid(154, text)])
        assert (found.health_class, found.unread) == ("note", True)

    def test_the_name_of_a_process_decides_nothing(self) -> None:
        line = f"NVRM: Xid (PCI:{GPU}): 149, pid=7, name=A Fatal XC0 i0 Link 1, NETIR Nonfatal XC0 i0 Link 02 (0x1 0x2)"
        assert classes([event(line)]) == {"xid-149": "note"}
        assert classes([event(f"NVRM: Xid (PCI:{GPU}): 31, pid=7, name=Xid (PCI): 79, x, MMU Fault")]) == {
            "xid-31": "note"
        }

    def test_an_unreadable_code_is_unknown(self) -> None:
        (found,) = findings([event("NVRM: Xid (PCI:0000:3b:00): , GPU has")])
        assert (found.kind, found.health_class, found.unread) == ("xid-unread", "note", True)

    def test_a_code_without_a_row_is_a_note_and_a_warning(self) -> None:
        (found,) = findings([xid(999)])
        assert (found.kind, found.health_class, found.severity) == ("xid-999", "note", WARNING)
        assert "not in our table" in found.found


class TestRegisters:
    def test_secondary_bits_beside_another_event_are_a_note(self) -> None:
        secondary = nvlink("0x2")
        assert classes([secondary]) == {"xid-74": "degraded"}
        assert classes([secondary, xid(95, number=2)])["xid-74"] == "note"
        switch = event("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 28 LTSSM Fault Up", HOUR, 2)
        assert classes([secondary, switch])["xid-74"] == "note"
        assert classes([secondary, xid(45, number=2)])["xid-74"] == "degraded"
        assert classes([secondary, xid(95, number=2, gpu=OTHER)])["xid-74"] == "degraded"

    def test_the_worst_of_the_bits_decides(self) -> None:
        assert classes([nvlink(f"{1 << 0 | 1 << 4:#x}")]) == {"xid-74": "reset"}

    @pytest.mark.parametrize("registers", ["0x0", f"{1 << 31:#x}", f"{1 << 0 | 1 << 31:#x}"])
    def test_bits_without_a_row_are_a_reset(self, registers: str) -> None:
        assert classes([nvlink(registers)]) == {"xid-74": "reset"}

    def test_a_malformed_register_is_a_reset(self) -> None:
        damaged = nvlink("0x2")
        details = {**damaged.details, "registers": "0x2 damaged"}
        assert classes([replace(damaged, details=details), xid(95, number=2)])["xid-74"] == "reset"

    def test_a_line_without_registers_is_a_reset(self) -> None:
        assert classes([xid(74, "NVLink: fatal error detected on link 1")]) == {"xid-74": "reset"}
        assert classes([xid(74, "NVLink")]) == {"xid-74": "reset"}

    def test_parity_is_hardware_when_seen_more_than_twice_on_one_link(self) -> None:
        events = [nvlink("0x10", ago=hours * HOUR, number=9 - hours) for hours in (3, 2, 1)]
        assert classes(events[:2]) == {"xid-74": "reset"}
        assert classes(events) == {"xid-74-parity-repeated": "rma", "xid-74": "reset"}
        elsewhere = [*events[:2], nvlink("0x10", link=3, number=9)]
        assert "xid-74-parity-repeated" not in classes(elsewhere)

    def test_mechanics_are_hardware_when_seen_twice_on_one_link(self) -> None:
        events = [nvlink("0x100", ago=2 * HOUR), nvlink("0x200", number=2)]
        assert classes(events)["xid-74-mechanics-repeated"] == "rma"


class TestSwitches:
    LINE = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, "

    def test_data_and_severity_count_with_their_event(self) -> None:
        events = [
            event(self.LINE + "Non-fatal, Link 62 LTSSM Fault Up", HOUR, 1),
            event(self.LINE + "Severity 1 Engine instance 62 Sub-engine instance 00", HOUR, 2),
            event(self.LINE + "Data {0x10000000, 0x00000000}", HOUR, 3),
        ]
        (found,) = findings(events)
        assert (found.health_class, found.unread) == ("note", False)
        assert classes([event(self.LINE + "Fatal, Link 62 LTSSM Fault Up", HOUR, 1), *events[1:]]) == {
            "sxid-20034": "reset"
        }

    def test_data_without_its_event_is_unknown(self) -> None:
        (found,) = findings([event(self.LINE + "Data {0x10000000}")])
        assert (found.health_class, found.unread) == ("note", True)

    def test_data_belongs_to_no_later_event(self) -> None:
        data = event(self.LINE + "Data {0x10000000}", HOUR, 1)
        head = event(self.LINE + "Non-fatal, Link 62 LTSSM Fault Up", HOUR, 2)
        (found,) = findings([data, head])
        assert found.unread

    def test_always_fatal_needs_no_word(self) -> None:
        assert classes([event("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 22003, Data {0x1}")]) == {
            "sxid-22003": "reset"
        }

    def test_a_code_without_a_row_is_a_note_and_a_warning(self) -> None:
        for words in ("Fatal, Link 01 x", "x"):
            (found,) = findings([event(f"nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 28001, {words}")])
            assert (found.health_class, found.severity, found.unread) == ("note", WARNING, False)


class TestClearing:
    RESET = RESET_LINE.format(device=f"{GPU}.0")

    @pytest.mark.parametrize("code", [79, 95, 74])
    def test_a_reset_ends_what_was_before_it(self, code: int) -> None:
        before, after = xid(code, number=1), event(self.RESET, HOUR, 2)
        assert classes([before, after]) == {}
        assert classes([before, event(RESET_LINE.format(device=f"{OTHER}.0"), HOUR, 2)]) != {}
        assert classes([after, xid(code, number=3)]) != {}

    def test_a_reset_ends_no_replacement(self) -> None:
        assert classes([xid(64), event(self.RESET, HOUR, 2)]) == {"xid-64": "rma"}

    def test_repeats_count_from_the_reset_on(self) -> None:
        events = [xid(31, ago=9 * HOUR, number=1), event(self.RESET, 5 * HOUR, 2), xid(31, number=3)]
        assert classes(events) == {"xid-31": "note"}

    def test_repeats_of_another_boot_end_with_a_reset(self) -> None:
        before = xid(31, ago=9 * HOUR, number=900, boot="another", time=f"{TIME - 9 * HOUR:.0f}")
        assert classes([before, event(self.RESET, 5 * HOUR, 2), xid(31, number=3)]) == {"xid-31": "note"}

    def test_a_reset_of_another_boot_ends_nothing(self) -> None:
        reset = event(self.RESET, 5 * HOUR, 900, boot="another", time=f"{TIME - 5 * HOUR:.0f}")
        assert classes([reset, xid(95, number=3)]) == {"xid-95": "reset"}

    def test_another_boot_ends_what_was_before_it(self) -> None:
        before = xid(95, boot="another", time=f"{TIME - HOUR:.0f}")
        assert classes([before]) == {}
        assert classes([replace(before, details={**before.details, "boot": BOOT})]) == {"xid-95": "reset"}

    def test_repeats_count_over_boots(self) -> None:
        before = {"boot": "another", "time": f"{TIME - 9 * HOUR:.0f}"}
        assert classes([xid(31, number=5, **before), xid(31, number=1)])["xid-31-repeated"] == "degraded"
        assert "xid-31-repeated" not in classes([xid(31, number=5, boot="another"), xid(31, number=1)])
        assert "xid-31-repeated" not in classes([xid(31, number=5, boot="another", time="soon"), xid(31, number=1)])

    def test_time_ends_notes_alone(self) -> None:
        assert classes([xid(31, ago=25 * HOUR), xid(95, ago=25 * HOUR, number=2)]) == {"xid-95": "reset"}


class TestProfile:
    def test_an_ignored_check_is_a_note(self) -> None:
        (found,) = findings([xid(95)], NodeProfile(ignore=("xid-95",)))
        assert (found.health_class, found.severity) == ("note", NOTICE)
        assert "health.ignore" in found.found

    def test_a_repeat_is_ignored_by_its_own_id(self) -> None:
        events = [xid(31, ago=20 * HOUR), xid(31, number=2)]
        assert classes(events, NodeProfile(ignore=("xid-31",)))["xid-31-repeated"] == "degraded"
        assert classes(events, NodeProfile(ignore=("xid-31-repeated",)))["xid-31-repeated"] == "note"

    @pytest.mark.parametrize(
        "line",
        [
            f"NVRM: Xid (PCI:{GPU}): 149, NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000)",
            f"NVRM: Xid (PCI:{GPU}): 74, pid=7, name=a, NVLink: fatal error detected on link 1",
            "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 28 LTSSM Fault Up",
        ],
    )
    def test_links_are_quiet_after_boot(self, line: str) -> None:
        early, late = event(line, UPTIME - 599), event(line, UPTIME - 600)
        # A note that is older than a day is no finding.
        assert classes([early]) == {}
        assert list(classes([early], NodeProfile(quiet_after_boot=599)).values()) == ["reset"]
        assert list(classes([late]).values()) == ["reset"]
        assert list(classes([early], NodeProfile(quiet_after_boot=0)).values()) == ["reset"]

    def test_memory_errors_are_not_quiet_after_boot(self) -> None:
        assert classes([xid(95, ago=UPTIME - 5)]) == {"xid-95": "reset"}


class TestGaps:
    @pytest.mark.parametrize(
        ("reason", "ago", "unread"),
        [
            ("jump", 60, True),
            ("overrun", 60, True),
            ("malformed", 60, True),
            ("no cursor", 60, True),
            ("start", 60, False),
            ("jump", 7200, False),
        ],
    )
    def test_a_gap_is_unknown_for_an_hour(self, reason: str, ago: float, unread: bool) -> None:
        (found,) = findings([gap(9, UPTIME - ago, reason, 3, 6, TIME - ago)])
        assert (found.kind, found.health_class, found.unread) == ("kernel-log-gap", "note", unread)
        assert found.severity == (WARNING if unread else NOTICE)
