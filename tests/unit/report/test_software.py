"""What is read of a machine's software, and that nothing is run that would change it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_modules import unread_lines
from ansible_collections.bedplate.cluster.plugins.module_utils.report import smi_raw, software
from ansible_collections.bedplate.cluster.plugins.module_utils.report.known_names import known_names
from ansible_collections.bedplate.cluster.plugins.module_utils.report.smi_raw import (
    Recorder,
    read_smi,
    refusal,
    without_secrets,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.report.software import SoftwareReader
from tests.unit.gpu.tree import Tree

ADDRESS = "0000:3b:00.0"
CSV = "00000000:3B:00.0, GPU-5d3e, NVIDIA H100 80GB HBM3, Enabled, Disabled, Disabled, Enabled, Enabled, state  Completed, status Success\n"
DETAILS = """
GPU 00000000:3B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Serial Number                         : 1652923002233
    GPU UUID                              : GPU-5d3e
    GPU PDI                               : 0xa1b2c3d4e5f60718
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 4711
            Name                          : /home/alice/train
    Capabilities
        EGM                               : disabled
"""


class Commands:
    """What stands in for this machine's commands: answers by the last argument; the calls are kept."""

    def __init__(self, **answers: Outcome) -> None:
        self.answers = {"-L": Outcome(0, "GPU 0: H100 (UUID: GPU-5d3e)\n", ""), "-q": Outcome(0, DETAILS, "")}
        self.answers |= {"status": Outcome(0, "", ""), "--format=csv,noheader": Outcome(0, CSV, "")}
        self.answers.update({name.replace("_", "-"): one for name, one in answers.items()})
        self.calls: list[str] = []

    def __call__(self, argv: Sequence[str], _seconds: float) -> Outcome:
        self.calls.append(argv[-1])
        return self.answers.get(argv[-1], Outcome(0, "", ""))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    found = Tree(tmp_path)
    found.driver()
    found.gpu(ADDRESS, 0)
    return found


def reader(tree: Tree, commands: Commands, monkeypatch: pytest.MonkeyPatch, live: bool = True) -> SoftwareReader:
    monkeypatch.setattr(software, "find", lambda name: f"/usr/bin/{name}" if name in ("nvidia-smi", "dkms") else None)
    found = SoftwareReader(str(tree.top), ["x"], 5.0, Recorder(5.0, commands))
    found.is_live = live
    return found


def devices(monkeypatch: pytest.MonkeyPatch, *present: str) -> None:
    monkeypatch.setattr(smi_raw, "_is_device", lambda _root, path: path in present)


def gpus(tree: Tree) -> list[dict[str, Any]]:
    facts: list[dict[str, Any]] = tree.facts()["gpus"]
    return facts


def test_nvidia_smi_does_not_run_without_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, commands = Tree(tmp_path), Commands()
    devices(monkeypatch, "dev/nvidiactl", "dev/nvidia0")
    tree.pci(ADDRESS, driver=None)
    found = reader(tree, commands, monkeypatch).read()
    assert commands.calls == ["status"]
    assert "no driver is loaded" in found["found"]["gpu"]["nvidia_smi"]


@pytest.mark.parametrize(
    ("present", "absent"),
    [((), "/dev/nvidiactl, /dev/nvidia0"), (("dev/nvidiactl",), "/dev/nvidia0"), (("dev/nvidia0",), "/dev/nvidiactl")],
)
def test_nvidia_smi_does_not_run_where_it_would_make_a_device_file(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, present: tuple[str, ...], absent: str
) -> None:
    devices(monkeypatch, *present)
    commands = Commands()
    found = reader(tree, commands, monkeypatch).read()
    assert commands.calls == ["status"]
    assert found["found"]["gpu"]["nvidia_smi"] == f"it would make the device files {absent}"


def test_a_file_is_not_a_device(tree: Tree) -> None:
    tree.write("dev/nvidiactl", "")
    tree.write("dev/nvidia0", "")
    assert refusal(Root(str(tree.top)), gpus(tree)) == "it would make the device files /dev/nvidiactl, /dev/nvidia0"


