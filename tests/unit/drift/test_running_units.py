"""Units: whether they run and start at boot, and what files of others make of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import WARNING
from ansible_collections.bedplate.cluster.plugins.module_utils.drift import running_units

from .machine import STATE, Machine, summary

OWN, DAEMON = "bedplate-demo.service", "slurmd.service"
LIMITS = f"/etc/systemd/system/{DAEMON}.d/60-bedplate-limits.conf"
ROWS: list[dict[str, Any]] = [
    {"name": OWN, "enabled": True, "state": "started", "condition": "allowed", "role": "demo", "restart_after": ["/x"]},
    {"name": DAEMON, "enabled": True, "state": "started", "role": "demo"},
]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine with a unit of bedplate, and a daemon of a package with a drop-in of bedplate."""
    one = Machine(tmp_path)
    one.write(
        f"/etc/systemd/system/{OWN}",
        "[Unit]\nBefore=slurmd.service\n[Service]\nType=oneshot\nExecStart=/usr/bin/demo\n",
    )
    one.put(f"usr/lib/systemd/system/{DAEMON}", "[Service]\nExecStart=/usr/sbin/slurmd\nLimitMEMLOCK=8M\n")
    one.write(LIMITS, "[Service]\nLimitMEMLOCK=infinity\nLimitNOFILE=1024\n")
    one.units = {DAEMON: {"LimitMEMLOCK": "infinity", "LimitNOFILE": "1024"}}
    return one


def says(name: str, **properties: str) -> Callable[[Machine], object]:
    return lambda machine: machine.units.setdefault(name, {}).update(properties)


def put(path: str, text: str) -> Callable[[Machine], object]:
    return lambda machine: machine.put(path, text)


def masked(machine: Machine) -> None:
    (machine.top / f"run/systemd/system/{DAEMON}").parent.mkdir(parents=True)
    (machine.top / f"run/systemd/system/{DAEMON}").symlink_to("/dev/null")
    machine.units[DAEMON].update(LoadState="masked", UnitFileState="masked-runtime", ActiveState="inactive")


SITE = f"/etc/systemd/system/{OWN}.d/site.conf"
LATER = f"/etc/systemd/system/{DAEMON}.d/90-site.conf"
CHANGES: dict[str, tuple[Callable[[Machine], object], tuple[str, str, str]]] = {
    "emptied": (put(SITE, "[Service]\nExecStart=\n"), ("unit-drop-in", f"ExecStart of {OWN}", f"{SITE}:2")),
    "replaced": (
        put(SITE, "[Service]\n# no\nExecStart=\nExecStart=/bin/true\n"), ("unit-drop-in", f"ExecStart of {OWN}", f"{SITE}:4"),
    ),
    "a condition that never holds": (
        put(SITE, "[Unit]\nConditionPathExists=/nowhere\n"), ("unit-drop-in", f"ConditionPathExists of {OWN}", f"{SITE}:2"),
    ),
    "a limit": (put(LATER, "[Service]\nLimitMEMLOCK=64K\n"), ("unit-drop-in", f"LimitMEMLOCK of {DAEMON}", f"{LATER}:2")),
    "a limit for all services": (
        put("/etc/systemd/system/service.d/zz.conf", "[Service]\nLimitNOFILE=64\n"),
        ("unit-drop-in", f"LimitNOFILE of {DAEMON}", "/etc/systemd/system/service.d/zz.conf:2"),
    ),
    "what runs of a package's daemon": (
        put(LATER, "[Service]\nExecStart=\nExecStart=/usr/sbin/slurmd -D \\\n  -vv\n"),
        ("unit-drop-in", f"ExecStart of {DAEMON}", f"{LATER}:3"),
    ),
    "a file in a directory that is preferred": (
        put(f"/run/systemd/transient/{OWN}", "[Service]\nExecStart=/bin/true\n"),
        ("unit-fragment", f"unit {OWN}", f"/run/systemd/transient/{OWN}"),
    ),
    "a drop-in in the place of ours": (
        put(f"/etc/systemd/system.control/{DAEMON}.d/60-bedplate-limits.conf", "[Service]\nCPUQuota=1%\n"),
        ("unit-drop-in", f"drop-in {LIMITS}", f"/etc/systemd/system.control/{DAEMON}.d/60-bedplate-limits.conf"),
    ),
    "a limit that is not in force yet": (says(DAEMON, LimitMEMLOCK="65536"), ("unit-property", f"LimitMEMLOCK of {DAEMON}", "")),
    "disabled": (says(DAEMON, UnitFileState="disabled"), ("unit-enabled", f"unit {DAEMON}", "")),
    "stopped": (says(DAEMON, ActiveState="inactive", SubState="dead"), ("unit-active", f"unit {DAEMON}", "")),
    "failed": (says(OWN, ActiveState="failed", ActiveEnterTimestampMonotonic="9"), ("unit-active", f"unit {OWN}", "")),
    "one more that it runs": (put(SITE, "[Service]\nExecStart=/bin/x\n"), ("unit-drop-in", f"ExecStart of {OWN}", f"{SITE}:2")),
    "who runs it": (put(LATER, "\n\n[Service]\nUser=nobody\n"), ("unit-drop-in", f"User of {DAEMON}", f"{LATER}:4")),
    "one of several that it runs": (
        put(LATER, "[Service]\nExecStartPre=/bin/false\n"), ("unit-drop-in", f"ExecStartPre of {DAEMON}", f"{LATER}:2"),
    ),
    "masked": (masked, ("unit-masked", f"unit {DAEMON}", f"/run/systemd/system/{DAEMON}")),
    "not installed": (says(DAEMON, LoadState="not-found", ActiveState="inactive"), ("unit-absent", f"unit {DAEMON}", "")),
}  # fmt: skip


