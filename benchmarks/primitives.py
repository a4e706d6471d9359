# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller CPU of one bedplate.cluster.files call with 50 items, beside an empty play and beside 50 tasks.

Where the lab is up, the hosts are directories of its first node, reached by SSH, and the figures are the control node's alone.
`--host root@192.0.2.7` takes another machine (its key must be accepted without a question); `--local` takes directories of
this machine, and then the CPU of the modules is in the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.process import HEAD, ROOT, BenchmarkError, Cost, Row, cost, median, spread

SSH_CONFIG = ROOT / ".cache" / "lab" / "lab" / "ssh_config"
FILES, TEMPLATES, DIRECTORIES = 35, 10, 5
PYTHON = "/usr/bin/python3"


def items(base: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Return each item as an entry of bedplate.cluster.files and as a separate task."""
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
    """Run a play and return what it took."""
    return cost("ansible-playbook", ["-i", "hosts.json", "-f", str(forks), f"{name}.json"], directory)


@dataclass(frozen=True)
class Target:
    """The machine whose directories represent hosts; without an address, this machine."""

    address: str = ""
    ssh_config: Path | None = None

    @classmethod
    def found(cls) -> Target:
        """Return the lab's first node, or this machine without a lab."""
        machines = re.findall(r"^Host (\S+)$", SSH_CONFIG.read_text(), re.MULTILINE) if SSH_CONFIG.exists() else []
        nodes = sorted(name for name in machines if name.startswith("gpu"))
        return cls(nodes[0], SSH_CONFIG) if nodes else cls()

    def variables(self) -> dict[str, str]:
        """Return how Ansible reaches it."""
        if not self.address:
            python = PYTHON if Path(PYTHON).exists() else sys.executable
            return {"ansible_connection": "local", "ansible_python_interpreter": python}
        user, _, address = self.address.rpartition("@")
        how = {"ansible_ssh_common_args": f"-F {self.ssh_config}"} if self.ssh_config else {}
        return {"ansible_host": address, **({"ansible_user": user} if user else {}), **how}


def prepare(directory: Path, target: Target, hosts: int) -> None:
    """Write inventory and plays."""
    (directory / "templates").mkdir()
    (directory / "templates" / "t.j2").write_text(
        "# {{ ansible_managed }}\n{% for n in range(9) %}\nkey{{ n }} = {{ inventory_hostname }}\n{% endfor %}\n"
    )
    remote = f"/tmp/bedplate-benchmark-{os.getpid()}" if target.address else str(directory / "nodes")
    inventory = {"all": {"vars": target.variables(), "hosts": {f"n{number}": {} for number in range(hosts)}}}
    (directory / "hosts.json").write_text(json.dumps(inventory))
    clean = [{"ansible.builtin.file": {"path": remote, "state": "absent"}, "run_once": True}]
    for name, tasks in {**plays(remote), "clean": clean}.items():
        play = {"name": name, "hosts": "all", "gather_facts": False, "tasks": tasks}
        (directory / f"{name}.json").write_text(json.dumps([play]))


def benchmark(target: Target, hosts: int, runs: int) -> dict[str, list[Cost]]:
    """Return what no-change runs of each play cost."""
    with tempfile.TemporaryDirectory(prefix="bedplate-benchmark-") as name:
        directory = Path(name)
        prepare(directory, target, hosts)
        costs: dict[str, list[Cost]] = {}
        try:
            for play in plays(""):
                measure(directory, play, hosts)  # the first run writes; with SSH it connects too
                costs[play] = [measure(directory, play, hosts) for _run in range(runs)]
                if re.search(r"changed=[1-9]", costs[play][-1].output):
                    raise BenchmarkError(f"the play {play!r} changes a host in every run")
        finally:
            measure(directory, "clean", hosts)
        return costs


def rows(runs: int = 3, hosts: int = 4, target: Target | None = None) -> Iterator[Row]:
    """Measure the three plays."""
    target = target or Target.found()
    costs = benchmark(target, hosts, runs)
    count = FILES + TEMPLATES + DIRECTORIES
    where = f"{hosts} hosts by SSH" if target.address else f"{hosts} directories here, modules included"
    yield Row(f"empty play, {where}", median(costs["empty"]), "CPU-s", spread=spread(costs["empty"]))
    each = {name: (median(seen) - median(costs["empty"])) / hosts for name, seen in costs.items() if name != "empty"}
    names = {
        "one files call": f"one files call of {count} items",
        "one task an item": f"the same {count} items as tasks",
    }
    for name, value in each.items():
        yield Row(f"{names[name]}, for one host", value, "CPU-s", spread=spread(costs[name]))
    yield Row("tasks, beside one files call", each["one task an item"] / max(each["one files call"], 0.001), "times")


def main(arguments: list[str] | None = None) -> int:
    """Print what each play costs for one host, above an empty play, and how they compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--host", help="user@address of a machine to reach by SSH")
    parser.add_argument("--local", action="store_true", help="use this machine, though the lab is up")
    parser.add_argument("--hosts", type=int, default=4, help="how many inventory names")
    parser.add_argument("--runs", type=int, default=3, help="of how many runs the median is taken")
    options = parser.parse_args(arguments)
    target = Target(options.host) if options.host else Target() if options.local else None
    try:
        found = list(rows(options.runs, options.hosts, target))
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 2
    print(HEAD, *found, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
