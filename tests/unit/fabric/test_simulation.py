"""Plans that real OpenSM routes as they say on ibsim, and mutants of which each turns the proof red with its cause."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import opensm, proof, simulation
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import (
    Domain,
    Hca,
    Link,
    Partition,
    Plan,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.netfile import with_guids
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.opensm_options import QOS, Choices
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.plan_data import from_data, to_data
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.proof import prove
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.simulation import (
    TOOLS,
    SimulationError,
    local_conf,
    simulated_plan,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.slurm_proof import prove_topology
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.slurm_topology import conf, shown, tree
from tests.unit.fabric.gate import SMALL, Files, drawn, made, rails, real, root_dropped, slurm, texts, tiers, without
from tests.unit.fabric.test_opensm import fabric as with_storage

ROOT = Path(__file__).parents[3]


@real
def test_files_are_made_where_there_are_none_yet():
    plan = rails(hosts=8, rails=2, per_unit=4, spines=4)
    bare = replace(plan, hcas={}, switches={}, managers=[])
    bare.add(*(replace(one, guid="") for one in plan.switches.values()))
    bare.add(*(replace(one, guid="", port_guid="") for one in plan.hcas.values()))
    assert texts(prove(bare, "")) == ""


@real
def test_storage_has_lanes_of_its_own_and_routes_of_compute_are_judged():
    plan = with_storage()
    found = prove(plan, "", opensm.files(with_guids(plan), plan.managers[0], Choices(qos=QOS)))
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
    assert "0x9c0591030001a000" in files[opensm.COMPUTE_LIST]
    assert texts(prove(plan, "", files)) == ""


def zero_x_stripped(files: Files) -> None:
    files[opensm.ROOTS] = files[opensm.ROOTS].replace("0x", "")


def wrong_tier(files: Files) -> None:
    leaves = [one for one in SMALL.switches.values() if one.tier == 1]
    files[opensm.ROOTS] = "".join(f"0x{one.guid}\n" for one in leaves)


def node_guids(files: Files) -> None:
    files[opensm.COMPUTE_LIST] = "".join(f"0x{one.guid}\n" for one in SMALL.hcas.values())


BROKEN = f"0x{SMALL.hcas['gpu1 mlx5_0'].port_guid[:-1]}g"


def malformed_partition(files: Files) -> None:
    guid = SMALL.hcas["gpu1 mlx5_0"].port_guid
    assert f"0x{guid}" in files[opensm.PARTITIONS]
    files[opensm.PARTITIONS] = files[opensm.PARTITIONS].replace(f"0x{guid}", BROKEN)


def unknown_option(files: Files) -> None:
    files[opensm.OPTIONS] += "sweep_intervall 1\n"


def absent_option_file(files: Files) -> None:
    del files[opensm.ROOTS]


MUTANTS: dict[str, tuple[Callable[[Files], None], str, str]] = {
    "root dropped": (root_dropped, proof.ROUTES, "1 of 4 switches of the top tier are not in it: rack net, s4"),
    "0x stripped": (zero_x_stripped, proof.LOG, "is no GUID; allowed: 0x and at most 16 hexadecimal digits"),
    "wrong tier": (wrong_tier, proof.ENGINE, "leaf-u0-r0, which is not of the top tier"),
    "node GUIDs": (node_guids, proof.ENGINE, "its node GUID; the port GUID is to be here"),
    "malformed partition GUID": (malformed_partition, proof.PKEYS, BROKEN),
    "unknown option": (unknown_option, proof.LOG, "opensm.conf: OpenSM does not know the option sweep_intervall"),
    "list is not there": (absent_option_file, proof.LOG, "root_guid_file names root_guid.conf, which is not among"),
}


# An HCA and an uplink of one leaf, and an uplink of another.
LEFT_OUT = without(SMALL, [SMALL.links[0], *(SMALL.links[number] for number in (-16, -6))])


@real
@pytest.mark.parametrize("plan", [SMALL, LEFT_OUT], ids=["whole", "cables left out"])
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_red_and_names_its_cause(name: str, plan: Plan):
    mutate, kind, cause = MUTANTS[name]
    files = made(plan)
    mutate(files)
    found = prove(plan, "", files)
    assert cause in texts(found, kind), texts(found) + found.log


@real
def test_lanes_that_opensm_does_not_set_up_are_told():
    plan = with_guids(with_storage())
    files = opensm.files(plan, plan.managers[0], Choices(qos=QOS))
    # The last one counts for OpenSM as for us; a switch port's own option wins over both.
    files[opensm.OPTIONS] += "qos_ca_sl2vl 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n"
    said = "gpu0 mlx5_0 has the service levels on the lanes 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0 and not 0,1,2,3,0,1,2,3,"
    assert said in texts(prove(plan, "", files), proof.LANES)
    files = {
        **files,
        opensm.OPTIONS: files[opensm.OPTIONS].replace("qos_ca_sl2vl", "qos_ca_vlarb_low 0:7,1:9\nlmc 0 #"),
    }
    assert "gpu0 mlx5_0 has the weights 7,9 and not 192,64,1,1" in texts(prove(plan, "", files), proof.LANES)


@real
def test_roots_of_the_wrong_tier_cut_a_three_tier_fabric_in_two():
    plan = tiers(pods=2, leaves=4, each=4, cores=4)
    files = made(plan)
    assert texts(prove(plan, "", files)) == ""
    files[opensm.ROOTS] = "".join(f"0x{one.guid}\n" for one in plan.switches.values() if one.tier == 2)
    found = prove(plan, "", files)
    assert "SUBNET UP" in found.log
    assert "ERR" not in found.log
    assert "pairs of HCAs cannot reach each other" in texts(found, proof.ROUTES)
    assert "which is not of the top tier" in texts(found, proof.ROUTES)


@real
@pytest.mark.parametrize("seed", [None, 1, 3])
def test_order_by_hosts_overloads_links(seed: int | None):
    plan = rails(16, 8, 4, 4)
    plan = plan if seed is None else drawn(plan, seed)
    files = made(plan, "updn")
    assert texts(prove(plan, "", files)) == ""
    files[opensm.ORDER] = "".join(f"0x{one.port_guid}\n" for one in plan.hcas.values())
    found = prove(plan, "", files)
    assert "times the mean load" in texts(found, proof.ROUTES)
    assert "so the order is not leaf by leaf" in texts(found, proof.ROUTES)


@real
def test_a_missing_uplink_is_named():
    uplink = next(link for link in SMALL.links if link.kind == "leaf-spine")
    there = replace(SMALL, links=[link for link in SMALL.links if link is not uplink])
    found = prove(SMALL, "", made(SMALL), there=there)
    cause = f"{uplink.a} port {uplink.a_port}: the cable to rack net, {uplink.b} port {uplink.b_port} is missing"
    assert cause in texts(found, proof.CABLE)
    assert cause in texts(found, proof.ROUTES)


@real
@pytest.mark.parametrize("planned", [True, False])
def test_an_hca_on_a_spine_is_named(planned: bool):
    there = replace(SMALL, hcas=dict(SMALL.hcas), links=list(SMALL.links))
    there.add(Hca("ufm01", "mlx5_0"))
    there.links.append(Link("ufm01 mlx5_0", 1, "s1", 20, "host"))
    there = simulated_plan(there)
    plan = there if planned else SMALL
    # Without the list of compute HCAs every HCA is one, as where other ones are listed.
    files = made(plan)
    if not planned:
        files[opensm.OPTIONS] = "\n".join(line for line in files[opensm.OPTIONS].split("\n") if "cn_guid" not in line)
    found = prove(plan, "", files, there=there)
    assert "ufm01 mlx5_0" in texts(found, proof.ENGINE), texts(found) + found.log
    assert "s1 port 20" in texts(found, proof.ENGINE)
    assert "a switch of tier 2" in texts(found, proof.ENGINE)


@real
def test_what_is_not_self_consistent_is_refused_by_ibsim():
    there = replace(SMALL, links=[*SMALL.links, replace(SMALL.links[0], b_port=60)])
    assert "ibsim" in texts(prove(SMALL, "", made(SMALL), there=there))


@real
def test_a_plan_of_which_no_files_can_be_made_is_a_finding():
    plan = replace(SMALL, partitions=[Partition("red", 1, {"nobody": "full"})])
    assert "nobody" in texts(prove(plan, ""), proof.SUBNET)
    assert "a/b is no name of a file of OpenSM" in texts(prove(SMALL, "", {**made(SMALL), "a/b": ""}), proof.SUBNET)


def test_a_tool_that_hangs_is_ended(tmp_path):
    with pytest.raises(SimulationError, match=r"sleep 9 did not end in 0\.1 s"):
        simulation.execute(["sleep", "9"], tmp_path, {"PATH": "/bin"}, 0.1)


@pytest.mark.tools(*TOOLS)
def test_an_sm_that_is_not_in_the_plane_is_named():
    files = {**made(SMALL), opensm.OPTIONS: "guid 0x1\n"}
    assert "guid 0x1 is no port of an HCA of this plane" in texts(prove(SMALL, "", files))


def test_paths_of_opensm_conf_become_local_and_nothing_else_does():
    text = "root_guid_file /etc/opensm/root_guid.conf\nlog_file /var/log/o\nlmc 0\ndaemon TRUE\nhca_file /x/other\n"
    assert local_conf(text, ["root_guid.conf"], "/t") == (
        "root_guid_file /t/root_guid.conf\nlog_file /t/osm.log\nlmc 0\nhca_file /x/other\n\nforce_log_flush TRUE\n"
    )


def test_a_plan_is_the_same_after_it_was_data():
    plan = replace(SMALL, domains=[Domain("nvl1", ("gpu0", "gpu1"))])
    assert from_data(json.loads(json.dumps(to_data(plan)))) == plan
    with pytest.raises(ValueError, match="switchs is nothing of a plan; allowed: domains, hcas, kind"):
        from_data({"switchs": []})
    with pytest.raises(ValueError, match=r"not as it was written: .*colour"):
        from_data({"name": "a", "kind": "b", "links": [{"colour": 1}]})


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


@real
@slurm
def test_the_module_proves_in_check_mode_too_and_fails_with_all_findings():
    topology = tree(SMALL)
    slurm = {"topology": conf(topology, "22.05"), "shown": shown(topology), "options": topology.options}
    arguments = {"plan": to_data(SMALL), "planes": [{"plane": "", "files": made(SMALL)}], "slurm": slurm}
    good = module({**arguments, "_ansible_check_mode": True})
    assert good["changed"] is False
    assert good["msg"].startswith("proved: ftree routes 16 HCAs over 8 switches")
    assert good["planes"] == [
        {"plane": "", "engine": "ftree", "hcas": 16, "switches": 8, "imbalance": 1.0, "unreachable": 0, "idle": 0}
    ]
    files = made(SMALL)
    root_dropped(files)
    slurm["topology"] += "SwitchName=a Switches=zz\n"
    bad = module({**arguments, "planes": [{"plane": "", "files": files}], "_ansible_check_mode": False})
    assert bad["failed"]
    assert "rack net, s4; no way goes through them" in bad["msg"]
    assert "invalid child (zz)" in bad["msg"]
    assert {one["kind"] for one in bad["findings"]} == {proof.FILE, proof.ROUTES, "slurm"}


def module(arguments: dict[str, Any]) -> dict[str, Any]:
    name = "ansible_collections.bedplate.cluster.plugins.modules.fabric_simulation"
    done = subprocess.run(
        [sys.executable, "-m", name], input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        cwd=ROOT / "collections", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
