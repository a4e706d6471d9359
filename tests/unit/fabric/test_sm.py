"""What runs as subnet manager: its log and the tools' answers are read, and judged against the plan."""

from __future__ import annotations

import tracemalloc
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import sm_log, sm_tools
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.sm_judge import Manager, Wanted, judge

NOW = datetime(2026, 11, 21, 15, 20, 0)
HOUR = timedelta(hours=1)
ONE, TWO, THREE = "021d6a2cd3704201", "02d6019952577601", "02aaaaaaaaaaaa01"
# As OpenSM 3.3.23 wrote it: a start, a takeover after five polls without an answer, and a sweep.
START = """\
Nov 21 15:13:33 093321 [E6AA1740] 0x03 -> OpenSM 3.3.23
Nov 21 15:13:33 097729 [E6AA1740] 0x80 -> Entering DISCOVERING state
Nov 21 15:13:33 108781 [E3A9A6C0] 0x80 -> Entering STANDBY state
"""
TIMEOUT = """\
Nov 21 15:14:36 978306 [4A7EC6C0] 0x01 -> log_send_error: ERR 5411: DR SMP Send completed with error (IB_TIMEOUT) -- dropping
\t\t\tMethod 0x1, Attr 0x11, TID 0x12ee
Nov 21 15:14:36 978335 [4A7EC6C0] 0x01 -> sm_mad_ctrl_send_err_cb: ERR 3113: MAD completed in error (IB_TIMEOUT): SubnGet(NodeInfo)
"""
POLL = TIMEOUT.replace("0x11", "0x20").replace("NodeInfo", "SMInfo")
MASTER = """\
Nov 21 15:14:41 979733 [4E7F46C0] 0x80 -> Entering DISCOVERING state
Nov 21 15:14:41 985019 [4B7EE6C0] 0x80 -> Entering MASTER state
"""
ROUTED = """\
Nov 21 15:14:41 988774 [4B7EE6C0] 0x02 -> osm_ucast_mgr_process: ftree tables configured on all switches
Nov 21 15:14:41 989278 [4B7EE6C0] 0x02 -> SUBNET UP
"""
CACHED = """\
Nov 21 15:15:21 528243 [6C1516C0] 0x02 -> osm_ucast_cache_process: Configuring switch tables using cached routing
Nov 21 15:15:21 530343 [6C1516C0] 0x02 -> SUBNET UP
"""
DROPPED = """\
Nov 21 15:15:20 611000 [6C1516C0] 0x01 -> parse_part_conf: PARSE ERROR: line 3: bad PortGUID
Nov 21 15:15:20 611033 [6C1516C0] 0x01 -> osm_prtn_make_partitions: Partition configuration in error; retrying with default config
"""
IBSTAT = """\
CA 'mlx5_0'
	Number of ports: 1
	Port 1:
		State: Active
		Port GUID: 0x021d6a2cd3704201
CA 'mlx5_1'
	Number of ports: 2
	Port 1:
		Port GUID: 0x21d6a2cd3704301
	Port 2:
		Port GUID: 0x21d6a2cd3704302
"""
RECORD = """\
SMInfoRecord dump:
		RID
		LID...................{lid}
		SMInfo dump:
		GUID..................0x{guid}
		SM_Key................0x0000000000000000
		ActCount..............478
		Priority..............{priority}
		SMState...............{state}
"""


def read(text: str, now: datetime = NOW) -> sm_log.Said:
    return sm_log.read(text, now, HOUR)


def test_a_log_tells_the_state_the_engine_and_that_the_subnet_is_up():
    said = read(START + TIMEOUT + MASTER + ROUTED + CACHED)
    assert (said.state, said.engine, said.up, said.errors, said.partitions) == ("MASTER", "ftree", True, {}, "")


def test_errors_from_before_it_became_master_are_over():
    assert read(START + TIMEOUT).errors == {"ERR 5411": 1, "ERR 3113": 1}
    assert read(START + TIMEOUT + MASTER + ROUTED).errors == {}
    said = read(START + MASTER + ROUTED + TIMEOUT + TIMEOUT)
    assert said.errors == {"ERR 5411": 2, "ERR 3113": 2}
    assert said.last == "ERR 3113: MAD completed in error (IB_TIMEOUT): SubnGet(NodeInfo)"


def test_what_hosts_ask_for_in_vain_is_no_error():
    line = "Nov 21 15:14:50 1 [1] 0x01 -> pr_rcv_get_path_parms: ERR 1F1B: Ports src and dst do not have any shared PKeys\n"
    assert read(START + MASTER + ROUTED + line).errors == {}


def test_a_poll_that_the_master_missed_while_it_was_restarted_is_no_error():
    assert read(START + POLL).errors == {}
    assert read(START + POLL + TIMEOUT + POLL).errors == {"ERR 5411": 1, "ERR 3113": 1}


