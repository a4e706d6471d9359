# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of Slurm's options: what it knows, what it says about mistakes, and what a change of it takes."""

from __future__ import annotations

import difflib
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables import options
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables.options import (
    PLACES,
    UnknownVersionError,
    check,
    known,
    release,
    releases,
    restart_needed,
)
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
GOOD = {
    "slurm": {
        "ClusterName": "lab",
        "SlurmctldHost": ["c1(10.0.0.1)", "c2"],
        "SlurmctldPort": "6817",
        "authtype": "auth/munge",
        "SelectTypeParameters": "CR_Core_Memory",
        "PrologFlags": ["Alloc", "contain"],
        "MessageTimeout": 30,
        "InactiveLimit": "0x10",
        "MaxJobCount": "100k",
        "SlurmctldTimeout": "UNLIMITED",
        "TrackWCKey": True,
        "DisableRootJobs": "NO",
        "HealthCheckNodeState": "IDLE,CYCLE",
        "ReturnToService": 1,
        "Prolog": ["/usr/libexec/a", "/usr/libexec/b"],
        "SlurmctldDebug": "debug2",
        "EnforcePartLimits": True,
        "PartitionName": "x",
        "NodeName": "n[1-2]",
    },
    "node": {
        "NodeName": "n[1-8]",
        "CPUs": 128,
        "RealMemory": 1000000,
        "Gres": "gpu:h100:8",
        "Feature": ["a", "b"],
        "Weight": 7,
    },
    "partition": {
        "PartitionName": "gpu",
        "Nodes": "ALL",
        "Default": "YES",
        "MaxTime": "7-00:00:00",
        "MaxNodes": "UNLIMITED",
        "State": "UP",
        "OverSubscribe": "FORCE:2",
    },
    "nodeset": {"NodeSet": "ns", "Feature": "h100"},
    "downnodes": {"DownNodes": "n1", "State": "DOWN", "Reason": "broken"},
    "cgroup": {"ConstrainCores": True, "ConstrainDevices": "yes", "AllowedRAMSpace": 98.5, "CgroupPlugin": "cgroup/v2"},
    "slurmdbd": {"DbdHost": "c1", "StorageType": "accounting_storage/mysql", "PurgeJobAfter": "12months"},
    "gres": {
        "NodeName": "n[1-8]",
        "Name": "gpu",
        "Type": "h100",
        "File": "/dev/nvidia[0-7]",
        "Cores": "0-63",
        "AutoDetect": "off",
    },
    "switch": {"SwitchName": "leaf1", "Nodes": "n[1-4]"},
}

