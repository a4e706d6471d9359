"""OpenSM's dumps: what is read of them, and texts that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.opensm_dumps import (
    DumpError,
    RoutedNode,
    Subnet,
    ca_order,
    read,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.route_quality import (
    measure,
)
from tests.unit.fabric.messages import check_messages

DATA = Path(__file__).parent / "data/opensm"


def dumped(name: str, tables: str = "opensm.fdbs") -> Subnet:
    return read((DATA / name / "opensm-subnet.lst").read_text(), (DATA / name / tables).read_text())


END = "SystemGUID:1 NodeGUID:{0} PortGUID:{0} VenID:0 DevID:0 Rev:0 {{{1}}} LID:{2} PN:{3} }}"
ODD = (
    "{ CA Ports:01 " + END.format("a" * 16, "g } { LID:1 {x", "0001", "01") + " { SW Ports:41 "
    + END.format("b" * 16, "MF0;s{1}:MQM9700/U1", "0002", "1F") + " PHY=4x LOG=ACT SPD=50\n"
)  # fmt: skip


TABLE = f"dump_ucast_routes: Switch 0x{'b' * 16}\nLID    : Port : Hops : Optimal\n0x0001 : 031  : 01   : yes\n"


def test_names_with_braces_and_ports_in_hexadecimal():
    subnet = read(ODD, TABLE)
    assert subnet.nodes[1].name == "g } { LID:1 {x"
    assert subnet.nodes[2] == RoutedNode("MF0;s{1}:MQM9700/U1", "b" * 16, 2, True, 65)
    assert subnet.cables == {(1, 1): (2, 31), (2, 31): (1, 1)}
    assert subnet.tables == {2: {1: 31}}
    assert measure(subnet).unreachable == 0


DUMPS = {
    "nothing": ("", TABLE),
    "cut short": (ODD + ODD[:70], TABLE),
    "two nodes of one LID": (ODD + ODD.replace("a" * 16, "c" * 16), TABLE),
    "no tables": (ODD, ""),
    "log for tables": (ODD, "SUBNET UP"),
    "switch of another run": (ODD, TABLE.replace("b" * 16, "d" * 16)),
    "port without digits": (ODD, TABLE + "0x0002 : 0"),
    "port of other digits": (ODD, TABLE + "0x0002 : ²²²"),
    "LID without digits": (ODD, TABLE + "0x00g2 : 001"),
    "number of ports that is none": (ODD.replace("Ports:01", "Ports:0yes"), TABLE),
    "port that is none": (ODD.replace("PN:01", "PN:Switch"), TABLE),
    "two cables at a port": (ODD + ODD.replace("PN:01", "PN:02"), TABLE),
    "table that is cut short": (ODD.replace("CA Ports", "SW Ports"), TABLE),
}


@pytest.mark.parametrize("name", DUMPS)
def test_dumps_that_are_no_whole_dumps(name: str):
    with pytest.raises(DumpError) as error:
        read(*DUMPS[name])
    check_messages(f"dump: {name}", error.value)


def test_port_255_is_no_port():
    assert read(ODD, TABLE.replace("031", "255")).tables == {2: {}}


@pytest.mark.parametrize("line", ["0x0007 : 000  : 00   : yes", "Name\tgpu1", "0xFFFF0\tDUMMY"])
def test_order_that_is_no_order(line: str):
    text = f"0x0001\tgpu1 mlx5_0\n{line}\n"
    with pytest.raises(DumpError, match=r"ca-order\.dump: line 2 ") as error:
        ca_order(text)
    check_messages(f"dump: order with {line.split()[0]}", error.value)
