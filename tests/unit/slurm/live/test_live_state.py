"""What Slurm reports against the plan."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import NOTICE, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import written
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.live_state import (
    compare_config,
    compare_maps,
    compare_nodes,
    parse_config,
    parse_nodes,
    parse_partitions,
    parse_topology,
    unread_findings,
)
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
# As Slurm 24.11 prints it.
CONFIG = parse_config(
    """\
Configuration data as of 2026-11-21T09:00:00
HASH_VAL                = Match
SlurmUser               = slurm(64030)
SLURM_CONF              = /etc/slurm/slurm.conf
SLURM_VERSION           = 24.11.5

Slurmctld(primary) at ctl1 is UP
"""
)
FINE = "24.11.5|Unknown|Unknown|none"
SINFO = f"gpu01|gpu:sim:2(S:0)|2|960|idle|{FINE}\ngpu02|gpu:sim:2|2|960|mix-|{FINE}\n"
WANTED: list[dict[str, object]] = [{"names": "gpu[01-02]", "gres": "gpu:sim:2", "cpus": 2, "memory": 960, "state": ""}]
OPERATOR, SLURM = "root(0)", "slurm(64030)"
# What is expected of a node without a planned state.
ABLE = "able to run jobs"


Parted = tuple[list[Finding], list[Finding]]


def parted(findings: list[Finding]) -> Parted:
    """Return errors and notices."""
    assert {one.machine for one in findings} <= {"Slurm"}
    return [one for one in findings if one.severity != NOTICE], [one for one in findings if one.severity == NOTICE]


def compare(text: str, wanted: Any = None) -> Parted:
    nodes, unread = parse_nodes(text)
    assert unread == []
    return parted(compare_nodes(wanted or [{**WANTED[0], "names": ",".join(nodes)}], nodes, CONFIG))


def out(state: str, reason: str = "none", who: str = "Unknown", planned: str = "", version: str = "24.11.5") -> Any:
    """Compare one node that is out of service."""
    line = f"gpu01|gpu:sim:2|2|960|{state}|{version}|{who}|2026-11-21T09:00:00|{reason}"
    return compare(line, [{**WANTED[0], "names": "gpu01", "state": planned}])


def test_agreement_gives_no_finding():
    assert compare(SINFO) == ([], [])


@pytest.mark.parametrize(
    ("live", "wanted", "found"),
    [
        ("gpu01|gpu:sim:1|2|960|idle|", "gres gpu:sim:2", "gres gpu:sim:1"),
        ("gpu01|(null)|2|960|idle|", "gres gpu:sim:2", "gres none"),
        ("gpu01|gpu:sim:2,shard:4|2|960|idle|", "gres gpu:sim:2", "gres gpu:sim:2,shard:4"),
        ("gpu01|gpu:sim:2|4|960|idle|", "cpus 2", "cpus 4"),
        ("gpu01|gpu:sim:2|2|900|idle|", "memory 960", "memory 900"),
        ("gpu01|gpu:sim:2|2|960|idle*|", ABLE, "idle*"),
        ("gpu01|gpu:sim:2|2|960|inval|", ABLE, "inval"),
        ("gpu01|gpu:sim:2|2|960|unk*|", ABLE, "unk*"),
    ],
)
def test_every_difference_is_found(live: str, wanted: str, found: str):
    (finding,) = compare(live + FINE)[0]
    assert (finding.where, finding.expected, finding.found) == ("node gpu01", wanted, found)


def test_gpus_are_compared_without_where_they_sit_and_in_any_order():
    wanted = [{**WANTED[0], "names": "n1", "gres": "shard:16,gpu:h100:7,gpu:h200:1"}]
    assert compare(f"n1|gpu:h200:1(S:0-1),gpu:h100:7(S:0,1),shard:16(S:0-1)|2|960|idle|{FINE}", wanted) == ([], [])


def test_many_cpus_are_read_as_sinfo_shortens_them():
    for text, cpus in (("1.50K", 1536), ("1K", 1024), ("896", 896)):
        assert parse_nodes(f"n1|(null)|{text}|960|idle|{FINE}")[0]["n1"].cpus == cpus


def test_nodes_that_differ_alike_are_one_finding():
    lines = [f"gpu{i:02}|gpu:sim:2|2|960|down*|24.11.5|{SLURM}|2026-11-21T09:00:0{i}|Not responding" for i in (1, 2, 3)]
    (finding,) = compare("\n".join(lines))[0]
    assert (finding.kind, finding.where, finding.expected) == ("node-state", "nodes gpu[01-03]", ABLE)
    assert "`scontrol update nodename=gpu[01-03] state=resume`" in finding.remedy
    sentences.check(SENTENCES, "nodes that do not respond", [finding])


@pytest.mark.parametrize(
    ("state", "reason", "who"),
    [
        ("down*", "Not responding", SLURM),
        ("drain", "Low RealMemory (reported:900 < 100.00% of configured:960)", SLURM),
        ("drain", "gres/gpu count reported lower than configured (1 < 2)", SLURM),
        ("drng", "Prolog error", SLURM),
        # slurmstepd and slurmd are root.
        ("drain", "Kill task failed", "root(0)"),
        ("drain", "Kill task failed (JobId=7 StepId=batch)", "root(0)"),
        ("drain", "SlurmdSpoolDir is full", "root(0)"),
        # Slurm took the node out, and it went silent after that.
        ("drain*", "gres/gpu count reported lower than configured (1 < 2) : Not responding", SLURM),
        ("drain*", "Kill task failed (JobId=7 StepId=0) : Not responding", SLURM),
        # An operator's remark on a node that ran; Slurm found it down.
        ("down*", "noisy fan : Not responding", SLURM),
        # An operator who works as Slurm's user; nobody known.
        ("drain", "fan", SLURM),
        ("drain", "fan", "Unknown"),
        ("idle*", "fan", OPERATOR),
        ("inval", "fan", OPERATOR),
    ],
)
def test_what_slurm_took_out_of_service_is_a_finding(state: str, reason: str, who: str):
    (finding,), notices = out(state, reason, who)
    shown = "unknown" if who == "Unknown" else who
    assert (finding.found, notices) == (f"{state} ({reason}; set by {shown})", [])


@pytest.mark.parametrize(
    ("state", "reason", "who", "shown"),
    [
        ("drain", "fan", OPERATOR, OPERATOR),
        ("drng", "fan | and more | of it", "alice(1000)", "alice(1000)"),
        ("drain*", "Low on water", "Unk(4711)", "Unk(4711)"),
        ("drain@", "kernel", OPERATOR, OPERATOR),
        ("down", "fan", OPERATOR, OPERATOR),
        ("down*", "fan", OPERATOR, OPERATOR),
        ("fail", "fan", OPERATOR, OPERATOR),
        ("drain", "Kill task failed, I look at it", "alice(1000)", "alice(1000)"),
        # Since Slurm 23.02: switched off after it was drained.
        ("drain*", "fan : Not responding", SLURM, "unknown"),
        # Slurm adds this, and becomes its user, at a reboot of a node that an operator drained.
        ("drain", "fan : reboot issued", SLURM, "unknown"),
    ],
)
def test_what_an_operator_took_out_of_service_is_a_notice(state: str, reason: str, who: str, shown: str):
    findings, (notice,) = out(state, reason, who)
    found = f"{state} ({reason}), set by {shown} since 2026-11-21T09:00:00"
    assert (findings, notice.kind, notice.where, notice.found) == ([], "node-state", "node gpu01", found)


OWN = written("roll", "3f2a9c1b", "GPU driver, reboot")


@pytest.mark.parametrize("added", ["", " : reboot issued", " : Not responding"])
@pytest.mark.parametrize("who", [OPERATOR, SLURM])
def test_what_a_run_of_bedplate_took_out_of_service_is_a_notice(added: str, who: str):
    findings, (notice,) = out("drain", OWN + added, who)
    assert findings == []
    assert notice.found == "drain, by roll 3f2a9c1b since 2026-11-21T09:00:00: GPU driver, reboot"


@pytest.mark.parametrize("state", ["idle*", "mix*", "inval", "unk*"])
def test_a_reason_of_bedplate_that_slurm_left_behind_is_no_notice(state: str):
    """Without accounting storage a node keeps its reason when it is resumed."""
    (finding,), notices = out(state, OWN, SLURM)
    assert (finding.found, notices) == (f"{state} ({OWN}; set by {SLURM})", [])


@pytest.mark.parametrize("added", ["reboot timed out", "ResumeTimeout reached"])
def test_a_node_that_does_not_return_from_its_reboot_is_an_error(added: str):
    (finding,), notices = out("down", f"{OWN} : reboot issued : {added}", SLURM)
    assert (finding.expected, notices) == ("back from its reboot", [])
    sentences.check(SENTENCES, "a node that does not return from its reboot", [finding])


def test_a_reason_of_bedplate_that_a_person_edited_is_a_persons():
    edited = OWN.replace("reboot", "reboot; I keep it")
    _, (notice,) = out("drain", edited, "ann(1000)")
    assert notice.found == f"drain ({edited}), set by ann(1000) since 2026-11-21T09:00:00"


def test_a_reason_without_a_time_is_nobodys():
    # Slurm 22.05 after a drain that was in slurm.conf once.
    findings, notices = compare(f"gpu01|gpu:sim:2|2|960|drain|N/A|{OPERATOR}|Unknown|fan")
    assert (["unknown" in one.found and OPERATOR not in one.found for one in findings], notices) == ([True], [])


def test_without_slurmuser_nobody_can_tell():
    nodes, _ = parse_nodes(f"gpu01|gpu:sim:2|2|960|drain|24.11.5|{OPERATOR}|now|fan")
    findings, notices = parted(compare_nodes([{**WANTED[0], "names": "gpu01"}], nodes, {}))
    assert (len(findings), notices) == (1, [])


def test_notices_alike_are_one():
    line = f"{{}}|gpu:sim:2|2|960|drain|24.11.5|{OPERATOR}|noon|fan\n"
    findings, (notice,) = compare("".join(line.format(f"gpu{i:02}") for i in (1, 2, 3)))
    assert (findings, notice.where) == ([], "nodes gpu[01-03]")
    sentences.check(SENTENCES, "nodes that an operator took out of service", [notice])


@pytest.mark.parametrize("state", ["drain", "drng", "drain*", "drain~", "inval"])
@pytest.mark.parametrize("planned", ["drain", "down"])
def test_a_node_that_shall_be_out_may_be(planned: str, state: str):
    assert out(state, "fan", "Unknown", planned) == ([], [])
    assert out(state, "fan : Not responding", SLURM, planned) == ([], [])


def test_a_node_that_shall_be_down_may_be_down_and_one_that_shall_be_drained_may_not():
    assert out("down", "fan", planned="down") == out("down*", "fan", planned="down") == ([], [])
    ((finding,), _) = out("down*", "Not responding", SLURM, planned="drain")
    assert finding.expected == "drain, as planned"
    assert "`scontrol update nodename=gpu01 state=drain reason=...`" in finding.remedy


@pytest.mark.parametrize("planned", ["drain", "down"])
def test_a_node_that_shall_be_out_and_is_not_is_a_notice(planned: str):
    findings, (notice,) = out("idle", planned=planned)
    assert (findings, notice.where, notice.found) == ([], "node gpu01", "idle")
    assert notice.expected == f"{planned}, as planned"
    sentences.check(SENTENCES, "a node that is planned to be out and is not", [str(notice).replace(planned, "STATE")])


def test_a_future_node_may_be_unknown_but_not_broken():
    future = [{**WANTED[0], "names": "gpu[01-02]", "state": "future"}]
    assert compare_nodes(future, {}, CONFIG) == []
    findings, _ = compare(f"gpu02|gpu:sim:1|2|960|down*|{FINE}", future)
    assert [(one.where, one.expected) for one in findings] == [
        ("node gpu02", "gres gpu:sim:2"),
        ("node gpu02", ABLE),
    ]


def test_a_node_that_slurm_does_not_know():
    findings, _ = compare(SINFO, [{**WANTED[0], "names": "gpu09"}])
    assert [(one.kind, one.where, one.machine) for one in findings] == [("node-unknown", "node gpu09", "Slurm")]
    sentences.check(SENTENCES, "a node that Slurm does not know", findings)


def test_slurmd_of_another_release():
    nodes = SINFO.replace("24.11.5", "22.05.1", 1).replace("24.11.5", "24.11.1")
    (finding,), _ = compare(nodes)
    assert (finding.kind, finding.where, finding.found) == ("node-release", "node gpu01", "slurmd 22.05.1")
    assert finding.severity == "error"
    assert finding.expected.endswith(" 24.11.5")
    sentences.check(SENTENCES, "slurmd of another release", [finding])
    # One that never registered has none, and one that does not answer shows what it ran once.
    assert out("down", planned="down", version="N/A") == ([], [])
    for state in ("drain*", "down", "down*"):
        assert out(state, "fan", OPERATOR, version="22.05.1")[0] == []
    assert len(out("drain", "fan", OPERATOR, version="22.05.1")[0]) == 1


def test_a_node_that_waits_for_its_upgrade_is_a_warning():
    """One release of Slurm works under the next two or three; a newer slurmd works under none."""
    (finding,), _ = compare(SINFO.replace("24.11.5", "23.11.9", 1))
    assert (finding.kind, finding.severity) == ("node-release", "warning")
    (finding,), _ = compare(SINFO.replace("24.11.5", "25.05.1", 1))
    assert finding.severity == "error"


def test_a_line_that_cannot_be_read_is_shown():
    broken = ["gpu03", "second line of a reason", f"gpu04|gpu:sim:2|?|960|idle|{FINE}"]
    nodes, unread = parse_nodes("\n".join([SINFO, *broken, "", "  "]))
    assert (list(nodes), unread) == (["gpu01", "gpu02"], broken)
    assert [one.found for one in unread_findings(unread)] == [repr(line) for line in broken]


@pytest.mark.parametrize(
    ("changed", "where", "found"),
    [
        ({"SLURM_VERSION": "23.02.1"}, "slurmctld", "release 23.02.1"),
        ({"SLURM_VERSION": "24.1"}, "slurmctld", "release 24.1"),
        (
            {"HASH_VAL": "Different Ours=0x1 Slurmctld=0x2"},
            "/etc/slurm/slurm.conf",
            "HASH_VAL Different Ours=0x1 Slurmctld=0x2",
        ),
    ],
)
def test_what_slurmctld_runs(changed: dict[str, str], where: str, found: str):
    assert compare_config("24.11", CONFIG) == []
    (finding,) = compare_config("24.11", {**CONFIG, **changed})
    assert (finding.where.partition(" of ")[0], finding.found) == (where, found)


def test_a_slurmctld_that_says_little():
    (finding,) = compare_config("24.11", {})
    assert finding.found == "release unknown"


def test_partitions():
    text = (
        "PartitionName=gpu AllowGroups=ALL Default=YES Nodes=gpu[01-02] State=UP TotalCPUs=4\n"
        "PartitionName=old Hidden=YES Nodes=(null) State=DRAIN\n"
    )
    live = parse_partitions(text)
    assert live == {"gpu": "gpu[01-02]", "old": ""}
    assert compare_maps("partition", {"gpu": "gpu[01-02]"}, live, spared=["old"]) == []
    findings = compare_maps("partition", {"gpu": "gpu01", "debug": "gpu02"}, live)
    assert [(one.where, one.expected, one.found) for one in findings] == [
        ("partition gpu", "gpu01", "gpu[01-02]"),
        ("partition debug", "gpu02", "absent"),
        ("partition old", "absent", "none"),
    ]
    # What is spared and wanted is compared all the same.
    assert compare_maps("partition", {"gpu": "gpu01"}, {"gpu": "gpu02"}, spared=["gpu"])
    assert parse_partitions("PartitionName=gpu Nodes=gpu[01\n") == {"gpu": "gpu[01"}


def test_topology():
    text = (
        "SwitchName=leaf-r1 Level=0 LinkSpeed=1 Nodes=gpu[01-02]\n"
        "SwitchName=top Level=1 LinkSpeed=1 Nodes=gpu[01-04] Switches=leaf-r[1-2]\n"
    )
    blocks = (
        "BlockName=r1 BlockIndex=0 Nodes=n[01-18] BlockSize=18\nBlockName=r2 BlockIndex=1 Nodes=n[19-36] BlockSize=18\n"
        "AggregatedBlock=r1,r2 BlockIndex=2 Nodes=n[01-36] BlockSize=36\n"
    )
    assert parse_topology(blocks) == {
        "r1": {"level": "block", "nodes": "n[01-18]", "switches": ""},
        "r2": {"level": "block", "nodes": "n[19-36]", "switches": ""},
    }
    assert parse_topology(text)["top"] == {"level": "1", "nodes": "gpu[01-04]", "switches": "leaf-r[1-2]"}


def test_a_switch_that_differs_is_told_in_words():
    wanted = {
        "a": {"level": "0", "nodes": "n[1-2]", "switches": ""},
        "b": {"level": "0", "nodes": "n3", "switches": ""},
    }
    live = {"a": {"level": "0", "nodes": "n1", "switches": ""}}
    found = compare_maps("switch", wanted, live)
    assert [(one.where, one.expected, one.found) for one in found] == [
        ("switch a", "level 0, nodes n[1-2]", "level 0, nodes n1"),
        ("switch b", "level 0, nodes n3", "absent"),
    ]


def test_ten_thousand_nodes_are_no_work():
    names = [f"gpu{i:05}" for i in range(10_000)]
    text = "\n".join(
        f"{name}|gpu:h100:8(S:0-1)|112|1000000|down*|24.11.5|{SLURM}|noon|Not responding" for name in names
    )
    wanted = [{"names": "gpu[00000-09999]", "gres": "gpu:h100:8", "cpus": 112, "memory": 1000000, "state": ""}]
    start = time.process_time()
    findings = compare_nodes(wanted, parse_nodes(text)[0], CONFIG)
    assert time.process_time() - start < 1
    assert [one.where for one in findings] == ["nodes gpu[00000-09999]"]
