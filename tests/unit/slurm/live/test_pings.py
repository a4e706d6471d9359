# SPDX-License-Identifier: GPL-3.0-or-later
"""`scontrol ping` as Slurm 22.05 to 26.05 print it, and the heartbeat file."""

from __future__ import annotations

import getpass
import struct
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.pings import (
    Heartbeat,
    Ping,
    parse_heartbeat,
    parse_pings,
    read_heartbeat,
    shown,
)

# scontrol.c, _print_ping: the advertisement is for root alone.
DOWN = """\
Slurmctld(primary) at ctl1 is DOWN
Slurmctld(backup) at ctl2 is UP
*****************************************
** RESTORE SLURMCTLD DAEMON TO SERVICE **
*****************************************
"""
THREE = """\
Slurmctld(primary) at ctl-1 is UP
Slurmctld(backup1) at ctl-2.cluster is DOWN
Slurmctld(backup2) at ctl-3 is UP
"""


def test_a_standby_beside_a_primary_that_is_down():
    assert parse_pings(DOWN) == (Ping("ctl1", up=False, is_primary=True), Ping("ctl2", up=True))


def test_three_controllers_are_in_their_order():
    assert [(one.host, one.up) for one in parse_pings(THREE)] == [
        ("ctl-1", True),
        ("ctl-2.cluster", False),
        ("ctl-3", True),
    ]


def test_the_end_of_the_configuration_has_the_same_lines():
    assert parse_pings(f"SLURM_VERSION = 24.11.5\nSlurmctldHost[0] = ctl1(10.0.0.1)\n\n{DOWN}") == parse_pings(DOWN)


@pytest.mark.parametrize(
    "text",
    ["", "scontrol: error: resolve_ctls_from_dns_srv: no servers\n", "Slurmctld(primary) at ctl1 is", "x is UP\n"],
)
def test_other_text_names_no_controller(text: str):
    assert parse_pings(text) == ()


def test_pings_for_an_operator():
    assert shown(parse_pings(DOWN)) == "ctl1 is DOWN, ctl2 is UP"
    assert shown(()) == "no controller"


def test_the_heartbeat_has_the_time_and_the_index_of_its_writer(tmp_path: Path):
    content = struct.pack(">QQ", 1_790_000_000, 1)
    assert parse_heartbeat(content) == Heartbeat(1_790_000_000, 1)
    (tmp_path / "heartbeat").write_bytes(content)
    assert read_heartbeat(tmp_path, getpass.getuser()) == Heartbeat(1_790_000_000, 1)


@pytest.mark.parametrize("content", [b"", b"\0" * 8, b"\0" * 15])
def test_half_a_heartbeat_is_none(content: bytes):
    assert parse_heartbeat(content) is None


def test_a_missing_heartbeat_is_none(tmp_path: Path):
    assert read_heartbeat(tmp_path, getpass.getuser()) is None
