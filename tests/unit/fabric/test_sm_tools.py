"""What ibstat, sminfo, saquery and smpquery say of subnet managers and P_Keys."""

from __future__ import annotations

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import sm_tools

ONE, TWO, THREE = "021d6a2cd3704201", "02d6019952577601", "02aaaaaaaaaaaa01"


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
