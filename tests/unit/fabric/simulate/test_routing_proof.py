"""Plans that real OpenSM routes as they say on ibsim, and mutants of files and cables of which each turns the proof red."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import (
    Hca,
    Link,
    Plan,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm import opensm_files
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.opensm_options import QOS, Choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate import routing_proof, simulated_fabric
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import with_guids
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.routing_proof import prove
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.simulated_fabric import (
    SimulationError,
    local_conf,
    simulated_plan,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.slurm_proof import prove_topology
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.topology.slurm_topology import (
    conf,
    shown,
    tree,
)
from tests.kit.fabric_files import problems
from tests.unit.fabric.opensm.test_opensm_files import fabric as with_storage
from tests.unit.fabric.simulate.gate import (
    SMALL,
    Files,
    made,
    proved,
    rails,
    real,
    root_dropped,
    slurm,
    texts,
    tiers,
    without,
)

ROOT = Path(__file__).parents[4]


@real
def test_files_are_made_where_there_are_none_yet():
    plan = rails(hosts=8, rails=2, per_unit=4, spines=4)
    bare = replace(plan, hcas={}, switches={}, managers=[])
    bare.add(*(replace(one, guid="") for one in plan.switches.values()))
    bare.add(*(replace(one, guid="", port_guid="") for one in plan.hcas.values()))
    assert texts(proved(bare)) == ""


@real
def test_storage_has_lanes_of_its_own_and_routes_of_compute_are_judged():
    plan = with_storage()
    found = prove(plan, "", opensm_files.files(with_guids(plan), plan.managers[0], Choices(qos=QOS)))
    assert texts(found) == ""
    assert found.metrics is not None
    assert found.metrics.hcas == 16


@real
def test_guids_on_record_are_kept_where_node_and_port_have_one_and_all_follow_each_other():
    """As ConnectX-7 has them; ibsim cannot, so the nodes' are others there."""
    plan = replace(SMALL, hcas={}, switches=dict(SMALL.switches))
    for number, hca in enumerate(SMALL.hcas.values()):
        guid = f"{0x9C0591030001A000 + number:016x}"
        plan.add(replace(hca, guid=guid, port_guid=guid))
    files = made(plan)
    assert "0x9c0591030001a000" in files[opensm_files.COMPUTE_LIST]
    assert texts(prove(plan, "", files)) == ""


def zero_x_stripped(files: Files) -> None:
    files[opensm_files.ROOTS] = files[opensm_files.ROOTS].replace("0x", "")


def wrong_tier(files: Files) -> None:
    leaves = [one for one in SMALL.switches.values() if one.tier == 1]
    files[opensm_files.ROOTS] = "".join(f"0x{one.guid}\n" for one in leaves)


def node_guids(files: Files) -> None:
    files[opensm_files.COMPUTE_LIST] = "".join(f"0x{one.guid}\n" for one in SMALL.hcas.values())


BROKEN = f"0x{SMALL.hcas['gpu1 mlx5_0'].port_guid[:-1]}g"


def malformed_partition(files: Files) -> None:
    guid = SMALL.hcas["gpu1 mlx5_0"].port_guid
    assert f"0x{guid}" in files[opensm_files.PARTITIONS]
    files[opensm_files.PARTITIONS] = files[opensm_files.PARTITIONS].replace(f"0x{guid}", BROKEN)


def unknown_option(files: Files) -> None:
    files[opensm_files.OPTIONS] += "sweep_intervall 1\n"


def absent_option_file(files: Files) -> None:
    del files[opensm_files.ROOTS]


# How a file is changed -> the kind of an effect, what of it is told, and what the oracle says of the file.
MUTANTS: dict[str, tuple[Callable[[Files], None], str, str, str]] = {
    "root dropped": (root_dropped, routing_proof.ROUTES, "directed links carry nothing",
        "1 of 4 switches of the top tier are not in it: rack net, s4"),
    "0x stripped": (zero_x_stripped, routing_proof.LOG, "cannot parse root guids file",
        "is no GUID; allowed: 0x and at most 16 hexadecimal digits"),
    "wrong tier": (wrong_tier, routing_proof.ENGINE, "expected the routing engine ftree, found updn",
        "leaf-u0-r0, which is not of the top tier"),
    "node GUIDs": (node_guids, routing_proof.ENGINE, "expected the routing engine ftree, found updn",
        "its node GUID; the port GUID is to be here"),
    "malformed partition GUID": (malformed_partition, routing_proof.PKEYS, "gpu4 mlx5_0 holds 0xffff and not 0x7fff 0x8002",
        BROKEN),
    "unknown option": (unknown_option, routing_proof.LOG,
        "opensm.conf: OpenSM does not know the option sweep_intervall", ""),
    "list is not there": (absent_option_file, routing_proof.LOG, "cannot parse root guids file", ""),
}  # fmt: skip


# An HCA and an uplink of one leaf, and an uplink of another.
LEFT_OUT = without(SMALL, [SMALL.links[0], *(SMALL.links[number] for number in (-16, -6))])


@real
@pytest.mark.parametrize("plan", [SMALL, LEFT_OUT], ids=["whole", "cables left out"])
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_red_and_the_oracle_names_its_cause(name: str, plan: Plan):
    mutate, kind, effect, cause = MUTANTS[name]
    files = made(plan)
    mutate(files)
    found = prove(plan, "", files)
    assert effect in texts(found, kind), texts(found) + found.log
    assert cause in "\n".join(map(str, problems(plan, files)))


