"""The GPU software on Ubuntu 24.04 and 22.04: DKMS's settings in one package, the sources in another, and other modules than the driver's.

apt, dpkg and DKMS are real; the machine is Debian's container under Ubuntu's name, and NVIDIA's packages are stand-ins.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.paths import state_of
from lab.scenario_run import recap, run
from tests.kit.second_module import NAME, VERSION, second_module

testinfra_hosts = ["ansible://gpu_nodes"]

SCENARIO = Path(__file__).parents[1]
ROOT = SCENARIO.parents[1]
FILE = SCENARIO / "gpu_ubuntu.bedplate.yml"
KEYS = state_of("molecule-gpu_ubuntu") / "vendor/public/keys"
PLAYBOOK, VERIFY = ROOT / "playbooks/gpu.yml", ROOT / "playbooks/verify.yml"
RESOLVE = ROOT / "playbooks/gpu_resolve.yml"


@dataclass(frozen=True)
class Node:
    """A node: its driver and a later one, the two packages with the sources, its kernel and the next one."""

    name: str
    driver: str
    later: str
    sources: tuple[str, str]
    kernel: str = "6.8.0-90-generic"
    next_kernel: str = "6.8.0-100-generic"


_CANONICALS = ("580.173.02", "595.71.05", ("nvidia-dkms-580-server-open", "nvidia-kernel-source-580-server-open"))
# NVIDIA's archive; Canonical's on both releases.
NODES = (
    Node("gpu1", "580.65.06", "590.48.01", ("nvidia-dkms-580-open", "nvidia-kernel-source-580-open")),
    Node("gpu2", *_CANONICALS),
    # Of 22.04 the table has one driver.
    Node("gpu3", _CANONICALS[0], "", _CANONICALS[2], kernel="5.15.0-130-generic", next_kernel="5.15.0-140-generic"),
)
BROKEN, UNKNOWN = "610.57.04", "999.10.01"
FS = "2.26.6"
_HGX = "  hgx:\n"
_WITH_FS = {_HGX: f"{_HGX}    gpu_stack: {{gpudirect: [nvidia-fs={FS}]}}\n"}
_TEXT = FILE.read_text()
_PROFILES = _TEXT[_TEXT.index("  canonical:") : _TEXT.index("racks:")]
_RACKS = _TEXT[_TEXT.index("  r2:") : _TEXT.index("hosts:")]
Write = Callable[[Mapping[str, str]], Path]


def play(cluster_file: Path, *arguments: str, playbook: Path = PLAYBOOK) -> subprocess.CompletedProcess[str]:
    return run("gpu_ubuntu", playbook, cluster_file, *arguments)


@pytest.fixture
def other(tmp_path: Path) -> Write:
    """Return a function that writes the scenario's cluster file with other words."""

    def write(words: Mapping[str, str]) -> Path:
        text = FILE.read_text().replace("keys/", f"{KEYS}/")
        for old, new in words.items():
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "other.bedplate.yml"
        path.write_text(text)
        return path

    return write


def of_driver(host) -> dict[str, str]:
    said = host.check_output(
        "dpkg-query --show --showformat='${Package} ${db:Status-Status} ${Version}\\n' '*nvidia*' 'libnv*' | sort"
    )
    rows = [line.split() for line in said.splitlines()]
    return {row[0]: row[2] for row in rows if row[1] == "installed" and "container" not in row[0]}


def holds_exactly(host, version: str, kernel: str) -> None:
    packages = of_driver(host)
    assert {one.partition("-")[0] for one in packages.values()} == {version}
    assert set(packages) <= set(host.check_output("apt-mark showhold").split())
    assert f"nvidia/{version}, {kernel}, x86_64: installed" in host.check_output("dkms status")
    # By its path: a removal of its last module leaves this kernel, which has no others, without a list of modules.
    assert host.check_output(f"modinfo --field version /lib/modules/{kernel}/updates/dkms/nvidia.ko*") == version


def everything(host) -> tuple[str, ...]:
    """Return what a refused run must leave alone."""
    commands = (
        "dpkg-query --show --showformat='${Package} ${Version} ${Status}\\n'",
        "dkms status | sort",
        "cat /etc/apt/preferences.d/bedplate-driver.pref",
        "ls /boot /etc/dkms",
    )
    return tuple(host.check_output(command) for command in commands)


