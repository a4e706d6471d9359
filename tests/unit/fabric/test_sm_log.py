"""OpenSM's log: state, engine, partitions, and errors that count."""

from __future__ import annotations

import tracemalloc
from datetime import datetime, timedelta

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import sm_log

NOW = datetime(2026, 11, 21, 15, 20, 0)


HOUR = timedelta(hours=1)


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

# Of an OpenSM of higher priority whose master did not take its trap: first lines as its source prints them, and the last as it was logged.
TRAP = """\
Nov 21 15:14:36 978306 [4A7EC6C0] 0x01 -> log_send_error: ERR 5410: Send completed with error (IB_TIMEOUT) -- dropping
\t\t\tClass 0x1, Method 0x5, Attr 0x2, TID 0x136a, LID 2
Nov 21 15:14:36 978335 [4A7EC6C0] 0x01 -> sm_mad_ctrl_send_err_cb: ERR 3113: MAD completed in error (IB_TIMEOUT): SubnTrap(Notice), \
attr_mod 0x0, TID 0x136a
"""

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


def read(text: str, now: datetime = NOW) -> sm_log.LogSummary:
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
    assert read(START + TRAP).errors == {}
    # A trap that could not be sent at all.
    assert read(START + TRAP.replace("IB_TIMEOUT", "IB_ERROR")).errors == {"ERR 5410": 1, "ERR 3113": 1}
    # A client's answer that was lost, of the same number.
    assert read(START + TRAP.replace("Attr 0x2,", "Attr 0x35,")).errors == {"ERR 5410": 1}


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
    assert read(DROPPED.split("\n")[1]).partitions == "no reason logged"


def test_a_sweep_that_failed_is_no_subnet_that_is_up():
    assert not read(START + MASTER + ROUTED + "Nov 21 15:16:00 1 [1] 0x01 -> Errors during initialization\n").up
    assert read("") == sm_log.LogSummary()


def test_a_log_is_read_line_by_line_and_little_of_it_is_kept():
    noise = b"Nov 21 15:14:41 1 [4B7EE6C0] 0x02 -> something that nobody looks for\n" * 8
    lines = ((START + MASTER + ROUTED).encode(), *(noise for _ in range(4_000)), TIMEOUT.encode())
    tracemalloc.start()
    said = sm_log.scan(iter(lines), NOW, HOUR)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert (said.state, said.engine, said.up, said.errors) == ("MASTER", "ftree", True, {"ERR 5411": 1, "ERR 3113": 1})
