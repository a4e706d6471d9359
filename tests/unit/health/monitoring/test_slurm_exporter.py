# SPDX-License-Identifier: GPL-3.0-or-later
"""The exporter of Slurm: one set of calls however many scrapes, stale figures marked, few series, little processor time."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent import state_file, textfile
from ansible_collections.bedplate.cluster.plugins.module_utils.health.exporter import slurm_cache, slurm_exporter
from ansible_collections.bedplate.cluster.plugins.module_utils.health.exporter.slurm_cache import SlurmCache
from ansible_collections.bedplate.cluster.plugins.module_utils.health.exporter.slurm_exporter import MetricsServer
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.health_finding import finding
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_cursor import LogState
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.prometheus_text import text_of
from tests.unit.health.monitoring import recorded_slurm
from tests.unit.health.monitoring.recorded_slurm import Slurm, answers

_SAMPLE = re.compile(r"([a-z_:]+)(\{.*\})? (\S+)\Z")


def samples(text: str) -> dict[str, float]:
    """Return series -> value, and check the form of all lines."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = _SAMPLE.match(line)
            assert match, line
            key = f"{match[1]}{match[2] or ''}"
            assert key not in found, key
            found[key] = float(match[3])
    return found


@contextmanager
def serving(cache: SlurmCache) -> Iterator[int]:
    with MetricsServer(("127.0.0.1", 0), cache) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def scrape(port: int, path: str = "/metrics", method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


class Hanging(Slurm):
    """Slurm whose commands end when the test lets them."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()

    def __call__(self, commands: Sequence[Sequence[str]], seconds: float) -> list[Outcome]:
        super().__call__(commands, seconds)
        self.release.wait(20)
        return [Outcome(None, "", "stopped after 30 s") for _one in commands]


def test_metrics_of_recorded_answers() -> None:
    cache = SlurmCache(Slurm(), clock=lambda: 1000.0)
    assert samples(cache.text)["bedplate_slurm_up"] == 0
    assert cache.refresh()
    found = samples(cache.text)
    assert found["bedplate_slurm_up"] == 1
    assert found['bedplate_slurm_last_success_timestamp{call="sinfo"}'] == 1000
    assert found['bedplate_slurm_nodes{partition="gpu",state="down"}'] == 1
    assert found['bedplate_slurm_nodes{partition="long",state="idle"}'] == 0
    assert found['bedplate_slurm_node_unavailable{node="gpu001",state="drained",kind="person"}'] == 1
    assert found['bedplate_slurm_jobs{partition="gpu",state="running"}'] == 3
    assert found["bedplate_slurm_agent_queue"] == 12
    assert found["bedplate_slurm_backfill_cycle_seconds"] == pytest.approx(0.001555)
    assert found["bedplate_slurm_rpc_calls_total"] == 10


def test_many_scrapes_start_no_call() -> None:
    slurm = Slurm()
    cache = SlurmCache(slurm)
    cache.refresh()
    with serving(cache) as port:
        results: list[tuple[int, str]] = []
        threads = [threading.Thread(target=lambda: results.append(scrape(port))) for _one in range(12)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert [status for status, _text in results] == [200] * 12
    assert len({text for _status, text in results}) == 1
    assert slurm.calls == 1


def test_a_hung_slurmctld_delays_no_scrape_and_its_last_figures_are_marked() -> None:
    slurm, clock = Slurm(), iter((1000.0, 1000.0, 1000.0))
    cache = SlurmCache(slurm, clock=lambda: next(clock))
    cache.refresh()
    hanging = Hanging()
    cache._run = hanging
    thread = threading.Thread(target=cache.refresh)
    thread.start()
    with serving(cache) as port:
        begin = time.monotonic()
        status, text = scrape(port)
        assert (status, time.monotonic() - begin < 2) == (200, True)
        assert samples(text)["bedplate_slurm_up"] == 1
        hanging.release.set()
        thread.join()
        found = samples(scrape(port)[1])
    assert found["bedplate_slurm_up"] == 0
    assert found['bedplate_slurm_call_success{call="sinfo"}'] == 0
    assert found['bedplate_slurm_last_success_timestamp{call="sinfo"}'] == 1000
    assert found['bedplate_slurm_nodes{partition="gpu",state="down"}'] == 1


def test_one_failed_command_leaves_the_figures_of_the_others_fresh() -> None:
    slurm, now = Slurm(), [1000.0]
    cache = SlurmCache(slurm, clock=lambda: now[0], timer=lambda: now[0])
    cache.refresh()
    now[0] = 1060.0
    slurm.outcomes = [slurm.outcomes[0], Outcome(1, "", "slurm_load_jobs error"), slurm.outcomes[2]]
    assert not cache.refresh()
    found = samples(cache.text)
    assert (found["bedplate_slurm_up"], found['bedplate_slurm_call_success{call="sdiag"}']) == (0, 1)
    assert found['bedplate_slurm_last_success_timestamp{call="sinfo"}'] == 1060
    assert found['bedplate_slurm_last_success_timestamp{call="squeue"}'] == 1000


def test_figures_older_than_fifteen_minutes_are_not_shown() -> None:
    slurm, now = Slurm(), [1000.0]
    cache = SlurmCache(slurm, clock=lambda: now[0], timer=lambda: now[0])
    cache.refresh()
    slurm.outcomes = [Outcome(None, "", "stopped")] * 3
    now[0] += slurm_cache.OLDEST + 1
    cache.refresh()
    assert "bedplate_slurm_nodes{" not in cache.text
    assert samples(cache.text)['bedplate_slurm_last_success_timestamp{call="sinfo"}'] == 1000


def test_an_outage_is_reported_once_and_its_end_once() -> None:
    slurm, lines = Slurm(), list[str]()
    cache = SlurmCache(slurm, report=lines.append)
    good = slurm.outcomes
    for outcomes in (good, [Outcome(1, "", "no slurmctld")] * 3, [Outcome(1, "", "no slurmctld")] * 3, good):
        slurm.outcomes = outcomes
        cache.refresh()
    assert len(lines) == 6


def test_only_metrics_has_an_answer() -> None:
    cache = SlurmCache(Slurm())
    with serving(cache) as port:
        assert scrape(port, "/")[0] == 404
        assert scrape(port, "/metrics/../etc/passwd")[0] == 404
        assert scrape(port, method="POST")[0] == 501
        assert scrape(port, "/metrics?x=1")[0] == 200
        assert scrape(port, method="HEAD") == (200, "")


def test_a_client_that_sends_nothing_has_seconds() -> None:
    assert 0 < (slurm_exporter._Handler.timeout or 0) <= 30


def test_clients_that_send_nothing_do_not_fill_the_exporter() -> None:
    with serving(SlurmCache(Slurm())) as port:
        before = threading.active_count()
        held = [socket.create_connection(("127.0.0.1", port)) for _one in range(40)]
        until(lambda: threading.active_count() - before >= slurm_exporter.MOST_CONNECTIONS)
        time.sleep(0.1)
        assert threading.active_count() - before <= slurm_exporter.MOST_CONNECTIONS
        for one in held:
            one.close()
        until(lambda: threading.active_count() <= before)
        assert scrape(port)[0] == 200


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("text", ["9341", "a:b", "1.2.3.4:", "::1:9341", ":70000"])
def test_an_address_without_a_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        slurm_exporter.address_of(text)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
def test_all_addresses_are_of_both_families() -> None:
    with MetricsServer(("", 0), SlurmCache(Slurm())) as server:
        assert server.address_family == (socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET)


def test_series_of_a_cluster_stay_few() -> None:
    """The head of slurm_metrics.py has the numbers: one for each unavailable node, 20 a partition, 130 in all."""
    rpcs = "".join(f"\tREQUEST_{n}  ( {n}) count:5 ave_time:1 total_time:{n}\n" for n in range(1, 200))
    head = "Remote Procedure Call statistics by message type\n"
    slurm = Slurm()
    slurm.outcomes = answers(
        recorded_slurm.sinfo(400, 10, drained=400),
        "".join(f"part{n % 10}|RUNNING\n" for n in range(50_000)),
        recorded_slurm.SDIAG.replace(head, head + rpcs),
    )
    cache = SlurmCache(slurm)
    assert cache.refresh()
    found = samples(cache.text)
    counts = Counter(name.partition("{")[0] for name in found)
    assert counts["bedplate_slurm_node_unavailable"] == 400
    assert len(found) <= 400 + 20 * 10 + 130
    assert max(Counter(re.findall(r'node="([^"]+)"', cache.text)).values()) <= 600


def test_a_node_has_at_most_600_series() -> None:
    findings = [finding(f"xid-{n}", "note", "x", device=f"gpu{n}") for n in range(2 * textfile.MOST_FINDINGS)]
    memory = state_file.Memory(LogState("b"))
    for code in range(2 * state_file.MOST_COUNTERS):
        memory.count(code, "0000:3b:00.0")
    few = {f"part{n}": 1 for n in range(16)}
    state = textfile.AgentState(0, 60, few, dict.fromkeys(few, "x"), is_reported=True, is_foreign=True, passed=few)
    metrics = textfile.metrics("fail", "note", findings, memory.xids, state)
    assert 500 < len(samples(text_of(metrics))) <= 600


def test_a_refresh_of_400_nodes_costs_less_than_50_ms() -> None:
    slurm = Slurm()
    slurm.outcomes = answers(
        recorded_slurm.sinfo(400, 4, drained=40), "gpu|RUNNING\ngpu|PENDING\n" * 5000, recorded_slurm.SDIAG
    )
    cache = SlurmCache(slurm)
    times = []
    for _one in range(5):
        begin = time.process_time()
        cache.refresh()
        times.append(time.process_time() - begin)
    assert min(times) < 0.05, times
    print(f"{min(times) * 1000:.1f} ms")
