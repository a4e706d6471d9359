"""No job enters a partition that is about to leave, and every other one is opened again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.fence import (
    _takes_jobs,
)
from ansible_collections.bedplate.cluster.plugins.modules import slurm_in_use
from tests.kit import sentences
from tests.unit.slurm.jobs.controller import (
    FENCED,
    KILLED,
    NODES,
    OPEN,
    RUNNING,
    SENTENCES,
    Node,
    closed,
    fenced,
    give_back,
    state_of,
)


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
        "NodeName=n3 Sockets=1 State=IDLE", f"NodeName=n3 State=IDLE+DRAIN {KILLED}"
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
    node.answers["nodes"] = f"NodeName=n3 State=IDLE+DRAIN {KILLED}\n"
    original = node.run

    def denied(command: Sequence[str], environment: Mapping[str, str]) -> Outcome:
        node.updates += [" ".join(command[2:])] if "update" in command else []
        return Outcome(1, "", "denied") if "update" in command else original(command, environment)

    monkeypatch.setattr(node, "run", denied)
    assert len(give_back(node, "old")[1]) == 2
    assert node.updates == ["NodeName=n3 State=RESUME", "PartitionName=old State=UP"]
    assert record.exists()


def test_a_node_that_power_saving_has_switched_off_takes_jobs(node: Node):
    fenced(node)
    state_of(node, "n1", "Sockets=1 State=IDLE+POWERED_DOWN")
    assert node.answer()[0].facts()["fence"]["nodes"] == "n[1,3]"


def test_what_a_killed_run_has_drained_is_given_back_beside_what_this_run_drains(node: Node):
    fenced(node)
    state_of(node, "n1", f"Sockets=1 State=IDLE+DRAIN {KILLED}")
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
