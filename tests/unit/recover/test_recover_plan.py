# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recovery refuses before its first change, and what it plans for each node."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.recover_plan import (
    Invocation,
    document,
    done_text,
    owner,
    preview,
    record_refusal,
    refusals,
)

COMMAND = Invocation(["ansible-playbook", "-i", "inventories/my site", "playbooks/recover.yml", "--limit", "n1"])
KNOWN = {"state": "known", "why": "", "offered": ["ssh-ed25519 SHA256:new"], "recorded": ["ssh-ed25519 SHA256:new"]}
CHANGED = {
    "state": "refused",
    "why": "has another host key than known_hosts",
    "offered": ["ssh-ed25519 SHA256:new", "ssh-rsa SHA256:rsa"],
    "recorded": ["ssh-ed25519 SHA256:old"],
    "unconfirmed": True,
}
IDLE = {"outcome": "resumed", "state": "IDLE", "jobs": [], "kind": "", "run": "", "by_slurm": False}
PERSON = {**IDLE, "outcome": "held", "state": "DRAIN+IDLE (fan; set by ann)"}
DOWN = {**IDLE, "outcome": "held", "state": "DOWN* (Not responding; set by slurm)", "by_slurm": True}
OWN = {**IDLE, "outcome": "drained", "kind": "recover", "run": "r1"}
ROLL = {**OWN, "kind": "roll"}
BEGUN = {"run": "r1", "holder": "here", "controller": "ctl1", "choices": {"reboot_deadline": 2400}, "record_seconds": 9}
SAME = {"__recover_key": KNOWN, "__recover_state": {"findings": []}, "__recover_wanted": {"reasons": {}}}
NEW_KEY = {**SAME, "__recover_key": {**KNOWN, "state": "new"}}
DIFFERS = {**NEW_KEY, "__recover_state": {"findings": [{"severity": "error", "where": "file /etc/hosts"}]}}


def refused(key: dict[str, Any] | None = None, **slurm: Any) -> list[str]:
    keys = {"n1": KNOWN if key is None else key}
    return refusals(["n1"], keys, {"nodes": {"n1": {**IDLE, **slurm}}}, COMMAND)


def test_a_free_node_with_a_known_key_is_not_refused():
    assert refused() == []


def test_another_key_is_refused_with_both_fingerprints_and_the_command():
    lines = refused(CHANGED)
    text = "\n".join(lines)
    assert text.startswith("n1: has another host key than known_hosts\n")
    assert ("SHA256:new" in text, "SHA256:rsa" in text, "SHA256:old" in text) == (True, True, True)
    assert (
        "  ansible-playbook -i 'inventories/my site' playbooks/recover.yml --limit n1 -e recover_host_key_confirm=SHA256:new"
        in lines
    )


def test_a_wrong_key_has_no_command_that_accepts_it():
    text = "\n".join(refused({**CHANGED, "unconfirmed": False}))
    assert ("SHA256:new" in text, "recover_host_key_confirm=" in text) == (True, False)


def test_several_keys_are_confirmed_by_one_command():
    repeated = COMMAND.repeated({"n1": "SHA256:a", "n2": "SHA256:b"})
    assert repeated.endswith("""-e '{"recover_host_key_confirm": {"n1": "SHA256:a", "n2": "SHA256:b"}}'""")


def test_other_variables_of_the_recovery_are_repeated():
    command = Invocation(
        ["ansible-playbook"], ["recover_guids=accept", "recover_host_key_confirm=SHA256:x", "@vars.yml"]
    )
    expected = "ansible-playbook -e recover_guids=accept -e @vars.yml -e recover_host_key_confirm=SHA256:a"
    assert command.repeated({"n1": "SHA256:a"}) == expected


@pytest.mark.parametrize(
    ("slurm", "text"),
    [
        ({"jobs": ["17", "18"]}, "n1: jobs 17, 18 on it"),
        ({"outcome": "failed", "why": "unknown to Slurm"}, "n1: unknown to Slurm: run playbooks/scheduler.yml"),
    ],
)
def test_a_node_that_cannot_be_recovered_is_refused(slurm: dict[str, Any], text: str):
    (line,) = refused(**slurm)
    assert line.startswith(text)


def test_a_node_whose_key_was_not_compared_is_refused():
    assert refusals(["n1"], {}, {"nodes": {"n1": IDLE}}, COMMAND)