def read(machine: Machine, rows: list[dict[str, Any]] | None = None) -> list[tuple[str, str, str]]:
    return summary(running_units.findings(machine.root, {"units": ROWS if rows is None else rows}, machine.run))


def test_units_as_they_are_to_be_are_silent(machine: Machine) -> None:
    assert read(machine) == []
    assert machine.root.problems == []


@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_is_named_alone(name: str, machine: Machine) -> None:
    change, finding = CHANGES[name]
    change(machine)
    found = read(machine)
    # A file that hides ours takes its settings out of force as well.
    expected = {finding} | ({("unit-drop-in", f"LimitMEMLOCK of {DAEMON}", "")} if "in the place" in name else set())
    assert found[0] == finding
    assert set(found) <= expected


def test_a_unit_whose_files_changed_since_they_were_read_is_a_warning(machine: Machine) -> None:
    machine.units[OWN] = {"NeedDaemonReload": "yes"}
    (found,) = running_units.findings(machine.root, {"units": ROWS}, machine.run)
    assert (found.kind, found.severity) == ("unit-reload", WARNING)


@pytest.mark.parametrize(
    "text",
    [
        "[Unit]\nAfter=foo.service\n",
        "[Service]\nEnvironment=A=1\n",
        "[Service]\nLimitMEMLOCK=infinity\n",
        "[Service]\nNice=5\n",
    ],
)
def test_what_others_add_and_nothing_of_ours_loses_is_silent(machine: Machine, text: str) -> None:
    machine.put(LATER, text)
    assert read(machine) == []


def test_what_a_vendor_ships_for_its_own_unit_is_silent(machine: Machine) -> None:
    machine.put(
        f"usr/lib/systemd/system/{DAEMON}.d/10-vendor.conf", "[Service]\nExecStart=\nExecStart=/usr/sbin/slurmd -D\n"
    )
    assert read(machine) == []


def test_a_drop_in_that_is_masked_by_a_link_to_nothing_is_none(machine: Machine) -> None:
    link = machine.top / LATER.lstrip("/")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to("/dev/null")
    assert read(machine) == []


def test_a_unit_whose_conditions_do_not_hold_need_not_run(machine: Machine) -> None:
    machine.units[OWN] = {"ActiveState": "inactive", "ConditionResult": "no", "ConditionTimestampMonotonic": "5"}
    assert read(machine) == []


def test_units_of_which_bedplate_wrote_files_are_compared_without_being_named(machine: Machine) -> None:
    machine.put(SITE, "[Service]\nExecStart=\n")
    assert read(machine, []) == [CHANGES["emptied"][1]]


def test_a_systemd_that_does_not_answer_is_a_finding_and_files_are_compared(machine: Machine) -> None:
    machine.put(SITE, "[Service]\nExecStart=\n")
    found = running_units.findings(machine.root, {"units": ROWS}, lambda _words: Outcome(1, "", "no bus"))
    assert [one.kind for one in found] == ["systemd", "unit-drop-in"]


