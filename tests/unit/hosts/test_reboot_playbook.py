"""playbooks/reboot.yml: which nodes it reboots, in which order, and what ends it. Modules are stand-ins that say what they were asked.

tests/roles/reboot.yml has the nodes one by one.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.stand_ins import ROOT, StandIns, cluster_file

pytestmark = pytest.mark.playbooks
PHASE = ROOT / "playbooks/phases/reboot.yml"
CLUSTER = cluster_file({"cpu": {}, "gpu": {"gpus": {"model": "h100", "count": 1}}}, {"gpu": "g[1-3]", "cpu": "c[1-4]"})
NODES = ["g1", "g2", "g3", "c1", "c2", "c3", "c4"]
WANTED = {"reasons": {"node_tuning": "the kernel lacks x"}, "in_use": [], "roles": ["node_tuning"]}
DONE = {**WANTED, "reasons": {}}
BUSY = {**WANTED, "in_use": ["1 steps of jobs run (slurmstepd)"]}
FAILED = [{"failed": True, "msg": "no"}]


class Site(StandIns):
    """The playbook, with a stand-in in place of the module that reboots."""

    def __init__(self, base: Path) -> None:
        super().__init__(base, ("reboot_wanted", "node_state", "reboot_stand_in", "before_reboot"), CLUSTER)
        self.answers = {
            name: {"reboot_wanted": [WANTED, WANTED, DONE], "reboot_stand_in": [{"changed": True}]} for name in NODES
        }
        self.variables = {"bedplate_reboot": "allowed", "bedplate_reboot_batch": 2}
        role = self.top / "roles/gpu_driver/tasks"
        role.mkdir(parents=True)
        (role / "before_reboot.yml").write_text("- name: Look\n  bedplate.cluster.before_reboot:\n")
        text = PHASE.read_text()
        assert text.count("ansible.builtin.reboot:") == 1
        shutil.copytree(ROOT / "playbooks", base / "playbooks")
        # tests/unit/releases has the real one.
        stand_in = "- name: Check\n  hosts: localhost\n  gather_facts: false\n"
        (base / "playbooks/validate.yml").write_text(stand_in)
        self.playbook = base / "playbooks/reboot.yml"
        phase = base / "playbooks/phases/reboot.yml"
        phase.write_text(text.replace("ansible.builtin.reboot:", "bedplate.cluster.reboot_stand_in:"))

    def reboot(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the playbook."""
        return self.run(self.playbook, *arguments)

    @property
    def rebooted(self) -> list[str]:
        """The nodes that were rebooted, in their order."""
        return self.hosts("reboot_stand_in")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_canary_of_each_profile_is_first_and_each_batch_is_proved_before_the_next(site: Site) -> None:
    done = site.reboot()
    assert done.returncode == 0, done.stdout + done.stderr
    batches = [["c1", "g1"], ["c2", "c3"], ["c4", "g2"], ["g3"]]
    rows = site.calls()
    steps = [(host, module) for host, module, _arguments in rows if module in ("reboot_stand_in", "node_state")]
    for batch in batches:
        for module in ("reboot_stand_in", "node_state"):
            assert sorted(steps[: len(batch)]) == [(host, module) for host in batch]
            steps = steps[len(batch) :]
    assert steps == []
    assert {arguments["roles"][0] for _host, module, arguments in rows if module == "node_state"} == {"node_tuning"}
    # Once before any node is rebooted, and again before its own reboot; the role itself leaves out nodes without GPUs.
    assert sorted(site.hosts("before_reboot")) == sorted([*NODES, *NODES])


@pytest.mark.parametrize(
    ("node", "trouble", "rebooted"),
    [
        ("g1", {"reboot_stand_in": FAILED}, ["c1", "g1"]),
        ("c2", {"node_state": FAILED}, ["c1", "c2", "c3", "g1"]),
    ],
)
def test_any_failure_ends_it_before_the_next_batch(
    site: Site, node: str, trouble: dict[str, Any], rebooted: list[str]
) -> None:
    site.answers[node].update(trouble)
    done = site.reboot()
    assert done.returncode != 0, done.stdout
    assert sorted(site.rebooted) == rebooted
    # The others of its batch are proved all the same.
    others = [host for host in rebooted if host != node]
    assert set(others) <= set(site.hosts("node_state"))


def test_nodes_with_jobs_fail_and_the_others_are_rebooted(site: Site) -> None:
    site.answers["c1"]["reboot_wanted"] = [BUSY]
    site.answers["g2"]["reboot_wanted"] = [DONE]
    site.answers["g1"]["before_reboot"] = FAILED
    done = site.reboot()
    assert done.returncode != 0, done.stdout
    assert site.rebooted[:2] in (["c2", "g3"], ["g3", "c2"])
    assert sorted(site.rebooted) == ["c2", "c3", "c4", "g3"]


def test_a_size_of_a_batch_that_is_none_reboots_nothing(site: Site) -> None:
    site.variables["bedplate_reboot_batch"] = 0
    done = site.reboot()
    assert (done.returncode != 0, site.rebooted) == (True, [])
    assert "bedplate_reboot_batch" in done.stderr + done.stdout


def _task_names() -> list[str]:
    """Return the names of the first task of each of these modules; before each of them something is asked."""
    plays = yaml.safe_load(PHASE.read_text())
    tasks = [one for play in plays for task in play.get("tasks", ()) for one in (task, *task.get("block", []))]
    modules = (
        "ansible.builtin.group_by",
        "ansible.builtin.set_fact",
        "ansible.builtin.reboot",
        "bedplate.cluster.node_state",
    )
    return [next(task["name"] for task in tasks if module in task) for module in modules]


@pytest.mark.parametrize("name", _task_names())
def test_whichever_task_it_starts_at_no_node_is_rebooted_that_was_not_asked(site: Site, name: str) -> None:
    for answers in site.answers.values():
        answers["reboot_wanted"] = [BUSY]
    site.reboot(f"--start-at-task={name}")
    assert site.rebooted == []


@pytest.mark.parametrize("argument", ["--syntax-check", "--list-hosts"])
def test_it_can_be_read_without_a_run(site: Site, argument: str) -> None:
    done = site.reboot(argument)
    assert (done.returncode, site.calls()) == (0, []), done.stderr
