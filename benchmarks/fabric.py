# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of the fabric: 16,384 HCAs planned, checked, written and compared; the output of ibnetdiscover for half of them read.

Nothing is run but bedplate's own Python, so the seconds are CPU seconds of this process.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.process import ROOT, Row

sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import ToolOutput
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import parse
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.comparison import comparison_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core import guid_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import planned
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report.fabric_files import written
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import (
    discovery_of,
    ibnetdiscover_text,
    with_guids,
)

T = TypeVar("T")
RAILS, UNIT = 8, 32
# In CPU seconds. One machine is twice as fast at one time as at another: a loop of additions beside each figure tells.
READ, WRITTEN, COMPARED = 0.5, 5.0, 10.0
SITE = """\
plugin: bedplate.cluster.racks
site: large
cluster: large
domain: large.example.org
networks:
  management: {{cidr: 10.64.0.0/16, gateway: 10.64.0.1, start: 10.64.1.1}}
profiles:
  b200x8:
    gpus: {{model: b200, count: 8, detect: nvidia}}
    sockets: 2
    cores_per_socket: 56
    threads_per_core: 2
    memory_mib: 2063000
    nics:
{nics}
racks:
{racks}
hosts:
  ctl1: {{address: 10.64.0.11}}
services: {{controllers: [ctl1], subnet_managers: [gpu00001, gpu00002]}}
partitions:
  gpu: {{nodes: all, default: true}}
slurm: {{version: "25.05"}}
fabric: {{kind: rail-optimised, spines: "spine[001-{spines}]", cores: "core[001-{cores}]", rails: {rails}, uplinks: 32, switch_ports: 64}}
"""


def site(directory: Path, hosts: int) -> Cluster:
    """Return a cluster of scalable units of 32 hosts with eight rails, below two tiers of switches."""
    nics = "\n".join(f"      - {{name: mlx5_{rail}, rail: {rail}}}" for rail in range(RAILS))
    racks = "\n".join(
        f'  r{unit:02}-[1-8]: {{row: R{unit // 8}, leaf: su{unit:02}, nodes: "gpu[{first:05}-{first + UNIT - 1:05}]", profile: b200x8}}'
        for unit, first in enumerate(range(1, hosts + 1, UNIT))
    )
    # As NVIDIA's tables have it: a spine for every 32 HCAs, half as many cores.
    switches = hosts * RAILS // 32
    text = SITE.format(nics=nics, racks=racks, spines=f"{switches:03}", cores=f"{switches // 2:03}", rails=RAILS)
    path = directory / "large.bedplate.yml"
    path.write_text(text)
    cluster = load(path)
    plan = with_guids(plan_of(cluster))
    guid_record.path_of(cluster.path).write_text(guid_record.text_of(guid_record.record_of(plan)))
    return cluster


def additions() -> int:
    """Add ten million numbers, one by one."""
    total = 0
    for number in range(10_000_000):
        total += number
    return total


def cpu(work: Callable[[], T]) -> tuple[float, T]:
    """Return the CPU seconds of a call, and its result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


@dataclass(frozen=True)
class Timing:
    """CPU seconds of a call, and of the additions just before and after it."""

    seconds: float
    loop: float


def timed(work: Callable[[], object], runs: int) -> list[Timing]:
    """Measure some runs."""
    found = []
    for _run in range(runs):
        before = cpu(additions)[0]
        # What is made is let go before the next loop.
        seconds = cpu(lambda: bool(work()))[0]
        found.append(Timing(seconds, (before + cpu(additions)[0]) / 2))
    return found


def rows(runs: int = 3) -> Iterator[Row]:
    """Measure; of several runs the median counts."""
    with tempfile.TemporaryDirectory(prefix="bedplate-benchmark-") as name:
        yield from _read(site(Path(name), 1024), runs)
        yield from _written(site(Path(name), 2048), runs)


def _read(cluster: Cluster, runs: int) -> Iterator[Row]:
    text = ibnetdiscover_text(discovery_of(with_guids(plan_of(cluster))))
    yield _size(f"ibnetdiscover of 8,192 HCAs, {text.count(chr(10)):,} lines", text)
    yield from _times("it is read", timed(lambda: parse(text.split("\n")), runs), READ)


def _written(cluster: Cluster, runs: int) -> Iterator[Row]:
    work = planned(cluster)
    files = written(work)[0]
    yield _size(f"{len(files)} files of 16,384 HCAs", "".join(files.values()))
    for what, text in sorted(files.items(), key=lambda pair: -len(pair[1]))[:4]:
        yield _size(f"  {what}", text)
    yield from _times("they are planned and checked", timed(lambda: planned(cluster), runs))
    yield from _times("their files are written, as by fabric.yml", timed(lambda: written(work), runs), WRITTEN)
    discovered = [ToolOutput("fabric", ibnetdiscover_text(discovery_of(with_guids(plan_of(cluster)))))]
    yield from _times(
        "compared, as by fabric_compare.yml", timed(lambda: comparison_report(cluster, discovered), runs), COMPARED
    )


def _size(what: str, text: str) -> Row:
    return Row(what, len(text.encode()) / 1e6, "MB")


def _times(what: str, times: list[Timing], budget: float | None = None) -> Iterator[Row]:
    """Yield what was measured, and beside it what the loop took just before and after."""
    seconds, loops = sorted(one.seconds for one in times), sorted(one.loop for one in times)
    middle = len(times) // 2
    yield Row(what, seconds[middle], "CPU-s", budget, f"{seconds[0]:.2f}-{seconds[-1]:.2f}")
    spread = f"{loops[0]:.2f}-{loops[-1]:.2f}"
    yield Row("  ten million additions, beside it", loops[middle], "CPU-s", spread=spread)
