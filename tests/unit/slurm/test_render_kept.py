"""What lines kept for jobs do to Slurm's files and to the fingerprints of its daemons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import config_trial
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.conf_reader import nodes_of, parse
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import render

LAB = Path(__file__).parents[3] / "inventories/lab/lab.bedplate.yml"
NODE = "NodeName=old1 NodeAddr=10.213.0.99 CPUs=2"
PARTITION = "PartitionName=old Default=NO State=DRAIN Hidden=YES"


def lab(directory: Path, version: str = "24.11", gpus: bool = True, **options: Any) -> Cluster:
    data = yaml.safe_load(LAB.read_text())
    data["slurm"]["version"] = version
    data["slurm"]["options"].update(options)
    if not gpus:
        del data["profiles"]["sim"]["gpus"]
    path = directory / f"{len(list(directory.iterdir()))}.bedplate.yml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return load(str(path))


@pytest.mark.parametrize(
    ("gpus", "options", "lines", "wanted"),
    [
        (True, {}, [NODE], ("gpu", "gres/gpu")),
        (True, {}, [f"{NODE} Gres=gpu:h100:8"], ("gpu", "gres/gpu")),
        (False, {}, [NODE], (None, None)),
        (False, {}, [f"{NODE} Gres=gpu:h100:8"], ("gpu", "gres/gpu")),
        (False, {}, [f"{NODE} Gres=gpu:2,shard:4", f"{NODE} Gres=gpu:1"], ("gpu,shard", "gres/gpu")),
        (True, {}, [f"{NODE} gres=shard:4"], ("gpu,shard", "gres/gpu")),
        (True, {"grestypes": "gpu,mps"}, [f"{NODE} Gres=shard:4"], ("gpu,mps,shard", "gres/gpu")),
        (True, {"GresTypes": ["gpu", "mps"]}, [f"{NODE} Gres=mps:4"], ("gpu,mps", "gres/gpu")),
        (False, {"GresTypes": None}, [f"{NODE} Gres=gpu:4"], ("gpu", "gres/gpu")),
        (False, {"AccountingStorageTRES": "gres/x"}, [f"{NODE} Gres=gpu:4"], ("gpu", "gres/x")),
    ],
)
def test_a_node_that_stays_keeps_its_kind_of_gres(
    tmp_path: Path, gpus: bool, options: dict[str, Any], lines: list[str], wanted: tuple[str | None, str | None]
):
    text = render.slurm_files(lab(tmp_path, gpus=gpus, **options), lines)["slurm.conf"]
    pairs = dict(line.split("=", 1) for line in text.lower().splitlines() if "=" in line)
    assert (pairs.get("grestypes"), pairs.get("accountingstoragetres")) == wanted
    assert text.lower().count("grestypes=") == (wanted[0] is not None)


# what changes between two runs -> the daemons that are restarted for it
@pytest.mark.parametrize(
    ("version", "before", "after", "restarts"),
    [
        ("24.11", [NODE], [], set()),
        ("23.11", [NODE], [], set()),
        ("23.02", [NODE], [], {"slurmctld"}),
        ("22.05", [NODE], [], {"slurmctld"}),
        ("22.05", [], [NODE], {"slurmctld"}),
        ("22.05", [NODE], [NODE], set()),
        ("22.05", [PARTITION], [], set()),
        ("22.05", [NODE, PARTITION], [NODE], set()),
    ],
)
def test_dropping_a_node_that_stayed_restarts_what_a_reconfigure_cannot_do(
    tmp_path: Path, version: str, before: list[str], after: list[str], restarts: set[str]
):
    cluster = lab(tmp_path, version)
    one, other = (render.daemon_files(cluster, lines) for lines in (before, after))
    assert {daemon for daemon in one if one[daemon] != other[daemon]} == restarts


@pytest.mark.parametrize(
    ("options", "cluster", "state"),
    [
        ({}, "lab", "/var/lib/slurm/slurmctld"),
        ({"statesavelocation": "/shared/state"}, "lab", "/shared/state"),
    ],
)
def test_what_jobs_belong_to_is_what_slurm_conf_will_say(
    tmp_path: Path, options: dict[str, Any], cluster: str, state: str
):
    wanted = render.desired_state(lab(tmp_path, **options))
    assert (wanted["cluster"], wanted["state_save_location"]) == (cluster, state)


@pytest.mark.tools("slurmctld", "scontrol")
def test_slurmctld_accepts_what_stays_where_no_profile_has_gpus(tmp_path: Path):
    lines = [
        f"{NODE} Gres=gpu:h100:8",
        "PartitionName=old Nodes=old1 Default=NO State=DRAIN Hidden=YES",
        PARTITION[:17] + "2",
    ]
    files = render.slurm_files(lab(tmp_path, "22.05", gpus=False), lines, ["NodeName=old1 Name=gpu Type=h100 Count=8"])
    result = config_trial.run(files)
    assert result.accepted, result.message
    assert (result.nodes, result.partitions) == (5, 4)


def test_options_that_end_jobs_go_to_the_controllers_with_their_values(tmp_path: Path):
    def rows(**options: Any) -> dict[object, object]:
        return {row["option"]: row["value"] for row in render.guarded(lab(tmp_path, **options))}

    assert "SlurmdTimeout" not in rows()
    assert "SlurmdTimeout" not in rows(SlurmdTimeout=300)
    assert "SlurmdTimeout" not in rows(SlurmdTimeout=0)
    assert rows(slurmdtimeout=2)["SlurmdTimeout"] == "2"
    assert rows(maxjobcount=50)["MaxJobCount"] == "50"
    assert rows()["MaxJobCount"] == ""
    assert "StateSaveLocation" not in rows(StateSaveLocation="/x")


def test_a_kept_line_replaces_that_of_its_node_in_both_files(tmp_path: Path):
    cluster = lab(tmp_path)
    names = [node.name for node in cluster.nodes]
    kept = f"NodeName={names[1]} NodeAddr=10.0.0.9 CPUs=2 Gres=gpu:old:2 # kept by bedplate until its jobs end"
    files = render.slurm_files(cluster, [kept], [f"NodeName={names[1]} Name=gpu Type=old File=/dev/nvidia[0-1]"])
    conf = parse(files["slurm.conf"])
    assert sorted(nodes_of(conf)) == sorted(names)
    assert nodes_of(conf)[names[1]]["Gres"] == "gpu:old:2"
    # Slurm refuses a node that has two lines.
    assert sorted(name for pairs in conf.records("NodeName") for name in expand(pairs["NodeName"])) == sorted(names)
    of_node = [pairs for pairs in parse(files["gres.conf"]).lines if names[1] in expand(pairs["NodeName"])]
    assert [pairs["Type"] for pairs in of_node] == ["old"]
    assert kept in files["slurm.conf"]


def test_instances_of_a_kept_node_stay_counted(tmp_path: Path):
    line = f"{NODE} Gres=gpu:h100:6,gpu:1g.10gb:14"
    assert render.slurm_options(lab(tmp_path), [line])["AccountingStorageTRES"] == "gres/gpu,gres/gpu:1g.10gb"


def test_kept_nodes_are_expected_with_what_they_have(tmp_path: Path):
    group = {"nodes": "gpu02", "gres": "gpu:old:1", "cpus": 8, "memory": 5}
    groups = render.expected(lab(tmp_path), "", [group])["nodes"]
    assert isinstance(groups, list)
    assert [(one["names"], one["gres"], one["cpus"], one["memory"]) for one in groups] == [
        ("gpu[01,03-04]", "gpu:sim:2", 2, 960),
        ("gpu02", "gpu:old:1", 8, 5),
    ]


def test_what_is_counted_is_what_the_lines_say(tmp_path: Path):
    without = render.node_hardware(lab(tmp_path, SlurmdParameters="config_overrides"), "gpu01")
    assert without["devices"] == ["/dev/nvidia0", "/dev/nvidia1"]
    assert "memory" not in without
    shape = render.node_hardware(lab(tmp_path, SlurmdParameters=None), "gpu01")
    assert (shape["sockets"], shape["cores_per_socket"], shape["threads_per_core"], shape["memory"]) == (1, 2, 1, 960)
