"""What node_tuning and rdma bring for the next boot: entries, files, limits, units and packages; and that verify misses what goes."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

from lab.scenario_run import machine, recap, run

testinfra_hosts = ["ansible://compute_nodes"]

SCENARIO = Path(__file__).parents[1]
PLAYBOOKS = SCENARIO.parents[1] / "playbooks"
ENTRY = "/boot/loader/entries/a.conf"
SYSCTL = "/etc/sysctl.d/60-bedplate.conf"
TOKENS = (
    "iommu=pt default_hugepagesz=2M hugepagesz=2M hugepages=0:16,1:8 transparent_hugepage=madvise "
    "isolcpus=managed_irq,domain,1,3 nohz_full=1,3 rcu_nocbs=1,3 audit=0"
)
LIBRARIES = "/usr/local/lib/bedplate"
UNITS = ("bedplate-tuning", "bedplate-rdma")
NODES = ("node1", "node2")


@pytest.fixture
def other(tmp_path: Path):
    """Return a function that writes the scenario's cluster file with another text in place of one."""

    def write(old: str, new: str) -> Path:
        text = (SCENARIO / "node_settings.bedplate.yml").read_text()
        assert old in text
        (tmp_path / "group_vars").symlink_to(SCENARIO / "group_vars")
        path = tmp_path / "other.bedplate.yml"
        path.write_text(text.replace(old, new))
        return path

    return write


def play(*playbooks: str, cluster_file: Path = SCENARIO / "node_settings.bedplate.yml", more: tuple[str, ...] = ()):
    """Run a playbook on both nodes; the result has the recap of each."""
    done = run("node_settings", PLAYBOOKS / playbooks[0], cluster_file, f"--limit={','.join(NODES)}", *more)
    return done, [recap(done.stdout).get(name, {}) for name in NODES]


def drift() -> dict[str, dict[str, str]]:
    """Return what verify finds on each node: node -> where -> found, with what overrides it."""
    rows: dict[str, dict[str, str]] = {name: {} for name in NODES}
    with tempfile.NamedTemporaryFile() as file:
        done, counts = play("verify.yml", more=("--tags=tuning,rdma", f"--extra-vars=verify_report_file={file.name}"))
        # In a container there is always something: its kernel is another machine's. The run fails once, for all machines.
        assert (done.returncode, sum(one["failed"] for one in counts)) == (2, 1), done.stdout
        for one in json.loads(Path(file.name).read_text()):
            override = f", overridden by {one['overridden_by']}" if one["overridden_by"] else ""
            for name in NODES:
                if one["machine"] == name:
                    rows[name][one["where"]] = one["found"] + override
    return rows


def options(host) -> str:
    return re.search(r"^options (.*)$", host.file(ENTRY).content_string, re.MULTILINE)[1]


def test_the_boot_loaders_entry_has_the_tokens_and_keeps_what_is_not_theirs(host):
    assert options(host) == f"root=/dev/vda1 quiet {TOKENS}"


def test_a_reboot_is_noted_with_what_the_running_kernel_lacks(host):
    note = host.file("/run/bedplate/reboot-wanted/node_tuning").content_string
    assert all(token in note for token in TOKENS.split())


def test_a_login_has_the_limits(host):
    for user in ("alice", "root"):
        found = host.check_output(f"su - {user} -c 'ulimit -Sl; ulimit -Hl; ulimit -Sn; ulimit -Hn'")
        assert found.split() == ["64", "64", "512", "512"], user


def test_slurms_daemon_has_the_limits_from_its_next_start(host):
    # A run restarts nothing that has jobs.
    before = host.check_output("systemctl show slurmd --property=ExecMainStartTimestampMonotonic")
    shown = host.check_output("systemctl show slurmd --property=LimitNOFILE,LimitMEMLOCK").split()
    assert sorted(shown) == ["LimitMEMLOCK=65536", "LimitNOFILE=512"]
    assert before == host.check_output("systemctl show slurmd --property=ExecMainStartTimestampMonotonic")
    host.check_output("systemctl restart slurmd")
    limits = host.check_output("cat /proc/$(pidof slurmd)/limits")
    assert re.search(r"Max locked memory +65536 +65536 ", limits)
    assert re.search(r"Max open files +512 +512 ", limits)


@pytest.mark.parametrize("unit", UNITS)
def test_the_units_are_sound_and_stay_away_from_another_machines_kernel(host, unit):
    shown = host.check_output(f"systemctl show {unit} --property=UnitFileState,ActiveState,ConditionResult").split()
    assert sorted(shown) == ["ActiveState=inactive", "ConditionResult=no", "UnitFileState=enabled"]
    checked = host.run(f"systemd-analyze verify /etc/systemd/system/{unit}.service")
    assert (checked.rc, re.findall(f".*{unit}.*", checked.stderr)) == (0, [])


@pytest.mark.parametrize(
    ("module", "settings"), [("tuning.apply_tuning", "tuning.json"), ("rdma.apply_rdma", "rdma.json")]
)
def test_the_code_that_the_units_run_runs_with_this_machines_python(host, module, settings):
    """On an empty tree, where nothing can be had: it says so of each setting."""
    host.check_output("mkdir -p /tmp/tree")
    done = host.run(
        f"env PYTHONPATH={LIBRARIES}/{module.partition('.')[0]} PYTHONDONTWRITEBYTECODE=1 "
        f"python3 -m ansible_collections.bedplate.cluster.plugins.module_utils."
        f"{module} /etc/bedplate/{settings} /tmp/tree"
    )
    assert "Traceback" not in done.stderr
    if module == "tuning.apply_tuning":
        assert done.rc == 1
        assert re.search(r"sysctl vm\.swappiness: cannot be set to 7\b", done.stderr)
    else:
        # Devices that are not there yet start it again when they come.
        assert (done.rc, done.stderr) == (0, "")


