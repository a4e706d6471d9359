"""Huge pages on a node: refused, taken when no job runs, given back when no process uses them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import NOTICE, from_json
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.memory import huge_page_pool
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.memory.memory_floor import MEBIBYTES, Pages
from ansible_collections.bedplate.cluster.plugins.modules import huge_pages
from tests.kit import sentences
from tests.unit.tuning.node import Node

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

BASE = "sys/devices/system/node/node{}/hugepages/hugepages-{}kB"
JOB = ["1 steps of jobs run (slurmstepd)"]


class Kernel:
    """A machine with two NUMA nodes of 4 GiB, whose kernel gives pages out of the memory that is free, and takes none in use."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node, self.root = Node(top), Root(str(top))
        self.free = {0: 3072, 1: 3072}
        self.writes: list[tuple[int, str, int]] = []
        for number, cpus in enumerate(("0-1", "2-3")):
            self.node.numa(number, cpus, 4096, k2048=0, k1048576=0)
        monkeypatch.setattr(huge_page_pool, "_write", self.write)

    def put(self, number: int, size: str, name: str, value: int) -> None:
        self.node.put(f"{BASE.format(number, MEBIBYTES[size] * 1024)}/{name}", f"{value}\n")

    def text(self, number: int, size: str, name: str = "nr_hugepages") -> int:
        return int(self.node.text(f"{BASE.format(number, MEBIBYTES[size] * 1024)}/{name}"))

    def write(self, _root: Root, one: Pages, number: int) -> int:
        self.writes.append((one.node, one.size, number))
        there, each = self.text(one.node, one.size), MEBIBYTES[one.size]
        used = there - self.text(one.node, one.size, "free_hugepages")
        given = min(number, there + self.free[one.node] // each) if number > there else max(number, used)
        self.free[one.node] -= (given - there) * each
        self.put(one.node, one.size, "nr_hugepages", given)
        self.put(one.node, one.size, "free_hugepages", given - used)
        return given

    def apply(self, *wanted: Pages, jobs: Sequence[str] = (), **more: Any) -> huge_page_pool.PoolChange:
        return huge_page_pool.apply(self.root, wanted, 0, lambda: jobs, **more)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(tmp_path, monkeypatch)


def kinds(findings: Sequence[Any]) -> list[tuple[str, str]]:
    return [(one.kind, one.where.removeprefix("huge pages of ")) for one in findings]


def test_pages_are_taken_on_a_node_without_jobs_and_a_second_run_changes_nothing(kernel: Kernel) -> None:
    wanted = [Pages(0, "2M", 100), Pages(1, "2M", 50)]
    before = kernel.apply(*wanted, check=True)
    assert kernel.writes == []
    done = kernel.apply(*wanted)
    assert done.changed == before.changed == [(wanted[1], 0, 50), (wanted[0], 0, 100)]
    assert (kernel.text(0, "2M"), kernel.text(1, "2M")) == (100, 50)
    for jobs in ((), JOB):
        assert kernel.apply(*wanted, jobs=jobs) == huge_page_pool.PoolChange()


@pytest.mark.parametrize("check", [False, True])
def test_pages_wait_while_a_job_runs_and_come_when_it_has_ended(kernel: Kernel, check: bool) -> None:
    wanted = Pages(0, "2M", 100)
    for _run in range(2):
        told = kernel.apply(wanted, jobs=JOB, check=check)
        assert (told.changed, told.refused, kernel.writes) == ([], [], [])
        (waits,) = told.waiting
        assert kinds([waits]) == [("huge-pages-waiting", "2M on NUMA node 0")]
        assert (waits.expected, waits.found, waits.severity) == ("100", "0", NOTICE)
        assert JOB[0] in waits.remedy
        sentences.check(SENTENCES, "pages that wait while a job runs", [waits])
    assert [one.severity for one in huge_page_pool.drift(kernel.root, [wanted], lambda: JOB)] == [NOTICE]
    assert [one.severity for one in huge_page_pool.drift(kernel.root, [wanted])] == ["error"]
    assert kernel.apply(wanted).changed == [(wanted, 0, 100)]


def test_jobs_are_asked_for_before_each_growth(kernel: Kernel) -> None:
    """A job may begin while pages of another NUMA node are taken."""
    answers = iter([[], JOB])
    told = huge_page_pool.apply(kernel.root, [Pages(0, "2M", 10), Pages(1, "2M", 10)], 0, lambda: next(answers))
    assert [one.node for one, _before, _after in told.changed] == [0]
    assert kinds(told.waiting) == [("huge-pages-waiting", "2M on NUMA node 1")]


def test_pages_in_use_are_not_given_back_and_a_job_does_not_hold_up_the_others(kernel: Kernel) -> None:
    kernel.put(0, "2M", "nr_hugepages", 100)
    kernel.put(0, "2M", "free_hugepages", 70)
    wanted = Pages(0, "2M", 10)
    told = kernel.apply(wanted, jobs=JOB)
    assert told.changed == [(wanted, 100, 30)]
    assert kinds(told.waiting) == [("huge-pages-waiting", "2M on NUMA node 0")]
    again = kernel.apply(wanted)
    assert (again.changed, len(again.waiting)) == ([], 1)
    kernel.put(0, "2M", "free_hugepages", 30)
    # Promised to a process that has not touched them yet.
    kernel.node.put("sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "25\n")
    assert kernel.apply(wanted).changed == [(wanted, 30, 25)]
    kernel.node.put("sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "0\n")
    assert kernel.apply(wanted).changed == [(wanted, 25, 10)]


def test_what_one_size_gives_back_another_one_gets(kernel: Kernel) -> None:
    """Whichever size is named first."""
    kernel.apply(Pages(0, "1G", 3), Pages(0, "2M", 0))
    assert kernel.free[0] == 0
    fewer_large = [Pages(0, "2M", 1000), Pages(0, "1G", 0)]
    assert kernel.apply(*fewer_large).refused == []
    assert (kernel.text(0, "2M"), kernel.text(0, "1G")) == (1000, 0)
    assert kernel.apply(Pages(0, "1G", 2), Pages(0, "2M", 0)).refused == []


@pytest.mark.parametrize("check", [False, True])
def test_one_size_does_not_grow_below_the_floor_while_another_one_is_in_use(kernel: Kernel, check: bool) -> None:
    kernel.apply(Pages(0, "1G", 2))
    wanted = [Pages(0, "2M", 1000), Pages(0, "1G", 0)]
    assert kernel.apply(*wanted, check=True).changed == [(wanted[1], 2, 0), (wanted[0], 0, 1000)]
    kernel.put(0, "1G", "free_hugepages", 0)
    told = kernel.apply(*wanted, check=check)
    assert kinds(told.waiting) == [("huge-pages-waiting", f"{size} on NUMA node 0") for size in ("1G", "2M")]
    assert (told.changed, told.refused, kernel.text(0, "2M")) == ([], [], 0)


def test_the_reserve_of_nodes_with_cpus_holds_while_another_size_is_in_use(kernel: Kernel) -> None:
    """6000 MiB are 3000 of each of two NUMA nodes; one with memory alone, as some GPUs bring it, keeps nothing."""
    kernel.node.numa(2, "", 8192)
    kernel.apply(Pages(0, "1G", 1))
    kernel.put(0, "1G", "free_hugepages", 0)
    wanted = [Pages(0, "2M", 500), Pages(0, "1G", 0)]
    outcome = huge_page_pool.apply(kernel.root, wanted, 6000, list)
    assert kinds(outcome.waiting) == [("huge-pages-waiting", f"{size} on NUMA node 0") for size in ("1G", "2M")]
    assert (outcome.changed, kernel.text(0, "2M")) == ([], 0)
    assert huge_page_pool.apply(kernel.root, wanted, 0, list).changed == [(wanted[0], 0, 500)]


def test_too_few_pages_on_a_node_without_jobs_are_a_refusal_and_all_are_put_back(kernel: Kernel) -> None:
    kernel.apply(Pages(0, "2M", 20), Pages(1, "2M", 20), Pages(1, "1G", 1))
    kernel.free[1] = 100
    wanted = [Pages(0, "2M", 30), Pages(1, "2M", 600), Pages(1, "1G", 1)]
    told = kernel.apply(*wanted)
    assert kinds(told.refused) == [("huge-pages-short", "2M on NUMA node 1")]
    assert (told.refused[0].expected, "allocated 70" in told.refused[0].found) == ("600", True)
    assert told.changed == []
    assert [kernel.text(0, "2M"), kernel.text(1, "2M"), kernel.text(1, "1G")] == [20, 20, 1]
    # With a job it is no refusal: nobody asks the kernel.
    assert kernel.apply(*wanted, jobs=JOB).refused == []


def test_caches_are_dropped_and_memory_joined_before_a_shortfall_is_one(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.node.put("proc/sys/vm/compact_memory", "")
    asked = []

    def write(_root: Root, _one: Pages, number: int) -> int:
        asked.append(number)
        return number if kernel.node.text("proc/sys/vm/compact_memory") else 1

    monkeypatch.setattr(huge_page_pool, "_write", write)
    assert kernel.apply(Pages(0, "2M", 100)).refused == []
    assert asked == [100, 100]


@pytest.mark.parametrize(
    ("wanted", "wrong"),
    [
        ([Pages(0, "2M", 1536)], []),
        ([Pages(0, "2M", 1537)], [("huge-pages-floor", "2M on NUMA node 0")]),
        ([Pages(2, "2M", 1)], [("huge-pages-place", "2M on NUMA node 2")]),
        ([Pages(2, "2M", 0)], []),
        ([Pages(0, "2M", 1), Pages(1, "1G", 1)], [("huge-pages-place", "1G on NUMA node 1")]),
    ],
)
def test_what_the_machine_cannot_have_is_refused_before_anything_is_taken(
    kernel: Kernel, wanted: list[Pages], wrong: list[tuple[str, str]]
) -> None:
    (kernel.node.top / BASE.format(1, 1048576) / "nr_hugepages").unlink()
    (kernel.node.top / BASE.format(1, 1048576) / "free_hugepages").unlink()
    kernel.node.top.joinpath(BASE.format(1, 1048576)).rmdir()
    for jobs in ((), JOB):
        told = kernel.apply(*wanted, jobs=jobs, check=True)
        assert kinds(told.refused) == wrong
    assert kernel.writes == []


def test_pages_that_the_kernel_has_already_are_not_refused(kernel: Kernel) -> None:
    """Another kernel counts some MiB less memory: the node has booted, and its unit must not keep slurmd from starting."""
    kernel.put(0, "2M", "nr_hugepages", 1540)
    assert kernel.apply(Pages(0, "2M", 1540)).refused == []
    assert kinds(kernel.apply(Pages(0, "2M", 1541)).refused) == [("huge-pages-floor", "2M on NUMA node 0")]


def test_pages_that_nobody_names_count_while_the_kernel_has_them(kernel: Kernel) -> None:
    kernel.put(0, "1G", "nr_hugepages", 2)
    wanted = Pages(0, "2M", 1000)
    assert kinds(kernel.apply(wanted).refused) == [("huge-pages-floor", "2M on NUMA node 0")]
    told = kernel.apply(wanted, at_boot=True)
    assert (told.refused, kinds(told.waiting), kernel.writes) == ([], [("huge-pages-waiting", "2M on NUMA node 0")], [])


def test_a_node_without_memory_or_cpus_of_its_own_is_refused(kernel: Kernel) -> None:
    kernel.node.put("sys/devices/system/node/node1/meminfo", "")
    assert kinds(kernel.apply(Pages(1, "2M", 1)).refused) == [("huge-pages-place", "2M on NUMA node 1")]
    kernel.node.numa(1, "", 4096, k2048=0)
    assert kinds(kernel.apply(Pages(1, "2M", 1)).refused) == [("huge-pages-place", "2M on NUMA node 1")]


def call(capsys: pytest.CaptureFixture[str], kernel: Kernel, count: int, **arguments: Any) -> dict[str, Any]:
    rows = [{"node": 0, "size": "2M", "count": count}]
    given = {"pages": rows, "sysroot": str(kernel.node.top), "machine": "n1", **arguments}
    with patch_module_args(given), pytest.raises(SystemExit):
        huge_pages.main()
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_module_refuses_waits_and_takes(
    kernel: Kernel, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _module, text: said.append(text))
    refused = call(capsys, kernel, 1900)
    assert refused["failed"]
    assert [(one["kind"], one["machine"]) for one in refused["findings"]] == [("huge-pages-floor", "n1")]
    sentences.check(SENTENCES, "pages below the floor", [refused["msg"]])
    assert all(text in refused["msg"] for text in ("n1", "NUMA node 0", "1900", "4096 MiB", "1024 MiB", "at most 1536"))
    kernel.node.put("proc/42/comm", "slurmstepd\n")
    for _run in range(2):
        waits = call(capsys, kernel, 100)
        (waiting,) = from_json(waits["findings"])
        assert (waits["changed"], waiting.kind, waiting.machine) == (False, "huge-pages-waiting", "n1")
        assert said.pop() == str(waiting)
    kernel.node.put("proc/42/comm", "slurmd\n")
    boot = {"pages_at": "boot", "pending": ["hugepages=0:100"]}
    assert not call(capsys, kernel, 100, **boot)["changed"]
    told = call(capsys, kernel, 100, _ansible_check_mode=True, _ansible_diff=True)
    assert (told["changed"], kernel.writes) == (True, [])
    assert [(one["before"], one["after"]) for one in told["diff"]] == [("0\n", "100\n")]
    kernel.node.put("run/systemd/container", "podman\n")
    contained = call(capsys, kernel, 1900)
    assert (contained["changed"], contained.get("failed")) == (False, None)
    (kernel.node.top / "run/systemd/container").unlink()
    # The boot was to bring them and did not.
    kernel.node.put("proc/cmdline", "quiet hugepages=0:100\n")
    assert call(capsys, kernel, 100, **boot)["changed"]
    assert not call(capsys, kernel, 100)["changed"]
    # Tokens of an earlier choice do not put off what is to be taken now.
    kernel.node.put("proc/cmdline", "quiet\n")
    assert call(capsys, kernel, 120, pending=["hugepages=0:120"])["changed"]
    # The profile's reserve: 6000 of 8192 MiB leave this NUMA node 1096 MiB for pages.
    assert not call(capsys, kernel, 548, reserve_mib=6000).get("failed")
    assert call(capsys, kernel, 549, reserve_mib=6000)["failed"]


def test_pages_of_which_the_kernel_does_not_say_whether_they_are_free_are_in_use(kernel: Kernel) -> None:
    kernel.put(0, "2M", "nr_hugepages", 100)
    (kernel.node.top / BASE.format(0, 2048) / "free_hugepages").unlink()
    outcome = kernel.apply(Pages(0, "2M", 10))
    assert (outcome.changed, kinds(outcome.waiting), kernel.writes) == (
        [],
        [("huge-pages-waiting", "2M on NUMA node 0")],
        [],
    )


def test_a_size_of_another_kernel_and_pages_of_another_numa_node_do_not_count(kernel: Kernel) -> None:
    kernel.node.put("sys/devices/system/node/node0/hugepages/hugepages-64kB/nr_hugepages", "900\n")
    kernel.put(1, "1G", "nr_hugepages", 4)
    kernel.put(1, "1G", "free_hugepages", 0)
    assert kernel.apply(Pages(0, "2M", 10)).changed == [(Pages(0, "2M", 10), 0, 10)]


def test_a_kernel_that_refuses_a_number_has_given_none(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()

    def refuses(_path: Path, _text: str) -> int:
        raise OSError(22, "Invalid argument")

    kernel.put(0, "2M", "nr_hugepages", 3)
    monkeypatch.setattr(Path, "write_text", refuses)
    assert huge_page_pool._write(kernel.root, Pages(0, "2M", 10), 10) == 3


def test_drift_tells_what_waits_what_is_short_and_what_nobody_wants_apart(kernel: Kernel) -> None:
    def found(*wanted: Pages) -> list[tuple[str, str, str, str, bool]]:
        rows = huge_page_pool.drift(kernel.root, wanted, lambda: JOB)
        return [(one.kind, one.expected, one.found, one.severity, one.reboot) for one in rows]

    kernel.put(0, "2M", "nr_hugepages", 100)
    kernel.put(0, "2M", "free_hugepages", 70)
    assert found(Pages(0, "2M", 10)) == [("huge-pages-waiting", "10", "100", NOTICE, False)]
    assert found(Pages(0, "2M", 50)) == [("huge-pages", "50", "100", "error", True)]
    # No job ever ends that would bring a size that the machine does not have.
    ((kind, expected, _none, severity, reboot),) = found(Pages(7, "2M", 5), Pages(0, "2M", 100))
    assert (kind, expected, severity, reboot) == ("huge-pages", "5", "error", True)
    sentences.check(SENTENCES, "pages of a size that the machine does not have", [_none])
    assert found() == [("huge-pages", "0", "100", "error", False)]
