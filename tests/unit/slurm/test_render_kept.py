"""What lines kept for jobs do to Slurm's files and to the fingerprints of its daemons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm import config_test
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
    wanted = render.wanted(lab(tmp_path, **options))
    assert (wanted["cluster"], wanted["state_save_location"]) == (cluster, state)


@pytest.mark.tools("slurmctld", "scontrol")
def test_slurmctld_accepts_what_stays_where_no_profile_has_gpus(tmp_path: Path):
    lines = [
        f"{NODE} Gres=gpu:h100:8",
        "PartitionName=old Nodes=old1 Default=NO State=DRAIN Hidden=YES",
        PARTITION[:17] + "2",
    ]
    files = render.slurm_files(lab(tmp_path, "22.05", gpus=False), lines, ["NodeName=old1 Name=gpu Type=h100 Count=8"])
    result = config_test.run(files)
    assert result.accepted, result.message
    assert (result.nodes, result.partitions) == (5, 4)