# version, kind, option, value, what the message names
BAD = [
    ("24.11", "slurm", "SlurmctldTimout", 1, ("'SlurmctldTimout'", "24.11", "SlurmctldTimeout?")),
    ("24.11", "node", "RealMemmory", 1, ("'RealMemmory'", "RealMemory?", "NodeName")),
    ("24.11", "partition", "Oversubscrib", "NO", ("'Oversubscrib'", "OverSubscribe?", "PartitionName")),
    ("24.11", "slurm", "RealMemory", 1, ("'RealMemory'", "NodeName")),
    ("24.11", "slurm", "Xyzzyqq", 1, ("'Xyzzyqq'", "24.11", "slurm.conf")),
    ("24.11", "slurm", "PowerPlugin", "x", ("'PowerPlugin'", "slurm.conf", "24.05", "24.11")),
    ("22.05", "slurm", "FastSchedule", 1, ("'FastSchedule'", "20.02", "22.05")),
    ("23.02", "slurm", "SlurmctldPlugstack", "x", ("'SlurmctldPlugstack'", "23.02", "23.02")),
    ("24.05", "slurm", "PrologTimeout", 30, ("'PrologTimeout'", "25.05", "24.05")),
    ("23.11", "cgroup", "CgroupAutomount", "yes", ("'CgroupAutomount'", "cgroup.conf", "23.11", "23.11")),
    ("23.11", "cgroup", "ConstrainKmemSpace", "no", ("'ConstrainKmemSpace'", "cgroup.conf", "23.11", "23.11")),
    ("25.05", "cgroup", "CgroupSlice", "s", ("'CgroupSlice'", "25.11", "25.05")),
    ("24.05", "slurmdbd", "StoragePassScript", "s", ("'StoragePassScript'", "slurmdbd.conf", "25.11", "24.05")),
    ("22.05", "block", "BlockName", "b", ("'BlockName'", "topology.conf", "23.11", "22.05")),
    ("24.11", "slurm", "TrackWCKey", "maybe", ("TrackWCKey", "'maybe'", "yes", "no")),
    ("24.11", "slurm", "MessageTimeout", 65536, ("MessageTimeout", "65536", "0 to 65535")),
    ("24.11", "slurm", "MaxJobCount", "4194304k", ("MaxJobCount", "'4194304k'", "0 to 4294967295")),
    ("24.11", "cgroup", "AllowedRAMSpace", "98%", ("AllowedRAMSpace", "'98%'", "UNLIMITED")),
    ("24.11", "slurm", "ClusterName", "", ("ClusterName",)),
    ("24.11", "slurm", "ClusterName", None, ("ClusterName",)),
    ("24.11", "slurm", "ClusterName", {"a": 1}, ("ClusterName", "{'a': 1}", "dict")),
    ("24.11", "slurm", "ClusterName", "a\nb", ("ClusterName",)),
    ("24.11", "node", "Reason", "bug #7", ("Reason ", "'#'", "\\#")),
    ("22.05", "slurm", "HealthCheckNodeState", "NONDRAINED_IDLE", ("NONDRAINED_IDLE", "23.02", "22.05", "ALLOC, ANY")),
    ("24.11", "slurm", "HealthCheckNodeState", "IDLE,CYCEL", ("HealthCheckNodeState", "'CYCEL'", "24.11", "ALLOC, ANY")),
    ("22.05", "gres", "AutoDetect", "nvidia", ("AutoDetect=nvidia", "24.11", "22.05")),
    ("24.11", "partition", "State", "ON", ("State", "'ON'", "UP, DOWN, DRAIN, INACTIVE")),
]  # fmt: skip


@pytest.mark.parametrize("version", releases())
@pytest.mark.parametrize("kind", GOOD)
def test_a_good_configuration_has_no_problems(version: str, kind: str) -> None:
    assert check(version, kind, GOOD[kind]) == []


@pytest.mark.parametrize(("version", "kind", "key", "value", "parts"), BAD)
def test_a_mistake_is_explained(version: str, kind: str, key: str, value: object, parts: tuple[str, ...]) -> None:
    (problem,) = check(version, kind, {key: value})
    assert problem.key == key
    assert [part for part in parts if problem.message.count(part) < parts.count(part)] == []
    # A name near enough is proposed, and no other.
    assert problem.message.endswith("?") is any(part.endswith("?") for part in parts)
    sentences.check(SENTENCES, f"option in {version}: {kind} {key}={value!r}", [problem.message])


@pytest.mark.parametrize("value", [-1, "30s", "1k", "089", True, [30]])
def test_no_number_of_an_option_is_explained(value: object) -> None:
    (problem,) = check("24.11", "slurm", {"MessageTimeout": value})
    assert problem.key == "MessageTimeout"
    assert all(part in problem.message for part in ("MessageTimeout", repr(value), "0 to 65535"))


def test_all_mistakes_at_once_with_the_users_spelling() -> None:
    found = check("24.11", "slurm", {"trackwckey": "x", "CLUSTERNAME": "a", "Qwxyz": 1, "clustername": "b"})
    assert [one.key for one in found] == ["trackwckey", "Qwxyz", "clustername"]
    parts = (("TrackWCKey", "'x'"), ("'Qwxyz'", "24.11"), ("'clustername'", "'CLUSTERNAME'"))
    assert all(part in one.message for one, named in zip(found, parts, strict=True) for part in named)
    sentences.check(SENTENCES, "an option under two names", [found[2].message])


@pytest.mark.parametrize(
    ("version", "expected"),
    [("24.11", "24.11"), ("24.11.5", "24.11"), ("slurm-wlm 22.05.8", "22.05"), ("26.05.5-2", "26.05")],
)
def test_release_of_a_version(version: str, expected: str) -> None:
    assert release(version) == expected


@pytest.mark.parametrize("version", ["21.08.5", "27.05", "", "24.1", "124.11"])
def test_an_unknown_version_is_refused_with_the_known_ones(version: str) -> None:
    with pytest.raises(UnknownVersionError, match=r": 22\.05, .*26\.05"):
        check(version, "slurm", {})


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'slurmd'.* slurm, node"):
        check("24.11", "slurmd", {})


