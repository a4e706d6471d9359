"""Two runs of playbooks/scheduler.yml at once, under jobs that arrive: no job is lost, and no edit is lost without a word."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.scenario_site import Site, arriving, edited, output_of

testinfra_hosts = ["ansible://slurm_controllers"]
pytestmark = pytest.mark.full_in("slurm")

OVERRIDES = "    SlurmdParameters: config_overrides\n"
# Seconds between the starts of two runs of about fifteen: they meet before, in and after each one's comparison with Slurm's jobs.
APART = [0, 1, 2, 3, 5, 8]


@pytest.fixture(scope="module", autouse=True)
def _base(tmp_path_factory):
    """Begin with what the scenario says; files of tests before this one have left options of Slurm."""
    Site(tmp_path_factory.mktemp("base")).apply()


@pytest.fixture
def site(host, tmp_path):
    yield from edited(host, tmp_path)


def another(tmp_path) -> Site:
    (tmp_path / "other").mkdir()
    return Site(tmp_path / "other")


def test_a_run_that_is_refused_gives_back_nothing_of_another_that_goes_on(host, site, tmp_path):
    refused = another(tmp_path)
    refused.edit("cluster: molecule\n", "cluster: other\n")
    site.edit("memory_mib: 1024", "memory_mib: 880")
    with arriving(host), ThreadPoolExecutor(1) as pool:
        running = pool.submit(site.run)
        while not running.done():
            done = refused.run()
            assert done.returncode != 0
            assert "`cluster: other`" in output_of(done)
    assert running.result().returncode == 0, running.result().stdout[-6000:]


@pytest.mark.parametrize("apart", APART)
def test_two_edits_at_once_are_each_in_force_or_refused(host, site, tmp_path, apart):
    other = another(tmp_path)
    # One edit changes lines of nodes, for which they are kept free of jobs; the other is a line of its own.
    site.edit("memory_mib: 1024", f"memory_mib: {980 + apart}")
    other.edit(OVERRIDES, f"{OVERRIDES}    MessageTimeout: {40 + apart}\n")
    with arriving(host), ThreadPoolExecutor(2) as pool:
        first = pool.submit(site.run)
        time.sleep(apart)
        second = pool.submit(other.run)
        results = [first.result(), second.result()]
    for result in results:
        assert result.returncode == 0 or "another run" in output_of(result), result.stdout[-6000:]
    assert any(result.returncode == 0 for result in results)
    shown = " ".join(host.check_output("scontrol show config; scontrol show nodes").split())
    memory, timeout = f"RealMemory={916 + apart} " in shown, f"MessageTimeout = {40 + apart} sec" in shown
    waits = ": waits" in output_of(results[0])  # for jobs on both nodes
    match [result.returncode == 0 for result in results]:
        case [True, False]:
            assert (memory or waits, timeout) == (True, False)
        case [False, True]:
            assert (memory, timeout) == (False, True)
        case _:
            # The later one began after the other had written, and its cluster file is in force alone, or waits for jobs.
            assert timeout or memory or waits
