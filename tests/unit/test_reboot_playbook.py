"""playbooks/reboot.yml: which nodes it reboots, in which order, and what ends it. Modules are stand-ins that say what they were asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.playbooks
CLUSTER = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24}}
profiles:
  cpu: {sockets: 1, cores_per_socket: 2, memory_mib: 4096}
  gpu: {sockets: 1, cores_per_socket: 2, memory_mib: 4096, gpus: {model: h100, count: 1}}
racks:
  r1: {nodes: "g[1-3]", profile: gpu}
  r2: {nodes: "c[1-4]", profile: cpu}
hosts: {ctl1: {address: 10.0.0.10}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
"""
NODES = ["g1", "g2", "g3", "c1", "c2", "c3", "c4"]
# Takes the place of modules; a node does what `nodes.json` says of it.
STAND_IN = """
import json
from pathlib import Path
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

BASE = Path({base!r})

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        host, name = task_vars["inventory_hostname"], self._task.action.rpartition(".")[2]
        told = json.loads((BASE / "nodes.json").read_text())[host]
        log = BASE / f"{{host}}.log"
        before = log.read_text().splitlines() if log.exists() else []
        for path in (log, BASE / "all.log"):
            with path.open("a") as stream:
                stream.write(json.dumps([host, name, self._task.args]) + "\\n")
        rebooted = any('"reboot_stand_in"' in line for line in before)
        if name == "reboot_wanted":
            asked = sum('"reboot_wanted"' in line for line in before)
            in_use = told["in_use"] or (told["in_use_later"] if asked else [])
            reasons = told["reasons_after"] if rebooted else told["reasons"]
            return {{"reasons": reasons, "in_use": in_use, "roles": ["node_tuning"]}}
        if told.get(name) == "unreachable":
            raise AnsibleConnectionFailure("no route to host")
        return {{"changed": name == "reboot_stand_in", "failed": told.get(name) == "failed", "msg": f"{{name}} of {{host}}"}}
"""
WANTED = {"reasons": {"node_tuning": "the kernel lacks x"}, "in_use": [], "in_use_later": [], "reasons_after": {}}


