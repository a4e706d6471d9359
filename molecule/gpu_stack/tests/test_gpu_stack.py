"""NVIDIA's repository, of stand-ins with the real names and relations: one set on every node, upwards, downwards and by force."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from lab.paths import state_of
from lab.scenario_run import recap, run, ssh
from tests.kit.nvidia_packages import Host, held, installed, of_driver

# A test that takes no host is of all nodes at once.
testinfra_hosts = ["ansible://gpu_nodes"]

SCENARIO = Path(__file__).parents[1]
ROOT = SCENARIO.parents[1]
KEYS = state_of("molecule-gpu_stack") / "vendor/public/keys"
PLAYBOOK = ROOT / "playbooks/gpu.yml"
VERIFY = ROOT / "playbooks/verify.yml"
OLD, NEW, BROKEN, UNKNOWN = "580.65.06", "590.48.01", "595.71.05", "999.10.01"
COUPLED = ("nvidia-kernel-open-dkms", "nvidia-kernel-support", "firmware-nvidia-gsp", "libcuda1", "nvidia-driver-cuda")
HGX = ("nvidia-fabricmanager", "libnvidia-nscq")
NODES = ("gpu1", "gpu2")
# Where a driver is compiled again and again: `make full-gpu` does it on all nodes, `make test` on the HGX board alone.
COMPILING = NODES if os.environ.get("BEDPLATE_FULL") == "gpu" else NODES[:1]
LIMIT = f"--limit={','.join(COMPILING)}"
# What another set has beside its driver, by the words of the cluster file.
OTHER_PARTS = {'["12.9", "13.0"]': '["13.0"]', 'nccl: "2.28.9"': 'nccl: "2.30.4"', 'dcgm: "4"': 'dcgm: "4.5.3"'}


class Node:
    """A machine of the scenario by name, for tests of several at once."""

    def __init__(self, name: str) -> None:
        self.name = name

    def check_output(self, command: str) -> str:
        done = ssh("gpu_stack", "root", self.name, command)
        assert done.returncode == 0, f"{self.name}: {command}: {done.stderr}"
        return done.stdout.strip()


def play(cluster_file: Path, *arguments: str, playbook: Path = PLAYBOOK) -> subprocess.CompletedProcess[str]:
    return run("gpu_stack", playbook, cluster_file, *arguments)


def verify(*arguments: str) -> subprocess.CompletedProcess[str]:
    return play(SCENARIO / "gpu_stack.bedplate.yml", "--tags=gpu", *arguments, playbook=VERIFY)


@pytest.fixture
def other(tmp_path: Path):
    """Return a function that writes the scenario's cluster file with another driver, another key, a kernel for gpu2, or other words."""

    def write(
        driver: str = OLD, key: str = "nvidia.asc", kernel: str = "", words: Mapping[str, str] | None = None
    ) -> Path:
        text = (SCENARIO / "gpu_stack.bedplate.yml").read_text().replace("keys/nvidia.asc", f"{KEYS}/{key}")
        stated = {"      os: debian-12\n": f"      os: debian-12\n      kernel: {kernel}\n"} if kernel else {}
        for old, new in {**stated, **(words or {})}.items():
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "other.bedplate.yml"
        path.write_text(text.replace(OLD, driver))
        return path

    return write


def kernel(host: Host) -> str:
    return host.check_output("ls /boot/vmlinuz-*").removeprefix("/boot/vmlinuz-")


def is_hgx(host: Host) -> bool:
    return host.check_output("hostname") == "gpu1"


def everything(host: Host) -> tuple[dict[str, str], str, str, str]:
    """Return packages, holds, pins and wishes for a reboot."""
    pins = host.check_output("cat /etc/apt/preferences.d/bedplate-driver.pref")
    wishes = host.check_output("find /run/bedplate -type f 2>/dev/null || true")
    return installed(host), host.check_output("apt-mark showhold"), pins, wishes


