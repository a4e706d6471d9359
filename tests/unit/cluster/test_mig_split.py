"""MIG in the cluster file: what Slurm is told of it, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import config_trial
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import render
from tests.kit import sentences

SENTENCES = Path(__file__).parent / "sentences.txt"

FILE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24}}
profiles:
  split:
    gpus:
      model: MODEL
      count: COUNT
      detect: DETECT
      mig: MIG
    sockets: 1
    cores_per_socket: 8
    memory_mib: 2048
  whole: {gpus: {model: a100, count: 2}, sockets: 1, cores_per_socket: 2, memory_mib: 1024}
racks:
  r1: {nodes: 'gpu[1-2]', profile: split}
  r2: {nodes: old1, profile: whole}
hosts: {ctl1: {address: 10.0.0.10}}
services: {controllers: [ctl1], database: [ctl1]}
slurm: {version: "VERSION"}
partitions: {all: {nodes: all, default: true}}
"""
MIXED = "[{3g.40gb: 2}, {1g.10gb: 6, 1g.10gb+me: 1}, {}, {}]"
LINE = FILE.splitlines().index("      mig: MIG") + 1


def write(
    tmp_path: Path, mig: str, model: str = "h100", count: int = 4, detect: str = "nvml", version: str = "24.11"
) -> Path:
    text = FILE.replace("MODEL", model).replace("COUNT", str(count)).replace("DETECT", detect)
    path = tmp_path / "c.bedplate.yml"
    path.write_text(text.replace("MIG", mig).replace("VERSION", version))
    return path


def files(tmp_path: Path, *args: Any, **keys: Any) -> dict[str, str]:
    return render.slurm_files(load(write(tmp_path, *args, **keys)))


def mistakes(tmp_path: Path, *args: Any, **keys: Any) -> list[tuple[int, str, str]]:
    with pytest.raises(ClusterFileError) as error:
        load(write(tmp_path, *args, **keys))
    return [(one.line, one.where, one.message) for one in error.value.mistakes]


def gres(told: dict[str, str]) -> list[str]:
    lines = [line for line in told["slurm.conf"].splitlines() if line.startswith("NodeName=")]
    return [word.removeprefix("Gres=") for line in lines for word in line.split() if word.startswith("Gres=")]


def test_instances_are_gres_types_beside_whole_gpus(tmp_path: Path) -> None:
    told = files(tmp_path, MIXED)
    assert gres(told) == ["gpu:h100:2,gpu:3g.40gb:2,gpu:1g.10gb:7", "gpu:a100:2"]
    assert "NodeName=gpu[1-2] AutoDetect=nvml\n" in told["gres.conf"]
    assert "NodeName=old1 Name=gpu Type=a100 File=/dev/nvidia[0-1]\n" in told["gres.conf"]
    assert "\nGresTypes=gpu\n" in told["slurm.conf"]
    assert "\nAccountingStorageTRES=gres/gpu,gres/gpu:3g.40gb,gres/gpu:1g.10gb\n" in told["slurm.conf"]


def test_without_a_database_nothing_is_accounted(tmp_path: Path) -> None:
    path = write(tmp_path, MIXED)
    path.write_text(path.read_text().replace(", database: [ctl1]", ""))
    configuration = render.slurm_files(load(path))["slurm.conf"]
    assert "\nGresTypes=gpu\n" in configuration
    assert "AccountingStorageTRES" not in configuration


def test_one_layout_is_for_all_gpus_of_the_node(tmp_path: Path) -> None:
    assert gres(files(tmp_path, "{1g.10gb: 7}"))[0] == "gpu:1g.10gb:28"
    assert load(tmp_path / "c.bedplate.yml").profiles["split"].gpus.mig == (("1g.10gb",) * 7,) * 4


def test_all_gpus_whole_is_a_layout_too_and_says_nothing_to_slurm(tmp_path: Path) -> None:
    told = files(tmp_path, "{}", detect="explicit")
    assert gres(told)[0] == "gpu:h100:4"
    assert "\nAccountingStorageTRES=gres/gpu\n" in told["slurm.conf"]
    assert load(tmp_path / "c.bedplate.yml").profiles["split"].gpus.mig == ((), (), (), ())


