"""What scontrol changes in a running slurmctld: values in all spellings, and the table of the options of partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.spelling import FORMS
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live import live_options
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.slurmctld_report import pairs_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import live_expectations
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables.options import canonical
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
# As Slurm 24.11 prints a partition of which slurm.conf has only Nodes, and one with many options.
PLAIN = (
    "PartitionName=plain AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=NO QoS=N/A DefaultTime=NONE "
    "DisableRootJobs=NO ExclusiveUser=NO ExclusiveTopo=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO "
    "MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED NodeSets=n Nodes=n1 PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO "
    "OverSubscribe=NO OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=2 TotalNodes=1 SelectTypeParameters=NONE JobDefaults=(null) "
    "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED TRES=cpu=2,mem=960M,node=1,billing=2"
)
CLUSTER = """
plugin: bedplate.cluster.racks
site: test
cluster: test
networks: {management: {cidr: 10.0.0.0/24, start: 10.0.0.11}}
profiles: {n: {sockets: 1, cores_per_socket: 2, threads_per_core: 1, memory_mib: 1024, reserved_memory_mib: 64}}
racks: {r1: {nodes: "n[1-2]", profile: n}, r2: {nodes: n3, profile: n}}
hosts: {ctl1: {address: 10.0.0.2}}
services: {controllers: [ctl1]}
partitions:
  plain: {nodes: all}
  rich: {nodes: all, max_time: "1-12:00:00", options: {priority: 7, allowgroups: "b,a", Hidden: "true", DefaultTime: 90, State: drain}}
