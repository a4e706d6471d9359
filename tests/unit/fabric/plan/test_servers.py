"""Where subnet managers and storage servers plug in, ports that are kept free, and tenants: from the cluster file to the plan."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.comparison import discovery_sources
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core import guid_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Hca, Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.opensm_files import compute, order
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.plane_files import LEFT_OUT
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import planned
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checks import check
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import TemplateError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import with_guids
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.requested_proofs import of_plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.routing_proof import prove
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.simulated_fabric import TOOLS
from tests.kit.fabric_files import artefacts
from tests.unit.fabric.messages import check_messages

# Two units of four nodes with two rails, and three hosts.
TEXT = """\
plugin: bedplate.cluster.racks
site: t
cluster: t
networks:
  management: {cidr: 10.0.0.0/24}
profiles:
  gpu: {sockets: 1, cores_per_socket: 8, memory_mib: 1000, nics: [{name: mlx5_0, rail: 0}, {name: mlx5_1, rail: 1}]}
racks:
  a: {leaf: u1, nodes: "n[1-4]", profile: gpu}
  b: {leaf: u2, nodes: "n[5-8]", profile: gpu}
  s: {}
hosts:
  ctl1: {address: 10.0.0.201NICS1}
  ctl2: {address: 10.0.0.202NICS2}
  oss1: {address: 10.0.0.203NICS3}
services: {controllers: ctl1, subnet_managers: [ctl1, ctl2]}
partitions:
  one: {nodes: "rack:a"}
  two: {nodes: "rack:b"}
