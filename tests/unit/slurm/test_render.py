"""Slurm's files from cluster files: exact lines, and what changes them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import config_trial
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import cluster_topology, render
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables import conf_text
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables.options import check

ROOT = Path(__file__).parents[3]
LAB = ROOT / "inventories/lab/lab.bedplate.yml"
POD = ROOT / "inventories/examples/pod-32/pod-32.bedplate.yml"
EXAMPLES = sorted((ROOT / "inventories").rglob("*.bedplate.yml"))
Edit = Callable[[dict[str, Any]], None]
Variant = Callable[..., Cluster]


@pytest.fixture
def lab(tmp_path: Path) -> Variant:
    """Return the lab's cluster after some edits, each in a file of its own."""
    base = yaml.safe_load(LAB.read_text())

    def variant(*edits: Edit, version: str = "24.11") -> Cluster:
        data = copy.deepcopy(base)
        data["slurm"]["version"] = version
        for edit in edits:
            edit(data)
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.bedplate.yml"
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return load(str(path))

    return variant


def options(**changes: object) -> Edit:
    return lambda data: data["slurm"]["options"].update(changes)


def rack(name: str, **keys: object) -> Edit:
    def edit(data: dict[str, Any]) -> None:
        data["racks"].setdefault(name, {"profile": "sim"}).update(keys)

    return edit


def profile(**keys: object) -> Edit:
    return lambda data: data["profiles"]["sim"].update(keys)


def slurm_conf(cluster: Cluster, *first: str) -> list[str]:
    """Return the lines of slurm.conf that begin with one of the words."""
    return [line for line in render.slurm_files(cluster)["slurm.conf"].splitlines() if line.startswith(first)]


def body(text: str) -> list[str]:
    assert text.startswith(conf_text.HEADER)
    return text.removeprefix(conf_text.HEADER).splitlines()


LINES = ("SlurmctldHost", "NodeName", "NodeSet", "PartitionName")


def test_the_lines_of_the_lab():
    cluster = load(str(LAB))
    files = render.slurm_files(cluster)
    node = "Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=960 Gres=gpu:sim:2"
    assert slurm_conf(cluster, *LINES) == [
        "SlurmctldHost=ctl1(10.213.0.10)",
        f"NodeName=gpu[01-02] NodeAddr=10.213.0.[11-12] {node} Feature=sim,rack_r1 State=UNKNOWN",
        f"NodeName=gpu[03-04] NodeAddr=10.213.0.[13-14] {node} Feature=sim,rack_r2 State=UNKNOWN",
        "NodeSet=sim Feature=sim",
        "NodeSet=rack_r1 Feature=rack_r1",
        "PartitionName=gpu Nodes=sim Default=YES MaxTime=UNLIMITED",
        "PartitionName=debug Nodes=rack_r1 Default=NO MaxTime=00:30:00",
    ]
    assert body(files["gres.conf"]) == ["NodeName=gpu[01-04] Name=gpu Type=sim File=/dev/nvidia[0-1]"]
    assert body(files["topology.conf"]) == [
        "SwitchName=leaf-r1 Nodes=gpu[01-02]",
        "SwitchName=leaf-r2 Nodes=gpu[03-04]",
        "# spine is spine[01-02]",
        "SwitchName=spine Switches=leaf-r[1-2]",
    ]
    own = "SwitchName=all Nodes=gpu[01-04]"
    assert body(render.slurm_files(cluster, topology_conf=f"{own}\n")["topology.conf"]) == [own]


