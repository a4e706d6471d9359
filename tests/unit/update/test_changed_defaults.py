"""A default that changed is listed where the cluster does not set it, with its old value, its new one and how to keep the old."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.schema.fields import Field
from ansible_collections.bedplate.cluster.plugins.plugin_utils.update.changed_defaults import (
    ROLE_GROUPS,
    ChangedDefault,
    changed_defaults,
    current,
    latest,
    unset_keys,
)

ROOT = Path(__file__).parents[3]
BASE = (Path(__file__).parents[1] / "cluster/base.yml").read_text()
NODE = {"group_names": ["bedplate", "compute_nodes", "gpu_nodes", "gpu_software", "rdma_nodes"]}
HOSTS: dict[str, dict[str, Any]] = {"n1": NODE, "n2": NODE, "ctl1": {"group_names": ["bedplate", "slurm_controllers"]}}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return cluster_of(tmp_path, BASE)


def cluster_of(directory: Path, text: str) -> Cluster:
    path = directory / "lab.bedplate.yml"
    path.write_text(text)
    return load(str(path))


def edited(part: str, *keys: str, value: Any) -> dict[str, Any]:
    """Return the defaults of this tree with another value, as if an older release had it; None: the release had none."""
    found = copy.deepcopy(current())
    *above, last = keys
    place = found[part]
    for key in above:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return found


def listed(before: dict[str, Any], cluster: Cluster, set_on: dict[str, dict[str, Any]] = HOSTS) -> list[ChangedDefault]:
    return list(changed_defaults(before, current(), cluster, set_on))


def test_without_a_change_nothing_is_listed(cluster: Cluster):
    assert listed(copy.deepcopy(current()), cluster) == []


def test_a_variable_is_listed_with_the_hosts_that_do_not_set_it(cluster: Cluster):
    before = edited("variables", "node_tuning_thp", value="always")
    (one,) = listed(before, cluster, {**HOSTS, "n1": {**NODE, "node_tuning_thp": "madvise"}})
    assert (one.name, one.before, one.now, one.places) == ("node_tuning_thp", "'always'", "'madvise'", ("n2",))
    assert one.keep == "node_tuning_thp: 'always' in group_vars/compute_nodes.yml"


def test_a_role_that_is_switched_off_has_no_default_in_force(cluster: Cluster):
    before = edited("variables", "node_tuning_thp", value="always")
    off = {**HOSTS, "n1": {**NODE, "node_tuning_manage": False}}
    assert [one.places for one in listed(before, cluster, off)] == [("n2",)]
    assert listed(before, cluster, {"n1": {**NODE, "node_tuning_manage": "no"}}) == []


def test_a_variable_of_slurms_rest_service_is_in_force_on_its_hosts(cluster: Cluster):
    before = edited("variables", "slurm_rest_listen", value="127.0.0.1:1")
    rest = {"group_names": ["bedplate", "slurm_controllers", "slurm_rest"]}
    (one,) = listed(before, cluster, {**HOSTS, "ctl2": rest})
    assert (one.places, one.keep) == (("ctl2",), "slurm_rest_listen: '127.0.0.1:1' in group_vars/slurm_rest.yml")


def test_a_variable_that_all_hosts_set_is_not_listed(cluster: Cluster):
    before = edited("variables", "node_tuning_thp", value="always")
    assert (
        listed(
            before,
            cluster,
            {**HOSTS, "n1": {**NODE, "node_tuning_thp": "never"}, "n2": {**NODE, "node_tuning_thp": "madvise"}},
        )
        == []
    )


@pytest.mark.parametrize("value", [None, {}])
def test_a_variable_that_is_new_or_gone_is_no_changed_default(cluster: Cluster, value: Any):
    assert listed(edited("variables", "node_tuning_thp", value=None), cluster) == []
    before = copy.deepcopy(current())
    before["variables"]["slurm_gone"] = value
    assert listed(before, cluster) == []


def test_a_truth_value_is_written_as_yaml_has_it(cluster: Cluster):
    (one,) = listed(edited("variables", "gpu_driver_prove", value=False), cluster)
    assert (one.before, one.now, one.keep) == (
        "false",
        "true",
        "gpu_driver_prove: false in group_vars/gpu_software.yml",
    )


def test_a_key_is_listed_with_each_place_that_leaves_it_out(tmp_path: Path):
    before = edited("keys", "profiles.<name>.threads_per_core", value=2)
    (one,) = listed(before, cluster_of(tmp_path, BASE))
    assert (one.name, one.before, one.now) == ("profiles.<name>.threads_per_core", "2", "1")
    profiles = set(load(str(tmp_path / "lab.bedplate.yml")).profiles)
    assert set(one.places) == {f"profiles.{name}.threads_per_core" for name in profiles}
    assert one.keep == f"{one.places[0]}: 2 in the cluster file"
    stated = BASE.replace("    cores_per_socket:", "    threads_per_core: 1\n    cores_per_socket:")
    assert stated.count("threads_per_core") == len(profiles)
    assert listed(before, cluster_of(tmp_path, stated)) == []


def test_a_key_without_a_value_is_not_set(tmp_path: Path):
    before = edited("keys", "profiles.<name>.threads_per_core", value=2)
    text = BASE.replace("    cores_per_socket:", "    threads_per_core:\n    cores_per_socket:")
    (one,) = listed(before, cluster_of(tmp_path, text))
    assert set(one.places) == {"profiles.gpu8.threads_per_core", "profiles.cpu.threads_per_core"}


SCRIPT = {"file": Field("", default="x"), "seconds": Field("", default=1)}
SCRIPTS = {"scripts": Field("", "list", item=Field("a script", "section", fields=SCRIPT, short="file"))}


@pytest.mark.parametrize(
    ("scripts", "unset"),
    [
        ("a.sh", ["scripts[0].seconds"]),
        (["a.sh", {"seconds": 5}], ["scripts[0].seconds", "scripts[1].file"]),
        ({"file": "a.sh", "seconds": 5}, []),
        (None, []),
    ],
)
def test_a_text_is_the_short_form_of_a_section_and_a_single_element_is_a_list(scripts: object, unset: list[str]):
    assert [place for _key, place in unset_keys(Field("", "section", fields=SCRIPTS), {"scripts": scripts})] == unset


FABRIC = "fabric:\n  spines: [spine1, spine2]\n  rails: 2\n"


def test_keys_of_a_section_that_the_file_leaves_out_are_not_in_force(tmp_path: Path):
    before = edited("keys", "fabric.speed", value="HDR")
    (one,) = listed(before, cluster_of(tmp_path, BASE))
    assert (one.places, one.keep) == (("fabric.speed",), "fabric.speed: 'HDR' in the cluster file")
    assert FABRIC in BASE
    assert listed(before, cluster_of(tmp_path, BASE.replace(FABRIC, ""))) == []


def test_keys_of_a_section_that_is_there_by_default_are_in_force(tmp_path: Path):
    before = edited("keys", "slurm.version", value="23.11")
    text = BASE[: BASE.index("slurm:\n")] + FABRIC
    (one,) = listed(before, cluster_of(tmp_path, text))
    assert one.places == ("slurm.version",)
    assert listed(before, cluster_of(tmp_path, BASE)) == []


@pytest.mark.parametrize(("old", "keep"), [("60", "ResumeTimeout: '60'"), (None, "ResumeTimeout: null")])
def test_an_option_of_slurm_is_listed_also_where_bedplate_did_not_set_it(cluster: Cluster, old: str | None, keep: str):
    before = edited("slurm", "options", "ResumeTimeout", value=old)
    (one,) = listed(before, cluster)
    assert (one.name, one.now) == ("slurm.options.ResumeTimeout", "'1800'")
    assert keep in one.keep


def test_an_option_of_slurm_that_the_file_sets_in_any_case_of_letters_is_not_listed(tmp_path: Path):
    before = edited("slurm", "options", "ResumeTimeout", value="60")
    text = BASE.replace("  options:\n", "  options:\n    resumetimeout: 40\n", 1)
    assert text != BASE
    assert listed(before, cluster_of(tmp_path, text)) == []


def test_a_sysctl_key_is_listed_unless_every_host_sets_it(cluster: Cluster):
    before = edited("sysctl", "vm.swappiness", value="1")
    wish = {**NODE, "node_tuning_sysctl": {"vm.swappiness": None}}
    (one,) = listed(before, cluster, {**HOSTS, "n1": wish, "n2": {**NODE, "node_tuning_sysctl": {"vm.dirty_ratio": 5}}})
    assert (one.name, one.before, one.now, one.places) == ("sysctl vm.swappiness", "'1'", "'10'", ("n2",))
    assert "each node_tuning_sysctl of a group or host" in one.keep
    (one,) = listed(before, cluster)
    assert one.keep == "node_tuning_sysctl: {vm.swappiness: '1'} in group_vars/compute_nodes.yml"
    assert listed(before, cluster, {"n1": wish}) == []


def test_a_template_of_sysctl_keys_sets_none_that_is_known_here(cluster: Cluster):
    before = edited("sysctl", "vm.swappiness", value="1")
    (one,) = listed(before, cluster, {"n1": {**NODE, "node_tuning_sysctl": "{{ {'vm.swappiness': 5} }}"}})
    assert one.places == ("n1",)


STACK = """
gpu_stack:
  os: debian-13
  source: nvidia
  driver: "@DRIVER@"
  keys: {nvidia: keys/nvidia.asc}
