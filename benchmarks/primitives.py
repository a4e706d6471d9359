# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller CPU of one bedplate.cluster.files call with 50 items, beside an empty play and beside 50 tasks.

``python -m benchmarks.primitives`` uses directories of this machine as hosts, so the CPU of the modules is in the figures.
``--host root@192.0.2.7`` goes to a machine by SSH (its key must be accepted without a question), with as many inventory
names as asked for, each with a directory of its own there; then the figures are the control node's alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILES, TEMPLATES, DIRECTORIES = 35, 10, 5
PYTHON = "/usr/bin/python3"


@dataclass(frozen=True)
class Cost:
    """What one run of a play took on the control node: CPU seconds, all forks included, and seconds by the clock."""

    cpu: float
    wall: float


def items(base: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Return each item as an entry of bedplate.cluster.files and as a task of its own."""
    for number in range(FILES):
        path, content = f"{base}/file{number}.conf", f"key = {number} of {{{{ inventory_hostname }}}}\n"
        yield (
            {"path": path, "content": content},
            {"ansible.builtin.copy": {"dest": path, "content": content, "mode": "0644"}},
        )
    for number in range(TEMPLATES):
        path = f"{base}/template{number}.conf"
        task = {"ansible.builtin.template": {"dest": path, "src": "t.j2", "mode": "0644"}}
        yield {"path": path, "template": "t.j2"}, task
    for number in range(DIRECTORIES):
        path = f"{base}/directory{number}"
        task = {"ansible.builtin.file": {"path": path, "state": "directory", "mode": "0755"}}
        yield {"path": path, "state": "directory"}, task


def plays(remote: str) -> dict[str, list[dict[str, Any]]]:
    """Return the tasks of each play that is measured."""
    one, many = f"{remote}/{{{{ inventory_hostname }}}}/one", f"{remote}/{{{{ inventory_hostname }}}}/many"
    files = {
        "manifest": "benchmark",
        "state_directory": f"{one}/state",
        "files": [entry for entry, _task in items(one)],
    }
    first = {"ansible.builtin.file": {"path": many, "state": "directory", "mode": "0755"}}
    return {
        "empty": [],
        "one files call": [{"bedplate.cluster.files": files}],
        "one task an item": [first, *(task for _entry, task in items(many))],
    }


def measure(directory: Path, name: str, forks: int) -> Cost:
    """Run a play and return what it took; a play that fails or still changes something is no measurement."""
    command = [
        str(Path(sys.executable).with_name("ansible-playbook")),
        "-i",
        "hosts.json",
        "-f",
        str(forks),
        f"{name}.json",
    ]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    started = time.monotonic()
    with (directory / "output").open("w") as output:
        process = subprocess.Popen(command, cwd=directory, env=environment, stdout=output, stderr=output)
        _pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the play {name!r} failed:\n{(directory / 'output').read_text()[-3000:]}")
    return Cost(usage.ru_utime + usage.ru_stime, time.monotonic() - started)


def prepare(directory: Path, host: str, hosts: int) -> str:
    """Write inventory and plays, and return the directory for the items."""
    (directory / "templates").mkdir()
    (directory / "templates" / "t.j2").write_text(
        "# {{ ansible_managed }}\n{% for n in range(9) %}\nkey{{ n }} = {{ inventory_hostname }}\n{% endfor %}\n"
    )
    remote = f"/tmp/bedplate-benchmark-{os.getpid()}" if host else str(directory / "nodes")
    user, _, address = host.rpartition("@")
    local = {
        "ansible_connection": "local",
        "ansible_python_interpreter": PYTHON if Path(PYTHON).exists() else sys.executable,
    }
    variables = {"ansible_host": address, **({"ansible_user": user} if user else {})} if host else local
    inventory = {"all": {"vars": variables, "hosts": {f"n{number}": {} for number in range(hosts)}}}
    (directory / "hosts.json").write_text(json.dumps(inventory))
    for name, tasks in plays(remote).items():
        play = {"name": name, "hosts": "all", "gather_facts": False, "tasks": tasks}
        (directory / f"{name}.json").write_text(json.dumps([play]))
    clean = [
        {
            "name": "clean",
            "hosts": "all",
            "gather_facts": False,
            "tasks": [{"ansible.builtin.file": {"path": remote, "state": "absent"}, "run_once": True}],
        }
    ]
    (directory / "clean.json").write_text(json.dumps(clean))
    return remote


def benchmark(host: str = "", hosts: int = 2, runs: int = 1) -> dict[str, Cost]:
    """Return the median cost of a no-change run of each play."""
    with tempfile.TemporaryDirectory(prefix="bedplate-benchmark-") as name:
        directory = Path(name)
        prepare(directory, host, hosts)
        costs = {}
        for play in plays(""):
            measure(directory, play, hosts)  # the first run writes; with SSH it connects too
            seen = [measure(directory, play, hosts) for _run in range(runs)]
            if re.search(r"changed=[1-9]", (directory / "output").read_text()):
                raise SystemExit(f"the play {play!r} changes something again and again")
            costs[play] = Cost(statistics.median(c.cpu for c in seen), statistics.median(c.wall for c in seen))
        measure(directory, "clean", hosts)
        return costs


def main(arguments: list[str] | None = None) -> int:
    """Print what each play costs for one host, above an empty play, and how they compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--host", default="", help="user@address of a machine to reach by SSH; without it, this machine"
    )
    parser.add_argument("--hosts", type=int, default=2, help="how many inventory names")
    parser.add_argument("--runs", type=int, default=1, help="of how many runs the median is taken")
    options = parser.parse_args(arguments)
    costs = benchmark(options.host, options.hosts, options.runs)
    empty = costs["empty"].cpu
    count = FILES + TEMPLATES + DIRECTORIES
    print(
        f"{count} items, no change, {options.hosts} hosts, {'ssh' if options.host else 'connection local: modules included'}"
    )
    print(f"  {'empty play':<18}{empty:8.2f} CPU-s in all")
    each = {name: (cost.cpu - empty) / options.hosts for name, cost in costs.items() if name != "empty"}
    for name, value in each.items():
        print(f"  {name:<18}{value:8.3f} CPU-s a host above the empty play, {costs[name].wall:.1f} s by the clock")
    ratio = each["one task an item"] / max(each["one files call"], 0.001)
    print(f"  one task an item costs {ratio:.0f} times as much")
    return 0


if __name__ == "__main__":
    sys.exit(main())
