"""The module that asks what jobs still need: what it finds, what it refuses, what it says."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.conf_reader import read
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.fence import (
    Closed,
    Fence,
    _takes_jobs,
    reason,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.kept_lines import notices
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live import slurm_commands
from ansible_collections.bedplate.cluster.plugins.modules import slurm_fence, slurm_in_use
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
ROOT = Path(__file__).parents[4]
NODES = "NodeName=n[1-3] NodeAddr=10.0.0.[1-3] CPUs=2\nPartitionName=gpu Nodes=n[1-3]\nPartitionName=old Nodes=n3\n"
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
            self.updates.append(re.sub(r"(bedplate:edit:)\S+", r"\1", " ".join(command[2:])))
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


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return installed(Node(tmp_path), monkeypatch)


def test_a_fresh_host_has_nothing_to_keep_and_is_not_asked(node: Node):
    kept, problems = node.find()
    assert (kept.slurm, problems, node.environments) == ([], [], [])


def test_a_fresh_host_says_whether_it_has_the_jobs_of_a_slurmctld(node: Node):
    assert node.answer()[0].facts()["has_state"] is False
    (node.old / "job_state").touch()
    assert node.answer()[0].facts()["has_state"] is True


@pytest.mark.parametrize(
    ("is_up", "has_job_state", "options", "has_state", "count"),
    [
        (False, False, {}, False, ["n1", "n2", "n3"]),
        (False, True, {}, True, []),
        (True, False, {}, True, []),
        (False, False, {"unasked": True}, True, []),
        (False, False, {"read_back": True}, False, []),
    ],
    ids=["lost", "stopped", "running", "unasked", "verify"],
)
def test_a_controller_that_would_start_without_jobs_has_its_nodes_asked(
    node: Node, is_up: bool, has_job_state: bool, options: dict[str, bool], has_state: bool, count: list[str]
):
    node.conf()
    node.params.update(options)
    if is_up:
        node.up(RUNNING)
    if has_job_state:
        (node.old / "job_state").touch()
    answer, problems = node.answer()
    assert (answer.has_state, answer.count, answer.new, problems) == (has_state, count, [], [])


def test_a_node_that_is_not_in_force_yet_is_new_where_the_state_is_lost(node: Node):
    node.conf()
    node.params.update(
        nodes="n[1-4]", node_lines=["NodeName=n[1-3] NodeAddr=10.0.0.[1-3] CPUs=2", "NodeName=n4 CPUs=2"]
    )
    answer, problems = node.answer()
    assert (sorted(answer.count), answer.new, problems) == (["n1", "n2", "n3", "n4"], ["n4"], [])


RUNNING = "17|gpu|n1|\n"


def test_a_controller_that_left_must_not_run_any_more(node: Node):
    node.params["controllers"] = ["ctl2"]
    node.conf(NODES + "SlurmctldHost=ctl1(10.0.0.9)\nSlurmctldHost=ctl2(10.0.0.8)\n")
    node.up()
    (problem,) = node.find()[1]
    assert problem.startswith("ctl1 ")
    assert all(
        value in problem
        for value in ("services.controllers", "`systemctl disable --now slurmctld`", str(node.old), "ctl2")
    )
    sentences.check(SENTENCES, "a controller that left still runs", [problem.replace(str(node.old), "/state")])
    node.params["controllers"] = ["ctl2", "ctl1"]
    assert node.find()[1] == []


def test_the_nodes_keep_the_directory_of_their_jobs(node: Node):
    node.params["slurmd_spool_dir"] = "/local/slurmd"
    node.conf()
    (problem,) = node.find()[1]  # nobody says that there are no jobs
    assert problem.startswith("SlurmdSpoolDir ")
    sentences.check(SENTENCES, "another SlurmdSpoolDir, no answer", [problem])
    node.up()
    assert node.find()[1] == []
    node.up(jobs=RUNNING)
    (problem,) = node.find()[1]
    assert problem.startswith("SlurmdSpoolDir ")
    assert all(value in problem for value in ("/local/slurmd", "SlurmdSpoolDir: /var/spool/slurmd", "jobs 17"))
    sentences.check(SENTENCES, "another SlurmdSpoolDir, with jobs", [problem])
    node.params["slurmd_spool_dir"] = "/var/spool/slurmd/"
    assert node.find()[1] == []


def test_nothing_leaves_and_slurmctld_is_down(node: Node):
    node.conf()
    assert node.find()[1] == []


def test_what_jobs_need_stays_and_is_told_in_a_line_per_set_of_jobs(node: Node):
    node.conf()
    node.up("7|old,gpu|n[2-3]|\n8|gpu||n2", nodes="cloud1")
    node.params.update(nodes="n1", partitions=["gpu"])
    kept, problems = node.find()
    assert problems == []
    assert kept.nodes == {"n2": ["7", "8"], "n3": ["7"]}
    assert kept.slurm == [
        "NodeName=n2 NodeAddr=10.0.0.2 CPUs=2",
        "NodeName=n3 NodeAddr=10.0.0.3 CPUs=2",
        "PartitionName=old Nodes=n3 Default=NO State=DRAIN Hidden=YES",
    ]
    assert [" ".join(one.split()[:2]) for one in node.warnings] == ["node n2", "node n3", "partition old"]
    # The second number of 8 says that this job waits for its node.
    assert [re.findall(r"\b[78]\b", one) for one in node.warnings] == [["7", "8", "8"], ["7"], ["7"]]
    sentences.check(SENTENCES, "what jobs need stays", node.warnings)


def test_a_job_on_a_node_that_only_slurmctld_has_keeps_it(node: Node):
    node.conf()
    node.up("7|gpu|cloud1|", nodes="cloud1")
    assert node.find()[0].slurm == ["NodeName=cloud1 Sockets=1"]


def test_it_asks_by_the_file_it_compares_and_without_the_habits_of_a_login(node: Node, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SQUEUE_STATES", "PENDING")
    monkeypatch.setenv("SLURM_CLUSTERS", "other")
    node.conf()
    node.up()
    node.find()
    assert len(node.environments) == 4
    for environment in node.environments:
        assert environment["SLURM_CONF"] == str(node.etc / "slurm.conf")
        assert not {"SQUEUE_STATES", "SLURM_CLUSTERS"} & set(environment)


@pytest.mark.parametrize("lost", ["config", "nodes", "partitions", "squeue"])
def test_half_an_answer_is_none(node: Node, lost: str):
    node.conf()
    node.up("7|gpu|n2|")
    assert node.answers
    del node.answers[lost]
    node.params["nodes"] = "n[1,3]"
    kept, problems = node.find()
    assert kept.slurm == []
    assert len(problems) == 1
    assert {"slurmctld", "n2"} <= set(problems[0].split())
    sentences.check(SENTENCES, "a node leaves and slurmctld does not answer", problems)


def rename(node: Node) -> None:
    node.params["cluster"] = "new"


def move(node: Node) -> None:
    node.params["state_save_location"] = str(node.new)


def owned(node: Node) -> None:
    (node.old / "clustername").write_text("other|4021\n")


def moved_files(node: Node) -> None:
    move(node)
    (node.new / "job_state").write_text("")


def copied_files(node: Node) -> None:
    moved_files(node)
    (node.old / "job_state").write_text("")


def stale_file(node: Node) -> None:
    """slurm.conf has been edited; slurmctld goes on under the old name."""
    node.conf(cluster="LAB")
    node.up("7|gpu|n2|", cluster="before")


def half_read(node: Node) -> None:
    node.conf(f"{NODES}Include more.conf\n")


def same_by_link(node: Node) -> None:
    link = node.old.parent / "link"
    link.symlink_to(node.old)
    node.params["state_save_location"] = f"{link}/"


JOBS = "7|gpu|n2|\n8|gpu||"
UNASKED = "slurm_controller_remove_unasked"
# how the node is -> jobs, or None when slurmctld is down -> unasked -> what each problem names
PROBLEMS: dict[str, tuple[list[Any], str | None, bool, list[tuple[str, ...]]]] = {
    "all as it was": ([], JOBS, False, []),
    "renamed with jobs": ([rename], JOBS, False, [("`cluster: new`", " lab,", " 2 jobs")]),
    "renamed, jobs, nothing helps": ([rename], JOBS, True, [("`cluster: lab`",)]),
    "renamed without jobs": ([rename], "", False, []),
    "renamed, no answer": ([rename], None, False, [("`cluster: lab`", UNASKED)]),
    "renamed, no answer, unasked": ([rename], None, True, []),
    "another name in slurmctld": ([stale_file], JOBS, False, [("`cluster: before`", " 1 jobs")]),
    "moved with jobs": ([move], JOBS, False, [("{new}", "`StateSaveLocation: {old}`", " 2 jobs")]),
    "moved with jobs, files too": ([moved_files], JOBS, False, [("`StateSaveLocation: {old}`",)]),
    "moved without jobs": ([move], "", False, []),
    "moved, no answer": ([move], None, False, [("{new}", "`StateSaveLocation: {old}`", UNASKED)]),
    "moved, no answer, unasked": ([move], None, True, []),
    "moved, no answer, files too": ([moved_files], None, False, []),
    "moved, no answer, files copied": ([copied_files], None, False, [("`StateSaveLocation: {old}`",)]),
    "the same directory by a link": ([same_by_link], JOBS, False, []),
    "renamed and moved": ([rename, move], JOBS, False, [("`cluster: lab`",), ("`StateSaveLocation: {old}`",)]),
    "the state of another cluster": ([owned], "", True, [("{old}/clustername", " other,", "`cluster: lab`")]),
    "renamed, jobs, the state says so too": ([rename, owned], JOBS, False, [("`cluster: new`", "{old}/clustername")]),
    "an include is missing": ([half_read], JOBS, False, []),
    "an include is missing, no answer": ([half_read], None, False, [("Include more.conf: {etc}/more.conf",)]),
    "an include is missing, no answer, unasked": ([half_read], None, True, []),
}  # fmt: skip
# One of each sentence.
SAID = (
    "renamed with jobs",
    "renamed, no answer",
    "moved with jobs",
    "moved, no answer",
    "the state of another cluster",
    "an include is missing, no answer",
)


@pytest.mark.parametrize("case", PROBLEMS)
def test_problems(node: Node, case: str):
    changes, jobs, unasked, wanted = PROBLEMS[case]
    node.conf()
    if jobs is not None:
        node.up(jobs)
    node.params["unasked"] = unasked
    for change in changes:
        change(node)
    problems = node.find()[1]
    assert len(problems) == len(wanted), problems
    for problem, parts in zip(problems, wanted, strict=True):
        assert all(part.format(old=node.old, new=node.new, etc=node.etc) in problem for part in parts)
        assert (UNASKED in problem) == (jobs is None)
    if case in SAID:
        sentences.check(SENTENCES, f"identity: {case}", [one.replace(str(node.etc.parent), "") for one in problems])


@pytest.mark.parametrize(("name", "count"), [("lab", 0), ("LAB|7", 0), ("", 0), ("other", 1)])
def test_a_new_controller_looks_whose_the_state_is(node: Node, name: str, count: int):
    (node.old / "clustername").write_text(name)
    problems = node.find()[1]
    assert len(problems) == count
    assert not count or f"remove {node.old}/clustername and run again" in problems[0]


def test_all_that_is_wrong_is_told_at_once(node: Node):
    node.conf(f"{NODES}Include more.conf\n")
    node.params.update(nodes="n1", partitions=["gpu"], cluster="new")
    problems = node.find()[1]
    named = [["`cluster: new`", "`cluster: lab`"], ["n[2-3]", " old "], ["slurm.conf", f"{node.etc}/more.conf"]]
    assert len(problems) == len(named)
    assert all(value in problem for problem, values in zip(problems, named, strict=True) for value in values)
    assert all(UNASKED in problem for problem in problems)


# As bedplate writes them, for the nodes of NODES with twice the CPUs.
WANTED = [f"NodeName=n{number} NodeAddr=10.0.0.{number} CPUs=4 Feature=new State=UNKNOWN" for number in (1, 2, 3)]


def edited(node: Node, jobs: str = "7|gpu|n2|\n8|gpu|n2|\n9|gpu||n3") -> None:
    node.conf()
    node.up(jobs)
    assert node.answers
    node.answers["config"] = node.answers["config"].replace("ClusterName", "HASH_VAL = Match\nClusterName")
    node.params["node_lines"] = WANTED


def test_a_node_with_jobs_keeps_its_line_and_all_others_change(node: Node):
    edited(node)
    answer, problems = node.answer()
    assert problems == []
    kept = "NodeName=n2 NodeAddr=10.0.0.2 CPUs=2 Feature=new State=UNKNOWN # kept by bedplate until its jobs end"
    assert sorted(answer.kept.slurm) == [kept]
    assert [(group.nodes, group.waits, group.jobs) for group in answer.changing] == [
        ("n[1,3]", "", []),
        ("n2", "jobs", ["7", "8"]),
    ]
    assert answer.facts()["count"] == "n[1-3]"
    (warning,) = node.warnings
    for part in ("n2: Sockets 2 -> 4", "ids 7, 8", "playbooks/scheduler.yml"):
        assert part in warning
    sentences.check(SENTENCES, "a node with jobs keeps its line", node.warnings)


@pytest.mark.parametrize(("counted", "kept"), [("n[1,3]", ["n2"]), ("n3", ["n1", "n2"]), ("", ["n1", "n2", "n3"])])
def test_a_node_that_was_not_counted_keeps_its_line_too(node: Node, counted: str, kept: list[str]):
    edited(node)
    node.params["counted"] = counted
    answer = node.answer()[0]
    assert sorted(line.split()[0].partition("=")[2] for line in answer.kept.slurm) == kept
    assert {group.waits for group in answer.changing if group.nodes != "n2"} == {
        "uncounted" if name in kept else "" for name in ("n1", "n3")
    }
    if counted == "n3":
        sentences.check(SENTENCES, "a node that was not counted keeps its line", node.warnings[:1])


def test_what_is_read_back_are_lines_that_a_run_has_kept(node: Node):
    edited(node, jobs="7|gpu|n3|")
    lines = NODES.replace("n[1-3] NodeAddr=10.0.0.[1-3]", "n[1,3] NodeAddr=10.0.0.[1,3]", 1)
    node.conf(
        f"{lines}NodeName=n2 NodeAddr=10.0.0.2 CPUs=2 Feature=new State=UNKNOWN # kept by bedplate until its jobs end\n"
    )
    node.params["read_back"] = True
    answer = node.answer()[0]
    # n2 has no job any more, and n1 and n3 were edited by hand: those are no lines to expect.
    assert [(group.nodes, group.waits) for group in answer.changing if group.waits] == [("n2", "uncounted")]
    assert [line.split()[0] for line in answer.kept.slurm] == ["NodeName=n2"]


def test_what_is_read_back_refuses_nothing(node: Node):
    edited(node)
    node.params.update(read_back=True, cluster="new")
    assert node.answer()[1] == []
    node.answers = None
    assert node.answer()[1] == []


@pytest.mark.parametrize(("unasked", "problems"), [(False, 1), (True, 0)])
def test_hardware_changes_and_slurmctld_is_down(node: Node, unasked: bool, problems: int):
    edited(node)
    node.answers = None
    node.params["unasked"] = unasked
    found = node.answer()[1]
    assert len(found) == problems
    assert all("nodes n[1-3] " in problem and UNASKED in problem for problem in found)
    if found:
        sentences.check(SENTENCES, "hardware changes and slurmctld does not answer", found)


def test_nothing_changes_and_nothing_is_counted(node: Node):
    edited(node)
    node.params["node_lines"] = ["NodeName=n[1-3] NodeAddr=10.0.0.[1-3] CPUs=2"]
    answer = node.answer()[0]
    assert (answer.changing, answer.facts()["count"], node.warnings) == ([], "", [])


def test_a_fresh_cluster_has_only_new_nodes(node: Node):
    facts = node.answer()[0].facts()
    assert (facts["count"], facts["new"]) == ("n[1-3]", "n[1-3]")


GUARDED = {"option": "SelectType", "place": "slurm.options of x.bedplate.yml", "lowered": False}


@pytest.mark.parametrize(("value", "problems"), [("9999", 1), ("10000", 0), ("20000", 0), ("", 0)])
def test_an_option_that_ends_jobs_when_it_is_lowered(node: Node, value: str, problems: int):
    node.conf()
    node.up("7|gpu|n2|")
    assert node.answers
    node.answers["config"] += "MaxJobCount = 10000\n"
    node.params["guarded"] = [{**GUARDED, "option": "MaxJobCount", "value": value, "lowered": True}]
    assert len(node.answer()[1]) == problems


@pytest.mark.parametrize(
    ("file", "live", "value", "jobs", "problems"),
    [
        ("select/cons_tres", "select/cons_tres", "select/linear", "7|gpu|n2|", 1),
        ("select/cons_tres", "select/cons_tres", "select/linear", "7|gpu||", 0),
        ("select/cons_tres", "select/cons_tres", "Select/Cons_Tres", "7|gpu|n2|", 0),
        ("", "select/cons_tres", "select/cons_tres", "7|gpu|n2|", 0),
        ("", "select/cons_tres", "", "7|gpu|n2|", 0),
        ("", "select/cons_tres", "select/linear", "7|gpu|n2|", 1),
        ("select/linear", "select/linear", "", "7|gpu|n2|", 1),
    ],
)
def test_an_option_that_ends_jobs_waits_for_them(
    node: Node, file: str, live: str, value: str, jobs: str, problems: int
):
    node.conf(NODES + (f"SelectType={file}\n" if file else ""))
    node.up(jobs)
    assert node.answers
    node.answers["config"] += f"SelectType = {live}\n"
    node.params["guarded"] = [{**GUARDED, "value": value}]
    found = node.answer()[1]
    assert len(found) == problems
    for problem in found:
        for part in ("SelectType", "jobs 7 ", "slurm.options of x.bedplate.yml"):
            assert part in problem
        sentences.check(SENTENCES, f"an option that ends jobs, SelectType={value}", [problem])


@pytest.mark.parametrize(
    ("text", "rc", "said"),
    [("", 0, ""), (NODES, 1, "nodes n[2-3] and partitions old "), ("NodeName=n[1-\n", 1, "unbalanced '['")],
)
def test_the_module_in_check_mode_on_a_node_without_slurm(node: Node, text: str, rc: int, said: str):
    if text:
        node.conf(text)
    arguments = {**node.params, "nodes": "n1", "partitions": ["gpu"], "_ansible_check_mode": True}
    done = subprocess.run(
        [sys.executable, "-m", "ansible_collections.bedplate.cluster.plugins.modules.slurm_in_use"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": {**arguments, "_ansible_remote_tmp": "/tmp"}}),
        env={**os.environ, "PYTHONPATH": str(ROOT / "collections"), "PATH": str(node.etc)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert (done.returncode, answer.get("changed", False)) == (rc, False), done.stdout
    assert said in answer.get("msg", "")


def test_lines_that_are_kept_still_are_notices():
    group = {"nodes": "n[1-2]", "changes": ["Sockets 2 -> 4"], "waits": "jobs", "jobs": ["7"]}
    found = notices([group, {**group, "nodes": "n3", "waits": "uncounted", "jobs": []}, {**group, "waits": ""}])
    assert [(one.kind, one.where, one.severity) for one in found] == [
        ("kept-for-jobs", "node n[1-2]", "notice"),
        ("kept-for-jobs", "node n3", "notice"),
    ]
    assert "7" in found[0].found
    assert "scheduler.yml" in found[1].remedy
    sentences.check(SENTENCES, "lines that are kept still", found)


FENCED = "Reason=bedplate:edit: the line of this node is about to change"


def fenced(node: Node) -> None:
    edited(node, jobs="7|gpu|n2|")
    node.params.update(fence=True, counted="n[1-3]")


def test_no_job_starts_on_a_node_that_is_about_to_change(node: Node):
    fenced(node)
    answer = node.answer()[0]
    assert node.updates == [f"NodeName=n[1,3] State=DRAIN {FENCED}"]
    assert answer.facts()["fence"] == {"nodes": "n[1,3]", "partitions": []}
    assert answer.raised


def test_a_job_that_was_faster_than_the_fence_keeps_its_node_which_is_given_back(node: Node):
    fenced(node)

    def job_starts() -> None:
        node.after_update = lambda: None
        assert node.answers
        node.answers["squeue"] += "\n8|gpu|n3|"
        node.answers["nodes"] = node.answers["nodes"].replace(
            "NodeName=n3 Sockets=1 State=IDLE", f"NodeName=n3 Sockets=1 State=MIXED+DRAIN {FENCED}"
        )

    node.after_update = job_starts
    answer = node.answer()[0]
    assert node.updates[1:] == ["NodeName=n3 State=RESUME"]
    assert answer.facts()["fence"]["nodes"] == "n1"
    assert {line.split()[0] for line in answer.kept.slurm} == {"NodeName=n2", "NodeName=n3"}


def test_a_node_that_was_not_counted_is_not_drained(node: Node):
    fenced(node)
    node.params["counted"] = "n1"
    answer = node.answer()[0]
    assert node.updates == [f"NodeName=n1 State=DRAIN {FENCED}"]
    assert answer.facts()["fence"]["nodes"] == "n1"
    assert {line.split()[0] for line in answer.kept.slurm} == {"NodeName=n2", "NodeName=n3"}


def test_what_leaves_takes_no_new_job(node: Node):
    fenced(node)
    node.params.update(nodes="n[1-2]", partitions=["gpu"], node_lines=[])
    assert node.answers
    node.answers["partitions"] = "PartitionName=gpu Nodes=n[1-3] State=UP\nPartitionName=old Nodes=n3 State=UP\n"
    answer = node.answer()[0]
    assert node.updates == [f"NodeName=n3 State=DRAIN {FENCED}", "PartitionName=old State=DRAIN"]
    assert answer.facts()["fence"] == {"nodes": "n3", "partitions": ["old"]}


@pytest.mark.parametrize("quiet", ["check mode", "not asked to", "nothing changes"])
def test_nothing_is_drained(node: Node, quiet: str):
    fenced(node)
    node.check_mode = quiet == "check mode"
    node.params["fence"] = quiet != "not asked to"
    if quiet == "nothing changes":
        node.params["node_lines"] = []
    answer = node.answer()[0]
    assert (node.updates, answer.raised) == ([], False)


def young(minutes: float, run: str = "other") -> str:
    """Return the reason of a run that drained a node some minutes ago."""
    return f"Reason={reason(run, datetime.now(UTC) - timedelta(minutes=minutes))}"


def drained(node: Node, words: str) -> None:
    node.conf()
    node.up()
    assert node.answers
    node.answers["nodes"] = f"NodeName=n1 State=IDLE+DRAIN {words}\nNodeName=n2 State=IDLE\nNodeName=n3 State=IDLE\n"


@pytest.mark.parametrize("minutes", [0, 9.9, -5])
@pytest.mark.parametrize("refused", [False, True])
def test_nodes_that_another_run_keeps_free_stay_so(node: Node, minutes: float, refused: bool):
    drained(node, young(minutes))
    if refused:
        node.params["cluster"] = "other"
        assert node.answers
        node.answers["squeue"] = RUNNING
    answer, problems = node.answer()
    assert bool(problems) == refused
    assert node.updates == []
    assert answer.facts()["fence"] == {"nodes": "", "partitions": []}
    if not refused:
        assert "`scontrol update nodename=n1 state=resume`" in node.warnings[0]
        sentences.check(SENTENCES, "another run has drained a node", node.warnings)


@pytest.mark.parametrize("minutes", [10.1, 600, -11])
def test_nodes_that_a_run_has_kept_free_for_too_long_are_given_back(node: Node, minutes: float):
    drained(node, young(minutes))
    assert node.answer()[0].facts()["fence"] == {"nodes": "n1", "partitions": []}


@pytest.mark.parametrize(
    ("run", "minutes", "given_back"), [("other", 1, []), ("other", 11, ["old"]), ("mine", 1, ["old"])]
)
def test_partitions_that_another_run_has_closed_stay_so(node: Node, run: str, minutes: float, given_back: list[str]):
    closed(node, "DRAIN")
    Closed(Path(node.params["state_directory"])).add(["old"], run, datetime.now(UTC) - timedelta(minutes=minutes))
    assert node.answer()[0].facts()["fence"] == {"nodes": "", "partitions": given_back}
    assert ["`scontrol update partitionname=old state=up`" in one for one in node.warnings] == [True] * (not given_back)
    if node.warnings:
        sentences.check(SENTENCES, "another run has closed a partition", node.warnings)


def test_nodes_that_another_controller_of_this_run_has_drained_are_its_own(node: Node):
    drained(node, young(0, "mine"))
    assert node.answer()[0].facts()["fence"] == {"nodes": "n1", "partitions": []}


def test_a_change_of_hardware_waits_for_the_run_that_keeps_nodes_free(node: Node):
    fenced(node)
    assert node.answers
    node.answers["nodes"] = node.answers["nodes"].replace(
        "NodeName=n2 Sockets=1 State=IDLE", f"NodeName=n2 Sockets=1 State=IDLE+DRAIN {young(1)}"
    )
    problems = node.answer()[1]
    assert ["`scontrol update nodename=n2 state=resume`" in one for one in problems] == [True]
    assert node.updates == []


def test_what_a_killed_run_has_drained_is_given_back_by_the_next(node: Node):
    node.conf()
    node.up()
    assert node.answers
    node.answers["nodes"] = (
        f"NodeName=n1 State=IDLE+DRAIN {FENCED}\nNodeName=n2 State=IDLE+DRAIN Reason=fan\nNodeName=n3 State=IDLE\n"
    )
    answer = node.answer()[0]
    assert answer.facts()["fence"] == {"nodes": "n1", "partitions": []}
    assert not answer.raised


def test_a_fence_that_cannot_be_put_up_is_a_refusal(node: Node, monkeypatch: pytest.MonkeyPatch):
    fenced(node)
    original = node.run
    monkeypatch.setattr(
        node,
        "run",
        lambda command, environment: (
            Outcome(1, "", "denied") if "update" in command else original(command, environment)
        ),
    )
    (problem,) = node.answer()[1]
    assert "denied" in problem
    sentences.check(SENTENCES, "a fence that cannot be put up", [re.sub(r"\d{4}-\S+Z", "TIME", problem)])


LOWERED = {"option": "MaxJobCount", "value": "2", "place": "slurm.options of site", "lowered": True}


def guarded(node: Node, on_disk: str, reported: str, hash_value: str) -> list[str]:
    """Return the problems of a run that wants MaxJobCount=2 while a job runs."""
    node.conf(f"{NODES}MaxJobCount={on_disk}\n")
    node.up(RUNNING)
    assert node.answers
    head = f"HASH_VAL = {hash_value}\nMaxJobCount = {reported}\nClusterName"
    node.answers["config"] = node.answers["config"].replace("ClusterName", head)
    node.params["guarded"] = [LOWERED]
    return node.answer()[1]


@pytest.mark.parametrize(
    ("on_disk", "reported", "hash_value", "refused"),
    [
        ("10000", "10000", "Match", True),
        ("2", "2", "Match", False),
        # A file that was written and never read: slurmctld would lose its jobs at the reconfigure.
        ("2", "10000", "Different Ours=0x1 Slurmctld=0x2", True),
    ],
)
def test_an_option_that_ends_jobs_is_refused_while_they_run(node, on_disk, reported, hash_value, refused):
    assert bool(guarded(node, on_disk, reported, hash_value)) == refused


@pytest.mark.parametrize(("unasked", "refused"), [(False, True), (True, False)])
def test_an_option_that_ends_jobs_is_refused_where_nobody_knows_of_jobs(node: Node, unasked: bool, refused: bool):
    node.conf(f"{NODES}MaxJobCount=10000\n")
    node.params.update(guarded=[LOWERED], unasked=unasked)
    assert any("MaxJobCount" in one for one in node.answer()[1]) == refused


def test_a_slurmctld_that_stops_answering_behind_the_fence_is_a_refusal(node: Node):
    fenced(node)
    node.params.update(nodes="n1", partitions=["gpu"], node_lines=[])
    assert node.answers
    node.answers["partitions"] = OPEN.format("UP")

    def fall_silent() -> None:
        node.answers = None

    node.after_update = fall_silent
    answer, problems = node.answer()
    assert node.updates == [f"NodeName=n3 State=DRAIN {FENCED}", "PartitionName=old State=DRAIN"]
    assert [{"slurmctld", "n3", "old", "ten minutes"} <= set(one.split()) for one in problems] == [True]
    # n2 has left, too, and job 7 runs there: its line would be kept if slurmctld had answered.
    assert (answer.kept.slurm, answer.raised, node.warnings) == ([], False, [])
    assert Closed(Path(node.params["state_directory"])).names() == ["old"]
    sentences.check(SENTENCES, "no answer behind a fence", problems)


def test_what_was_drained_before_a_fence_failed_is_given_back(node: Node, monkeypatch: pytest.MonkeyPatch):
    fenced(node)
    node.params.update(nodes="n[1-2]", partitions=["gpu"], node_lines=[])
    assert node.answers
    node.answers["partitions"] = "PartitionName=gpu Nodes=n[1-3] State=UP\nPartitionName=old Nodes=n3 State=UP\n"
    original = node.run

    def half(command: Sequence[str], environment: Mapping[str, str]) -> Outcome:
        if "PartitionName=old" in command and "State=DRAIN" in command:
            assert node.answers
            state = f"NodeName=n3 State=IDLE+DRAIN {FENCED}"
            node.answers["nodes"] = node.answers["nodes"].replace("NodeName=n3 Sockets=1 State=IDLE", state)
            return Outcome(1, "", "denied")
        return original(command, environment)

    monkeypatch.setattr(node, "run", half)
    assert "denied" in node.answer()[1][0]
    assert node.updates[-1] == "NodeName=n3 State=RESUME"


def test_a_node_that_a_person_has_marked_is_left_alone(node: Node):
    fenced(node)
    assert node.answers
    node.answers["nodes"] = node.answers["nodes"].replace("NodeName=n1 Sockets=1 State=IDLE", "NodeName=n1 State=FAIL")
    assert node.answer()[0].facts()["fence"]["nodes"] == "n3"


def waiting_by_name(node: Node) -> None:
    """n3 leaves; job 9 waits for it by name, so that it stays."""
    fenced(node)
    node.params.update(nodes="n[1-2]", node_lines=[])
    node.up("9|gpu||n3")


def test_a_node_that_leaves_and_stays_for_a_waiting_job_is_not_drained(node: Node):
    waiting_by_name(node)
    answer = node.answer()[0]
    assert set(answer.kept.nodes) == {"n3"}
    assert (node.updates, answer.raised, answer.facts()["exposed"]) == ([], False, False)


def test_what_was_not_drained_stays_though_its_job_has_ended_meanwhile(node: Node):
    """Nothing keeps the next job off n2 and n3, so that their lines stay as they are."""
    fenced(node)
    node.up("7|gpu|n2|\n9|gpu||n3")
    node.params.update(nodes="n[1-2]", node_lines=WANTED[:2])

    def jobs_end() -> None:
        assert node.answers
        node.answers["squeue"] = ""

    node.after_update = jobs_end
    answer = node.answer()[0]
    assert node.updates == [f"NodeName=n1 State=DRAIN {FENCED}"]
    assert {line.split()[0] for line in answer.kept.slurm} == {"NodeName=n2", "NodeName=n3"}


def test_what_would_be_drained_is_told_without_draining(node: Node):
    fenced(node)
    node.params["fence"] = False
    answer = node.answer()[0]
    assert (node.updates, answer.facts()["exposed"]) == ([], True)


def test_a_node_whose_line_does_not_change_exposes_nothing(node: Node):
    fenced(node)
    node.params["node_lines"] = ["NodeName=n[1-3] NodeAddr=10.0.0.[1-3] CPUs=2"]
    assert not node.answer()[0].facts()["exposed"]


def test_the_files_of_the_controller_are_told_by_digest(node: Node):
    fenced(node)
    (node.etc / "gres.conf").write_text("a")
    (node.etc / "jwt_hs256.key").write_text("secret")
    facts = node.answer()[0].facts()
    assert set(facts["files"]) == {"slurm.conf", "gres.conf"}
    assert facts["files"]["gres.conf"] == hashlib.sha256(b"a").hexdigest()
    assert (facts["loaded"], facts["up"]) == (True, ["ctl1"])
    assert node.answers
    node.answers["config"] = node.answers["config"].replace("HASH_VAL = Match", "HASH_VAL = Different")
    assert not node.answer()[0].facts()["loaded"]


# State of the partition `old`, which a run that was killed has closed or a person.
OPEN = "PartitionName=gpu Nodes=n[1-3] State=UP\nPartitionName=old Nodes=n3 State={}\n"


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


@pytest.mark.parametrize(
    ("state", "names", "given_back"),
    [
        ("DRAIN", ["old"], ["old"]),
        ("DRAIN", [], []),
        ("DRAIN", ["gpu"], []),
        ("DOWN", ["old"], []),
        ("UP", ["old"], []),
    ],
)
def test_a_partition_that_a_killed_run_has_closed_is_given_back(node: Node, state: str, names: list[str], given_back):
    closed(node, state, *names)
    assert node.answer()[0].facts()["fence"] == {"nodes": "", "partitions": given_back}


def test_a_partition_that_the_file_closes_stays_closed(node: Node):
    closed(node, "DRAIN", "old")
    node.conf(NODES.replace("PartitionName=old Nodes=n3", "PartitionName=old Nodes=n3 State=DRAIN Hidden=YES"))
    assert node.answer()[0].facts()["fence"]["partitions"] == []


@pytest.mark.parametrize(("quiet", "given_back"), [("", True), ("check_mode", False), ("read_back", False)])
def test_a_refused_run_gives_back_what_a_killed_one_has_closed(node: Node, quiet: str, given_back: bool):
    record = closed(node, "DRAIN", "old")
    node.params.update(cluster="new", read_back=quiet == "read_back")
    node.check_mode = quiet == "check_mode"
    assert node.answers
    node.answers["squeue"] = RUNNING
    node.answers["nodes"] = node.answers["nodes"].replace(
        "NodeName=n3 Sockets=1 State=IDLE", f"NodeName=n3 State=IDLE+DRAIN {FENCED}"
    )
    assert bool(node.answer()[1]) == (quiet != "read_back")
    assert node.updates == (["NodeName=n3 State=RESUME", "PartitionName=old State=UP"] if given_back else [])
    assert record.exists() != given_back


def test_a_partition_is_on_record_before_it_is_closed(node: Node):
    record = closed(node, "UP")
    node.params.update(fence=True, counted="", partitions=["gpu"])
    seen = []

    def look() -> None:
        seen.append((json.loads(record.read_text())["partitions"], record.stat().st_mode & 0o777))

    node.after_update = look
    assert node.answer()[0].facts()["fence"]["partitions"] == ["old"]
    assert node.updates == ["PartitionName=old State=DRAIN"]
    assert seen == [(["old"], 0o600)]
    assert record.exists()


def test_a_partition_without_a_record_is_not_closed(node: Node):
    closed(node, "UP")
    node.params.update(fence=True, counted="", partitions=["gpu"], state_directory="/proc/nothing")
    (problem,) = node.answer()[1]
    assert "/proc/nothing" in problem
    sentences.check(SENTENCES, "a fence without a record", [problem])
    assert node.updates == []


def test_a_partition_with_a_late_job_is_open_again(node: Node):
    record = closed(node, "UP")
    node.params.update(fence=True, counted="", partitions=["gpu"])

    def job_comes() -> None:
        node.after_update = lambda: None
        assert node.answers
        node.answers.update(squeue="8|old||", partitions=OPEN.format("DRAIN"))

    node.after_update = job_comes
    answer = node.answer()[0]
    assert node.updates == ["PartitionName=old State=DRAIN", "PartitionName=old State=UP"]
    assert answer.facts()["fence"]["partitions"] == []
    assert set(answer.kept.partitions) == {"old"}
    assert not record.exists()


def give_back(node: Node, *partitions: str) -> tuple[list[str], list[str]]:
    live = slurm_commands.query(node.etc / "slurm.conf")
    assert live
    conf = read(node.etc / "slurm.conf")
    fence = Fence(["n3"], list(partitions))
    commands = slurm_fence.planned(live, conf, fence)
    closed = Closed(Path(node.params["state_directory"]))
    return commands, slurm_fence.give_back(node, live, conf, fence, closed)  # type: ignore[arg-type]


def test_what_was_closed_is_opened_and_forgotten(node: Node):
    record = closed(node, "DRAIN", "old")
    assert give_back(node, "old") == (["scontrol update PartitionName=old State=UP"], [])
    assert node.updates == ["PartitionName=old State=UP"]
    assert not record.exists()


@pytest.mark.parametrize(
    ("state", "takes"),
    [("IDLE", True), ("MIXED", True), ("IDLE+POWERED_DOWN", True), ("", False), ("DOWN*", False), ("IDLE+DRAIN", False),
     ("IDLE+FAIL", False), ("IDLE+REBOOT_REQUESTED", False), ("FUTURE", False), ("UNKNOWN", False)],
)  # fmt: skip
def test_only_a_node_that_could_get_a_job_is_drained(state: str, takes: bool):
    assert _takes_jobs(state) is takes


def test_in_check_mode_what_is_closed_stays_closed_and_the_command_is_named(node: Node):
    record = closed(node, "DRAIN", "old")
    node.check_mode = True
    assert give_back(node, "old") == (["scontrol update PartitionName=old State=UP"], [])
    assert node.updates == []
    assert record.exists()


@pytest.mark.parametrize("state", ["DOWN", "INACTIVE", "UP"])
def test_a_partition_with_a_state_that_a_person_gave_it_is_forgotten(node: Node, state: str):
    record = closed(node, state, "old")
    assert give_back(node, "old") == ([], [])
    assert not record.exists()


def test_a_partition_that_stays_for_its_jobs_stays_closed(node: Node):
    record = closed(node, "DRAIN", "old")
    node.conf(NODES.replace("PartitionName=old Nodes=n3", "PartitionName=old Nodes=n3 State=DRAIN Hidden=YES"))
    assert give_back(node, "old") == ([], [])
    assert not record.exists()


def test_a_partition_that_is_about_to_leave_stays_closed_and_on_record(node: Node):
    record = closed(node, "DRAIN", "old")
    node.conf(NODES.replace("PartitionName=old Nodes=n3\n", ""))
    assert give_back(node, "old") == ([], [])
    assert record.exists()


def test_what_cannot_be_opened_stays_on_record_and_all_else_is_given_back(node: Node, monkeypatch: pytest.MonkeyPatch):
    record = closed(node, "DRAIN", "old")
    assert node.answers
    node.answers["nodes"] = f"NodeName=n3 State=IDLE+DRAIN {FENCED}\n"
    original = node.run

    def denied(command: Sequence[str], environment: Mapping[str, str]) -> Outcome:
        node.updates += [" ".join(command[2:])] if "update" in command else []
        return Outcome(1, "", "denied") if "update" in command else original(command, environment)

    monkeypatch.setattr(node, "run", denied)
    assert len(give_back(node, "old")[1]) == 2
    assert node.updates == ["NodeName=n3 State=RESUME", "PartitionName=old State=UP"]
    assert record.exists()


def state_of(node: Node, name: str, pairs: str) -> None:
    assert node.answers
    before = f"NodeName={name} Sockets=1 State=IDLE"
    node.answers["nodes"] = node.answers["nodes"].replace(before, f"NodeName={name} {pairs}")


def test_a_node_that_power_saving_has_switched_off_takes_jobs(node: Node):
    fenced(node)
    state_of(node, "n1", "Sockets=1 State=IDLE+POWERED_DOWN")
    assert node.answer()[0].facts()["fence"]["nodes"] == "n[1,3]"


def test_what_a_killed_run_has_drained_is_given_back_beside_what_this_run_drains(node: Node):
    fenced(node)
    state_of(node, "n1", f"Sockets=1 State=IDLE+DRAIN {FENCED}")
    answer = node.answer()[0]
    assert node.updates == [f"NodeName=n3 State=DRAIN {FENCED}"]
    assert answer.facts()["fence"]["nodes"] == "n[1,3]"


@pytest.mark.parametrize("state", ["DOWN", "INACTIVE"])
def test_a_partition_that_a_person_has_closed_is_left_alone(node: Node, state: str):
    closed(node, state)
    node.params.update(fence=True, counted="", partitions=["gpu"])
    assert node.answer()[0].facts()["fence"]["partitions"] == []
    assert node.updates == []


def test_a_node_that_slurmctld_does_not_have_is_not_drained(node: Node):
    """One such name would have `scontrol update` refuse all others."""
    fenced(node)
    assert node.answers
    node.answers["nodes"] = node.answers["nodes"].replace("NodeName=n1 Sockets=1 State=IDLE\n", "")
    node.answer()
    assert node.updates == [f"NodeName=n3 State=DRAIN {FENCED}"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"partitions"'])
def test_a_damaged_record_of_closed_partitions_is_a_refusal(node: Node, monkeypatch: pytest.MonkeyPatch, text: str):
    record = closed(node, "DRAIN", "old")
    record.write_text(text)
    said: list[str] = []

    class Refused(Exception):  # noqa: N818
        pass

    def fail_json(msg: str) -> None:
        said.append(msg)
        raise Refused

    node.fail_json = fail_json  # type: ignore[attr-defined]
    monkeypatch.setattr(slurm_in_use, "AnsibleModule", lambda **_: node)
    with pytest.raises(Refused):
        slurm_in_use.main()
    assert str(record) in said[0]
    assert (node.updates, record.read_text()) == ([], text)
