"""Two real subnet managers on one simulated fabric: who is master, who takes over, and what `verify` says of it."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from lab.paths import ROOT
from lab.scenario_run import recap, run, ssh

testinfra_hosts = ["local://"]

SCENARIO = Path(__file__).parents[1]
CLUSTER = SCENARIO / "opensm.bedplate.yml"
UNIT, LOG = "opensm-plane@fabric.service", "/var/log/opensm/fabric/opensm.log"
MASTER, STANDBY = "sm1", "sm2"


def on(machine: str, command: str) -> str:
    """Run a command that is to work on a machine; return what it prints."""
    done = ssh("opensm", "root", machine, command)
    assert done.returncode == 0, f"{machine}: {command}: {done.stdout}{done.stderr}"
    return done.stdout


def play(name: str, *more: str, **variables: object) -> subprocess.CompletedProcess[str]:
    arguments = [*more, "--limit=subnet_managers", f"--extra-vars={json.dumps(variables)}"]
    return run("opensm", ROOT / f"playbooks/{name}.yml", CLUSTER, *arguments)


def verdict(wait: int) -> str:
    """Return what verify.yml says, with `green: ` or `red: ` before it; one that is red waits all its seconds."""
    done = play("verify", "--tags=interconnect", opensm_verify_timeout=wait)
    text = " ".join((done.stdout + done.stderr).split())
    return f"{'red' if done.returncode else 'green'}: {text}"


def green() -> str:
    """Return what verify.yml says, which must be green; on a busy machine the two OpenSM take their time."""
    said = verdict(60)
    assert said.startswith("green"), said + on(
        "fabric1", "journalctl --unit='ibsim*' --lines=30; ss --udp --all --processes"
    )
    return said


def apply(**variables: object) -> dict[str, dict[str, int]]:
    """Run interconnect.yml; return what it says of each host."""
    done = play("interconnect", **variables)
    # Who stands in for the fabric may have gone.
    assert done.returncode == 0, done.stdout + done.stderr + on("fabric1", "journalctl --unit='ibsim*' --lines=30")
    return recap(done.stdout)


def started(machine: str) -> int:
    """Return when the unit was started, by the clock that all containers share."""
    return int(on(machine, f"systemctl show --property=ActiveEnterTimestampMonotonic --value {UNIT}"))


def read_again(machine: str, text: str, path: str = "partitions.conf") -> None:
    """Write a file of OpenSM by hand, and have the running one read it."""
    on(machine, f"cat > /etc/opensm/fabric/{path} <<'END'\n{text}END\nsystemctl reload {UNIT}; sleep 2")


@pytest.fixture
def restored():
    """Bring back what the plan says, whatever the test did."""
    yield
    apply()


def test_each_runs_on_the_port_of_the_plan_alone():
    guids = json.loads((SCENARIO / "opensm.guids.json").read_text())
    for machine in (MASTER, STANDBY):
        port = guids[f"{machine} mlx5_0"]["port"]
        assert int(on(machine, f"grep --count 'Setting IS_SM on port {port}' {LOG}")) >= 1
        assert on(machine, "pgrep --count --exact opensm").strip() == "1"
        assert on(machine, "systemctl is-enabled opensm.service || true").strip() == "masked"
        assert on(machine, f"systemctl is-enabled {UNIT}").strip() == "enabled"


def test_ports_hold_the_pkeys_of_the_plan():
    port = json.loads((SCENARIO / "opensm.guids.json").read_text())["sm2 mlx5_0"]["port"]
    assert on(MASTER, f"smpquery -G pkeys {port} 1 | head -1 | tr -s ' '").strip() == "0: 0xffff 0x8001" + 6 * " 0x0000"


def test_verify_is_green_and_says_who_is_master():
    assert re.search(r"molecule: sm1 mlx5_0 [a-z ]*ftree, 1 standby", green())


def test_the_standby_takes_over_and_verify_says_so():
    on(MASTER, f"systemctl stop {UNIT}")
    try:
        said = verdict(12)
        assert said.startswith("red")
        planned = r"expected sm1 mlx5_0 [a-z ]*15 [a-z ]*"
        assert re.search(rf"{planned}, found sm2 mlx5_0 \(0x02d6019952577601\) [a-z ]*14\b", said)
        assert f"sm1, molecule: expected {UNIT} active, found inactive" in said
        assert "SMINFO_MASTER" in on(STANDBY, "sminfo")
    finally:
        on(MASTER, f"systemctl start {UNIT}")
    green()
    assert "priority 15 state 3 SMINFO_MASTER" in on(STANDBY, "sminfo")


def test_a_master_that_is_killed_comes_back():
    before = started(MASTER)
    on(MASTER, f"systemctl kill --signal=KILL {UNIT}")
    deadline = time.monotonic() + 60
    while started(MASTER) <= before or "priority 15 state 3" not in ssh("opensm", "root", STANDBY, "sminfo").stdout:
        assert time.monotonic() < deadline
        time.sleep(1)


@pytest.mark.full_in("nodes")
def test_a_standby_that_is_gone_is_told_of():
    on(STANDBY, f"systemctl stop {UNIT}")
    try:
        said = verdict(6)
    finally:
        on(STANDBY, f"systemctl start {UNIT}")
    assert said.startswith("red")
    assert re.search(r"expected sm2 mlx5_0 [a-z ]*standby, found no\b", said)


@pytest.mark.full_in("nodes")
def test_wrong_partitions_turn_verify_red_and_are_mended_without_a_restart():
    before = started(MASTER)
    read_again(MASTER, "Default=0x7fff,ipoib : ALL=limited, SELF=full ;\ntenant=0x0001 : 0xzz=full ;\n")
    said = verdict(6)
    assert said.startswith("red")
    assert re.search(r"partitions\.conf, [a-z ]*: line 2: bad PortGUID", said)
    read_again(MASTER, "Default=0x7fff,ipoib : ALL=limited, SELF=full ;\n")
    said = verdict(6)
    assert said.startswith("red")
    assert "sm2 mlx5_0 (0x02d6019952577601) holds 0x7fff and not 0x8001 0xffff" in said
    assert apply()[MASTER]["changed"] == 2
    green()
    assert started(MASTER) == before


def test_another_engine_and_priority_than_planned_turn_verify_red():
    conf = "/etc/opensm/fabric/opensm.conf"
    on(STANDBY, f"sed -i 's/^sm_priority .*/sm_priority 3/' {conf} && systemctl restart {UNIT}")
    on(MASTER, f"sed -i 's/^routing_engine .*/routing_engine minhop/' {conf} && systemctl restart {UNIT}")
    said = verdict(6)
    assert said.startswith("red")
    assert "ftree, found minhop" in said
    assert re.search(r"\b14 [a-z ]*sm2 mlx5_0, found 3\b", said)


# The run brings back what the test before has edited by hand.
def test_changed_options_restart_the_standby_first(restored):
    before = started(MASTER)
    apply(opensm_options={"max_wire_smps": 16}, opensm_drop_ins={"nice.conf": "[Service]\nNice=-5\n"})
    assert before < started(STANDBY) < started(MASTER)
    for machine in (MASTER, STANDBY):
        assert "max_wire_smps 16" in on(machine, "cat /etc/opensm/fabric/opensm.conf")
        assert on(machine, f"systemctl show --property=Nice --value {UNIT}").strip() == "-5"
    green()


def test_files_that_fail_the_proof_do_not_land():
    before = on(MASTER, "cat /etc/opensm/fabric/opensm.conf")
    done = play("interconnect", opensm_routing_engines=["torus-2QoS"])
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert "torus-2QoS, found minhop" in said
    assert on(MASTER, "cat /etc/opensm/fabric/opensm.conf") == before


@pytest.mark.full_in("nodes")
def test_a_rotated_log_is_left_and_still_tells():
    on(MASTER, "logrotate --force /etc/logrotate.d/opensm-plane")
    on(MASTER, f"test -s {LOG}.1 && systemctl reload {UNIT} && sleep 2 && grep --quiet 'SUBNET UP' {LOG}")
    green()


def test_nothing_is_left_to_do():
    changed = {name: counts["changed"] for name, counts in apply().items() if name != "localhost"}
    assert changed == {MASTER: 0, STANDBY: 0}
