"""fabric.cables: a list of cables that states the fabric; what is wrong with it is reported by file and line, all at once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.buildable import fabric_mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cable_rows import parse
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import PlanError, planned
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report import cable_list
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report.fabric_files import places, written
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.pod import ROOT, cluster

FILE = """plugin: bedplate.cluster.racks
site: there
cluster: there
networks: {management: {cidr: 10.20.0.0/22, start: 10.20.1.1}}
profiles:
  node: {sockets: 2, cores_per_socket: 8, memory_mib: 64000, nics: [{name: mlx5_0, rail: 0}, {name: mlx5_1, rail: 1}]}
racks: {a1: {nodes: "gpu[1-4]", profile: node}}
hosts: {head: {address: 10.20.0.2, nics: {name: mlx5_0}}}
services: {controllers: head, database: head, login: head}
partitions: {all: {nodes: all, default: true}}
slurm: {version: "24.11"}
"""
SECTION = "fabric: {cables: cables.csv, kind: rail-optimised, switch_ports: 8, cage_ports: 2}\n"
# Two leaves of a rail each below two spines, with ports as labels have them in part.
LIST = """a,a_port,b,b_port,speed,comment
gpu1 mlx5_0,,LEAF-A,1/1,,first
gpu2 mlx5_0,1,LEAF-A,2,,
gpu3,mlx5_0,LEAF-A,3,,
gpu4,mlx5_0,LEAF-A,4,HDR,"a splitter, to be replaced"
# The second rail.
gpu1 mlx5_1,,LEAF-B,1,,
gpu2 mlx5_1,,LEAF-B,2,,
gpu3 mlx5_1,,LEAF-B,3,,
LEAF-B,4,gpu4 mlx5_1,,,

LEAF-A,5,SP-1,1,,
LEAF-A,6,SP-1,2,,
LEAF-A,7,SP-2,1,,
LEAF-A,8,SP-2,2,,
SP-1,3,LEAF-B,5,,
SP-1,4,LEAF-B,6,,
SP-2,3,LEAF-B,7,,
SP-2,4,LEAF-B,8,,
"""


def there(tmp_path: Path, text: str | None = LIST, section: str = SECTION) -> Cluster:
    """Return a cluster whose fabric a list states."""
    if text is not None:
        (tmp_path / "cables.csv").write_text(text)
    path = tmp_path / "there.bedplate.yml"
    path.write_text(FILE + section)
    return load(path)


def mistakes(tmp_path: Path, text: str | None, section: str = SECTION) -> list[str]:
    """Return the mistakes of a list, and see that no plan comes of it."""
    found = there(tmp_path, text, section)
    with pytest.raises(PlanError) as error:
        planned(found)
    lines = str(error.value).split("\n")
    assert fabric_mistakes(found) == lines
    return lines


def test_a_list_gives_names_ports_tiers_rails_and_rates(tmp_path: Path):
    plan = planned(there(tmp_path)).plan
    assert {one.name: (one.tier, one.rail, one.rack) for one in plan.switches.values()} == {
        "LEAF-A": (1, 0, "a1"), "LEAF-B": (1, 1, "a1"), "SP-1": (2, None, ""), "SP-2": (2, None, ""),
    }  # fmt: skip
    assert [link.ends for link in plan.links][:4] == [
        ((f"gpu{number} mlx5_0", 1), ("LEAF-A", number)) for number in range(1, 5)
    ]
    assert (("LEAF-B", 5), ("SP-1", 3)) in [link.ends for link in plan.links]
    assert {link.kind for link in plan.links} == {"host", "leaf-spine"}
    assert [link.speed for link in plan.links][3] == "HDR"
    # A NIC without a rail is no part of a rail-optimised fabric.
    assert plan.uncabled == []


def test_the_files_of_a_listed_fabric_have_the_real_names(tmp_path: Path):
    files, _told = written(planned(there(tmp_path)))
    assert "SwitchName=LEAF-A Nodes=gpu[1-4]" in files["slurm/topology.conf"]
    assert "LEAF-A port 5" not in files["cabling.csv"]
    assert "LEAF-A,5,3/1," in files["cabling.csv"]


@pytest.mark.parametrize(
    ("name", "edits"),
    [
        ("pod-32/pod-32", ()),
        ("site-1024/site-1024", ()),
        ("pod-32/pod-32", (("uplinks: 32", 'uplinks: 32, missing: ["su1-r0:33", "su1-r3:40"]'),)),
    ],
)
def test_the_cabling_that_is_written_can_be_read_back(tmp_path: Path, name: str, edits: tuple[tuple[str, str], ...]):
    found = cluster(tmp_path, *edits) if edits else load(ROOT / f"inventories/examples/{name}.bedplate.yml")
    plan = planned(found).plan
    text = cable_list.as_csv(cable_list.rows(plan, places(found)))
    assert found.fabric
    bare = {"uplinks": None, "missing": (), "spines": (), "cores": (), "leaves": ()}
    listed = dataclasses.replace(found, fabric=dataclasses.replace(found.fabric, cables="cabling.csv", **bare))
    again = plan_of(listed, parse(text, "cabling.csv"))
    assert cable_list.as_csv(cable_list.rows(again, places(found))) == text
    assert again.switches == plan.switches
    assert list(again.hcas.values()) == list(plan.hcas.values())
    assert again.links == plan.links


def test_every_mistake_of_a_list_is_reported_by_its_line(tmp_path: Path):
    text = """a,a_port,b,b_port,speed,width