def test_the_lines_of_the_pod():
    cluster = load(str(POD))
    files = render.slurm_files(cluster)
    # 2063000 MiB, less 16384 MiB of huge pages and a reserve of 2 %.
    node = "Sockets=2 CoresPerSocket=56 ThreadsPerCore=2 RealMemory=2005356 Gres=gpu:h100:8"
    assert slurm_conf(cluster, "SlurmctldHost", "NodeSet", "PartitionName") == [
        "SlurmctldHost=ctl1(10.20.0.11)",
        "SlurmctldHost=ctl2(10.20.0.12)",
        "NodeSet=h100x8 Feature=h100x8",
        "NodeSet=rack_b01 Feature=rack_b01",
        "PartitionName=train Nodes=h100x8 Default=YES MaxTime=7-00:00:00",
        "PartitionName=debug Nodes=rack_b01 Default=NO MaxTime=01:00:00 PriorityTier=10",
    ]
    nodes = slurm_conf(cluster, "NodeName")
    assert len(nodes) == 8
    assert nodes[0] == (
        f"NodeName=gpu[001-004] NodeAddr=10.20.1.[1-4] {node} Feature=h100x8,h100,rack_b01 State=UNKNOWN"
    )
    assert nodes[7] == (
        f"NodeName=gpu[029-032] NodeAddr=10.20.1.[29-32] {node} Feature=h100x8,h100,rack_b08 State=UNKNOWN"
    )
    assert body(files["gres.conf"]) == [
        "NodeName=gpu[001-032] Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-55",
        "NodeName=gpu[001-032] Name=gpu Type=h100 File=/dev/nvidia[4-7] Cores=56-111",
    ]
    assert body(files["topology.conf"]) == [
        "# su1 is su1-r[0-7]",
        "SwitchName=su1 Nodes=gpu[001-032]",
        "# spine is spine[01-04]",
        "SwitchName=spine Switches=su1",
    ]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_own_options_are_all_known_to_slurm(path: Path):
    cluster = load(str(path))
    assert check(cluster.slurm.version, "slurm", render.slurm_options(cluster)) == []
    assert (
        check(
            cluster.slurm.version, "slurmdbd", dict(line.split("=", 1) for line in body(render.slurmdbd_conf(cluster)))
        )
        == []
    )
    cgroup = body(render.slurm_files(cluster)["cgroup.conf"])
    assert check(cluster.slurm.version, "cgroup", dict(line.split("=", 1) for line in cgroup)) == []


def test_huge_pages_and_the_reserve_are_not_for_jobs(lab: Variant):
    cluster = lab(profile(memory_mib=65536, reserved_memory_mib=1000, hugepages={"2M": 512, "1G": 4}))
    assert "RealMemory=59416 " in slurm_conf(cluster, "NodeName")[0]  # 65536 - 1000 - 1024 - 4096


def test_cores_of_the_system_are_the_first_of_each_socket_or_numa_node(lab: Variant):
    shape = {"sockets": 2, "cores_per_socket": 4, "threads_per_core": 2}
    (line, *_) = slurm_conf(lab(profile(**shape, system_cores=1)), "NodeName")
    assert " CPUSpecList=0-1,8-9 " in line
    numa = [{"cores": cores} for cores in ("0-1", "2-3", "4-5", "6-7")]
    (line, *_) = slurm_conf(lab(profile(**shape, system_cores=1, numa=numa)), "NodeName")
    assert " CPUSpecList=0-1,4-5,8-9,12-13 " in line


def test_an_option_of_the_user_replaces_bedplates_whatever_its_case(lab: Variant):
    cluster = lab(options(messagetimeout=77, MailProg=None, PrologFlags=["Alloc", "X11"], TrackWCKey=True))
    lines = slurm_conf(cluster, "")
    assert "messagetimeout=77" in lines
    assert "PrologFlags=Alloc,X11" in lines
    assert "TrackWCKey=YES" in lines
    assert not [line for line in lines if line.startswith(("MessageTimeout", "MailProg"))]


def test_lines_kept_for_jobs_come_last(lab: Variant):
    files = render.slurm_files(
        lab(), ["NodeName=old1 CPUs=2", "PartitionName=old Nodes=old1"], ["NodeName=old1 Name=gpu"]
    )
    assert body(files["slurm.conf"])[-2:] == ["NodeName=old1 CPUs=2", "PartitionName=old Nodes=old1"]
    assert body(files["gres.conf"])[-1] == "NodeName=old1 Name=gpu"


def test_without_a_fabric_there_is_no_topology(lab: Variant):
    cluster = lab(lambda data: data.pop("fabric"))
    assert slurm_conf(cluster, "TopologyPlugin") == []
    assert body(render.slurm_files(cluster)["topology.conf"]) == []