def test_systemd_reads_the_settings_of_sysctl_at_boot(host):
    # Not by sysctl itself: here it would set those of the machine below.
    read = host.check_output("systemd-analyze cat-config sysctl.d").splitlines()
    own = read[read.index(f"# {SYSCTL}") :]
    assert {"vm.swappiness = 7", "kernel.numa_balancing = 0"} <= set(own)
    assert not [line for line in own if line.startswith("vm.nr_hugepages")]


def test_interrupts_go_to_the_cores_that_jobs_do_not_get(host):
    settings = json.loads(host.file("/etc/bedplate/tuning.json").content_string)
    assert settings["irqs"]["cores"] == [0, 2]
    assert [nic["name"] for nic in settings["irqs"]["nics"]] == ["mlx5_0", "mlx5_1"]
    assert host.file("/etc/udev/rules.d/62-bedplate-irqs.rules").exists
    assert host.service("bedplate-irqs.timer").is_running
    # A container's interrupts are another machine's.
    host.check_output("systemctl start bedplate-irqs.service")
    condition = host.check_output("systemctl show --property ConditionResult --value bedplate-irqs.service")
    assert condition == "no"


def test_rdma_has_its_software_modules_names_and_nccls_settings(host):
    for package in ("rdma-core", "ibverbs-utils", "infiniband-diags", "perftest"):
        assert host.package(package).is_installed
    assert host.run("ib_write_bw --version").stdout.startswith("Version:")
    modules = host.file("/etc/modules-load.d/bedplate-rdma.conf").content_string.split()
    assert {"ib_uverbs", "rdma_cm", "rdma_ucm"} <= set(modules)
    assert host.file("/etc/nccl.conf").content_string.splitlines()[1:] == [
        "NCCL_IB_HCA==mlx5_0,mlx5_1",
        "NCCL_IB_TC=106",
    ]
    rules = [f"/etc/udev/rules.d/{name}.rules" for name in ("60-rdma-persistent-naming", "61-bedplate-rdma")]
    assert all(host.file(path).exists for path in rules)
    if host.run("udevadm verify --help").rc == 0:
        host.check_output(f"udevadm verify --no-summary {' '.join(rules)}")


LOST = {
    f"file {SYSCTL}": (f"rm {SYSCTL}", "none"),
    "file /etc/systemd/system/slurmd.service.d/60-bedplate-limits.conf": (
        "echo >>/etc/systemd/system/slurmd.service.d/60-bedplate-limits.conf",
        "changed",
    ),
    "unit bedplate-tuning.service": ("systemctl disable --quiet bedplate-tuning", "disabled"),
    "unit bedplate-rdma.service": ("systemctl disable --quiet bedplate-rdma", "disabled"),
    "boot loader": (f"sed -i 's/ audit=0//' {ENTRY}", f"other ones: {ENTRY}"),
    "limit nofile (hard) of PAM": (
        "sed -i '/hard nofile/d' /etc/security/limits.d/60-bedplate.conf",
        "the distribution's",
    ),
    "sysctl vm.overcommit_memory": (
        "echo vm.overcommit_memory=1 >/etc/sysctl.d/99-site.conf",
        "1, overridden by /etc/sysctl.d/99-site.conf:1",
    ),
    "NCCL_IB_TC in /etc/nccl.conf": ("sed -i /NCCL_IB_TC/d /etc/nccl.conf", "none"),
    "package perftest": ("apt-get -qq remove perftest", "not installed"),
}


@pytest.fixture
def hosts(request: pytest.FixtureRequest) -> list[Any]:
    """Return both nodes: a run over the two takes hardly longer than over one."""
    return [machine(request.config, name) for name in NODES]


@pytest.mark.full_in("nodes")
def test_what_is_taken_away_is_named_before_the_next_boot_and_a_run_brings_it_back(hosts):
    before = drift()
    assert not [name for name in NODES if set(LOST) & set(before[name])]
    for host in hosts:
        for command, _found in LOST.values():
            host.check_output(command)
    after = drift()
    for name in NODES:
        assert {setting: after[name][setting] for setting in LOST if setting in after[name]} == {
            setting: found for setting, (_command, found) in LOST.items()
        }
    for host in hosts:
        host.check_output("rm /etc/sysctl.d/99-site.conf")
    for playbook in ("tuning.yml", "rdma.yml"):
        done, counts = play(playbook)
        assert done.returncode == 0, done.stdout
        assert all(one["changed"] and not one["failed"] for one in counts), done.stdout
    assert drift() == before


def test_other_wishes_take_the_place_of_the_old_ones_and_no_wishes_leave_the_entry_as_it_was(hosts, other):
    done, counts = play("tuning.yml", cluster_file=other("hugepages: {2M: 8}", "hugepages: {2M: 4}"))
    assert done.returncode == 0, done.stdout
    assert all(one["changed"] for one in counts), done.stdout
    assert [options(host) for host in hosts] == [f"root=/dev/vda1 quiet {TOKENS.replace('1:8', '1:4')}"] * 2
    assert play("tuning.yml")[0].returncode == 0
    assert [options(host) for host in hosts] == [f"root=/dev/vda1 quiet {TOKENS}"] * 2


def test_a_node_that_is_not_to_be_managed_stays_as_it_is(hosts):
    before = [host.check_output(f"cat {ENTRY} {SYSCTL} | sha256sum") for host in hosts]
    done, counts = play("tuning.yml", more=('--extra-vars={"node_tuning_manage": false}',))
    assert (done.returncode, [one.get("changed") for one in counts]) == (0, [0, 0]), done.stdout
    assert [host.check_output(f"cat {ENTRY} {SYSCTL} | sha256sum") for host in hosts] == before