def of(host) -> Node:
    """Return the node of a host."""
    name = host.check_output("hostname")
    return next(node for node in NODES if node.name == name)


def test_the_gate_is_on_and_has_both_packages(host):
    node = of(host)
    holds_exactly(host, node.driver, node.kernel)
    (proof,) = json.loads(host.file("/var/lib/bedplate/dkms.json").content_string)
    assert set(proof["packages"]) == set(node.sources)
    assert (proof["name"], proof["module_version"], proof["kernel"]) == ("nvidia", node.driver, node.kernel)
    # The one package has the settings, and the other one the sources.
    assert "/dkms.conf" in host.check_output(f"dpkg --listfiles {node.sources[0]}")
    assert "/dkms.conf" not in host.check_output(f"dpkg --listfiles {node.sources[1]}")


def test_the_source_of_cuda_keyring_gave_way_and_apt_reads_every_source(host):
    """prepare.yml installed the package before bedplate came; the same repository with another Signed-By stops apt."""
    if of(host).name != "gpu1":
        return  # Canonical's archive is no repository of NVIDIA.
    source = host.file("/etc/apt/sources.list.d/cuda-ubuntu2404-x86_64.list")
    assert host.check_output("dpkg-query --show --showformat='${Status}' cuda-keyring") == "install ok installed"
    assert not source.exists
    record = json.loads(host.check_output("cat /var/lib/bedplate/foreign_sources.json"))
    assert source.path in json.dumps(record)
    host.check_output("apt-get --quiet update")
    # What it would be without that: the source of the package comes again, as by its reinstallation.
    theirs = "deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] http://10.215.23.10/nvidia/ubuntu-24.04/ /"
    host.check_output(f"echo '{theirs}' >{source.path}")
    assert "Conflicting values set for option Signed-By" in host.run("apt-get --quiet update").stderr
    predicted = play(FILE, "--limit=gpu1", "--check", "--diff")
    assert source.exists
    done = play(FILE, "--limit=gpu1")
    assert done.returncode == 0, done.stdout
    assert recap(predicted.stdout)["gpu1"]["changed"] == recap(done.stdout)["gpu1"]["changed"] > 0
    assert not source.exists
    host.check_output("apt-get --quiet update")
    assert recap(play(FILE, "--limit=gpu1").stdout)["gpu1"]["changed"] == 0


def test_an_upgrade_of_everything_changes_none_of_it(host):
    before = of_driver(host)
    assert "nvidia-kernel-source" in " ".join(before)
    host.check_output("apt-get --quiet update && DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes dist-upgrade")
    assert of_driver(host) == before


def test_verify_agrees(host):
    # A test below gives each node its next kernel, the first node before the second one's turn here.
    done = play(FILE, "--tags=gpu", f"--limit=ctl1,{of(host).name}", playbook=VERIFY)
    assert done.returncode == 0, done.stdout


def test_an_upgrade_and_a_downgrade_change_the_whole_set(host, other: Write):
    node = of(host)
    for version in (node.later, node.driver) if node.later else ():
        there = other({node.driver: version})
        told = play(there, f"--limit={node.name}", "--check", "--diff")
        assert told.returncode == 0, told.stdout
        done = play(there, f"--limit={node.name}")
        assert done.returncode == 0, done.stdout
        assert recap(told.stdout)[node.name]["changed"] == recap(done.stdout)[node.name]["changed"]
        holds_exactly(host, version, node.kernel)
        # What the branch before was held by is released, so apt may upgrade anything else.
        held = set(host.check_output("apt-mark showhold").split())
        assert not [one for one in held if "nvidia" in one and one not in of_driver(host)]
    assert recap(play(FILE, f"--limit={node.name}").stdout)[node.name]["changed"] == 0


