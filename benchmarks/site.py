# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of a no-change run of playbooks/site.yml with verify on the control node, for each GPU node, on recordings of converged nodes.

Roles, templates, decisions and action plugins are real; a connection answers each module at once. A node costs the difference between a
large and a small run, divided by the nodes between them, and is compared with pings of the same kind.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.process import ROOT, BenchmarkError, Row

SMALL, LARGE = 4, 32
PINGS, MAIN, OUTPUT = 20.0, 0.2, 0.0
_PINGED = 10
_A_RACK = 4
_HERE = Path(__file__).parent / "recorded"
_CLUSTER = """\
plugin: bedplate.cluster.racks
site: bench
cluster: bench
networks:
  management: {{cidr: 10.0.0.0/22, start: 10.0.0.11}}
  rails: {{cidr: 10.9.0.0/20, rails: 0-1}}
profiles:
  gpu:
    gpus: {{model: h100, count: 8}}
    sockets: 2
    cores_per_socket: 56
    memory_mib: 2000000
    nics:
      - {{name: mlx5_0, rail: 0, pci: "0000:3b:00.0"}}
      - {{name: mlx5_1, rail: 1, pci: "0000:5e:00.0"}}
racks: {{"r[1-{racks}]": {{nodes: "gpu[01-{count:02}]", profile: gpu}}}}
hosts: {{ctl1: {{address: 10.0.0.10}}}}
services: {{controllers: [ctl1], database: [ctl1], login: [ctl1]}}
partitions: {{gpu: {{nodes: all, default: true}}}}
fabric: {{spines: spine, technology: ethernet}}
gpu_stack: {{os: debian-13, source: nvidia, driver: "580", keys: {{nvidia: nvidia.asc}},
            fingerprints: {{nvidia: 6E85F625ACA251DF662A4FFAF62ECE3799F90AEF}}}}
"""
# Made for tests; its secret half is gone.
_KEY = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawbyKBYJKwYBBAHaRw8BAQdAO84zCuEDrYRPyGGeNQjT0febsBFGjoZKSBUn
jX+QoTy0O2JlZHBsYXRlIHRlc3RzLCBvbmU6IGZvciB0ZXN0cyBvbmx5IDxvbmVA
dGVzdHMuZXhhbXBsZS5vcmc+iJAEExYIADgWIQRuhfYlrKJR32YqT/r2Ls43mfkK
7wUCawbyKAIbAwULCQgHAgYVCgkICwIEFgIDAQIeAQIXgAAKCRD2Ls43mfkK75b7
AP45wm8xfBCO0KfammQh+dxYJK2utxFhCWODzqOiyljgRgD/cuYOE7lPrChNT7//
bInonj8M67GEhXs9HOIuBn4Hygc=
=bupW
-----END PGP PUBLIC KEY BLOCK-----
"""
_PING = "    - {name: Ping, ansible.builtin.ping: }\n"
_PINGS = "- name: Pings\n  hosts: compute_nodes\n  gather_facts: false\n  tasks:\n"


@dataclass(frozen=True)
class Usage:
    """CPU seconds of a run: its main process and its forks; and the lines that it printed before the recap."""

    main: float
    workers: float
    lines: int

    @property
    def all(self) -> float:
        """Return both."""
        return self.main + self.workers


def rows(runs: int = 3) -> Iterator[Row]:
    """Measure."""
    with tempfile.TemporaryDirectory(prefix="bedplate-benchmark-") as name:
        folder = Path(name)
        prepare(folder, (SMALL, LARGE))
        (folder / "one_ping.yml").write_text(_PINGS + _PING)
        (folder / "pings.yml").write_text(_PINGS + _PING * (1 + _PINGED))
        site = str(ROOT / "playbooks/site.yml")
        kinds = [(site, SMALL), (site, LARGE), ("one_ping.yml", LARGE), ("pings.yml", LARGE)]
        found = [[_run(folder, playbook, count) for playbook, count in kinds] for _run_number in range(runs)]
    nodes = LARGE - SMALL
    small, large, few, many = (list(column) for column in zip(*found, strict=True))
    ping = (_median(many, "all") - _median(few, "all")) / _PINGED / LARGE
    node = (_median(large, "all") - _median(small, "all")) / nodes
    main = (_median(large, "main") - _median(small, "main")) / nodes
    yield Row("no-change site.yml with verify, per GPU node", node, "CPU-s")
    yield Row(f"  in pings, of {ping:.3f} CPU-s each in this run", node / ping, "pings", PINGS)
    yield Row("  of it the main thread", main, "CPU-s", MAIN)
    yield Row("  lines before the recap, per node", (large[0].lines - small[0].lines) / nodes, "lines")


def prepare(folder: Path, counts: Iterable[int]) -> None:
    """Write the recorded answers and an inventory for each number of nodes into a folder."""
    (folder / "answers.json").write_text(json.dumps(_answers()))
    for count in counts:
        _inventory(folder / str(count), count)


def _median(found: Sequence[Usage], name: str) -> float:
    return statistics.median(float(getattr(one, name)) for one in found)


def _inventory(folder: Path, count: int) -> None:
    folder.mkdir()
    (folder / "bench.bedplate.yml").write_text(_CLUSTER.format(count=count, racks=count // _A_RACK))
    (folder / "nvidia.asc").write_text(_KEY)
    variables = {
        "ansible_connection": "converged",
        "ansible_user": "root",
        "bedplate_secrets_dir": str(folder.parent / f"secrets{count}"),
    }
    (folder / "group_vars").mkdir()
    (folder / "group_vars/all.yml").write_text(yaml.safe_dump(variables))


def _answers() -> dict[str, object]:
    """Return the result of each module on a converged node."""
    recorded = yaml.safe_load((ROOT / "tests/roles/answers.yml").read_text())
    found = {one["module"]: one["result"] for one in recorded["converged"]}
    found["gpu_facts"] = next(one["result"] for one in recorded["driver_runs"] if one["module"] == "gpu_facts")
    idle = {
        "configured": True,
        "slurm": [],
        "gres": [],
        "nodes": {},
        "partitions": {},
        "count": "",
        "new": "",
        "changing": [],
    }
    found["slurm_in_use"] = {"changed": False, **idle, "fence": {"nodes": "", "partitions": []}}
    found["slurm_config_test"] = {"changed": False, "tested": True, "accepted": True, "message": ""}
    found["slurm_accounts"] = {"changed": False, "asked": True, "calls": []}
    found["ping"] = {"changed": False, "ping": "pong"}
    found["reboot_wanted"] = {"changed": False, "reasons": {}, "in_use": [], "roles": []}
    return found


def play(folder: Path, playbook: str, count: int, more: Mapping[str, str] | None = None) -> str:
    """Play a playbook, with `more` environment, and return its output before the recap. BenchmarkError: it fails or changes a node."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_CONNECTION_PLUGINS": str(_HERE),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORKS": "4",
        "BEDPLATE_REPORT": str(folder / "report"),
        "BEDPLATE_ANSWERS": str(folder / "answers.json"),
        "BEDPLATE_USAGE": str(folder / "usage.json"),
        **(more or {}),
    }
    command = [
        sys.executable,
        str(Path(__file__).with_name("playbook_usage.py")),
        playbook,
        "--inventory",
        str(folder / str(count)),
        # The recorded nodes have no repository.
        "--extra-vars",
        "gpu_resolve=off",
    ]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-1500:]}\n{done.stderr[-500:]}"
        )
    lines, _, recap = done.stdout.partition("PLAY RECAP")
    if not is_unchanged(recap):
        raise BenchmarkError(f"something changed:\n{done.stdout[-1500:]}")
    return lines


def is_unchanged(recap: str) -> bool:
    """Return whether a recap has hosts, each without a change; a large site has one line for them."""
    numbers = re.findall(r" changed=(\d+)", recap)
    folded = re.findall(r"^\d+ other hosts: nothing changed", recap, re.MULTILINE)
    return bool(numbers or folded) and set(numbers) <= {"0"}


def _run(folder: Path, playbook: str, count: int) -> Usage:
    text = play(folder, playbook, count)
    lines = sum(1 for line in text.splitlines() if line.strip())
    return Usage(**json.loads((folder / "usage.json").read_text()), lines=lines)
