# SPDX-License-Identifier: GPL-3.0-or-later
"""Many BMCs: each failure is its own, the bound holds, one at a time per BMC, and sessions end with the run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish import errors
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import BmcError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.fan_out import for_each, for_each_bmc
from lab.paths import ROOT
from tests.kit.bmc.connect import bmc_of
from tests.kit.bmc.simulation import Simulation

from .conftest import Made

SYSTEM = "/redfish/v1/Systems/1"


def serial(client: Client) -> str:
    return str(client.get(SYSTEM).body["SerialNumber"])


def test_each_failure_is_its_own(make: Made) -> None:
    good = [make()[1] for _one in range(3)]
    _simulated, broken = make(faults={"garbage": 9})
    _simulated, silent = make()
    silent = replace(silent, address="127.1.250.2")
    found = for_each_bmc([good[0], broken, good[1], silent, good[2]], serial)
    assert list(found) == [one.node for one in (good[0], broken, good[1], silent, good[2])]
    assert [found[one.node].value for one in good] == [f"SN-{one.node}" for one in good]
    failed = {broken.node: errors.NOT_JSON, silent.node: errors.UNREACHABLE}
    assert {node: one.error.kind for node, one in found.items() if one.error} == failed


def test_defect_of_the_function_is_an_error_of_its_node_without_its_text(make: Made) -> None:
    simulated, bmc = make()

    def defect(client: Client) -> None:
        raise RuntimeError("password-canary")

    error = for_each_bmc([bmc], defect)[bmc.node].error
    assert error
    assert error.kind == errors.OTHER
    assert "RuntimeError at test_fan_out.py" in error.what
    assert "canary" not in repr(error)
    assert simulated.state()["sessions"] == 0


def test_bound_of_threads() -> None:
    running, most, guard = 0, 0, threading.Lock()

    def count(_item: int) -> None:
        nonlocal running, most
        with guard:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with guard:
            running -= 1

    for_each({str(one): one for one in range(40)}, count, at_once=7)
    assert most == 7


def test_two_nodes_of_one_bmc_are_served_in_turn(make: Made) -> None:
    simulated, bmc = make(latency_s=0.02)
    for_each_bmc([replace(bmc, node=f"n{one}") for one in range(4)], serial)
    assert simulated.state()["most_sessions"] == 1


def test_one_node_twice_is_refused(make: Made) -> None:
    _simulated, bmc = make()
    with pytest.raises(ValueError, match="same node"):
        for_each_bmc([bmc, bmc], serial)


def test_no_bmcs() -> None:
    assert for_each_bmc([], serial) == {}


def test_read_only_reaches_the_client(make: Made) -> None:
    simulated, bmc = make()
    found = for_each_bmc([bmc], lambda client: client.delete(SYSTEM), read_only=True)
    error = found[bmc.node].error
    assert error
    assert error.kind == errors.READ_ONLY
    assert simulated.writes() == []


def test_stopped_run_begins_no_further_bmc() -> None:
    stop = threading.Event()
    begun: list[int] = []

    def work(item: int) -> None:
        begun.append(item)
        stop.set()

    found = for_each({str(one): one for one in range(50)}, work, at_once=1, stop=stop)
    assert len(begun) < 50
    assert {one.error.kind for one in found.values() if one.error} == {errors.STOPPED}


RUN = """
    import json, signal, sys
    # A shell that starts this in the background has SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, "collections")
    from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.fan_out import for_each_bmc
    from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Account, Bmc, Trust
    bmcs = [Bmc(node, address, Trust(fingerprint), Account("root", "factory-canary"), port)
            for node, address, port, fingerprint in json.loads(sys.argv[1])]

    def work(client):
        print(client.bmc.node, flush=True)
        while True:
            client.get("/redfish/v1/Systems/1")

    for_each_bmc(bmcs, work)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("slow_s", [0.0, 20.0])
def test_signal_deletes_all_sessions(simulation: Simulation, number: signal.Signals, slow_s: float) -> None:
    simulated = [simulation.add() for _one in range(4)]
    listed = [[one.node, one.address, one.port, one.fingerprint] for one in simulated]
    command = [sys.executable, "-c", textwrap.dedent(RUN), json.dumps(listed)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        for _one in simulated:
            process.stdout.readline()
        assert sum(one.state()["sessions"] for one in simulated) == 4
        for one in simulated:
            one.faults(slow_s=slow_s, paths=[SYSTEM])
        time.sleep(0.2)
        process.send_signal(number)
        sent = time.monotonic()
        time.sleep(0.1)
        for one in simulated:
            one.faults()
        try:
            process.wait(40)
        finally:
            process.kill()
    # Requests in progress are not waited for.
    assert time.monotonic() - sent < 15
    # A signal that was waited for still ends the process as it would have without.
    assert process.returncode == -number
    assert sum(one.state()["sessions"] for one in simulated) == 0


def test_outcome_of_a_thread_has_the_error_itself(make: Made) -> None:
    simulated, bmc = make(faults={"busy": 99, "methods": ["GET"]})
    error = for_each_bmc([bmc], serial)[bmc.node].error
    assert isinstance(error, BmcError)
    assert (error.node, error.path, error.status) == (bmc.node, SYSTEM, 503)
    assert bmc_of(simulated).node == bmc.node