def holds_exactly(host: Host, version: str) -> None:
    """Assert that one version of every package of the driver is there, held, and its module compiled for the next kernel."""
    packages = of_driver(host)
    assert set(packages.values()) == {f"{version}-1"}
    assert set(COUPLED) <= set(packages)
    assert (set(HGX) <= set(packages)) == is_hgx(host)
    # What comes as a dependency of others too, and what would bring another kernel.
    assert {*packages, "linux-headers-amd64"} <= held(host)
    assert host.check_output(f"modinfo --set-version {kernel(host)} --field version nvidia") == version
    status = host.check_output("dkms status")
    assert f"nvidia/{version}, {kernel(host)}, x86_64: installed" in status
    assert len(status.splitlines()) == 1


def test_one_version_of_everything_on_every_system(host):
    holds_exactly(host, OLD)
    system = host.check_output(". /etc/os-release; echo $VERSION_ID")
    assert system == ("13" if is_hgx(host) else "12")


def test_the_open_module_was_compiled_here(host):
    path = host.check_output(f"modinfo --set-version {kernel(host)} --filename nvidia")
    assert host.check_output(f"modinfo --field license {path}") == "Dual MIT/GPL"
    assert host.check_output(f"modinfo --field vermagic {path}").startswith(f"{kernel(host)} ")


def test_services_are_those_of_the_platform(host):
    units = {"nvidia-persistenced": True, "nvidia-dcgm": True, "nvidia-fabricmanager": is_hgx(host)}
    for name, wanted in units.items():
        assert (host.run(f"systemctl is-enabled {name}").stdout.strip() == "enabled") == wanted, name
        # No driver is loaded, so each of them could only fail.
        assert not host.service(name).is_running, name


def test_toolkits_are_side_by_side_and_users_find_the_first(host):
    packages = installed(host)
    assert packages["cuda-toolkit-12-9"].startswith("12.9.")
    assert packages["cuda-toolkit-13-0"].startswith("13.0.")
    # Built with the first toolkit's CUDA; the repository has newer ones, and this one built with 13.0.
    assert {packages[name] for name in ("libnccl2", "libnccl-dev")} == {"2.28.9-1+cuda12.9"}
    # And what a toolkit brings, which has a version of its own.
    assert {"libnccl2", "libnccl-dev", "libcublas-12-9", "libcublas-13-0"} <= held(host)
    for version in ("12.9", "13.0"):
        assert f"release {version}" in host.check_output(f"/usr/local/cuda-{version}/bin/nvcc --version")
    assert "release 12.9" in host.check_output("bash -lc 'nvcc --version'")
    assert host.file("/usr/local/cuda").linked_to == "/usr/local/cuda-12.9"


def test_dcgm_is_of_the_drivers_cuda(host):
    names = {name for name in installed(host) if name.startswith("datacenter")}
    # The second two are only recommended by the others, and packages are installed without recommends.
    assert names == {
        "datacenter-gpu-manager-4-core",
        "datacenter-gpu-manager-4-cuda13",
        "datacenter-gpu-manager-4-proprietary",
        "datacenter-gpu-manager-4-proprietary-cuda13",
    }


def test_an_upgrade_of_everything_changes_none_of_it(host):
    # As on a node that was installed before the repository had the newer one.
    assert len(host.check_output("apt-cache madison libcublas-12-9").splitlines()) > 1
    assert installed(host)["libcublas-12-9"] == "12.9.1.4-1"
    host.check_output(
        "apt-get --quiet --yes --allow-downgrades --allow-change-held-packages install libcublas-12-9=12.9.0.13-1 "
        "&& apt-mark hold libcublas-12-9"
    )
    before = installed(host)
    assert before["libcublas-12-9"] == "12.9.0.13-1"
    # There is something newer, of which apt knows.
    assert f"{UNKNOWN}-1" in host.check_output("apt-cache madison libcuda1")
    host.check_output("apt-get --quiet update && DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes dist-upgrade")
    assert installed(host) == before


