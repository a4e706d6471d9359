# SPDX-License-Identifier: GPL-3.0-or-later
"""Candidates against the real slurmctld of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import config_trial
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.config_trial import Result, rewrite, run
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.gres_check import check_gres
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
SLURM_CONF = """\
ClusterName=test
SlurmUser=slurm
SlurmctldHost=c1(10.0.0.1)
SlurmctldHost=c2(10.0.0.2)
AuthType=auth/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/nonexistent/key
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
TopologyPlugin=topology/tree
StateSaveLocation=/nonexistent/state  SlurmctldPort=6817
SlurmctldParameters=enable_configless
SuspendProgram=/nonexistent/suspend
PriorityType=priority/multifactor
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=limits,qos
Prolog=/nonexistent/prolog
NodeName=n[1-2] NodeAddr=10.0.0.[1-2] Sockets=1 CoresPerSocket=4 RealMemory=1000 Gres=gpu:h100:2 State=UNKNOWN
NodeName=n[3-4] Sockets=1 CoresPerSocket=4 RealMemory=1000 Gres=gpu:h100:2 State=UNKNOWN
NodeSet=h100 Nodes=n[1-4]
PartitionName=gpu Nodes=h100 Default=YES MaxTime=INFINITE State=UP QOS=normal
"""
FILES = {
    "slurm.conf": SLURM_CONF,
    "topology.conf": "SwitchName=l1 Nodes=n[1-2]\nSwitchName=l2 Nodes=n[3-4]\nSwitchName=top Switches=l[1-2]\n",
    "cgroup.conf": "ConstrainCores=yes\nConstrainDevices=yes\n",
    "gres.conf": "NodeName=n[1-4] Name=gpu Type=h100 File=/dev/nvidia[0-1]\n",
}
slurmctld = pytest.mark.tools("slurmctld", "scontrol")

# what is wrong: file, text to append, what slurmctld says
REFUSED = {
    "unknown option": ("slurm.conf", "SlurmctldTimout=3", "unrecognized key: SlurmctldTimout"),
    "option of a later time": ("cgroup.conf", "Foo=yes", "unrecognized key: Foo"),
    "unknown option of a node": ("slurm.conf", "NodeName=n9 Foo=3", "unrecognized key: Foo"),
    "removed option": ("slurm.conf", "FastSchedule=2", "FastSchedule option has been removed"),
    "wrong type": ("slurm.conf", "MessageTimeout=abc", '"abc" is not a valid number'),
    "node twice": ("slurm.conf", "NodeName=n1", "Duplicated NodeName n1"),
    "partition twice": ("slurm.conf", "PartitionName=gpu Nodes=n1", "duplicate entry for partition gpu"),
    "partition with an unknown node": ("slurm.conf", "PartitionName=x Nodes=n[7-8]", 'lookup failure for node "n7"'),
    "more addresses than nodes": ("slurm.conf", "NodeName=m[1-2] NodeAddr=10.0.1.[1-3]", "NodeAddr count must equal"),
    "topology with a loop": ("topology.conf", "SwitchName=a Switches=b\nSwitchName=b Switches=a", "is not a tree"),
    "topology with an unknown switch": ("topology.conf", "SwitchName=a Switches=zz", "invalid child (zz)"),
}


def candidate(file: str = "slurm.conf", line: str = "") -> dict[str, str]:
    return {**FILES, file: f"{FILES[file]}{line}\n"}


@slurmctld
def test_a_good_configuration_is_accepted_and_understood() -> None:
    result = run(FILES)
    assert (result.tested, result.accepted, result.fatal, result.errors) == (True, True, [], []), result.log
    assert (result.nodes, result.partitions) == (4, 1)
    assert [line.split()[0] for line in result.topology] == ["SwitchName=l1", "SwitchName=l2", "SwitchName=top"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", result.version)
    assert re.findall(r"slurmctld \S+|\b\d \w+", result.message) == [
        f"slurmctld {result.version}",
        "4 nodes",
        "1 partitions",
    ]
    assert result.isolated is config_trial.NetworkNamespace().network


@slurmctld
@pytest.mark.parametrize(("file", "line", "message"), REFUSED.values(), ids=REFUSED)
def test_a_bad_configuration_is_refused_in_the_daemons_words(file: str, line: str, message: str) -> None:
    result = run(candidate(file, line))
    assert result.tested
    assert not result.accepted
    assert message in result.message
    assert "bedplate-slurm-" not in result.message


@slurmctld
@pytest.mark.parametrize(
    "lines",
    [
        "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE",
        "PreemptType=preempt/partition_prio\nPreemptMode=SUSPEND,GANG\nPartitionName=low Nodes=n1 PreemptMode=SUSPEND",
        "PreemptMode=CANCEL\nPreemptType=preempt/qos",
        "PreemptMode=SUSPEND,GANG\nPreemptType=preempt/qos\nPartitionName=low Nodes=n1 PreemptMode=SUSPEND",
    ],
)
def test_preemption_is_accepted(lines: str) -> None:
    result = run(candidate("slurm.conf", lines))
    assert (result.accepted, result.fatal, result.errors) == (True, [], []), result.log


@slurmctld
def test_preemption_of_half_a_configuration_is_refused() -> None:
    result = run(candidate("slurm.conf", "PreemptMode=REQUEUE"))
    assert "PreemptType and PreemptMode values incompatible" in result.message


@slurmctld
def test_a_missing_file_is_named_at_once() -> None:
    result = run({name: text for name, text in FILES.items() if name != "topology.conf"})
    assert not result.accepted
    (missing,) = result.fatal
    assert {"topology.conf", "slurm.conf"} <= set(missing.split())
    assert missing in result.message


@slurmctld
def test_an_error_without_consequence_is_reported_beside_the_acceptance() -> None:
    result = run(candidate("slurm.conf", "HealthCheckNodeState=FOO"))
    assert result.accepted
    assert result.errors == ["Invalid HealthCheckNodeState value FOO ignored"]


@slurmctld
def test_what_slurmctld_takes_but_no_node_can_honour_is_refused() -> None:
    result = run({**FILES, "gres.conf": FILES["gres.conf"].replace("[0-1]", "0")})
    assert not result.accepted
    assert result.fatal == [result.message]
    assert all(value in result.message for value in ("gres.conf", " 1 gpu:h100 ", "n[1-4]", " 2:"))


@slurmctld
def test_without_a_network_of_its_own_it_takes_a_free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_trial.NetworkNamespace, "_possible", lambda self: False)
    result = run(FILES)
    assert (result.accepted, result.isolated, result.nodes) == (True, False, 4), result.log


@slurmctld
def test_a_missing_authentication_plugin_is_replaced_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_trial, "AUTHENTICATION", (("auth/absent", "cred/none"), ("auth/none", "cred/none")))
    result = run(FILES)
    assert (result.accepted, result.auth) == (True, "auth/none"), result.log


@slurmctld
def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o755)
    monkeypatch.setattr(config_trial.tempfile, "tempdir", str(scratch))
    seen: list[int] = []
    observe = config_trial._observe

    def watch(controller: config_trial._Controller, auth: str, until: float) -> Result:
        seen.append(stat.S_IMODE(controller.scratch.stat().st_mode))
        seen.append(controller.daemon.process.pid)
        return observe(controller, auth, until)

    monkeypatch.setattr(config_trial, "_observe", watch)
    run(FILES)
    assert seen[0] == 0o700
    assert not Path(f"/proc/{seen[1]}").exists()
    assert list(scratch.iterdir()) == []


def commands_with(path: Path) -> list[str]:
    """Return the command lines of this machine that name a path."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if str(path) in line]


