"""Routes and rules of rails in a real kernel: a node with two rails, and a router behind both, each in a network of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import rail_routes
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma.rdma_devices import NicSettings

_COLLECTIONS = Path(__file__).parents[3] / "collections"
# The router answers datagrams on every address, from the address to which they were sent.
_ROUTER = """
import socket, subprocess, sys
sys.stdin.readline()
def ip(text):
    subprocess.run(["ip", *text.split()], check=True)
ip("link set lo up")
for number in (0, 1):
    ip(f"addr add 10.9.{number}.1/24 dev port{number}")
    ip(f"addr add 10.9.{number}.12/24 dev port{number}")  # another node of the rail
    ip(f"link set port{number} up")
ip("addr add 10.48.0.1/16 dev lo")
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", 4791))
server.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO
print("ready", flush=True)
while True:
    data, ancillary, _flags, peer = server.recvmsg(100, 100)
    info = ancillary[0][2]
    answer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    answer.bind((socket.inet_ntoa(info[8:12]), 0))
    answer.sendto(socket.if_indextoname(int.from_bytes(info[:4], sys.byteorder)).encode(), peer)
"""
_NODE = """
import json, socket, subprocess, sys
from pathlib import Path
from ansible_collections.bedplate.cluster.plugins.module_utils.common import command as programs
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import rail_interfaces, rdma_devices

root = Root(sys.argv[1])
ROUTER = "import sys; sys.argv = ['router']\\n" + sys.argv[2]
def ip(text):
    subprocess.run(["ip", *text.split()], check=True)
ip("link set lo up")
for number in (0, 1):
    ip(f"link add rail{number} type veth peer name port{number}")