class Site:
    """A copy of the collection in which the modules of the playbook are stand-ins, and no machine is rebooted."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.nodes: dict[str, dict[str, Any]] = {name: dict(WANTED) for name in NODES}
        self.variables: dict[str, Any] = {"bedplate_reboot": "allowed", "bedplate_reboot_batch": 2}
        top = base / "collections/ansible_collections/bedplate/cluster"
        (top / "plugins/action").mkdir(parents=True)
        (top / "galaxy.yml").symlink_to(ROOT / "galaxy.yml")
        (top / "meta").symlink_to(ROOT / "meta")
        for name in ("filter", "inventory", "module_utils", "plugin_utils"):
            (top / "plugins" / name).symlink_to(ROOT / "plugins" / name)
        for name in ("reboot_wanted", "node_state", "reboot_stand_in", "before_reboot"):
            (top / f"plugins/action/{name}.py").write_text(STAND_IN.format(base=str(base)))
        role = top / "roles/gpu_driver/tasks"
        role.mkdir(parents=True)
        (role / "before_reboot.yml").write_text("- name: Look\n  bedplate.cluster.before_reboot:\n")
        text = (ROOT / "playbooks/reboot.yml").read_text()
        assert text.count("ansible.builtin.reboot:") == 1
        self.playbook = base / "reboot.yml"
        self.playbook.write_text(text.replace("ansible.builtin.reboot:", "bedplate.cluster.reboot_stand_in:"))
        (base / "c.bedplate.yml").write_text(CLUSTER)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the playbook, every node anew."""
        for log in self.base.glob("*.log"):
            log.unlink()
        (self.base / "nodes.json").write_text(json.dumps(self.nodes))
        assert "ansible.builtin.reboot:" not in self.playbook.read_text()
        own = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        env = {**own, "ANSIBLE_COLLECTIONS_PATH": str(self.base / "collections"), "ANSIBLE_HOME": str(self.base / "home"),
               "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}  # fmt: skip
        extra = {**self.variables, "ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        command = [
            str(Path(sys.executable).with_name("ansible-playbook")),
            "-i",
            "c.bedplate.yml",
            "-e",
            json.dumps(extra),
        ]
        return subprocess.run(
            [*command, str(self.playbook), *arguments],
            cwd=self.base, env=env, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def calls(self, name: str) -> list[str]:
        """Return the nodes on which a module ran, in their order."""
        log = self.base / "all.log"
        rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [host for host, module, _arguments in rows if module == name]

    @property
    def rebooted(self) -> list[str]:
        """The nodes that were rebooted, in the order of their batches and within a batch by name."""
        return self.calls("reboot_stand_in")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_canary_of_each_profile_is_first_and_each_batch_is_proved_before_the_next(site: Site) -> None:
    done = site.run()
    assert done.returncode == 0, done.stdout + done.stderr
    batches = [["c1", "g1"], ["c2", "c3"], ["c4", "g2"], ["g3"]]
    rows = [json.loads(line) for line in (site.base / "all.log").read_text().splitlines()]
    steps = [(host, module) for host, module, _arguments in rows if module in ("reboot_stand_in", "node_state")]
    for batch in batches:
        for module in ("reboot_stand_in", "node_state"):
            assert sorted(steps[: len(batch)]) == [(host, module) for host in batch]
            steps = steps[len(batch) :]
    assert steps == []
    assert {arguments["roles"][0] for _host, module, arguments in rows if module == "node_state"} == {"node_tuning"}
    # Once before any node is rebooted, and again before its own reboot.
    assert sorted(set(site.calls("before_reboot"))) == ["g1", "g2", "g3"]
    assert len(site.calls("before_reboot")) == 6


@pytest.mark.parametrize(
    ("node", "trouble", "rebooted"),
    [
        ("g1", {"reboot_stand_in": "failed"}, ["c1", "g1"]),
        ("c1", {"node_state": "failed"}, ["c1", "g1"]),
        ("c1", {"node_state": "unreachable"}, ["c1", "g1"]),
        ("g1", {"reasons_after": {"node_tuning": "the kernel lacks x"}}, ["c1", "g1"]),
        ("g1", {"in_use_later": ["1 steps of jobs run (slurmstepd)"]}, ["c1"]),
        ("c2", {"node_state": "failed"}, ["c1", "c2", "c3", "g1"]),
    ],
)
def test_any_failure_ends_it_before_the_next_batch(
    site: Site, node: str, trouble: dict[str, Any], rebooted: list[str]
) -> None:
    site.nodes[node].update(trouble)
    done = site.run()
    assert done.returncode != 0, done.stdout
    assert sorted(site.rebooted) == rebooted
    # The others of its batch are proved all the same.
    others = [host for host in rebooted if host != node]
    assert set(others) <= set(site.calls("node_state"))


def test_nodes_with_jobs_fail_and_the_others_are_rebooted(site: Site) -> None:
    site.nodes["c1"]["in_use"] = ["slurmd runs and may get a job"]
    site.nodes["g2"]["reasons"] = {}
    site.nodes["g1"]["before_reboot"] = "failed"
    done = site.run()
    assert done.returncode != 0, done.stdout
    assert site.rebooted[:2] in (["c2", "g3"], ["g3", "c2"])
    assert sorted(site.rebooted) == ["c2", "c3", "c4", "g3"]


def test_a_reboot_by_hand_meanwhile_is_not_done_again_but_proved(site: Site) -> None:
    site.nodes = {
        name: {**told, "reasons": told["reasons"] if name == "c1" else {}} for name, told in site.nodes.items()
    }
    assert site.run().returncode == 0
    assert site.rebooted == ["c1"]


@pytest.mark.parametrize("variables", [{}, {"bedplate_reboot": "never"}, {"bedplate_reboot": "alowed"}])
def test_nothing_is_rebooted_that_nobody_allowed(site: Site, variables: dict[str, str]) -> None:
    site.variables = variables
    assert (site.run().returncode == 0) == (variables.get("bedplate_reboot") != "alowed")
    assert site.rebooted == []


@pytest.mark.parametrize("size", [0, -1, "two", True, 1.5])
def test_a_size_of_a_batch_that_is_none_reboots_nothing(site: Site, size: object) -> None:
    site.variables["bedplate_reboot_batch"] = size
    done = site.run()
    assert (done.returncode != 0, site.rebooted) == (True, [])
    assert "bedplate_reboot_batch" in done.stderr + done.stdout


def _task_names() -> list[str]:
    plays = yaml.safe_load((ROOT / "playbooks/reboot.yml").read_text())
    tasks = [task for play in plays for task in play["tasks"]]
    return [one["name"] for task in tasks for one in (task, *task.get("block", []))]


@pytest.mark.parametrize("name", dict.fromkeys(_task_names()))
def test_whichever_task_it_starts_at_no_node_is_rebooted_that_was_not_asked(site: Site, name: str) -> None:
    for told in site.nodes.values():
        told["in_use"] = ["1 steps of jobs run (slurmstepd)"]
    site.run(f"--start-at-task={name}")
    assert site.rebooted == []


def test_check_mode_and_a_limit(site: Site) -> None:
    site.variables["bedplate_reboot_batch"] = 10
    done = site.run("--check", "--limit=c1:g2")
    assert done.returncode == 0, done.stdout
    assert set(site.calls("reboot_wanted")) == {"c1", "g2"}
    assert site.calls("node_state") == []
