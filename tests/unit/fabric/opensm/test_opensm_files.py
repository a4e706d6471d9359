"""OpenSM's files: what is in them, what cannot be written, and what OpenSM itself makes of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import (
    STORAGE,
    Hca,
    Plan,
    SubnetManager,
    TenantPartition,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.guid_files import GuidError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm import opensm_files
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.opensm_files import FilesError, files
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.opensm_options import (
    QOS,
    Choices,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.partitions import planned_pkeys
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    rail_only,
    rail_optimised,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import with_guids
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.opensm_dumps import ca_order, read
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.route_quality import (
    broken,
    measure,
    uneven,
)
from tests.kit.fabric_files import judged, read_guids
from tests.kit.partitions_reader import parse
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.simulate.simulation import TOOLS, simulated
from tests.unit.kit.test_partitions_reader import GOOD, MALFORMED, REFUSED


def fabric(units: int = 2) -> Plan:
    """Two units of 4 hosts and 2 rails: 4 leaves, 4 spines, and a storage host on each leaf, behind its nodes."""
    nics = [WiredNic("mlx5_0", 0), WiredNic("mlx5_1", 1)]
    hosts = [WiredHost(f"gpu{n}", nics, f"r{n // 4}", f"u{n // 4}") for n in range(4 * units)]
    shape = FabricShape(ports=10, speed="HDR", spines=["s1", "s2", "s3", "s4"], uplinks=4, spine_rack="net")
    plan = rail_optimised(hosts, shape)
    for leaf in [name for name, switch in plan.switches.items() if switch.tier == 1]:
        hca = Hca(f"oss-{leaf}", "mlx5_0", purpose=STORAGE, rack="r0")
        plan.add(hca)
        plan.join(hca.name, leaf, "host")
    plan.partitions = [
        TenantPartition("red", 1, {f"gpu{n}": "full" for n in range(4)} | {"oss-leaf-u0-r0": "limited"}),
        TenantPartition("blue", 2, {f"gpu{n}": "full" for n in range(4, 4 * units)}),
    ]
    plan.managers = [SubnetManager("gpu0 mlx5_0", 15), SubnetManager("gpu4 mlx5_0", 14)]
    return plan


PLAN = with_guids(fabric())


MANAGER = PLAN.managers[0]


def guids(text: str) -> list[str]:
    found, wrong = read_guids(text, "file", "lists")
    assert wrong == []
    return list(found)


def test_files_are_the_same_again_and_all_are_named_in_opensm_conf():
    choices = Choices(qos=QOS, directory="/x")
    found = judged(PLAN, files(PLAN, MANAGER, choices))
    assert found == files(with_guids(fabric()), MANAGER, choices)
    assert set(found) == {
        "opensm.conf", "root_guid.conf", "cn_guid.conf", "guid_routing_order.conf", "node-name-map", "partitions.conf",
        "qos-policy.conf",
    }  # fmt: skip
    for name in found.keys() - {"opensm.conf"}:
        assert f" /x/{name}\n" in found["opensm.conf"]


def test_roots_are_the_node_guids_of_the_top_tier():
    assert guids(opensm_files.roots(PLAN)) == [PLAN.switches[f"s{n}"].guid for n in range(1, 5)]
    assert opensm_files.roots(PLAN).split("\n")[1] == f"0x{PLAN.switches['s1'].guid} # s1"


def test_compute_is_in_a_list_of_its_own_and_all_ports_are_in_the_order():
    compute, order = (guids(write(PLAN)) for write in (opensm_files.compute, opensm_files.order))
    assert compute == [hca.port_guid for hca in opensm_files.leaf_major(PLAN) if hca.purpose == "compute"]
    assert set(order) - set(compute) == {hca.port_guid for hca in PLAN.hcas.values() if hca.purpose == STORAGE}
    assert (len(compute), len(order)) == (16, 20)
    assert not set(order) & {hca.guid for hca in PLAN.hcas.values()}


def test_order_is_leaf_by_leaf_and_port_by_port():
    leaf_of = PLAN.leaf_of()
    names = {hca.port_guid: hca.name for hca in PLAN.hcas.values()}
    assert [leaf_of[names[guid]] for guid in guids(opensm_files.order(PLAN))] == [
        (f"leaf-u{unit}-r{rail}", port) for unit in range(2) for rail in range(2) for port in (1, 2, 3, 4, 5)
    ]


def test_hca_without_a_cable_is_in_no_list():
    plan = with_guids(fabric())
    plan.links = [replace(link, missing=link.a == "gpu0 mlx5_0") for link in plan.links]
    assert plan.hcas["gpu0 mlx5_0"].port_guid not in opensm_files.order(plan) + opensm_files.compute(plan)


def test_node_name_map():
    assert opensm_files.node_names(PLAN).split("\n")[0] == f'0x{PLAN.switches["leaf-u0-r0"].guid} "leaf-u0-r0"'
    assert opensm_files.node_names(PLAN).count("\n") == 8


def test_every_plane_has_files_of_its_own():
    nics = [WiredNic("mlx5_0", 0), WiredNic("mlx5_1", 1)]
    shape = FabricShape(ports=8, spines=["s1", "s2"], uplinks=2)
    plan = with_guids(rail_only([WiredHost(f"gpu{n}", nics, "a1", f"u{n // 2}") for n in range(4)], shape))
    found = {rail: judged(plan, files(plan, SubnetManager(f"gpu0 mlx5_{rail}", 1)), f"rail{rail}") for rail in (0, 1)}
    assert guids(found[0]["root_guid.conf"]) == [plan.switches["s1"].guid]
    assert guids(found[1]["root_guid.conf"]) == [plan.switches["s2"].guid]
    assert not set(guids(found[0]["guid_routing_order.conf"])) & set(guids(found[1]["guid_routing_order.conf"]))
    assert found[1]["node-name-map"].count("\n") == 3


@pytest.mark.parametrize(
    "write",
    [opensm_files.roots, opensm_files.compute, opensm_files.order, opensm_files.node_names],
    ids=lambda write: write.__name__,
)
def test_guids_that_are_missing_are_named_with_what_to_do(write: Callable[[Plan], str]):
    with pytest.raises(GuidError) as error:
        write(fabric())
    check_messages(f"OpenSM's files: {write.__name__} without GUIDs", error.value)


def test_one_missing_port_guid_is_named_for_every_file_at_once():
    plan = with_guids(fabric())
    plan.hcas["gpu2 mlx5_1"] = replace(plan.hcas["gpu2 mlx5_1"], port_guid="")
    with pytest.raises(FilesError) as error:
        files(plan, MANAGER)
    lines = str(error.value).split("\n")
    assert [line.split()[0] for line in lines] == ["cn_guid.conf", "guid_routing_order.conf", "partitions.conf"]
    assert all("1 of" in line and "rack r0, gpu2 mlx5_1. Record" in line for line in lines)
    with pytest.raises(FilesError, match="gpu9 mlx5_0"):
        files(plan, SubnetManager("gpu9 mlx5_0", 1))


def test_lists_of_guids_that_opensm_would_misread():
    text = f"# a\n0x{1:016x} # s1\n{2:016x}\n0x1 s1\n0xg\n\n"
    found, problems = read_guids(text, "root_guid.conf", "roots")
    assert found == {f"{1:016x}": 2}
    assert [str(one) for one in problems] == [
        "root_guid.conf line 3: '0000000000000002' is no GUID; allowed: 0x and at most 16 hexadecimal digits [roots]",
        "root_guid.conf line 4: 0x1 is in line 2 already [roots]",
        "root_guid.conf line 5: '0xg' is no GUID; allowed: 0x and at most 16 hexadecimal digits [roots]",
    ]


def write_all(directory: Path, choices: Choices, plan: Plan = PLAN) -> None:
    for name, text in files(plan, plan.managers[0], choices).items():
        (directory / name).write_text(text)


@pytest.mark.simulation
@pytest.mark.tools(*TOOLS)
def test_opensm_takes_the_files_and_routes_without_a_flaw(tmp_path: Path):
    choices = Choices(no_fallback=True, qos=QOS, directory=str(tmp_path), log=str(tmp_path / "l"), dumps=str(tmp_path))
    write_all(tmp_path, choices)
    with simulated(PLAN, tmp_path, node="gpu0 mlx5_0") as fabric:
        log = fabric.opensm()
        assert "SUBNET UP" in log
        assert "ftree tables configured on all switches" in log
        assert "Fabric has 4 switches at rank 0" in log
        assert "20 CA ports (16 of them CNs)" in log
        # OpenSM takes no_fallback for an engine that it cannot set up, and heeds it nevertheless.
        assert not re.search(r"ERR|PARSE|error", log), log
        assert "Unrecognized" not in fabric.printed
        subnet = read((tmp_path / "opensm-subnet.lst").read_text(), (tmp_path / "opensm.fdbs").read_text())
        lids = {node.name: str(lid) for lid, node in subnet.nodes.items()}
        planned = planned_pkeys(PLAN, None, PLAN.hcas[MANAGER.hca].port_guid)
        for name in ("gpu0 mlx5_0", "gpu4 mlx5_0", "gpu7 mlx5_1", "oss-leaf-u0-r0 mlx5_0", "oss-leaf-u1-r1 mlx5_0"):
            shown = fabric.run("smpquery", "pkeys", lids[name])
            held = sorted(int(word, 16) for word in re.findall(r"0x[0-9a-f]{4}\b", shown) if int(word, 16))
            assert held == planned[PLAN.hcas[name].port_guid], shown
        # Weights of VL 0 to 3, in the table of low priority.
        assert re.search(
            r"Low priority.*\nVL *:.*\nWEIGHT: \|0xC0\|0x40\|0x1 \|0x1 ",
            fabric.run("smpquery", "vlarb", lids["gpu0 mlx5_0"], "1"),
        )
    order = ca_order((tmp_path / "opensm-ftree-ca-order.dump").read_text())
    compute = {hca.name for hca in PLAN.hcas.values() if hca.purpose == "compute"}
    found = measure(subnet, counted=compute, orders={"ca": order})
    assert [*uneven(found, tiers=2, order="ca"), *broken(found, found.loop)] == []


@pytest.mark.simulation
@pytest.mark.tools(*TOOLS)
def test_every_list_that_is_wrong_shows_in_the_routes(tmp_path: Path):
    """Without the list that was written, OpenSM says nothing; the metrics do."""
    choices = Choices(directory=str(tmp_path), log=str(tmp_path / "l"), dumps=str(tmp_path))
    write_all(tmp_path, choices)
    lines = (tmp_path / "root_guid.conf").read_text().split("\n")
    (tmp_path / "root_guid.conf").write_text("\n".join(lines[:3]) + "\n")
    with simulated(PLAN, tmp_path, node="gpu0 mlx5_0") as fabric:
        assert "ERR" not in fabric.opensm()
    found = measure(read((tmp_path / "opensm-subnet.lst").read_text(), (tmp_path / "opensm.fdbs").read_text()))
    assert found.imbalance >= 2
    assert len(found.idle) == 16


@pytest.mark.simulation
@pytest.mark.tools(*TOOLS)
def test_what_is_said_of_partitions_is_what_opensm_does(tmp_path: Path):
    (tmp_path / "opensm.conf").write_text(f"force_log_flush TRUE\npartition_config_file {tmp_path}/p.conf\n")
    wrong = []
    with simulated(PLAN, tmp_path) as fabric:
        (tmp_path / "p.conf").write_text(GOOD)
        assert "in error" not in fabric.opensm()
        for name, (text, _line, _message) in MALFORMED.items():
            (tmp_path / "p.conf").write_bytes(text.encode())
            refused = "in error; retrying with default config" in fabric.opensm()
            told = any(REFUSED in problem.text for problem in parse(text)[1])
            # What is behind the end of a line is chance.
            if refused != told and name not in ("line too long", "semicolon on a line of its own"):
                wrong.append(name)
    assert wrong == []
