"""slurm.conf as anybody may have written it, read by Slurm's own rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import config_trial
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.conf_reader import (
    Conf,
    line_of,
    nodes_of,
    parse,
    partitions_of,
    read,
    whole_lines,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.slurmctld_report import parse_live
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
# what is written -> the pairs of each line
TEXTS = {
    "case of keys": ("nodename=n1 CPUS=2 FEATURES=a", [{"NodeName": "n1", "CPUS": "2", "Feature": "a"}]),
    "blanks before a line": ("  \tNodeName=n1", [{"NodeName": "n1"}]),
    "blanks around the equals sign": ("NodeName = n1   CPUs= 2", [{"NodeName": "n1", "CPUs": "2"}]),
    "an operator": ("AccountingStorageTRES+=gres/gpu", [{"AccountingStorageTRES": "gres/gpu"}]),
    "double quotes": ('NodeName=n1 Reason="fan is loud"', [{"NodeName": "n1", "Reason": "fan is loud"}]),
    "an apostrophe in quotes": ('NodeName=n1 Reason="it\'s hot"', [{"NodeName": "n1", "Reason": "it's hot"}]),
    "an apostrophe quotes nothing": ("NodeName=n1 Reason='hot'", [{"NodeName": "n1", "Reason": "'hot'"}]),
    "an equals sign in quotes": ('NodeName=n1 Reason="a NodeName=n2"', [{"NodeName": "n1", "Reason": "a NodeName=n2"}]),
    "an empty value": ('NodeName=n1 Reason=""', [{"NodeName": "n1", "Reason": ""}]),
    "a comment": ("# NodeName=n0\nNodeName=n1 # CPUs=2", [{"NodeName": "n1"}]),
    "a comment without a blank": ("NodeName=n1#CPUs=2", [{"NodeName": "n1"}]),
    "a # that is escaped": (r"NodeName=n1 Reason=\#7 CPUs=2", [{"NodeName": "n1", "Reason": "#7", "CPUs": "2"}]),
    "a # after a backslash": (r"NodeName=n1 Reason=a\\#7", [{"NodeName": "n1", "Reason": "a\\"}]),
    "a continued line": ("NodeName=n1 \\\n  CPUs=2 \\\nGres=gpu:1", [{"NodeName": "n1", "CPUs": "2", "Gres": "gpu:1"}]),
    "a word continued": ("NodeName=n\\\n1", [{"NodeName": "n1"}]),
    "blanks after the backslash": ("NodeName=n1 \\  \nCPUs=2", [{"NodeName": "n1", "CPUs": "2"}]),
    "a backslash in a comment": ("NodeName=n1 # \\\nNodeName=n2", [{"NodeName": "n1"}, {"NodeName": "n2"}]),
    "two backslashes": ("NodeName=n1 Reason=a\\\\\nNodeName=n2", [{"NodeName": "n1", "Reason": "a\\"}, {"NodeName": "n2"}]),
    "a backslash at the end of the file": ("NodeName=n1 \\", [{"NodeName": "n1"}]),
    "line ends of Windows": ("NodeName=n1\r\nNodeName=n2 \\\r\nCPUs=2\r\n", [{"NodeName": "n1"}, {"NodeName": "n2", "CPUs": "2"}]),
    "nothing": ("\n \n#\n", []),
}  # fmt: skip


@pytest.mark.parametrize(("text", "lines"), TEXTS.values(), ids=TEXTS)
def test_lines(text: str, lines: list[dict[str, str]]):
    assert parse(text).lines == lines


@pytest.mark.parametrize(
    "pairs",
    [
        {"NodeName": "n1", "Reason": "it's hot"},
        {"NodeName": "n1", "Comment": "rack #3"},
        {"NodeName": "n1", "Comment": "#3"},
        {"NodeName": "n1", "Comment": "a\\"},
        {"NodeName": "n1", "Comment": "", "CPUs": "2"},
    ],
)
def test_what_is_written_is_read_again(pairs: dict[str, str]):
    assert parse(line_of(pairs)).lines == [pairs]


def test_defaults_are_for_the_lines_after_them_and_lines_of_their_own_win():
    conf = parse(
        "NodeName=n0\nNodeName=default CPUs=2 realmemory=100\nNodeName=n1\nNodeName=DEFAULT cpus=4\n"
        "NodeName=n2 RealMemory=200\nPartitionName=DEFAULT MaxTime=30 State=UP\nPartitionName=p Nodes=n2"
    )
    nodes = nodes_of(conf)
    assert list(nodes) == ["n0", "n1", "n2"]
    assert "CPUs" not in nodes["n0"]
    assert (nodes["n1"]["CPUs"], nodes["n1"]["realmemory"]) == ("2", "100")
    assert (nodes["n2"]["CPUs"], nodes["n2"]["realmemory"]) == ("4", "200")
    assert partitions_of(conf) == {"p": {"PartitionName": "p", "Nodes": "n2", "MaxTime": "30", "State": "UP"}}


# a NodeName line -> what each node has of its own
@pytest.mark.parametrize(
    ("line", "own"),
    [
        ("NodeName=n[1-2]", {"n1": ("n1", None), "n2": ("n2", None)}),
        ("NodeName=n[1-2] NodeAddr=10.0.0.[1-2]", {"n1": ("10.0.0.1", None), "n2": ("10.0.0.2", None)}),
        ("NodeName=n[1-2] NodeHostname=h[1-2]", {"n1": ("h1", None), "n2": ("h2", None)}),
        ("NodeName=n[1-2] NodeAddr=h Port=[7001-7002]", {"n1": ("h", "7001"), "n2": ("h", "7002")}),
        ("NodeName=n1,n2 Port=7001", {"n1": ("n1", "7001"), "n2": ("n2", "7001")}),
        ("NodeName=n1 NodeAddr=[fe80::1]", {"n1": ("[fe80::1]", None)}),
    ],
)
def test_every_node_gets_its_own_address_and_port(line: str, own: dict[str, tuple[str, str | None]]):
    nodes = nodes_of(parse(line))
    assert {name: (pairs["NodeAddr"], pairs.get("Port")) for name, pairs in nodes.items()} == own


def test_options_are_found_in_any_case_and_the_last_counts():
    conf = parse("clustername=Lab\nNodeName=n1 Comment=x\nStateSaveLocation=/a\nstatesavelocation=/b")
    assert (conf.option("ClusterName"), conf.option("StateSaveLocation")) == ("Lab", "/b")
    assert conf.option("Comment") is None


def test_includes_are_followed_and_those_that_are_missing_are_told(tmp_path: Path):
    (tmp_path / "slurm.conf").write_text(
        "ClusterName=Lab\nInclude nodes.conf\ninclude  lab-%c.conf\nInclude absent.conf\nInclude *.conf\n"
    )
    (tmp_path / "nodes.conf").write_text("NodeName=DEFAULT CPUs=2\nNodeName=n1\nInclude more.conf\n")
    (tmp_path / "more.conf").write_text("NodeName=n2\n")
    (tmp_path / "lab-lab.conf").write_text("PartitionName=p Nodes=n1\n")
    conf = read(tmp_path / "slurm.conf")
    assert {name: pairs["CPUs"] for name, pairs in nodes_of(conf).items()} == {"n1": "2", "n2": "2"}
    assert list(partitions_of(conf)) == ["p"]
    assert [one.split(": ")[:2] for one in conf.unread] == [
        [f"Include {name}", f"{tmp_path}/{name}"] for name in ("absent.conf", "*.conf")
    ]
    sentences.check(
        SENTENCES, "files that are included and missing", [one.replace(str(tmp_path), "") for one in conf.unread]
    )


def test_files_that_include_each_other_end(tmp_path: Path):
    (tmp_path / "slurm.conf").write_text("Include a.conf\nInclude a.conf\nNodeName=n1\n")
    (tmp_path / "a.conf").write_text("Include slurm.conf\nInclude a.conf\n")
    conf = read(tmp_path / "slurm.conf")
    assert list(nodes_of(conf)) == ["n1"]
    assert [one.split(": ")[:2] for one in conf.unread] == 2 * [
        [f"Include {name}", f"{tmp_path}/{name}"] for name in ("slurm.conf", "a.conf")
    ]
    sentences.check(
        SENTENCES, "files that include each other", [one.replace(str(tmp_path), "") for one in conf.unread[:2]]
    )


def test_a_file_in_another_encoding_is_read_and_one_that_is_not_there_is_empty(tmp_path: Path):
    (tmp_path / "slurm.conf").write_bytes(b"# K\xfchlung\nNodeName=n1\n")
    assert list(nodes_of(read(tmp_path / "slurm.conf"))) == ["n1"]
    assert read(tmp_path / "none") == Conf()


def test_a_long_file_is_read_in_time_that_grows_with_its_length():
    assert len(list(whole_lines("NodeName=n1 Comment=" + "\\\\" * 20000 + "\n"))) == 3


ANYBODYS = {
    "slurm.conf": r"""