def test_limits_of_a_daemon_that_is_not_installed_are_not_compared(machine: Machine) -> None:
    machine.units[DAEMON] = {"LoadState": "not-found", "LimitMEMLOCK": "8388608", "LimitNOFILE": "524288"}
    rows = [{"name": DAEMON, "role": "demo"}]
    assert [one for one in read(machine, rows) if one[0] == "unit-property"] == []


DOWN = {"ActiveState": "inactive", "SubState": "dead"}


@pytest.mark.parametrize(
    ("row", "properties", "kinds"),
    [
        ({"masked": True}, {}, ["unit-enabled"]),
        ({"masked": True}, {"LoadState": "masked", **DOWN}, []),
        ({"masked": True}, {"LoadState": "not-found", **DOWN}, []),
        ({}, {"LoadState": "masked", **DOWN}, []),
        ({"enabled": True}, {"LoadState": "masked", **DOWN}, ["unit-masked"]),
        ({"enabled": False}, {}, ["unit-enabled"]),
        ({"enabled": False}, {"UnitFileState": "linked"}, ["unit-enabled"]),
        ({"enabled": False}, {"UnitFileState": "disabled"}, []),
        ({"enabled": False}, {"LoadState": "not-found", **DOWN}, []),
        ({"state": "stopped"}, {}, ["unit-active"]),
        ({"state": "stopped"}, DOWN, []),
        ({"state": "started"}, {"LoadState": "not-found", **DOWN}, ["unit-absent"]),
        # A oneshot that has done its work, and one that has failed at it.
        ({"state": "started"}, {"Type": "oneshot", **DOWN}, []),
        ({"state": "started"}, {"Type": "oneshot", "Result": "exit-code", **DOWN}, ["unit-active"]),
        # A unit whose conditions may not hold: not started at all, or started once and gone since.
        ({"state": "started", "condition": "allowed"}, DOWN, []),
        ({"state": "started", "condition": "allowed"}, {"ActiveEnterTimestampMonotonic": "7", **DOWN}, ["unit-active"]),
        ({"state": "started", "condition": "allowed"}, {"Result": "signal", **DOWN}, ["unit-active"]),
        (
            {"state": "started", "condition": "allowed"},
            {"ConditionResult": "no", "ConditionTimestampMonotonic": "9", "ActiveEnterTimestampMonotonic": "7", **DOWN},
            [],
        ),
        ({"state": "started"}, DOWN, ["unit-active"]),
    ],
)
def test_what_is_wanted_of_a_unit_is_compared_with_what_systemd_reports(
    tmp_path: Path, row: dict[str, Any], properties: dict[str, str], kinds: list[str]
) -> None:
    machine = Machine(tmp_path)
    machine.units[DAEMON] = properties
    assert [one[0] for one in read(machine, [{"name": DAEMON, **row}])] == kinds


def test_a_unit_that_several_parts_name_is_what_one_of_them_states(machine: Machine) -> None:
    machine.units[DAEMON].update(DOWN)
    assert [one[0] for one in read(machine, [*ROWS, {"name": DAEMON, "role": "other"}])] == ["unit-active"]


def test_a_template_is_not_shown_and_its_instances_are(machine: Machine) -> None:
    template = "/etc/systemd/system/plane@.service"
    machine.write(template, "[Service]\nExecStart=/usr/sbin/opensm\n")
    machine.put("/etc/systemd/system/plane@.service.d/site.conf", "[Service]\nExecStart=\n")
    assert read(machine, []) == []
    (found,) = read(machine, [{"name": "plane@a.service", "state": "started"}])
    assert found == ("unit-drop-in", "ExecStart of plane@a.service", "/etc/systemd/system/plane@.service.d/site.conf:2")
    instance = machine.put("/etc/systemd/system/plane@a.service", "[Service]\nExecStart=/bin/true\n")
    (found,) = read(machine, [{"name": "plane@a.service", "state": "started"}])
    assert found == ("unit-fragment", "unit plane@a.service", "/etc/systemd/system/plane@a.service")
    instance.unlink()
    own = "/etc/systemd/system/plane@.service.d/site.conf"
    machine.write(own, "[Service]\nLimitMEMLOCK=infinity\n")
    machine.units["plane@a.service"] = {"LimitMEMLOCK": "65536"}
    rows = [{"name": "plane@a.service"}]
    assert read(machine, rows) == [("unit-property", "LimitMEMLOCK of plane@a.service", "")]
    machine.put("/etc/systemd/system.control/plane@.service.d/site.conf", "[Service]\nCPUQuota=1%\n")
    assert read(machine, rows)[0] == (
        "unit-drop-in",
        f"drop-in {own}",
        "/etc/systemd/system.control/plane@.service.d/site.conf",
    )