def test_all_reasons_are_returned_at_once():
    assert [line[:2] for line in refused(CHANGED, jobs=["7"])][:2] == ["n1", "n1"]


@pytest.mark.parametrize(("kind", "text"), [("recover", "another recovery works"), ("roll", "a roll works")])
def test_another_run_is_refused(kind: str, text: str):
    record = {"held": True, "run": "r9", "holder": "ci:1", "until": "later"}
    assert record_refusal(record, kind, is_gone=False).startswith(f"{text} on the nodes: run r9 of ci:1")
    assert ("recover_ended=r9" in record_refusal(record, kind, is_gone=False)) == (kind == "recover")
    assert record_refusal(record, kind, is_gone=True) == ""
    assert record_refusal({**record, "held": False}, kind, is_gone=False) == ""


@pytest.mark.parametrize(
    ("slurm", "whose"),
    [
        (IDLE, ""),
        (DOWN, ""),
        (OWN, ""),
        ({**OWN, "run": "r2"}, "the run r2 of recover.yml"),
        (ROLL, "the run r1 of roll.yml"),
        # The reason of an earlier run, which Slurm has kept.
        ({**ROLL, "outcome": "draining", "by_slurm": True}, ""),
        (PERSON, "DRAIN+IDLE (fan; set by ann)"),
    ],
)
def test_who_keeps_a_node(slurm: dict[str, Any], whose: str):
    assert owner(slurm, "r1") == whose


def planned(variables: dict[str, Any], slurm: dict[str, Any] = IDLE, check: bool = False) -> dict[str, Any]:
    return document(["n1"], {**BEGUN, "slurm": {"n1": slurm}}, {"n1": variables}.__getitem__, check)


@pytest.mark.parametrize(
    ("variables", "slurm", "key"),
    [
        (SAME, IDLE, "done"),
        (NEW_KEY, IDLE, "done"),
        (SAME, PERSON, "done"),
        (SAME, ROLL, "done"),
        # Down, or drained by this run before: to be resumed.
        (SAME, DOWN, "parts"),
        (SAME, OWN, "parts"),
        (DIFFERS, IDLE, "parts"),
        (DIFFERS, PERSON, "parts"),
        ({**SAME, "__recover_wanted": {"reasons": {"rdma": "x"}}}, IDLE, "parts"),
        # A warning is no difference.
        ({**SAME, "__recover_state": {"findings": [{"severity": "warning", "where": "x"}]}}, IDLE, "done"),
        ({**SAME, "__roll_failure": "Compare GUIDs with the record: other GUIDs"}, IDLE, "stopped"),
        ({**SAME, "__recover_state": {"unreachable": True}}, IDLE, "lost"),
        ({**SAME, "__recover_guids": {"unreachable": True}}, IDLE, "lost"),
        ({**SAME, "__recover_state": {}}, IDLE, "stopped"),
        ({"__recover_key": KNOWN}, IDLE, "stopped"),
    ],
)
def test_the_way_of_a_node(variables: dict[str, Any], slurm: dict[str, Any], key: str):
    plan = planned(variables, slurm)
    assert [one for one in ("done", "parts", "stopped", "lost") if "n1" in plan[one]] == [key]
    assert plan["hosts"] == (["n1"] if key == "parts" else ["!all"])


def test_a_node_of_others_is_recovered_and_not_drained():
    plan = planned(DIFFERS, PERSON)
    assert (plan["to_drain"], plan["kept"]) == ("", {"n1": PERSON["state"]})
    assert planned(DIFFERS, DOWN)["to_drain"] == "n1"


def test_a_preview_has_what_would_happen():
    assert "drain, recover, resume" in preview(planned(DIFFERS), {"n1": DIFFERS}.__getitem__)
    assert "differs: file /etc/hosts" in preview(planned(DIFFERS), {"n1": DIFFERS}.__getitem__)
    assert "stays out of service" in preview(planned(DIFFERS, PERSON), {"n1": DIFFERS}.__getitem__)
    new = planned({"__recover_key": NEW_KEY["__recover_key"]}, DOWN, check=True)
    assert "new host key; not compared" in preview(new, {"n1": {}}.__getitem__)


def test_a_node_with_nothing_to_do_is_named():
    assert done_text(planned(SAME), "n1") == "verified and in service: nothing to do"
    assert done_text(planned(SAME, PERSON), "n1").startswith("verified, and stays out of service: DRAIN+IDLE (fan")