def test_a_type_that_slurmd_names_differently_can_be_said(tmp_path: Path) -> None:
    told = files(tmp_path, "{3g.40gb: 2}\n      mig_types: {3g.40gb: 3g.39gb}", model="a100")
    assert gres(told)[0] == "gpu:3g.39gb:8"


@pytest.mark.tools("slurmctld", "scontrol")
@pytest.mark.parametrize("mig", [MIXED, "{1g.10gb: 7}"])
def test_the_slurmctld_of_this_machine_reads_it(tmp_path: Path, mig: str) -> None:
    told = files(tmp_path, mig, version="22.05")
    result = config_trial.run(told)
    assert (result.tested, result.accepted, result.fatal, result.errors) == (True, True, [], []), result.log
    assert result.nodes == 3


@pytest.mark.parametrize(
    ("keys", "where", "line", "values"),
    [
        (
            {"mig": "{1g.10gb: 7}", "detect": "explicit"},
            "profiles.split.gpus.detect",
            LINE - 1,
            ["'explicit'", "`mig`", "`detect: nvml`"],
        ),
        ({"mig": "{1g.10gb: 7}", "detect": "nvidia"}, "profiles.split.gpus.detect", LINE - 1, ["'nvidia'"]),
        (
            {"mig": "{1g.5gb: 7}"},
            "profiles.split.gpus.mig.1g.5gb",
            LINE,
            ["h100", "'1g.5gb'"],
        ),
        ({"mig": "{7: 1g.10gb}"}, "profiles.split.gpus.mig", LINE, ["7 "]),
        ({"mig": "{1g.10gb: 8}"}, "profiles.split.gpus.mig", LINE, ["8 ", "7."]),
        (
            {"mig": "{3g.40gb: 2, 1g.10gb: 1}"},
            "profiles.split.gpus.mig",
            LINE,
            ["2 of 3g.40gb, 1 of 1g.10gb", "h100 of 80 GB: 1g.10gb (7)"],
        ),
        (
            {"mig": "[{1g.10gb: 7}, {4g.40gb: 2}, {}, {}]"},
            r"profiles.split.gpus.mig[1]",
            LINE,
            ["2 of 4g.40gb"],
        ),
        ({"mig": "[{}, {1g.10gb: 1}]"}, "profiles.split.gpus.mig", LINE, ["2 layouts", "'count'", " 4"]),
        (
            {"mig": "{1g.10gb: 7}", "model": "l40s"},
            "profiles.split.gpus.mig",
            LINE,
            ["'l40s'", "a30, a100, h100"],
        ),
        ({"mig": "{1g.10gb: 7}", "model": "b300"}, "profiles.split.gpus.mig", LINE, ["'b300'"]),
        (
            {"mig": "[{1g.5gb: 7}, {3g.40gb: 2}, {}, {}]", "model": "a100"},
            "profiles.split.gpus.mig",
            LINE,
            ["a100 of 40 GB", "a100 of 80 GB"],
        ),
        (
            {"mig": "{1g.10gb: 7}\n      mig_types: {3g.40gb: 3g.39gb}"},
            "profiles.split.gpus.mig_types.3g.40gb",
            LINE + 1,
            ["`mig`", "'3g.40gb'"],
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_mistake_with_its_line(
    tmp_path: Path, keys: dict[str, Any], where: str, line: int, values: list[str]
) -> None:
    ((found_line, found_where, told),) = mistakes(tmp_path, **keys)
    assert (found_where, found_line) == (where, line), told
    assert [value for value in values if value not in told] == []
    sentences.check(SENTENCES, f"MIG: {', '.join(keys.values())}".replace("\n", " "), [told])


def test_a_name_that_would_swallow_instances_is_refused(tmp_path: Path) -> None:
    stack = 'gpu_stack: {os: debian-13, source: debian, driver: "550", model: h100}\n'
    path = write(tmp_path, "[{1g.10gb: 7}, {}, {}, {}]", model="nvidia_h100")
    path.write_text(path.read_text() + stack)
    with pytest.raises(ClusterFileError, match=r"profiles\.split\.gpus\.model: .*'nvidia_h100'.* 7") as caught:
        load(path)
    sentences.check(SENTENCES, "a name that would swallow instances", [caught.value.mistakes[0].message])
