# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a turn: who is named before anything changes, what a later call continues, and when it may end."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.bedplate.cluster.plugins.action import turn_keys
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.key_files import fingerprint
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretStore
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys.turn_plan import hosts_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys.turned_secrets import TurnedSecrets

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
        self.nodes = {name: {"state": "IDLE", "jobs": []} for name in GROUPS["compute_nodes"]}
        self.facts: dict[str, dict[str, Any]] = {name: {} for name in MACHINES}

    def read(self) -> None:
        for register, keys in self.keys.items():
            for name in keys:
                prints = {
                    "present": fingerprint(keys[name], name) if keys[name] else "",
                    "staged": fingerprint(staged, name) if (staged := self.staged[register].get(name)) else "",
                }
                self.facts[name][register] = NO_ANSWER if name in self.silent else {**prints, "salt": name}

    def stage(self) -> None:
        for register, secret in (("__turn_munge", "munge_key"), ("__turn_jwt", "jwt_key")):
            if (path := self.directory / f"{secret}_next").exists():
                self.staged[register] = dict.fromkeys(set(self.keys[register]) - self.silent, path.read_bytes())

    def replace(self, *machines: str) -> None:
        """Put the staged keys into their places."""
        for register, staged in self.staged.items():
            for name in [one for one in staged if not machines or one in machines]:
                self.keys[register][name] = staged[name]

    def clean(self) -> None:
        self.staged = {"__turn_munge": {}, "__turn_jwt": {}}

    def prove(self, when: str, refused: dict[str, str] | None = None) -> None:
        for name in MACHINES:
            answer = NO_ANSWER if name in self.silent else {"refused": {}, "credential": f"MUNGE:{name}"}
            self.facts[name][f"__turn_proof_{when}"] = answer
        self.facts["ctl1"][f"__turn_collected_{when}"] = {"refused": refused or {}}

    def encode(self, *changed: str) -> None:
        """Record where the key that makes credentials was changed."""
        for name in MACHINES:
            self.facts[name]["__turn_encodes"] = {"changed": name in changed}

    def switched(self, **variables: Any) -> dict[str, Any]:
        """Run the steps up to the window, with which all machines are proved; return the plan."""
        plan = self.step("plan", **variables)
        self.stage()
        self.prove("staged")
        self.step("switch")
        self.encode(*MACHINES)
        self.prove("switched")
        self.step("window", turn_keys_window=0)
        return plan

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
    assert hosts_of(found, "copy", "munge_key") == ["!all"]
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


def test_a_later_call_knows_what_was_accepted(cluster: Cluster):
    off(cluster)
    cluster.step("plan", turn_keys="munge_key", turn_keys_without="n3")
    assert "n3" not in hosts_of(cluster.step("plan"), "copy", "munge_key")
    cluster.silent = {"n1", "n3"}
    said = refused(cluster)
    assert "n1: no answer by SSH" in said
    assert "n3" not in said
    cluster.silent = set()
    assert "n3" in hosts_of(cluster.step("plan"), "copy", "munge_key")


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


def test_a_former_key_that_a_killed_turn_has_left_does_not_refuse_the_next_turn(cluster: Cluster):
    (cluster.directory / "munge_key_old").write_bytes(b"x" * 64)
    assert "5 machines have the old key" in cluster.step("plan", check=True, turn_keys="munge_key")["msg"]
    assert hosts_of(cluster.step("plan", turn_keys="munge_key"), "copy", "munge_key") == MACHINES
    assert cluster.secrets == {"munge_key", "munge_key_next", "jwt_key", "turn_keys.json"}


def test_a_key_that_was_given_up_is_not_used_again(cluster: Cluster):
    (cluster.directory / "munge_key_next").write_bytes(b"x" * 64)
    cluster.step("plan", turn_keys="munge_key")
    assert (cluster.directory / "munge_key_next").read_bytes() != b"x" * 64