@pytest.mark.parametrize("version", ["22.05", "26.05"])
@pytest.mark.parametrize("kind", PLACES)
def test_a_missing_letter_is_noticed_in_every_name(version: str, kind: str) -> None:
    rng = random.Random(f"{version}-{kind}")
    names = known(version, kind)
    lowered = {name.lower() for name in names}
    for name in names:
        index = rng.randrange(len(name))
        mistake = name[:index] + name[index + 1 :]
        if mistake.lower() in lowered:
            continue  # Files without s is File
        (problem,) = check(version, kind, {mistake: "1"})
        assert repr(mistake) in problem.message


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(releases()), st.sampled_from(sorted(PLACES)), st.data())
def test_a_long_name_without_one_letter_is_proposed_whole(version: str, kind: str, data: st.DataObject) -> None:
    long_names = [name for name in known(version, kind) if len(name) >= 9]
    if not long_names:
        return
    name = data.draw(st.sampled_from(long_names))
    index = data.draw(st.integers(0, len(name) - 1))
    mistake = name[:index] + name[index + 1 :]
    if any(options.canonical(other, mistake) for other in PLACES):
        return
    (problem,) = check(version, kind, {mistake.upper(): "1"})
    proposal = problem.message.rsplit(" ", 1)[1].rstrip("?")
    near = [difflib.SequenceMatcher(None, mistake.lower(), other.lower()).ratio() for other in (proposal, name)]
    assert proposal == name or near[0] >= near[1]


@pytest.mark.parametrize(
    ("version", "old", "new", "expected"),
    [
        ("22.05", {"SelectType": "select/linear"}, {"selecttype": "select/cons_tres"}, ["SelectType"]),
        ("22.05", {"NodeName": ["n1"]}, {"NodeName": ["n1", "n2"]}, ["NodeName"]),
        ("22.05", {"TaskPlugin": "task/affinity"}, {"TaskPlugin": "task/cgroup"}, ["TaskPlugin"]),
        ("22.05", {}, {"GresTypes": "gpu", "MaxJobCount": 5}, ["GresTypes", "MaxJobCount"]),
        ("22.05", {"SlurmdTimeout": 300, "PartitionName": "a"}, {"SlurmdTimeout": 60, "PartitionName": "b"}, []),
        ("22.05", {"TrackWCKey": True, "MaxJobCount": 5}, {"TrackWCKey": "yes", "maxjobcount": "5"}, []),
        ("23.11", {"SelectType": "a", "NodeName": "n1"}, {"SelectType": "b", "NodeName": "n[1-2]"}, []),
        ("24.11.5", {"SlurmctldPort": 6817}, {"SlurmctldPort": 6827}, ["SlurmctldPort"]),
        ("24.11.5", {"AuthType": "auth/munge"}, {"AuthType": "auth/slurm"}, ["AuthType"]),
        ("26.05", {"SlurmdPort": 1}, {}, ["SlurmdPort"]),
    ],
)
def test_what_takes_a_restart(
    version: str, old: dict[str, object], new: dict[str, object], expected: list[str]
) -> None:
    assert restart_needed(version, old, new) == expected


def test_which_daemon_takes_the_restart() -> None:
    old, new = {"SelectType": "a", "MaxJobCount": 1}, {"SelectType": "b", "MaxJobCount": 2}
    assert restart_needed("22.05", old, new, daemon="slurmctld") == ["MaxJobCount", "SelectType"]
    assert restart_needed("22.05", old, new, daemon="slurmd") == ["SelectType"]


def test_another_hash_plugin_takes_a_restart_for_a_reconfigure_leaves_slurmctld_deaf():
    assert restart_needed("24.11", {}, {"HashPlugin": "hash/sha3"}, "slurmctld") == ["HashPlugin"]
    assert restart_needed("24.11", {}, {"HashPlugin": "hash/sha3"}, "slurmd") == ["HashPlugin"]


@pytest.mark.parametrize("value", ["s3cret#1", {"s3cret": 1}, "s3cret\n"])
def test_a_message_shows_no_password_of_the_database(value: object) -> None:
    (mistake,) = options.check("24.11", "slurmdbd", {"StoragePass": value})
    assert "s3cret" not in str(mistake)