gpu1 mlx5_0,,LEAF-A,1,,
gpu2 mlx5_0,,LEAF-A,1,,
gpu9 mlx5_0,,LEAF-A,2,,
gpu2 mlx5_7,,LEAF-A,3,,
gpu2,mlx5_1/2,LEAF-A,3,,
gpu3 mlx5_0,2,LEAF-A,3,,
gpuu3,mlx5_0,LEAF-A,4,,
LEAF-A,5,LEAF-A,6,,
LEAF-A,9,SP-1,1,,
LEAF-A,4/3,SP-1,1,,
LEAF-A,0,SP-1,,,
LEAF-A,7,SP-1,one,NDRR,5x
gpu1 mlx5_0,,SP-1,4,,
gpu3 mlx5_0,,gpu4 mlx5_0,,,
LEAF A X,1,SP-1,7,,
,1,SP-1,8,,
LEAF-A,8
LEAF#A,3,SP-1,5,,
"""
    lines = mistakes(tmp_path, text)
    numbers = [int(line.split(":")[1]) for line in lines]
    assert numbers == sorted(numbers)
    assert set(numbers) == {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}
    check_messages("cable list: every sort of mistake", [line.replace(f"{tmp_path}/", "") for line in lines])


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("there is no file", None),
        ("empty", ""),
        ("a header alone", "a,a_port,b,b_port\n"),
        ("no header", "gpu1 mlx5_0,,LEAF-A,1\n"),
        ("semicolons", "a;a_port;b;b_port\ngpu1 mlx5_0;;LEAF-A;1\n"),
        ("unknown columns", "a,a_port,b,b_port,sped,colour\ngpu1 mlx5_0,,LEAF-A,1,,\n"),
        ("two columns of one name", "a,a_port,b,b_port,a_device\ngpu1 mlx5_0,,LEAF-A,1,x\n"),
        ("an open quote", 'a,a_port,b,b_port\n"gpu1 mlx5_0,,LEAF-A,1\n'),
    ],
)
def test_a_file_that_is_no_list_is_one_clear_error(tmp_path: Path, case: str, text: str | None):
    lines = mistakes(tmp_path, text)
    assert len(lines) <= 2
    check_messages(f"cable list: {case}", [line.replace(f"{tmp_path}/", "") for line in lines])


def test_a_file_that_cannot_be_decoded_or_is_a_folder_is_refused(tmp_path: Path):
    (tmp_path / "cables.csv").write_bytes(b"a,a_port,b,b_port\ngpu1 mlx5_0,,L\xe9AF,1\n")
    (line,) = mistakes(tmp_path, None)
    assert line.startswith(f"{tmp_path}/cables.csv:2: byte 0xe9 is not UTF-8")
    (tmp_path / "cables.csv").unlink()
    (tmp_path / "cables.csv").mkdir()
    (line,) = mistakes(tmp_path, None)
    assert line.startswith(f"{tmp_path}/cables.csv:1: cannot be read: Is a directory")


def test_a_spreadsheet_s_mark_blanks_and_capitals_of_the_header_do_no_harm(tmp_path: Path):
    text = LIST.replace("a,a_port,b,b_port", "\ufeffA, A_Port,B,B_PORT").replace("gpu2 mlx5_0", " gpu2 mlx5_0 ")
    assert planned(there(tmp_path, text)).plan.links == planned(there(tmp_path)).plan.links


def test_models_tiers_and_groups_can_be_stated(tmp_path: Path):
    section = SECTION.replace(
        "}", ', switches: {"SP-[1-2]": {ports: 40, cage_ports: 1, group: pod7}}, spines: "SP-[1-2]"}'
    )
    plan = planned(there(tmp_path, section=section)).plan
    assert {(one.ports, one.lanes, one.group) for one in plan.switches.values() if one.tier == 2} == {(40, 1, "pod7")}
    assert mistakes(tmp_path, LIST.replace("SP-1,3", "SP-1,39"), section.replace("ports: 40", "ports: 36"))[0].endswith(
        ": a_port: SP-1 has no port 39. Allowed: 1 to 36 (fabric.switches)."
    )
    wrong = section.replace('"SP-[1-2]": {', '"SP-[2-4]": {').replace('spines: "SP-[1-2]"', "cores: SP-7")
    check_messages(
        "cable list: switches that it does not have",
        [line.replace(f"{tmp_path}/", "") for line in mistakes(tmp_path, LIST, wrong)],
    )


def test_keys_that_a_list_makes_idle_are_refused(tmp_path: Path):
    with pytest.raises(ClusterFileError) as error:
        there(tmp_path, section=SECTION.replace("}", ", uplinks: 4, global_links: 1}"))
    check_messages("cable list: keys that count cables", str(error.value).replace(f"{tmp_path}/", "").split("\n"))
    with pytest.raises(ClusterFileError, match=r"fabric\.switches\.s1\.group: a planned switch has the group of "):
        there(tmp_path, section='fabric: {spines: s1, switches: {"s1": {ports: 8, group: g1}}}\n')


def test_a_stated_place_of_a_host_must_be_that_of_the_list(tmp_path: Path):
    text = LIST.replace("LEAF-A,8,SP-2,2,,\n", "head mlx5_0,,LEAF-A,8,,\n")
    assert "head mlx5_0" in planned(there(tmp_path, text)).plan.hcas
    path = tmp_path / "there.bedplate.yml"
    path.write_text(path.read_text().replace("nics: {name: mlx5_0}", "nics: {name: mlx5_0, leaf: LEAF-A, port: 3}"))
    with pytest.raises(PlanError, match=r"hosts\.head\.nics: cables\.csv has its cable in LEAF-A:8"):
        planned(load(path))


def test_what_a_shape_should_be_is_a_warning_for_a_fabric_that_exists(tmp_path: Path):
    # A node of which one card is on the other rail's leaf, a cable from leaf to leaf, and one cable up that is absent.
    text = LIST.replace("gpu4,mlx5_0,LEAF-A,4", "gpu4,mlx5_1,LEAF-A,4").replace("gpu4 mlx5_1,,,\n", "gpu4 mlx5_0,,,\n")
    text = text.replace("LEAF-A,8,SP-2,2,,\n", "").replace("SP-2,4,LEAF-B,8,,\n", "LEAF-A,8,LEAF-B,8,,\n")
    found = planned(there(tmp_path, text))
    told = "\n".join(map(str, found.warnings))
    assert "gpu4 mlx5_0: is of rail 0, and its cable goes to rack a1, LEAF-B port 4" in told
    assert "of the same tier 1: ftree refuses it" in told
    assert "the list has no cable of" not in told
    other = planned(there(tmp_path, LIST, SECTION.replace("rail-optimised", "dragonfly")))
    assert any("is dragonfly, and the cables of the list make it rail-optimised" in str(one) for one in other.warnings)


def test_a_node_without_a_cable_is_outside_of_the_tree(tmp_path: Path):
    text = "".join(line for line in LIST.splitlines(True) if "gpu3" not in line)
    found = planned(there(tmp_path, text))
    assert "the list has no cable of 2 NICs, so nothing is planned for them: gpu3 mlx5_0, gpu3 mlx5_1" in "\n".join(
        map(str, found.warnings)
    )
    files, _told = written(found)
    assert "SwitchName=no-fabric Nodes=gpu3" in files["slurm/topology.conf"]


def test_parts_that_no_cable_joins_are_planes(tmp_path: Path):
    text = "".join(line for line in LIST.splitlines(True) if "SP-" not in line)
    plan: Plan = planned(there(tmp_path, text, SECTION.replace("rail-optimised", "rail-only"))).plan
    assert {one.name: one.plane for one in plan.switches.values()} == {"LEAF-A": "rail0", "LEAF-B": "rail1"}
    assert {hca.plane for hca in plan.hcas.values()} == {"rail0", "rail1"}


def test_a_switch_in_another_case_is_refused_where_it_is_written(tmp_path: Path):
    lines = mistakes(tmp_path, LIST.replace("SP-2,3,LEAF-B", "Sp-2,3,LEAF-B").replace("LEAF-B,4,", "leaf-b,4,"))
    assert [int(line.split(":")[1]) for line in lines] == [10, 18]
    check_messages("cable list: a switch in another case", [line.replace(f"{tmp_path}/", "") for line in lines])


def test_a_slip_in_the_name_of_a_switch_is_a_warning_with_the_nearest_name(tmp_path: Path):
    found = [str(one) for one in planned(there(tmp_path, LIST.replace("LEAF-B,4,", "LEAF-BB,4,"))).warnings]
    assert [one for one in found if "LEAF-BB" in one and "Did you mean 'LEAF-B'?" in one]
    assert not [one for one in planned(there(tmp_path)).warnings if "one cable of this switch" in str(one)]


def test_a_port_with_a_cable_cannot_be_kept_free(tmp_path: Path):
    section = SECTION.replace("}", ', spare: ["LEAF-A:1", "LEAF-B:[7-8]", "SP-1:8"]}')
    lines = mistakes(tmp_path, LIST, section)
    check_messages("cable list: ports that are kept free", [line.replace(f"{tmp_path}/", "") for line in lines])
    assert len(lines) == 2
    assert "LEAF-A:1" in lines[0]
    assert "LEAF-B:7, LEAF-B:8" in lines[1]
