"""The oracle for OpenSM's files sees each mistake that OpenSM takes without a word."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.opensm_files import files
from tests.kit.fabric_files import OF_LISTS, OF_PARTITIONS, OF_ROOTS, problems
from tests.unit.fabric.plan.test_checks import rails


def lines(text: str, change: Callable[[list[str]], list[str]]) -> str:
    return "\n".join(change(text.rstrip("\n").split("\n"))) + "\n"


def host_major(rows: list[str]) -> list[str]:
    return rows[:1] + sorted(rows[1:], key=lambda row: row.split("# ")[1])


def node_guid(rows: list[str], plan: Plan) -> list[str]:
    return [*rows[:-1], f"0x{plan.hcas[rows[-1].split('# ')[1]].guid}"]


PLAN = rails()
FILES = files(PLAN, PLAN.managers[0])
LEAF, SPINE, OSS = (
    PLAN.switches["leaf-u0-r0"].guid,
    PLAN.switches["s1"].guid,
    PLAN.hcas["oss-leaf-u0-r0 mlx5_0"].port_guid,
)
# What is wrong with a file: rule, file, change, place, part of the text.
WRONG: dict[str, tuple[str, str, Callable[[str], str], str, str]] = {
    "root dropped": (OF_ROOTS, "root_guid.conf", lambda t: lines(t, lambda rows: rows[:-1]),
        "root_guid.conf", "1 of 2 switches of the top tier are not in it: rack net, s2; no way goes through them"),
    "roots of the wrong tier": (OF_ROOTS, "root_guid.conf", lambda t: t + f"0x{LEAF}\n", "root_guid.conf line 4",
        "rack r0, leaf-u0-r0, which is not of the top tier"),
    "unknown root": (OF_ROOTS, "root_guid.conf", lambda t: t + "0x1234\n", "root_guid.conf line 4",
        "is nothing in the plan"),
    "roots without 0x": (OF_ROOTS, "root_guid.conf", lambda t: t.replace("0x", ""), "root_guid.conf line 2",
        "is no GUID; allowed: 0x and"),
    "host by host": (OF_LISTS, "guid_routing_order.conf", lambda t: lines(t, host_major),
        "guid_routing_order.conf line 4", "comes back to leaf-u0-r0, so the order is not leaf by leaf"),
    "HCA not in the order": (OF_LISTS, "guid_routing_order.conf", lambda t: lines(t, lambda rows: rows[:-1]),
        "guid_routing_order.conf", "1 of 20 HCAs are not in it: rack r0, oss-leaf-u1-r1 mlx5_0"),
    "node GUID in cn": (OF_LISTS, "cn_guid.conf", lambda t: lines(t, lambda rows: node_guid(rows, PLAN)),
        "cn_guid.conf line 17", "is rack r3, gpu7 mlx5_1, its node GUID; the port GUID is to be here"),
    "storage in cn": (OF_LISTS, "cn_guid.conf", lambda t: t + f"0x{OSS}\n",
        "cn_guid.conf line 18",
        "is rack r0, oss-leaf-u0-r0 mlx5_0, which does not belong to compute HCAs of this plane"),
    "switch in cn": (OF_LISTS, "cn_guid.conf", lambda t: t + f"0x{SPINE}\n", "cn_guid.conf line 18",
        "is rack net, s1, a switch"),
    "unknown GUID in cn": (OF_LISTS, "cn_guid.conf", lambda t: t + "0x99\n", "cn_guid.conf line 18",
        "0x0000000000000099 is nothing in the plan"),
    "GUID twice": (OF_LISTS, "cn_guid.conf", lambda t: t + t.split("\n")[1], "cn_guid.conf line 18",
        "is in line 2 already"),
    "partition misread": (OF_PARTITIONS, "partitions.conf", lambda t: t.replace("=limited", "=limite"),
        "partitions.conf line 3", "OpenSM takes it for limited"),
    "partition of others": (OF_PARTITIONS, "partitions.conf", lambda t: t.replace("=0x0001", "=0x0003"),
        "rack r0, gpu0 mlx5_0", "gives it the P_Keys 0x8003 0xffff, and the plan has 0x8001 0xffff"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_seen_and_no_other(name: str):
    rule, file, change, where, text = WRONG[name]
    assert problems(PLAN, FILES) == []
    found = problems(PLAN, {**FILES, file: change(FILES[file])})
    assert {one.rule for one in found} == {rule}, found
    assert any(one.where == where and text in one.text for one in found), found