@pytest.mark.parametrize("name", ["cuda-drivers", "cuda", "nvidia-open", "cuda-12-9", "datacenter-gpu-manager"])
def test_nobody_gets_a_driver_by_a_metapackage(host, name):
    asked = host.run(f"DEBIAN_FRONTEND=noninteractive apt-get --yes --simulate install {name}")
    assert asked.rc != 0
    assert "Inst" not in asked.stdout


# What is done to a node, what verify says of it, and what undoes it.
FAULTS = [
    ("apt-mark unhold libcuda1", "package libcuda1: expected held, found not held", "apt-mark hold libcuda1"),
    ("mkdir -p /b/DEBIAN; printf 'Package: libnvidia-nscq-570\\nVersion: 570.124.06-1\\nArchitecture: all\\nMaintainer: x\\n"
     "Description: x\\n' > /b/DEBIAN/control; dpkg-deb --build /b /b.deb; dpkg --install /b.deb",
     "package libnvidia-nscq-570: expected only of driver 580.65.06, found 570.124.06-1",
     "dpkg --purge libnvidia-nscq-570; rm -r /b /b.deb"),
    ("systemctl disable nvidia-dcgm", "unit nvidia-dcgm.service: expected enabled, found disabled", "systemctl enable nvidia-dcgm"),
    ("mkdir /m; mv /lib/modules/*/updates/dkms/nvidia.ko* /m/; depmod $(ls /lib/modules)",
     "expected 580.65.06, found none; do not reboot",
     "mv /m/* /lib/modules/*/updates/dkms/; rmdir /m; depmod $(ls /lib/modules)"),
    ("dpkg --remove --force-depends libnvidia-cfg1", "package libnvidia-cfg1: expected 580.65.06-*, found not installed",
     f"apt-get --yes install libnvidia-cfg1={OLD}-1 && apt-mark hold libnvidia-cfg1"),
]  # fmt: skip


def test_verify_names_all_that_is_wrong_on_each_node():
    nodes = [Node(name) for name in NODES]
    try:
        for node in nodes:
            for fault, _, _ in FAULTS:
                node.check_output(fault)
        done = verify()
        assert done.returncode != 0
        for _, says, _ in FAULTS:
            # One line where both are alike, one each where the file's name has the kernel's in it.
            machines = set(re.findall(rf"ERROR (\S+): .*{re.escape(says)}", done.stdout))
            assert machines in ({"gpu[1-2]"}, {"gpu1", "gpu2"}), f"{says}: {machines}\n{done.stdout[-6000:]}"
    finally:
        for node in nodes:
            for _, _, mend in FAULTS:
                node.check_output(mend)


def test_verify_agrees_with_what_is_there():
    done = verify()
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_driver_that_does_not_compile_leaves_everything_as_it_was(other):
    nodes = [Node(name) for name in NODES]
    before = [everything(node) for node in nodes]
    done = play(other(driver=BROKEN))
    assert done.returncode != 0
    for node in nodes:
        assert re.search(rf"nvidia {re.escape(BROKEN)} [a-z ]*{re.escape(kernel(node))}", done.stdout)
        holds_exactly(node, OLD)
    assert done.stdout.count("error:") >= len(nodes)
    assert "Nothing was installed" in done.stdout
    assert [everything(node) for node in nodes] == before


PROVE = """\
- hosts: gpu1
  gather_facts: false
  tasks:
    - bedplate.cluster.dkms_proof:
        packages: {packages}
        module_version: {version}
        kernel: {kernel}
        state_directory: /tmp/ubuntu
"""
_SOURCE = "deb [signed-by=/etc/apt/ubuntu.asc] http://10.215.6.10/nvidia/ubuntu-24.04 /"


