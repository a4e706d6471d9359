# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts and users that left the cluster file: named while they keep their access, and removed without a job of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.accounting import accounts_drift
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.accounting.accounts_plan import (
    DesiredAccounts,
    found,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.accounting.unlisted_accounts import (
    Unlisted,
    jobs,
    removals,
    unlisted,
)
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
ASSOCIATIONS = """\
Account|User|ParentName|QOS|Def QOS
root|||normal|
root|root||normal|
research||root|normal|normal
research|alice||normal|normal
research|bob||normal|normal
old||root|normal|normal
sub||old|normal|normal
sub|carol||normal|normal
sub|alice||normal|normal
"""
WANTED = DesiredAccounts(accounts={"Research": {"users": ["alice"]}})
STATE = found("Name\nnormal\n", ASSOCIATIONS)
ALL = [
    Unlisted("research", "bob"),
    Unlisted("sub", "alice"),
    Unlisted("sub", "carol"),
    Unlisted("sub"),
    Unlisted("old"),
]


def test_users_come_before_accounts_and_accounts_before_those_above():
    assert unlisted(WANTED, STATE) == ALL


def test_a_cluster_file_without_accounts_leaves_them_to_others():
    assert unlisted(DesiredAccounts(), STATE) == []


def test_all_without_jobs_are_removed_and_a_default_account_is_another_one_before():
    assert removals("c", WANTED, ALL) == [
        ["delete", "user", "bob", "where", "cluster=c", "account=research"],
        ["modify", "user", "alice", "where", "cluster=c", "set", "defaultaccount=Research"],
        ["delete", "user", "alice", "where", "cluster=c", "account=sub"],
        ["delete", "user", "carol", "where", "cluster=c", "account=sub"],
        ["delete", "account", "sub", "where", "cluster=c"],
        ["delete", "account", "old", "where", "cluster=c"],
    ]


@pytest.mark.parametrize(
    ("squeue", "kept"),
    [
        ("sub|carol\n", {("sub", "carol"), ("sub", ""), ("old", "")}),
        ("old|dora\n", {("old", "")}),
        ("research|bob\n", {("research", "bob")}),
        ("Research|Bob\nsub|alice\n", {("research", "bob"), ("sub", "alice"), ("sub", ""), ("old", "")}),
    ],
)
def test_jobs_outrank_the_removal_of_their_user_their_account_and_those_above(squeue: str, kept: set[tuple[str, str]]):
    told = unlisted(WANTED, STATE, jobs(squeue))
    assert {(one.account, one.user) for one in told if one.has_jobs} == kept
    gone = {(call[5].partition("=")[2], call[2]) if call[1] == "user" else (call[2], "")
            for call in removals("c", WANTED, told) if call[0] == "delete"}  # fmt: skip
    assert gone == {(one.account, one.user) for one in ALL} - kept


def answers(associations: str, squeue: str = "", code: int = 0):
    def ask(questions: Sequence[Sequence[str]]) -> list[Outcome]:
        said = {"qos": "Name\nnormal\n", "associations": associations}
        return [Outcome(code, said.get(one[3], squeue) if one[0] == "sacctmgr" else squeue, "") for one in questions]

    return ask


EXPECTED = {"cluster": "c", "qos": {}, "accounts": {"research": {"users": ["alice"]}}}


def test_verify_warns_of_each_and_names_the_way():
    found = list(accounts_drift.findings("/", EXPECTED, answers(ASSOCIATIONS, "sub|carol\n")))
    assert {(one.kind, one.severity) for one in found} == {("slurm-account-unlisted", "warning")}
    busy = [ALL[0], ALL[1], *(replace(one, has_jobs=True) for one in ALL[2:])]
    assert [one.where for one in found] == [str(one) for one in busy]
    assert all("slurm_accounts_remove" in one.remedy for one in found)
    sentences.check(SENTENCES, "verify: an account that left the cluster file", found[-1:])


def test_verify_fails_on_what_slurm_lacks():
    missing = ASSOCIATIONS.replace("research|alice||normal|normal\n", "")
    found = list(accounts_drift.findings("/", EXPECTED, answers(missing)))
    assert next((one.kind, one.severity, one.where) for one in found) == ("slurm-account", "error", "user alice")


def test_verify_is_silent_where_both_agree_and_where_there_are_no_accounts():
    agreed = "\n".join(ASSOCIATIONS.splitlines()[:5]) + "\n"
    assert list(accounts_drift.findings("/", EXPECTED, answers(agreed))) == []
    assert list(accounts_drift.findings("/", {"cluster": "c", "qos": {}, "accounts": {}}, answers("", code=1))) == []


def test_a_database_that_does_not_answer_is_a_finding():
    (one,) = accounts_drift.findings("/", EXPECTED, answers("", code=1))
    assert one.kind == "slurmdbd-silent"
