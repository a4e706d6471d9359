"""The module that asks what jobs still need: what it finds, what it refuses, what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.kept_lines import notices
from tests.kit import sentences
from tests.unit.slurm.jobs.controller import (
    NODES,
    ROOT,
    RUNNING,
    SENTENCES,
    Node,
    edited,
)


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