slurm: {version: "24.11"}
"""


@pytest.fixture
def wanted(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "t.bedplate.yml"
    path.write_text(CLUSTER)
    cluster = load(path)
    return {"partitions": live_expectations.partitions(cluster), "features": live_expectations.features(cluster)}


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("time", "1-12:00:00", "36:00:00"),
        ("time", "2160", "1-12"),
        ("time", "UNLIMITED", "infinite"),
        ("time", "-1", "UNLIMITED"),
        ("time", "00:00:30", "1"),
        ("time", "90:30", "91"),
        ("boolean", "YES", "true"),
        ("boolean", "0", "No"),
        ("number", "UNLIMITED", "INFINITE"),
        ("number", "300 sec", "300"),
        ("list", "b,A", "a,b"),
        ("list", "(null)", ""),
        ("word", "Up", "UP"),
        ("word", "N/A", ""),
    ],
)
def test_spellings_of_one_value(kind: str, one: str, other: str) -> None:
    assert FORMS[kind](one) == FORMS[kind](other)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [("time", "1-00:00:00", "1:00:00"), ("time", "60", "UNLIMITED"), ("boolean", "YES", "NO"), ("number", "1", "10"), ("list", "a", "a,b")],
)  # fmt: skip
def test_other_values_stay_others(kind: str, one: str, other: str) -> None:
    assert FORMS[kind](one) != FORMS[kind](other)


def test_every_row_of_the_table_is_an_option_of_slurm_with_a_type_and_unlike_the_others() -> None:
    rows = live_expectations.rows()
    assert len({str(row["option"]) for row in rows}) == len(rows) >= 20
    for row in rows:
        assert set(row) == {"option", "shown", "type", "default"}
        assert canonical("partition", str(row["option"])), row
        assert row["type"] in FORMS
        assert row["shown"] in PLAIN or row["default"] is None, row


def test_a_partition_as_slurm_makes_it_of_its_line_is_no_difference(wanted: dict[str, Any]) -> None:
    assert list(live_options.compare_partitions(wanted["partitions"], {"plain": pairs_of(PLAIN)})) == []


def test_options_that_the_file_states_compare_in_any_case_and_spelling(wanted: dict[str, Any]) -> None:
    rich = PLAIN.replace("AllowGroups=ALL", "AllowGroups=a,b").replace("Hidden=NO", "Hidden=YES")
    rich = rich.replace("MaxTime=UNLIMITED", "MaxTime=1-12:00:00").replace("DefaultTime=NONE", "DefaultTime=01:30:00")
    rich = rich.replace("State=UP", "State=DRAIN").replace("PriorityTier=1", "PriorityTier=7")
    expected = {"rich": wanted["partitions"]["rich"]}
    # `Priority` sets factor and tier, in a way of its own.
    assert list(live_options.compare_partitions(expected, {"rich": pairs_of(rich)})) == []
    found = list(live_options.compare_partitions(expected, {"rich": pairs_of(PLAIN)}))
    assert [one.where for one in found] == [
        f"partition rich {name}" for name in ("AllowGroups", "DefaultTime", "Hidden", "MaxTime", "State")
    ]


@pytest.mark.parametrize(
    ("old", "new", "option"),
    [
        ("State=UP", "State=DOWN", "State"),
        ("MaxTime=UNLIMITED", "MaxTime=00:05:00", "MaxTime"),
        ("PriorityTier=1", "PriorityTier=10", "PriorityTier"),
        ("QoS=N/A", "QoS=high", "QOS"),
        ("AllowGroups=ALL", "AllowGroups=wheel", "AllowGroups"),
        ("RootOnly=NO", "RootOnly=YES", "RootOnly"),
    ],
)
def test_each_change_by_scontrol_is_named_with_how_to_take_it_back(
    wanted: dict[str, Any], old: str, new: str, option: str
) -> None:
    (finding,) = live_options.compare_partitions(wanted["partitions"], {"plain": pairs_of(PLAIN.replace(old, new))})
    assert (finding.kind, finding.where, finding.machine) == ("partition-option", f"partition plain {option}", "Slurm")
    assert finding.found == new.partition("=")[2]
    assert f"partitionname=plain {option}={finding.expected}" in finding.remedy
    assert finding.overridden_by


def test_features_and_weights_of_nodes_that_differ_alike_are_one(wanted: dict[str, Any]) -> None:
    assert wanted["features"] == [
        {"names": "n[1-2]", "features": "n,rack_r1"},
        {"names": "n3", "features": "n,rack_r2"},
    ]
    nodes = {name: {"AvailableFeatures": "rack_r1,n", "Weight": "1"} for name in ("n1", "n2")}
    assert list(live_options.compare_node_options(wanted["features"], nodes)) == []
    nodes = {name: {"AvailableFeatures": "(null)", "Weight": "5"} for name in ("n1", "n2")}
    assert [
        (one.kind, one.where, one.expected, one.found)
        for one in live_options.compare_node_options(wanted["features"], nodes)
    ] == [
        ("node-option", "nodes n[1-2] Features", "n,rack_r1", "(null)"),
        ("node-option", "nodes n[1-2] Weight", "1", "5"),
    ]


def test_an_empty_value_is_one_and_an_absent_one_is_none(wanted: dict[str, Any]) -> None:
    nodes = {"n3": {"AvailableFeatures": ""}, "n1": {}}
    assert [one.where for one in live_options.compare_node_options(wanted["features"], nodes)] == ["node n3 Features"]
    rich = {"rich": {"AllowGroups": ""}}
    found = list(live_options.compare_partitions({"rich": wanted["partitions"]["rich"]}, rich))
    assert [one.where for one in found] == ["partition rich AllowGroups"]


def test_a_debug_level_as_a_number_is_the_one_in_words() -> None:
    config = {"HASH_VAL": "Match", "SlurmctldDebug": "debug", "DebugFlags": "(null)"}
    assert list(live_options.compare_options({"slurmctlddebug": "5"}, config)) == []
    (finding,) = live_options.compare_options({}, config)
    assert (finding.kind, finding.severity) == ("slurm-option", "warning")


def test_a_slurmctld_that_does_not_say_what_it_runs_is_not_taken_for_right() -> None:
    (finding,) = live_options.compare_options({}, {"SlurmctldDebug": "info"})
    assert (finding.kind, finding.severity) == ("not-checked", "notice")
    sentences.check(SENTENCES, "a slurmctld that does not say what it runs", [finding])
