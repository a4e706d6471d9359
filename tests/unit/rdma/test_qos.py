"""What mlnx_qos and dcb print is read, from recorded texts, and what brings a port to what is wanted."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import qos

WANTED = qos.QosSettings(dscp=26, priority=3, cnp_dscp=48, cnp_priority=6)
# Published with a ConnectX-4 at work: att/netarbiter, nvmf/OUTPUTSAMPLE.setup-nic-lossless-layer3.sh.md.
RECORDED = """\
DCBX mode: OS controlled
Priority trust state: dscp
dscp2prio mapping:
        prio:0 dscp:07,06,05,04,03,02,01,00,
        prio:1 dscp:15,14,13,12,11,10,09,08,
        prio:2 dscp:23,22,21,20,19,18,17,16,
        prio:3 dscp:31,30,29,28,27,26,25,24,
        prio:4 dscp:39,38,37,36,35,34,33,32,
        prio:5 dscp:47,46,45,44,43,42,41,40,
        prio:6 dscp:55,54,53,52,51,50,49,48,
        prio:7 dscp:63,62,61,60,59,58,57,56,
Cable len: 7
PFC configuration:
        priority    0   1   2   3   4   5   6   7
        enabled     0   0   0   1   0   0   0   0   \n\
tc: 0 ratelimit: unlimited, tsa: vendor
         priority:  1
"""
# The shape of a port as it comes, after the same tool's source: no mapping is printed, and the firmware has the say.
FACTORY = """\
****** WARNING: lldpad service is running and may overwrite your settings ******

DCBX mode: Firmware controlled
Priority trust state: pcp
Receive buffer size (bytes): 20016,156096,0,0,0,0,0,0,max_buffer_size=1027728
Cable len: 7
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     0   0   0   0   0   0   0   0   \n\
\tbuffer      0   0   0   0   0   0   0   0   \n\
tc: 1 ratelimit: unlimited, tsa: vendor
\t priority:  0
"""
# dcb-pfc(8) and the patch that brought the tool: netdev, "dcb: Add a subtool for the DCB PFC object".
PFC = "prio-pfc 0:off 1:on 2:off 3:off 4:off 5:off 6:off 7:on \n"


def test_a_recorded_port_is_as_wanted() -> None:
    there = qos.parse_mlnx_qos(RECORDED)
    assert (there.trust, there.firmware, there.mapping[26], there.mapping[48], len(there.mapping)) == (
        "dscp",
        False,
        3,
        6,
        64,
    )
    assert list(qos.differences(WANTED, there)) == []
    assert list(qos.commands("mlnx_qos", "eth4", WANTED, there)) == []


def test_a_port_as_it_comes_differs_in_trust_and_pfc() -> None:
    there = qos.parse_mlnx_qos(FACTORY)
    assert [what for what, _want, _found in qos.differences(WANTED, there)] == ["trust", "PFC of priorities 0 to 7"]
    assert list(qos.commands("mlnx_qos", "eth4", WANTED, there)) == [
        ["mlnx_qos", "-i", "eth4", "--dcbx=os"],
        ["mlnx_qos", "-i", "eth4", "--trust=dscp"],
        ["mlnx_qos", "-i", "eth4", "--pfc=0,0,0,1,0,0,0,0"],
    ]


def test_another_dscp_than_its_eighth_says_is_mapped() -> None:
    wanted = qos.QosSettings(dscp=10, priority=3, cnp_dscp=48, cnp_priority=6)
    last = list(qos.commands("mlnx_qos", "eth4", wanted, qos.parse_mlnx_qos(FACTORY)))[2]
    assert last == ["mlnx_qos", "-i", "eth4", "--dscp2prio=set,10,3"]


@pytest.mark.parametrize(
    ("text", "mapping"),
    [("", {}), ("dscp-prio 0:0 26:3 48:6 \n", {0: 0, 26: 3, 48: 6}), ("dscp-prio 26:3 26:4 \n", {26: 4})],
)
def test_dcb_is_read_and_trusts_dscp_from_the_first_entry_on(text: str, mapping: dict[int, int]) -> None:
    there = qos.parse_dcb(text, PFC)
    assert there.pfc == (False, True, False, False, False, False, False, True)
    assert (there.mapping, there.trust) == (mapping, "dscp" if mapping else "pcp")


@pytest.mark.parametrize(
    "text", ["", "Priority trust state: dscp\n", "ETS features are not supported on your system\n", RECORDED[:500]]
)
def test_an_answer_without_what_is_asked_is_none(text: str) -> None:
    with pytest.raises(qos.QosError, match="mlnx_qos prints no"):
        qos.parse_mlnx_qos(text)
    with pytest.raises(qos.QosError, match="dcb prints no"):
        qos.parse_dcb("", text)


def test_a_port_without_priorities_is_told_in_the_tools_words() -> None:
    def run(_command: object) -> Outcome:
        return Outcome(1, "", "Attribute read: Operation not supported\n")

    said = list(qos.apply("dcb", "eth4", WANTED, run))
    assert said == ["eth4: dcb -N app show dev eth4 dscp-prio: Attribute read: Operation not supported"]
