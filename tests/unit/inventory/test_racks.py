"""The inventory plugin, as Ansible's own inventory manager runs it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import inventory_loader

from ansible_collections.bedplate.cluster.plugins.inventory import racks
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.groups import groups_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts import part_files
from tests.kit import sentences

SENTENCES = Path(__file__).parent / "sentences.txt"

ROOT = Path(__file__).parents[3]
LAB = ROOT / "inventories/lab/lab.bedplate.yml"
TENTHOUSAND = ROOT / "inventories/examples/site-10000/site-10000.bedplate.yml"


@pytest.fixture(autouse=True)
def _mistakes_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they end the command is a matter of test_command.py."""
    monkeypatch.setenv("ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED", "false")


def manager(*sources: Path) -> InventoryManager:
    return InventoryManager(DataLoader(), sources=[str(source) for source in sources])


def names(hosts) -> list[str]:
    return [host.name for host in hosts]


@pytest.fixture
def lab(tmp_path: Path):
    """Return a function that writes the lab's cluster file with something at its end, and returns its path."""

    def write(more: str = "") -> Path:
        path = tmp_path / "lab.bedplate.yml"
        path.write_text(LAB.read_text() + more)
        return path

    return write


def parse(path: Path) -> InventoryData:
    """Run the plugin by itself: the manager would turn its errors into warnings."""
    inventory = InventoryData()
    inventory_loader.get("bedplate.cluster.racks").parse(inventory, DataLoader(), str(path))
    return inventory


def test_groups_of_the_lab():
    groups = {name: sorted(names(group.get_hosts())) for name, group in manager(LAB).groups.items()}
    nodes = ["gpu01", "gpu02", "gpu03", "gpu04"]
    assert groups == {
        "all": ["ctl1", *nodes],
        "ungrouped": [],
        "health_nodes": [],
        "monitoring_servers": [],
        "provision_hosts": [],
        "bedplate": ["ctl1", *nodes],
        "compute_nodes": nodes,
        "gpu_nodes": nodes,
        "gpu_software": nodes,
        "rdma_nodes": nodes,
        "model_sim": nodes,
        "rack_r1": nodes[:2],
        "rack_r2": nodes[2:],
        "partition_gpu": nodes,
        "partition_debug": nodes[:2],
        "slurm_controllers": ["ctl1"],
        "slurm_database": ["ctl1"],
        "slurm_login": ["ctl1"],
        "slurm_rest": ["ctl1"],
        "subnet_managers": [],
        "slurm_script_hosts": [],
    }


def test_a_host_knows_its_groups():
    host = manager(LAB).get_host("gpu01")
    assert host.get_magic_vars()["group_names"] == [
        "bedplate", "compute_nodes", "gpu_nodes", "gpu_software", "model_sim", "partition_debug", "partition_gpu", "rack_r1", "rdma_nodes",
    ]  # fmt: skip


def test_variables_are_few():
    inventory = parse(LAB)
    assert inventory.groups["all"].vars == {
        "bedplate_cluster_file": str(LAB),
        "bedplate_site": "lab",
        "bedplate_cluster": "lab",
    }
    assert [group.name for group in inventory.groups.values() if group.vars] == ["all"]
    for host in inventory.hosts.values():
        assert set(host.vars) == {"ansible_host", "inventory_file", "inventory_dir"}
    assert inventory.hosts["gpu04"].vars["ansible_host"] == "10.213.0.14"


def test_hosts_know_their_source_as_those_of_any_other_plugin(lab):
    path = lab()
    host = manager(path).get_host("gpu04")
    assert (host.vars["inventory_file"], host.vars["inventory_dir"]) == (str(path), str(path.parent))


def test_ten_thousand_nodes_are_all_there():
    inventory = manager(TENTHOUSAND)
    assert len(inventory.hosts) == 10004
    assert names(inventory.get_hosts("rack_r1250")) == [f"gpu{number:05}" for number in range(9993, 10001)]
    assert all(len(host.groups) == 7 for host in inventory.get_hosts("gpu_nodes"))


def test_hosts_join_groups_that_another_source_has_made(tmp_path, lab):
    (tmp_path / "a.yml").write_text(
        "site: {children: {gpu_nodes: {hosts: {gpu01: {colour: red}, old: {}}}}, vars: {here: yes}}\n"
    )
    lab()
    inventory = manager(tmp_path)
    assert sorted(names(inventory.get_hosts("site"))) == ["gpu01", "gpu02", "gpu03", "gpu04", "old"]
    assert "site" in [group.name for group in inventory.get_host("gpu03").get_groups()]
    assert inventory.get_host("gpu01").vars["colour"] == "red"
    assert inventory.get_host("gpu01").vars["ansible_host"] == "10.213.0.11"


def test_refreshing_the_inventory_reads_the_file_again(lab):
    path = lab()
    inventory = manager(path)
    path.write_text(path.read_text().replace("gpu[03-04]", "gpu[03-06]"))
    inventory.refresh_inventory()
    assert "gpu06" in inventory.hosts


def test_constructed_groups_and_variables(lab):
    path = lab(
        """
groups:
  first: name == 'gpu01' and rack.name == 'r1'
  many_gpus: profile is defined and profile.gpus.count > 1
keyed_groups:
  - {key: rack.leaf, prefix: leaf, parent_group: leaves}
compose:
  console: "'ipmi://' ~ fqdn"
"""
    )
    inventory = manager(path)
    assert names(inventory.get_hosts("first")) == ["gpu01"]
    assert len(inventory.get_hosts("many_gpus")) == 4
    assert names(inventory.get_hosts("leaf_leaf_r2")) == ["gpu03", "gpu04"]
    assert len(inventory.get_hosts("leaves")) == 4
    assert inventory.get_host("gpu02").vars["console"] == "ipmi://gpu02.lab.internal"


