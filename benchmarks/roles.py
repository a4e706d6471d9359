# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run that changes nothing costs the control node for each compute node of the lab, above an empty play.

Seconds of CPU swell threefold on a busy machine, so the same run measures `ansible.builtin.ping` and compares with it. The best
open Slurm role costs 1.3 CPU seconds for a node where a ping costs 0.048: 27 pings. The budget is half of that.
"""

from __future__ import annotations

import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
INVENTORY = ROOT / "inventories" / "lab"
PLAYBOOKS = (ROOT / "playbooks" / "os.yml", ROOT / "playbooks" / "scheduler.yml")
PING = "    - name: Ping\n      ansible.builtin.ping:\n"
EMPTY = "- name: Nothing\n  hosts: compute_nodes\n  gather_facts: false\n  tasks: []\n"
TASKS = 12
PINGS = 13.5


def run(*playbooks: Path) -> tuple[float, str]:
    """Run playbooks on the compute nodes; return the CPU seconds, forks included, and the output."""
    command = [str(Path(sys.executable).with_name("ansible-playbook")), f"--inventory={INVENTORY}"]
    command += ["--limit=compute_nodes", *map(str, playbooks)]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"The lab does not answer as it should; `make lab` boots it.\n{done.stdout[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def recap(output: str) -> dict[str, dict[str, int]]:
    """Return host -> counter -> number."""
    lines = output[output.rindex("PLAY RECAP") :].splitlines()[1:]
    counts = (line.partition(":") for line in lines if ":" in line)
    return {host.strip(): {key: int(n) for key, n in re.findall(r"(\w+)=(\d+)", text)} for host, _, text in counts}


def main() -> int:
    """Print tasks and CPU seconds per node beside their budgets; the exit code says whether they are met."""
    with tempfile.TemporaryDirectory(prefix="bedplate-benchmark-") as name:
        empty = Path(name) / "empty.yml"
        empty.write_text(EMPTY)
        _, output = run(*PLAYBOOKS)
        hosts = recap(output)
        changed = [host for host, counters in hosts.items() if counters["changed"]]
        if changed:
            raise SystemExit(f"{', '.join(changed)} changed: no measurement. Run `make lab` until nothing changes.")
        ping = Path(name) / "ping.yml"
        ping.write_text(EMPTY.replace(" []\n", "\n" + PING))
        rounds = [(run(*PLAYBOOKS)[0], run(ping)[0], run(empty)[0]) for _ in range(5)]
    tasks = max(counters["ok"] + counters["skipped"] for counters in hosts.values())
    seconds = statistics.median(roles - nothing for roles, _, nothing in rounds) / len(hosts)
    one_ping = statistics.median(ping - nothing for _, ping, nothing in rounds) / len(hosts)
    print(f"a compute node, nothing to change ({len(hosts)} nodes)          measured   budget")
    print(f"{'tasks, skipped ones and checks of arguments included':57}{tasks:8}{TASKS:9}")
    print(f"{'CPU of the control node above an empty play, in pings':57}{seconds / one_ping:8.1f}{PINGS:9.1f}")
    print(f"{'the same in seconds, as busy as the machine is now':57}{seconds:8.2f}")
    print(f"{'one ping in seconds, as busy as the machine is now':57}{one_ping:8.3f}")
    return int(tasks > TASKS or seconds / one_ping > PINGS)


if __name__ == "__main__":
    raise SystemExit(main())