@pytest.mark.parametrize("step", ["switch", "window", "finish", "close"])
def test_a_run_beside_one_that_ends_the_turn_makes_no_other_key(cluster: Cluster, step: str):
    first = cluster.switched(turn_keys="munge_key")
    cluster.step("finish")
    cluster.replace()
    cluster.clean()
    cluster.read()
    cluster.prove("finished")
    cluster.step("close")
    new = (cluster.directory / "munge_key").read_bytes()
    # A second run, which has planned before that and waits in its window.
    assert hosts_of(first, "copy", "munge_key") == MACHINES
    said = refused(cluster, step)
    assert f"turn {first['turn']}: another run of playbooks/turn_keys.yml has changed the turn" in said
    assert (cluster.directory / "munge_key").read_bytes() == new
    assert cluster.record["stage"] == "finished"


def test_a_run_beside_one_that_gives_the_turn_up_does_not_go_forward(cluster: Cluster):
    first = cluster.switched(turn_keys="munge_key")
    cluster.step("plan", turn_keys="back")
    for facts in cluster.facts.values():
        facts["__turn"] = first
    assert "returning" in refused(cluster, "finish")
    assert cluster.record["stage"] == "returning"


def test_a_run_beside_one_that_begins_another_turn_ends(cluster: Cluster):
    first = cluster.step("plan", turn_keys="munge_key")
    (cluster.directory / "turn_keys.json").unlink()
    cluster.step("plan", turn_keys="munge_key")
    for facts in cluster.facts.values():
        facts["__turn"] = first
    assert first["turn"] in refused(cluster, "switch")


def test_a_controller_that_is_listed_and_not_reached_is_named_as_missed_too(cluster: Cluster):
    cluster.silent = {"ctl1"}
    said = refused(cluster, turn_keys="munge_key", turn_keys_without="ctl1")
    assert "ctl1: no answer by SSH" in said.splitlines()


def off(cluster: Cluster) -> None:
    cluster.silent, cluster.nodes["n3"] = {"n3"}, {"state": "DOWN*", "jobs": []}


def test_a_preview_changes_nothing(cluster: Cluster):
    found = cluster.step("plan", check=True, turn_keys="munge_key,jwt_key")
    assert "munge_key: 5 machines have the old key" in found["msg"]
    assert "jwt_key: 1 machines have the old key" in found["msg"]
    assert "Slurm keeps no list of tokens" in found["msg"]
    assert hosts_of(found, "copy", "any") == ["!all"]
    assert cluster.secrets == {"munge_key", "jwt_key"}


def test_a_whole_turn(cluster: Cluster):
    old = (cluster.directory / "munge_key").read_bytes()
    off(cluster)
    plan = cluster.step("plan", turn_keys="munge_key,jwt_key", turn_keys_without="n3")
    reached = ["ctl1", "login1", "n1", "n2"]
    for what in ("copy", "pair", "encode", "prove", "clean"):
        assert hosts_of(plan, what, "munge_key") == reached
    assert hosts_of(plan, "copy", "jwt_key") == ["ctl1"]
    assert hosts_of(plan, "pair", "jwt_key") == ["!all"]
    assert hosts_of(plan, "all", "any") == MACHINES
    assert plan["encodes"] == "new"
    assert cluster.record["without"] == {"n3": "no answer by SSH"}
    cluster.stage()
    cluster.prove("staged")
    assert cluster.step("switch")["changed"]
    assert cluster.record["stage"] == "switching"
    cluster.encode(*reached)
    cluster.prove("switched")
    assert cluster.step("window", turn_keys_window=0) == {"changed": True, "waited": 0.0}
    assert (cluster.directory / "munge_key").read_bytes() == old
    assert cluster.step("finish")["changed"]
    assert (cluster.record["stage"], "munge_key_old" in cluster.secrets) == ("finishing", True)
    cluster.replace()
    assert (cluster.directory / "munge_key").read_bytes() == cluster.keys["__turn_munge"]["n1"] != old
    cluster.clean()
    cluster.prove("finished")
    assert "n3: old key" in cluster.step("close")["msg"]
    assert cluster.record["stage"] == "finished"
    assert cluster.secrets == {"munge_key", "jwt_key", "turn_keys.json"}
    assert not cluster.step("plan")["changed"]