def test_a_driver_that_no_table_has_comes_by_the_lock_alone(host, other: Write):
    node = of(host)
    if node.name != "gpu1":
        return  # Canonical's archive has the drivers of the table.
    # The keyring of Ubuntu's archive is on its machines alone.
    there = other({_PROFILES: "", _RACKS: "", node.driver: UNKNOWN})
    refused = play(there, "--limit=gpu1")
    assert refused.returncode != 0
    assert "playbooks/gpu_resolve.yml writes one" in " ".join(refused.stdout.split())
    holds_exactly(host, node.driver, node.kernel)
    resolved = play(there, playbook=RESOLVE)
    assert resolved.returncode == 0, resolved.stdout
    done = play(there, "--limit=gpu1")
    assert done.returncode == 0, done.stdout
    holds_exactly(host, UNKNOWN, node.kernel)
    assert recap(play(there, "--limit=gpu1").stdout)["gpu1"]["changed"] == 0
    # A cluster file without its lock does not take the node to another set by itself.
    assert "/etc/bedplate/gpu-lock exists" in play(FILE, "--limit=gpu1").stdout
    holds_exactly(host, UNKNOWN, node.kernel)
    assert play(FILE, "--limit=gpu1", "--extra-vars=gpu_resolve=off").returncode == 0
    holds_exactly(host, node.driver, node.kernel)
    assert recap(play(FILE, "--limit=gpu1").stdout)["gpu1"]["changed"] == 0


def test_nvidia_fs_is_built_again_with_each_driver_and_let_go(host, other: Write):
    """DKMS does not build it again when the driver under it changes, and the kernel would refuse it then."""
    node = of(host)
    if node.name != "gpu1":
        return  # Canonical's archive has no nvidia-fs.
    built = f"/lib/modules/{node.kernel}/updates/dkms/nvidia-fs.ko*"
    for version in (node.driver, node.later):
        there = other({**_WITH_FS, node.driver: version})
        done = play(there, "--limit=gpu1")
        assert done.returncode == 0, done.stdout
        assert f"nvidia-fs/{FS}, {node.kernel}, x86_64: installed" in host.check_output("dkms status")
        assert host.check_output(f"modinfo --field built_with {built}") == version
        assert "nvidia-fs-dkms" in host.check_output("apt-mark showhold")
        assert recap(play(there, "--limit=gpu1").stdout)["gpu1"]["changed"] == 0
        # As each installation of a kernel does; DKMS leaves this to it where a kernel has no list of modules, as here.
        host.check_output(f"depmod {node.kernel}")
        verified = play(there, "--tags=gpu", "--limit=ctl1,gpu1", playbook=VERIFY)
        assert verified.returncode == 0, verified.stdout
    assert play(FILE, "--limit=gpu1").returncode == 0
    assert "nvidia-fs-dkms" not in host.check_output("apt-mark showhold")
    host.check_output("DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes purge nvidia-fs-dkms")
    holds_exactly(host, node.driver, node.kernel)
    assert recap(play(FILE, "--limit=gpu1").stdout)["gpu1"]["changed"] == 0


def test_a_driver_that_does_not_compile_leaves_everything_as_it_was(host, other: Write):
    node = of(host)
    if node.name != "gpu1":
        return  # Canonical's archive has no such driver.
    before = everything(host)
    done = play(other({node.driver: BROKEN}), f"--limit={node.name}")
    assert done.returncode != 0
    assert f"nvidia {BROKEN} does not compile for kernel {node.kernel}" in " ".join(done.stdout.split())
    assert everything(host) == before


def test_the_nodes_other_modules_must_compile_for_the_next_kernel(host, other: Write):
    """A node whose file system is missing after the reboot is a node down."""
    node = of(host)
    later = other({node.kernel: node.next_kernel})
    with second_module(host) as module:
        module.break_it()
        before = everything(host)
        done = play(later, f"--limit={node.name}")
        assert done.returncode != 0
        assert f"{NAME} {VERSION} does not compile for kernel {node.next_kernel}" in " ".join(done.stdout.split())
        # Headers to compile against may have come; no kernel has.
        names = host.check_output("dpkg-query --show --showformat='${Package} '")
        assert f"linux-image-{node.next_kernel}" not in names
        assert everything(host)[1:] == before[1:]
        module.mend()
        done = play(later, f"--limit={node.name}")
        assert done.returncode == 0, done.stdout
        holds_exactly(host, node.driver, node.next_kernel)
        assert module.is_built_for(node.next_kernel)
        assert recap(play(later, f"--limit={node.name}").stdout)[node.name]["changed"] == 0
