"""The hardware of nodes in force against the wanted lines: what differs, and the lines that stay for jobs."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.conf_reader import parse
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs import hardware_in_use
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.slurmctld_report import parse_live

NODES = (
    "NodeName=n[1-2] NodeAddr=10.0.0.[1-2] Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=960 "
    "Gres=gpu:sim:2 Feature=sim State=UNKNOWN"
)
GRES = "NodeName=n[1-2] Name=gpu Type=sim File=/dev/nvidia[0-1]"
MATCH = "HASH_VAL = Match\n"
LIVE = "".join(
    f"NodeName=n{number} CoresPerSocket=2 Gres=gpu:sim:2(S:0) NodeAddr=10.0.0.{number} NodeHostName=n{number} RealMemory=960 Sockets=1 "
    "State=IDLE ThreadsPerCore=1\n"
    for number in (1, 2)
)


def plan(
    old: str = NODES, new: str = NODES, gres: str = GRES, new_gres: str = GRES, config: str = MATCH, nodes: str = LIVE
):
    live = parse_live(config, nodes, "", "")
    return hardware_in_use.compare(parse(old), parse(gres), live, parse(new), parse(new_gres))


def texts(*args: str, **keys: str) -> dict[str, tuple[str, ...]]:
    return {name: change.texts for name, change in plan(*args, **keys).changes.items()}


# what an edit makes of the lines -> what changes on both nodes
EDITS = {
    "nothing": ("Feature=sim", "Feature=sim", ()),
    "cores": ("CoresPerSocket=2", "CoresPerSocket=4", ("CoresPerSocket 2 -> 4",)),
    "sockets": ("Sockets=1", "Sockets=2", ("Sockets 1 -> 2",)),
    "threads": ("ThreadsPerCore=1", "ThreadsPerCore=2", ("ThreadsPerCore 1 -> 2",)),
    "memory": ("RealMemory=960", "RealMemory=900", ("RealMemory 960 -> 900",)),
    "type": ("gpu:sim:2", "gpu:h100:2", ("Gres gpu:sim:2 -> gpu:h100:2",)),
    "count": ("gpu:sim:2", "gpu:sim:4", ("Gres gpu:sim:2 -> gpu:sim:4",)),
    "no GPUs any more": (" Gres=gpu:sim:2", "", ("Gres gpu:sim:2 -> none",)),
    "instances": ("gpu:sim:2", "gpu:sim:1,gpu:1g.10gb:7", ("Gres gpu:sim:2 -> gpu:1g.10gb:7,gpu:sim:1",)),
    "cores of the system": (" RealMemory", " CPUSpecList=0 RealMemory", ("CPUSpecList none -> 0",)),
    "a name": (" NodeAddr", " NodeHostname=m[1-2] NodeAddr", ("NodeHostname n1 -> m1",)),
    "features": ("Feature=sim", "Feature=big,rack_r1", ()),
    "a drained state": ("State=UNKNOWN", "State=DRAIN Reason=fan", ()),
    "a state that ends jobs": ("State=UNKNOWN", "State=DOWN Reason=fan", ("State UNKNOWN -> DOWN",)),
    "future": ("State=UNKNOWN", "State=FUTURE", ("State UNKNOWN -> FUTURE",)),
    "a weight": ("State=", "Weight=7 State=", ()),
    "defaults written out": (" State=", " Port=6818 State=", ()),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "changes"), EDITS.values(), ids=EDITS)
def test_what_an_edit_changes(old: str, new: str, changes: tuple[str, ...]):
    assert old in NODES
    found = texts(new=NODES.replace(old, new))
    assert found.get("n1", ()) == changes
    assert (set(found) == {"n1", "n2"}) is bool(changes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            GRES,
            "NodeName=n[1-2] Name=gpu Type=sim File=/dev/nvidia0\nNodeName=n[1-2] Name=gpu Type=sim File=/dev/nvidia1",
        ),
        (f"{GRES} Cores=0-1", f"{GRES} Cores=0,1"),
        (f"{GRES} Count=2", GRES),
        (GRES, GRES.replace("NodeName=n[1-2]", "NodeName=n1") + "\n" + GRES.replace("NodeName=n[1-2]", "NodeName=n2")),
        ("Name=gpu Type=sim File=/dev/nvidia[0-1]", GRES),
        ("name=gpu TYPE=sim file=/dev/nvidia[0-1]", GRES),
        (f"{GRES}\nNodeName=n[1-2] Name=shard Count=4", f"NodeName=n[1-2] Name=shard Count=4\n{GRES}"),
    ],
)
def test_lines_of_gres_conf_that_say_the_same(old: str, new: str):
    assert texts(gres=old, new_gres=new) == {}


@pytest.mark.parametrize(
    ("new", "change"),
    [
        (f"{GRES} Cores=0", "gres.conf gpu:sim /dev/nvidia[0-1] -> gpu:sim /dev/nvidia[0-1] Cores=0"),
        (GRES.replace("nvidia[0-1]", "nvidia[0-3]"), "gres.conf gpu:sim /dev/nvidia[0-1] -> gpu:sim /dev/nvidia[0-3]"),
        (
            GRES.replace("nvidia[0-1]", "nvidia[1,0]"),
            "gres.conf gpu:sim /dev/nvidia[0-1] -> gpu:sim /dev/nvidia1,/dev/nvidia0",
        ),
        ("NodeName=n[1-2] AutoDetect=nvml", "gres.conf gpu:sim /dev/nvidia[0-1] -> AutoDetect=nvml"),
        ("", "gres.conf gpu:sim /dev/nvidia[0-1] -> none"),
    ],
)
def test_lines_of_gres_conf_that_say_something_else(new: str, change: str):
    found = texts(new_gres=new)
    assert set(found) == {"n1", "n2"}
    assert found["n1"] == (change,)


@pytest.mark.parametrize(
    "old",
    [
        "NodeName=n[1-2] NodeAddr=10.0.0.[1-2] CPUs=2 CoresPerSocket=2 RealMemory=960 gres=gpu:sim:2 Features=sim",
        "NodeName=n[1-2] NodeAddr=10.0.0.[1-2] Boards=1 SocketsPerBoard=1 CoresPerSocket=2 RealMemory=960 Gres=gpu:sim:2",
        "NodeName=DEFAULT Sockets=1 CoresPerSocket=2 RealMemory=960 Gres=gpu:sim:2(S:0)\nNodeName=n[1-2] NodeAddr=10.0.0.[1-2]",
    ],
)
def test_a_file_in_another_hand_says_the_same(old: str):
    assert texts(old=old) == {}


def test_an_address_needs_no_count():
    found = plan(new=NODES.replace("10.0.0.[1-2]", "10.0.1.[1-2]"))
    assert found.changes["n1"].texts == ("NodeAddr 10.0.0.1 -> 10.0.1.1",)
    assert found.to_count() == []
    assert plan(new=NODES.replace("960", "900")).to_count() == ["n1", "n2"]


def test_a_wanted_node_that_is_not_in_force_is_new():
    found = plan(new=NODES + "\nNodeName=n3 NodeAddr=10.0.0.3 Sockets=1")
    assert (found.new, list(found.changes), found.to_count()) == (["n3"], [], ["n3"])


@pytest.mark.parametrize(
    ("config", "changes"), [(MATCH, False), ("HASH_VAL = Different Ours=0x1 Slurmctld=0x2\n", True), ("", True)]
)
def test_what_slurmctld_runs_outranks_a_file_that_it_has_not_read(config: str, changes: bool):
    live = LIVE.replace("CoresPerSocket=2", "CoresPerSocket=1").replace("gpu:sim:2", "gpu:old:2")
    found = texts(config=config, nodes=live)
    assert found == (
        dict.fromkeys(("n1", "n2"), ("CoresPerSocket 1 -> 2", "Gres gpu:old:2 -> gpu:sim:2")) if changes else {}
    )


def test_a_node_that_an_operator_resumed_keeps_its_jobs_though_its_line_says_down():
    down = NODES.replace("UNKNOWN", "DOWN")
    assert set(texts(old=down, new=down)) == {"n1", "n2"}
    assert texts(old=down, new=down, nodes=LIVE.replace("State=IDLE", "State=DOWN")) == {}


def test_kept_lines_have_the_hardware_in_force_and_the_wanted_features():
    new = (
        NODES.replace("CoresPerSocket=2", "CoresPerSocket=4")
        .replace("Feature=sim", "Feature=sim,new")
        .replace("sim:2", "sim:4")
    )
    found = plan(new=new, new_gres=GRES.replace("[0-1]", "[0-3]"))
    node_lines, gres_lines = hardware_in_use.kept_lines(found, parse(GRES), ["n2"])
    kept = (
        "NodeName=n2 NodeAddr=10.0.0.2 Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=960 Gres=gpu:sim:2 Feature=sim,new "
        f"State=UNKNOWN {hardware_in_use.KEPT}"
    )
    assert node_lines == [kept]
    assert gres_lines == ["NodeName=n2 Name=gpu Type=sim File=/dev/nvidia[0-1]"]
    assert hardware_in_use.marked(kept) == {"n2"}
    # The next run finds its own lines, and writes the same.
    files = "\n".join([new.replace("n[1-2]", "n1").replace("[1-2]", "1"), kept])
    again = plan(old=files, new=new, gres="\n".join(gres_lines), new_gres=GRES.replace("[0-1]", "[0-3]"))
    assert hardware_in_use.kept_lines(again, parse("\n".join(gres_lines)), ["n2"]) == (node_lines, gres_lines)


def test_a_kept_line_never_says_a_state_that_ends_jobs():
    found = plan(new=NODES.replace("State=UNKNOWN", "State=DOWN Reason=fan"))
    (line,) = hardware_in_use.kept_lines(found, parse(GRES), ["n1"])[0]
    assert "State=UNKNOWN" in line
    assert "Reason" not in line


def test_like_nodes_are_one_group():
    found = plan(new=NODES.replace("960", "900"))
    (group,) = hardware_in_use.grouped(
        found, dict.fromkeys(("n1", "n2"), hardware_in_use.JOBS), {"n1": ["7"], "n2": ["7", "8"]}
    )
    assert (group.nodes, group.changes, group.waits, group.jobs) == (
        "n[1-2]",
        ["RealMemory 960 -> 900"],
        "jobs",
        ["7", "8"],
    )
    assert (group.gres, group.cpus, group.memory) == ("gpu:sim:2", 2, 960)
    assert [one.nodes for one in hardware_in_use.grouped(found, {"n1": hardware_in_use.JOBS}, {"n1": ["7"]})] == [
        "n1",
        "n2",
    ]