def test_no_key_is_in_a_result(cluster: Cluster):
    found = [cluster.step("plan", turn_keys="munge_key")]
    cluster.stage()
    cluster.prove("staged")
    found.append(cluster.step("switch"))
    keys = [(cluster.directory / name).read_bytes() for name in ("munge_key", "munge_key_next")]
    text = json.dumps(found)
    assert not any(key.hex()[:32] in text or str(key[:16]) in text for key in keys)


def test_a_machine_without_both_keys_stops_the_turn_before_the_switch(cluster: Cluster):
    cluster.step("plan", turn_keys="munge_key")
    cluster.stage()
    del cluster.staged["__turn_munge"]["n2"]
    cluster.silent = {"n1"}
    cluster.prove("staged", {"login1": "Invalid credential"})
    cluster.facts["n3"]["__turn_proof_staged"]["refused"] = {"new": "unmunge: Error: Invalid credential"}
    said = refused(cluster, "switch")
    assert "n1: munge_key: no answer by SSH" in said
    assert "n2: munge_key: the new key is not staged" in said
    assert "login1: ctl1 cannot decode its credential" in said
    assert "n3: cannot decode a credential of ctl1: unmunge: Error: Invalid credential" in said
    assert "No machine changed the key" in said
    assert cluster.record["stage"] == "staging"


def test_a_machine_that_proved_nothing_stops_the_turn_before_the_switch(cluster: Cluster):
    cluster.step("plan", turn_keys="munge_key")
    cluster.stage()
    cluster.prove("staged")
    del cluster.facts["n2"]["__turn_proof_staged"]
    cluster.facts["n3"]["__turn_proof_staged"] = {"failed": True, "msg": "munge makes no credential"}
    said = refused(cluster, "switch").splitlines()
    assert said[:2] == ["n2: no munge credential", "n3: munge makes no credential"]
    assert cluster.record["stage"] == "staging"


def test_without_a_proof_there_is_no_switch(cluster: Cluster):
    cluster.step("plan", turn_keys="munge_key")
    cluster.stage()
    assert "no result of the comparison" in refused(cluster, "switch")


def test_a_machine_that_does_not_use_the_new_key_keeps_the_old_one_everywhere(cluster: Cluster):
    cluster.step("plan", turn_keys="munge_key")
    cluster.stage()
    cluster.prove("staged")
    cluster.step("switch")
    cluster.encode(*MACHINES)
    cluster.prove("switched", {"n2": "Invalid credential"})
    with pytest.raises(AnsibleActionFail, match="n2: ctl1 cannot decode its credential"):
        cluster.step("window")
    assert (cluster.record["stage"], cluster.record["since"]) == ("switching", 0.0)


def test_the_window_is_waited_for_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    slept: list[float] = []
    monkeypatch.setattr(turn_keys, "time", SimpleNamespace(time=lambda: 1000.0 + sum(slept), sleep=slept.append))
    cluster.step("plan", turn_keys="munge_key")
    cluster.stage()
    cluster.prove("staged")
    cluster.step("switch")
    cluster.prove("switched")
    cluster.encode("n1")
    assert cluster.step("window")["waited"] == 300.0
    # A later call waits for the rest alone, and from the start where a machine used the other key until now.
    cluster.encode()
    assert cluster.step("window")["waited"] == 0.0
    assert cluster.step("window", turn_keys_window=400)["waited"] == 100.0
    cluster.encode("n2")
    assert cluster.step("window", turn_keys_window=50)["waited"] == 50.0
    assert slept == [300.0, 100.0, 50.0]


