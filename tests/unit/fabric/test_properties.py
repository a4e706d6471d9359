"""What holds for any text and any plan: what is written is read back, no line is dropped in silence, no cable is lost in a comparison."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import guid_of
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import parse
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import (
    Plan,
    TenantPartition,
    by_switch,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm import partitions
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    TEMPLATES,
    FabricShape,
    TemplateError,
    WiredHost,
    WiredNic,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate import opensm_dumps
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import (
    discovery_of,
    ibnetdiscover_text,
    netfile,
    with_guids,
)
from tests.fuzz.properties import PROPERTIES
from tests.fuzz.seeds import change, seeds
from tests.kit import partitions_reader

quickly = settings(derandomize=True, deadline=None, max_examples=60)
PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=64)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    kind = draw(st.sampled_from(sorted(TEMPLATES)))
    rails, spines = draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((1, 2, 4)))
    nics = [WiredNic(f"mlx5_{rail}", rail) for rail in range(rails)]
    listed = [WiredHost(f"gpu{n}", nics, f"a{n // 2}", f"u{n // 4}") for n in range(draw(st.integers(2, 12)))]
    names = [f"s{n}" for n in range(spines)] if kind != "dragonfly" else []
    cores = [f"c{n}" for n in range(rails)] if kind == "three-tier" else []
    lanes, uplinks = draw(st.sampled_from((1, 2))), draw(st.sampled_from((4, 8)))
    shape = FabricShape(ports=64, speed="HDR", spines=names, cores=cores, uplinks=uplinks, lanes=lanes)
    try:
        return TEMPLATES[kind](listed, shape)
    except TemplateError:
        # Not every number of things makes a fabric.
        reject()


@given(st.sampled_from(seeds()), st.randoms(use_true_random=False))
@settings(quickly, max_examples=300)
def test_no_text_breaks_a_reader_and_no_line_is_dropped_in_silence(seed: tuple[str, str], rng: random.Random):
    name, text = seed
    PROPERTIES[name](change(text, rng))


@given(st.sampled_from(sorted(PROPERTIES)), st.text(max_size=200))
@settings(quickly, max_examples=200)
def test_nor_does_any_text_that_is_nothing_of_the_sort(name: str, text: str):
    PROPERTIES[name](text)


@given(plans(), st.booleans())
@quickly
def test_plan_that_is_discovered_as_planned_has_no_finding(plan: Plan, full: bool):
    found = {
        plane: parse(ibnetdiscover_text(discovery_of(plan, plane), full=full).split("\n")) for plane in plan.planes
    }
    result = comparison(plan, found)
    assert (result.findings, len(result.ok)) == ([], len(plan.links))


@given(plans(), st.randoms(use_true_random=False))
@quickly
def test_cable_that_is_not_there_is_not_right_and_is_told_of(plan: Plan, rng: random.Random):
    lost = rng.sample(range(len(plan.links)), rng.randint(1, min(4, len(plan.links))))
    real = replace(plan, links=[replace(link, missing=n in lost) for n, link in enumerate(plan.links)])
    found = {plane: parse(ibnetdiscover_text(discovery_of(real, plane)).split("\n")) for plane in plan.planes}
    result = comparison(plan, found)
    assert {link.ends for link in result.ok} == {link.ends for link in real.present}
    # A whole host or switch is told of at once.
    told = {name for one in result.findings for name, _port in one.ports}
    told |= {plan.hcas[name].host for name in told if name in plan.hcas}
    near = by_switch(plan.links)
    dark = {far for name in told for far, _port in near.get(name, {}).values()}
    for number in lost:
        link = plan.links[number]
        host = plan.hcas[link.a].host if link.a in plan.hcas else ""
        assert {link.a, link.b, host} & told or {link.a, link.b} & dark, f"{link} is not told of"
    assert {one.kind for one in result.findings} <= {"missing", "isolated", "partial"}


@given(plans())
@quickly
def test_netfile_has_every_cable_from_both_ends(plan: Plan):
    full = with_guids(plan)
    ids = {f'"S-{one.guid}"': one.name for one in full.switches.values()}
    ids |= {f'"H-{one.guid}"': one.name for one in full.hcas.values()}
    cables, name = set(), ""
    for line in netfile(plan).split("\n"):
        if line.startswith(("Switch", "Ca")):
            name = ids[line.split("\t")[1].split(" ")[1]]
        elif line.startswith("["):
            port, _, far = line.partition("\t")
            there, _, far_port = far.partition("[")
            cables.add(((name, int(port[1:-1])), (ids[there], int(far_port[:-1]))))
    assert cables == {ends for link in plan.present for ends in (link.ends, link.ends[::-1])}


@given(
    st.lists(
        st.tuples(st.sampled_from(partitions_reader.MEMBERSHIPS), st.sets(st.integers(0, 7), min_size=1)), max_size=5
    )
)
@quickly
def test_partitions_that_are_written_are_read_as_they_are_planned(wanted: list[tuple[str, set[int]]]):
    hosts = [WiredHost(f"gpu{n}", [WiredNic("mlx5_0", 0)], "a1", "u1") for n in range(8)]
    plan = with_guids(TEMPLATES["rail-only"](hosts, FabricShape(ports=16, speed="HDR", spines=["s1"], uplinks=8)))
    plan.partitions = [
        TenantPartition(f"tenant{n}", n + 1, {f"gpu{host}": membership for host in members})
        for n, (membership, members) in enumerate(wanted)
    ]
    entries, problems = partitions_reader.parse(partitions.partitions_conf(plan), plan, both=True)
    assert [one for one in problems if one.severity == "error"] == []
    read = {entry.name: {member.name: member.membership for member in entry.members} for entry in entries}
    ports = {hca.host: guid_of(hca.port_guid) for hca in plan.hcas.values()}
    for partition in plan.partitions:
        assert read[partition.name] == {ports[host]: how for host, how in partition.members.items()}


@given(PRINTABLE, PRINTABLE, st.integers(1, 0xBFFF), st.integers(1, 254))
@quickly
def test_any_name_in_a_dump_comes_back(one: str, other: str, lid: int, port: int):
    ends = [
        f"{{ {kind} Ports:{255 if kind == 'SW' else 1:02X} SystemGUID:{guid} NodeGUID:{guid} PortGUID:{guid} VenID:0 DevID:0 Rev:0 "
        f"{{{name}}} LID:{number:04X} PN:{at:02X} }}"
        for kind, guid, name, number, at in (("CA", "a" * 16, one, lid, 1), ("SW", "b" * 16, other, lid + 1, port))
    ]
    table = f"dump_ucast_routes: Switch 0x{'b' * 16}\nLID    : Port : Hops : Optimal\n0x{lid:04X} : {port:03}  : 01   : yes\n"
    if " LID:" in one or " LID:" in other:
        return
    found = opensm_dumps.read(f"{' '.join(ends)} PHY=4x LOG=ACT SPD=50\n", table)
    assert (found.nodes[lid].name, found.nodes[lid + 1].name) == (one, other)
    assert found.cables == {(lid, 1): (lid + 1, port), (lid + 1, port): (lid, 1)}
    assert found.tables == {lid + 1: {lid: port}}
