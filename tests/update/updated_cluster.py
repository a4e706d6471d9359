# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster that the release before builds in containers, on which jobs start, and which this tree then takes over.

Everything lies in .cache/update: the work tree of the release before, whose lab has the containers, and the inventory that both read.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from lab.paths import ROOT
from lab.scenario_run import recap
from lab.vendor.repository import build
from tests.kit.judge import Observation, judge
from tests.kit.workload import Workload
from tests.update.machine_snapshot import MachineSnapshot, machine_snapshot
from tests.update.release_before import Release, checkout, release_before

LAB = "update"
FOLDER = ROOT / ".cache" / "update"
MACHINES = ("ctl1", "login1", "gpu01", "gpu02")
NODES = ("gpu01", "gpu02")
# verify would miss its devices in every run, so its playbook alone manages them, and site.yml does not.
RDMA = ("rdma.yml", "-e", '{"rdma_manage": true}')
TIMEOUT = 1200
# The units do not start in a container, whose kernel is another machine's; with these settings their programs change nothing of it.
_START_IN_CONTAINERS = """
for unit in bedplate-tuning bedplate-rdma; do
  mkdir -p /usr/lib/systemd/system/$unit.service.d
  printf '[Unit]\\nConditionVirtualization=\\n[Service]\\nExecStartPre=\\n' >/usr/lib/systemd/system/$unit.service.d/lab.conf
done
"""


@dataclass(frozen=True)
class Run:
    """One run of a playbook: its status, what it printed, and what its tasks gave to units."""

    rc: int
    output: str
    warnings: str
    tasks: list[dict[str, Any]]
    hurt: list[Finding]
    """What became of jobs that should not have."""

    @property
    def hosts(self) -> dict[str, dict[str, int]]:
        """Return the counters of each host."""
        return recap(self.output)

    @property
    def text(self) -> str:
        """Return all that was printed, in one line."""
        return " ".join(f"{self.output} {self.warnings}".split())


@dataclass
class Update:
    """What was seen before the update, in it, and after it."""

    before: dict[str, MachineSnapshot] = field(default_factory=dict)
    jobs: Observation = field(default_factory=Observation)
    checked: Run | None = None
    after_check: dict[str, MachineSnapshot] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    """Of this tree: site.yml, then rdma.yml."""
    after: dict[str, MachineSnapshot] = field(default_factory=dict)
    again: Run | None = None
    verified: Run | None = None
    findings: list[dict[str, Any]] = field(default_factory=list)
    release: Release = field(default_factory=release_before)