"""


@pytest.mark.parametrize(("driver", "count"), [("580", 1), ("580.65.06", 0), ("590", 0)])
def test_a_branch_is_listed_where_its_latest_version_is_another_one(tmp_path: Path, driver: str, count: int):
    before = edited("versions", "driver nvidia debian-13", value=["580.65.06", "590.48.01"])
    found = listed(before, cluster_of(tmp_path, BASE + STACK.replace("@DRIVER@", driver)))
    assert [(one.name, one.before, one.now) for one in found] == [
        ('gpu_stack.driver "580"', "580.65.06", "580.126.09")
    ] * count
    if found:
        assert found[0].keep == 'gpu_stack.driver: "580.65.06" in the cluster file'
        assert found[0].places == ("profile gpu8",)


@pytest.mark.parametrize("versions", [None, ["570.124.06"]])
def test_a_branch_that_one_of_the_releases_does_not_know_is_not_listed(tmp_path: Path, versions: list[str] | None):
    other = edited("versions", "driver nvidia debian-13", value=versions)
    stack = cluster_of(tmp_path, BASE + STACK.replace("@DRIVER@", "580"))
    assert list(changed_defaults(other, current(), stack, HOSTS)) == []
    assert list(changed_defaults(current(), other, stack, HOSTS)) == []


@pytest.mark.parametrize(
    ("branch", "version"), [("4", "4.10.0"), ("4-cuda13", "4.10.0"), ("4.5", "4.5.3"), ("40", "40.1.0"), ("5", "")]
)
def test_the_latest_version_of_a_branch(branch: str, version: str):
    assert latest(["4.5.3", "4.10.0", "40.1.0"], branch) == version


def test_a_branch_of_a_profile_is_kept_in_that_profile(tmp_path: Path):
    before = edited("versions", "driver nvidia debian-13", value=["580.65.06", "590.44.01"])
    text = BASE.replace("  gpu8:\n", '  gpu8:\n    gpu_stack: {driver: "590"}\n', 1) + STACK.replace("@DRIVER@", "580")
    assert text.count("gpu_stack") == 2
    (one,) = listed(before, cluster_of(tmp_path, text))
    assert one.keep == 'profiles.gpu8.gpu_stack.driver: "590.44.01" in the cluster file'


def test_roles_run_on_the_hosts_of_the_playbooks():
    """The table says where a default is in force."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "playbooks/phases").glob("*.yml")):
        for play in yaml.safe_load(path.read_text()):
            for task in play.get("tasks", ()) if path.name != "reboot.yml" else ():
                hosts = play["hosts"]
                groups = re.findall(r"groups\.(\w+)|default\('(\w+)'\)", hosts) if "{{" in hosts else hosts.split(":")
                groups = ["".join(one) for one in groups]
                found.setdefault(task.get("vars", {}).get("__role", ""), set()).update(groups)
    known = {start: set(groups) for start, groups in ROLE_GROUPS.items() if not start.startswith("slurm_")}
    assert known == {role: hosts for role, hosts in found.items() if role in ROLE_GROUPS}
    assert {"node_os", "slurm"} == found.keys() - ROLE_GROUPS.keys() - {""}