router = subprocess.Popen(
    ["unshare", "--net", sys.executable, "-c", ROUTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
while Path(f"/proc/{router.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
    pass
for number in (0, 1):
    ip(f"link set port{number} netns {router.pid}")
router.stdin.write("go\\n"); router.stdin.flush()
router.stdout.readline()

calls = []
def run(command):
    calls.append(" ".join(command))
    return programs.run_quick(command)
def nic(number, **more):
    settings = {"address": f"10.9.{number}.11/24", "rail": True, "shared": False, "gateway": f"10.9.{number}.1",
                "table": 4200 + number, "routes": (f"10.9.{1 - number}.0/24", "10.48.0.0/16")}
    return rdma_devices.NicSettings(f"mlx5_{number}", **{**settings, **more})
def reach(source, target):
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.settimeout(5)
    client.bind((source, 0))
    try:
        client.sendto(b"x", (target, 4791))
        return client.recv(100).decode()
    except OSError as error:
        return error.strerror or str(error)
WAYS = [("10.9.0.11", "10.48.0.1"), ("10.9.1.11", "10.48.0.1"), ("10.9.0.11", "10.9.1.12"), ("10.9.1.11", "10.9.0.12"),
        ("10.9.1.11", "10.9.1.12")]
def step(nics, ways=WAYS):
    there = rdma_devices.read_devices(root)
    before = [[row.kind, row.where, row.expected, row.found] for row in rail_interfaces.drift(root, there, nics, run)]
    calls.clear()
    failed = list(rail_interfaces.configure(root, there, nics, "10.0.0.1", run))
    done = [call for call in calls if "show" not in call]
    after = [[row.kind, row.where, row.expected, row.found] for row in rail_interfaces.drift(root, there, nics, run)]
    print(json.dumps({"before": before, "failed": failed, "done": done, "after": after, "ways": [reach(*way) for way in ways]}))
both = [nic(0), nic(1)]
step([nic(one, gateway="", table=0, routes=()) for one in (0, 1)])
step(both)
step(both)
# Somebody changes and removes what is bedplate's, and puts a rule before it.
ip("route replace 10.48.0.0/16 via 10.9.0.99 dev rail0 src 10.9.0.11 table 4200 proto 142")
ip("route del 10.9.1.0/24 table 4200")
ip("rule del from 10.9.1.11 table 4201")
step(both)
ip("rule add from 10.9.0.11 table 4201 priority 100")
step(both, ())
ip("rule del from 10.9.0.11 table 4201 priority 100")
# The way of others stays when the cluster file has no gateway any more.
ip("rule add from 10.9.0.11 table 77 priority 77")
ip("route add 10.50.0.0/16 via 10.9.0.1 dev rail0 table 77")
step([nic(0, routes=("10.48.0.0/16",)), nic(1, gateway="", table=0, routes=())], ())
step([nic(one, gateway="", table=0, routes=()) for one in (0, 1)], ())
rules = json.loads(programs.run_quick(["ip", "-N", "-j", "rule"]).stdout)
tables = json.loads(programs.run_quick(["ip", "-N", "-j", "route", "show", "table", "all"]).stdout)
tables = {row.get("table", "254") for row in tables} - {"255"}
print(json.dumps({"rules": [row["table"] for row in rules], "tables": sorted(tables)}))
router.kill()
"""


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    top = tmp_path_factory.mktemp("node")
    for number in (0, 1):
        for path, text in (("node_guid", f"0:0:0:{number}"), (f"device/net/rail{number}/mtu", "")):
            file = top / f"sys/class/infiniband/mlx5_{number}" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    done = subprocess.run(
        ["unshare", "--map-root-user", "--net", sys.executable, "-c", _NODE, str(top), _ROUTER],
        env={"PYTHONPATH": str(_COLLECTIONS), "PATH": os.defpath + ":/usr/sbin:/sbin"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_without_a_gateway_a_rail_reaches_its_own_network_only(steps: list[dict[str, Any]]) -> None:
    assert steps[0]["failed"] == []
    nowhere = "Network is unreachable"
    assert steps[0]["ways"][:2] == [nowhere, nowhere]
    assert steps[0]["ways"][4] == "port1"


def test_every_rail_sends_through_its_own_gateway(steps: list[dict[str, Any]]) -> None:
    assert (steps[1]["failed"], steps[1]["after"]) == ([], [])
    assert steps[1]["ways"] == ["port0", "port1", "port0", "port1", "port1"]


def test_a_second_run_changes_nothing(steps: list[dict[str, Any]]) -> None:
    assert (steps[2]["before"], steps[2]["done"]) == ([], [])


def test_a_changed_route_and_a_removed_rule_are_named_and_mended(steps: list[dict[str, Any]]) -> None:
    assert steps[3]["before"] == [
        ["route", "route to 10.9.1.0/24 in table 4200 of mlx5_0 (rail0)", "via 10.9.0.1 dev rail0", "none"],
        ["route", "route to 10.48.0.0/16 in table 4200 of mlx5_0 (rail0)", "via 10.9.0.1 dev rail0", "via 10.9.0.99 dev rail0"],
        ["rule", "rule of table 4201 of mlx5_1 (rail1)", "from 10.9.1.11", "none"],
    ]  # fmt: skip
    assert len(steps[3]["done"]) == 3
    assert (steps[3]["failed"], steps[3]["after"]) == ([], [])
    assert steps[3]["ways"] == steps[1]["ways"]


def test_a_rule_of_somebody_else_in_front_is_named_by_the_way_that_is_used(steps: list[dict[str, Any]]) -> None:
    (row,) = steps[4]["after"]
    assert row == [
        "route-used", "way from 10.9.0.11 to 10.9.1.1 of mlx5_0 (rail0)", "via 10.9.0.1 dev rail0", "dev rail1",
    ]  # fmt: skip


def test_what_the_cluster_file_no_longer_has_is_removed_and_other_rules_stay(steps: list[dict[str, Any]]) -> None:
    assert sorted(steps[5]["done"]) == [
        "ip route del 10.48.0.0/16 table 4201 proto 142",
        "ip route del 10.9.0.0/24 table 4201 proto 142",
        "ip route del 10.9.1.0/24 table 4200 proto 142",
        "ip route del 10.9.1.0/24 table 4201 proto 142",
        "ip rule del from 10.9.1.11 table 4201 priority 4201 protocol 142",
    ]
    assert [row[:2] for row in steps[5]["before"]] == [["rule", "rule of table 4201"]]
    assert (steps[6]["failed"], steps[6]["after"]) == ([], [])
    assert steps[7] == {"rules": ["255", "77", "254", "253"], "tables": ["254", "77"]}


def test_a_machine_whose_rules_cannot_be_read_is_a_failure_of_routed_rails_only() -> None:
    def run(command: object) -> Outcome:
        return Outcome(1, "", "Option -N is unknown\n")

    routed = NicSettings("mlx5_0", address="10.9.0.11/24", gateway="10.9.0.1", table=4200, routes=("10.9.1.0/24",))
    (failed,) = rail_routes.configure({routed: "ens1"}, run)
    assert "Option -N is unknown" in failed
    assert [row.kind for row in rail_routes.drift({routed: "ens1"}, run)] == ["route"]
    assert list(rail_routes.configure({NicSettings("mlx5_0"): "ens1"}, run)) == []


@pytest.mark.parametrize("table", [4200, 4300], ids=["first-run", "other-table-before"])
def test_no_rule_selects_a_table_that_lacks_a_route(table: int) -> None:
    nic = NicSettings("mlx5_0", address="10.9.0.11/24", gateway="10.9.0.1", table=4200, routes=("10.48.0.0/16",))
    old = NicSettings("mlx5_0", address="10.9.0.12/24", gateway="10.9.0.1", table=table, routes=("10.48.0.0/16",))
    rules, routes = set(), set()
    if table != nic.table:
        rules.add(str(table))
        routes.update((str(table), route.destination) for route in rail_routes.routes_of(old, "rail0"))

    def run(command: Sequence[str]) -> Outcome:
        kind, verb, *words = [word for word in command[1:] if not word.startswith("-")]
        if verb == "show":
            rows = [
                *(
                    {"priority": int(one), "src": "10.9.0.12", "table": one, "protocol": "142"}
                    for one in rules
                    if kind == "rule"
                ),
                *({"table": one, "dst": target, "dev": "rail0"} for one, target in routes if kind == "route"),
            ]
            return Outcome(0, json.dumps(rows), "")
        changed = words[words.index("table") + 1]
        there, row = (rules, changed) if kind == "rule" else (routes, (changed, words[0]))
        (there.discard if verb == "del" else there.add)(row)
        assert all(len([one for one in routes if one[0] == selected]) == 2 for selected in rules), command
        return Outcome(0, "", "")

    assert list(rail_routes.configure({nic: "rail0"}, run)) == []
    assert (rules, sorted(routes)) == ({"4200"}, [("4200", "10.48.0.0/16"), ("4200", "10.9.0.0/24")])


def test_the_way_to_a_single_address_is_looked_up_for_that_address() -> None:
    nic = NicSettings("mlx5_0", address="10.9.0.11/24", gateway="10.9.0.1", table=4200, routes=("10.48.0.5/32",))
    looked_up = []

    def run(command: Sequence[str]) -> Outcome:
        rule = {"priority": 4200, "src": "10.9.0.11", "table": "4200", "protocol": rail_routes.PROTOCOL}
        routes = [
            {"table": 4200, "dst": "10.9.0.0/24", "dev": "rail0", "prefsrc": "10.9.0.11"},
            {"table": 4200, "dst": "10.48.0.5", "gateway": "10.9.0.1", "dev": "rail0", "prefsrc": "10.9.0.11"},
        ]
        if "get" not in command:
            return Outcome(0, json.dumps([rule] if "rule" in command else routes), "")
        looked_up.append(command[command.index("get") + 1])
        return Outcome(0, json.dumps([{"gateway": "10.9.0.1", "dev": "rail0"}]), "")

    assert list(rail_routes.drift({nic: "rail0"}, run)) == []
    assert looked_up == ["10.48.0.5"]