def test_ubuntus_driver_is_proven_from_both_of_its_packages(tmp_path: Path):
    """The scenario gpu_ubuntu installs it; here are its packages, apt, the compiler and DKMS."""
    node = Node("gpu1")
    before = everything(node)

    def prove(version: str, *names: str) -> str:
        wanted = dict.fromkeys(names, f"{version}-1")
        playbook = tmp_path / "prove.yml"
        playbook.write_text(PROVE.format(packages=json.dumps(wanted), version=version, kernel=kernel(node)))
        done = play(SCENARIO / "gpu_stack.bedplate.yml", "-v", playbook=playbook)
        return f"{done.returncode} {' '.join(done.stdout.split())}"

    node.check_output(
        f"echo '{_SOURCE}' >/etc/apt/sources.list.d/ubuntu.list; cp /srv/vendor/keys/nvidia.asc /etc/apt/ubuntu.asc"
    )
    try:
        both = ("nvidia-dkms-580-open", "nvidia-kernel-source-580-open")
        # The settings of DKMS are in the one, and the sources in the other.
        alone = prove(OLD, both[0])
        assert re.match(r"[^0].* does not appear to have module source", alone), alone
        assert (done := prove(OLD, *both)).startswith("0 "), done
        assert f"nvidia {OLD} compiles for kernel {kernel(node)}" in done
        (proof,) = json.loads(node.check_output("cat /tmp/ubuntu/dkms.json"))
        assert (set(proof["packages"]), proof["name"]) == (set(both), "nvidia")
        broken = prove(BROKEN, "nvidia-dkms-open", "nvidia-kernel-source-open")
        assert f"nvidia {BROKEN} does not compile for kernel {kernel(node)}" in broken
    finally:
        node.check_output(
            "rm -rf /etc/apt/sources.list.d/ubuntu.list /etc/apt/ubuntu.asc /tmp/ubuntu; apt-get --quiet update"
        )
    assert everything(node) == before


@pytest.mark.full_in("gpu")
def test_a_stated_kernel_does_not_come_before_its_driver_is_proven(other):
    node = Node("gpu2")
    stated = kernel(node)
    before = installed(node)
    # An older one is what the node has.
    node.check_output(f"mv /boot/vmlinuz-{stated} /boot/vmlinuz-5.10.0-1-amd64")
    try:
        done = play(other(driver=BROKEN, kernel=stated), "--limit=gpu2")
        assert done.returncode != 0
        assert re.search(rf"nvidia {re.escape(BROKEN)} [a-z ]*{re.escape(stated)}", done.stdout), done.stdout
        # It would be the newest, and so boot at the next power cycle.
        assert node.check_output(f"dpkg-query --list 'linux-image-{stated}' 2>/dev/null | grep -c ^ii || true") == "0"
        assert installed(node) == before
    finally:
        node.check_output(f"mv /boot/vmlinuz-5.10.0-1-amd64 /boot/vmlinuz-{stated}")


@pytest.mark.full_in("gpu")
def test_headers_come_also_where_dkms_has_a_driver_that_does_not_compile_for_them():
    nodes = [Node(name) for name in COMPILING]
    conf = (
        "PACKAGE_NAME=old\\nPACKAGE_VERSION=1.0\\nBUILT_MODULE_NAME[0]=old\\nDEST_MODULE_LOCATION[0]=/updates\\nAUTOINSTALL=yes\\n"
        "MAKE[0]=false\\nCLEAN=true\\n"
    )
    try:
        for node in nodes:
            node.check_output(
                f"mkdir /usr/src/old-1.0; printf '{conf}' >/usr/src/old-1.0/dkms.conf; dkms add -m old -v 1.0"
            )
            node.check_output(f"dpkg --remove --force-depends linux-headers-{kernel(node)}")
        done = play(SCENARIO / "gpu_stack.bedplate.yml", LIMIT)
        assert done.returncode == 0, done.stdout
        for node in nodes:
            # Built with its headers, as DKMS does, it would have left apt's packages half configured for good.
            assert node.check_output("dpkg --audit") == ""
            node.check_output(
                f"test -e /lib/modules/{kernel(node)}/build/Makefile && test ! -e /etc/dkms/no-autoinstall"
            )
            assert "old/1.0: added" in node.check_output("dkms status")
        again = recap(play(SCENARIO / "gpu_stack.bedplate.yml", LIMIT).stdout)
        assert {name: again[name]["changed"] for name in COMPILING} == dict.fromkeys(COMPILING, 0)
    finally:
        for node in nodes:
            node.check_output("dkms remove old/1.0 --all || true; rm -rf /usr/src/old-1.0")
            node.check_output(f"apt-get --quiet --yes install linux-headers-{kernel(node)}")
    for node in nodes:
        holds_exactly(node, OLD)