@pytest.mark.parametrize(
    ("now", "count"), [(NOW, 2), (NOW + HOUR, 0), (datetime(2027, 1, 1), 0), (datetime(2026, 11, 21, 15, 14), 2)]
)
def test_old_errors_do_not_count(now: datetime, count: int):
    assert len(read(START + TIMEOUT, now).errors) == count


def test_the_year_that_the_log_does_not_have_is_found():
    line = START.replace("Nov 21", "Dec 31") + TIMEOUT.replace("Nov 21 15:14", "Dec 31 23:59")
    assert len(read(line, datetime(2027, 1, 1, 0, 5)).errors) == 2
    assert read(line.replace("23:59", "20:00"), datetime(2027, 1, 1, 0, 5)).errors == {}


def test_what_an_opensm_before_this_one_said_is_nothing():
    said = read(START + MASTER + ROUTED + TIMEOUT + START)
    assert (said.state, said.engine, said.up, said.errors) == ("STANDBY", "", False, {})


def test_partitions_that_are_dropped_are_told_of_until_the_next_sweep():
    assert read(START + MASTER + ROUTED + DROPPED + CACHED).partitions == "line 3: bad PortGUID"
    assert read(START + MASTER + ROUTED + DROPPED + CACHED + CACHED).partitions == ""
    assert read(START + MASTER + DROPPED + ROUTED).partitions == "line 3: bad PortGUID"
    assert read(DROPPED.split("\n")[1]).partitions == "it says not why"


def test_a_sweep_that_failed_is_no_subnet_that_is_up():
    assert not read(START + MASTER + ROUTED + "Nov 21 15:16:00 1 [1] 0x01 -> Errors during initialization\n").up
    assert read("") == sm_log.Said()


def test_a_log_is_read_line_by_line_and_little_of_it_is_kept():
    noise = b"Nov 21 15:14:41 1 [4B7EE6C0] 0x02 -> something that nobody looks for\n" * 8
    lines = ((START + MASTER + ROUTED).encode(), *(noise for _ in range(4_000)), TIMEOUT.encode())
    tracemalloc.start()
    said = sm_log.scan(iter(lines), NOW, HOUR)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert (said.state, said.engine, said.up, said.errors) == ("MASTER", "ftree", True, {"ERR 5411": 1, "ERR 3113": 1})


def test_the_state_that_a_subnet_manager_tells_of_itself():
    stated = IBSTAT.replace("State: Active", "State: Active\n\t\tBase lid: 7").replace(
        "Port 2:", "Port 2:\n\t\tBase lid: 65535"
    )
    assert sm_tools.lids(stated) == {ONE: 7}
    calls = []

    def run(*command: str) -> str:
        calls.append(" ".join(command))
        return stated if command[0] == "ibstat" else info(ONE, 7, 14, "standby")

    assert sm_tools.own_state(run, ONE) == "standby"
    assert calls == ["ibstat", "sminfo -C mlx5_0 -P 1 7"]
    assert sm_tools.own_state(run, "021d6a2cd3704302") == ""
    assert sm_tools.own_state(lambda *_: "", ONE) == ""


def test_the_ports_of_a_host():
    assert sm_tools.local_ports(IBSTAT) == {
        ONE: ("mlx5_0", "1"),
        "021d6a2cd3704301": ("mlx5_1", "1"),
        "021d6a2cd3704302": ("mlx5_1", "2"),
    }
    assert sm_tools.local_ports("no CA") == {}


def info(guid: str, lid: int, priority: int, state: str) -> str:
    number = sm_tools.STATES.index(state)
    short = f"{int(guid, 16):x}"
    return f"sminfo: sm lid {lid} sm guid 0x{short}, activity count 4 priority {priority} state {number} SMINFO_{state.upper()}\n"


class Tools:
    """Answers as a host's tools: what `sminfo` says by LID ("" is the master), and what the master's records are."""

    def __init__(self, answers: dict[str, str], records: str = "", held: str = "") -> None:
        self.answers, self.records, self.held = answers, records, held
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, *command: str) -> str:
        self.calls.append(command)
        assert command[1:5] == ("-C", "mlx5_0", "-P", "1")
        if command[0] == "sminfo":
            return self.answers.get("".join(command[5:]), "")
        return self.records if command[0] == "saquery" else self.held


def both(state: int = 1) -> str:
    return RECORD.format(lid=1, guid=ONE, priority=15, state=3) + RECORD.format(
        lid=10, guid=TWO, priority=14, state=state
    )


def test_each_manager_is_asked_itself_for_the_master_knows_old_states():
    tools = Tools({"": info(ONE, 1, 15, "master"), "10": info(TWO, 10, 14, "standby")}, both(1))
    found = sm_tools.managers(tools, ("mlx5_0", "1"))
    assert [(one.guid, one.priority, one.state) for one in found] == [(ONE, 15, "master"), (TWO, 14, "standby")]