def test_the_topology_is_that_of_the_planned_fabric(lab: Variant):
    """Without NICs there is a leaf for each rack; with them, what the plan of the fabric has, its options included."""

    def bare(data: dict[str, Any]) -> None:
        del data["profiles"]["sim"]["nics"]

    def groups(data: dict[str, Any]) -> None:
        for name, rack in data["racks"].items():
            rack["pod"] = f"g{name}"
        data["fabric"] = {"kind": "dragonfly", "top": "all"}

    without, dragonfly = lab(bare), lab(groups)
    assert body(render.slurm_files(without)["topology.conf"]) == [
        "SwitchName=leaf-r1 Nodes=gpu[01-02]",
        "SwitchName=leaf-r2 Nodes=gpu[03-04]",
        "SwitchName=spine Switches=leaf-r[1-2]",
    ]
    assert slurm_conf(dragonfly, "Topology") == ["TopologyPlugin=topology/tree", "TopologyParam=dragonfly"]
    for cluster in (lab(), without, dragonfly, load(str(POD))):
        planned = cluster_topology.topology_of(cluster)
        assert cluster_topology.options(cluster) == planned.options
        assert {name: int(one["level"]) for name, one in cluster_topology.switches(cluster).items()} == {
            one.name: one.level for one in planned.switches
        }


OWN = """\
# slurm.conf: TopologyPlugin=topology/tree
# slurm.conf: TopologyParam=dragonfly
SwitchName=a Nodes=gpu[01-03]
SwitchName=b Nodes=gpu04,gone1
SwitchName=all Switches=a,b
"""


def test_an_own_topology_brings_its_options_and_is_what_slurm_should_report(lab: Variant):
    """Also on a site that plans no fabric: there nothing else would tell slurmctld to read the file."""
    cluster = lab(lambda data: data.pop("fabric"))
    text = render.slurm_files(cluster, topology_conf=OWN)["slurm.conf"]
    assert "TopologyPlugin=topology/tree\n" in text
    assert "TopologyParam=dragonfly\n" in text
    assert render.expected(cluster, OWN)["topology"] == {
        "a": {"level": "0", "nodes": "gpu[01-03]", "switches": ""},
        "b": {"level": "0", "nodes": "gpu04", "switches": ""},
        "all": {"level": "1", "nodes": "gpu[01-04]", "switches": "a,b"},
    }
    blocks = "BlockName=r1 Nodes=gpu[01-02]\nBlockName=r2 Nodes=gpu[03-04]\nBlockSizes=2\n"
    assert "TopologyPlugin=topology/block\n" in render.slurm_files(cluster, topology_conf=blocks)["slurm.conf"]
    assert set(render.expected(cluster, blocks)["topology"]) == {"r1", "r2"}


def test_slurm_looks_for_gpus_itself_where_the_profile_says_so(lab: Variant):
    cluster = lab(profile(gpus={"model": "h100", "count": 8, "detect": "nvidia"}))
    assert body(render.slurm_files(cluster)["gres.conf"]) == ["NodeName=gpu[01-04] AutoDetect=nvidia"]
    assert "Gres=gpu:h100:8 " in slurm_conf(cluster, "NodeName")[0]


def test_a_node_with_an_exception_has_a_line_of_its_own(lab: Variant):
    cluster = lab(
        rack("r1", nodes="gpu[01-04]", exceptions={"gpu02": {"state": "down", "reason": "GPU 3 lost"}}),
        rack("r2", nodes="gpu[05-06]"),
    )
    lines = slurm_conf(cluster, "NodeName")
    assert [line.split()[:2] for line in lines] == [
        ["NodeName=gpu01", "NodeAddr=10.213.0.11"],
        ["NodeName=gpu02", "NodeAddr=10.213.0.12"],
        ["NodeName=gpu[03-04]", "NodeAddr=10.213.0.[13-14]"],
        ["NodeName=gpu[05-06]", "NodeAddr=10.213.0.[15-16]"],
    ]
    assert lines[1].endswith(' State=DOWN Reason="GPU 3 lost"')
    assert lines[0].endswith(" State=UNKNOWN")


def test_an_address_out_of_the_row_has_a_line_of_its_own(lab: Variant):
    cluster = lab(rack("r1", nodes="gpu[01-02]", exceptions={"gpu02": {"address": "10.213.0.99"}}))
    assert [line.split()[:2] for line in slurm_conf(cluster, "NodeName")][:2] == [
        ["NodeName=gpu01", "NodeAddr=10.213.0.11"],
        ["NodeName=gpu02", "NodeAddr=10.213.0.99"],
    ]