fabric: FABRIC
"""
RAILS = 'kind: rail-optimised, switch_ports: 16, spines: "s[1-2]", uplinks: 4'
NIC = ", nics: {name: mlx5_0}"


def cluster(tmp_path: Path, fabric: str, *nics: str) -> Cluster:
    text = TEXT.replace("FABRIC", f"{{{fabric}}}")
    for number in (1, 2, 3):
        text = text.replace(f"NICS{number}", nics[number - 1] if len(nics) >= number else "")
    path = tmp_path / "t.bedplate.yml"
    path.write_text(text)
    return load(path)


def plan(tmp_path: Path, fabric: str, *nics: str) -> Plan:
    return plan_of(cluster(tmp_path, fabric, *nics))


def places(found: Plan) -> dict[str, str]:
    return {name: "{}:{}".format(*end) for name, end in found.leaf_of().items() if name.startswith(("ctl", "oss"))}


def test_hosts_come_into_the_ports_below_the_uplinks_and_move_no_cable(tmp_path: Path):
    without, found = plan(tmp_path, RAILS), plan(tmp_path, RAILS, NIC, NIC)
    assert places(found) == {"ctl1 mlx5_0": "u1-r0:12", "ctl2 mlx5_0": "u1-r1:12"}
    assert found.links[: len(without.links)] == without.links
    assert list(found.hcas)[: len(without.hcas)] == list(without.hcas)
    assert found.hcas["ctl1 mlx5_0"] == Hca("ctl1", "mlx5_0", purpose="management")
    assert check(found) == []


def test_a_host_is_on_the_leaf_of_its_rack_where_that_has_ports(tmp_path: Path):
    assert places(plan(tmp_path, RAILS, f"{NIC}, rack: b", f"{NIC}, rack: s")) == {
        "ctl1 mlx5_0": "u2-r0:12", "ctl2 mlx5_0": "u1-r0:12",
    }  # fmt: skip
    full = RAILS.replace("16", "9")
    taken = ", rack: b, nics: [{name: a}, {name: b}, {name: c}]"
    assert list(places(plan(tmp_path, full, taken)).values()) == ["u2-r0:5", "u2-r1:5", "u1-r0:5"]


def test_leaf_port_and_rail_are_as_stated_and_in_nobody_elses_way(tmp_path: Path):
    nics = ", nics: [{name: a, rail: 1}, {name: b, leaf: u1-r1}, {name: c, leaf: u1-r1, port: 12}]"
    found = plan(tmp_path, RAILS, nics)
    assert places(found) == {"ctl1 a": "u2-r1:12", "ctl1 b": "u1-r1:11", "ctl1 c": "u1-r1:12"}
    assert [hca.device for hca in found.hcas.values() if hca.host == "ctl1"] == ["a", "b", "c"]


def test_storage_has_leaves_of_its_own_below_the_same_spines(tmp_path: Path):
    storage = ", rack: s, nics: [{name: a, purpose: storage}, {name: b, purpose: storage}, {name: c, purpose: storage}]"
    found = plan(tmp_path, RAILS + ", leaves: svc", NIC, NIC, storage)
    assert places(found) == {
        "ctl1 mlx5_0": "svc:1", "ctl2 mlx5_0": "svc:2", "oss1 a": "svc:3", "oss1 b": "svc:4", "oss1 c": "svc:5",
    }  # fmt: skip
    up = [link for link in found.links if link.a == "svc"]
    assert [(link.a_port, link.b) for link in up] == [
        (9, "s1"),
        (10, "s2"),
        (11, "s1"),
        (12, "s2"),
        (13, "s1"),
        (14, "s2"),
    ]
    assert [link.b_port for link in up] == [16, 16, 15, 15, 14, 14]
    assert (found.switches["svc"].tier, found.switches["svc"].rail, found.switches["svc"].group) == (1, None, "")
    assert check(found) == []


def test_leaves_of_hosts_take_turns_and_have_the_rack_of_their_first(tmp_path: Path):
    found = plan(tmp_path, RAILS + ', leaves: "svc[1-2]"', f"{NIC}, rack: s", f"{NIC}, rack: b")
    assert places(found) == {"ctl1 mlx5_0": "svc1:1", "ctl2 mlx5_0": "svc2:1"}
    assert [found.switches[name].rack for name in ("svc1", "svc2")] == ["s", "b"]


@pytest.mark.parametrize(
    ("fabric", "leaf", "above"),
    [
        ('kind: leaf-spine, switch_ports: 32, spines: "s[1-2]", leaves: svc', "svc", {"s1", "s2"}),
        ('kind: three-tier, switch_ports: 32, spines: "s[1-2]", cores: "c[1-2]", leaves: svc', "svc", {"s1", "s2"}),
        ('kind: rail-optimised, switch_ports: 32, spines: "s[1-4]", cores: "c[1-2]", leaves: svc', "svc", {"s3", "s4"}),
        ('kind: rail-only, switch_ports: 32, spines: "s[1-4]", leaves: svc', "svc", {"s3", "s4"}),
    ],
)
def test_a_leaf_of_hosts_is_where_its_rail_is(tmp_path: Path, fabric: str, leaf: str, above: set[str]):
    found = plan(tmp_path, fabric, ", nics: {name: a, rail: 1, leaf: svc}")
    assert places(found) == {"ctl1 a": "svc:1"}
    assert {link.b for link in found.links if link.a == leaf} == above
    assert {found.switches[name].plane for name in (leaf, *above)} == {found.hcas["ctl1 a"].plane}
    assert check(found) == []


def test_where_rails_are_planes_a_host_has_one_after_the_other(tmp_path: Path):
    nics = ", nics: [{name: a}, {name: b}, {name: c, rail: 0}]"
    fabric = 'kind: rail-only, switch_ports: 16, spines: "s[1-2]"'
    with pytest.raises(TemplateError, match=r":13: hosts.ctl1.nics\[1\]: ") as error:
        plan(tmp_path, fabric, nics)
    check_messages("servers: no plane left", error.value, tmp_path)
    found = cluster(tmp_path, fabric, ", nics: [{name: a}, {name: b}]", NIC)
    work = planned(found)
    assert [(hca.device, hca.plane) for hca in work.plan.hcas.values() if hca.host == "ctl1"] == [
        ("a", "rail0"),
        ("b", "rail1"),
    ]
    assert [(one.hca, one.priority) for one in work.plan.managers] == [
        ("ctl1 a", 15),
        ("ctl2 mlx5_0", 14),
        ("ctl1 b", 15),
    ]
    assert list(work.managers) == ["rail1"]
    check_messages("servers: a manager without an HCA in a plane", work.managers["rail1"])


def test_subnet_managers_on_hosts_get_their_files_and_are_never_compute(tmp_path: Path):
    found = cluster(tmp_path, RAILS + ", leaves: svc", NIC, NIC, ", nics: {name: mlx5_0, purpose: storage}")
    guids = with_guids(plan_of(found))
    guid_record.path_of(found.path).write_text(guid_record.text_of(guid_record.record_of(guids)))
    files = artefacts(found)
    assert {name.rpartition("/")[2] for name in files if name.startswith("opensm/")} == {
        "cn_guid.conf", "guid_routing_order.conf", "node-name-map", "opensm.conf", "opensm-ctl2.conf", "partitions.conf",
        "qos-policy.conf", "root_guid.conf",
    }  # fmt: skip
    for name, manager in (("opensm.conf", "ctl1"), ("opensm-ctl2.conf", "ctl2")):
        assert f"guid 0x{guids.hcas[f'{manager} mlx5_0'].port_guid}" in files[f"opensm/fabric/{name}"]
    servers = {hca.port_guid for hca in guids.hcas.values() if hca.host in found.hosts}
    assert _listed(compute(guids)) & servers == set()
    assert servers < _listed(order(guids))
    assert "ctl1" not in files["slurm/topology.conf"]
    assert files["cabling.csv"].count(",management,") == 2


def _listed(text: str) -> set[str]:
    return {word.zfill(16) for word in re.findall(r"^0x(\w+)", text, re.MULTILINE)}


def test_without_nics_it_is_said_where_to_state_them(tmp_path: Path):
    text = artefacts(cluster(tmp_path, RAILS, NIC))[f"opensm/fabric/{LEFT_OUT}"]
    assert [line.split()[0] for line in text.splitlines() if "services.subnet_managers" in line] == ["ctl2"]
    check_messages("servers: files that are left out where managers have no NIC", [text])


def test_a_subnet_manager_loads_no_uplink_and_storage_does(tmp_path: Path):
    assert check(plan(tmp_path, RAILS, NIC, NIC, NIC)) == []
    (found,) = check(plan(tmp_path, RAILS, ", nics: {name: a, leaf: u1-r0, purpose: storage}"))
    assert (found.rule, found.where) == ("P4", "rack a, u1-r0")


def test_hosts_are_asked_for_their_neighbours_too(tmp_path: Path):
    found = cluster(tmp_path, f"{RAILS}, technology: ethernet", NIC)
    assert [one["name"] for one in discovery_sources(found)] == [*(f"n{number}" for number in range(1, 9)), "ctl1"]


def test_ports_are_kept_free_below_and_above(tmp_path: Path):
    found = plan(
        tmp_path,
        RAILS + ', spare: ["u1-r0:[1-2]", "u1-r1:[9-15]", "u2-r0:[15-16]", "s1:3"]',
        NIC,
        ", rack: a, nics: {name: a, rail: 1}",
    )
    used = {end for link in found.links for end in link.ends}
    kept = {
        ("u1-r0", 1),
        ("u1-r0", 2),
        *(("u1-r1", port) for port in range(9, 16)),
        ("u2-r0", 15),
        ("u2-r0", 16),
        ("s1", 3),
    }
    assert used & kept == set()
    assert found.leaf_of()["n1 mlx5_0"] == ("u1-r0", 3)
    ports = {leaf: [link.a_port for link in found.links if link.a == leaf] for leaf in ("u1-r0", "u1-r1", "u2-r0")}
    assert ports == {"u1-r0": [13, 14, 15, 16], "u1-r1": [6, 7, 8, 16], "u2-r0": [11, 12, 13, 14]}
    assert found.leaf_of()["ctl2 a"] == ("u1-r1", 5)
    assert Counter(link.kind for link in found.links) == {"host": 18, "leaf-spine": 16}
    assert check(found) == []
    assert found.spare["u1-r0"] == [1, 2]


def test_ports_that_are_kept_free_count_where_there_are_too_few(tmp_path: Path):
    with pytest.raises(TemplateError, match=r": fabric\.uplinks: ") as error:
        plan(tmp_path, RAILS.replace("16", "9") + ', spare: "u1-r0:[8-9]"')
    check_messages("servers: too few ports beside those that are kept free", error.value, tmp_path)


# What is wrong: fabric, NICs of ctl1, line and key.
WRONG = {
    "leaf that is unknown": (RAILS, ", nics: {name: a, leaf: u1-r3}", "13: hosts.ctl1.nics"),
    "leaf that is a spine": (RAILS, ", nics: {name: a, leaf: s1}", "13: hosts.ctl1.nics"),
    "rail that no leaf has": (RAILS, ", nics: {name: a, rail: 7}", "13: hosts.ctl1.nics"),
    "leaf of another rail": (RAILS, ", nics: {name: a, rail: 1, leaf: u1-r0}", "13: hosts.ctl1.nics"),
    "port that has a cable": (RAILS, ", nics: {name: a, leaf: u1-r0, port: 1}", "13: hosts.ctl1.nics"),
    "port that the leaf has not": (RAILS, ", nics: {name: a, leaf: u1-r0, port: 17}", "13: hosts.ctl1.nics"),
    "port that is kept free": (f"{RAILS}, spare: 'u1-r0:9'", ", nics: {name: a, leaf: u1-r0, port: 9}", "13: hosts.ctl1.nics"),
    "no leaf has a port left": (RAILS.replace("16", "8"), NIC, "13: hosts.ctl1.nics"),
    "the leaf has no port left": (RAILS.replace("16", "8"), ", nics: {name: a, leaf: u1-r0}", "13: hosts.ctl1.nics"),
    "leaf of servers without a NIC": (f"{RAILS}, leaves: svc", "", "20: fabric.leaves"),
    "leaf of servers that is a leaf of nodes": (f"{RAILS}, leaves: u1-r0", NIC, "20: fabric.leaves"),
    "no port of a spine for a leaf of servers": (f"{RAILS.replace('16', '8')}, leaves: svc", NIC, "20: fabric.leaves"),
    "port of the uplinks": (f"{RAILS}, leaves: svc", ", nics: {name: a, leaf: svc, port: 9}", "13: hosts.ctl1.nics"),
    "switch that is kept free and unknown": (f"{RAILS}, spare: 'u9-r0:1'", NIC, "20: fabric.spare"),
    "port that is kept free and not there": (f"{RAILS}, spare: 'u1-r0:17'", NIC, "20: fabric.spare"),
    "leaf of servers where there is no spine": ("kind: dragonfly, switch_ports: 16, leaves: svc", NIC, "20: fabric.leaves"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_told_with_its_line(tmp_path: Path, name: str):
    fabric, nics, where = WRONG[name]
    with pytest.raises(TemplateError) as error:
        plan(tmp_path, fabric, nics)
    assert re.findall(r"^[^:]*:(\d+: [^:]*):", str(error.value), re.MULTILINE)[0] == where
    check_messages(f"servers: {name}", error.value, tmp_path)


def test_mistakes_come_out_together(tmp_path: Path):
    fabric = f"{RAILS}, spare: 'u9:1', missing: ['u1-r0:1', 'u1-r0:10']"
    with pytest.raises(TemplateError) as error:
        plan(tmp_path, fabric, ", nics: {name: a, leaf: x}", ", nics: [{name: a}, {name: b, rail: 9}]")
    assert [re.search(r":(\d+: [^:]*):", line)[1] for line in str(error.value).split("\n")] == [  # type: ignore[index]
        "13: hosts.ctl1.nics", "14: hosts.ctl2.nics[1]", "20: fabric.spare", "20: fabric.missing[1]",
    ]  # fmt: skip


TENANTS = """partitions: {
  red: {pkey: 0x10, members: ["partition:one", {nodes: oss1, membership: both}]},
  blue: {pkey: 0x20, ipoib: false, membership: limited, members: ["partition:two", {nodes: oss1, membership: full}]}}"""


def test_tenants_are_partitions_of_the_plan(tmp_path: Path):
    found = plan(tmp_path, f"{RAILS}, {TENANTS}", NIC, NIC, NIC)
    assert [(one.name, one.pkey, one.ipoib) for one in found.partitions] == [("red", 0x10, True), ("blue", 0x20, False)]
    assert found.partitions[0].members == {"n1": "full", "n2": "full", "n3": "full", "n4": "full", "oss1": "both"}
    assert Counter(found.partitions[1].members.values()) == {"limited": 4, "full": 1}


@pytest.mark.simulation
@pytest.mark.tools(*TOOLS)
def test_tenants_and_subnet_managers_on_hosts_are_proved(tmp_path: Path):
    found = of_plan(cluster(tmp_path, f"{RAILS}, speed: HDR, leaves: svc, {TENANTS}", NIC, NIC, NIC))
    ((plane, files),) = found.files.items()
    proof = prove(found.plan, plane, files)
    assert [str(finding) for finding in proof.findings] == []
    assert proof.engine == "ftree"
    # Without the option `both` is `full`, and ports read back say so.
    without = files["opensm.conf"].replace("allow_both_pkeys TRUE\n", "")
    (told,) = prove(found.plan, plane, {**files, "opensm.conf": without}).findings
    assert "oss1 mlx5_0 holds 0x7fff 0x8010 0x8020 and not 0x0010" in told.found