def test_one_that_the_master_knows_and_that_does_not_answer_is_silent():
    tools = Tools({"": info(ONE, 1, 15, "master")}, both(2))
    assert [one.state for one in sm_tools.managers(tools, ("mlx5_0", "1"))] == ["master", "silent"]


def test_one_that_the_master_knows_to_be_gone_is_not_there():
    tools = Tools({"": info(ONE, 1, 15, "master")}, both(0))
    assert [one.guid for one in sm_tools.managers(tools, ("mlx5_0", "1"))] == [ONE]


def test_without_a_master_there_is_none_and_nobody_else_is_asked():
    tools = Tools({}, both())
    assert sm_tools.managers(tools, ("mlx5_0", "1")) == []
    assert len(tools.calls) == 1
    assert [one.guid for one in sm_tools.managers(Tools({"": info(ONE, 1, 15, "master")}), ("mlx5_0", "1"))] == [ONE]


def test_pkeys_are_read_and_what_does_not_answer_is_left_out():
    held = "   0: 0x7fff 0x8005 0x0000 0x0000\n64 pkeys capacity for this port\n"
    assert sm_tools.pkeys(Tools({}, held=held), ("mlx5_0", "1"), [ONE]) == {ONE: [0x7FFF, 0x8005]}
    assert sm_tools.pkeys(Tools({}), ("mlx5_0", "1"), [ONE]) == {}


WANTED = Wanted(
    plane="",
    name="pod",
    managers=[
        Manager("ctl1", "ctl1 mlx5_0", ONE, 15, "opensm-plane@fabric.service", "/var/log/opensm/fabric/opensm.log"),
        Manager("ctl2", "ctl2 mlx5_0", TWO, 14, "opensm-plane@fabric.service", "/var/log/opensm/fabric/opensm.log"),
    ],
    engine="ftree",
    pkeys={ONE: [0xFFFF], TWO: [0x7FFF, 0x8001]},
    names={ONE: "ctl1 mlx5_0", TWO: "ctl2 mlx5_0"},
)


def sm(guid: str, priority: int, state: str) -> dict[str, Any]:
    return {"guid": guid, "lid": 1, "priority": priority, "state": state}


def facts(state: str, **changed: Any) -> dict[str, Any]:
    log = {
        **asdict(sm_log.Said(state=state, engine="ftree" if state == "MASTER" else "", up=True)),
        **changed.pop("log", {}),
    }
    return {
        "plane": "",
        "unit": "active",
        "port": ["mlx5_0", "1"],
        "ports": [ONE],
        "managers": [sm(ONE, 15, "master"), sm(TWO, 14, "standby")],
        "log": log,
        "pkeys": {ONE: [0xFFFF], TWO: [0x8001, 0x7FFF]},
        **changed,
    }


def verdict(one: dict[str, Any] | None = None, two: dict[str, Any] | None = None, **both: Any) -> list[str]:
    """Return what is said when one or both hosts tell something else than what is planned."""
    told = {"ctl1": facts("MASTER", **{**both, **(one or {})}), "ctl2": facts("STANDBY", **{**both, **(two or {})})}
    return [f"{finding.severity} {finding}" for finding in judge(WANTED, told)]


def test_what_is_as_planned_is_no_finding():
    assert verdict() == []