def test_a_machine_that_goes_off_in_the_window_is_named_before_a_key_is_replaced(cluster: Cluster):
    cluster.switched(turn_keys="munge_key")
    off(cluster)
    said = refused(cluster, "finish")
    assert "n3: no answer by SSH" in said
    assert "both keys work" in said
    assert "-e turn_keys_without=n3" in said
    assert cluster.record["stage"] == "switching"
    plan = cluster.switched(turn_keys_without="n3")
    assert "n3" not in hosts_of(plan, "prove", "munge_key")
    assert cluster.step("finish")["changed"]
    assert cluster.record["without"] == {"n3": "no answer by SSH"}


def test_a_machine_that_was_left_out_and_is_back_takes_part(cluster: Cluster):
    off(cluster)
    cluster.switched(turn_keys="munge_key", turn_keys_without="n3")
    cluster.silent = set()
    assert "n3: answers again since this run began" in refused(cluster, "finish")
    assert "n3" in hosts_of(cluster.step("plan"), "pair", "munge_key")


def test_a_call_after_a_killed_one_continues_with_the_same_key(cluster: Cluster):
    first = cluster.step("plan", turn_keys="munge_key")
    again = cluster.switched()
    assert (again["turn"], again["staged"]) == (first["turn"], first["staged"])
    cluster.step("finish")
    cluster.replace("ctl1", "n1")
    # Killed here: some machines have the new key alone.
    third = cluster.step("plan", turn_keys="munge_key")
    assert third["staged"] == first["staged"]
    assert hosts_of(third, "copy", "munge_key") == ["login1", "n2", "n3"]
    assert hosts_of(third, "pair", "munge_key") == hosts_of(third, "encode", "munge_key") == ["!all"]
    assert set(hosts_of(third, "prove", "munge_key")) == set(MACHINES)
    assert not cluster.step("finish")["changed"]
    cluster.replace()
    last = cluster.step("plan")
    assert hosts_of(last, "copy", "munge_key") == ["!all"]
    cluster.prove("finished")
    cluster.step("close")
    assert cluster.record["stage"] == "finished"


def test_a_machine_that_keeps_the_old_key_is_named_and_the_turn_stays_open(cluster: Cluster):
    cluster.switched(turn_keys="munge_key")
    cluster.step("finish")
    cluster.replace("ctl1", "login1", "n1")
    cluster.prove("finished", {"n1": "Invalid credential"})
    with pytest.raises(AnsibleActionFail) as error:
        cluster.step("close")
    assert "n[2-3]: munge_key: still the old key" in str(error.value)
    assert "n1: ctl1 cannot decode its credential" in str(error.value)
    assert (cluster.record["stage"], "munge_key_old" in cluster.secrets) == ("finishing", True)
    assert hosts_of(cluster.step("plan"), "copy", "munge_key") == ["n2", "n3"]


def test_another_turn_waits_for_the_open_one(cluster: Cluster):
    cluster.step("plan", turn_keys="munge_key")
    assert "is under way, and must be finished first" in refused(cluster, turn_keys="jwt_key")


def test_a_turn_is_given_up_before_the_switch(cluster: Cluster):
    cluster.step("plan", turn_keys="munge_key")
    cluster.stage()
    found = cluster.step("plan", turn_keys="back")
    assert set(hosts_of(found, "clean", "any")) == set(MACHINES)
    for what in ("all", "copy", "pair", "encode", "prove"):
        assert hosts_of(found, what, "any") == ["!all"]
    assert cluster.record["stage"] == "returning"
    assert "is given up" in refused(cluster, turn_keys="munge_key")
    assert cluster.step("close")["changed"]
    assert cluster.secrets == {"munge_key", "jwt_key", "turn_keys.json"}
    assert cluster.record["stage"] == "finished"