def test_a_name_keeps_its_address_whatever_the_order_in_the_rack(lab: Variant):
    cluster = lab(rack("r1", nodes="gpu[02,01]"))
    addresses = {node.name: node.address for node in cluster.nodes}
    assert [line.split()[:2] for line in slurm_conf(cluster, "NodeName")][:2] == [
        ["NodeName=gpu02", f"NodeAddr={addresses['gpu02']}"],
        ["NodeName=gpu01", f"NodeAddr={addresses['gpu01']}"],
    ]


@pytest.mark.parametrize(
    ("version", "gres", "leaf", "partition"),
    [
        ("24.11", "n[1-2]-a", "n[1-2]-a", "n[1-2]-a"),
        ("23.11", "n[1-2]-a", "n[1-2]-a", "n[1-2]-a"),
        ("22.05", "n1-a,n2-a", "n1-a,n2-a", "n1-a,n2-a"),
    ],
)
def test_hostlists_are_what_the_version_reads(lab: Variant, version: str, gres: str, leaf: str, partition: str):
    def names(data: dict[str, Any]) -> None:
        data["racks"]["r1"]["nodes"] = "n[1-2]-a"
        data["partitions"]["debug"]["nodes"] = "n[1-2]-a"

    cluster = lab(names, version=version)
    files = render.slurm_files(cluster)
    assert body(files["gres.conf"])[0].split()[0] == f"NodeName=gpu[03-04],{gres}"
    assert body(files["topology.conf"])[0] == f"SwitchName=leaf-r1 Nodes={leaf}"
    assert slurm_conf(cluster, "PartitionName=debug")[0].split()[1] == f"Nodes={partition}"


@pytest.mark.parametrize(
    ("edit", "version", "restarts"),
    [
        (options(SlurmctldPort="7000"), "24.11", {"slurmctld", "slurmd", "sackd"}),
        (options(slurmctldport="7000"), "24.11", {"slurmctld", "slurmd", "sackd"}),
        (options(CredType="cred/munge"), "24.11", {"slurmctld", "slurmd", "sackd"}),
        (options(MessageTimeout=99), "24.11", set()),
        (options(MessageTimeout=99), "22.05", set()),
        (rack("r3", nodes="gpu05"), "24.11", set()),
        (rack("r3", nodes="gpu05"), "22.05", {"slurmctld", "slurmd", "sackd"}),
        (options(SelectType="select/linear", SelectTypeParameters=None), "24.11", set()),
        (options(SelectType="select/linear", SelectTypeParameters=None), "22.05", {"slurmctld", "slurmd", "sackd"}),
    ],
)
def test_a_daemon_is_restarted_only_for_what_a_reconfigure_cannot_do(
    lab: Variant, edit: Edit, version: str, restarts: set[str]
):
    before, after = render.daemon_files(lab(version=version)), render.daemon_files(lab(edit, version=version))
    assert {daemon for daemon in before if before[daemon] != after[daemon]} == restarts


@pytest.mark.parametrize(("port", "asked"), [(None, "6817"), (7000, "7000"), ("6820-6823", "6820")])
def test_nodes_ask_at_the_port_of_the_controller(lab: Variant, port: object, asked: str):
    text = render.daemon_files(lab(options(slurmctldport=port)))["slurmd"]
    assert text.splitlines()[-1] == f'SLURMD_OPTIONS="--conf-server 10.213.0.10:{asked}"'


@pytest.mark.parametrize(
    ("services", "host", "parts"),
    [
        ({"rest": ["head1"]}, "head1", ["login", "rest"]),
        ({"login": ["head1"], "rest": ["head1"]}, "head1", ["login", "rest"]),
        ({"login": ["head1"]}, "head1", ["login"]),
        ({"database": ["head1"], "rest": ["head1"]}, "head1", ["database", "login", "rest"]),
        ({"rest": ["ctl1"]}, "ctl1", ["database", "controller", "rest"]),
        ({"rest": ["gpu01"]}, "gpu01", ["compute", "rest"]),
        ({"login": ["gpu01"]}, "gpu01", ["compute"]),
        ({"rest": ["ctl1"]}, "head1", []),
    ],
)
def test_every_part_gets_the_configuration_from_one_daemon(
    lab: Variant, services: dict[str, list[str]], host: str, parts: list[str]
):
    def edit(data: dict[str, Any]) -> None:
        data["hosts"]["head1"] = {"address": "10.213.0.9"}
        data["services"] |= {"login": [], "rest": [], **services}

    assert render.parts(lab(edit), host) == parts


