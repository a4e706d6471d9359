"""Slurm from rpms under SchedMD's names, by the real dnf and rpm: packages, locks, users, units, and a job.

The machines are Debian's containers, dressed as an EL 9; the binaries in the rpms are Debian's.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from lab import scenario_run
from lab.paths import ROOT
from tests.kit.pyxis import inventory as pyxis_inventory

testinfra_hosts = ["local://"]

CLUSTER_FILE = Path(__file__).parents[1] / "slurm_dnf.bedplate.yml"
LOCKS = "/etc/dnf/plugins/versionlock.list"
PACKAGES = {
    "ctl1": {"slurm", "slurm-slurmctld", "slurm-slurmdbd", "slurm-slurmrestd"},
    "login1": {"slurm", "slurm-sackd"},
    "cpu01": {"slurm", "slurm-slurmd", "slurm-pam_slurm"},
}
UNITS = {
    "ctl1": ("munge", "mariadb", "slurmdbd", "slurmctld", "slurmrestd"),
    "login1": ("munge", "sackd"),
    "cpu01": ("munge", "slurmd"),
}
MACHINES = tuple(PACKAGES)
STATE = (
    "rpm -qa | sort; getent passwd slurm munge; sha256sum "
    + LOCKS
    + " $(find /etc/slurm /etc/default /etc/yum.repos.d -type f | sort)"
)


def on(machine: str, command: str) -> str:
    """Return what a command prints; it must succeed."""
    done = scenario_run.ssh("slurm_dnf", "root", machine, command)
    assert done.returncode == 0, f"{machine}: {command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("machine", MACHINES)
def test_rpms_of_one_version_are_installed_and_locked(machine):
    listed = on(machine, "rpm -qa --queryformat '%{NAME} %{VERSION}-%{RELEASE}\\n' 'slurm*'").splitlines()
    assert dict(line.split() for line in listed) == dict.fromkeys(PACKAGES[machine], "24.11.5-1.el9")
    locks = on(machine, f"cat {LOCKS}")
    for name in PACKAGES[machine]:
        assert re.search(rf"^{re.escape(name)}-0:24\.11\.5-1\.el9\.", locks, re.MULTILINE), locks


def test_packages_are_signed_and_their_list_too():
    text = on("cpu01", "cat /etc/yum.repos.d/bedplate-slurm.repo")
    for line in ("gpgcheck=1", "repo_gpgcheck=1", "gpgkey=http://10.215.25.10/slurm.asc"):
        assert f"\n{line}\n" in text
    assert "Signature" in on("cpu01", "rpm -qi slurm")


@pytest.mark.parametrize("machine", MACHINES)
def test_users_have_the_numbers_of_the_cluster_file(machine):
    assert on(machine, "id slurm").split()[:2] == ["uid=981(slurm)", "gid=981(slurm)"]
    # Made before the package of munge, which would have taken a free number.
    assert on(machine, "id munge").split()[:2] == ["uid=980(munge)", "gid=979(munge)"]
    assert {on(machine, f"getent passwd {name}").strip().split(":")[-1] for name in ("slurm", "munge")} == {
        "/usr/sbin/nologin"
    }


@pytest.mark.parametrize(("machine", "unit"), [(machine, unit) for machine, units in UNITS.items() for unit in units])
def test_units_run_and_start_at_boot(machine, unit):
    assert on(machine, f"systemctl is-active {unit}; systemctl is-enabled {unit}").split() == ["active", "enabled"]
    assert on(machine, f"rpm -qf /usr/lib/systemd/system/{unit}.service || true") if unit != "mariadb" else True


def test_directories_that_no_rpm_makes_are_slurms():
    for machine, path in (
        ("ctl1", "/var/lib/slurm/slurmctld"),
        ("ctl1", "/var/log/slurm"),
        ("cpu01", "/var/log/slurm"),
    ):
        assert on(machine, f"stat --format='%U %G %a' {path}") == "slurm slurm 755\n"
    assert on("cpu01", "stat --format='%U %G %a' /var/lib/slurm/slurmd") == "root root 755\n"


def test_the_database_reads_its_file_of_an_el():
    assert on("ctl1", "mariadb --batch --skip-column-names -e 'SELECT @@innodb_snapshot_isolation'") == "0\n"
    assert on("ctl1", "ls /etc/my.cnf.d").split() == ["60-bedplate-slurm.cnf", "bedplate-slurm.sql"]


def test_a_job_from_the_login_host_runs_and_is_accounted():
    assert on("login1", "srun --account=research hostname") == "cpu01\n"
    for _ in range(30):
        found = on("ctl1", "sacct --noheader --parsable2 --allocations --format=JobName,State,NodeList")
        if "hostname|COMPLETED|cpu01" in found.splitlines():
            return
        time.sleep(1)
    raise AssertionError(found)


def test_logins_on_a_node_join_jobs():
    lines = on("cpu01", "cat /etc/pam.d/sshd").splitlines()
    place = next(number for number, line in enumerate(lines) if re.match(r"account\s+include\s+password-auth", line))
    assert "account required pam_slurm_adopt.so" in lines[place + 1 : place + 6]
    assert on("cpu01", "id --user") == "0\n"


def test_an_upgrade_of_everything_changes_nothing():
    before = on("cpu01", "rpm -qa | sort")
    on("cpu01", "dnf --assumeyes --quiet --refresh upgrade")
    assert on("cpu01", "rpm -qa | sort") == before


def test_another_packaging_and_another_number_are_refused_and_change_nothing(tmp_path):
    before = {machine: on(machine, STATE) for machine in MACHINES}
    text = CLUSTER_FILE.read_text()
    path = tmp_path / "slurm_dnf.bedplate.yml"
    for old, new, expected in (
        ("{packaging: schedmd, manager: dnf}", "openhpc", "Another packaging"),
        ("slurm: {uid: 981}", "slurm: {uid: 982}", "expected uid 982"),
    ):
        assert old in text
        path.write_text(text.replace(old, new))
        done = scenario_run.run("slurm_dnf", ROOT / "playbooks/scheduler.yml", path)
        assert done.returncode != 0
        assert expected in " ".join((done.stdout + done.stderr).split()), done.stdout[-3000:]
        assert {machine: on(machine, STATE) for machine in MACHINES} == before


def test_verify_finds_nothing_and_a_lock_that_is_gone(tmp_path):
    file = tmp_path / "findings.json"

    def findings() -> set[tuple[str, str]]:
        scenario_run.run(
            "slurm_dnf", ROOT / "playbooks/verify.yml", CLUSTER_FILE, f"--extra-vars=verify_report_file={file}"
        )
        return {(one["machine"], one["where"]) for one in json.loads(file.read_text()) if one["kind"] != "not-checked"}

    assert findings() == set()
    on("cpu01", f"cp -p {LOCKS} /root/locks; dnf --quiet versionlock clear")
    try:
        assert ("cpu01", f"lines of slurm_compute.follow in {LOCKS}") in findings()
    finally:
        on("cpu01", f"cp -p /root/locks {LOCKS}")


def test_pyxis_is_compiled_against_the_headers_of_the_rpms(tmp_path):
    inventory = f"--inventory={pyxis_inventory(tmp_path)}"
    done = scenario_run.run("slurm_dnf", ROOT / "playbooks/scheduler.yml", CLUSTER_FILE, inventory)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert on("login1", "rpm -q --queryformat '%{VERSION}-%{RELEASE}' slurm-devel") == "24.11.5-1.el9"
    # Not loaded: login1 reads the controllers' plugstack.conf, as docs/containers.md says.
    record = json.loads(on("login1", "test -f /usr/local/lib/slurm/spank_pyxis.so && cat /var/lib/bedplate/pyxis.json"))
    assert record["slurm"] == "24.11.5"