@real
def test_lanes_that_opensm_does_not_set_up_are_told():
    plan = with_guids(with_storage())
    files = opensm_files.files(plan, plan.managers[0], Choices(qos=QOS))
    # The last one counts for OpenSM as for us; a switch port's own option wins over both.
    files[opensm_files.OPTIONS] += "qos_ca_sl2vl 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n"
    said = "gpu0 mlx5_0 has the service levels on the lanes 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0 and not 0,1,2,3,0,1,2,3,"
    assert said in texts(prove(plan, "", files), routing_proof.LANES)
    files = {
        **files,
        opensm_files.OPTIONS: files[opensm_files.OPTIONS].replace("qos_ca_sl2vl", "qos_ca_vlarb_low 0:7,1:9\nlmc 0 #"),
    }
    assert "gpu0 mlx5_0 has the weights 7,9 and not 192,64,1,1" in texts(prove(plan, "", files), routing_proof.LANES)


@real
def test_roots_of_the_wrong_tier_cut_a_three_tier_fabric_in_two():
    plan = tiers(pods=2, leaves=4, each=4, cores=4)
    files = made(plan)
    assert texts(prove(plan, "", files)) == ""
    files[opensm_files.ROOTS] = "".join(f"0x{one.guid}\n" for one in plan.switches.values() if one.tier == 2)
    found = prove(plan, "", files)
    assert "SUBNET UP" in found.log
    assert "ERR" not in found.log
    assert "pairs of HCAs cannot reach each other" in texts(found, routing_proof.ROUTES)
    assert "which is not of the top tier" in "\n".join(map(str, problems(plan, files)))


@real
def test_order_by_hosts_overloads_links():
    plan = rails(16, 8, 4, 4)
    files = made(plan, "updn")
    assert texts(prove(plan, "", files)) == ""
    files[opensm_files.ORDER] = "".join(f"0x{one.port_guid}\n" for one in plan.hcas.values())
    found = prove(plan, "", files)
    assert "times the mean load" in texts(found, routing_proof.ROUTES)
    assert "so the order is not leaf by leaf" in "\n".join(map(str, problems(plan, files)))


@real
def test_a_missing_uplink_is_named():
    uplink = next(link for link in SMALL.links if link.kind == "leaf-spine")
    actual = replace(SMALL, links=[link for link in SMALL.links if link is not uplink])
    found = prove(SMALL, "", made(SMALL), actual=actual)
    cause = f"{uplink.a} port {uplink.a_port}: the cable to rack net, {uplink.b} port {uplink.b_port} is missing"
    assert cause in texts(found, routing_proof.CABLE)
    assert cause in texts(found, routing_proof.ROUTES)


@real
@pytest.mark.parametrize("planned", [True, False])
def test_an_hca_on_a_spine_is_named(planned: bool):
    actual = replace(SMALL, hcas=dict(SMALL.hcas), links=list(SMALL.links))
    actual.add(Hca("ufm01", "mlx5_0"))
    actual.links.append(Link("ufm01 mlx5_0", 1, "s1", 20, "host"))
    actual = simulated_plan(actual)
    plan = actual if planned else SMALL
    # Without the list of compute HCAs every HCA is one, as where other ones are listed.
    files = made(plan)
    if not planned:
        files[opensm_files.OPTIONS] = "\n".join(
            line for line in files[opensm_files.OPTIONS].split("\n") if "cn_guid" not in line
        )
    found = prove(plan, "", files, actual=actual)
    assert "ufm01 mlx5_0" in texts(found, routing_proof.ENGINE), texts(found) + found.log
    assert "s1 port 20" in texts(found, routing_proof.ENGINE)
    assert "a switch of tier 2" in texts(found, routing_proof.ENGINE)


@real
def test_what_is_not_self_consistent_is_refused_by_ibsim():
    actual = replace(SMALL, links=[*SMALL.links, replace(SMALL.links[0], b_port=60)])
    assert "ibsim" in texts(prove(SMALL, "", made(SMALL), actual=actual))


def test_a_tool_that_hangs_is_ended(tmp_path):
    with pytest.raises(SimulationError, match=r"sleep 9 did not end in 0\.1 s"):
        simulated_fabric.execute(["sleep", "9"], tmp_path, {}, 0.1)


def test_paths_of_opensm_conf_become_local_and_nothing_else_does():
    text = "root_guid_file /etc/opensm/root_guid.conf\nlog_file /var/log/o\nlmc 0\ndaemon TRUE\nhca_file /x/other\n"
    assert local_conf(text, ["root_guid.conf"], "/t") == (
        "root_guid_file /t/root_guid.conf\nlog_file /t/osm.log\nlmc 0\nhca_file /x/other\n\nforce_log_flush TRUE\n"
    )


@slurm
def test_slurmctld_takes_the_topology_and_its_mutants_are_red():
    topology = tree(SMALL)
    text, there = conf(topology, "22.05"), shown(topology)
    assert prove_topology(text, there, topology.options) == []
    moved = text.replace("Nodes=gpu[0-3]", "Nodes=gpu[0-2]")
    assert moved != text
    found = "\n".join(map(str, prove_topology(moved, there, topology.options)))
    assert "switch u0: slurmctld has it without the nodes gpu3" in found
    (refused,) = prove_topology(text + "SwitchName=a Switches=zz\n", there, topology.options)
    assert "invalid child (zz)" in refused.found
