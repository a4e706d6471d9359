"""What is derived from a cluster file that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.notices import notices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.groups import groups_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import cluster_topology
from tests.kit import sentences

SENTENCES = Path(__file__).parent / "sentences.txt"


def addresses(cluster) -> dict[str, str]:
    return {node.name: node.address for node in cluster.nodes}


def test_addresses_are_counted_from_the_start_in_file_order(bench):
    cluster = bench.load()
    assert list(addresses(cluster).values()) == [f"10.0.0.{number}" for number in range(11, 19)]
    assert [node.bmc_address for node in cluster.nodes] == [f"10.0.1.{number}" for number in range(1, 9)]
    assert cluster.machine("ctl1").address == "10.0.0.10"


def test_a_rack_with_an_address_is_counted_from_there_and_so_is_what_follows(bench):
    cluster = bench.load(("    profile: gpu8\n", "    profile: gpu8\n    address: 10.0.0.100\n"))
    assert list(addresses(cluster).values()) == [f"10.0.0.{number}" for number in range(100, 108)]


def test_an_exception_moves_one_node_and_no_other(bench):
    before = addresses(bench.load())
    edit = (
        "        state: drain",
        "        address: 10.0.0.200\n        bmc_address: 10.0.1.200\n        state: drain",
    )
    cluster = bench.load(edit)
    assert addresses(cluster) == {**before, "gpu02": "10.0.0.200"}
    assert cluster.node("gpu02").bmc_address == "10.0.1.200"
    assert cluster.node("gpu03").bmc_address == "10.0.1.3"


def test_counting_leaves_the_gateway_out(bench):
    cluster = bench.load(("    gateway: 10.0.0.1\n", "    gateway: 10.0.0.13\n"))
    assert [addresses(cluster)[f"gpu0{number}"] for number in (1, 2, 3, 4)] == [
        "10.0.0.11", "10.0.0.12", "10.0.0.14", "10.0.0.15",
    ]  # fmt: skip


def test_an_exception_with_state_and_reason(bench):
    cluster = bench.load()
    assert (cluster.node("gpu02").state, cluster.node("gpu02").reason) == ("drain", "GPU 3 lost")
    assert {node.state for node in cluster.nodes if node.name != "gpu02"} == {None}


def test_several_profiles_in_one_rack(bench):
    entries = "    nodes: [{names: 'gpu[01-02]'}, {names: x1, profile: cpu, address: 10.0.0.50}, 'gpu[03-04]']"
    cluster = bench.load(("    nodes: gpu[01-04]", entries))
    rack = [(node.name, node.profile.name, node.address) for node in cluster.nodes if node.rack.name == "r1"]
    assert rack == [
        ("gpu01", "gpu8", "10.0.0.11"),
        ("gpu02", "gpu8", "10.0.0.12"),
        ("x1", "cpu", "10.0.0.50"),
        ("gpu03", "gpu8", "10.0.0.51"),
        ("gpu04", "gpu8", "10.0.0.52"),
    ]


def test_a_rack_range_is_split_evenly_in_order(bench):
    cluster = bench.load(("    profile: cpu\n", "    profile: cpu\n    column: 7\n    leaf: leaf[3-4]\n"))
    assert [(node.name, node.rack.name) for node in cluster.nodes[4:]] == [
        ("cpu01", "b1"), ("cpu02", "b1"), ("cpu03", "b2"), ("cpu04", "b2"),
    ]  # fmt: skip
    assert [(rack.name, rack.column, rack.leaf) for rack in cluster.racks.values()] == [
        ("r1", None, "leaf-r1"), ("b1", 7, "leaf3"), ("b2", 8, "leaf4"),
    ]  # fmt: skip


def test_the_cores_of_each_gpu_follow_from_numa(bench):
    gpus = bench.load().profiles["gpu8"].gpus
    assert gpus.cores == ("0-3",) * 4 + ("4-7",) * 4
    assert gpus.devices[0] == "/dev/nvidia0"
    assert len(gpus.devices) == gpus.count == 8


def test_cores_of_gpus_without_numa(bench):
    text = bench.text()
    numa = text[text.index("    numa:") : text.index("\n    nics:") + 1]
    cluster = bench.load((numa, ""), ("      count: 8", "      count: 8\n      cores: [0, 1, 2, 3, 4, 5, 6, 6-7]"))
    assert cluster.profiles["gpu8"].gpus.cores == ("0", "1", "2", "3", "4", "5", "6", "6-7")


def test_a_profile_says_what_it_leaves_to_jobs(bench):
    profile = bench.load().profiles["gpu8"]
    assert (profile.cpus, profile.hugepages_mib, profile.reserved_memory_mib) == (8, 20, 1000)
    assert bench.load().profiles["cpu"].reserved_memory_mib == 80


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("all", "gpu01 gpu02 gpu03 gpu04 cpu01 cpu02 cpu03 cpu04"),
        ("rack:b2", "cpu03 cpu04"),
        ("rack:b[1-2]", "cpu01 cpu02 cpu03 cpu04"),
        ("profile:cpu", "cpu01 cpu02 cpu03 cpu04"),
        ("model:h100", "gpu01 gpu02 gpu03 gpu04"),
        ("gpu[03,01],gpu01", "gpu01 gpu03"),
        ("[rack:b1, cpu02, gpu04]", "gpu04 cpu01 cpu02"),
    ],
)
def test_a_partition_has_its_nodes_once_in_file_order(bench, selector, names):
    cluster = bench.load(("    nodes: all", f"    nodes: {selector if selector[0] == '[' else repr(selector)}"))
    assert " ".join(cluster.partitions["every"].nodes) == names


def test_groups(bench):
    groups = groups_of(bench.load(("  every:", "  long-jobs:")))
    gpus, cpus = ["gpu01", "gpu02", "gpu03", "gpu04"], ["cpu01", "cpu02", "cpu03", "cpu04"]
    assert groups == {
        "bedplate": ["ctl1", *gpus, *cpus],
        "compute_nodes": [*gpus, *cpus],
        "health_nodes": [],
        "provision_hosts": [],
        "monitoring_servers": [],
        "gpu_nodes": gpus,
        "gpu_software": [],
        "rdma_nodes": gpus,
        "slurm_controllers": ["ctl1"],
        "slurm_database": ["ctl1"],
        "slurm_login": [],
        "slurm_rest": [],
        "subnet_managers": [],
        "slurm_script_hosts": [],
        "model_h100": gpus,
        "rack_r1": gpus,
        "rack_b1": cpus[:2],
        "rack_b2": cpus[2:],
        "partition_gpu": gpus,
        "partition_long_jobs": [*gpus, *cpus],
    }


@pytest.mark.parametrize("keys", ["", " {}", " {row: B, column: 7}", " {nodes: []}"])
def test_a_rack_may_be_there_for_hosts_alone(bench, keys):
    before = bench.load()
    cluster = bench.load(("hosts:\n", f"  b[3-4]:{keys}\nhosts:\n"), ("0.10\n", "0.10\n    rack: b4\n"))
    assert cluster.hosts["ctl1"].rack == "b4"
    assert list(cluster.racks) == ["r1", "b1", "b2", "b3", "b4"]
    assert addresses(cluster) == addresses(before)
    # A switch without nodes is none for Slurm.
    assert cluster_topology.lines(cluster) == cluster_topology.lines(before)
    assert groups_of(cluster) == {**groups_of(before), "rack_b3": [], "rack_b4": []}


def test_a_user_may_keep_capitals_where_slurmdbd_does(bench):
    keep = ("    PurgeJobAfter: 12months", "    parameters: [PreserveCaseUser]")
    assert bench.load(("[alice]", "[Alice]"), keep).slurm.accounts["research"]["users"] == ["Alice"]


def test_a_service_may_name_a_hostlist(bench):
    cluster = bench.load(("  database: [ctl1]", "  database: [ctl1]\n  login: 'cpu[01-02]'"))
    assert cluster.services.login == ("cpu01", "cpu02")


def test_accounts_hold_only_what_is_stated(bench):
    slurm = bench.load().slurm
    assert slurm.accounts == {"research": {"parent": "root", "users": ["alice"], "default_qos": "normal"}}
    assert slurm.options == {"MessageTimeout": 30}


def test_a_null_takes_a_default_away(bench):
    assert bench.load(("MessageTimeout: 30", "DebugFlags: null")).slurm.options == {"DebugFlags": None}


def test_without_slurm_and_fabric(bench):
    text = bench.text()
    bench.path.write_text(text[: text.index("slurm:\n")])
    cluster = load(bench.path)
    assert (cluster.slurm.version, cluster.slurm.accounts, cluster.fabric) == ("24.11", {}, None)


def test_the_fabric(bench):
    fabric = bench.load(("[spine1, spine2]", "'spine[1-3]'")).fabric
    assert (fabric.spines, fabric.top, fabric.rails) == (("spine1", "spine2", "spine3"), "spine", 2)


def test_a_machine_that_is_not_there_is_told_with_the_nearest(bench):
    cluster = bench.load()
    with pytest.raises(KeyError, match=r"'gpu1' .*lab\.bedplate\.yml.* 'gpu01'\?") as unknown:
        cluster.machine("gpu1")
    with pytest.raises(KeyError, match=r"'ctl1' .*lab\.bedplate\.yml") as host:
        cluster.node("ctl1")
    said = [str(one.value.args[0]).replace(str(bench.path.parent), "") for one in (unknown, host)]
    sentences.check(SENTENCES, "a machine that is not there, and a host that is no node", said)


def test_a_merged_key_may_be_overridden(bench):
    merged = "  other:\n    <<: *cpu\n    sockets: 2\n  third: *cpu\nracks:\n"
    profiles = bench.load(("  cpu:\n", "  cpu: &cpu\n"), ("racks:\n", merged)).profiles
    assert (profiles["other"].sockets, profiles["other"].memory_mib, profiles["third"].sockets) == (2, 4000, 1)


def test_a_file_is_read_once(bench):
    assert bench.load() is load(bench.path)
    assert load(str(bench.path)) is load(bench.path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ClusterFileError, match="cannot be read"):
        load(tmp_path / "none.bedplate.yml")


def test_nodes_in_no_partition_are_told(bench):
    assert notices(bench.load()) == []
    (text,) = notices(bench.load(("nodes: all", "nodes: 'cpu[01-03]'")))
    assert " cpu04 " in text
    (more,) = notices(bench.load(("nodes: all", "nodes: cpu01")))
    assert " cpu[02-04] " in more
    assert str(bench.path) in more
    said = [one.replace(str(bench.path.parent), "") for one in (text, more)]
    sentences.check(SENTENCES, "nodes in no partition", said)


def test_a_domain_of_a_rack_needs_nodes_with_a_nic_in_the_fabric(tmp_path: Path):
    text = (Path(__file__).parent / "base.yml").read_text()
    for old, new in (
        ("    memory_mib: 4000\n", "    memory_mib: 4000\n    gpus: {model: h100, count: 1}\n"),
        ("    profile: cpu\n", "    profile: cpu\n    nvlink_domain: 2\n"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = tmp_path / "x.bedplate.yml"
    path.write_text(text)
    with pytest.raises(ClusterFileError) as caught:
        load(str(path))
    (mistake,) = caught.value.mistakes
    assert mistake.where == "racks.b[1-2].nvlink_domain"
    assert "profile 'cpu'" in mistake.message
    sentences.check(SENTENCES, "NVLink domain of a rack whose nodes have no NIC in the fabric", [mistake.message])
