"""The table of port names: each row numbers its examples, and docs/fabric.md shows where it is from."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.port_names.port_dialects import (
    Dialect,
    dialects,
    is_management,
    is_port_of_switch,
    readings,
)

ROOT = Path(__file__).parents[4]
BEGIN, END = "<!-- port names: begin -->\n", "<!-- port names: end -->"


@pytest.mark.parametrize("row", dialects(), ids=lambda row: row.name)
def test_row_numbers_its_examples_and_names_its_source(row: Dialect):
    for name, (number, lanes) in row.examples.items():
        found = [one for one in readings([name], 64, lanes, stated=row.name) if one.dialect is row]
        assert number in [one.numbers[name] for one in found], name
    assert row.examples
    assert row.sources
    assert all(row.sources)


def test_rows_have_names_of_their_own():
    names = [row.name for row in dialects()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("names", "ports", "lanes", "expected"),
    [
        # The first number counts cages with Arista, modules with NX-OS.
        ([f"Ethernet{n}/1" for n in range(1, 33)], 32, 1, {"arista"}),
        ([f"Ethernet1/{n}" for n in range(1, 33)], 32, 1, {"sonic-slot"}),
        ([f"Ethernet{n}/{lane}" for n in range(1, 33) for lane in (1, 5)], 64, 2, {"arista (lanes in steps of 4)"}),
        # 64 ports in steps of 8 end at 504; smaller steps have more ports than the switch.
        ([f"Ethernet{8 * n}" for n in range(64)], 64, 1, {"sonic (step 8)"}),
        ([f"Ethernet{8 * n}" for n in range(16)], 64, 1, {"sonic (step 2)", "sonic (step 4)", "sonic (step 8)"}),
        # Without Ethernet0 the numbers may be an Arista's.
        (["Ethernet8", "Ethernet16"], 16, 1, {"sonic (step 2)", "sonic (step 4)", "sonic (step 8)", "arista"}),
        (["swp1", "Ethernet1/2"], 32, 1, set()),
        (["swp1s2"], 64, 2, set()),
        (["swp65"], 64, 1, set()),
        (["et-0/0/63"], 64, 1, {"junos"}),
        (["et-0/0/64"], 64, 1, set()),
        (["et-0/0/1", "et-0/1/1"], 64, 1, set()),
    ],
)  # fmt: skip
def test_readings_that_fit_all_names(names: list[str], ports: int, lanes: int, expected: set[str]):
    assert {str(one) for one in readings(names, ports, lanes)} == expected


def test_description_of_the_system_chooses_its_rows():
    names = ["Ethernet1/1", "Ethernet1/2"]
    assert len(readings(names, 64, 2)) > 1
    (one,) = readings(names, 64, 2, system="Arista Networks EOS version 4.32.2F")
    assert one.numbers == {"Ethernet1/1": 1, "Ethernet1/2": 2}
    found = readings(names, 64, 1, system="Cisco Nexus Operating System (NX-OS) Software 10.4(3)")
    assert [str(one) for one in found] == ["nxos"]


def test_a_stated_dialect_applies_where_it_fits():
    assert [str(one) for one in readings(["Ethernet1/2"], 64, 2, stated="nxos")] == [
        "nxos",
        "nxos (a number for each port, not for each cage)",
    ]
    assert [str(one) for one in readings(["et-0/0/5"], 64, stated="nxos")] == ["junos"]


def test_hosts_and_ports_for_people_are_no_ports_of_switches():
    for name in ("ens1f0np0", "eth0", "eth_r0_p0", "mlx5_0", "p0", "b8:3f:d2:00:00:01"):
        assert not is_port_of_switch([name])
    for name in (
        "eth0",
        "mgmt0",
        "Management1",
        "Management1/1",
        "fxp0",
        "em0",
        "re0:mgmt-0",
        "M-GigabitEthernet0/0/0",
    ):
        assert is_management(name)
    assert not any(is_management(name) for row in dialects() for name in row.examples)


def test_page_has_the_table():
    text = (ROOT / "docs/fabric.md").read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0] == table()


def table() -> str:
    """Return the table of docs/fabric.md."""
    lines = [
        "| name | system | port names, with the number by 1, 2 or 4 ports to a cage | known from |",
        "| --- | --- | --- | --- |",
    ]
    for row in dialects():
        shown = ", ".join(f"`{name}` {number} (by {lanes})" for name, (number, lanes) in row.examples.items())
        lines.append(f"| `{row.name}` | {row.system} | {shown} | {'; '.join(row.sources)} |")
    return "\n".join([*lines, ""])