class Cluster:
    """The containers, and the playbooks of both trees on them."""

    def __init__(self, before: Path) -> None:
        self.tree = before
        self.state = before / ".cache" / "lab" / LAB
        self.site = FOLDER / "site"

    def lab(self, command: str, *arguments: str) -> None:
        """Run a command of the lab of the release before."""
        done = subprocess.run(
            [sys.executable, "-m", "lab", command, "--name", LAB, *arguments],
            cwd=self.tree, env=self._environment(self.tree), timeout=TIMEOUT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"python -m lab {command} of {self.tree}"

    def shell(self, machine: str, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command as root, in a connection of its own; one that hangs has ended with 124."""
        options = ["-F", str(self.state / "ssh_config"), "-o", "ControlMaster=no", "-o", "ControlPath=none"]
        try:
            return subprocess.run(
                ["ssh", *options, machine, command], capture_output=True, text=True, timeout=120, check=False
            )
        except subprocess.TimeoutExpired as error:
            return subprocess.CompletedProcess(command, 124, str(error.stdout or ""), f"no end after {error.timeout} s")

    def play(self, tree: Path, playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a playbook of a tree."""
        print(f"{playbook} {' '.join(arguments)} of {tree}", flush=True)
        return subprocess.run(
            ["ansible-playbook", f"--inventory={self.site}", str(tree / "playbooks" / playbook),
             f"--extra-vars=bedplate_secrets_dir={self.state / 'secrets'}", *arguments],
            cwd=tree, env=self._environment(tree), capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip

    def snapshots(self) -> dict[str, MachineSnapshot]:
        """Read all machines."""
        return {machine: machine_snapshot(self.shell, machine) for machine in MACHINES}

    def _environment(self, tree: Path) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        return {
            **own,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "ANSIBLE_CONFIG": str(tree / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_SSH_COMMON_ARGS": f'-F "{self.state / "ssh_config"}"',
            "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).parent / "callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "units",
            "BEDPLATE_UNITS": str(FOLDER / "tasks.jsonl"),
        }


class Taking:
    """The update of one cluster, step by step."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.workload = Workload(cluster.shell, "ctl1", NODES)
        self.seen = Update()

    def steps(self) -> None:
        """Build the cluster, start jobs, and update."""
        seen = self.seen
        self._build()
        seen.before = self.cluster.snapshots()
        seen.jobs = self.workload.start()
        self._offer_packages()
        self._spare_the_kernel()
        seen.checked = self._run("site.yml", "--check", "--diff")
        seen.after_check = self.cluster.snapshots()
        seen.runs = [self._run("site.yml"), self._run(*RDMA)]
        seen.after = self.cluster.snapshots()
        seen.again = self._run("site.yml")
        report = FOLDER / "findings.json"
        seen.verified = self._run("verify.yml", "-e", f"verify_report_file={report}")
        seen.findings = json.loads(report.read_text()) if report.exists() else []

    def _build(self) -> None:
        """Have the release before build the cluster; its units start there as on real nodes."""
        tree = self.cluster.tree
        self.cluster.lab("create", "--inventory", str(self.cluster.site))
        for node in NODES:
            done = self.cluster.shell(node, _START_IN_CONTAINERS)
            assert done.returncode == 0, done.stderr
        for playbook in (("site.yml",), RDMA):
            built = self.cluster.play(tree, *playbook)
            assert built.returncode == 0, built.stdout[-6000:] + built.stderr[-2000:]

    def _offer_packages(self) -> None:
        """Build the stand-ins again: NVIDIA's repositories have packages that the release before did not install."""
        cluster_file = yaml.safe_load((self.cluster.site / "update.bedplate.yml").read_text())
        settings = json.loads((self.cluster.site / "vendor.json").read_text())
        build(self.cluster.state / "vendor", [cluster_file["gpu_stack"]["os"]], drivers=settings["drivers"])

    def _spare_the_kernel(self) -> None:
        """Set what the release before does not know, as group_vars of the site set the rest: nothing of this machine's kernel changes."""
        before = yaml.safe_load((self.cluster.site / "group_vars/all/update.yml").read_text())
        table = json.loads((ROOT / "plugins/plugin_utils/tuning/sysctl.json").read_text())
        rows = [*table["settings"], *table["shares"]["settings"], *table["neighbours"]["settings"]]
        keys = [*before["node_tuning_sysctl"], *(row["key"] for row in rows)]
        new = {
            "node_tuning_sysctl": dict.fromkeys(keys),
            "node_tuning_bridge_power": "keep",
            "node_tuning_relaxed_ordering": "keep",
        }
        (self.cluster.site / "group_vars/all/update_new.yml").write_text(yaml.safe_dump(new))

    def _run(self, playbook: str, *arguments: str) -> Run:
        tasks = FOLDER / "tasks.jsonl"
        tasks.unlink(missing_ok=True)
        done = self.cluster.play(ROOT, playbook, *arguments)
        lines = tasks.read_text().splitlines() if tasks.exists() else []
        hurt = judge(self.seen.jobs, self.workload.observe())
        return Run(done.returncode, done.stdout, done.stderr, [json.loads(line) for line in lines], hurt)


@contextmanager
def updated() -> Iterator[Update]:
    """Build, update, and lend what was seen; containers and work tree go with it."""
    site = FOLDER / "site"
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(Path(__file__).parent / "site", site)
    with checkout(release_before(), FOLDER / "tree") as tree:
        cluster = Cluster(tree)
        try:
            taking = Taking(cluster)
            taking.steps()
            yield taking.seen
        finally:
            cluster.lab("destroy")