clustername = Lab
SelectType=select/cons_tres
nodename=DEFAULT cpus=4 REALMEMORY=900 features=x
  NODENAME = n[1-2] NodeAddr=127.0.0.[1-2] \
   Weight=3 Reason="it's NodeName=n9 \#7" State=DOWN# NodeName=n8
NodeName=m\
1 nodeaddr=127.0.0.9 CPUs = 2
# NodeName=n7
Include more-%c.conf
partitionname=p nodes=ALL default=yes
PartitionName=q Nodes=n[1-2] \
 MaxTime=5
""",
    "more-lab.conf": "NodeName=i1 NodeAddr=127.0.0.8\npartitionname=DEFAULT maxtime=9\n",
}


@pytest.mark.tools("slurmctld", "scontrol")
def test_slurmctld_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    answers: list[str] = []

    def ask(result: config_trial.Result, controller: config_trial._Controller, until: float) -> None:
        asked = [["--oneliner", "--all", "show", what] for what in ("nodes", "partitions")]
        answers.extend(controller.ask(*arguments, until=until) or "" for arguments in asked)

    def extend(text: str, settings: dict[str, str], *_: object) -> str:
        return text + "".join(f"{name}={value}\n" for name, value in settings.items())

    monkeypatch.setattr(config_trial, "_understood", ask)
    monkeypatch.setattr(config_trial, "rewrite", extend)
    result = config_trial.run(ANYBODYS)
    assert result.accepted, result.log
    live = parse_live("", *answers, "")
    for name, text in ANYBODYS.items():
        (tmp_path / name).write_text(text)
    conf = read(tmp_path / "slurm.conf")
    keys = {"cpus": "CPUTot", "realmemory": "RealMemory", "nodeaddr": "NodeAddr", "feature": "ActiveFeatures"}
    found = {}
    for name, pairs in nodes_of(conf).items():
        lower = {key.lower(): value for key, value in pairs.items()}
        found[name] = {keys[key]: lower[key] for key in keys}
    assert set(found) == {"n1", "n2", "m1", "i1"}
    assert found == {name: {key: pairs[key] for key in keys.values()} for name, pairs in live.nodes.items()}
    times = {name: pairs["maxtime"] for name, pairs in partitions_of(conf).items()}
    assert times == {"p": "9", "q": "5"}
    assert {name: pairs["MaxTime"] for name, pairs in live.partitions.items()} == {"p": "00:09:00", "q": "00:05:00"}
