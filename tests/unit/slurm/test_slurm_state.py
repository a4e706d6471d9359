"""The module that compares Slurm with the plan: what it asks, how often, what it fails on and what it says."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.state import NODE_FORMAT
from ansible_collections.bedplate.cluster.plugins.modules import slurm_state

CONFIG = "HASH_VAL = Match\nSlurmUser = slurm(64030)\nSLURM_CONF = /etc/slurm/slurm.conf\nSLURM_VERSION = 24.11.5\n"
NODE = "gpu01|gpu:sim:2(S:0)|2|960|{}|24.11.5|{}|2026-11-21T09:00:00|{}\n"
IDLE = NODE.format("idle", "Unknown", "none")
ANSWERS = {
    "scontrol show config": CONFIG,
    "sinfo": IDLE,
    "scontrol --all --oneliner show partition": "PartitionName=gpu Nodes=gpu01\nPartitionName=old Hidden=YES Nodes=gpu01\n",
    "scontrol show topology": "SwitchName=leaf Level=0 LinkSpeed=1 Nodes=gpu01\n",
}
EXPECTED = {
    "version": "24.11",
    "node_count": 1,
    "nodes": [{"names": "gpu01", "gres": "gpu:sim:2", "cpus": 2, "memory": 960, "state": ""}],
    "partitions": {"gpu": "gpu01"},
    "topology": {"leaf": {"level": "0", "nodes": "gpu01", "switches": ""}},
}


class Fake:
    """An AnsibleModule whose Slurm gives prepared answers; one of several is given each time it is asked, the last stays."""

    answers: Mapping[str, Any] = {}
    check = False
    installed = True
    expected: Mapping[str, Any] = EXPECTED
    last: Fake

    def __init__(self, **_arguments: Any) -> None:
        self.check_mode = self.check
        self.params = {"expected": self.expected, "timeout": 60}
        self.asked: list[str] = []
        self.warnings: list[str] = []
        self.result: dict[str, Any] = {}
        Fake.last = self

    def get_bin_path(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if self.installed else None

    def run_command(self, line: list[str], environ_update: dict[str, str]) -> tuple[int, str, str]:
        assert not {"SINFO_PARTITION", "SLURM_CLUSTERS"} & {*os.environ, *environ_update}
        command = " ".join(line[2:])
        if command.startswith("sinfo"):
            assert f"--format={NODE_FORMAT}" in line
            command = "sinfo"
        self.asked.append(command)
        answer = self.answers[command]
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        return answer if isinstance(answer, tuple) else (0, answer, "")

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def exit_json(self, **result: Any) -> None:
        self.result = result
        raise SystemExit

    def fail_json(self, **result: Any) -> None:
        self.exit_json(failed=True, **result)


Run = Callable[..., Fake]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the module with other answers than those of a cluster in order; nobody waits."""
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    def start(answers: Mapping[str, Any], **attributes: Any) -> Fake:
        for name, value in {"answers": {**ANSWERS, **answers}, **attributes}.items():
            monkeypatch.setattr(Fake, name, value)
        with pytest.raises(SystemExit):
            slurm_state.main()
        return Fake.last

    monkeypatch.setattr(slurm_state, "AnsibleModule", Fake)
    monkeypatch.setattr(slurm_state.time, "sleep", sleep)
    monkeypatch.setattr(slurm_state.time, "monotonic", lambda: clock[0])
    monkeypatch.setenv("SINFO_PARTITION", "debug")
    monkeypatch.setenv("SLURM_CLUSTERS", "other")
    return start


def test_agreement_is_told_with_what_slurmctld_runs_and_each_question_asked_once(run: Run):
    module = run({})
    assert module.result == {
        "changed": False,
        "asked": True,
        "findings": [],
        "notices": [],
        "msg": "Slurm 24.11.5 agrees with the cluster file: 1 nodes, 1 partitions, 1 switches",
    }
    assert (module.asked, module.warnings) == (list(ANSWERS), [])


def test_it_asks_again_until_the_nodes_have_registered(run: Run):
    down = NODE.format("unk*", "Unknown", "none")
    module = run({"sinfo": [down, down, IDLE]})
    assert "failed" not in module.result
    assert module.asked == list(ANSWERS) * 3


def test_a_broken_node_fails_when_the_time_is_over_and_tells_of_slurmuser(run: Run):
    module = run({"sinfo": NODE.format("drain", "slurm(64030)", "Low RealMemory")})
    result = module.result
    assert (result["failed"], result["asked"], len(module.asked)) == (True, True, 61 * len(ANSWERS))
    assert result["findings"] == [
        {
            "where": "node gpu01",
            "wanted": "able to run jobs",
            "found": "drain (Low RealMemory; set by slurm(64030))",
            "fix": "`journalctl -u slurmd` on gpu01; then `scontrol update nodename=gpu01 state=resume`",
        }
    ]
    assert "in 1 place:\nnode gpu01: wanted able to run jobs" in result["msg"]
    assert "also where an operator works as that user" in result["msg"]


def test_a_drained_node_is_a_notice_and_a_warning(run: Run):
    module = run({"sinfo": NODE.format("drain", "root(0)", "fan")})
    assert "failed" not in module.result
    assert module.result["notices"] == [
        {"node": "gpu01", "state": "drain", "reason": "fan", "who": "root(0)", "since": "2026-11-21T09:00:00"}
    ]
    assert module.warnings == [
        "nodes in a state that an operator chose:\ngpu01: drain (fan), by root(0) since 2026-11-21T09:00:00"
    ]


def test_all_that_differs_is_told_at_once(run: Run):
    config = CONFIG.replace("Match", "Different Ours=0x1 Slurmctld=0x2").replace("24.11.5", "23.02.1")
    answers = {"scontrol show config": config, "sinfo": IDLE + "?", "scontrol show topology": ""}
    assert [one["where"] for one in run(answers).result["findings"]] == [
        "slurmctld",
        "/etc/slurm/slurm.conf of this host",
        "sinfo",
        "node gpu01",
        "switch leaf",
    ]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ((1, "", "slurm_load_ctl_conf error: Unable to contact\n"), "Unable to contact"),
        ((124, "", ""), "no answer in 30 s"),
    ],
)
def test_a_slurmctld_that_does_not_answer(run: Run, answer: tuple[int, str, str], text: str):
    result = run({"scontrol show config": answer}).result
    assert (result["failed"], result["asked"]) == (True, False)
    assert text in result["msg"]
    assert "`journalctl -u slurmctld`" in result["msg"]


def test_in_check_mode_differences_are_warnings_and_slurm_is_asked_once(run: Run):
    module = run({"sinfo": ""}, check=True)
    assert "failed" not in module.result
    assert [one["found"] for one in module.result["findings"]] == ["unknown"]
    assert module.warnings == [module.result["msg"]]
    assert len(module.asked) == len(ANSWERS)


def test_in_check_mode_slurm_need_not_be_installed(run: Run):
    module = run({}, check=True, installed=False)
    assert (module.asked, module.result["asked"], "failed" in module.result) == ([], False, False)
    failed = run({}, check=False, installed=False).result
    assert (failed["failed"], failed["msg"].split(":")[0]) == (True, "scontrol is not installed on this host")


def test_a_plan_that_is_none_is_refused(run: Run):
    result = run({}, expected={"nodes": []}).result
    assert (result["failed"], result["asked"]) == (True, False)
    assert result["msg"].startswith("expected lacks version, node_count, partitions, topology: pass")
