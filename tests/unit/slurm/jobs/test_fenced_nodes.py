"""No job starts on a node that is about to change, and every node that is not needed any more is given back."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.conf_reader import Conf
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.fence import (
    Closed,
    Fence,
    lift_commands,
    raise_commands,
    reason,
    targets,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import EDIT, KINDS, written
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.slurmctld_report import (
    Live,
    node_pairs,
    parse_jobs,
)
from tests.kit import sentences
from tests.unit.slurm.jobs.controller import (
    FENCED,
    KILLED,
    NODES,
    OPEN,
    RUNNING,
    SENTENCES,
    WANTED,
    Node,
    closed,
    fenced,
)


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
            "NodeName=n3 Sockets=1 State=IDLE", f"NodeName=n3 Sockets=1 State=MIXED+DRAIN {KILLED}"
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
    return f"Reason={reason(run, datetime.now(UTC) - timedelta(minutes=minutes))} [root@2026-11-22T22:18:50]"


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


def test_a_change_of_nodes_that_only_another_run_keeps_free_is_refused(node: Node):
    """They get jobs again when that run ends, which may be before this one writes."""
    fenced(node)
    assert node.answers
    node.answers["nodes"] = re.sub(r"State=IDLE", f"State=IDLE+DRAIN {young(1)}", node.answers["nodes"])
    node.params["partitions"] = ["gpu", "old"]
    answer, problems = node.answer()
    assert (answer.exposed, len(problems), node.updates) == (False, 1, [])


def test_what_a_killed_run_has_drained_is_given_back_by_the_next(node: Node):
    node.conf()
    node.up()
    assert node.answers
    node.answers["nodes"] = (
        f"NodeName=n1 State=IDLE+DRAIN {KILLED}\nNodeName=n2 State=IDLE+DRAIN Reason=fan [ann@2026-11-22T22:18:50]\n"
        "NodeName=n3 State=IDLE\n"
    )
    answer = node.answer()[0]
    assert answer.facts()["fence"] == {"nodes": "n1", "partitions": []}
    assert not answer.raised


def test_a_reason_that_slurm_left_behind_is_no_fence(node: Node):
    """Without accounting storage a node keeps its reason when it is resumed."""
    drained(node, KILLED)
    assert node.answers
    node.answers["nodes"] = node.answers["nodes"].replace("IDLE+DRAIN", "IDLE+POWERED_DOWN")
    assert node.answer()[0].facts()["fence"] == {"nodes": "", "partitions": []}
    assert node.updates == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != EDIT])
def test_a_node_that_a_run_of_another_kind_has_drained_is_no_fence(node: Node, kind: str):
    """It would get jobs in the middle of a roll."""
    words = f"Reason={written(kind, 'killed', '2026-01-01T00:00:00Z driver 580')} [root@2026-01-01T00:00:00]"
    drained(node, words)
    assert node.answer()[0].facts()["fence"] == {"nodes": "", "partitions": []}
    live = Live(nodes={"n1": node_pairs(f"NodeName=n1 State=IDLE+DRAIN {words}")})
    assert lift_commands(live, Conf(), Fence(["n1"])) == []


def test_what_a_run_of_an_earlier_bedplate_has_drained_is_given_back(node: Node):
    drained(node, "Reason=bedplate:edit:killed:2026-01-01T00:00:00Z the line of it changes [root@2026-01-01T00:00:00]")
    assert node.answer()[0].facts()["fence"] == {"nodes": "n1", "partitions": []}


def test_a_node_or_a_partition_with_a_job_is_not_taken_from_it():
    live = Live(
        nodes={name: {"State": "IDLE"} for name in ("n1", "n2", "n3")},
        partitions={name: {"State": "UP"} for name in ("gpu", "old")},
        jobs=parse_jobs("7|gpu|n[1-2]|"),
    )
    assert targets(live, live.nodes, live.partitions) == Fence(["n3"], ["old"])


def test_every_release_can_read_the_names_of_fenced_nodes():
    """Slurm before 23.11 refuses text after the last bracket."""
    names = ["n1-ib", "n2-ib"]
    drain = raise_commands(Fence(names), "mine", datetime(2026, 1, 1, tzinfo=UTC))
    live = Live(nodes={name: {"State": "IDLE+DRAIN", "Reason": drain[0][-1].partition("=")[2]} for name in names})
    resume = lift_commands(live, Conf(), Fence(names))
    assert [command[2] for command in (*drain, *resume)] == ["NodeName=n1-ib,n2-ib"] * 2


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
    sentences.check(
        SENTENCES, "a fence that cannot be put up", [re.sub(r"\d{4}-\S+Z(.*) \[\w{4}\]", r"TIME\1", problem)]
    )


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
    assert [{"slurmctld", "n3", "old", "ten"} <= set(one.split()) for one in problems] == [True]
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
            state = f"NodeName=n3 State=IDLE+DRAIN {KILLED}"
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