def test_constructed_expressions_fail_when_strict(lab):
    parse(lab("compose: {x: nothing.here}\n"))
    with pytest.raises(Exception, match="Could not set x"):
        parse(lab("compose: {x: nothing.here}\nstrict: true\n"))


def test_an_inventory_has_one_cluster_file(tmp_path, lab):
    inventory = parse(lab())
    other = tmp_path / "other.bedplate.yml"
    other.write_text(LAB.read_text())
    with pytest.raises(AnsibleParserError, match=rf"{other}: .*lab\.bedplate\.yml") as caught:
        inventory_loader.get("bedplate.cluster.racks").parse(inventory, DataLoader(), str(other))
    sentences.check(
        SENTENCES, "a second cluster file", [str(caught.value).replace(str(tmp_path), "").replace(str(LAB.parent), "")]
    )


@pytest.mark.parametrize(
    ("name", "taken"), [("x.bedplate.yml", True), ("x.bedplate.yaml", True), ("x.yml", False), ("bedplate.yml", False)]
)
def test_files_are_taken_by_their_suffix(tmp_path, name, taken):
    (tmp_path / name).write_text("{}")
    assert inventory_loader.get("bedplate.cluster.racks").verify_file(str(tmp_path / name)) is taken


def test_a_file_that_is_not_there_is_not_taken(tmp_path):
    assert not inventory_loader.get("bedplate.cluster.racks").verify_file(str(tmp_path / "x.bedplate.yml"))


def test_the_error_has_every_mistake(lab):
    path = lab()
    path.write_text(path.read_text().replace("site: lab", "sitee: lab").replace("profile: sim", "profile: simm"))
    with pytest.raises(AnsibleParserError) as caught:
        parse(path)
    first, *mistakes = str(caught.value).splitlines()
    assert first.startswith("3 ")
    sentences.check(SENTENCES, "several mistakes", [first])
    assert [line.removeprefix(f"{path}:").split(": ")[1] for line in mistakes] == [
        "sitee", "racks.r1.profile", "racks.r2.profile",
    ]  # fmt: skip


def state(inventory: InventoryData) -> dict:
    """Return all that Ansible keeps of groups and hosts, orders included."""
    groups = {
        name: (
            names(group.hosts), names(group.get_hosts()), names(group.child_groups), names(group.parent_groups),
            sorted(names(group.get_ancestors())), group.depth, group.priority, group.vars,
        )
        for name, group in inventory.groups.items()
    }  # fmt: skip
    hosts = {name: (names(host.groups), host.vars, host.implicit) for name, host in inventory.hosts.items()}
    return {"groups": groups, "hosts": hosts, "groups_dict": inventory.get_groups_dict()}


@pytest.mark.parametrize("path", [LAB, ROOT / "inventories/examples/pod-32/pod-32.bedplate.yml"])
def test_the_quick_way_leaves_what_ansibles_own_methods_would(path):
    quick, slow = InventoryData(), InventoryData()
    plugin = inventory_loader.get("bedplate.cluster.racks")
    for inventory in (quick, slow):
        inventory.current_source = str(path)
    plugin.parse(quick, DataLoader(), str(path))
    cluster = load(path)
    for name, machine in cluster.machines.items():
        slow.add_host(name)
        slow.set_variable(name, "ansible_host", machine.address)
    for group, members in groups_of(cluster).items():
        slow.add_group(group)
        slow.add_child("all", group)
        for name in members:
            slow.add_host(name, group)
    for key, value in quick.groups["all"].vars.items():
        slow.set_variable("all", key, value)
    for inventory in (quick, slow):
        inventory.reconcile_inventory()
    assert state(quick) == state(slow)


def test_a_host_of_another_source_comes_into_a_group_of_the_cluster_file(lab, tmp_path: Path) -> None:
    more = tmp_path / "more.ini"
    more.write_text("[gpu_nodes]\nguest1\n")
    for sources in ([lab(), more], [more, lab()]):
        groups = manager(*sources).groups
        for name in ("gpu_nodes", "all"):
            assert {"gpu01", "guest1"} <= set(names(groups[name].get_hosts()))


def test_what_tasks_need_is_loaded_before_the_first_fork_and_not_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    loader = SimpleNamespace(get=lambda name, **_options: loaded.append(name))
    monkeypatch.setattr(racks, "filter_loader", loader)
    monkeypatch.setattr(racks, "action_loader", loader)
    part_files.part_file.cache_clear()
    # That of this process may be waiting, too.
    monkeypatch.setattr(racks.PRELOAD, "loaded", True)
    preload = racks.Preload()
    preload.wait()
    preload.wait()
    assert loaded == []
    for _fork in range(2):
        child = os.fork()
        if not child:
            os._exit(len(loaded))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    assert loaded[0] == "bedplate.cluster.slurm_parts"
    assert len(loaded) == 5
    # A fork that reads the parts itself costs half as much again.
    assert part_files.part_file.cache_info().currsize >= len(list(part_files.ROLES.glob("*/parts/*.yml")))


def test_an_interrupt_while_it_is_loaded_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(racks.PRELOAD, "loaded", True)
    monkeypatch.setattr(racks, "filter_loader", SimpleNamespace(get=interrupted))
    child = os.fork()
    if not child:
        racks.Preload().load()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGINT
