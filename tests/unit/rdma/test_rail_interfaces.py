"""Addresses and MTU with the real ip, in a network of the test's own, whose only interface is lo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_COLLECTIONS = Path(__file__).parents[3] / "collections"
_PROGRAM = """
import json, sys
from ansible_collections.bedplate.cluster.plugins.module_utils.common import command as programs
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import rail_interfaces, rdma_devices

root, calls = Root(sys.argv[1]), []
def run(command):
    calls.append(" ".join(command))
    return programs.run_quick(command)
def step(address, mtu, name="mlx5_0"):
    nics = [rdma_devices.NicSettings(name, address=address, mtu=mtu, rail=True)]
    before = [row.where for row in rail_interfaces.drift(root, rdma_devices.read_devices(root), nics, run)]
    calls.clear()
    failed = list(rail_interfaces.configure(root, rdma_devices.read_devices(root), nics, "10.0.0.1", run))
    done = [call for call in calls if "show" not in call]
    return [before, failed, done, [row.where for row in rail_interfaces.drift(root, rdma_devices.read_devices(root), nics, run)]]
found = [step("10.9.0.1/24", 9000), step("10.9.0.1/24", 9000), step("10.9.1.1/16", 9000)]
run(["ip", "addr", "add", "10.0.0.1/24", "dev", "lo"])
print(json.dumps([*found, step("10.9.2.1/24", 1500), rail_interfaces.read_link("lo", run).addresses]))
try:
    rail_interfaces.read_link("nope", run)
except rail_interfaces.LinkError as error:
    print(json.dumps(str(error)))
"""


def test_addresses_are_brought_once_follow_the_file_and_leave_management_alone(tmp_path: Path) -> None:
    for path, text in (("node_guid", "0:0:0:1"), ("device/net/lo/mtu", "")):
        file = tmp_path / "sys/class/infiniband/mlx5_0" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    done = subprocess.run(
        ["unshare", "--map-root-user", "--net", sys.executable, "-c", _PROGRAM, str(tmp_path)],
        env={"PYTHONPATH": str(_COLLECTIONS), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    steps, missing = (json.loads(line) for line in done.stdout.splitlines())
    address, mtu, state = "address of mlx5_0 (lo)", "MTU of mlx5_0 (lo)", "interface of mlx5_0 (lo)"
    assert steps[0] == [
        [address, mtu, state], [],
        ["ip link set dev lo mtu 9000", "ip addr add 10.9.0.1/24 dev lo", "ip link set dev lo up"], [],
    ]  # fmt: skip
    assert steps[1] == [[], [], [], []]
    assert steps[2] == [[address], [], ["ip addr del 10.9.0.1/24 dev lo", "ip addr add 10.9.1.1/16 dev lo"], []]
    before, (left,), changes, after = steps[3]
    assert (before, changes, after) == ([address, mtu], [], [address, mtu])
    assert [value for value in ("mlx5_0: ", " lo ", "10.0.0.1", "`management`") if value not in left] == []
    assert [one for one in steps[4] if not one.startswith("127.")] == ["10.9.1.1/16", "10.0.0.1/24"]
    assert missing.startswith("interface nope: ")
    assert missing.count("nope") == 2
