# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of commanding 1,000 simulated BMCs by Redfish: time by the clock, CPU and memory of the client.

The BMCs are in their own process, each with its own address and certificate, and take 0.3 s for each request. The client is a process too,
so its memory is its own: `python -m benchmarks.bmc arm ENDPOINTS.json`.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.process import ROOT, BenchmarkError, Row

sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc import bmc_findings, discovery, discovery_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_accounts import Accounts
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_contact import contact
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_targets import Reach, Target
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.found_machine import read_for_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines import record_changes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.boot_override import CD, Override, set_override
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.fan_out import Outcome, for_each_bmc
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine import Machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine_reading import read_machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.power import RESET, set_power
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Account, Bmc, Trust
from tests.kit.bmc.simulation import Simulation

BMCS, LATENCY_S = 1000, 0.3
ARM_WALL_S, ARM_CPU_S, DISCOVER_WALL_S, DISCOVER_CPU_MS, MEMORY_MIB = 20.0, 5.0, 75.0, 1.0, 150.0
NICS, DRIVES = 6, 4
PORT = 18443
"""All BMCs have one port, each at its own address."""


def rows(runs: int = 1) -> Iterator[Row]:
    """Measure arm-and-reset, and discover, of 1,000 BMCs."""
    with Simulation(keeps_log=False) as simulation:
        added = simulation.add_all([_spec(number) for number in range(BMCS)])
        ends = [[one.node, one.address, one.port, one.user, one.password, str(one.ca_file)] for one in added]
        file = simulation.folder / "bmcs.json"
        file.write_text(json.dumps(ends))
        for name, wall_s in (("arm", ARM_WALL_S), ("discover", DISCOVER_WALL_S), ("record", DISCOVER_WALL_S)):
            found = [_measured(name, file) for _run in range(runs)]
            middle = {key: statistics.median(one[key] for one in found) for key in found[0]}
            each = middle["requests"] / BMCS
            title = {"arm": "arm and reset", "discover": "discover", "record": "record at first contact"}[name]
            yield Row(f"{title} {BMCS} BMCs, {each:g} requests each", middle["wall"], "s", wall_s)
            if name == "arm":
                yield Row("  CPU of the client", middle["cpu"], "CPU-s", ARM_CPU_S)
            else:
                yield Row(
                    "  CPU of the client for each request",
                    1000 * middle["cpu"] / middle["requests"],
                    "ms",
                    DISCOVER_CPU_MS,
                )
            yield Row("  most memory of the client", middle["memory"], "MiB", MEMORY_MIB)


def _spec(number: int) -> dict[str, object]:
    nics = [f"02:00:00:{number >> 8:02x}:{number & 255:02x}:{port:02x}" for port in range(NICS)]
    drives = [
        {"serial": f"D{number}-{at}", "bytes": 3840755982336, "protocol": "NVMe", "model": "PM9A3"}
        for at in range(DRIVES)
    ]
    mac = f"02:00:00:ff:{number >> 8:02x}:{number & 255:02x}"
    known = {"node": f"gpu{number:04d}", "serial": f"SN{number:04d}", "bmc_mac": mac, "port": PORT}
    return {**known, "latency_s": LATENCY_S, "nics": nics, "drives": drives}


def _measured(name: str, file: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.bmc", name, str(file)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=dict(os.environ))
    if ran.returncode:
        raise BenchmarkError(f"the client failed: {ran.stderr[-2000:]}")
    found: dict[str, float] = json.loads(ran.stdout)
    if found.pop("failed"):
        raise BenchmarkError(f"BMCs failed: {ran.stderr[-2000:]}")
    return found


def _arm(client: Client) -> int:
    """Session, Systems, System, override, its read back, state, reset, its read back."""
    machine = read_machine(client, only=())
    set_override(client, machine, Override(CD))
    set_power(client, machine, RESET)
    return client.requests


def _discover(client: Client) -> int:
    machine = read_machine(client)
    assert (len(machine.nics), len(machine.drives)) == (NICS, DRIVES)
    return client.requests


def _recorded(bmcs: list[Bmc], folder: Path) -> dict[str, Outcome[int]]:
    """Run the work of playbooks/bmc_discover.yml at first contact: fingerprints, machines, comparison, record, report."""
    targets = {one.node: Target(one.node, one.address) for one in bmcs}
    accounts = Accounts({one.node: one.account for one in bmcs}, {})
    requests: dict[str, int] = {}

    def read(client: Client) -> Machine:
        machine = read_for_record(client, targets)
        requests[client.bmc.node] = client.requests
        return machine

    contacts = contact(targets.values(), accounts, Reach(PORT), read, trusts_new=True)
    found = discovery.judge(targets, contacts, {}, records=True)
    values = discovery.found_values(found, targets)
    file = folder / "c.bedplate.yml"
    update = record_changes.update(file, list(targets), values, write=True)
    discovery.with_differences(found, update, targets)
    data = discovery_report.data_of("c", found, targets)
    bmc_findings.documents("bmc c", bmc_findings.KINDS, found.findings, data)
    update.path.unlink()
    if found.findings:
        raise BenchmarkError(str(found.findings[0]))
    return {node: Outcome(node, requests.get(node), one.error) for node, one in contacts.items()}


def main(name: str, file: str) -> int:
    """Command all BMCs of a file, and print the cost as JSON."""
    work: Callable[[Client], int] | None = {"arm": _arm, "discover": _discover}.get(name)
    bmcs = [
        Bmc(node, address, Trust(ca_file=ca_file), Account(user, password), port)
        for node, address, port, user, password, ca_file in json.loads(Path(file).read_text())
    ]
    before, started = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    outcomes = for_each_bmc(bmcs, work) if work else _recorded(bmcs, Path(file).parent)
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_SELF)
    errors = [one.error for one in outcomes.values() if one.error]
    print("\n".join(str(one) for one in errors[:3]), file=sys.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # One request of each session is its end, after the function has returned.
    requests = sum((one.value or 0) + 1 for one in outcomes.values())
    found = {"wall": wall, "cpu": cpu, "requests": requests, "memory": after.ru_maxrss / 1024, "failed": len(errors)}
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