@pytest.mark.full_in("gpu")
def test_a_repository_with_another_key_is_not_believed(other):
    nodes = [Node(name) for name in NODES]
    before = [installed(node) for node in nodes]
    # Whoever has the repository could offer anything.
    done = play(other(driver=NEW, key="mirror.asc"))
    assert done.returncode != 0
    assert "NO_PUBKEY" in done.stdout or "Missing key" in done.stdout, done.stdout
    assert [installed(node) for node in nodes] == before
    assert play(SCENARIO / "gpu_stack.bedplate.yml").returncode == 0


def would_reboot(done: subprocess.CompletedProcess[str]) -> bool:
    """Tell whether gpu1 is rebooted; a machine that has nothing to do is not in the recap."""
    assert done.returncode == 0, done.stdout
    return recap(done.stdout).get("gpu1", {}).get("changed", 0) == 1


# In make test: tests/unit/hosts/test_reboot_playbook.py, on recorded nodes.
@pytest.mark.full_in("gpu")
def test_a_reboot_is_refused_where_it_would_end_a_job_or_lose_the_driver():
    node = Node("gpu1")
    reboot = ROOT / "playbooks/reboot.yml"
    note = "mkdir -p /run/bedplate/reboot-wanted; echo driver is new > /run/bedplate/reboot-wanted/gpu_driver"
    file, allowed = SCENARIO / "gpu_stack.bedplate.yml", "--extra-vars=bedplate_reboot=allowed"
    # In check mode, in which nothing is rebooted but all is looked at.
    assert not would_reboot(play(file, allowed, "--check", playbook=reboot))
    node.check_output(note)
    try:
        assert not would_reboot(play(file, "--check", playbook=reboot))
        assert would_reboot(play(file, allowed, "--check", playbook=reboot))
        node.check_output("cp /bin/sleep /run/slurmstepd; setsid /run/slurmstepd 600 >/dev/null 2>&1 </dev/null &")
        refused = play(file, allowed, "--check", playbook=reboot)
        assert refused.returncode != 0
        said = " ".join(refused.stdout.split())
        assert re.search(r"gpu1 [a-z ]*, [a-z ]*driver is new\. 1 steps [a-z ]*\(slurmstepd\)", said)
        node.check_output("pkill slurmstepd")
        node.check_output("mkdir /m; mv /lib/modules/*/updates/dkms/nvidia.ko* /m/; depmod $(ls /lib/modules)")
        # Without check mode, in which this is a warning. If the guard breaks, there is nothing to reboot the container with.
        node.check_output("mv /usr/sbin/shutdown /usr/sbin/shutdown.away")
        lost = play(file, allowed, playbook=reboot)
        assert lost.returncode != 0
        assert "do not reboot" in lost.stdout
    finally:
        node.check_output("pkill slurmstepd; rm -rf /run/bedplate/reboot-wanted /run/slurmstepd; "
                          "if [ -L /usr/sbin/shutdown.away ]; then mv /usr/sbin/shutdown.away /usr/sbin/shutdown; fi; "
                          "if [ -d /m ]; then mv /m/* /lib/modules/*/updates/dkms/; rmdir /m; depmod $(ls /lib/modules); fi")  # fmt: skip


