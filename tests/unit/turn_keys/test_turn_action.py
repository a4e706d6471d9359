# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a turn: who is named before anything changes, what a later call continues, and when it may end."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.bedplate.cluster.plugins.action import turn_keys
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.key_files import fingerprint
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretStore
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys.turn_plan import hosts_of

GROUPS = {
    "slurm_controllers": ["ctl1"],
    "slurm_database": ["ctl1"],
    "slurm_login": ["login1"],
    "slurm_rest": ["ctl1"],
    "compute_nodes": ["n1", "n2", "n3"],
}
MACHINES = ["ctl1", "login1", "n1", "n2", "n3"]
NO_ANSWER = {"unreachable": True}


class Cluster:
    """Machines with keys, as `slurm_key` reports them, and a control node with secrets."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.keys = {"__turn_munge": dict.fromkeys(MACHINES, SecretStore(directory).get("munge_key"))}
        self.keys["__turn_jwt"] = {"ctl1": SecretStore(directory).get("jwt_key")}
        self.staged: dict[str, dict[str, bytes]] = {"__turn_munge": {}, "__turn_jwt": {}}
        self.silent: set[str] = set()
        self.clocks: dict[str, dict[str, float]] = {}
        self.nodes = {name: {"state": "IDLE", "jobs": []} for name in GROUPS["compute_nodes"]}
        self.facts: dict[str, dict[str, Any]] = {name: {} for name in MACHINES}

    def read(self) -> None:
        for register, keys in self.keys.items():
            for name in keys:
                prints = {
                    "present": fingerprint(keys[name], name) if keys[name] else "",
                    "staged": fingerprint(staged, name) if (staged := self.staged[register].get(name)) else "",
                }
                self.facts[name][register] = (
                    NO_ANSWER if name in self.silent else {**prints, "salt": name, **self.clocks.get(name, {})}
                )

    def stage(self) -> None:
        for register, secret in (("__turn_munge", "munge_key"), ("__turn_jwt", "jwt_key")):
            if (path := self.directory / f"{secret}_next").exists():
                self.staged[register] = dict.fromkeys(set(self.keys[register]) - self.silent, path.read_bytes())

    def switch(self, *machines: str) -> None:
        for register, staged in self.staged.items():
            for name in [one for one in staged if not machines or one in machines]:
                self.keys[register][name] = staged.pop(name)

    def prove(self, refused: dict[str, str] | None = None) -> None:
        for name in MACHINES:
            self.facts[name]["__turn_proof"] = {"refused": {}, "credential": f"MUNGE:{name}"}
        self.facts["ctl1"]["__turn_collected"] = {"refused": refused or {}}

    def step(self, step: str, check: bool = False, **variables: Any) -> dict[str, Any]:
        self.read()
        found = Step(self, step, check, variables).run(None, self.variables(variables))
        if step == "plan":
            for facts in self.facts.values():
                facts["__turn"] = found
        return found

    def variables(self, more: dict[str, Any]) -> dict[str, Any]:
        return {
            "hostvars": SimpleNamespace(raw_get=self.facts.__getitem__),
            "groups": GROUPS,
            "bedplate_secrets_dir": str(self.directory),
            "ansible_play_hosts_all": MACHINES,
            "inventory_hostname": "ctl1",
            **more,
        }

    @property
    def record(self) -> dict[str, Any]:
        return dict(json.loads((self.directory / "turn_keys.json").read_text()))

    @property
    def secrets(self) -> set[str]:
        return {path.name for path in self.directory.iterdir() if not path.name.startswith(".")}


class Step(turn_keys.ActionModule):
    """The action without Ansible and without a controller."""

    def __init__(self, cluster: Cluster, step: str, check: bool, variables: dict[str, Any]) -> None:
        task = SimpleNamespace(action="x", args={"step": step}, check_mode=check, async_val=0, diff=False)
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
        templar = SimpleNamespace(template=lambda value: value)
        super().__init__(task, connection, SimpleNamespace(check_mode=check), None, templar, None)
        self._display = SimpleNamespace(display=lambda text: None)
        self._cluster = cluster

    def _module(self, name: str, **arguments: Any) -> dict[str, Any]:
        assert name == "slurm_node"
        return {"nodes": self._cluster.nodes}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "secrets")


def refused(cluster: Cluster, step: str = "plan", **variables: Any) -> str:
    before = cluster.secrets
    with pytest.raises(AnsibleActionFail) as error:
        cluster.step(step, **variables)
    assert cluster.secrets == before
    return str(error.value)


def test_without_a_wish_nothing_happens(cluster: Cluster):
    found = cluster.step("plan")
    assert not found["changed"]
    assert hosts_of(found, "switch", "munge_key") == ["!all"]
    assert cluster.secrets == {"munge_key", "jwt_key"}


def test_a_machine_that_is_not_reached_is_named_before_a_secret_is_made(cluster: Cluster):
    cluster.silent = {"n2", "n3"}
    said = refused(cluster, turn_keys="munge_key")
    assert "n[2-3]: no answer by SSH" in said
    assert "-e turn_keys_without=n2,n3" in said


def test_a_limit_is_a_machine_that_is_not_reached(cluster: Cluster):
    cluster.read()
    del cluster.keys["__turn_munge"]["login1"]
    cluster.facts["login1"].clear()
    assert "login1: left out of this run, as by --limit" in refused(cluster, turn_keys="munge_key")


def test_a_wrong_clock_is_named(cluster: Cluster):
    cluster.clocks = {"n1": {"behind": 7.5}, "n2": {"clock": time.time() + 600}}
    said = refused(cluster, turn_keys="munge_key")
    assert "n1: its clock is 7.5 s behind" in said
    assert "n2: its clock is 600" in said


def test_a_later_call_knows_what_was_accepted(cluster: Cluster):
    off(cluster)
    cluster.step("plan", turn_keys="munge_key", turn_keys_without="n3")
    assert "n3" not in hosts_of(cluster.step("plan"), "switch", "munge_key")
    cluster.silent = {"n1", "n3"}
    said = refused(cluster)
    assert "n1: no answer by SSH" in said
    assert "n3" not in said
    cluster.silent = set()
    assert "n3" in hosts_of(cluster.step("plan"), "switch", "munge_key")


def test_a_machine_with_another_key_is_named(cluster: Cluster):
    cluster.keys["__turn_munge"]["n1"] = b"x" * 64
    assert "n1: has another munge_key than the secrets directory" in refused(cluster, turn_keys="munge_key")


@pytest.mark.parametrize(
    ("silent", "without", "said"),
    [
        ("ctl1", "ctl1", "turn_keys_without: ctl1: a controller or the database"),
        ("n3", "n3,n9", "turn_keys_without: n9: not a machine of Slurm"),
        ("n3", "n1", "n3: no answer by SSH"),
    ],
)
def test_what_is_not_left_out(cluster: Cluster, silent: str, without: str, said: str):
    cluster.silent = {silent}
    assert said in refused(cluster, turn_keys="munge_key", turn_keys_without=without)


@pytest.mark.parametrize(
    ("node", "said"),
    [({"state": "MIXED", "jobs": ["17"]}, "n3: runs jobs 17"), ({"state": "IDLE", "jobs": []}, "n3: is in service")],
)
def test_a_node_that_slurm_uses_is_not_left_out(cluster: Cluster, node: dict[str, Any], said: str):
    cluster.silent, cluster.nodes["n3"] = {"n3"}, node
    assert said in refused(cluster, turn_keys="munge_key", turn_keys_without="n3")


def off(cluster: Cluster) -> None:
    cluster.silent, cluster.nodes["n3"] = {"n3"}, {"state": "DOWN*", "jobs": []}


def test_a_preview_changes_nothing(cluster: Cluster):
    found = cluster.step("plan", check=True, turn_keys="munge_key,jwt_key")
    assert "munge_key: 5 machines change" in found["msg"]
    assert "jwt_key: 1 machines change" in found["msg"]
    assert "Slurm keeps no list of tokens" in found["msg"]
    assert hosts_of(found, "switch", "any") == ["!all"]
    assert cluster.secrets == {"munge_key", "jwt_key"}


def test_a_whole_turn(cluster: Cluster):
    old = (cluster.directory / "munge_key").read_bytes()
    off(cluster)
    plan = cluster.step("plan", turn_keys="munge_key,jwt_key", turn_keys_without="n3")
    assert hosts_of(plan, "switch", "munge_key") == ["ctl1", "login1", "n1", "n2"]
    assert hosts_of(plan, "switch", "jwt_key") == ["ctl1"]
    assert cluster.record["without"] == {"n3": "no answer by SSH"}
    cluster.stage()
    times = cluster.step("switch")
    assert times["pause_at"] < times["controllers_at"] < times["switch_at"]
    assert (cluster.record["stage"], (cluster.directory / "munge_key").read_bytes()) == ("switching", old)
    cluster.switch()
    assert cluster.step("promote")["changed"]
    assert (cluster.directory / "munge_key").read_bytes() == cluster.keys["__turn_munge"]["n1"] != old
    cluster.prove()
    assert "n3: old key" in cluster.step("finish")["msg"]
    assert cluster.record["stage"] == "finished"
    assert cluster.secrets == {"munge_key", "jwt_key", "turn_keys.json"}
    assert not cluster.step("plan")["changed"]


def test_no_key_is_in_a_result(cluster: Cluster):
    found = [cluster.step("plan", turn_keys="munge_key")]
    cluster.stage()
    found.append(cluster.step("switch"))
    keys = [(cluster.directory / name).read_bytes() for name in ("munge_key", "munge_key_next")]
    text = json.dumps(found)
    assert not any(key.hex()[:32] in text or str(key[:16]) in text for key in keys)


def test_a_machine_without_the_staged_key_stops_the_switch(cluster: Cluster):
    cluster.step("plan", turn_keys="munge_key")
    cluster.stage()
    del cluster.staged["__turn_munge"]["n2"]
    cluster.silent = {"n1"}
    said = refused(cluster, "switch")
    assert "n1: munge_key: no answer by SSH" in said
    assert "n2: munge_key: the new key is not staged" in said
    assert cluster.record["stage"] == "staging"


def test_a_call_after_a_killed_one_continues_with_the_same_key(cluster: Cluster):
    first = cluster.step("plan", turn_keys="munge_key")
    again = cluster.step("plan")
    assert (again["turn"], again["staged"]) == (first["turn"], first["staged"])
    cluster.stage()
    cluster.step("switch")
    cluster.switch("ctl1", "n1")
    third = cluster.step("plan", turn_keys="munge_key")
    assert hosts_of(third, "switch", "munge_key") == ["login1", "n2", "n3"]
    assert set(hosts_of(third, "prove", "munge_key")) == set(MACHINES)
    cluster.switch()
    cluster.step("promote")
    # Killed here: the new key is the cluster's, and the turn is open.
    last = cluster.step("plan")
    assert last["staged"] == first["staged"]
    assert hosts_of(last, "switch", "munge_key") == ["!all"]
    cluster.step("switch")
    cluster.step("promote")
    cluster.prove()
    cluster.step("finish")
    assert cluster.record["stage"] == "finished"


def test_a_machine_that_did_not_switch_is_named_and_the_key_is_kept(cluster: Cluster):
    cluster.step("plan", turn_keys="munge_key")
    cluster.stage()
    cluster.step("switch")
    cluster.switch("ctl1", "login1", "n1")
    with pytest.raises(AnsibleActionFail) as error:
        cluster.step("promote")
    assert "n[2-3]: munge_key: still the old key" in str(error.value)
    assert (cluster.record["stage"], "munge_key_old" in cluster.secrets) == ("switching", True)
    assert hosts_of(cluster.step("plan"), "switch", "munge_key") == ["n2", "n3"]


def test_a_machine_that_switches_after_the_plan_does_not_stop_the_turn(cluster: Cluster):
    cluster.step("plan", turn_keys="munge_key")
    cluster.stage()
    cluster.switch("n1")
    assert cluster.step("switch")["changed"]


def test_another_turn_waits_for_the_open_one(cluster: Cluster):
    cluster.step("plan", turn_keys="munge_key")
    assert "is under way. Finish it first" in refused(cluster, turn_keys="jwt_key")


def test_a_turn_is_given_up_while_no_machine_has_the_new_key(cluster: Cluster):
    cluster.step("plan", turn_keys="munge_key")
    cluster.stage()
    found = cluster.step("plan", turn_keys="back")
    assert set(hosts_of(found, "clean", "any")) == set(MACHINES)
    assert hosts_of(found, "prove", "any") == ["!all"]
    assert cluster.secrets == {"munge_key", "jwt_key", "turn_keys.json"}
    assert cluster.step("finish")["changed"] is False


def test_a_turn_is_not_given_up_when_a_machine_has_the_new_key(cluster: Cluster):
    cluster.step("plan", turn_keys="munge_key")
    cluster.stage()
    cluster.step("switch")
    cluster.switch("n1")
    assert "n1: has the new key already" in refused(cluster, turn_keys="back")


def test_a_node_that_does_not_answer_slurm_after_the_switch_is_an_error(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(turn_keys, "_PATIENCE", -1.0)
    cluster.step("plan", turn_keys="munge_key")
    cluster.stage()
    cluster.step("switch")
    cluster.switch()
    cluster.nodes["n2"] = {"state": "IDLE*", "jobs": []}
    with pytest.raises(AnsibleActionFail, match="n2: answered slurmctld before the switch"):
        cluster.step("promote")


def test_a_credential_that_is_not_decoded_keeps_the_turn_open(cluster: Cluster):
    cluster.step("plan", turn_keys="munge_key")
    cluster.stage()
    cluster.step("switch")
    cluster.switch()
    cluster.step("promote")
    cluster.prove({"n1": "Invalid credential"})
    cluster.facts["n2"]["__turn_proof"] = NO_ANSWER
    with pytest.raises(AnsibleActionFail) as error:
        cluster.step("finish")
    assert "ctl1: cannot decode the credential of n1" in str(error.value)
    assert "n2: no munge credential" in str(error.value)
    assert (cluster.record["stage"], "munge_key_old" in cluster.secrets) == ("switching", True)


def test_a_machine_without_slurm_is_left_to_its_first_run(cluster: Cluster):
    cluster.keys["__turn_munge"]["n3"] = b""
    plan = cluster.step("plan", turn_keys="munge_key")
    assert "n3" not in hosts_of(plan, "prove", "munge_key")
