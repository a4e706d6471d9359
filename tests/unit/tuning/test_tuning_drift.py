"""Every setting is read back: one that is changed by hand is named, and nothing else is."""

from __future__ import annotations

import errno
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning import apply_tuning, tuning_drift
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci import pci_config_space
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import shipped
from tests.kit import sentences

from .node import ENTRY, FILE, Node, as_wanted, deployed

SENTENCES = Path(__file__).parent / "sentences.txt"

Change = Callable[[Node], object]


@pytest.fixture
def told(tmp_path: Path) -> dict[str, Any]:
    return deployed(tmp_path)


@pytest.fixture
def node(tmp_path: Path, told: dict[str, Any]) -> Node:
    return as_wanted(tmp_path / "node", told)


def rows(node: Node, told: dict[str, Any]) -> list[str]:
    """Return the differences as lines."""
    root = Root(str(node.top))
    found = [
        f"{one.where}: wanted {one.expected}, found {one.found}"
        + (f" by {one.overridden_by}" if one.overridden_by else "")
        for one in tuning_drift.drift(root, told["expected"], node.run)
    ]
    assert not root.problems
    return found


def without(node: Node, token: str) -> None:
    node.put("proc/cmdline", f"{node.text('proc/cmdline').replace(token, '')}\n")


def put(path: str, text: str) -> Change:
    return lambda node: node.put(path, f"{text}\n")


def test_a_node_as_wanted_differs_in_nothing(node: Node, told: dict[str, Any]) -> None:
    assert rows(node, told) == []


