"""How much of a NUMA node huge pages leave: the rule, and who refuses what is beyond it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_change import apply_tokens
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_pages import refusals
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_tokens import CmdlineError, parse
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.memory.memory_floor import (
    Pages,
    excesses,
    floor_mib,
    reserve_share,
)
from tests.unit.tuning.machines import ROOT, el9
from tests.unit.tuning.node import Node

GIB = 1024


@pytest.mark.parametrize(
    ("machine_mib", "nodes", "reserve", "floor"),
    [
        (1 * GIB, 1, 20, 512),
        (2 * GIB, 1, 40, 512),  # a virtual machine: 25 %
        (3 * GIB, 1, 61, 768),
        (16 * GIB, 1, 327, 2 * GIB),
        (512 * GIB, 2, 10485, 13108),  # 5 % of 256 GiB
        (2048 * GIB, 8, 41943, 13108),
        (2048 * GIB, 8, 262144, 32 * GIB),  # the reserve's share
        (32 * GIB, 8, 655, 1 * GIB),  # 25 % of 4 GiB
        (64 * GIB, 8, 1310, 2 * GIB),  # where 25 % are 2 GiB
    ],
)
def test_the_floor_of_machines(machine_mib: int, nodes: int, reserve: int, floor: int) -> None:
    each = machine_mib // nodes
    assert floor_mib(each, reserve_share(reserve, each, machine_mib)) == floor


def test_a_reserve_is_shared_by_the_memory_of_the_numa_nodes() -> None:
    memory = {0: 3 * 65536, 1: 65536}
    assert [one.floor for one in excesses(memory, [Pages(0, "1G", 999), Pages(1, "1G", 999)], 40000)] == [30000, 10000]


@pytest.mark.parametrize(("count", "most"), [(12, None), (13, 12), (900, 12)])
def test_what_is_allowed_at_most_is_allowed_and_one_page_more_is_not(count: int, most: int | None) -> None:
    found = excesses({0: 16 * GIB, 1: 16 * GIB}, [Pages(0, "2M", GIB), Pages(0, "1G", count)], 0)
    sizes = {one.pages.size: one.most for one in found}
    assert sizes.get("1G") == most
    if found:
        kinds = {(one.kind, one.where) for one in (one.finding() for one in found)}
        assert kinds == {("huge-pages-floor", f"huge pages of {size} on NUMA node 0") for size in ("2M", "1G")}


def two_nodes(top: Path) -> None:
    for number, cpus in enumerate(("0-1", "2-3")):
        Node(top).numa(number, cpus, 2000)


@pytest.mark.parametrize(
    ("tokens", "wrong"),
    [
        (["hugepagesz=2M", "hugepages=0:744,1:744"], []),
        (["hugepagesz=2M", "hugepages=0:745,1:744"], [("huge-pages-floor", "NUMA node 0")]),
        (["hugepagesz=2M", "hugepages=0:233", "hugepagesz=1G", "hugepages=0:1"], [("huge-pages-floor", "NUMA node 0")]),
        (["hugepagesz=2048K", "hugepages=1488"], []),
        (["hugepagesz=2M", "hugepages=1489"], [("huge-pages-floor", "all NUMA nodes")]),
        (["hugepagesz=2M", "hugepages=2:1"], [("huge-pages-place", "NUMA node 2")]),
        # What the kernel does not take either.
        (["hugepagesz=2M", "hugepages=x:9999"], []),
        (["hugepagesz=2M", "hugepages=many,1:745"], [("huge-pages-floor", "NUMA node 1")]),
    ],
)
def test_tokens_are_compared_with_the_memory_of_each_numa_node(
    tmp_path: Path, tokens: list[str], wrong: list[tuple[str, str]]
) -> None:
    two_nodes(tmp_path)
    found = refusals(Root(str(tmp_path)), parse(tokens))
    assert [(one.kind, one.where.partition(", ")[2]) for one in found] == wrong


def test_tokens_of_a_container_and_of_an_image_are_not_compared(tmp_path: Path) -> None:
    tokens = parse(["hugepagesz=2M", "hugepages=0:745"])
    assert refusals(Root(str(tmp_path)), tokens) == []
    two_nodes(tmp_path)
    assert len(refusals(Root(str(tmp_path)), tokens)) == 1
    (tmp_path / "run/systemd").mkdir(parents=True)
    (tmp_path / "run/systemd/container").write_text("podman\n")
    assert refusals(Root(str(tmp_path)), tokens) == []


def test_a_size_of_which_no_page_is_wanted_is_not_in_excess_and_no_other_has_less_than_none() -> None:
    wanted = [Pages(0, "2M", 8 * GIB), Pages(0, "1G", 0)]
    assert [one.pages.size for one in excesses({0: 16 * GIB}, wanted)] == ["2M"]
    beside = excesses({0: 16 * GIB}, [Pages(0, "2M", 8 * GIB), Pages(0, "1G", 1)])
    assert {one.pages.size: one.most for one in beside}["1G"] == 0


def test_a_machine_without_memory_has_its_whole_reserve_everywhere() -> None:
    assert reserve_share(1000, 0, 0) == 1000


def test_tokens_with_which_the_kernel_runs_are_not_refused(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    (tmp_path / "proc").mkdir(exist_ok=True)
    (tmp_path / "proc/cmdline").write_text("ro hugepagesz=2M hugepages=0:745,1:744 quiet\n")
    root = Root(str(tmp_path))
    assert refusals(root, parse(["hugepagesz=2M", "hugepages=0:745,1:744", "iommu=pt"])) == []
    assert len(refusals(root, parse(["hugepagesz=2M", "hugepages=0:746,1:744"]))) == 1


def test_tokens_below_the_floor_reach_no_file_of_the_boot_loader(tmp_path: Path) -> None:
    machine = el9(tmp_path, ROOT)
    two_nodes(tmp_path)
    before = machine.tree()
    with pytest.raises(CmdlineError) as caught:
        apply_tokens(tmp_path, ["hugepagesz=2M", "hugepages=0:950,1:950"], tmp_path / "var/lib/bedplate", check=False)
    assert machine.tree() == before
    assert len(caught.value.problems) == 2
    assert all(number in caught.value.problems[0] for number in ("2000 MiB", "512 MiB", "1900 MiB", "at most 1488"))