@slurmctld
@pytest.mark.parametrize(
    ("files", "accepted"),
    [
        (FILES, True),
        ({**FILES, "gres.conf": FILES["gres.conf"].replace("[0-1]", "0")}, False),
        # slurmctld would wait a minute for the file.
        ({name: text for name, text in FILES.items() if name != "topology.conf"}, False),
    ],
    ids=["accepted", "refused while it runs", "refused while it waits"],
)
def test_no_slurmctld_is_left_running(files: dict[str, str], accepted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the scratch directory of a run: slurmctld ends by itself where SlurmUser cannot reach it, as below tmp_path of root."""
    started: dict[Path, list[str]] = {}
    observe = config_trial._observe

    def watch(controller: config_trial._Controller, auth: str, until: float) -> Result:
        # It is between fork and exec for a moment.
        while not commands_with(controller.conf) and time.monotonic() < until:
            time.sleep(0.01)
        started[controller.conf] = commands_with(controller.conf)
        return observe(controller, auth, until)

    monkeypatch.setattr(config_trial, "_observe", watch)
    assert run(files).accepted is accepted
    assert [bool(lines) for lines in started.values()] == [True] * len(started) != []
    assert [line for conf in started for line in commands_with(conf)] == []


@slurmctld
def test_a_daemon_that_hangs_is_stopped_at_the_deadline(tmp_path: Path) -> None:
    daemon = tmp_path / "slurmctld"
    daemon.write_text("#!/bin/sh\n[ $1 = -V ] && echo slurm 1.2.3 && exit\ntrap '' TERM\necho hanging; sleep 60\n")
    daemon.chmod(0o755)
    result = run(FILES, slurmctld=str(daemon), deadline=1)
    assert (result.tested, result.accepted) == (True, False)
    assert result.message.endswith(": hanging")


def test_without_slurmctld_nothing_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    result = run(FILES)
    assert result == Result(tested=False, message=result.message)
    sentences.check(SENTENCES, "slurmctld is not installed", [result.message])


@pytest.mark.parametrize("name", ["../slurm.conf", "/etc/passwd", ".hidden", "", "slurmdbd.conf"])
def test_only_files_of_slurmctld_are_taken(name: str) -> None:
    result = run({**FILES, name: "x"}, slurmctld="/bin/true")
    assert not result.accepted
    assert result.message.startswith(f"{name!r}: ")
    sentences.check(SENTENCES, "a file that slurmctld does not read", [result.message.replace(repr(name), "NAME")])


def test_without_slurm_conf_nothing_is_started() -> None:
    result = run({"cgroup.conf": ""}, slurmctld="/bin/true")
    assert (result.tested, result.accepted) == (True, False)
    assert "slurm.conf" in result.message
    sentences.check(SENTENCES, "files without slurm.conf", [result.message])


def test_rewriting_leaves_out_what_touches_the_world_and_nothing_else() -> None:
    text = rewrite(SLURM_CONF, {"SlurmctldHost": "here(127.0.0.1)", "SlurmctldPort": "7000"})
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kept = ("ClusterName", "GresTypes", "SelectType", "TopologyPlugin", "SlurmctldParameters", "Prolog=", "NodeSet")
    hardware = "Sockets=1 CoresPerSocket=4 RealMemory=1000 Gres=gpu:h100:2 State=UNKNOWN"
    assert lines == [
        *[line for line in SLURM_CONF.splitlines() if line.startswith(kept)][:-1],
        f"NodeName=n[1-2] NodeAddr=10.0.0.[1-2] {hardware}",
        f"NodeName=n[3-4] {hardware} NodeAddr=127.0.0.1",
        "NodeSet=h100 Nodes=n[1-4]",
        "PartitionName=gpu Nodes=h100 Default=YES MaxTime=INFINITE State=UP",
        "SlurmctldHost=here(127.0.0.1)",
        "SlurmctldPort=7000",
    ]


@pytest.mark.parametrize(
    "option",
    ["SlurmctldPrimaryOnProg", "SlurmctldPrimaryOffProg", "ResumeProgram", "ResumeFailProgram", "SuspendProgram",
     "PrologSlurmctld", "EpilogSlurmctld", "MailProg"],
)  # fmt: skip
def test_a_test_start_runs_no_program_of_the_site(option: str) -> None:
    assert rewrite(f"ClusterName=x\n{option}=/site/prog\n", {}).split() == ["ClusterName=x"]


def conf_of_a_test_start(tmp_path: Path, text: str) -> str:
    """Return what a daemon that ends at once says: the slurm.conf that it got, and the network devices that it sees."""
    daemon = tmp_path / "slurmctld"
    daemon.write_text("#!/bin/sh\n[ $1 = -V ] && echo slurm 1.2.3 && exit\ncat $3 /proc/net/dev; exit 1\n")
    daemon.chmod(0o755)
    return run({"slurm.conf": text}, slurmctld=str(daemon)).log


@pytest.mark.parametrize(("isolated", "address"), [(True, "10.0.0.7"), (False, "127.0.0.1")])
def test_nodes_get_no_message_from_a_test_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolated: bool, address: str
) -> None:
    if not isolated:
        monkeypatch.setattr(config_trial.NetworkNamespace, "_possible", lambda self: False)
    elif not config_trial.NetworkNamespace().network:
        address = "127.0.0.1"
    log = conf_of_a_test_start(tmp_path, "NodeName=n1 NodeAddr=10.0.0.7\n")
    assert f"NodeAddr={address}" in log
    devices = [line.partition(":")[0].strip() for line in log.splitlines() if re.match(r"\s*\w+:\s+\d", line)]
    assert (devices == ["lo"]) == (address == "10.0.0.7")


@pytest.mark.parametrize("user", ["daemon", "1", "nosuch-user", "4000000000"])
def test_a_test_start_runs_as_the_wanted_user_where_there_is_one(tmp_path: Path, user: str) -> None:
    own = pwd.getpwuid(os.geteuid()).pw_name
    wanted = "daemon" if os.geteuid() == 0 and user in ("daemon", "1") else own
    assert f"SlurmUser={wanted}\n" in conf_of_a_test_start(tmp_path, f"SlurmUser={user}\n")


def test_rewriting_without_isolation_leaves_no_node_an_address() -> None:
    text = rewrite("NodeName=n[1-2] \\\n NodeAddr=10.0.0.[1-2] # x\n", {}, loopback_nodes=True)
    assert text.split() == ["NodeName=n[1-2]", "NodeAddr=127.0.0.1"]


@pytest.mark.parametrize(
    ("slurm", "gres", "problems"),
    [
        ("NodeName=n1 Gres=gpu:h100:8", "Name=gpu Type=h100 File=/dev/nvidia[0-7]", []),
        ("NodeName=n1 Gres=gpu:8", "Name=gpu Type=h100 File=/dev/nvidia[0-3]\nName=gpu File=/dev/nvidia[4-7]", []),
        ("NodeName=n1 Gres=gpu:h100:8", "AutoDetect=nvidia", []),
        ("NodeName=n1 Gres=gpu:h100:8", None, []),
        ("NodeName=n1 Gres=gpu:h100:8(S:0-1)", "NodeName=n[1-9] Name=gpu Type=h100 Count=8", []),
        (
            "NodeName=n1 Gres=gpu:h100:8",
            "Name=gpu Type=a100 File=/dev/nvidia[0-7]",
            [("gres.conf", "0 gpu:h100", "n1", "8")],
        ),
        ("NodeName=n[1-3] Gres=gpu:2", "NodeName=n[1-2] Name=gpu Count=2", [("gres.conf", "0 gpu ", "n3", "2")]),
        ("NodeName=n1 Gres=gpu:h100:x", None, [("NodeName=n1", "'gpu:h100:x'", "name:count")]),
        ("NodeName=n1 Gres=fpga:2", None, [("'fpga'", "GresTypes=gpu")]),
        ("NodeName=n1 Gres=gpu:no_consume:4", "Name=gpu Count=4", []),
        ("NodeName=n1 Gres=gpu:a:b:4", None, [("NodeName=n1", "'gpu:a:b:4'")]),
        ("NodeName=n1 Gres=gpu:x", None, [("NodeName=n1", "'gpu:x'")]),
        ("NodeName=n1 Gres=:4", None, [("NodeName=n1", "Gres=:4:", "name:type:count")]),
        ("NodeName=n1 Gres=gpu:8", "AutoDetect=off\nName=gpu Count=1", [("gres.conf", "1 gpu ", "n1", "8")]),
        # slurmctld names a host list that it cannot read.
        ("NodeName=n[1- Gres=gpu:8", "Name=gpu Count=1", []),
    ],
)
def test_gres(slurm: str, gres: str | None, problems: list[tuple[str, ...]]) -> None:
    files = {"slurm.conf": f"GresTypes=gpu\n{slurm}\n", **({"gres.conf": gres} if gres else {})}
    found = check_gres(files)
    assert len(found) == len(problems)
    for message, parts in zip(found, problems, strict=True):
        assert all(part in message for part in parts)
    if found:
        sentences.check(SENTENCES, f"GRES of {slurm}", found)


@slurmctld
@pytest.mark.parametrize(
    ("line", "check", "rc"), [("", True, 0), ("SlurmctldTimout=3", False, 1), ("HealthCheckNodeState=FOO", False, 0)]
)
def test_the_module_reports_in_check_mode_too(line: str, check: bool, rc: int) -> None:
    arguments = {"files": candidate("slurm.conf", line), "_ansible_check_mode": check, "_ansible_remote_tmp": "/tmp"}
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-m", "ansible_collections.bedplate.cluster.plugins.modules.slurm_config_test"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        env={**os.environ, "PYTHONPATH": str(root / "collections")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    answer = json.loads(done.stdout)
    assert done.returncode == rc, done.stdout
    assert answer.get("changed", False) is False
    assert answer["accepted"] is (rc == 0)
    assert ("SlurmctldTimout" in answer.get("msg", "")) is bool(rc)


@slurmctld
def test_scripts_that_a_site_keeps_beside_slurm_conf_are_there(tmp_path, monkeypatch):
    monkeypatch.setattr(config_trial, "_IN_FORCE", tmp_path)
    files = {**FILES, "slurm.conf": SLURM_CONF + "JobSubmitPlugins=lua\n"}
    refused = run(files)
    assert not refused.accepted
    assert "job_submit.lua" in refused.message
    script = "function slurm_job_submit(d, p, u) return 0 end\nfunction slurm_job_modify(d, r, p, u) return 0 end\nreturn 0\n"
    (tmp_path / "job_submit.lua").write_text(script)
    accepted = run(files)
    assert accepted.accepted, accepted.message