def test_nvidia_smi_is_read_raw_without_serial_numbers_and_processes(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices(monkeypatch, "dev/nvidiactl", "dev/nvidia0")
    found = reader(tree, Commands(), monkeypatch).read()
    query, listed, details, status = found["raw"]
    assert query["stdout"] == CSV
    assert query["command"].startswith("nvidia-smi --query-gpu=pci.bus_id,")
    assert (listed["command"], details["command"], status["command"]) == (
        "nvidia-smi -L",
        "nvidia-smi -q",
        "dkms status",
    )
    assert "Product Name" in details["stdout"]
    assert "EGM" in details["stdout"]
    assert [one for one in ("1652923002233", "GPU-5d3e", "a1b2", "alice", "4711") if one in details["stdout"]] == []
    assert "1652923002233" in found["names"]["serial"]
    (gpu,) = found["found"]["gpu"]["gpus"]
    assert (gpu["persistence"], gpu["fabric_state"]) == (True, "Completed")


def test_after_an_nvidia_smi_that_hangs_no_other_runs(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    devices(monkeypatch, "dev/nvidiactl", "dev/nvidia0")
    hangs = Outcome(None, "", "stopped after 5 s")
    commands = Commands()
    commands.answers["--format=csv,noheader"] = hangs
    found = reader(tree, commands, monkeypatch).read()
    assert commands.calls == ["--format=csv,noheader", "status"]
    assert [row for row in found["unread"] if row["reader"] == "gpu_facts" and "no answer within" in row["text"]]
    commands.calls.clear()
    commands.answers |= {"--format=csv,noheader": Outcome(0, CSV, ""), "-L": hangs}
    read_smi("nvidia-smi", 5.0, [], Recorder(5.0, commands))
    assert commands.calls == ["--format=csv,noheader", "-L"]


def test_a_file_tree_is_read_without_commands(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    devices(monkeypatch, "dev/nvidiactl", "dev/nvidia0")
    commands = Commands()
    found = reader(tree, commands, monkeypatch, live=False).read()
    assert commands.calls == []
    assert (found["raw"], found["found"]["packages"]) == ([], [])


def test_device_files_that_appear_are_reported(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    devices(monkeypatch, "dev/nvidiactl", "dev/nvidia0")
    commands = Commands()

    def run(argv: Sequence[str], seconds: float) -> Outcome:
        tree.write("dev/nvidia-uvm", "")
        return commands(argv, seconds)

    found = reader(tree, commands, monkeypatch)
    found.recorder = Recorder(5.0, run)
    texts = [row["text"] for row in found.read()["unread"] if row["reader"] == "nvidia-smi"]
    assert texts == ["device files before: ; after: nvidia-uvm"]


def test_what_a_reader_cannot_read_is_kept_with_its_text(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.write("etc/apt/sources.list", "# comment\ndeb http://a/debian trixie main\ndeb http://b\n")
    tree.write("etc/zipl.conf", "")
    tree.write("boot/vmlinuz-6.1", "")
    tree.write("boot/grub/grubenv", "next_entry=7\n")
    commands = Commands(status=Outcome(0, "nvidia/580.1, 6.8, x86_64: installed\nlustre/2: added\nWARNING! odd\n", ""))
    found = reader(tree, commands, monkeypatch).read()
    texts = {row["reader"]: row["text"] for row in found["unread"]}
    assert texts["dkms"] == "WARNING! odd"
    assert texts["apt sources"] == "/etc/apt/sources.list:3: deb http://b"
    assert "zipl" in texts["boot loader"]
    assert "7" in texts["kernel that boots next"]
    assert found["found"]["dkms"] == ["nvidia 580.1 6.8"]
    assert found["found"]["sources"] == [
        {"path": "/etc/apt/sources.list", "lines": ["deb http://a/debian trixie main", "deb http://b"]}
    ]


def test_a_reader_that_fails_hides_no_other(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_status: str) -> list[str]:
        raise KeyError("odd")

    monkeypatch.setattr(software.dkms_modules, "unread_lines", fails)
    found = reader(tree, Commands(), monkeypatch).read()
    assert {"reader": "dkms", "text": "KeyError: 'odd'"} in found["unread"]
    assert set(found["found"]) == {"system", "gpu", "pci", "rdma", "boot", "packages", "sources"}


def test_rdma_devices_are_read_with_ports_and_what_a_port_refuses(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    base = "sys/class/infiniband/mlx5_0"
    for name, text in {"fw_ver": "28.39.1002", "board_id": "MT_0000000838", "node_guid": "506b:4b03:00c2:d3f0"}.items():
        tree.write(f"{base}/{name}", text + "\n")
    tree.write(f"{base}/ports/1/state", "4: ACTIVE\n")
    tree.write(f"{base}/ports/1/rate", "400 Gb/sec (4X NDR)\n")
    (row,) = reader(tree, Commands(), monkeypatch).read()["found"]["rdma"]
    assert (row["fw_ver"], row["ports"][0]["state"], row["ports"][0]["rate"]) == (
        "28.39.1002",
        "4: ACTIVE",
        "400 Gb/sec (4X NDR)",
    )
    assert row["hca_type"] == "unreadable: No such file or directory"


def test_keys_in_a_source_are_left_out(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    key = " -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQINBF\n -----END PGP PUBLIC KEY BLOCK-----\n"
    text = f"Types: deb\nURIs: http://a\nSuites: x\nSigned-By:\n{key}"
    tree.write("etc/apt/sources.list.d/a.sources", text)
    (row,) = reader(tree, Commands(), monkeypatch).read()["found"]["sources"]
    assert row["lines"] == ["Types: deb", "URIs: http://a", "Suites: x", "Signed-By:"]


def test_names_of_a_machine_are_collected(tree: Tree) -> None:
    tree.write("proc/sys/kernel/hostname", "gpu017\n")
    tree.write("etc/hosts", "127.0.0.1 localhost\n10.1.2.3 gpu017.west.corp gpu017 # us\n")
    tree.write("etc/resolv.conf", "search lab.corp west.corp\nnameserver 10.0.0.1\n")
    tree.write("etc/passwd", "root:x:0:0\nalice:x:1000:1000\nnobody:x:65534:65534\nbroken\n")
    tree.write("home/bob/x", "")
    tree.write("sys/class/dmi/id/product_serial", "SN77AX\n")
    tree.write("sys/class/dmi/id/board_serial", "To Be Filled By O.E.M.\n")
    found = known_names(Root(str(tree.top)))
    assert {"gpu017", "gpu017.west.corp"} <= set(found["host"])
    assert found["domain"] == ["lab.corp", "west.corp"]
    assert found["user"] == ["alice", "bob"]
    assert found["serial"] == ["SN77AX"]


def test_lines_of_dkms_that_have_another_form() -> None:
    assert unread_lines("nvidia, 535, 5.15, x86_64: installed\nlustre/2.15: added\n\nodd line\n") == ["odd line"]


def test_a_part_of_an_address_is_no_serial_number() -> None:
    text = "GPU 00000000Serial3B:00.0\n    Serial Number : 1652923002233\n    Board Serial : N/A\n"
    assert without_secrets(text)[1] == ["1652923002233"]