CASES: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"one": {"unit": "failed"}, "managers": [sm(TWO, 14, "master")]},
        [
            "error ctl1, pod: expected opensm-plane@fabric.service active, found failed; `systemctl status",
            "error pod: expected ctl1 mlx5_0 with priority 15 as master, found ctl2 mlx5_0 (0x02d6019952577601) with priority 14; "
            "ctl1 mlx5_0 is no subnet manager now; bring opensm-plane@fabric.service on ctl1 up",
        ],
    ),
    (
        {"managers": [sm(ONE, 15, "standby"), sm(TWO, 14, "master")]},
        [
            "error pod: expected ctl1 mlx5_0 with priority 15 as master, found ctl2 mlx5_0 (0x02d6019952577601) with priority 14; "
            "ctl1 mlx5_0 is standby"
        ],
    ),
    (
        {"managers": [sm(ONE, 15, "standby"), sm(TWO, 14, "standby"), sm(THREE, 15, "master")]},
        [
            "error pod: expected ctl1 mlx5_0 with priority 15 as master, found 0x02aaaaaaaaaaaa01 (not in the plan) with priority 15",
            "OpenSM on another host",
        ],
    ),
    (
        {"managers": [sm(ONE, 15, "master"), sm(TWO, 14, "standby"), sm(THREE, 0, "standby")]},
        [
            "warning pod: 0x02aaaaaaaaaaaa01 (not in the plan) is a subnet manager (standby, priority 0) that is not planned"
        ],
    ),
    (
        {"managers": [sm(ONE, 15, "master"), sm(TWO, 14, "master")]},
        ["error pod: expected ctl1 mlx5_0 with priority 15 as master, found 2 masters: ctl1 mlx5_0"],
    ),
    (
        {"managers": [sm(ONE, 15, "standby"), sm(TWO, 14, "standby")]},
        ["error pod: expected ctl1 mlx5_0 with priority 15 as master, found no master; look again"],
    ),
    (
        {"managers": [sm(ONE, 15, "master"), sm(TWO, 14, "silent")]},
        ["error pod: expected ctl2 mlx5_0 as standby, found silent: when the master goes"],
    ),
    (
        {"managers": [sm(ONE, 15, "master")]},
        ["error pod: expected ctl2 mlx5_0 as standby, found no subnet manager there: when the master goes"],
    ),
    (
        {"managers": [sm(ONE, 13, "master"), sm(TWO, 14, "standby")]},
        ["error pod: expected priority 15 of ctl1 mlx5_0, found 13; run"],
    ),
    (
        {"managers": [sm(ONE, 15, "master"), sm(TWO, 3, "standby")]},
        ["error pod: expected priority 14 of ctl2 mlx5_0, found 3; run"],
    ),
    ({"managers": []}, ["error pod: no subnet manager answers"]),
    (
        {"two": {"managers": [sm(TWO, 14, "master")]}},
        ["error pod: the hosts see different masters: ctl1 sees ctl1 mlx5_0"],
    ),
    (
        {"one": {"port": [], "ports": [THREE], "managers": []}},
        [
            "error ctl1, pod: expected the port 0x021d6a2cd3704201 (ctl1 mlx5_0), found 0x02aaaaaaaaaaaa01; was the adapter replaced?"
        ],
    ),
    (
        {"one": {"log": {"engine": "minhop"}}},
        ["error ctl1, pod: expected the routing engine ftree, found minhop; run"],
    ),
    ({"two": {"log": {"state": ""}}}, ["error ctl2, pod: neither OpenSM nor its log tells its state; is the port up"]),
    ({"one": {"log": {"engine": ""}}}, ["error ctl1, pod: expected the routing engine ftree, found none; run"]),
    (
        {"one": {"log": {"up": False}}},
        ["error ctl1, pod: OpenSM does not say SUBNET UP after its last sweep; look into /var/log"],
    ),
    (
        {"one": {"log": {"partitions": "line 3: bad PortGUID"}}},
        ["error ctl1, pod: OpenSM drops partitions.conf", "line 3: bad PortGUID"],
    ),
    (
        {"two": {"log": {"errors": {"ERR 3113": 4}, "last": "ERR 3113: MAD"}}},
        [
            "error ctl2, pod: OpenSM reports errors: ERR 3113 4 times; the last: ERR 3113: MAD; look into /var/log/opensm/fabric"
        ],
    ),
    (
        {"pkeys": {ONE: [0xFFFF], TWO: [0xFFFF]}},
        [
            "error pod: P_Keys are not as planned on 1 of 2 ports that were asked: ctl2 mlx5_0 (0x02d6019952577601) holds 0xffff "
            "and not 0x7fff 0x8001"
        ],
    ),
    ({"pkeys": {ONE: [0xFFFF]}}, ["warning pod: of 1 ports no P_Keys could be read: ctl2 mlx5_0"]),
]


@pytest.mark.parametrize(("told", "said"), CASES, ids=lambda value: value[0][:60] if isinstance(value, list) else "")
def test_what_is_not_as_planned_is_told_once_with_what_to_do(told: dict[str, Any], said: list[str]):
    found = verdict(**told)
    for words in said:
        assert any(words in one for one in found), found
    assert len(found) == len([one for one in said if one.startswith(("error", "warning"))])


def test_a_host_that_was_not_reached_is_a_finding_and_the_others_are_judged():
    found = [
        str(one) for one in judge(WANTED, {"ctl1": None, "ctl2": facts("MASTER", managers=[sm(TWO, 14, "master")])})
    ]
    assert found[0].startswith("ctl1, pod: the host was not reached")
    assert any("found ctl2 mlx5_0" in one for one in found)
    assert len(judge(WANTED, {"ctl1": None, "ctl2": None})) == 2


def test_a_host_that_was_not_asked_is_not_judged_and_one_that_failed_says_why():
    assert judge(WANTED, {"ctl2": facts("STANDBY")}) == []
    (found,) = judge(WANTED, {"ctl1": None, "ctl2": facts("STANDBY")}, {"ctl1": "sminfo not installed"})
    assert str(found).startswith("ctl1, pod: its subnet manager could not be asked: sminfo not installed")