def test_a_turn_is_given_up_after_the_switch_when_credentials_of_the_new_key_have_expired(cluster: Cluster):
    cluster.switched(turn_keys="munge_key")
    found = cluster.step("plan", turn_keys="back")
    assert found["encodes"] == "old"
    assert set(hosts_of(found, "encode", "munge_key")) == set(MACHINES)
    assert hosts_of(found, "pair", "munge_key") == ["!all"]
    cluster.encode(*MACHINES)
    cluster.prove("switched", {"n1": "Invalid credential"})
    with pytest.raises(AnsibleActionFail, match="n1: ctl1 cannot decode"):
        cluster.step("window", turn_keys_window=0)
    # A later call continues to give up the turn.
    assert hosts_of(cluster.step("plan"), "encode", "munge_key") != ["!all"]
    cluster.prove("switched")
    cluster.step("window", turn_keys_window=0)
    assert cluster.step("close")["changed"]
    assert cluster.secrets == {"munge_key", "jwt_key", "turn_keys.json"}


def test_a_turn_is_not_given_up_when_the_new_key_replaces_the_old_one(cluster: Cluster):
    cluster.switched(turn_keys="munge_key")
    cluster.step("finish")
    assert "the new key replaces the old one already" in refused(cluster, turn_keys="back")


def test_a_node_that_does_not_answer_slurm_in_the_end_is_an_error(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turn_keys, "_PATIENCE", -1.0)
    cluster.switched(turn_keys="munge_key")
    cluster.step("finish")
    cluster.replace()
    cluster.prove("finished")
    cluster.nodes["n2"] = {"state": "IDLE*", "jobs": []}
    with pytest.raises(AnsibleActionFail, match="n2: answered slurmctld before the turn"):
        cluster.step("close")
    assert cluster.record["stage"] == "finishing"


def test_a_key_that_no_machine_has_is_not_made(cluster: Cluster):
    (cluster.directory / "jwt_key").unlink()
    assert "secret jwt_key: not found" in refused(cluster, turn_keys="jwt_key")


class KilledError(Exception):
    """The run ends here."""


def killed(*_: object) -> bool:
    raise KilledError


def test_a_run_that_is_killed_before_the_new_secrets_are_the_clusters_only_goes_forward(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    """A turn that is given up with the new secret in its place would leave machines with another key than the cluster's."""
    cluster.switched(turn_keys="munge_key")
    with monkeypatch.context() as patch:
        patch.setattr(TurnedSecrets, "promote", killed)
        with pytest.raises(KilledError):
            cluster.step("finish")
    assert cluster.record["stage"] == "finishing"
    assert "the new key replaces the old one already" in refused(cluster, turn_keys="back")
    assert cluster.step("finish")["changed"]


def test_a_run_that_is_killed_before_the_old_secret_is_removed_has_ended_the_turn(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    """The next call would take the new secret for the old one, and make a third key."""
    cluster.switched(turn_keys="munge_key")
    cluster.step("finish")
    cluster.replace()
    cluster.prove("finished")
    with monkeypatch.context() as patch:
        patch.setattr(TurnedSecrets, "forget", killed)
        with pytest.raises(KilledError):
            cluster.step("close")
    assert cluster.record["stage"] == "finished"
    key = (cluster.directory / "munge_key").read_bytes()
    assert "nothing to do" in cluster.step("plan")["msg"]
    assert (cluster.directory / "munge_key").read_bytes() == key


@pytest.mark.parametrize("step", ["plan", "finish"])
def test_without_an_answer_of_slurm_no_step_is_taken(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, step: str):
    """A node that would be cut off may have jobs."""
    if step == "finish":
        cluster.switched(turn_keys="munge_key")
    before = cluster.secrets
    monkeypatch.setattr(Step, "_module", lambda *_, **__: {"failed": True, "msg": "slurmctld is away"})
    with pytest.raises(AnsibleActionFail, match="Slurm does not answer: slurmctld is away"):
        cluster.step(step, **({"turn_keys": "munge_key"} if step == "plan" else {}))
    assert cluster.secrets == before


def test_a_machine_without_slurm_is_left_to_its_first_run(cluster: Cluster):
    cluster.keys["__turn_munge"]["n3"] = b""
    plan = cluster.step("plan", turn_keys="munge_key")
    assert "n3" not in hosts_of(plan, "prove", "munge_key")