NODE1 = "sys/devices/system/node/node1/hugepages"
SYS = "sys/devices/system/cpu"
_SITE = "by tuned profile site (/etc/tuned/profiles/site/tuned.conf"
TUNED = """[main]
summary=x
[cpu]
governor=powersave
[vm]
transparent_hugepages=always
[bootloader]
cmdline_site=+iommu=off quiet
"""
DIRTY = 4096 // 10 << 20
MUTATIONS: dict[str, tuple[Change, str]] = {
    "pages": (put(f"{NODE1}/hugepages-2048kB/nr_hugepages", "3"), "huge pages of 2M on NUMA node 1: wanted 8, found 3"),
    "large pages": (put(f"{NODE1}/hugepages-1048576kB/nr_hugepages", "0"), "huge pages of 1G on NUMA node 1: wanted 1, found 0"),
    "pages that nobody wants": (
        put("sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages", "2"),
        "huge pages of 1G on NUMA node 0: wanted 0, found 2",
    ),
    "iommu": (lambda node: without(node, "iommu=pt"), "kernel command line, iommu: wanted iommu=pt, found nothing"),
    "thp at boot": (
        lambda node: without(node, "transparent_hugepage=madvise"),
        "kernel command line, transparent_hugepage: wanted transparent_hugepage=madvise, found nothing",
    ),
    "init_on_alloc": (
        lambda node: without(node, "init_on_alloc=0"), "kernel command line, init_on_alloc: wanted init_on_alloc=0, found nothing"
    ),
    "the site's token": (
        lambda node: without(node, "mitigations=auto"), "kernel command line, mitigations: wanted mitigations=auto, found nothing"
    ),
    "isolated": (put(f"{SYS}/isolated", ""), "CPUs that are isolated: wanted 2-3, found none"),
    "nohz_full": (put(f"{SYS}/nohz_full", "(null)"), "CPUs that are nohz_full: wanted 2-3, found none"),
    "IOMMU's mode": (
        put("sys/kernel/iommu_groups/0/type", "DMA-FQ"), "IOMMU of 1 of 1 groups of devices: wanted identity (passthrough), found DMA-FQ"
    ),
    "thp": (
        put("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
        "/sys/kernel/mm/transparent_hugepage/enabled: wanted madvise, found always",
    ),
    "thp_defrag": (
        put("sys/kernel/mm/transparent_hugepage/defrag", "[always] madvise never"),
        "/sys/kernel/mm/transparent_hugepage/defrag: wanted madvise, found always",
    ),
    "governor": (
        put(f"{SYS}/cpu1/cpufreq/scaling_governor", "powersave"),
        f"/{SYS}/cpu1/cpufreq/scaling_governor: wanted performance, found powersave",
    ),
    "idle state that is deep": (put(f"{SYS}/cpu0/cpuidle/state1/disable", "0"), f"/{SYS}/cpu0/cpuidle/state1/disable: wanted 1, found 0"),
    "idle state that is not": (put(f"{SYS}/cpu0/cpuidle/state0/disable", "1"), f"/{SYS}/cpu0/cpuidle/state0/disable: wanted 0, found 1"),
    "sysctl": (put("proc/sys/vm/swappiness", "60"), "sysctl vm.swappiness: wanted 1, found 60"),
    "sysctl of several numbers": (
        put("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456"),
        "sysctl net.ipv4.tcp_rmem: wanted 4096 131072 268435456, found 4096 131072 6291456",
    ),
    "NUMA balancing": (put("proc/sys/kernel/numa_balancing", "1"), "sysctl kernel.numa_balancing: wanted 0, found 1"),
    "sysctl of somebody else": (
        put("etc/sysctl.d/99-site.conf", "# ours\nvm.swappiness=60"),
        "sysctl vm.swappiness: wanted 1, found 60 by /etc/sysctl.d/99-site.conf:2",
    ),
    "a later file with the partner of a key": (
        put("etc/sysctl.d/99-site.conf", "vm.dirty_ratio = 20\nvm.dirty_background_ratio = 0"),
        f"sysctl vm.dirty_bytes: wanted {DIRTY}, found vm.dirty_ratio 20 by /etc/sysctl.d/99-site.conf:1",
    ),
    "the kernel has the partner of a key": (
        put("proc/sys/vm/dirty_bytes", "0"), f"sysctl vm.dirty_bytes: wanted {DIRTY}, found 0"
    ),
    "tuned's partner of a key": (
        lambda node: (
            node.put("etc/tuned/active_profile", "site\n"),
            node.put("etc/tuned/profiles/site/tuned.conf", "[vm]\ndirty_ratio = 40\n"),
        ),
        f"sysctl vm.dirty_bytes: wanted {DIRTY}, found vm.dirty_ratio 40 {_SITE}:2)",
    ),
    "sysctl of the old file": (
        put("etc/sysctl.conf", "net/core/somaxconn = 128"),
        "sysctl net.core.somaxconn: wanted 4096, found 128 by /etc/sysctl.conf:1",
    ),
    "sysctl of tuned": (
        lambda node: (
            node.put("etc/tuned/active_profile", "site\n"),
            node.put("etc/tuned/tuned-main.conf", "# x\nreapply_sysctl = 0\n"),
            node.put("etc/tuned/site/tuned.conf", "[main]\ninclude=hpc-compute\n"),
            node.put("usr/lib/tuned/hpc-compute/tuned.conf", "[vm]\nvm.swappiness=3\n[sysctl]\nvm.zone_reclaim_mode=1\n"),
        ),
        "sysctl vm.zone_reclaim_mode: wanted 0, found 1 by tuned profile hpc-compute (/usr/lib/tuned/hpc-compute/tuned.conf:4)",
    ),
    "PAM's hard limit": (
        lambda node: node.put(
            "etc/security/limits.d/60-bedplate.conf",
            "\n".join(f"* {kind} {item}" for kind in ("soft", "hard") for item in ("memlock unlimited", "nofile 1048576"))
            .replace("hard memlock unlimited", "hard memlock 65536"),
        ),
        "limit memlock (hard) of PAM: wanted unlimited, found 65536",
    ),
    "PAM's limit of a group": (
        put("etc/security/limits.d/90-site.conf", "@ml - nofile 1024"),
        "limit nofile (soft) of @ml, set in /etc/security/limits.d/90-site.conf:1: wanted 1048576, found 1024\n"
        "limit nofile (hard) of @ml, set in /etc/security/limits.d/90-site.conf:1: wanted 1048576, found 1024",
    ),
    "slurmd's limit": (
        lambda node: node.put("proc/77/limits", node.text("proc/77/limits").replace("unlimited ", "8388608   ", 1)),
        "limit memlock (soft) of slurmd: wanted unlimited, found 8388608",
    ),
    "module": (
        lambda node: (node.top / "sys/module/nvidia_peermem").rename(node.top / "sys/module/other"),
        "kernel module nvidia-peermem: wanted loaded, found not loaded",
    ),
    "ACS": (
        lambda node: node.function("0000:00:01.0", "0x060400", acs=0x1D),
        "ACS of the PCI port 0000:00:01.0: wanted off, found on (control word 0x001d)",
    ),
    "a GPU at another NUMA node": (
        put("sys/bus/pci/devices/0000:18:00.0/numa_node", "1"), "GPU 0 at 0000:18:00.0: wanted NUMA node 0, found NUMA node 1"
    ),
    "a GPU that fell off": (
        lambda node: node.put("sys/bus/pci/devices/0000:9a:00.0/vendor", "0xffff\n"), "GPUs: wanted 2, found 1: 0000:18:00.0"
    ),
    "a NIC of another name": (
        lambda node: (node.top / "sys/bus/pci/devices/0000:3b:00.0/infiniband/mlx5_0").rename(
            node.top / "sys/bus/pci/devices/0000:3b:00.0/infiniband/ibp59s0"
        ),
        "NIC mlx5_0: wanted present, found unknown name; not in the profile: ibp59s0 at 0000:3b:00.0",
    ),
    "the boot loader's entry": (
        lambda node: node.put(ENTRY, node.text(ENTRY).replace("iommu=pt ", "") + "\n"),
        f"boot loader: wanted the tokens of the role, found other ones: /{ENTRY}",
    ),
    "sysctl that is to be left alone": (
        put("etc/sysctl.d/99-site.conf", "-vm.swappiness"),
        "sysctl vm.swappiness: wanted 1, found not set at boot by /etc/sysctl.d/99-site.conf:1",
    ),
    "sysctl by a pattern": (
        put("etc/sysctl.d/99-site.conf", "net.core.*mem_max = 212992"),
        "sysctl net.core.rmem_max: wanted 268435456, found 212992 by /etc/sysctl.d/99-site.conf:1\n"
        "sysctl net.core.wmem_max: wanted 268435456, found 212992 by /etc/sysctl.d/99-site.conf:1",
    ),
    "sysctl of a file that hides ours": (
        put("etc/sysctl.d/zz.conf", "vm.swappiness = 30\n; vm.swappiness = 31"),
        "sysctl vm.swappiness: wanted 1, found 30 by /etc/sysctl.d/zz.conf:1",
    ),
    "tuned's [vm], [cpu] and [bootloader]": (
        lambda node: (
            node.put("etc/tuned/active_profile", "site\n"),
            node.put("etc/tuned/profiles/site/tuned.conf", TUNED),
        ),
        f"CPU governor: wanted performance, found powersave {_SITE}:4)\n"
        f"/sys/kernel/mm/transparent_hugepage/enabled: wanted madvise, found always {_SITE}:6)\n"
        f"kernel command line, iommu: wanted iommu=pt, found iommu=off {_SITE}:8)",
    ),
    "a login": (
        lambda node: (
            node.put("login", node.text("login").replace("1048576 ", "1024 ", 1)),
            node.put("etc/passwd", "root:x:0:0::/root:/bin/bash\nalice:x:1000:1000::/home/alice:/bin/bash\n"),
        ),
        "\n".join(
            f"limit nofile (soft) of a login of {user}: wanted 1048576, found 1024 by the user's groups, or a script of the shell: "
            "/etc/profile, /etc/profile.d" for user in ("root", "alice")
        ),
    ),
    "PAM without limits": (
        put("etc/pam.d/sshd", "# of the site\n#session required pam_limits.so"),
        "PAM service sshd: wanted session required pam_limits.so, found commented out by /etc/pam.d/sshd:2",
    ),
    "a wanted module that is replaced": (
        put("etc/modprobe.d/site.conf", "# no\ninstall nvidia_peermem /bin/false"),
        "kernel module nvidia-peermem: wanted loadable, found replaced by /bin/false by /etc/modprobe.d/site.conf:2",
    ),
    "a wanted module that is blacklisted": (
        put("usr/lib/modprobe.d/site.conf", "blacklist nvidia-peermem"),
        "kernel module nvidia-peermem: wanted loadable, found blacklisted by /usr/lib/modprobe.d/site.conf:1",
    ),
    "an entry of somebody else": (
        put("boot/loader/entries/z.conf", "title z\nlinux /vmlinuz\noptions root=/dev/vda1"),
        "boot loader: wanted the tokens of the role, found other ones: /boot/loader/entries/z.conf",
    ),
    "relaxed ordering": (
        lambda node: node.function("0000:3b:00.0", "0x020700", request=5, relaxed=False),
        "PCIe relaxed ordering of the NIC 0000:3b:00.0: wanted on, found off",
    ),
    "a bridge that sleeps": (
        put("sys/bus/pci/devices/0000:00:01.0/power/control", "auto"),
        "power control of 1 of 1 PCI bridges above GPUs, such as 0000:00:01.0: wanted on, found auto",
    ),
    "a bridge without power control": (
        lambda node: (node.top / "sys/bus/pci/devices/0000:00:01.0/power/control").unlink(),
        "power control of PCI bridges: wanted , found 1 of 1 PCI bridges above GPUs have no power control, such as 0000:00:01.0",
    ),
    "read request": (
        lambda node: node.function("0000:3b:00.0", "0x020700"),
        "PCIe read request of the NIC 0000:3b:00.0: wanted 4096 bytes, found 512 bytes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_setting_that_is_changed_by_hand_is_named_alone(name: str, node: Node, told: dict[str, Any]) -> None:
    change, line = MUTATIONS[name]
    change(node)
    assert rows(node, told) == line.split("\n")


# What apply can mend, of the above.
MENDED = {
    "pages", "large pages", "thp", "thp_defrag", "governor", "idle state that is deep", "idle state that is not", "sysctl",
    "sysctl of several numbers", "NUMA balancing", "the kernel has the partner of a key", "ACS", "read request",
    "relaxed ordering", "a bridge that sleeps",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(MENDED))
def test_the_unit_mends_what_a_boot_forgets(
    name: str, node: Node, told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    MUTATIONS[name][0](node)
    assert apply_tuning.main([str(node.top / "etc/bedplate/tuning.json"), str(node.top)]) == 0
    assert capsys.readouterr().err == ""
    # The files of a tree keep what was written to them, where the kernel marks its choice.
    for kind in ("enabled", "defrag"):
        if node.text(f"sys/kernel/mm/transparent_hugepage/{kind}") == "madvise":
            node.put(f"sys/kernel/mm/transparent_hugepage/{kind}", "[madvise]\n")
    assert rows(node, told) == []


@pytest.mark.parametrize("name", ["ACS", "read request", "relaxed ordering"])
def test_a_device_that_ignores_a_write_is_a_failure_of_the_unit(
    name: str, node: Node, told: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    MUTATIONS[name][0](node)
    usual = Path.open

    def ignored(path: Path, mode: str = "r", *arguments: Any, **more: Any) -> Any:
        return io.BytesIO() if mode == "r+b" else usual(path, mode, *arguments, **more)

    monkeypatch.setattr(Path, "open", ignored)
    assert apply_tuning.main([str(node.top / "etc/bedplate/tuning.json"), str(node.top)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "PCI function 0000:" in line
    assert len(rows(node, told)) == 1


def test_interrupts_of_a_nic_go_to_the_cores_of_its_node_that_jobs_do_not_get(tmp_path: Path) -> None:
    text = FILE.replace("    memory_mib:", "    system_cores: 1\n    memory_mib:")
    told = deployed(tmp_path, text, irqs="auto")
    assert told["expected"]["settings"]["irqs"] == {"cores": [0, 2], "nics": [{"name": "mlx5_0", "pci": ""}]}
    node = as_wanted(tmp_path / "node", told)
    for number in (50, 51):
        node.put(f"sys/bus/pci/devices/0000:3b:00.0/msi_irqs/{number}", "msix\n")
        node.put(f"proc/irq/{number}/smp_affinity_list", "0-3\n")
        node.put(f"proc/irq/{number}/effective_affinity_list", "3\n")
    assert [row.partition(":")[0] for row in rows(node, told)] == ["interrupts of mlx5_0"]
    assert list(apply_tuning.apply(Root(str(node.top)), told["expected"]["settings"])) == []
    assert [node.text(f"proc/irq/{number}/smp_affinity_list") for number in (50, 51)] == ["0", "0"]


def bios(last: int, length: int) -> bytes:
    """Return SMBIOS's structure of the firmware with this formatted length, whose byte 0x13 is `last`."""
    return bytes([0, length]) + bytes(17) + bytes([last]) + bytes(6)


ARM64 = "processor\t: 0\nFeatures\t: fp asimd evtstrm aes hypervisor\n"


@pytest.mark.parametrize("cpuinfo", ["flags : fpu hypervisor\n", ARM64], ids=["x86", "arm64"])
def test_in_a_virtual_machine_pci_is_left_alone(cpuinfo: str, node: Node, told: dict[str, Any]) -> None:
    MUTATIONS["ACS"][0](node)
    node.put("proc/cpuinfo", cpuinfo)
    if cpuinfo is ARM64:
        node.put("sys/firmware/dmi/entries/0-0/raw", "").write_bytes(bios(0x18, length=26))
    before = (node.top / "sys/bus/pci/devices/0000:00:01.0/config").read_bytes()
    assert list(apply_tuning.apply(Root(str(node.top)), told["expected"]["settings"])) == []
    assert (node.top / "sys/bus/pci/devices/0000:00:01.0/config").read_bytes() == before
    assert rows(node, told) == []


# Behind the formatted part are the texts: the first letter of "Phoenix" has the bit, too.
@pytest.mark.parametrize(
    "raw", [bios(0x08, length=26), bios(0, length=26)[:19], bios(ord("P"), length=19)], ids=["no-bit", "cut", "text"]
)
def test_an_arm64_machine_whose_firmware_does_not_say_that_it_is_virtual_is_not(raw: bytes, tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.put("proc/cpuinfo", ARM64)
    assert not pci_config_space.is_virtual(Root(str(tmp_path)))
    node.put("sys/firmware/dmi/entries/0-0/raw", "").write_bytes(raw)
    assert not pci_config_space.is_virtual(Root(str(tmp_path)))


# EL's throughput-performance has more lines: those that concern a setting of the role.
_EL = """[cpu]
governor=performance
[vm]
transparent_hugepages=madvise
[sysctl]
vm.dirty_ratio = 40
vm.dirty_background_ratio = 10
vm.swappiness=10
net.core.somaxconn=>2048
kernel.pid_max=>4194305
"""


def tuned(node: Node, profile: str, main: str | None = None) -> None:
    node.put("etc/tuned/active_profile", "throughput-performance\n")
    node.put("usr/lib/tuned/throughput-performance/tuned.conf", profile)
    if main is not None:
        node.put("etc/tuned/tuned-main.conf", main)


@pytest.mark.parametrize("main", [None, "reapply_sysctl = 1\n", "reapply_sysctl = 0\nreapply_sysctl = true\n"])
def test_sysctl_lines_of_tuned_lose_to_sysctl_d_where_tuned_applies_that_again(
    node: Node, told: dict[str, Any], main: str | None
) -> None:
    tuned(node, _EL, main)
    assert rows(node, told) == []


@pytest.mark.parametrize("main", ["reapply_sysctl = 0\n", "reapply_sysctl=False\n"])
def test_sysctl_lines_of_tuned_win_where_it_does_not(node: Node, told: dict[str, Any], main: str) -> None:
    """A line that only raises a value below the role's changes nothing."""
    tuned(node, _EL, main)
    found = [row.partition(":")[0] for row in rows(node, told)]
    assert found == [
        "sysctl vm.dirty_bytes",
        "sysctl vm.dirty_background_bytes",
        "sysctl vm.swappiness",
        "sysctl kernel.pid_max",
    ]


def test_advice_on_tuned_names_the_variables(node: Node, told: dict[str, Any]) -> None:
    tuned(node, f"{TUNED}[sysctl]\nvm.swappiness=10\n", "reapply_sysctl=0\n")
    found = list(tuning_drift.drift(Root(str(node.top)), told["expected"], node.run))
    assert {one.kind for one in found} == {"tuned"}
    assert all("node_tuning_tuned" in one.remedy for one in found)
    wanted = [
        "node_tuning_governor: powersave",
        "node_tuning_thp: always",
        "node_tuning_cmdline",
        "{vm.swappiness: null}",
    ]
    assert [word for word, one in zip(wanted, found, strict=True) if word not in one.remedy] == []
    sentences.check(SENTENCES, "a profile of tuned that contradicts", [str(found[0])])


def test_a_profile_of_a_tuned_that_is_off_is_not_compared(tmp_path: Path) -> None:
    told = deployed(tmp_path, tuned="off")
    node = as_wanted(tmp_path / "node", told)
    tuned(node, TUNED, "reapply_sysctl=0\n")
    assert rows(node, told) == []


def test_a_node_that_boots_from_the_network_is_compared_with_what_runs_alone(tmp_path: Path) -> None:
    told = deployed(tmp_path, FILE.replace("    memory_mib:", "    boot: network\n    memory_mib:"))
    node = as_wanted(tmp_path / "node", told)
    node.put(ENTRY, "title another\nlinux /vmlinuz\noptions root=/dev/vda1\n")
    assert rows(node, told) == []
    without(node, "iommu=pt")
    (found,) = tuning_drift.drift(Root(str(node.top)), told["expected"], node.run)
    assert (found.kind, found.expected, found.reboot) == ("kernel-cmdline", "iommu=pt", True)
    assert "boot_tokens.yml" in found.remedy


KEPT = ("node_tuning_acs: keep", "node_tuning_read_request: 0", "node_tuning_relaxed_ordering: keep")


@pytest.mark.parametrize(
    ("lockdown", "mode"),
    [("none [integrity] confidentiality", "integrity"), ("none integrity [confidentiality]", "confidentiality")],
)
def test_a_kernel_in_lockdown_leaves_pci_alone_and_is_one_warning(
    node: Node, told: dict[str, Any], monkeypatch: pytest.MonkeyPatch, lockdown: str, mode: str
) -> None:
    """It refuses each write to a configuration space, so that the unit must not try: it would fail at every boot."""
    node.put("sys/kernel/security/lockdown", f"{lockdown}\n")
    assert rows(node, told) == []
    MUTATIONS["ACS"][0](node)
    node.function("0000:3b:00.0", "0x020700", relaxed=False)

    def refuse(self: pci_config_space.Function, at: int, value: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(pci_config_space.Function, "_write", refuse)
    assert apply_tuning.main([str(node.top / "etc/bedplate/tuning.json"), str(node.top)]) == 0
    (found,) = tuning_drift.drift(Root(str(node.top)), told["expected"], node.run)
    assert (found.kind, found.severity) == ("lockdown", "warning")
    assert [word for word in (mode, "0000:00:01.0", "0000:3b:00.0", "4096") if word not in found.found] == []
    assert [word for word in KEPT if word not in found.remedy] == []
    sentences.check(SENTENCES, f"PCI settings of a kernel in lockdown: {mode}", [str(found)])


@pytest.mark.parametrize("port", [("0x8086", "0x6f02"), ("0x1022", "0x1a01")])
def test_below_root_ports_that_mix_up_relaxed_writes_linux_decides(
    node: Node, told: dict[str, Any], port: tuple[str, str]
) -> None:
    MUTATIONS["relaxed ordering"][0](node)
    for name, text in zip(("vendor", "device"), port, strict=True):
        node.put(f"sys/bus/pci/devices/0000:00:02.0/{name}", f"{text}\n")
    before = (node.top / "sys/bus/pci/devices/0000:3b:00.0/config").read_bytes()
    assert rows(node, told) == []
    assert list(apply_tuning.apply(Root(str(node.top)), told["expected"]["settings"])) == []
    assert (node.top / "sys/bus/pci/devices/0000:3b:00.0/config").read_bytes() == before


def test_a_virtual_function_has_no_request_and_no_ordering_of_its_own(node: Node, told: dict[str, Any]) -> None:
    node.function("0000:3b:00.1", "0x020700", relaxed=False)
    node.put("sys/bus/pci/devices/0000:3b:00.1/infiniband/mlx5_1/node_guid", "")
    settings = {**told["expected"]["settings"], "acs_off": False}
    found = [one.kind for one in pci_config_space.drift(Root(str(node.top)), settings)]
    assert found == ["read-request", "relaxed-ordering"]
    (node.top / "sys/bus/pci/devices/0000:3b:00.1/physfn").symlink_to("../0000:3b:00.0")
    assert list(pci_config_space.drift(Root(str(node.top)), settings)) == []


def test_a_kernel_that_could_be_locked_down_and_is_not_is_tuned(node: Node, told: dict[str, Any]) -> None:
    node.put("sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
    MUTATIONS["ACS"][0](node)
    assert len(rows(node, told)) == 1
    assert list(apply_tuning.apply(Root(str(node.top)), told["expected"]["settings"])) == []
    assert rows(node, told) == []


def test_pages_below_the_floor_are_refused_by_the_unit_too(node: Node, told: dict[str, Any]) -> None:
    settings = json.loads(json.dumps(told["expected"]["settings"]))
    settings["pages"][-1]["count"] = 1024
    failed = list(apply_tuning.apply(Root(str(node.top)), settings))
    assert [line.partition(":")[0] for line in failed] == [
        f"huge pages of {size} on NUMA node 1" for size in ("1G", "2M")
    ]
    assert all(number in failed[1] for number in ("1024 requested", "at most 256", "2048 MiB", "512 MiB"))
    assert node.text(f"{NODE1}/hugepages-2048kB/nr_hugepages") == "8"


def test_the_unit_takes_no_pages_while_a_job_runs_and_does_not_fail_for_that(
    node: Node, told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    MUTATIONS["pages"][0](node)
    node.put("proc/42/comm", "slurmstepd\n")
    arguments = [str(node.top / "etc/bedplate/tuning.json"), str(node.top)]
    assert apply_tuning.main(arguments) == 0
    assert node.text(f"{NODE1}/hugepages-2048kB/nr_hugepages") == "3"
    (line,) = capsys.readouterr().out.splitlines()
    assert " of 2M on NUMA node 1: " in line
    assert re.findall(r"(\d+)[,;]", line) == ["8", "3"]
    found = [(one.kind, one.severity) for one in tuning_drift.drift(Root(str(node.top)), told["expected"])]
    assert [row for row in found if row[0].startswith("huge-pages")] == [("huge-pages-waiting", "notice")]
    node.put("proc/42/comm", "bash\n")
    assert apply_tuning.main(arguments) == 0
    assert node.text(f"{NODE1}/hugepages-2048kB/nr_hugepages") == "8"


def test_a_setting_that_the_machine_lacks_is_told_of(node: Node, told: dict[str, Any]) -> None:
    (node.top / "sys/kernel/mm/transparent_hugepage/defrag").unlink()
    (node.top / "proc/sys/vm/swappiness").unlink()
    failed = list(apply_tuning.apply(Root(str(node.top)), told["expected"]["settings"]))
    assert [line.partition(": ")[0] for line in failed] == [
        "sysctl vm.swappiness",
        "/sys/kernel/mm/transparent_hugepage/defrag",
    ]
    assert [value in line for value, line in zip((" 1: ", " madvise: "), failed, strict=True)] == [True, True]
    sentences.check(SENTENCES, "settings that a machine lacks", failed)


def test_a_node_runs_what_is_shipped_with_nothing_else_of_ours(
    tmp_path: Path, node: Node, told: dict[str, Any]
) -> None:
    assert 10 < len(shipped.files("tuning.apply_tuning")) < 25
    place = node.top / shipped.library("tuning.apply_tuning").lstrip("/")
    MUTATIONS["sysctl"][0](node)
    module = shipped.command("tuning.apply_tuning").split()[-1]
    done = subprocess.run(
        [sys.executable, "-S", "-m", module, str(node.top / "etc/bedplate/tuning.json"), str(node.top)],
        env={"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert node.text("proc/sys/vm/swappiness") == "1"


def test_settings_that_are_none_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text("{}")
    assert apply_tuning.main([str(tmp_path / "x.json")]) == 1
    assert "playbooks/tuning.yml" in capsys.readouterr().err
