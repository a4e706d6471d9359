"""What bedplate deploys rests on some options of Slurm: a file that takes one away is told so, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.needed_options import rows
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import render
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables import conf_text
from tests.kit import sentences

SENTENCES = Path(__file__).parent / "sentences.txt"

REST = ("  database: [ctl1]", "  database: [ctl1]\n  rest: [ctl1]")
NO_DATABASE = [("  database: [ctl1]\n", ""), ("  accounts:\n    research:\n      users: [alice]\n", "")]
NO_FABRIC = ("fabric:\n  spines: [spine1, spine2]\n  rails: 2\n", "")


def options(**given: object) -> tuple[str, str]:
    return "  options:\n    MessageTimeout: 30\n", f"  options: {json.dumps(given)}\n"


def slurmdbd(**given: object) -> tuple[str, str]:
    return "  slurmdbd:\n    PurgeJobAfter: 12months\n", f"  slurmdbd: {json.dumps(given)}\n"


def wheres(error) -> list[str]:
    return [mistake.where for mistake in error.mistakes]


@pytest.mark.parametrize("kind", ["slurm", "slurmdbd"])
def test_what_bedplate_writes_by_itself_has_all_that_it_needs(bench, kind):
    # Else a row of the table would refuse what the defaults say, or have a misspelt option or word.
    cluster = bench.load(REST)
    lines = render.slurmdbd_conf(cluster).removeprefix(conf_text.HEADER).splitlines()
    own = render.slurm_options(cluster) if kind == "slurm" else dict(line.split("=", 1) for line in lines)
    needed = {
        row["option"]: own[row["option"]] for row in rows()[kind] if row["option"] in own and "follows" not in row
    }
    assert len(needed) >= 7
    bench.load(REST, options(**needed) if kind == "slurm" else slurmdbd(**needed))
    absent = [row for row in rows()[kind] if row["option"] not in own]
    bench.load(REST, options(**{row["option"]: row.get("value", "") for row in absent}))


@pytest.mark.parametrize("kind", ["slurm", "slurmdbd"])
def test_each_row_has_one_rule_and_says_why(kind):
    for row in rows()[kind]:
        assert len({"words", "value", "path", "follows"} & row.keys()) == 1, row
        assert row["why"] or not {"words", "value"} & row.keys(), row


@pytest.mark.parametrize(
    "edit",
    [
        options(slurmctldparameters="idle_on_node_suspend,ENABLE_CONFIGLESS"),
        options(SlurmctldParameters=["idle_on_node_suspend", "enable_configless"]),
        options(PrologFlags="contain, X11"),
        options(PrologFlags="X11"),
        options(PrologFlags=["Alloc", "RunInJob"]),
        options(AuthType=None, CredType=None, SlurmdSpoolDir=None),
        options(AuthType="auth/munge", SlurmUser="slurm"),
        options(AuthAltTypes=None, AuthAltParameters=None),
        options(AuthAltParameters="jwks=/etc/slurm/jwks.json,max_token_lifespan=3600"),
        options(GresTypes="mps,gpu"),
        options(StateSaveLocation="/shared/slurm/state", SlurmdSpoolDir="/local/%n"),
        options(ProctrackType="proctrack/linuxproc", TaskPlugin=None, SlurmctldPidFile=None),
        slurmdbd(StorageHost=None, StorageLoc=None, AuthAltTypes=None, AuthAltParameters=None),
    ],
)
def test_what_keeps_it_is_the_users_to_decide(bench, edit):
    bench.load(edit)


@pytest.mark.parametrize(
    ("edits", "where", "values"),
    [
        (
            [options(SlurmctldParameters=None)],
            "slurm.options.SlurmctldParameters",
            ["enable_configless"],
        ),
        ([options(PrologFlags="Alloc")], "slurm.options.PrologFlags", ["'Alloc'", "Contain"]),
        ([options(SlurmUser="root")], "slurm.options.SlurmUser", ["'root'", " slurm."]),
        ([options(SlurmUser=None)], "slurm.options.SlurmUser", ["SlurmUser"]),
        ([options(CredType="cred/slurm")], "slurm.options.CredType", ["'cred/slurm'", " cred/munge."]),
        ([options(CryptoType="crypto/none")], "slurm.options.CryptoType", ["'crypto/none'", " crypto/munge."]),
        ([REST, options(AuthAltTypes=None)], "slurm.options.AuthAltTypes", ["auth/jwt", "slurmrestd"]),
        ([REST, slurmdbd(AuthAltTypes=None)], "slurm.slurmdbd.AuthAltTypes", ["auth/jwt", "slurmrestd"]),
        (
            [options(AuthAltParameters="disable_token_creation")],
            "slurm.options.AuthAltParameters",
            ["'disable_token_creation'", "jwt_key=", "slurmctld"],
        ),
        ([slurmdbd(AuthAltParameters=None)], "slurm.slurmdbd.AuthAltParameters", ["jwt_key=", "slurmdbd"]),
        ([options(GresTypes="mps")], "slurm.options.GresTypes", ["'mps'", " gpu"]),
        (
            [options(TopologyPlugin="topology/block")],
            "slurm.options.TopologyPlugin",
            ["'topology/block'", " topology/tree."],
        ),
        (
            [options(AccountingStorageType=None)],
            "slurm.options.AccountingStorageType",
            ["services.database"],
        ),
        (
            [options(AccountingStorageHost="db9")],
            "slurm.options.AccountingStorageHost",
            ["services.database"],
        ),
        ([options(SlurmdSpoolDir="spool")], "slurm.options.SlurmdSpoolDir", ["'spool'"]),
        ([slurmdbd(StorageUser=None)], "slurm.slurmdbd.StorageUser", ["StorageUser"]),
        ([slurmdbd(SlurmUser="root")], "slurm.slurmdbd.SlurmUser", ["'root'", " slurm."]),
        (
            [slurmdbd(StorageType="accounting_storage/none")],
            "slurm.slurmdbd.StorageType",
            ["'accounting_storage/none'", "MariaDB"],
        ),
        ([slurmdbd(StorageHost="db9")], "slurm.slurmdbd.StorageHost", ["'db9'", " localhost."]),
        # A value that Slurm itself refuses is one mistake.
        ([options(PrologFlags="Allocc")], "slurm.options.PrologFlags", ["'Allocc'"]),
        ([options(AuthType="")], "slurm.options.AuthType", []),
    ],
)
def test_what_takes_it_away_is_a_mistake_that_says_why(bench, edits, where, values):
    (mistake,) = bench.error(*edits).mistakes
    assert mistake.where == where
    assert [value for value in values if value not in mistake.message] == []
    sentences.check(SENTENCES, f"taken away: {edits[-1][1].strip()}", [mistake.message])


@pytest.mark.parametrize(
    "edits",
    [
        [NO_FABRIC, options(TopologyPlugin="topology/block")],
        [*NO_DATABASE, options(AccountingStorageType="accounting_storage/slurmdbd", AccountingStorageHost="db9")],
    ],
)
def test_an_option_is_free_where_bedplate_does_not_need_it(bench, edits):
    bench.load(*edits)


TWO = ("  controllers: [ctl1]", "  controllers: [ctl1, cpu01, cpu02]")


def test_several_controllers_share_a_stated_directory(bench):
    assert bench.load(TWO, options(statesavelocation="/shared/slurm/state")).services.controllers[1] == "cpu01"
    # What it is worth cannot be seen from here.
    bench.load(TWO, options(StateSaveLocation="/var/lib/slurm/slurmctld"))


def test_several_controllers_with_slurms_own_directory(bench):
    error = bench.error(TWO, options(StateSaveLocation=None))
    assert wheres(error) == ["slurm.options.StateSaveLocation"]
    assert "StateSaveLocation" in error.mistakes[0].message
    sentences.check(SENTENCES, "several controllers with Slurm's own directory", [error.mistakes[0].message])


def old(version: str, **services: object) -> list[tuple[str, str]]:
    lines = "".join(f"  {name}: {json.dumps(hosts)}\n" for name, hosts in services.items())
    hosts = "  ctl1:\n    address: 10.0.0.10\n"
    more = "".join(f"  {name}:\n    address: 10.0.0.{n}\n" for name, n in (("login1", 8), ("login2", 9)))
    return [
        ('version: "24.11"', f'version: "{version}"'),
        (hosts, hosts + more),
        ("  database: [ctl1]\n", f"  database: [ctl1]\n{lines}"),
    ]


@pytest.mark.parametrize(("version", "has_sackd"), [("22.05", False), ("23.11", False), ("24.05", True)])
def test_clients_of_a_release_without_sackd_are_allowed(bench, version, has_sackd):
    cluster = bench.load(*old(version, login=["ctl1", "login1"], rest=["login2"]))
    assert cluster.client_hosts == ("login1", "login2")
    assert cluster.has_sackd is has_sackd


def test_an_unknown_host_or_release_is_one_mistake(bench):
    assert wheres(bench.error(*old("22.05", login=["q1"]))) == ["services.login[0]"]
    assert wheres(bench.error(*old("19.05", login=["login1"]))) == ["slurm.version"]