def test_an_empty_drop_in_hides_the_one_of_its_name(machine: Machine) -> None:
    machine.put(f"/usr/lib/systemd/system/{OWN}.d/x.conf", "[Service]\nType=simple\n")
    machine.put(f"/usr/local/lib/systemd/system/{OWN}.d/x.conf", "")
    assert read(machine) == []


def test_a_comment_within_a_continued_line_is_none_of_it(machine: Machine) -> None:
    machine.put(f"usr/lib/systemd/system/{DAEMON}", "[Service]\nExecStart=/usr/sbin/slurmd \\\n# why\n  -D\n")
    machine.put(LATER, "[Service]\nExecStart=\nExecStart=/usr/sbin/slurmd  -D\n")
    assert read(machine) == []


@pytest.mark.parametrize(
    ("lines", "is_named"),
    [
        # Dependencies cannot be taken back, and an added line of a list takes nothing away.
        ("[Unit]\nBefore=\n", False),
        ("[Unit]\nBefore=other.service\n", False),
        ("[Service]\nEnvironment=B=2\n", False),
        ("[Service]\nEnvironment=\nEnvironment=B=2\nEnvironment=C=3\n", True),
        ("[Service]\nEnvironment=\n", True),
    ],
)
def test_a_list_that_loses_a_line_of_ours_is_named(machine: Machine, lines: str, is_named: bool) -> None:
    text = "[Unit]\nBefore=slurmd.service\n[Service]\nEnvironment=A=1\nExecStart=/usr/bin/demo\n"
    machine.write(f"/etc/systemd/system/{OWN}", text)
    machine.put(SITE, lines)
    assert [one[0] for one in read(machine)] == (["unit-drop-in"] if is_named else [])


def test_a_masked_unit_of_ours_is_one_finding(machine: Machine) -> None:
    link = machine.top / f"etc/systemd/system.control/{OWN}"
    link.parent.mkdir(parents=True)
    link.symlink_to("/dev/null")
    machine.units[OWN] = {"LoadState": "masked", "UnitFileState": "masked", **DOWN}
    assert read(machine) == [("unit-masked", f"unit {OWN}", f"/etc/systemd/system.control/{OWN}")]


def test_an_answer_of_a_systemctl_that_failed_counts_for_nothing(machine: Machine) -> None:
    def fails(words: list[str]) -> Outcome:
        return Outcome(1, machine.run(words).stdout.replace("active", "inactive"), "Failed to get properties")

    found = running_units.findings(machine.root, {"units": ROWS}, fails)
    assert [one.kind for one in found] == ["systemd"]


def test_a_drop_in_of_ours_that_is_gone_is_not_hidden_by_anybody(machine: Machine) -> None:
    (machine.top / LIMITS.lstrip("/")).unlink()
    assert read(machine) == []


def test_the_whole_unit_of_a_site_is_what_ours_adds_to(machine: Machine) -> None:
    machine.put(f"etc/systemd/system/{DAEMON}", "[Service]\nExecStart=/opt/slurm/sbin/slurmd\n")
    assert read(machine) == []


def test_a_limit_that_a_file_overrides_is_named_once(machine: Machine) -> None:
    machine.put(LATER, "[Service]\nLimitMEMLOCK=64K\n")
    machine.units[DAEMON]["LimitMEMLOCK"] = "65536"
    assert read(machine) == [("unit-drop-in", f"LimitMEMLOCK of {DAEMON}", f"{LATER}:2")]


def test_a_damaged_record_hides_no_unit(machine: Machine) -> None:
    machine.put(f"{STATE}/files.json", "{")
    machine.units[DAEMON].update(DOWN)
    assert read(machine) == [("unit-active", f"unit {DAEMON}", "")]
