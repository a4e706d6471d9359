"""What adopting a fabric writes, prints and refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import ToolOutput
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.adopt import adoption as adoption_of_fabrics
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.adopt.adoption import Adoption, adoption
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.comparison import comparison_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core import guid_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import planned
from tests.unit.fabric.adopt.judge import adopted, nameless
from tests.unit.fabric.adopt.shapes import SHAPES, Existing, existing
from tests.unit.fabric.lldp_answers import answers
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.pod import POD, cluster, seen, told


def adopt(there: Existing, update: bool = False) -> Adoption:
    return adoption(there.cluster(), there.outputs(), update)


def write(found: Adoption) -> None:
    for path, text in found.files.items():
        Path(path).write_text(text)


@pytest.mark.parametrize("name", SHAPES)
def test_the_shape_is_recognised(tmp_path: Path, name: str):
    there = existing(name, 5, tmp_path)
    found = adopt(there)
    assert not any(tmp_path.glob("*.csv"))
    kind, traits = {
        "uneven uplinks": ("leaf-spine", "uneven uplinks: 8 on "),
        "mixed models": ("leaf-spine", "mixed models: 4 of 20 ports, 2 of 36 ports, 4 of 40 ports"),
        "dragonfly": ("dragonfly", "4 groups of 3 switches"),
    }.get(name, (name, ""))
    assert found.summary.startswith(f"there: {kind}; ")
    assert traits in found.summary
    assert f"\n  kind: {kind}\n" in found.snippet


def test_a_fabric_by_rail_without_spines_is_rail_only(tmp_path: Path):
    found = cluster(tmp_path, ("kind: rail-optimised, ", "kind: rail-only, "), ('"spine[01-04]"', '"spine[01-08]"'))
    plan = planned(found).plan
    bare = load((tmp_path / "b.bedplate.yml").write_text(POD[: POD.index("fabric: {")]) and tmp_path / "b.bedplate.yml")
    report = adoption(bare, told(seen(found)))
    assert report.summary.startswith("pod32: rail-only; ")
    # Two cluster files are beside each other, so the list has the name of its own.
    assert sorted(Path(path).name for path in report.files) == ["b.cables.csv", "b.guids.json"]
    write(report)
    path = Path(bare.path)
    path.write_text(f"{path.read_text()}{report.snippet}\n")
    again = planned(load(path)).plan
    assert again.planes == plan.planes == [f"rail{number}" for number in range(8)]
    assert again.switches.keys() == plan.switches.keys()


def test_the_record_has_the_guids_and_the_list_all_cables(tmp_path: Path):
    there = existing("rail-optimised", 5, tmp_path)
    found = adopt(there)
    names = {Path(path).name: text for path, text in found.files.items()}
    record = json.loads(names["there.guids.json"])
    real = {**there.world.plan.switches, **there.world.plan.hcas}
    known = {name: f"0x{thing.guid}" for name, thing in real.items() if name not in there.unnamed}
    assert {name: guids["node"] for name, guids in record.items() if not name.startswith("unnamed-")} == known
    assert len(record) == len(real)
    head, *rows = names["cables.csv"].splitlines()
    assert head == "a,a_port,b,b_port,comment"
    assert len(rows) == len(there.world.plan.links)
    assert sum("without a name" in row for row in rows) == len(there.unnamed)
    assert found.snippet.splitlines()[:3] == ["fabric:", "  cables: cables.csv", "  kind: rail-optimised"]


def test_a_list_that_differs_is_replaced_only_when_that_is_asked_for(tmp_path: Path):
    there = existing("leaf-spine", 5, tmp_path)
    adopted(there)
    before = (tmp_path / "cables.csv").read_text()
    link = next(link for link in there.world.links if link.kind != "host")
    there.world.cut(link.ends[0])
    refused = adopt(there)
    assert refused.files == {}
    assert (tmp_path / "cables.csv").read_text() == before
    found = adopt(there, update=True)
    assert found.refused == ""
    check_messages("adoption: a list that differs", [refused.refused.replace(f"{tmp_path}/", "")])
    write(found)
    assert len((tmp_path / "cables.csv").read_text().splitlines()) == len(before.splitlines()) - 1
    assert adopt(there).files == found.files


def test_a_card_that_gets_a_name_is_said_and_adopted_by_it(tmp_path: Path):
    there = existing("rail-optimised", 5, tmp_path)
    adopted(there)
    first, *rest = there.unnamed
    del there.world.rename[first]
    report = comparison_report(there.cluster(), there.outputs())
    assert report.counts == {"ok": len(there.world.plan.links), "unnamed": 1}
    assert report.worst == "notice"
    guid = there.world.plan.hcas[first].guid
    assert f"unnamed-{guid} hca is {first}" in report.table
    write(adopt(there, update=True))
    plan = planned(there.cluster()).plan
    assert first in plan.hcas
    assert len(nameless(plan)) == len(rest)
    assert f"unnamed-{guid}" not in (tmp_path / "there.guids.json").read_text()
    assert comparison_report(there.cluster(), there.outputs()).counts == {"ok": len(there.world.plan.links)}


def test_an_update_says_which_cables_move_and_what_is_lost(tmp_path: Path):
    there = existing("rail-optimised", 5, tmp_path)
    adopted(there)
    world, listed = there.world, tmp_path / "cables.csv"
    for name in there.unnamed:
        del world.rename[name]
    report = comparison_report(there.cluster(), there.outputs())
    assert "after the other faults are repaired, adopt the names: " in report.table
    # A name alone moves no cable.
    names = adopt(there, update=True)
    assert not {"moved", "lost"} & set(names.table.split())
    write(names)
    head, *rows = listed.read_text().splitlines()
    absent = next(row for row in rows if row.startswith("gpu003 mlx5_2"))
    rows = [f"{row}replaced in May" if row.startswith("gpu002 mlx5_1") else row for row in rows if row != absent]
    listed.write_text("\n".join([f"{head},state", *(f"{row}," for row in rows), f"{absent},leave out", ""]))
    one, other = (next(link for link in world.links if link.a == f"gpu00{number} mlx5_0") for number in (1, 4))
    world.cut(one.ends[0], other.ends[0])
    world.join(one.ends[0], other.ends[1])
    world.join(other.ends[0], one.ends[1])
    found = adopt(there, update=True)
    lines = found.table.splitlines()
    shown = [
        line for number, line in enumerate(lines) if {"moved", "lost"} & {*line.split(), *lines[number - 1].split()}
    ]
    check_messages("adoption: an update of cables that moved", shown)
    assert found.refused == ""
    write(found)
    assert not {"moved", "lost"} & set(adopt(there).table.split())


def test_a_switch_without_a_name_is_adopted_by_its_guid(tmp_path: Path):
    there = existing("leaf-spine", 5, tmp_path)
    first, second, *_rest = there.world.plan.switches
    there.world.rename[first] = "Quantum Mellanox Technologies"
    there.world.rename[second] = "Quantum Mellanox Technologies"
    plan, found = adopted(there)
    names = {f"unnamed-{there.world.plan.switches[name].guid}" for name in (first, second)}
    assert names < plan.switches.keys()
    assert "2 switches without a usable name" in found.table
    assert comparison_report(there.cluster(), there.outputs()).counts == {"ok": len(there.world.plan.links)}
    # Once it has a name, that is reported.
    del there.world.rename[first]
    assert comparison_report(there.cluster(), there.outputs()).counts == {
        "ok": len(there.world.plan.links),
        "unnamed": 1,
    }


def test_names_that_fit_no_node_are_listed_and_never_guessed(tmp_path: Path):
    there = existing("leaf-spine", 5, tmp_path)
    plan = there.world.plan
    named = [name for name in plan.hcas if name not in there.unnamed]
    hosts = list(dict.fromkeys(plan.hcas[name].host for name in named))
    for name in named:
        hca = plan.hcas[name]
        if hca.host == hosts[0]:
            there.world.rename[name] = name.replace("mlx5_", "HCA-")
        elif hca.host == hosts[1]:
            there.world.rename[name] = f"oss1 {hca.device}"
        elif hca.host == hosts[2]:
            there.world.rename[name] = name.upper().replace("MLX", "mlx")
    found = adopt(there)
    assert found.refused == ""
    listed = next(text for path, text in found.files.items() if path.endswith(".csv"))
    assert not any(f"{host} " in listed for host in hosts[:2])
    assert f"{hosts[0]} HCA-" not in listed
    assert f"{hosts[2]} mlx5_0" in listed
    lines = [line for line in found.table.splitlines() if " unknown " in line]
    check_messages("adoption: names that fit no node", [*lines, found.snippet])


def test_a_part_of_a_fabric_is_not_adopted(tmp_path: Path):
    there = existing("leaf-spine", 5, tmp_path)
    spine = next(name for name, switch in there.world.plan.switches.items() if switch.tier == 2)
    there.world.mute.add(spine)
    found = adopt(there, update=True)
    assert found.files == {}
    assert found.refused.startswith("Nothing was written, since this is not the whole fabric. Discover again. ")
    assert spine in found.refused
    whole = existing("leaf-spine", 5, tmp_path).outputs()[0].text
    cut = ToolOutput("fabric", whole[: len(whole) // 2])
    assert adoption(there.cluster(), [cut]).files == {}


def test_a_tool_that_had_no_answer_of_a_node_ends_an_adoption(tmp_path: Path):
    there = existing("leaf-spine", 5, tmp_path)
    (whole,) = there.outputs()
    said = "ibwarn: [4242] mad_rpc: _do_madrpc failed; dport (DR path slid 0; dlid 0; 0,1)\n"
    found = adoption(there.cluster(), [replace(whole, text=said + whole.text)], update=True)
    assert found.files == {}
    assert "the tool reported 1 errors" in found.refused


def test_a_list_that_its_own_section_would_refuse_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    there = existing("leaf-spine", 5, tmp_path)
    right = adoption_of_fabrics.section
    monkeypatch.setattr(adoption_of_fabrics, "section", lambda *given: replace(right(*given), switch_ports=2))
    found = adopt(there)
    assert found.files == {}
    assert found.refused.startswith("Nothing was written, since the list does not fit its section: ")


def test_a_line_that_cannot_be_parsed_ends_an_adoption(tmp_path: Path):
    there = existing("leaf-spine", 5, tmp_path)
    (whole,) = there.outputs()
    assert adoption(there.cluster(), [whole]).refused == ""
    odd = ToolOutput("fabric", f"{whole.text}\nwhat is this\n")
    found = adoption(there.cluster(), [odd], update=True)
    assert found.files == {}
    assert "1 lines could not be parsed" in found.refused


@pytest.mark.parametrize("update", [False, True])
def test_a_list_that_cannot_be_read_is_never_replaced(tmp_path: Path, update: bool):
    there = existing("leaf-spine", 5, tmp_path)
    (tmp_path / "cables.csv").write_bytes(b"a,a_port,b,b_port\ngpu1 mlx5_0,,L\xe9AF,1\n")
    found = adopt(there, update)
    assert found.files == {}
    assert found.refused.startswith(f"Nothing was written, since {tmp_path}/cables.csv cannot be read: ")


def test_cards_with_one_name_and_a_switch_with_the_name_of_a_host_are_not_adopted(tmp_path: Path):
    there = existing("leaf-spine", 5, tmp_path)
    plan = there.world.plan
    one, other, *_rest = (name for name in plan.hcas if name not in there.unnamed)
    spine = next(name for name, switch in plan.switches.items() if switch.tier == 2)
    there.world.rename |= {other: one, spine: plan.hcas[one].host}
    listed, record = (text for _path, text in sorted(adopt(there).files.items()))
    assert not any(one in row or f",{plan.hcas[one].host}," in row for row in listed.splitlines())
    for guid in (plan.hcas[one].guid, plan.hcas[other].guid, plan.switches[spine].guid):
        assert guid not in record + listed


def test_nothing_that_the_cluster_file_names_is_refused(tmp_path: Path):
    there = existing("leaf-spine", 5, tmp_path)
    for name, hca in there.world.plan.hcas.items():
        there.world.rename[name] = f"x{hca.host} {hca.device}"
    there.world.cut(*(end for link in there.world.links if link.kind != "host" for end in link.ends))
    single = there.world.discoveries()
    assert single
    found = adopt(there)
    assert found.files == {}
    assert "no cable has ends that the cluster file names" in found.refused


def test_the_present_section_stays_where_cables_do_not_say_it(tmp_path: Path):
    pod = cluster(tmp_path)
    found = adoption(pod, told(seen(pod)))
    assert found.refused == ""
    check_messages("adoption: the section of the pod", [found.summary, found.snippet])
    write(found)
    pasted = POD[: POD.index("fabric: {")] + found.snippet.replace(
        "  rails: 8", '  rails: 8\n  switch_racks: {"su1-r[0-7],spine[01-04]": net1}'
    )
    Path(pod.path).write_text(pasted)
    assert planned(load(pod.path)).plan.links != []
    assert planned(load(pod.path)).plan.switches.keys() == planned(cluster(tmp_path)).plan.switches.keys()


def test_a_fabric_of_ethernet_is_adopted_from_its_neighbours_and_has_no_guids(tmp_path: Path):
    pod = cluster(tmp_path, ("kind: rail-optimised, ", "kind: rail-optimised, technology: ethernet, "))
    plan = planned(pod).plan
    switches = set(plan.switches)
    texts = [ToolOutput(name, json.dumps(answer)) for name, answer in answers(plan).items() if name not in switches]
    found = adoption(pod, texts)
    assert [Path(path).name for path in found.files] == ["cables.csv"]
    listed = next(iter(found.files.values()))
    assert len(listed.splitlines()) == 1 + len(plan.hcas)
    bare = load(
        (tmp_path / "pod.bedplate.yml").write_text(POD[: POD.index("fabric: {")]) and tmp_path / "pod.bedplate.yml"
    )
    found = adoption(bare, texts)
    assert "\n  technology: ethernet\n" in found.snippet
    assert len(found.files) == 1


def test_names_that_were_not_discovered_keep_their_guids_until_another_has_them(tmp_path: Path):
    there = existing("leaf-spine", 5, tmp_path)
    leaf = next(iter(there.world.plan.switches.values()))
    path = tmp_path / "there.guids.json"
    old = {"moved": {"node": leaf.guid}, "off mlx5_0": {"node": "000000000000abcd", "port": "000000000000abce"}}
    path.write_text(guid_record.text_of(old))
    write(adopt(there, update=True))
    record = guid_record.read(path)
    assert record["off mlx5_0"] == old["off mlx5_0"]
    assert record[leaf.name]["node"] == leaf.guid
    assert "moved" not in record


def test_a_record_that_cannot_be_read_stops_the_adoption(tmp_path: Path):
    there = existing("leaf-spine", 5, tmp_path)
    (tmp_path / "there.guids.json").write_text('{"x": 1}')
    with pytest.raises(ValueError, match=r"there\.guids\.json:1: "):
        adopt(there)
