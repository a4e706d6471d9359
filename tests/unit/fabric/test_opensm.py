"""OpenSM's files: what is in them, what cannot be written, and what OpenSM itself makes of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import opensm
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.dumps import ca_order, read
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.guids import GuidError, read_guids
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import (
    STORAGE,
    Hca,
    Partition,
    Plan,
    SubnetManager,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.netfile import with_guids
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.opensm import FilesError, files
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.opensm_options import (
    OPTIONS,
    QOS,
    Choices,
    OptionError,
    engines_of,
    options,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.partitions import planned_pkeys
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.partitions_reader import parse
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.routing import judge, measure
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.templates import (
    Host,
    Nic,
    Shape,
    dragonfly,
    leaf_spine,
    rail_only,
    rail_optimised,
)
from tests.unit.fabric.simulation import TOOLS, simulated
from tests.unit.fabric.test_partitions import GOOD, MALFORMED, REFUSED


def fabric(units: int = 2) -> Plan:
    """Two units of 4 hosts and 2 rails: 4 leaves, 4 spines, and a storage host on each leaf, behind its nodes."""
    nics = [Nic("mlx5_0", 0), Nic("mlx5_1", 1)]
    hosts = [Host(f"gpu{n}", nics, f"r{n // 4}", f"u{n // 4}") for n in range(4 * units)]
    shape = Shape(ports=10, speed="HDR", spines=["s1", "s2", "s3", "s4"], uplinks=4, spine_rack="net")
    plan = rail_optimised(hosts, shape)
    for leaf in [name for name, switch in plan.switches.items() if switch.tier == 1]:
        hca = Hca(f"oss-{leaf}", "mlx5_0", purpose=STORAGE, rack="r0")
        plan.add(hca)
        plan.join(hca.name, leaf, "host")
    plan.partitions = [
        Partition("red", 1, {f"gpu{n}": "full" for n in range(4)} | {"oss-leaf-u0-r0": "limited"}),
        Partition("blue", 2, {f"gpu{n}": "full" for n in range(4, 4 * units)}),
    ]
    plan.managers = [SubnetManager("gpu0 mlx5_0", 15), SubnetManager("gpu4 mlx5_0", 14)]
    return plan


PLAN = with_guids(fabric())
MANAGER = PLAN.managers[0]


def guids(text: str) -> list[str]:
    found, problems = read_guids(text, "file", "P8")
    assert problems == []
    return list(found)


def test_files_are_the_same_again_and_all_are_named_in_opensm_conf():
    choices = Choices(qos=QOS, directory="/x")
    found = files(PLAN, MANAGER, choices)
    assert found == files(with_guids(fabric()), MANAGER, choices)
    assert set(found) == {
        "opensm.conf", "root_guid.conf", "cn_guid.conf", "guid_routing_order.conf", "node-name-map", "partitions.conf",
        "qos-policy.conf",
    }  # fmt: skip
    for name in found.keys() - {"opensm.conf"}:
        assert f" /x/{name}\n" in found["opensm.conf"]


def test_roots_are_the_node_guids_of_the_top_tier():
    assert guids(opensm.roots(PLAN)) == [PLAN.switches[f"s{n}"].guid for n in range(1, 5)]
    assert opensm.roots(PLAN).split("\n")[1] == f"0x{PLAN.switches['s1'].guid} # s1"


def test_compute_and_others_share_the_ports():
    compute, others, order = (guids(write(PLAN)) for write in (opensm.compute, opensm.others, opensm.order))
    assert compute == [hca.port_guid for hca in opensm.leaf_major(PLAN) if hca.purpose == "compute"]
    assert sorted(others) == sorted(hca.port_guid for hca in PLAN.hcas.values() if hca.purpose == STORAGE)
    assert set(compute) | set(others) == set(order)
    assert len(compute) + len(others) == len(order) == 20
    assert not set(order) & {hca.guid for hca in PLAN.hcas.values()}


def test_order_is_leaf_by_leaf_and_port_by_port():
    leaf_of = PLAN.leaf_of()
    names = {hca.port_guid: hca.name for hca in PLAN.hcas.values()}
    assert [leaf_of[names[guid]] for guid in guids(opensm.order(PLAN))] == [
        (f"leaf-u{unit}-r{rail}", port) for unit in range(2) for rail in range(2) for port in (1, 2, 3, 4, 5)
    ]


def test_hca_without_a_cable_is_in_no_list():
    plan = with_guids(fabric())
    plan.links = [replace(link, missing=link.a == "gpu0 mlx5_0") for link in plan.links]
    assert plan.hcas["gpu0 mlx5_0"].port_guid not in opensm.order(plan) + opensm.compute(plan)


def test_node_name_map():
    assert opensm.node_names(PLAN).split("\n")[0] == f'0x{PLAN.switches["leaf-u0-r0"].guid} "leaf-u0-r0"'
    assert opensm.node_names(PLAN).count("\n") == 8


def test_every_plane_has_files_of_its_own():
    nics = [Nic("mlx5_0", 0), Nic("mlx5_1", 1)]
    shape = Shape(ports=8, spines=["s1", "s2"], uplinks=2)
    plan = with_guids(rail_only([Host(f"gpu{n}", nics, "a1", f"u{n // 2}") for n in range(4)], shape))
    found = {rail: files(plan, SubnetManager(f"gpu0 mlx5_{rail}", 1)) for rail in (0, 1)}
    assert guids(found[0]["root_guid.conf"]) == [plan.switches["s1"].guid]
    assert guids(found[1]["root_guid.conf"]) == [plan.switches["s2"].guid]
    assert not set(guids(found[0]["guid_routing_order.conf"])) & set(guids(found[1]["guid_routing_order.conf"]))
    assert found[1]["node-name-map"].count("\n") == 3


def test_options():
    found = options(PLAN, MANAGER, Choices(no_fallback=True, list_by="io", extra=(("sweep_interval", "30"),)))
    assert found["guid"] == f"0x{PLAN.hcas['gpu0 mlx5_0'].port_guid}"
    assert found["sm_priority"] == "15"
    assert found["routing_engine"] == "ftree,updn,no_fallback"
    assert found["io_guid_file"] == "/etc/opensm/io_guid.conf"
    assert "cn_guid_file" not in found
    assert found["sweep_interval"] == "30"
    assert found["qos"] == "FALSE"
    assert set(found) <= OPTIONS


def test_what_the_plan_makes_cannot_be_chosen():
    paths = {name for name, value in options(PLAN, MANAGER, Choices(list_by="io")).items() if value.startswith("/")}
    named = {
        "guid",
        "sm_priority",
        "routing_engine",
        "sm_inactive",
        "daemon",
        "cn_guid_file",
        "qos_policy_file",
    } | paths
    with pytest.raises(OptionError) as error:
        options(PLAN, MANAGER, Choices(extra=tuple((name, "1") for name in sorted(named))))
    assert [line.split(" cannot be chosen: ")[0] for line in str(error.value).split("\n")] == [
        f"option {name}" for name in sorted(named)
    ]
    assert "use opensm_routing_engines" in str(error.value)


def test_engine_by_the_shape():
    nics = [Nic("mlx5_0", 0)]
    hosts = [Host(f"g{n}", nics, f"r{n // 2}", f"u{n // 4}") for n in range(8)]
    fly = dragonfly(hosts, Shape(ports=8))
    assert engines_of(PLAN) == ("ftree", "updn")
    assert engines_of(fly) == ("nue",)
    assert engines_of(rail_only(hosts[:4], Shape(ports=8))) == ("minhop",)
    assert [engines_of(leaf_spine(hosts[:n], Shape(spines=["s1"]))) for n in (2, 3)] == [("updn",), ("ftree", "updn")]
    fly = with_guids(fly)
    found = files(fly, SubnetManager("g0 mlx5_0", 1))
    assert "routing_engine nue\n" in found["opensm.conf"]
    assert not {"root_guid.conf", "cn_guid.conf"} & set(found)
    for engine in ("ftree", "minhop", "updn"):
        with pytest.raises(OptionError, match=f"routing engine {engine} on a dragonfly: packets can block for ever"):
            options(fly, SubnetManager("g0 mlx5_0", 1), Choices(engines=(engine,)))


def test_wrong_options_are_told_at_once():
    choices = Choices(
        engines=("fatree",), list_by="all", qos=(replace(QOS[0], sl=4, weight=0), replace(QOS[1], sl=4, purpose="A b")),
        extra=(("sweep_intervall", "1"), ("qos", " "), ("guid", "0x0")),
    )  # fmt: skip
    with pytest.raises(OptionError) as error:
        options(PLAN, replace(MANAGER, priority=16), choices)
    assert str(error.value).split("\n") == [
        "rack r0, gpu0 mlx5_0: SM priority 16; allowed: 0 to 15, the highest is master",
        "list_by is 'all'; allowed: cn (compute HCAs are listed), io (all others are)",
        "routing engine 'fatree' is not known to OpenSM, which would take minhop; allowed: minhop, updn, dnup, file, ftree, lash, dor, "
        "torus-2QoS, nue, dfsssp, sssp",
        "option 'sweep_intervall' is not known to OpenSM 3.3.23, which would ignore it; did you mean sweep_interval?",
        "option qos is ' '; allowed: text on one line; without it, OpenSM's default counts",
        "option guid cannot be chosen: it is the port of the plan; replaced adapters are recorded by playbooks/fabric_compare.yml "
        "-e fabric_record=true",
        "service level 4 of compute; allowed: 0 to 3, each has a virtual lane of its own",
        "weight 0 of compute; allowed: 1 to 255",
        "service level 4 of A b; allowed: 0 to 3, each has a virtual lane of its own",
        "purpose 'A b'; allowed: lower case letters, digits and hyphens",
        "two purposes have one service level, so they cannot be told apart",
    ]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (opensm.roots, "root_guid.conf needs node GUIDs, and 4 of 4 switches have none: rack net, s1, rack net, s2, "),
        (opensm.compute, "cn_guid.conf needs port GUIDs, and 16 of 16 HCAs have none: rack r0, gpu0 mlx5_0, "),
        (opensm.order, "guid_routing_order.conf needs port GUIDs, and 20 of 20 HCAs have none: "),
        (opensm.node_names, "node-name-map needs node GUIDs, and 8 of 8 switches have none: "),
    ],
)
def test_guids_that_are_missing_are_named_with_what_to_do(write, message: str):
    with pytest.raises(GuidError) as error:
        write(fabric())
    assert str(error.value).startswith(message)
    assert "Record them: playbooks/fabric_compare.yml -e fabric_record=true" in str(error.value)


def test_one_missing_port_guid_is_named_for_every_file_at_once():
    plan = with_guids(fabric())
    plan.hcas["gpu2 mlx5_1"] = replace(plan.hcas["gpu2 mlx5_1"], port_guid="")
    with pytest.raises(FilesError) as error:
        files(plan, MANAGER)
    lines = str(error.value).split("\n")
    assert [line.split()[0] for line in lines] == ["guid_routing_order.conf", "partitions.conf", "cn_guid.conf"]
    assert all("1 of" in line and "rack r0, gpu2 mlx5_1. Record" in line for line in lines)
    with pytest.raises(FilesError, match="subnet manager gpu9 mlx5_0 is no HCA of the plan"):
        files(plan, SubnetManager("gpu9 mlx5_0", 1))


def test_lists_of_guids_that_opensm_would_misread():
    text = f"# a\n0x{1:016x} # s1\n{2:016x}\n0x1 s1\n0xg\n\n"
    found, problems = read_guids(text, "root_guid.conf", "P7")
    assert found == {f"{1:016x}": 2}
    assert [str(one) for one in problems] == [
        "root_guid.conf line 3: '0000000000000002' is no GUID; allowed: 0x and at most 16 hexadecimal digits [P7]",
        "root_guid.conf line 4: 0x1 is in line 2 already [P7]",
        "root_guid.conf line 5: '0xg' is no GUID; allowed: 0x and at most 16 hexadecimal digits [P7]",
    ]


def write_all(directory: Path, choices: Choices, plan: Plan = PLAN) -> None:
    for name, text in files(plan, plan.managers[0], choices).items():
        (directory / name).write_text(text)


@pytest.mark.tools(*TOOLS)
def test_options_are_those_that_opensm_writes(tmp_path: Path):
    subprocess.run(
        [str(shutil.which("opensm")), "-c", "all.conf"], cwd=tmp_path, capture_output=True, timeout=20, check=True
    )
    lines = (tmp_path / "all.conf").read_text().split("\n")
    assert {line.split()[0] for line in lines if line and line[0] != "#"} >= OPTIONS


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
    assert judge(found, tiers=2, order="ca") == []


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