@pytest.mark.tools("slurmctld", "scontrol")
def test_slurmctld_accepts_the_lab(lab: Variant):
    cluster = lab(profile(system_cores=1), version="22.05")
    assert "CPUSpecList=0 " in slurm_conf(cluster, "NodeName")[0]
    result = config_trial.run(render.slurm_files(cluster))
    assert result.accepted, result.message
    assert (result.nodes, result.partitions, result.errors) == (4, 2, [])
    assert [line.split()[:2] for line in result.topology] == [
        ["SwitchName=leaf-r1", "Level=0"],
        ["SwitchName=leaf-r2", "Level=0"],
        ["SwitchName=spine", "Level=1"],
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [(("down", "memory"), ("drain", "memory")), (("drain", "memory"), ("drain", "fan"))],
    ids=["state", "reason"],
)
def test_nodes_with_other_exceptions_share_no_line(lab: Variant, first: tuple[str, str], second: tuple[str, str]):
    stated = {name: {"state": one[0], "reason": one[1]} for name, one in (("gpu02", first), ("gpu03", second))}
    lines = slurm_conf(
        lab(rack("r1", nodes="gpu[01-04]", exceptions=stated), rack("r2", nodes="gpu[05-06]")), "NodeName"
    )
    for name, (state, reason) in (("gpu02", first), ("gpu03", second)):
        (line,) = [one for one in lines if one.startswith(f"NodeName={name} ")]
        assert f"State={state.upper()} Reason={reason}" in line.replace('"', "")


def test_addresses_of_two_networks_share_no_line(lab: Variant):
    stated = {"gpu02": {"address": "10.213.0.200"}, "gpu03": {"address": "10.213.9.201"}}
    data = {"management": {"cidr": "10.213.0.0/16", "start": "10.213.0.11"}}
    cluster = lab(
        lambda one: one["networks"].update(data),
        rack("r1", nodes="gpu[01-04]", exceptions=stated),
        rack("r2", nodes="gpu[05-06]"),
    )
    assert [line.split()[:2] for line in slurm_conf(cluster, "NodeName")][1:3] == [
        ["NodeName=gpu02", "NodeAddr=10.213.0.200"],
        ["NodeName=gpu03", "NodeAddr=10.213.9.201"],
    ]


def without_database(data: dict[str, Any]) -> None:
    del data["services"]["database"]
    data["slurm"].pop("slurmdbd", None)


@pytest.mark.parametrize("name", ["AccountingStorageHost", "accountingstoragehost"])
def test_a_slurmdbd_of_the_site_is_used_for_all_that_one_of_bedplate_is(lab: Variant, name: str):
    """The port is that of the site's slurmdbd.conf, which no file here has."""
    given = {name: "dbd.example.org", "AccountingStoragePort": 7000}
    cluster, own = lab(without_database, options(**given)), lab()
    assert cluster.has_slurmdbd
    assert "database" not in render.parts(cluster, "ctl1")
    found, before = ({k.lower(): v for k, v in render.slurm_options(one).items()} for one in (cluster, own))
    assert found.pop("accountingstorageport") == 7000
    assert found.pop("accountingstoragehost") == "dbd.example.org"
    del before["accountingstoragehost"]
    assert found == before
    assert found["accountingstoragetype"] == "accounting_storage/slurmdbd"


def test_accounts_without_any_slurmdbd_name_both_ways_to_have_one(lab: Variant):
    def accounts(data: dict[str, Any]) -> None:
        data["slurm"]["accounts"] = {"research": {"users": ["root"]}}

    with pytest.raises(ClusterFileError, match=r"services\.database.*slurm\.options\.AccountingStorageHost"):
        lab(without_database, accounts)
    assert lab(without_database, accounts, options(AccountingStorageHost="dbd")).has_slurmdbd
    with pytest.raises(ClusterFileError, match="AccountingStorageType is 'accounting_storage/none'"):
        lab(without_database, options(AccountingStorageHost="dbd", AccountingStorageType="accounting_storage/none"))
