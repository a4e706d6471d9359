"""sacctmgr calls that close the gap between wanted and found."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.accounting.accounts_plan import (
    DesiredAccounts,
    calls,
    found,
)
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
QOS = "Name|Priority\nnormal|0\nhigh|100\n"
ASSOCIATIONS = """\
Account|User|ParentName|QOS|Def QOS
root|||normal|
root|root||normal|
research||root|normal|normal
research|alice||normal|
"""
STATE = found(QOS, ASSOCIATIONS)


def test_nothing_to_do():
    accounts = {"research": {"parent": "root", "users": ["alice"], "qos": ["normal"], "default_qos": "normal"}}
    assert calls("lab", DesiredAccounts({"high": {"Priority": 100}}, accounts), STATE) == []
    # Without a wish for QOS they stay as inherited.
    assert calls("lab", DesiredAccounts({}, {"research": {"qos": [], "users": []}}), STATE) == []


def test_missing_things_are_added_in_order():
    wanted = DesiredAccounts(
        {"low": {"Priority": 1}}, {"ml": {"description": "ML", "users": ["bob"], "default_qos": "low"}}
    )
    assert calls("lab", wanted, STATE) == [
        ["add", "qos", "low"],
        ["modify", "qos", "low", "set", "Priority=1"],
        ["add", "account", "ml", "cluster=lab", "parent=root", "description=ML", "organization=ml"],
        ["modify", "account", "ml", "where", "cluster=lab", "set", "defaultqos=low"],
        ["add", "user", "bob", "cluster=lab", "account=ml"],
    ]


def test_changes_are_made_and_strangers_left_alone():
    wanted = DesiredAccounts({"normal": {"Priority": 5}}, {"research": {"qos": ["normal", "high"], "users": ["bob"]}})
    assert calls("lab", wanted, STATE) == [
        ["modify", "qos", "normal", "set", "Priority=5"],
        ["modify", "account", "research", "where", "cluster=lab", "set", "qos=normal,high"],
        ["add", "user", "bob", "cluster=lab", "account=research"],
    ]


def test_a_fresh_host_needs_everything():
    assert calls("lab", DesiredAccounts({"normal": {}}, {}), found("", "")) == [["add", "qos", "normal"]]


def test_capitals_make_no_difference():
    qos = {"High": {"Priority": 100, "MaxTRESPerUser": "gres/gpu:H100=8"}}
    accounts = {
        "Research": {"parent": "Root", "users": ["Alice", "alice"], "qos": ["Normal"], "default_qos": "NORMAL"},
        "ML": {"parent": "Research", "description": "Machine Learning", "users": ["Bob", "bob"]},
    }
    wanted = DesiredAccounts(qos, accounts)
    first = calls("lab", wanted, STATE)
    assert first == [
        ["modify", "qos", "High", "set", "MaxTRESPerUser=gres/gpu:H100=8"],
        [
            "add",
            "account",
            "ML",
            *("cluster=lab", "parent=Research", "description=Machine Learning", "organization=ML"),
        ],
        ["add", "user", "bob", "cluster=lab", "account=ML"],
    ]
    # As sacctmgr lists them then: names in small letters (users' own with PreserveCaseUser), a column that is called otherwise.
    state = found(
        "Name|Priority|MaxTRESPU\nnormal|0|\nhigh|100|gres/gpu:h100=8\n",
        ASSOCIATIONS + "ml||research|normal|\nml|Bob||normal|\n",
        wanted.qos_options(),
    )
    assert calls("lab", wanted, state) == []


def test_what_differs_in_capitals_alone_is_wanted_twice():
    assert DesiredAccounts({"a": {}}, {"b": {}}).problems() == []
    accounts, qos = DesiredAccounts({"low": {}, "Low": {}}, {"ML": {}, "x": {}, "ml": {}}).problems()
    assert {"accounts", "ML", "ml"} <= set(accounts.split())
    assert {"QOS", "low", "Low"} <= set(qos.split())
    sentences.check(SENTENCES, "accounts and QOS that differ in capitals alone", [accounts, qos])