def parts(host: Host) -> tuple[dict[str, str], str]:
    """Return package -> version of what is held of DCGM, CUDA and NCCL, and the toolkit that users find."""
    names = held(host)
    versions = {name: version for name, version in installed(host).items() if name in names}
    kept = {name: version for name, version in versions.items() if name.startswith(("cuda", "datacenter", "libnccl"))}
    return kept, host.check_output("readlink /usr/local/cuda")


def is_replaced(file: Path, version: str) -> None:
    """Assert that this cluster file brings the nodes to its set, and is then content."""
    changed = play(file, LIMIT)
    assert changed.returncode == 0, changed.stdout + changed.stderr
    for name in COMPILING:
        holds_exactly(Node(name), version)
    again = recap(play(file, LIMIT).stdout)
    assert {name: again[name]["changed"] for name in COMPILING} == dict.fromkeys(COMPILING, 0)


# make test installs another set in test_versions.py.
@pytest.mark.full_in("gpu")
def test_a_whole_set_is_replaced_by_another(other):
    is_replaced(other(driver=NEW, words=OTHER_PARTS), NEW)
    for name in COMPILING:
        assert parts(Node(name)) == (
            {
                "cuda-toolkit-13-0": "13.0.2-1",
                "datacenter-gpu-manager-4-core": "1:4.5.3-1",
                "datacenter-gpu-manager-4-cuda13": "1:4.5.3-1",
                "datacenter-gpu-manager-4-proprietary": "1:4.5.3-1",
                "datacenter-gpu-manager-4-proprietary-cuda13": "1:4.5.3-1",
                "libnccl2": "2.30.4-1+cuda13.2",
                "libnccl-dev": "2.30.4-1+cuda13.2",
            },
            "/usr/local/cuda-13.0",
        )
        # A toolkit that is no longer of the set is nobody's, and what it brought with it.
        assert not {"cuda-toolkit-12-9", "libcublas-12-9"} & held(Node(name))


@pytest.mark.full_in("gpu")
def test_and_back(other):
    is_replaced(other(), OLD)
    for name in COMPILING:
        assert parts(Node(name)) == (
            {
                "cuda-toolkit-12-9": "12.9.1-1",
                "cuda-toolkit-13-0": "13.0.2-1",
                "datacenter-gpu-manager-4-core": "1:4.6.0-1",
                "datacenter-gpu-manager-4-cuda13": "1:4.6.0-1",
                "datacenter-gpu-manager-4-proprietary": "1:4.6.0-1",
                "datacenter-gpu-manager-4-proprietary-cuda13": "1:4.6.0-1",
                "libnccl2": "2.28.9-1+cuda12.9",
                "libnccl-dev": "2.28.9-1+cuda12.9",
            },
            "/usr/local/cuda-12.9",
        )


@pytest.mark.full_in("gpu")
def test_dcgm_that_leaves_the_file_is_let_go_and_comes_back(other):
    node = Node("gpu2")
    preferences = "ls /etc/apt/preferences.d /etc/apt/sources.list.d"
    for words, wanted in (({'  dcgm: "4"\n': ""}, False), ({}, True)):
        file = other(words=words)
        done = play(file, "--limit=gpu2")
        assert done.returncode == 0, done.stdout + done.stderr
        files = node.check_output(preferences).split()
        assert ("bedplate-dcgm.pref" in files) == wanted
        # The driver's too.
        assert "bedplate-nvidia.sources" in files
        assert ("datacenter-gpu-manager-4-core" in held(node)) == wanted
        unit = node.check_output("systemctl is-enabled nvidia-dcgm || true")
        assert unit == ("enabled" if wanted else "disabled")
        assert recap(play(file, "--limit=gpu2").stdout)["gpu2"]["changed"] == 0
        assert "datacenter-gpu-manager-4-core" in installed(node)
