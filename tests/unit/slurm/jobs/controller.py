"""A controller with its files and a stand-in for its slurmctld, and the module that compares them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.conf_reader import read
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.fence import Closed, Fence, reason
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live import slurm_commands
from ansible_collections.bedplate.cluster.plugins.modules import slurm_fence, slurm_in_use

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
ROOT = Path(__file__).parents[4]
NODES = "NodeName=n[1-3] NodeAddr=10.0.0.[1-3] CPUs=2\nPartitionName=gpu Nodes=n[1-3]\nPartitionName=old Nodes=n3\n"
RUNNING = "17|gpu|n1|\n"
WANTED = [f"NodeName=n{number} NodeAddr=10.0.0.{number} CPUs=4 Feature=new State=UNKNOWN" for number in (1, 2, 3)]
FENCED = "Reason=bedplate:edit: the line of this node is about to change"
"""In a command of this run, without its name, time and sum."""
KILLED = f"Reason={reason('killed', datetime(2026, 1, 1, tzinfo=UTC))} [root@2026-01-01T00:00:00]"
"""In a line of scontrol, of a run that was killed long ago."""
OPEN = "PartitionName=gpu Nodes=n[1-3] State=UP\nPartitionName=old Nodes=n3 State={}\n"
# As Slurm 24.11 prints it; the last line has an equals sign of its own.
CONFIG = """\
Configuration data as of 2026-11-21T09:00:00
AccountingStorageBackupHost = (null)
ClusterName             = {cluster}
StateSaveLocation       = {state}
SlurmctldParameters     = enable_configless,idle_on_node_suspend=1

Slurmctld(primary) at ctl1 is UP
"""


class Node:
    """A controller: its files, its slurmctld, and the module with its arguments."""

    def __init__(self, root: Path) -> None:
        self.etc, self.old, self.new = root / "etc", root / "old", root / "new"
        for directory in (self.etc, self.old, self.new):
            directory.mkdir()
        self.params: dict[str, Any] = {
            "nodes": "n[1-3]", "partitions": ["gpu", "old"], "cluster": "lab", "state_save_location": str(self.old),
            "slurmd_spool_dir": "", "controllers": [], "unasked": False, "directory": str(self.etc),
            "node_lines": [], "gres_lines": [], "counted": None, "guarded": [], "read_back": False,
            "fence": False, "run": "mine", "state_directory": str(root / "state"),
        }  # fmt: skip
        self.answers: dict[str, str] | None = None
        self.warnings: list[str] = []
        self.updates = []
        self.after_update = lambda: None
        self.environments: list[dict[str, str]] = []

    def conf(self, text: str = NODES, cluster: str = "lab") -> None:
        (self.etc / "slurm.conf").write_text(f"ClusterName={cluster}\nStateSaveLocation={self.old}\n{text}")

    def up(self, jobs: str = "", nodes: str = "", cluster: str = "lab") -> None:
        self.answers = {
            "config": CONFIG.format(cluster=cluster, state=self.old),
            "nodes": "".join(f"NodeName={name} Sockets=1 State=IDLE\n" for name in ["n1", "n2", "n3", *nodes.split()]),
            "partitions": "PartitionName=gpu Nodes=n[1-3]\nPartitionName=old Nodes=n3\n",
            "squeue": jobs,
        }

    check_mode = False
    updates: list[str]

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> Outcome:
        """Answer a command of Slurm as slurmctld would."""
        if "update" in command:
            # The reason has the time of the run.
            self.updates.append(re.sub(r"(bedplate:edit:)\S+ \S+Z( .*) \[\w{4}\]", r"\1\2", " ".join(command[2:])))
            self.after_update()
            return Outcome(0, "", "")
        self.environments.append({**os.environ, **environment})
        key = "squeue" if "squeue" in command else command[-1]
        return Outcome(1, "", "refused") if key not in (self.answers or {}) else Outcome(0, self.answers[key], "")

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def answer(self) -> tuple[Any, list[str]]:
        return slurm_in_use.find(self)  # type: ignore[arg-type]

    def find(self) -> tuple[Any, list[str]]:
        answer, problems = self.answer()
        return answer.kept, problems


def installed(node: Node, monkeypatch: pytest.MonkeyPatch) -> Node:
    """Have a controller answer the commands of Slurm."""
    monkeypatch.setattr(slurm_commands.command, "run", lambda argv, _seconds, environment: node.run(argv, environment))
    return node


def edited(node: Node, jobs: str = "7|gpu|n2|\n8|gpu|n2|\n9|gpu||n3") -> None:
    node.conf()
    node.up(jobs)
    assert node.answers
    node.answers["config"] = node.answers["config"].replace("ClusterName", "HASH_VAL = Match\nClusterName")
    node.params["node_lines"] = WANTED


def fenced(node: Node) -> None:
    edited(node, jobs="7|gpu|n2|")
    node.params.update(fence=True, counted="n[1-3]")


def closed(node: Node, state: str, *names: str) -> Path:
    node.conf()
    node.up()
    assert node.answers
    node.answers["partitions"] = OPEN.format(state)
    record = Path(node.params["state_directory"]) / "slurm_fence.json"
    record.parent.mkdir(exist_ok=True)
    if names:
        record.write_text(json.dumps({"version": 1, "partitions": list(names)}))
    return record


def state_of(node: Node, name: str, pairs: str) -> None:
    assert node.answers
    before = f"NodeName={name} Sockets=1 State=IDLE"
    node.answers["nodes"] = node.answers["nodes"].replace(before, f"NodeName={name} {pairs}")


def give_back(node: Node, *partitions: str) -> tuple[list[str], list[str]]:
    live = slurm_commands.query(node.etc / "slurm.conf")
    assert live
    conf = read(node.etc / "slurm.conf")
    fence = Fence(["n3"], list(partitions))
    commands = slurm_fence.planned(live, conf, fence)
    closed = Closed(Path(node.params["state_directory"]))
    return commands, slurm_fence.give_back(node, live, conf, fence, closed)  # type: ignore[arg-type]
