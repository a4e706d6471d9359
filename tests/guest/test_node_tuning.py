# SPDX-License-Identifier: GPL-3.0-or-later
"""The role node_tuning on a machine with two NUMA nodes, an IOMMU, Debian's kernel and GRUB: applied, rebooted, read from the kernel.

The tests are steps: each one finds the guest as the one before it left it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lab.guest.machine import Guest
from lab.shell import say
from tests.guest.tuned_node import Run, TunedNode

pytestmark = [pytest.mark.guest, pytest.mark.step]

VARIABLES = {
    "node_tuning_isolated_cpus": "1,3",
    "node_tuning_init_on_alloc": False,
    "node_tuning_cmdline": ["audit=0"],
    "node_tuning_sysctl": {"vm.swappiness": 7},
    "node_tuning_modules": ["rdma_rxe"],
}
NOTE = "/run/bedplate/reboot-wanted/node_tuning"
USER = "alice"
_SLURMD = """\
cp /usr/bin/sleep /usr/local/sbin/slurmd
cat >/etc/systemd/system/slurmd.service <<END
[Service]
ExecStart=/usr/local/sbin/slurmd infinity
[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
systemctl enable --now --quiet slurmd
useradd --create-home alice
install -d -o alice -m 0700 /home/alice/.ssh
install -o alice -m 0600 /root/.ssh/authorized_keys /home/alice/.ssh/
"""

_JOB = (
    "cp /usr/bin/sleep /usr/local/sbin/slurmstepd; systemd-run --quiet --unit=job "
    "bash -c 'exec -a \"slurmstepd: [17.batch]\" /usr/local/sbin/slurmstepd 86400'"
)


def _words(run: Run) -> str:
    """Return the output of a run without its line breaks."""
    return " ".join(run.text.replace("\\n", " ").split())


@pytest.fixture(scope="module")
def node(guest: Guest, tmp_path_factory: pytest.TempPathFactory) -> TunedNode:
    """The guest, with a user and something that has the name of Slurm's daemon."""
    guest.run(_SLURMD)
    return TunedNode(guest, tmp_path_factory.mktemp("cluster"), dict(VARIABLES))


def _kernel(node: TunedNode) -> dict[str, Any]:
    """Return what the kernel that runs says of itself."""
    paths = {
        "cmdline": "/proc/cmdline",
        "isolated": "/sys/devices/system/cpu/isolated",
        "thp": "/sys/kernel/mm/transparent_hugepage/enabled",
        "numa_balancing": "/proc/sys/kernel/numa_balancing",
        "swappiness": "/proc/sys/vm/swappiness",
        "rmem": "/proc/sys/net/ipv4/tcp_rmem",
    }
    found: dict[str, Any] = {name: node.guest.read(path).strip() for name, path in paths.items()}
    found["tokens"] = found["cmdline"].split()
    found["clears_memory"] = "heap alloc:on" in node.guest.run("journalctl -b -k -o cat | grep 'mem auto-init'")
    return found


def _limits(node: TunedNode, user: str) -> dict[str, list[str]]:
    """Return soft and hard limits of who logs in, by a new connection, and of the unit with the name of Slurm's daemon."""
    command = node.guest.login("ulimit -Sl; ulimit -Hl; ulimit -Sn; ulimit -Hn")
    command[1:1] = ["-o", "ControlPath=none", "-l", user]
    import subprocess

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    rows = re.findall(
        r"Max (locked memory|open files) +(\S+) +(\S+)", node.guest.run("cat /proc/$(pidof slurmd)/limits")
    )
    return {"login": done.stdout.split(), **{name: [soft, hard] for name, soft, hard in rows}}


def test_an_untuned_guest_is_otherwise(node: TunedNode) -> None:
    """What is asserted later is not what Debian does by itself."""
    kernel = _kernel(node)
    assert node.pages() == {0: 0, 1: 0}
    assert node.guest.read("/sys/devices/system/node/online") == "0-1"
    assert "console=ttyS0" in kernel["tokens"]
    assert kernel["isolated"] == ""
    assert kernel["thp"] == "[always] madvise never"
    assert kernel["numa_balancing"] == "1"
    assert kernel["swappiness"] == "60"
    assert kernel["clears_memory"]
    assert node.iommu()
    assert "identity" not in node.iommu()
    assert _limits(node, USER)["login"][1] != "unlimited"


def test_check_mode_on_a_fresh_machine_changes_nothing(node: TunedNode) -> None:
    before = node.boot_files()
    run = node.play("apply", "--check", "--diff")
    assert run.code == 0, run.told
    assert run.counts["changed"] >= 1, run.told
    assert node.boot_files() == before
    assert not node.guest.ssh("ls /etc/bedplate /etc/sysctl.d/60-bedplate.conf").stdout


def test_a_run_brings_all_and_notes_that_a_reboot_is_wanted(node: TunedNode) -> None:
    run = node.play("apply")
    assert run.code == 0, run.told
    # Files, units, huge pages and boot tokens are one task.
    assert run.counts["changed"] == 1, run.told
    assert [path for path in (*_AT_REST, _GRUB) if node.guest.ssh(f"test -s {path}").returncode != 0] == []
    assert "isolcpus=managed_irq,domain,1,3" in node.guest.read(_GRUB)
    assert node.guest.ssh("systemctl is-enabled bedplate-tuning").returncode == 0
    note = node.guest.read(NOTE)
    assert "isolcpus=managed_irq,domain,1,3" in note
    # Not before the reboot: a kernel does not take a command line later.
    assert "isolcpus" not in node.guest.read("/proc/cmdline")


def test_a_second_run_changes_nothing(node: TunedNode) -> None:
    run = node.play("apply")
    assert run.code == 0, run.told
    assert run.counts["changed"] == 0, run.told
    assert node.guest.ssh(f"test -s {NOTE}").returncode == 0


def test_after_a_reboot_the_kernel_has_it(node: TunedNode) -> None:
    say("guest", f"rebooted in {node.guest.reboot():.0f} s")
    assert node.guest.failed_units() == []
    kernel = _kernel(node)
    wanted = {
        "iommu=pt", "default_hugepagesz=2M", "hugepagesz=2M", "hugepages=0:16,1:8", "transparent_hugepage=madvise", "init_on_alloc=0",
        "isolcpus=managed_irq,domain,1,3", "nohz_full=1,3", "rcu_nocbs=1,3", "audit=0",
    }  # fmt: skip
    assert wanted <= set(kernel["tokens"])
    # The installer's own stay, once each.
    assert [kernel["tokens"].count(one) for one in ("console=ttyS0", "mitigations=off")] == [1, 1]
    assert node.pages() == {0: 16, 1: 8}
    assert kernel["isolated"] == "1,3"
    assert kernel["thp"] == "always [madvise] never"
    assert kernel["numa_balancing"] == "0"
    assert kernel["swappiness"] == "7"
    assert kernel["rmem"].split() == ["4096", "131072", "268435456"]
    assert not kernel["clears_memory"]


def test_after_a_reboot_logins_and_the_daemon_may_lock_memory(node: TunedNode) -> None:
    for user in (USER, "root"):
        limits = _limits(node, user)
        assert limits["login"] == ["unlimited", "unlimited", "1048576", "1048576"], user
        assert limits["locked memory"] == ["unlimited", "unlimited"]
        assert limits["open files"] == ["1048576", "1048576"]


def test_after_a_reboot_devices_pass_the_iommu(node: TunedNode) -> None:
    assert node.iommu() == {"identity"}


def test_after_a_reboot_nobody_wants_another(node: TunedNode) -> None:
    run = node.play("apply")
    assert run.code == 0, run.told
    assert run.counts["changed"] == 0, run.told
    assert node.guest.ssh(f"test -e {NOTE}").returncode == 1


def test_verify_is_content(node: TunedNode) -> None:
    run = node.play("verify")
    assert run.code == 0, run.told
    assert run.counts["failed"] == 0, run.told


_NUMA = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"
_THP = "/sys/kernel/mm/transparent_hugepage"
_GRUB = "/etc/default/grub.d/zz-bedplate.cfg"
# What brings the settings at the next boot.
_AT_REST = (
    "/etc/bedplate/tuning.json",
    "/etc/sysctl.d/60-bedplate.conf",
    "/etc/systemd/system/bedplate-tuning.service",
    "/etc/systemd/system/slurmd.service.d/60-bedplate-limits.conf",
)
# Another value for every sysctl setting of the role.
_SYSCTL = {
    "kernel.numa_balancing": "1", "vm.swappiness": "60", "vm.zone_reclaim_mode": "1", "vm.max_map_count": "65530",
    "vm.overcommit_memory": "1", "vm.dirty_bytes": "104857600", "vm.dirty_background_bytes": "52428800", "kernel.pid_max": "100000",
    "net.core.rmem_max": "212992", "net.core.wmem_max": "212992", "net.ipv4.tcp_rmem": "4096 131072 6291456",
    "net.ipv4.tcp_wmem": "4096 16384 4194304", "net.core.netdev_max_backlog": "1000", "net.core.somaxconn": "128",
    "net.ipv4.tcp_max_syn_backlog": "128", "net.ipv4.tcp_mtu_probing": "0",
}  # fmt: skip
_TOKENS = (
    "iommu=pt", "default_hugepagesz=2M", "hugepages=0:16,1:8", "transparent_hugepage=madvise", "init_on_alloc=0",
    "isolcpus=managed_irq,domain,1,3", "nohz_full=1,3", "rcu_nocbs=1,3", "audit=0",
)  # fmt: skip


def _file(path: str, text: str) -> tuple[str, str]:
    return f"echo '{text}' >{path}", f"rm {path}"


def _in_place_of(path: str, make: str) -> tuple[str, str]:
    """Return what has a file of the kernel read otherwise, as it would after a boot without the setting."""
    return f"{make} >/run/other && mount --bind /run/other {path}", f"umount {path}"


def _sysctl(key: str, value: str) -> tuple[str, str]:
    path = f"/proc/sys/{key.replace('.', '/')}"
    return f"cat {path} >/run/was; echo '{value}' >{path}", f"cat /run/was >{path}"


def _away(path: str) -> tuple[str, str]:
    return f"mv {path} /run/away", f"mv /run/away {path}"


def _limit(name: str, other: str, right: str) -> tuple[str, str]:
    command = "prlimit --pid $(pidof slurmd) --{}={}"
    return command.format(name, other), command.format(name, right)


def _mutations() -> list[tuple[str, tuple[str, str]]]:
    """Return what verify has to name, and the commands that bring and take away the reason."""
    return [
        *((f"huge pages of 2M on NUMA node {node}", (f"echo {count - 1} >{_NUMA.format(node)}", f"echo {count} >{_NUMA.format(node)}"))
          for node, count in ((0, 16), (1, 8))),
        *((f"{_THP}/{name}", (f"echo always >{_THP}/{name}", f"echo madvise >{_THP}/{name}")) for name in ("enabled", "defrag")),
        *((f"sysctl {key}", _sysctl(key, value)) for key, value in _SYSCTL.items()),
        ("sysctl vm.swappiness", _file("/etc/sysctl.d/99-site.conf", "vm.swappiness = 60")),
        ("limit memlock (hard) of PAM", _file("/etc/security/limits.d/90-site.conf", "* hard memlock 64")),
        ("limit nofile (soft) of root", _file("/etc/security/limits.d/90-site.conf", "root soft nofile 1024")),
        ("limit memlock (soft) of slurmd", _limit("memlock", "65536:unlimited", "unlimited:unlimited")),
        ("limit nofile (hard) of slurmd", _limit("nofile", "1024:4096", "1048576:1048576")),
        ("kernel module rdma_rxe", ("modprobe --remove rdma_rxe", "modprobe rdma_rxe")),
        *((f"kernel command line, {token.partition('=')[0]}",
           _in_place_of("/proc/cmdline", f"sed -e 's/{token.replace('.', '[.]')}//' /proc/cmdline")) for token in _TOKENS),
        *((f"file {path}", _away(path)) for path in _AT_REST),
        ("unit bedplate-tuning.service", ("systemctl disable --quiet bedplate-tuning", "systemctl enable --quiet bedplate-tuning")),
        ("boot loader", (f"cp -p {_GRUB} /run/was; sed -i s/audit=0// {_GRUB}", f"cp -p /run/was {_GRUB}")),
        ("CPUs that are isolated", _in_place_of("/sys/devices/system/cpu/isolated", "echo")),
    ]  # fmt: skip


def test_verify_names_each_setting_that_was_changed_by_hand(node: TunedNode) -> None:
    rows = _mutations()
    assert len(rows) >= 20
    found = node.mutations([{"do": do, "undo": undo} for _name, (do, undo) in rows])
    wrong = []
    for (name, _commands), one in zip(rows, found["rows"], strict=True):
        if one["trouble"] or not any(name in line for line in one["wrong"]):
            wrong.append(f"{name}: {one}")
    say("guest", f"{len(rows)} settings changed by hand, {len(rows) - len(wrong)} named by verify")
    assert not wrong, "\n".join(wrong)
    assert found["after"] == []


def test_the_role_itself_names_two_of_them(node: TunedNode) -> None:
    node.guest.run(f"echo 3 >{_NUMA.format(1)}; echo 'vm.swappiness = 60' >/etc/sysctl.d/99-site.conf")
    run = node.play("verify")
    assert run.code == 2, run.told
    assert "NUMA node 1: expected 8, found 3" in run.text
    assert re.search(r"sysctl vm\.swappiness: expected 7, found 60, [a-z ]*/etc/sysctl\.d/99-site\.conf:1", run.text)
    node.guest.run(f"echo 8 >{_NUMA.format(1)}; rm /etc/sysctl.d/99-site.conf")


def test_other_wishes_and_fewer_pages_come_with_the_next_boot(node: TunedNode) -> None:
    node.want("2M: 16", "2M: 4")
    node.variables.update(node_tuning_cmdline=[], node_tuning_isolated_cpus="", node_tuning_thp="never")
    run = node.play("apply")
    assert run.code == 0, run.told
    # Given back at once, while the tokens wait.
    assert node.pages() == {0: 4, 1: 8}
    assert node.guest.ssh(f"test -s {NOTE}").returncode == 0
    say("guest", f"rebooted in {node.guest.reboot():.0f} s")
    kernel = _kernel(node)
    assert node.pages() == {0: 4, 1: 8}
    assert "hugepages=0:4,1:8" in kernel["tokens"]
    gone = ("audit", "isolcpus", "nohz_full", "rcu_nocbs")
    assert [token for token in kernel["tokens"] if token.partition("=")[0] in gone] == []
    assert kernel["isolated"] == ""
    assert kernel["thp"] == "always madvise [never]"
    run = node.play("verify")
    assert run.code == 0, run.told


def test_pages_wait_while_a_job_runs_and_come_when_it_has_ended(node: TunedNode) -> None:
    node.want("2M: 4", "2M: 40")
    node.guest.run(_JOB)
    for arguments in (["--check"], [], []):
        run = node.play("apply", *arguments)
        assert run.code == 0, run.told
        assert re.search(r"node1: [^:]*NUMA node 0: expected 40, found 4; .*slurmstepd", _words(run)), run.told
        assert node.pages() == {0: 4, 1: 8}
    assert run.counts["changed"] == 0, run.told
    node.guest.run("systemctl stop job")
    run = node.play("apply")
    assert run.code == 0, run.told
    assert run.counts["changed"] >= 1, run.told
    assert node.pages() == {0: 40, 1: 8}
    assert node.play("apply").counts["changed"] == 0


@pytest.mark.parametrize("percent", [95, 97])
def test_pages_below_the_floor_are_refused_with_numbers_and_no_file_changes(node: TunedNode, percent: int) -> None:
    memory, text = node.memory(), node.text
    before, counts = node.boot_files(), {number: mib * percent // 200 for number, mib in memory.items()}
    for number, pages in ((0, 40), (1, 8)):
        node.want(f"2M: {pages}}}", f"2M: {counts[number]}}}")
    # The cluster file states the memory: no machine is touched.
    run = node.play("apply")
    assert run.code not in (0, 2), run.told
    assert re.search(r"guest\.bedplate\.yml:\d+: profiles\.two_nodes\.numa\[1\]\.hugepages\.2M: ", _words(run)), (
        run.told
    )
    assert not run.counts, run.told
    # It states too much: the node itself knows.
    node.want("memory_mib: 1900", "memory_mib: 100000")
    for arguments in (["--check"], []):
        run = node.play("apply", *arguments)
        assert run.code == 2, run.told
        for number, mib in memory.items():
            most = f"at most {(mib - 512) // 2}: the NUMA node has {mib} MiB and must keep 512 MiB"
            assert f"NUMA node {number}: expected {most}, found {counts[number]} requested" in _words(run), run.told
    assert node.boot_files() == before
    assert node.pages() == {0: 40, 1: 8}
    node.text = text


def test_the_node_still_boots(node: TunedNode) -> None:
    say("guest", f"rebooted in {node.guest.reboot():.0f} s")
    assert node.pages() == {0: 40, 1: 8}
    assert node.guest.failed_units() == []


def test_a_node_boots_with_as_many_pages_as_are_allowed(node: TunedNode) -> None:
    """They are left to the boot, since this kernel may have too little memory in one piece."""
    counts = {number: (mib - 512) // 2 for number, mib in node.memory().items()}
    node.want("memory_mib: 1900", "memory_mib: 100000")
    for number, pages in ((0, 40), (1, 8)):
        node.want(f"2M: {pages}}}", f"2M: {counts[number]}}}")
    node.variables["node_tuning_hugepages"] = "boot"
    run = node.play("apply")
    assert run.code == 0, run.told
    assert node.pages() == {0: 40, 1: 8}
    say("guest", f"rebooted in {node.guest.reboot():.0f} s")
    assert node.pages() == counts
    assert node.guest.failed_units() == [], node.guest.run("journalctl --boot --unit=bedplate-tuning --no-pager")
    assert node.play("apply").counts["changed"] == 0


def test_the_playbook_reboots_a_node_that_runs_nothing_and_proves_it(node: TunedNode) -> None:
    node.variables.update(bedplate_reboot="allowed", node_tuning_thp="madvise")
    assert node.play("apply").code == 0
    before = node.guest.boot_id()
    run = node.play("reboot")
    assert run.code == 2, run.told
    assert re.search(r"\bslurmd runs\b", _words(run)), run.told
    assert node.guest.boot_id() == before
    node.guest.run("systemctl stop slurmd")
    run = node.play("reboot")
    assert run.code == 0, run.told
    assert node.guest.boot_id() not in ("", before)
    assert "transparent_hugepage=madvise" in node.guest.read("/proc/cmdline")
    run = node.play("reboot")
    assert (run.code, run.counts.get("changed")) == (0, 0), run.told


def test_the_playbook_fails_where_the_kernel_was_started_with_something_else(node: TunedNode) -> None:
    node.variables["node_tuning_thp"] = "never"
    assert node.play("apply").code == 0
    node.guest.run("sed -i s/transparent_hugepage=never// /boot/grub/grub.cfg; systemctl stop slurmd")
    run = node.play("reboot")
    assert run.code == 2, run.told
    assert "kernel command line, transparent_hugepage" in _words(run), run.told


def test_the_image_is_as_it_was_built(guest: Guest) -> None:
    """What a guest writes goes to its own disk."""
    from lab.guest import image

    written = Path(guest.folder / "disk.qcow2").stat().st_mtime
    assert image.ensure().stat().st_mtime != written
